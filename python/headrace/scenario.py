"""Base layer: the scenario that the simulator runs, as the JSON that it reads.

The fields are those of `Scenario` in crates/simulator, which checks them and holds the defaults of
those that are not required here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NotRequired, Required, TypedDict

Access = Literal["buffered", "mapped", "direct"]
Direction = Literal["read", "write"]
Share = Literal["each", "shared", "new"]

Table = dict[str, object]
"""A table of the catalog that only the core reads: a filesystem's state, a tuning."""


class RaidSpec(TypedDict):
    """A RAID of equal drives (crates/model, `RaidSpec`)."""

    level: int
    drives: int
    chunk_bytes: int
    stripe_cache_bytes: NotRequired[int]
    bitmap_chunk_bytes: NotRequired[int]
    controller: NotRequired[Mapping[str, object]]


class DriveQueue(TypedDict):
    """A disk's command queue."""

    depth: NotRequired[int]


class DriveBuffer(TypedDict):
    """A disk's buffer."""

    write_cache_bytes: NotRequired[int]


class DriveSpec(TypedDict):
    """A drive of the catalog (crates/model, `DriveSpec`): the fields that are read in Python."""

    name: NotRequired[str]
    about: NotRequired[str]
    kind: str
    capacity_bytes: int
    rotation_rpm: NotRequired[float]
    queue: NotRequired[DriveQueue]
    buffer: NotRequired[DriveBuffer]
    queue_depth: NotRequired[int]
    write_buffer_bytes: NotRequired[int]
    trim: NotRequired[bool]


class DriveFaultSpec(TypedDict):
    """A fault of the drives of a volume (crates/model, `FaultSpec`)."""

    fault: Mapping[str, object]
    from_s: float
    until_s: NotRequired[float]
    drive: NotRequired[int]
    probability: NotRequired[float]
    first_sector: NotRequired[int]
    sectors: NotRequired[int]
    only: NotRequired[str]
    at_most: NotRequired[int]


class StorageSpec(TypedDict):
    """A drive, or a RAID of drives (crates/model, `StorageSpec`)."""

    drives: list[DriveSpec]
    raid: NotRequired[RaidSpec]
    faults: NotRequired[list[DriveFaultSpec]]


class VolumeSpec(TypedDict):
    """A volume of a host: exactly one of `storage` and `ideal`."""

    name: str
    filesystem: Table
    size_bytes: NotRequired[int]
    storage: NotRequired[StorageSpec]
    ideal: NotRequired[Mapping[str, object]]
    scheduler: NotRequired[str]
    read_ahead_bytes: NotRequired[int]
    large_read_bytes: NotRequired[int]
    queue_depth: NotRequired[int]
    max_request_bytes: NotRequired[int]


class Port(TypedDict):
    """A host's network port. Rates are of data, without headers."""

    rate_bytes_per_s: float
    latency_ns: int
    flow_bytes_per_s: NotRequired[float]
    socket_buffer_bytes: NotRequired[int]
    transmit_queue_packets: NotRequired[int]


class Machine(TypedDict):
    """What an entry of the catalog's shelf `nodes` says of a host."""

    cores: int
    memory_bytes: int
    cpu_speed: NotRequired[float]
    memory_reserved_bytes: NotRequired[int]
    call_ns: NotRequired[int]
    create_ns: NotRequired[int]
    remove_ns: NotRequired[int]
    beside_job_ns: NotRequired[int]
    beside_request_ns: NotRequired[int]
    copy_bytes_per_s: NotRequired[float]
    write_copy_bytes_per_s: NotRequired[float]
    first_touch_bytes_per_s: NotRequired[float]
    writeback: NotRequired[Mapping[str, object]]
    read_ahead: NotRequired[str]
    page_reclaim: NotRequired[str]
    sharing: NotRequired[Mapping[str, object]]
    power: NotRequired[Mapping[str, object]]


class HostSpec(Machine):
    """A machine, or `count` equal ones."""

    name: str
    count: int
    network: Port
    volumes: NotRequired[list[VolumeSpec]]
    virtualisation: NotRequired[Mapping[str, object]]


class CacheTuning(TypedDict, total=False):
    """How a server with an upstream caches."""

    block_bytes: int
    prefetch_blocks: int


class Cache(CacheTuning):
    """The cache of a server with an upstream, on a volume of its host."""

    volume: Required[str]


class DataServer(TypedDict):
    """A server of a file service: it stores on a volume, or passes on what an upstream stores."""

    host: str
    volume: NotRequired[str]
    upstream: NotRequired[str]
    cache: NotRequired[Cache]


class MetadataServers(TypedDict):
    """The metadata servers of a file service: all hosts of that name, and a volume of each."""

    host: str
    volume: str


class ServiceSpec(TypedDict):
    """A file service."""

    name: str
    kind: str
    targets: list[DataServer]
    tuning: Mapping[str, object]
    metadata: NotRequired[MetadataServers]


class FileSet(TypedDict):
    """A set of files, of a job: `on` is `target`, `source` (the workload's own server) or `node`
    (the node's first drive).

    `count` is for the whole site; 0 means one file per slot.
    """

    name: str
    on: Literal["target", "source", "node"]
    bytes: NotRequired[int]
    count: NotRequired[int]
    share: Share
    keep: NotRequired[bool]


class PlacedFileSet(TypedDict):
    """A set of files with its place in the scenario: a volume of the nodes, or a service."""

    name: str
    on: dict[str, str]
    bytes: NotRequired[int]
    count: NotRequired[int]
    share: Share
    keep: NotRequired[bool]
    in_turn: NotRequired[bool]


class Compute(TypedDict):
    """Use a core."""

    do: Literal["compute"]
    cpu_ns: int


class Wait(TypedDict):
    """Sleep."""

    do: Literal["wait"]
    wait_ns: int


class Memory(TypedDict):
    """Hold this much memory besides the profile's from now on."""

    do: Literal["memory"]
    bytes: int


class OnFile(TypedDict):
    """An operation on a file as a whole."""

    do: Literal["open", "close", "stat", "create", "delete", "fsync", "take"]
    file: str


class Resize(TypedDict):
    """Set a file's size or allocate space; only a replay runs it."""

    do: Literal["truncate", "allocate", "reserve"]
    file: str
    offset_bytes: int
    length_bytes: int


class Transfer(TypedDict):
    """Read or write one range; a write without an offset appends."""

    do: Literal["read", "write"]
    file: str
    offset_bytes: NotRequired[int | None]
    length_bytes: int
    access: NotRequired[Access]
    hold: NotRequired[bool]


class ReadVector(TypedDict):
    """Read several ranges, in one request if the service supports it."""

    do: Literal["read-vector"]
    file: str
    ranges_bytes: Sequence[Sequence[int]]


class Order(TypedDict):
    """The order in which a pattern accesses its span."""

    kind: Literal[
        "sequential", "strided", "random", "permuted", "shuffled", "clustered", "scattered"
    ]
    stride_bytes: NotRequired[int]
    window_bytes: NotRequired[int]


class Pattern(TypedDict):
    """Accesses of one size in a span, with CPU work before each."""

    do: Literal["pattern"]
    file: str
    op: NotRequired[Direction]
    count: int
    length_bytes: int
    order: NotRequired[Order]
    cpu_ns: NotRequired[int]
    offset_bytes: NotRequired[int]
    span_bytes: NotRequired[int]
    parts: NotRequired[int]
    access: NotRequired[Access]
    vector: NotRequired[int]
    ahead: NotRequired[int]
    events: NotRequired[int]
    uncompressed_bytes: NotRequired[int]
    hold: NotRequired[bool]


class Events(TypedDict):
    """Read the events of a file that is organised in clusters."""

    do: Literal["events"]
    file: str
    events: int
    events_per_cluster: int
    reads_per_cluster: int
    read_bytes: int
    cpu_ns_per_event: int
    vector: NotRequired[int]
    uncompressed_bytes_per_event: NotRequired[int]
    skip_fraction: NotRequired[float]
    unordered: NotRequired[bool]
    access: NotRequired[Access]
    ahead: NotRequired[int]


class AccessList(TypedDict):
    """Reads or writes at given positions, with CPU work and sleep before each."""

    do: Literal["sequence"]
    file: str
    op: NotRequired[Direction]
    ranges_bytes: Sequence[Sequence[int]]
    cpu_ns: NotRequired[list[int]]
    wait_ns: NotRequired[list[int]]
    cpu_after_ns: NotRequired[int]
    vector: NotRequired[int]
    access: NotRequired[Access]
    ahead: NotRequired[int]
    events: NotRequired[int]
    uncompressed_bytes: NotRequired[int]
    first_event: NotRequired[int]
    new_file: NotRequired[bool]


class Requests(TypedDict):
    """Requests of one size with several in flight, as in fio."""

    do: Literal["requests"]
    file: str
    count: NotRequired[int]
    duration_ns: NotRequired[int]
    length_bytes: int
    order: NotRequired[Order]
    in_flight: NotRequired[int]
    read_fraction: NotRequired[float]
    cpu_ns: NotRequired[int]
    span_bytes: NotRequired[int]
    access: NotRequired[Access]


class Repeat(TypedDict):
    """Repeat steps."""

    do: Literal["repeat"]
    times: int
    steps: list[Step]


class Parallel(TypedDict):
    """Let threads of the job share parts of its work."""

    do: Literal["parallel"]
    threads: int
    begin: NotRequired[list[Step]]
    parts: list[list[Step]]


Stage = TypedDict(
    "Stage",
    {
        "do": Literal["stage"],
        "from": str,
        "to": str,
        "chunk_bytes": NotRequired[int],
        "background": NotRequired[bool],
    },
)
"""Copy the next file of one set to a new file of another."""


Step = (
    Compute
    | Wait
    | Memory
    | OnFile
    | Resize
    | Transfer
    | ReadVector
    | Pattern
    | Events
    | AccessList
    | Requests
    | Repeat
    | Parallel
    | Stage
)
"""One step of a job."""


class Profile(TypedDict):
    """The work of a job."""

    name: str
    memory_bytes: int
    steps: Sequence[Step]


class Packets(TypedDict):
    """How a master process hands out packets of events."""

    file: str
    events_per_file: int
    events: NotRequired[int]
    first_events: int
    target_ns: int
    min_events: int
    max_events: int
    master_ns: NotRequired[int]
    round_trip_ns: NotRequired[int]


class PacketRules(TypedDict):
    """How the master of real runs chooses packets."""

    split: Literal["adaptive", "static"]
    shortest_ns: int
    longest_ns: int
    cluster_events: int
    workers_per_server: int | None


class Feed(Packets):
    """Jobs that are fed by packets."""

    kind: Literal["packets"]
    rules: NotRequired[PacketRules]


class Batch(TypedDict):
    """A fixed number of jobs."""

    kind: Literal["batch"]
    jobs: int


class Sustained(TypedDict):
    """Slots are refilled until the time is over."""

    kind: Literal["sustained"]
    duration_ns: int


class RunSettings(TypedDict, total=False):
    """Settings of a run that a profile can give."""

    nodes: list[str]
    assign: Literal["pull", "static"]
    stagger_ns: int
    dispatch_ns: int
    cpu_spread: float
    cpu_variation: float
    pcache_bytes: int
    timeout_ns: int
    fail_on_error: bool


class RunSpec(RunSettings):
    """Settings of a run."""

    profile: str
    slots_per_node: int
    job_memory_limit_bytes: NotRequired[int]
    load: Batch | Sustained
    feed: NotRequired[Feed]


class HostFault(TypedDict):
    """A fault of a host (`FaultSpec` of the simulator)."""

    at_ns: int
    for_ns: int
    host: str
    what: Mapping[str, object]


class Power(TypedDict):
    """Power that the site adds to that of its machines."""

    pue: float
    switch_w: float


class Tcp(TypedDict):
    """Connections of the network, and what a switch's port holds (0: any number)."""

    initial_window_packets: int
    min_rto_ns: int
    port_buffer_bytes: int
    recovery: str
    congestion: str
    mtu_bytes: NotRequired[int]
    delayed_ack_ns: NotRequired[int]
    restart: NotRequired[str]


class Leaves(TypedDict):
    """Leaf switches of the nodes, which share an uplink to the core switch."""

    nodes: int
    uplink_bytes_per_s: float


class Observe(TypedDict):
    """What is recorded besides the results of jobs."""

    series_interval_ns: int
    histograms: bool


class Scenario(TypedDict):
    """A cell of a study, ready to simulate."""

    name: str
    seed: int
    cache: Literal["warm", "cold"]
    one_machine: NotRequired[bool]
    nodes: list[HostSpec]
    servers: list[HostSpec]
    services: list[ServiceSpec]
    files: list[PlacedFileSet]
    profiles: list[Profile]
    run: RunSpec
    power: Power
    tcp: NotRequired[Tcp]
    leaves: NotRequired[Leaves]
    observe: Observe
    faults: NotRequired[list[HostFault]]
