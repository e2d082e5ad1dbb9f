"""Base layer: the site of a study, a real or imagined cluster (docs/study-file.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from headrace.raid import MOST_CHUNK_BYTES, SMALLEST_CHUNK_BYTES, RaidLevel, check_drives
from headrace.units import (
    MOST_DRIVES,
    MOST_HOSTS,
    MOST_PORTS,
    Bytes,
    BytesPerS,
    Seconds,
    parse_bytes_per_s,
)

PageReclaim = Literal["two_lists", "workingset", "mglru"]
ReadAheadRules = Literal["on_demand", "two_windows", "large_folios"]
"""How a kernel chooses the file pages that it evicts."""

TcpRecovery = Literal["rack", "sack", "newreno"]
TcpCongestion = Literal["cubic", "reno"]
TcpRestart = Literal["timeout", "request"]

_PAGE_RECLAIM = (
    "simulated: how the kernel chooses the file pages that it evicts: two_lists (before Linux "
    "3.15), workingset (since; as 6.18) or mglru (the multi-generational LRU, where "
    "/sys/kernel/mm/lru_gen/enabled has its first bit set; as 6.18); the machine's when not given"
)
_READ_AHEAD_RULES = (
    "simulated: how the kernel reads ahead: two_windows (2.6.16 to 2.6.22), on_demand (since) or "
    "large_folios (since 6.16 on volumes with ext4 or XFS, on_demand on others; as 6.18); the "
    "machine's when not given"
)


MOST_CORES = 4096
"""Of a node or server."""


class Section(BaseModel):
    """Base of every table of a study file: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class RaidTuning(Section):
    """Options of a RAID by Linux md, or by a controller."""

    stripe_cache: int | None = Field(
        None,
        ge=16,
        le=32_768,
        description="md's stripe_cache_size with parity: pages of 4 KiB per drive; 256 when not "
        "given",
    )
    bitmap: Literal["none", "internal"] = Field(
        "none", description="md's write-intent bitmap: none, or on the drives themselves"
    )
    bitmap_chunk: Bytes | None = Field(
        None,
        ge=4096,
        description="bytes per bit of the bitmap, a power of two; 64 MiB when not given",
    )
    controller: str | None = Field(
        None, description="a RAID controller of the catalog in place of Linux md"
    )
    battery: bool | None = Field(
        None,
        description="the controller's cache has a battery; without one it writes through",
    )
    cache: Bytes | None = Field(
        None, ge=1 << 20, description="the controller's cache; as its entry says when not given"
    )

    def check_tuning(self, level: int) -> None:
        """Raise ValueError when options do not belong together."""
        if self.stripe_cache is not None and level not in (5, 6):
            raise ValueError(f"stripe_cache belongs to RAID 5 and 6 (given RAID {level})")
        if self.bitmap == "internal" and level == 0:
            raise ValueError("a bitmap needs a level with redundancy (given RAID 0)")
        if self.bitmap_chunk is not None:
            if self.bitmap == "none":
                raise ValueError('bitmap_chunk belongs to bitmap = "internal"')
            if self.bitmap_chunk & (self.bitmap_chunk - 1):
                raise ValueError(f"bitmap_chunk is a power of two (given {self.bitmap_chunk})")
        if self.controller is None:
            if self.battery is not None or self.cache is not None:
                raise ValueError("battery and cache are those of a controller: give controller")
        elif self.stripe_cache is not None or self.bitmap != "none":
            raise ValueError("stripe_cache and bitmap are md's: a controller has neither")

    @property
    def is_given(self) -> bool:
        """Whether any option differs from md's defaults."""
        return self.stripe_cache is not None or self.bitmap != "none" or self.controller is not None


class SiteDrive(RaidTuning):
    """Drives of one kind in a node or server."""

    drive: str
    count: int = Field(1, ge=1, le=MOST_DRIVES)
    raid: RaidLevel | None = Field(None, description="RAID level of several drives")
    chunk: Bytes | None = Field(
        None,
        ge=SMALLEST_CHUNK_BYTES,
        le=MOST_CHUNK_BYTES,
        multiple_of=SMALLEST_CHUNK_BYTES,
        description="bytes on one drive before the next one's turn",
    )

    @model_validator(mode="after")
    def _possible(self) -> SiteDrive:
        if self.raid is not None:
            check_drives(self.raid, self.count)
        if self.is_given and self.count == 1:
            raise ValueError("stripe_cache, bitmap and controller belong to several drives: count")
        self.check_tuning(self.raid or 0)
        return self


LEAST_LINK_BYTES_PER_S = 1000.0
"""Slowest link: over one much slower, a request takes longer than virtual time counts."""


def link_text(text: str) -> tuple[int, str, float | None]:
    """Return the ports of a link that is written as text, such as `4 x 1 GbE`, its name in the
    catalog, and the rate of a port where the text states one.

    Raises ValueError for a number of ports or a rate that no link has.
    """
    count, times, each = text.rpartition(" x ")
    ports = int(count) if count.strip().isdecimal() else 0
    if times and not 1 <= ports <= MOST_PORTS:
        raise ValueError(f'"{count}" is not a number of ports; allowed: 1 to {MOST_PORTS}')
    try:
        rate = parse_bytes_per_s(each)
    except ValueError:
        rate = None
    if rate is not None and rate < LEAST_LINK_BYTES_PER_S:
        raise ValueError("too slow a link; at least 1 kB/s")
    return (ports if times else 1), each.strip().lower().replace(" ", "-"), rate


def _is_link(link: str | SiteLink | None) -> str | SiteLink | None:
    """Return the link. Raises ValueError for a text that is none."""
    if isinstance(link, str):
        link_text(link)
    return link


class SiteLink(Section):
    """A network link."""

    rate: BytesPerS = Field(
        125e6,
        ge=LEAST_LINK_BYTES_PER_S,
        description="of one port, in each direction, with the headers of packets",
    )
    latency: Seconds = Field(
        0.0,
        ge=0,
        le=60,
        description="one way; measured links need the kernel's netem for it, 0 leaves the "
        "machine's own",
    )
    mtu: int = Field(
        1500, ge=576, le=65535, description="largest packet; the larger, the less headers take"
    )
    txqueuelen: int = Field(1000, ge=1, description="measured: packets that wait at an end of it")
    socket_buffer: Bytes | None = Field(
        None,
        ge=4096,
        description="bound on the buffers of every TCP socket; simulated, each request or reply "
        "moves at most this much per round trip; when not given, the kernel's (simulated: none)",
    )
    count: int = Field(
        1, ge=1, le=MOST_PORTS, description="ports that are bonded; measured: one link of their sum"
    )


class SiteNodes(Section):
    """`[site.node]`: the nodes that run jobs."""

    count: int = Field(1, ge=1, le=MOST_HOSTS)
    machine: str | None = Field(
        None,
        description="a machine of the catalog: cores, memory, power (simulated and priced, not "
        "built)",
    )
    cores: int | None = Field(
        None,
        ge=1,
        le=MOST_CORES,
        description="processors of a node; measured: that many of this machine's, shared when "
        "they run out",
    )
    memory: Bytes | None = Field(
        None,
        gt=0,
        description="memory of a node; measured: bounds jobs, clients and their page cache "
        "(needs root)",
    )
    drives: dict[str, str | SiteDrive] = Field(default_factory=dict[str, "str | SiteDrive"])
    link: Annotated[str | SiteLink | None, AfterValidator(_is_link)] = None
    page_reclaim: PageReclaim | None = Field(None, description=_PAGE_RECLAIM)
    read_ahead_rules: ReadAheadRules | None = Field(None, description=_READ_AHEAD_RULES)


class SiteSwitch(Section):
    """`[site] switch`: the switches of a cluster, of which only power is modelled."""

    switch: str | None = Field(None, description="a switch of the catalog")
    power: float | None = Field(
        None, ge=0, le=1e6, description="mean power of one in W, if not by `switch`"
    )
    count: int = Field(1, ge=1, le=MOST_HOSTS)

    @model_validator(mode="after")
    def _one_source(self) -> SiteSwitch:
        if (self.switch is None) == (self.power is None):
            raise ValueError("give either switch, a name of the catalog, or power in W")
        return self


class SiteServer(Section):
    """`[site.server.NAME]`: a file server."""

    machine: str | None = Field(
        None, description="a machine of the catalog (simulated and priced, not built)"
    )
    cores: int | None = Field(
        None, ge=1, le=MOST_CORES, description="measured: processors that it may use"
    )
    memory: Bytes | None = Field(
        None, gt=0, description="measured: memory of the server with its page cache (needs root)"
    )
    link: Annotated[str | SiteLink | None, AfterValidator(_is_link)] = Field(
        None,
        description='"1 GbE", "4 x 1 GbE", or a table; measured: as the nodes have it when not '
        "given",
    )
    count: int = Field(1, ge=1, le=MOST_HOSTS)
    drives: dict[str, str | SiteDrive] = Field(default_factory=dict[str, "str | SiteDrive"])
    virtual: bool = False
    page_reclaim: PageReclaim | None = Field(None, description=_PAGE_RECLAIM)
    read_ahead_rules: ReadAheadRules | None = Field(None, description=_READ_AHEAD_RULES)
    upstream: str | None = Field(
        None,
        description="simulated: the [site.server.NAME] that this one is a client of; it keeps what "
        "it fetched in memory, and on its first drive if it has `drives` (XCache)",
    )


_CREATE = (
    "CPU time to create and to remove a file or directory on a node, as a multiple of the model's"
)


class TargetCalibration(Section):
    """`[site.calibration.target.NAME]`: learnt values of a target's drives, network and server.

    A value that is not given stays as the catalog has it.
    """

    drive_read: Seconds | None = Field(
        None, ge=0, le=60, description="time that the drive's controller takes for a read"
    )
    drive_write: Seconds | None = Field(
        None, ge=0, le=60, description="time that the drive's controller takes for a write (SSDs)"
    )
    drive_rate: BytesPerS | None = Field(
        None,
        ge=LEAST_LINK_BYTES_PER_S,
        description="of an SSD's link; of a disk's outermost zone, the others with it",
    )
    beside_job: Seconds | None = Field(
        None,
        ge=0,
        le=60,
        description="CPU time that the system of a node, and servers on it, spend for each job "
        "beside the job's own process and its requests",
    )
    beside_request: Seconds | None = Field(
        None,
        ge=0,
        le=60,
        description="CPU time that the system of a node spends beside the jobs for each request of "
        "its drives, and for each that it sends to a server",
    )
    network_latency: Seconds | None = Field(
        None, ge=0, le=60, description="one way, of each port between nodes and servers"
    )
    network_rate: BytesPerS | None = Field(
        None, ge=LEAST_LINK_BYTES_PER_S, description="of each port of nodes and servers"
    )
    server_request: Seconds | None = Field(
        None, ge=0, le=60, description="CPU time of a request on a data server"
    )
    server_rate: BytesPerS | None = Field(
        None,
        ge=LEAST_LINK_BYTES_PER_S,
        description="bytes that a core of a data server handles in a second",
    )
    client_request: Seconds | None = Field(
        None, ge=0, le=60, description="CPU time of a request on the client, charged to the job"
    )
    client_delay: Seconds | None = Field(
        None,
        ge=0,
        le=60,
        description="delay of a request on the client that takes no CPU of the job",
    )
    client_start: Seconds | None = Field(
        None,
        ge=0,
        le=3600,
        description="wait of a process until its client of the service has started, connected and "
        "logged in, before the first file is opened",
    )
    client_start_cpu: Seconds | None = Field(
        None, ge=0, le=3600, description="CPU time of that, charged to the job"
    )
    server_open: Seconds | None = Field(
        None, ge=0, le=60, description="time of a metadata server for each request of an open"
    )
    create: float | None = Field(None, ge=0.001, le=1000, description=_CREATE)
    open_round_trips: int | None = Field(
        None, ge=1, le=1000, description="requests, one after the other, that open a file"
    )


def value_at(options: object, field: str) -> object:
    """Return an option by its dotted name (`data.format`), or None where there is none."""
    found = options
    for name in field.split("."):
        found = getattr(found, name, None)
    return found


def has_field(options: object, field: str) -> bool:
    """Return whether options have one with this dotted name."""
    *above, last = field.split(".")
    return hasattr(value_at(options, ".".join(above)) if above else options, last)


_Learnt = float | dict[str, float] | dict[str, dict[str, dict[str, float]]]


def _leaves(given: object, name: str = "") -> Iterator[tuple[str, float]]:
    """Yield the numbers of a table, however deep, with their dotted names."""
    if isinstance(given, float):
        yield name, given
    elif isinstance(given, dict):
        for key, value in cast("dict[str, object]", given).items():
            yield from _leaves(value, f"{name}.{key}" if name else key)


OF_CODE = ("cpu_of", "busy_core_slowdown_of")
"""Tables of `[site.calibration]` with values for each workload, field and word."""
OF_WORKLOADS = ("cpu", "cpu_spread", "busy_core_slowdown", "cache_reload", *OF_CODE)
"""Tables of `[site.calibration]` with values for each workload."""


class SiteCalibration(Section):
    """`[site.calibration]`: values learnt by `headrace calibrate`, used by simulations alone."""

    cpu: dict[str, float] = Field(
        default_factory=dict[str, float],
        description="workload = CPU time of its jobs, as a multiple of the model's",
    )
    cpu_of: dict[str, dict[str, dict[str, float]]] = Field(
        default_factory=dict[str, dict[str, dict[str, float]]],
        description="workload.field.word = CPU time of jobs that have this word for a field of "
        'their workload (`data.format = "rntuple"`), as a multiple of that of others',
    )
    cpu_spread: dict[str, float] = Field(
        default_factory=dict[str, float],
        description="workload = by which share the CPU times of its jobs differ: each job's is "
        "multiplied by a factor drawn uniformly from 1 - share to 1 + share",
    )
    call: Seconds | None = Field(
        None, ge=0, le=60, description="CPU time of a read or write call on a node"
    )
    copy_rate: BytesPerS | None = Field(
        None,
        ge=LEAST_LINK_BYTES_PER_S,
        description="bytes that a node's core copies from its page cache in a second",
    )
    create: float | None = Field(
        None,
        ge=0.001,
        le=1000,
        description=f"{_CREATE}; of targets that have no value of their own",
    )
    busy_core_slowdown: float | dict[str, float] = Field(
        default_factory=dict[str, float],
        description="workload = how much slower a core is when all others are busy (shared "
        "threads of a core, caches, memory, clock rate); a number: of all workloads",
    )
    busy_core_slowdown_of: dict[str, dict[str, dict[str, float]]] = Field(
        default_factory=dict[str, dict[str, dict[str, float]]],
        description="workload.field.word = busy_core_slowdown of jobs that have this word for a "
        "field of their workload, in place of the workload's",
    )
    cache_reload: dict[str, Seconds] = Field(
        default_factory=dict[str, Seconds],
        description="workload = time in which a job loads again what it had in a core's caches, "
        "if all of it was displaced while it waited for the core or for storage",
    )
    target: dict[str, TargetCalibration] = Field(default_factory=dict[str, TargetCalibration])

    @field_validator("cpu", "cpu_of")
    @classmethod
    def _multiples(cls, given: _Learnt) -> _Learnt:
        for name, value in _leaves(given):
            if not 0.001 <= value <= 1000:
                raise ValueError(f"{name} = {value:g}; allowed: 0.001 to 1000")
        return given

    @field_validator("cpu_spread", "busy_core_slowdown", "busy_core_slowdown_of")
    @classmethod
    def _shares(cls, given: _Learnt) -> _Learnt:
        for name, value in _leaves(given):
            if not 0 <= value < 1:
                raise ValueError(f"{name and f'{name} = '}{value:g}; allowed: 0 to below 1")
        return given

    @field_validator("cache_reload")
    @classmethod
    def _times(cls, given: dict[str, float]) -> dict[str, float]:
        for name, value in given.items():
            if not 0 <= value <= 1:
                raise ValueError(f"{name} = {value:g} s; allowed: 0 to 1 s")
        return given

    def cpu_of_jobs(self, workload: str, options: object) -> float:
        """Return the CPU time of a workload's jobs with these options, as a multiple of the
        model's."""
        times = self.cpu.get(workload, 1.0)
        for name, words in self.cpu_of.get(workload, {}).items():
            times *= words.get(str(value_at(options, name)), 1.0)
        return times

    def slowdown_of_jobs(self, workload: str, options: object) -> float | None:
        """Return how much slower a core is for a workload's jobs with these options when all others
        are busy, if learnt."""
        given = self.busy_core_slowdown
        usual = given.get(workload) if isinstance(given, dict) else given
        own = [
            words[word]
            for name, words in self.busy_core_slowdown_of.get(workload, {}).items()
            if (word := str(value_at(options, name))) in words
        ]
        if not own:
            return usual
        # What each word changes adds up.
        base = usual or 0.0
        return min(max(base + sum(each - base for each in own), 0.0), 0.99)


class SiteTcp(Section):
    """`[site.tcp]`: simulated: how connections get up to speed, and what switches hold."""

    initial_window: int = Field(
        10, ge=1, le=1000, description="packets of a connection's first window (RFC 6928)"
    )
    rto_min: Seconds = Field(
        0.2, gt=0, le=120, description="shortest retransmission timeout (Linux: 200 ms)"
    )
    port_buffer: Bytes | None = Field(
        None,
        ge=1500,
        description="bytes that may wait at a port of a switch; any number when not given",
    )
    recovery: TcpRecovery = Field(
        "rack",
        description="how a connection finds what a port dropped: rack (RFC 8985, with tail loss "
        "probes; Linux since 4.18), sack (RFC 6675; Linux before 3.10) or newreno (RFC 6582)",
    )
    congestion: TcpCongestion = Field(
        "cubic",
        description="how a window grows after slow start: cubic (RFC 9438; Linux since 2.6.19) or "
        "reno (RFC 5681)",
    )
    delayed_ack: Seconds | None = Field(
        None,
        gt=0,
        le=1,
        description="how long a receiver keeps the acknowledgement of a packet, unless a second "
        "one arrives (RFC 5681; Linux: 40 ms); each packet is acknowledged at once when not given",
    )
    restart: TcpRestart = Field(
        "timeout",
        description="what an idle connection begins its next request with: timeout, its window, "
        "halved for each timeout of silence (RFC 2861; Linux), or request, the first window",
    )


class SiteLeaf(Section):
    """`[site.leaf]`: simulated: switches between the nodes and the core switch."""

    nodes: int = Field(ge=1, le=MOST_HOSTS, description="nodes at each leaf switch")
    uplink: BytesPerS = Field(
        ge=LEAST_LINK_BYTES_PER_S,
        description="of all links of a leaf to the core switch together, in each direction, with "
        "the headers of packets",
    )


class Site(Section):
    """`[site]`: nodes, servers, links, power of a real or imagined cluster."""

    one_machine: bool = Field(
        False,
        description="simulated: nodes and servers use the cores of one machine, those of a node, "
        "as they do when this machine measures them",
    )
    node: SiteNodes = Field(default_factory=lambda: SiteNodes.model_validate({}))
    server: dict[str, SiteServer] = Field(default_factory=dict[str, SiteServer])
    tcp: SiteTcp | None = Field(
        None,
        description="simulated: windows of connections and buffers of switches; flows have their "
        "fair rate at once when not given",
    )
    leaf: SiteLeaf | None = Field(
        None,
        description="simulated: nodes are at leaf switches and share their uplinks; servers are at "
        "the core switch, which has no limit of its own",
    )
    switch: str | SiteSwitch | None = Field(
        None, description="switches: a name of the catalog, or a table with `power`, `count`"
    )
    pue: float = Field(
        1.0, ge=1, le=100, description="power usage effectiveness: all power over IT power"
    )
    co2: float | None = Field(
        None, ge=0, le=10_000, description="grams of CO2 per kWh of electricity"
    )
    calibration: SiteCalibration | None = Field(
        None, description="simulated: values learnt by headrace calibrate"
    )

    @property
    def stated_pue(self) -> float | None:
        """The power usage effectiveness if the study states one."""
        return self.pue if "pue" in self.model_fields_set else None

    @model_validator(mode="after")
    def _upstreams_end(self) -> Site:
        for name in self.server:
            self.upstreams(name)
        return self

    def upstreams(self, name: str) -> tuple[str, ...]:
        """Return the names of a server, its upstream, and so on to the server that stores the data.
        Raises ValueError for an unknown name or a circle."""
        chain = [name]
        while (upstream := self.server[chain[-1]].upstream) is not None:
            if upstream not in self.server:
                raise ValueError(
                    f"server.{chain[-1]}.upstream: there is no [site.server.{upstream}]; "
                    f"there are: {', '.join(self.server)}"
                )
            if upstream in chain:
                raise ValueError(
                    f"server.{chain[-1]}.upstream: a circle of servers "
                    f"({' -> '.join([*chain, upstream])}); allowed: upstreams that end at a server "
                    "without one"
                )
            chain.append(upstream)
        return tuple(chain)
