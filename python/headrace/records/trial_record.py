"""The typed record of one trial, created by both engines and stored as trial.json.

The format has a version. `decode` reads the current one and migrates that of Headrace 0.1. The JSON
Schema is published as docs/trial-record.schema.json; docs/records.md describes the fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

import msgspec

from headrace.provenance import Provenance
from headrace.records.energy import Energy
from headrace.records.interference import Interference
from headrace.records.inventory import Inventory
from headrace.records.nodes import NodeFacts
from headrace.records.sums import job_sums

RECORD_SCHEMA = 2
"""Version of the format that this Headrace writes."""

SCHEMAS_READ = (1, RECORD_SCHEMA)
"""Versions that it reads."""

JsonObject = dict[str, Any]
"""A JSON object whose fields are known only to code of one kind of target, workload or probe."""

Status = Literal["done", "failed", "unsupported"]


class StudyReference(msgspec.Struct, kw_only=True, frozen=True):
    """The study that a trial belongs to."""

    title: str
    hash: str


class TargetReference(msgspec.Struct, kw_only=True, frozen=True):
    """The target as it was for this trial, with its levels."""

    name: str
    kind: str
    options: JsonObject = {}


class WorkloadReference(msgspec.Struct, kw_only=True, frozen=True):
    """The workload as it was for this trial, with its levels."""

    name: str
    kind: str
    options: JsonObject = {}
    loads_storage: bool = False
    """Whether its jobs load the storage and compute nothing."""
    part_of_job: float = 1.0
    """Share of a job that each job of the trial is: metrics per job refer to whole jobs."""


NOT_MODELLED = "not-modelled"
"""Code of a warning: the simulation leaves out something that jobs do."""

NO_ENERGY = "no-energy"
"""Code of a warning: a meter of the study gave no energy that can be used."""

NODE_LOST = "node-lost"
"""Code of a reason: a node that the trial needs could not be reached, or not any more, or what
starts jobs there was killed."""

NO_SPACE = "no-space"
"""Code of a reason: a file system that the trial needs had no space or inodes left."""

READ_ONLY = "read-only"
"""Code of a reason: a file system that the trial needs was read-only."""

OPEN_FILES = "open-files"
"""Code of a reason: no more files could be opened."""

PROCESSES = "processes"
"""Code of a reason: no more processes or threads could be started."""

FILE_SIZE = "file-size"
"""Code of a reason: a file would have been larger than the limit of the user or the file system."""

PASSING = (NODE_LOST, NO_SPACE, READ_ONLY, OPEN_FILES, PROCESSES, FILE_SIZE)
"""Codes of reasons of failed trials that may succeed when they are run again."""


class Reason(msgspec.Struct, kw_only=True, frozen=True):
    """One reason: a code that programs compare, and a sentence for people."""

    code: str
    text: str


class Validity(msgspec.Struct, kw_only=True, frozen=True):
    """Whether a trial is valid, that is, counts for findings."""

    valid: bool
    reasons: tuple[Reason, ...] = ()
    warnings: tuple[Reason, ...] = ()
    """What a reader must know about a valid trial."""


class SettingRecord(msgspec.Struct, kw_only=True, frozen=True):
    """One setting of the storage: as requested, as it was before, and as read back."""

    name: str
    asked: Any
    before: Any
    after: Any
    applied: bool
    reason: str = ""
    """Why it could not be applied."""


class DeviceTotals(msgspec.Struct, kw_only=True, frozen=True):
    """Totals over the target's devices while jobs ran; a latency is the sum over requests."""

    bytes_read: int
    bytes_written: int
    requests_read: int
    requests_write: int
    busy_s: float
    read_latency_s: float
    write_latency_s: float
    flash_host_bytes: int = 0
    """Bytes written to modelled flash drives."""
    flash_written_bytes: int = 0
    """Bytes that their flash wrote for them; the ratio is the write amplification."""


class DriveTotals(DeviceTotals, kw_only=True, frozen=True):
    """Totals of one drive or RAID of a simulated site."""

    host: str
    volume: str
    energy_j: float


class CpuTotals(msgspec.Struct, kw_only=True, frozen=True):
    """CPU time while jobs ran: of the machine if measured, of the nodes if simulated.

    Nodes are those that run jobs.
    """

    cores: int
    busy_s: float
    idle_s: float
    iowait_s: float
    steal_s: float = 0.0
    """Time in which the hypervisor ran something else; included in `busy_s`."""


class FaultRecord(msgspec.Struct, kw_only=True, frozen=True):
    """Effects of one scheduled fault. Times are in seconds since the release of the jobs."""

    what: str
    name: str
    at_s: float
    duration_s: float | None = None
    struck_s: float | None = None
    lifted_s: float | None = None
    fired: int = 0
    """Number of times it took effect."""
    error: str | None = None
    not_lifted: str | None = None
    """Why it could not be lifted."""
    seen: JsonObject = {}


class GivenUpPacket(msgspec.Struct, kw_only=True, frozen=True):
    """A packet that is no longer handed out because two workers died while they held it."""

    file: str
    first_event: int
    events: int
    cause: str
    """How the last worker that had it died."""


class PacketWorker(msgspec.Struct, kw_only=True, frozen=True):
    """Packets of one worker."""

    job: int
    node: str
    """Empty when it runs directly on this machine."""
    handed_out: int
    events: int
    """Events whose results count."""
    events_local: int
    """Those of files on its node."""
    busy_s: float
    """Time between a packet and the request for the next one, summed."""


class WorkerDeath(msgspec.Struct, kw_only=True, frozen=True):
    """A worker that ended without a report."""

    job: int
    node: str
    at_s: float
    """Seconds since the release."""
    cause: str
    events_kept: int
    """Events of finished packets, whose results it had returned."""
    events_again: int
    """Events that were handed out again."""


class PacketsRecord(msgspec.Struct, kw_only=True, frozen=True):
    """What was handed out, and what happened to the packets of workers that died."""

    handed_out_again: int
    given_up: tuple[GivenUpPacket, ...]
    events_not_processed: int
    handed_out: int = 0
    events: int = 0
    """Events whose results count."""
    events_local: int | None = None
    """Those that a worker of their file's node processed; None if no location is known."""
    workers: tuple[PacketWorker, ...] = ()
    deaths: tuple[WorkerDeath, ...] = ()


class Identity(TypedDict):
    """The fields of a record that identify the trial and its study. Every engine fills them."""

    id: str
    index: int
    cell: str
    repeat: int
    seed: int
    whole_plot: int
    study: StudyReference
    target: TargetReference
    workload: WorkloadReference
    levels: JsonObject
    run: JsonObject


class TrialRecord(msgspec.Struct, kw_only=True, frozen=True):
    """All data of one trial except its jobs (jobs.parquet) and series."""

    # The trial of the plan.
    id: str
    index: int
    cell: str
    repeat: int
    seed: int
    whole_plot: int
    study: StudyReference
    target: TargetReference
    workload: WorkloadReference
    levels: JsonObject
    run: JsonObject
    """Every field of `[run]` as it was for this trial."""
    engine: Literal["measure", "simulate"]
    environment: JsonObject

    # Outcome.
    provenance: Provenance
    status: Status
    cause: str | None = None
    validity: Validity
    started_utc: str | None = None
    duration_s: float = 0.0
    stonewall_s: float | None = None
    last_done_s: float | None = None
    sums: dict[str, float] | None = None
    """Sums over the jobs (`sums.py`), filled in by the store. None without jobs."""
    results: JsonObject = {}
    """Summary of its jobs' results, made by the workload."""
    packets: PacketsRecord | None = None
    """None when jobs are fed by files."""

    # Settings, samples and faults.
    settings: tuple[SettingRecord, ...] = ()
    settings_after: JsonObject = {}
    location: JsonObject = {}
    device: DeviceTotals | None = None
    drives: tuple[DriveTotals, ...] = ()
    """Each drive of a simulated site, of nodes and servers."""
    cpu: CpuTotals | None = None
    energy: Energy = Energy()
    inventory: Inventory = ()
    """Nodes, servers and drives of the target and the site. Empty in records of 0.1."""
    interference: Interference | None = None
    """CPU use by other programs; None in virtual time."""
    node_facts: tuple[NodeFacts, ...] = ()
    """Each node that ran jobs, by number. Empty in records of versions before it, and where the
    nodes were not set up."""
    server_facts: tuple[NodeFacts, ...] = ()
    """Each server under test that had an agent (`server_agents` of the target), by number."""
    probes: JsonObject = {}
    """Further totals, by kind of probe."""
    probes_failed: dict[str, str] = {}
    full_links: tuple[str, ...] = ()
    faults: tuple[FaultRecord, ...] = ()
    emulators: tuple[JsonObject, ...] = ()
    teardown_errors: tuple[str, ...] = ()
    clock: JsonObject = {}
    schema: int = RECORD_SCHEMA

    def with_jobs(self, rows: Sequence[Mapping[str, Any]]) -> TrialRecord:
        """Return the record with the sums over its jobs."""
        return msgspec.structs.replace(self, sums=job_sums(rows))

    @property
    def verdict(self) -> str:
        """Done, invalid, failed or unsupported."""
        return "invalid" if self.status == "done" and not self.validity.valid else self.status

    @property
    def why(self) -> list[str]:
        """The cause of a failure, or else the reasons why the trial is invalid, and warnings."""
        if self.cause:
            return [self.cause]
        warnings = [f"warning: {warning.text}" for warning in self.validity.warnings]
        return [*(reason.text for reason in self.validity.reasons), *warnings]

    @property
    def slots(self) -> int:
        """Jobs that ran at once on each node."""
        return int(self.run.get("slots") or self.levels.get("slots") or 1)

    @property
    def nodes(self) -> int:
        """Nodes that ran jobs."""
        return int(self.run.get("nodes") or 1)


_DECODER = msgspec.json.Decoder(TrialRecord)


def encode(record: TrialRecord) -> bytes:
    """Return a record as the text of trial.json.

    Indented, with sorted fields, so that equal records give equal bytes. Values of levels and
    options without a JSON form are written as text.
    """
    values = msgspec.to_builtins(record, enc_hook=str)
    # Python's encoder is written in C only without indentation.
    text = json.dumps(values, sort_keys=True, default=str)
    try:
        return msgspec.json.format(text, indent=1).encode()
    except msgspec.DecodeError:  # numbers that are not JSON (NaN)
        return json.dumps(values, indent=1, sort_keys=True, default=str).encode()


def decode(text: bytes) -> TrialRecord:
    """Return the record of a trial.json.

    Raises ValueError if it is damaged or of an unknown version.
    """
    try:
        record = _DECODER.decode(text)
    except msgspec.DecodeError:
        # 0.1 wrote numbers that are not JSON (NaN), and omitted fields.
        return from_json(json.loads(text))
    return record if record.schema == RECORD_SCHEMA else from_json(json.loads(text))


def from_json(values: Any) -> TrialRecord:
    """Return the record of a parsed trial.json, migrated from an older version.

    Raises ValueError as `decode` does.
    """
    if not isinstance(values, dict):
        raise ValueError("it is no JSON object")
    fields: JsonObject = values  # pyright: ignore[reportUnknownVariableType]
    schema = fields.get("schema")
    if schema == 1:
        fields = _from_schema_1(fields)
    elif schema != RECORD_SCHEMA:
        raise ValueError(f"it has record schema {schema}, this Headrace reads 1 to {RECORD_SCHEMA}")
    try:
        return msgspec.convert(fields, TrialRecord)
    except msgspec.ValidationError as error:
        raise ValueError(_reworded(str(error))) from None


def _reworded(text: str) -> str:
    """Return a msgspec error message in Headrace's wording, with the missing field."""
    missing = re.fullmatch(r"Object missing required field `(\w+)`(?: - at `\$\.?(.*)`)?", text)
    if missing is None:
        return f"trial.json: {text}"
    where = f"{missing[2]}." if missing[2] else ""
    return f"trial.json lacks '{where}{missing[1]}'"


def _from_schema_1(fields: JsonObject) -> JsonObject:
    """Migrate a record of Headrace 0.1, which had no version and omitted fields."""
    migrated = {
        name: value for name, value in fields.items() if value is not None or name in _MAY_BE_NONE
    }
    migrated.setdefault("provenance", "measured")
    migrated.setdefault("run", {})
    migrated.setdefault("environment", {})
    migrated.setdefault("energy", Energy.of_record(fields).as_json())
    return {**migrated, "schema": RECORD_SCHEMA}


_MAY_BE_NONE = frozenset(
    {"cause", "started_utc", "stonewall_s", "last_done_s", "sums", "device", "cpu"}
)


def json_schema() -> JsonObject:
    """Return the JSON Schema of trial.json."""
    return msgspec.json.schema(TrialRecord)
