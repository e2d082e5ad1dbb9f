"""Engine `simulate`: what the core returns of a scenario (crates/simulator, `SimulatedOutcome`)."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class Ledger(TypedDict):
    """Breakdown of a job's wall time."""

    on_cpu_ns: int
    wait_cpu_ns: int
    wait_block_ns: int
    wait_network_ns: int
    other_ns: int


class JobBytes(TypedDict):
    """Bytes that a job read, at four levels, and those that it wrote and staged."""

    uncompressed_bytes: int
    asked_bytes: int
    served_bytes: int
    device_bytes: int
    written_bytes: int
    staged_bytes: int


class Phases(TypedDict):
    """Time of a job by what it did."""

    stage_in_ns: int
    read_ns: int
    write_ns: int
    metadata_ns: int
    open_ns: int


class SimulatedJob(TypedDict):
    """One job."""

    number: int
    host: str
    slot: int
    start_ns: int
    end_ns: int
    ledger: Ledger
    bytes: JobBytes
    phases: Phases
    events: int
    reads: int
    writes: int
    operations: int
    errors: int
    failed: bool
    unfinished: bool
    more_cpu_ns: NotRequired[int]


class SimulatedHost(TypedDict):
    """One machine."""

    name: str
    cores: int
    slots: int
    busy_core_ns: int
    awake_ns: int
    sent_bytes: int
    received_bytes: int
    machine_j: float
    drives_j: float


class SimulatedLatency(TypedDict):
    """Latencies of requests in one direction."""

    requests: int
    mean_ns: float
    p50_ns: float
    p99_ns: float
    max_ns: int


class DriveSeries(TypedDict):
    """Time series of a drive: one value per interval."""

    interval_ns: int
    read_bytes: list[int]
    written_bytes: list[int]
    reads: list[int]
    writes: list[int]
    busy: list[float]
    inside: list[float]
    read_latency_ns: list[float]
    write_latency_ns: list[float]


class SimulatedDrive(TypedDict):
    """One volume's drive or RAID, measured at its block queue."""

    host: str
    volume: str
    reads: int
    writes: int
    read_bytes: int
    written_bytes: int
    merged: int
    failed: int
    busy_ns: int
    inside_ns: int
    read_latency: SimulatedLatency
    write_latency: SimulatedLatency
    energy_j: float
    flash_host_bytes: int
    flash_written_bytes: int
    faults_fired: list[int]
    lost_bytes: int
    rebuilt: float | None
    series: DriveSeries


class UpstreamReads(TypedDict):
    """Reads of a service before another one: what came from there, and from the cache."""

    service: str
    read_bytes: int
    hit_bytes: int
    missed_bytes: int


class SimulatedService(TypedDict):
    """One file service."""

    name: str
    read_requests: int
    write_requests: int
    metadata_requests: int
    read_bytes: int
    written_bytes: int
    latency_ns_mean: float
    latency_ns_p99: float
    stored_bytes: list[int]
    failed_over: int
    degraded_reads: NotRequired[int]
    upstream: NotRequired[UpstreamReads]


class EnergyParts(TypedDict):
    """Energy of the run."""

    nodes_j: float
    servers_j: float
    drives_j: float
    switch_j: float
    total_j: float


class TcpCounters(TypedDict):
    """Waits and losses of connections."""

    waited_ns: int
    fast_retransmits: int
    probes: int
    timeouts: int


class SimulatedCounters(TypedDict):
    """Size of the simulation."""

    events: int
    requests: int
    service_requests: int
    flows: int
    faults_fired: int
    out_of_space: int
    tcp: NotRequired[TcpCounters]


class SimulatedPacketWorker(TypedDict):
    """Packets of one worker."""

    job: int
    handed_out: int
    events: int
    events_local: int
    busy_ns: int


class SimulatedPackets(TypedDict):
    """What was handed out."""

    placed: bool
    handed_out_again: int
    events_not_processed: int
    workers: list[SimulatedPacketWorker]


class SimulatedOutcome(TypedDict):
    """All results of a simulation."""

    jobs: list[SimulatedJob]
    hosts: list[SimulatedHost]
    drives: list[SimulatedDrive]
    services: list[SimulatedService]
    energy: EnergyParts
    counters: SimulatedCounters
    end_ns: int
    broken_off: str | None
    packets: NotRequired[SimulatedPackets]
