"""Engine `simulate`: convert a cell of a study to a scenario (crates/simulator, `Scenario`)."""

from __future__ import annotations

from fractions import Fraction
from typing import TypeVar

from headrace import targets as target_package
from headrace import workloads as workload_package
from headrace.engine.packet_sizes import first_events
from headrace.engine.simulate.calibrated import calibrated
from headrace.engine.simulate.faults import inject
from headrace.engine.simulate.growth import grown, more
from headrace.engine.site_energy import switch_power_w
from headrace.errors import HeadraceError
from headrace.scenario import (
    Batch,
    Feed,
    FileSet,
    HostSpec,
    PlacedFileSet,
    RunSpec,
    Scenario,
    ServiceSpec,
    Sustained,
)
from headrace.site import Site
from headrace.study.model import RunOptions
from headrace.study.resolve import Resolved
from headrace.targets import ModelledStorage
from headrace.targets.links import DEFAULT_MTU, ETHERNET_BYTES, data_share, link_rate
from headrace.targets.scenario import host, site_volume
from headrace.units import MOST_FILE_BYTES, format_bytes
from headrace.workloads import ModelledJob

NODE = "node"
"""Name of the hosts that run jobs."""
DEFAULT_RESERVED_BYTES = 256 << 20
"""Memory of the system where the machine's table does not say."""
DEFAULT_MACHINE = "generic-node"
"""Machine of a study without `[site]`."""


def scenario_of(
    resolved: Resolved,
    target_name: str,
    workload_name: str,
    seed: int,
    *,
    series_interval_ns: int = 0,
    of_nodes: int | None = None,
) -> Scenario:
    """Return the scenario of a cell. Raises HeadraceError or StudyError if a part has no model.

    With `of_nodes`, the data and jobs of the options are those of so many nodes: with more nodes
    there are more of them, in proportion.
    """
    target = target_package.kinds()[resolved.target_kind](target_name, resolved.target_options)
    workload = workload_package.kinds()[resolved.workload_kind](
        workload_name, resolved.workload_options
    )
    stored = target.model(resolved.site)
    workload.fed_by_packets = resolved.run.feed == "packets"
    job = workload.profile(resolved.site)
    _check_sizes(job, workload_name)
    node = _node(resolved, stored)
    growth = Fraction(node["count"], of_nodes or node["count"])
    job = grown(job, growth)
    run = _run(resolved, job, node["count"], growth)
    made: Scenario = {
        "name": f"{workload_name} on {target_name}",
        "seed": seed,
        "cache": "warm" if resolved.run.cache == "warm" else "cold",
        "nodes": [node],
        "servers": [*stored.servers, *_new(job.servers, stored.servers)],
        "services": [*stored.services, *_new(job.services, stored.services)],
        "files": [_file_set(each, stored, job, node, resolved.run) for each in job.files],
        "profiles": [{"name": "job", "memory_bytes": job.memory_bytes, "steps": job.steps}],
        "run": run,
        "power": {
            "pue": resolved.site.pue if resolved.site is not None else 1.0,
            "switch_w": switch_power_w(resolved.site) or 0.0,
        },
        "observe": {"series_interval_ns": series_interval_ns, "histograms": False},
    }
    if resolved.site is not None and resolved.site.calibration is not None:
        made = calibrated(
            made,
            resolved.site.calibration,
            target_name,
            workload_name,
            resolved.workload_options,
        )
    if resolved.site is not None:
        _network(made, resolved.site)
    for each in (*made["nodes"], *made["servers"]):
        _read_large(each)
    inject(made, resolved, target, dict(stored.place))
    return made


def _check_sizes(job: ModelledJob, workload: str) -> None:
    """Raise HeadraceError for a file whose pages the core cannot count."""
    for each in job.files:
        if (size := each.get("bytes", 0)) > MOST_FILE_BYTES:
            raise HeadraceError(
                f"workload {workload}: its files {each['name']!r} have {format_bytes(size)}",
                hint=f"files of {format_bytes(MOST_FILE_BYTES)} at most",
            )


def _network(made: Scenario, site: Site) -> None:
    """Set what the site says of the machine, connections and switches."""
    if site.one_machine:
        made["one_machine"] = True
        if (rules := site.node.read_ahead_rules) is not None:
            for server in made["servers"]:
                server.setdefault("read_ahead", rules)
    if (tcp := site.tcp) is not None:
        made["tcp"] = {
            "initial_window_packets": tcp.initial_window,
            "min_rto_ns": round(tcp.rto_min * 1e9),
            "port_buffer_bytes": tcp.port_buffer or 0,
            "recovery": tcp.recovery,
            "congestion": tcp.congestion,
        }
        if tcp.delayed_ack is not None:
            made["tcp"]["delayed_ack_ns"] = round(tcp.delayed_ack * 1e9)
        if tcp.restart != "timeout":
            made["tcp"]["restart"] = tcp.restart
        if (mtu := _least_mtu(site)) != DEFAULT_MTU:
            made["tcp"]["mtu_bytes"] = mtu
    if (leaf := site.leaf) is not None:
        share = data_share(link_rate(site.node.link).mtu, ETHERNET_BYTES)
        made["leaves"] = {"nodes": leaf.nodes, "uplink_bytes_per_s": leaf.uplink * share}


def _least_mtu(site: Site) -> int:
    """Return the largest packet that all links carry, to which connections agree."""
    links = [site.node.link, *(server.link for server in site.server.values())]
    return min(link_rate(link).mtu for link in links)


_Part = TypeVar("_Part", HostSpec, ServiceSpec)


def _new(parts: tuple[_Part, ...], there: tuple[_Part, ...]) -> list[_Part]:
    """Return the workload's servers and services that the target does not define already."""
    names = {part["name"] for part in there}
    return [part for part in parts if part["name"] not in names]


def nodes_of(resolved: Resolved) -> int:
    """Return the number of nodes that run jobs."""
    if resolved.site is None or "nodes" in resolved.run.model_fields_set:
        return resolved.run.nodes
    return resolved.site.node.count


def _node(resolved: Resolved, stored: ModelledStorage) -> HostSpec:
    site = resolved.site
    count = nodes_of(resolved)
    if site is None:
        made = host(NODE, DEFAULT_MACHINE, None, count)
        _limit_memory(made, resolved.run)
        made["volumes"] = list(stored.node_volumes)
        return made
    described = site.node
    machine = described.machine or DEFAULT_MACHINE
    made = host(
        NODE,
        machine,
        described.link,
        count,
        described.page_reclaim,
        described.read_ahead_rules,
    )
    if described.cores is not None:
        made["cores"] = described.cores
    if described.memory is not None:
        made["memory_bytes"] = described.memory
    _limit_memory(made, resolved.run)
    taken = {stored.site_drive, *(volume["name"] for volume in stored.node_volumes)}
    made["volumes"] = [
        *stored.node_volumes,
        *(
            # They draw power, and files "on the node" are on the first one.
            site_volume(name, drive)
            for name, drive in described.drives.items()
            if name not in taken
        ),
    ]
    return made


LARGE_READ_BYTES = 1280 << 10
"""Largest request of a drive's queue (max_sectors_kb): BLK_DEF_MAX_SECTORS of Linux since 4.4."""


def _read_large(machine: HostSpec) -> None:
    """Let the kernel of a machine read what one call asks for in requests of that size, however
    small the read-ahead is: since 4.10 (`bdi->io_pages` in mm/readahead.c), and so wherever it
    reads ahead in large folios."""
    if machine.get("read_ahead") == "large_folios":
        for volume in machine.get("volumes", ()):
            volume.setdefault("large_read_bytes", LARGE_READ_BYTES)


def _limit_memory(node: HostSpec, run: RunOptions) -> None:
    """Give jobs and their page cache no more memory than the study allows them.

    In a control group of its own, the limit is what reclaim and dirty limits refer to, as all
    memory is on a machine without other processes.
    """
    if run.memory_limit is not None:
        reserved = node.setdefault("memory_reserved_bytes", DEFAULT_RESERVED_BYTES)
        node["memory_bytes"] = min(node["memory_bytes"], reserved + run.memory_limit)


def _file_set(
    files: FileSet,
    stored: ModelledStorage,
    job: ModelledJob,
    node: HostSpec,
    run: RunOptions,
) -> PlacedFileSet:
    count = files.get("count")
    if count == 0:
        count = run.slots * node["count"]
    packets = _like_real_runs(run, job)
    place: dict[str, str]
    if files["on"] == "target":
        place = dict(stored.place)
    elif files["on"] == "source":
        place = {"service": str(job.source)}
    else:
        own = [volume["name"] for volume in node.get("volumes", ())]
        if not own:
            raise HeadraceError(
                "the job writes on its node, and the nodes have no drive: give [site.node] drives"
            )
        place = {"volume": own[0]}
    if "volume" in place and files["share"] == "each" and not packets:
        # Local files: each node holds its share of the site's files.
        count = max(1, -(-(count or 1) // node["count"]))
    made: PlacedFileSet = {**files, "on": place}
    if count is not None:
        made["count"] = count
    if packets and stored.in_turn and files["on"] == "target":
        made["in_turn"] = True
    return made


def _run(resolved: Resolved, job: ModelledJob, nodes: int, growth: Fraction) -> RunSpec:
    options = resolved.run
    load: Batch | Sustained
    if options.load == "sustained" and options.jobs is None:
        load = {"kind": "sustained", "duration_ns": round((options.duration or 30.0) * 1e9)}
    else:
        jobs = options.slots * nodes
        if options.load == "sustained" and options.jobs:
            jobs = more(options.jobs, growth)
        load = {"kind": "batch", "jobs": jobs}
    made: RunSpec = {
        "profile": "job",
        "slots_per_node": options.slots,
        "load": load,
        **job.run,
    }
    if options.job_memory_limit is not None:
        made["job_memory_limit_bytes"] = options.job_memory_limit
    if options.feed == "packets":
        made["feed"] = _feed(options, job, options.slots * nodes)
    return made


_RULES = frozenset({"packets", "packet_shortest", "packet_longest", "workers_per_server"})
"""Fields of `[run]` that a profile's own master does not have."""


def _like_real_runs(options: RunOptions, job: ModelledJob) -> bool:
    """Return whether packets are handed out by the rules of real runs."""
    if options.feed != "packets":
        return False
    return not job.own_master or bool(_RULES & options.model_fields_set)


def _feed(options: RunOptions, job: ModelledJob, workers: int) -> Feed:
    if job.packets is None:
        raise HeadraceError("this job cannot be fed by packets: its profile says nothing of them")
    feed: Feed = {"kind": "packets", **job.packets}
    if _like_real_runs(options, job):
        cluster = 1 if job.own_master else feed["min_events"]
        feed["rules"] = {
            "split": options.packets,
            "shortest_ns": round(options.packet_shortest * 1e9),
            "longest_ns": round(options.packet_longest * 1e9),
            "cluster_events": cluster,
            "workers_per_server": options.workers_per_server,
        }
        feed["first_events"] = first_events(_query_events(job, feed, workers), workers)
    if options.packet_events is not None:
        feed["first_events"] = options.packet_events
    return feed


def _query_events(job: ModelledJob, feed: Feed, workers: int) -> int:
    if events := feed.get("events"):
        return events
    counts = [each.get("count", 1) for each in job.files if each["name"] == feed["file"]]
    return (counts[0] or workers) * feed["events_per_file"]
