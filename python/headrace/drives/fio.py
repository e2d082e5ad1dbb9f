"""fio's notation: sizes and times of its options, a load, and its JSON results.

Semantics as in fio's manual (https://fio.readthedocs.io): `4k` is 4096 bytes, a time without unit
is in seconds.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from headrace.drives.fio_entries import FioEntry, FioOutput, results_in
from headrace.errors import FileProblem, StudyError
from headrace.scenario import Table
from headrace.text_file import check_unpacked, decoded
from headrace.units import MOST_BYTES

RW = ("read", "write", "randread", "randwrite", "rw", "readwrite", "randrw")
MIXED = ("rw", "readwrite", "randrw")
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_TIMES_S = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "ms": 1e-3, "us": 1e-6}


def parse_fio_bytes(text: str) -> int:
    """Parse `4k` and `4KiB` (4096), `1g`, `65536`. Raises ValueError."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgtp]?)(?:(?<=[kmgtp])i)?b?\s*", text.lower())
    if match is None:
        raise ValueError(f'"{text}" is not a size; write it as fio does: 4k, 64k, 1m, 2g')
    size = float(match.group(1)) * 1024 ** _POWERS[match.group(2)]
    if size > MOST_BYTES:
        raise ValueError(f'"{text[:40]}" is too large a size')
    if size != int(size):
        raise ValueError(f'"{text}" is not a whole number of bytes')
    return int(size)


def parse_fio_seconds(text: str) -> float:
    """Parse `60`, `90s`, `2m`, `500ms`. Raises ValueError."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text.lower())
    if match is None or match.group(2) not in _TIMES_S:
        raise ValueError(f'"{text}" is not a time; write it as fio does: 60, 90s, 2m, 500ms')
    return float(match.group(1)) * _TIMES_S[match.group(2)]


@dataclass(frozen=True)
class Load:
    """A load for fio. Fields are fio's options; the Rust core takes the same."""

    rw: str
    bs_bytes: int
    iodepth: int = 1
    numjobs: int = 1
    runtime_s: float = 60.0
    ramp_time_s: float = 0.0
    offset_bytes: int = 0
    offset_increment_bytes: int = 0
    size_bytes: int | None = None
    rwmixread: int = 50
    fsync: int = 0
    number_ios: int | None = None
    """0, like None: no limit."""
    seed: int = 0
    empty: bool = False
    """The region that is read holds no data except what the drive's table specifies, so that an SSD
    reads no flash there. Otherwise it holds data, like a file that fio has written."""
    buffered: bool = False
    """Writes are marked as the page cache marks them when it writes back; otherwise a process waits
    for each (O_DIRECT). md and schedulers treat them differently."""
    scheduler: str | None = None
    """The kernel's scheduler in front of the drive. None: requests go to the drive at once."""
    raid: Table | None = None
    """A RAID of such drives has the load (`RaidSpec` of crates/model)."""

    def as_json(self) -> str:
        """Return the load as the core's JSON."""
        options = {**asdict(self), "number_ios": self.number_ios or None}
        return json.dumps({key: value for key, value in options.items() if value is not None})


@dataclass(frozen=True)
class Observed:
    """One job of a fio result: the load, and the real drive's results."""

    name: str
    """File and job, for messages."""
    load: Load
    values: dict[str, float]
    """`read.iops`, `read.latency_ns_mean`, `write.iops` …: only directions with requests."""
    measured_s: float | None = None
    """How long fio measured, after `ramp_s`; None if it does not say."""
    ramp_s: float = 0.0


def read_fio_results(file: Path, runtime_s: float) -> list[Observed]:
    """Return every job of fio's `--output-format=json`. `runtime_s` is the model's run time for
    each. Messages of fio before, between and after its JSON are skipped.

    Raises StudyError if it is not a fio result, or if a job has options other than those of a
    plain load.
    """
    try:
        found = results_in(_text(file))
    except OSError as error:
        raise StudyError(
            [FileProblem(file, 0, "", "", f"cannot be read: {error.strerror}")]
        ) from None
    except (ValueError, RecursionError) as error:
        place = (
            re.search(r"at `\$\.?(.*)`$", str(error))
            if isinstance(error, msgspec.ValidationError)
            else None
        )
        problem = "is not a result of fio --output-format=json"
        raise StudyError([FileProblem(file, 0, place[1] if place else "", "", problem)]) from None
    if not all(each.jobs for each in found):
        raise StudyError([FileProblem(file, 0, "jobs", "", "holds no jobs", "at least one job")])
    for each in found:
        _check_alone(file, each)
    return [
        _observed(file, job, each.options(job), runtime_s) for each in found for job in each.jobs
    ]


def _text(file: Path) -> str:
    """Return the text of a result. Raises OSError, and StudyError for a compressed file."""
    raw = file.read_bytes()
    check_unpacked(file, raw)
    return decoded(raw)


_MOST = 1_000_000
"""Upper bound of clients, requests in flight and similar numbers; fio's own bounds are lower."""


def _count(options: dict[str, str], name: str, default: str, most: int = _MOST) -> int:
    """Return an option that is a whole number. Raises ValueError."""
    text = options.get(name, default)
    if not text.isdecimal() or len(text) > 9 or int(text) > most:
        raise ValueError(f'{name} = "{text}" is not a whole number up to {most}')
    return int(text)


def _read_share(options: dict[str, str]) -> int:
    """Return the percentage of reads of a mixed load. Raises ValueError."""
    if "rwmixread" not in options and "rwmixwrite" in options:
        return 100 - _count(options, "rwmixwrite", "50", 100)
    return _count(options, "rwmixread", "50", 100)


def _bytes(options: dict[str, str], name: str) -> int | None:
    """Return an option that is a number of bytes; None if not given, or a share of the device."""
    text = options.get(name)
    return None if text is None or "%" in text else parse_fio_bytes(text)


_SYNCHRONOUS = ("sync", "psync", "vsync", "pvsync", "pvsync2", "mmap")
"""I/O engines that ignore `iodepth`. psync is fio's default."""
_PAST_THE_CACHE = ("sg", "io_uring_cmd", "libblkio", "libzbc", "xnvme")
"""I/O engines that send commands to the drive, whatever `direct` says."""
_NO = ("0", "", "none")
_NOT_MODELLED = {
    **dict.fromkeys(
        ("bssplit", "bsrange", "blocksize_range", "bs_unaligned", "blocksize_unaligned"), _NO
    ),
    **dict.fromkeys(("rate", "rate_iops", "rate_min", "thinktime", "flow", "latency_target"), _NO),
    **dict.fromkeys(("sync", "zonemode", "zoneskip"), _NO),
    "random_distribution": ("random",),
    "percentage_random": ("100",),
}
"""Options with which a load is another one than `Load` describes, and the values without effect."""
_APART = ("startdelay", "wait_for")
"""Options that let a job of a group begin later than the others."""


def _check_alone(file: Path, result: FioOutput) -> None:
    """Refuse jobs that ran at the same time: the drive served their sum. Raises StudyError."""
    names: dict[int, str] = {}
    for job in result.jobs:
        if job.groupid is None or any(each in job.options for each in _APART):
            continue
        other = names.setdefault(job.groupid, job.jobname)
        if other != job.jobname:
            raise StudyError(
                [
                    FileProblem(
                        file,
                        0,
                        f"{file.name}:{job.jobname}",
                        "",
                        f'ran at the same time as the job "{other}"',
                        "jobs that run one after the other: with the option stonewall",
                    )
                ]
            )


def _check_load(file: Path, name: str, job: FioEntry, options: dict[str, str]) -> None:
    """Refuse a job whose load is not known, or not that of a `Load`. Raises StudyError."""
    problem, allowed = "", ""
    used = [
        each
        for each, without in _NOT_MODELLED.items()
        if options.get(each, without[0]) not in without
    ]
    if job.error:
        problem = f"ended with error {job.error}"
    elif not options:
        problem = 'has no "job options": which load it was is not known'
        allowed = "the result of a newer version of fio, which writes them"
    elif used:
        problem, allowed = f"this load is not modelled: {used[0]}", "a load without this option"
    if problem:
        raise StudyError([FileProblem(file, 0, name, "", problem, allowed)])


def _check_uncached(file: Path, name: str, options: dict[str, str], load: Load) -> None:
    """Refuse a job whose requests the page cache served: they tell its speed, not the drive's.

    Writes that are flushed one by one reach the drive. Raises StudyError.
    """
    direct = options.get("direct", "0") != "0" or options.get("buffered") == "0"
    flushed = load.rw in ("write", "randwrite") and load.fsync == 1
    engine = options.get("ioengine", "")
    if direct or flushed or engine in _PAST_THE_CACHE or engine.startswith("external:"):
        return
    problem = "went through the page cache (direct=1 is not in its options): not the drive's speed"
    allowed = "a result with --direct=1; of writes alone also one with --fsync=1"
    raise StudyError([FileProblem(file, 0, name, "", problem, allowed)])


def _check_group(file: Path, name: str, job: FioEntry, load: Load, ramp_s: float) -> None:
    """Refuse the sum of several jobs, of which the options of one are known. Raises StudyError."""
    last = job.options.get("name", job.jobname)
    jobs = job.jobs_at_least(ramp_s, mixed=load.rw in MIXED)
    if last != job.jobname or jobs > 1.5 * load.numjobs:
        problem = "sums up jobs (group_reporting) of which the options of one are known"
        allowed = "the result without group_reporting, or jobs of equal options (numjobs)"
        raise StudyError([FileProblem(file, 0, name, "", problem, allowed)])


def _block_bytes(options: dict[str, str], rw: str) -> int:
    """Return the size of a request. Raises ValueError.

    `4k,64k` has that of reads and that of writes; one that is left out is the one before.
    """
    text = options.get("bs", options.get("blocksize", "4k"))
    given = [parse_fio_bytes(each) if each.strip() else None for each in text.split(",")]
    read = given[0] or 4096
    write = (given[1] if len(given) > 1 else None) or read
    sizes = {"read": {read}, "randread": {read}, "write": {write}, "randwrite": {write}}
    found = sizes.get(rw, {read, write})
    if len(found) != 1:
        raise ValueError(f'bs = "{text}" is not one size')
    return found.pop()


def _check_one_file(options: dict[str, str]) -> None:
    """Refuse a load of several files or devices: they may be on several drives. Raises
    ValueError."""
    names = re.split(r"(?<!\\):", options.get("filename", ""))
    if len(names) > 1:
        raise ValueError(f'filename = "{options["filename"]}" is {len(names)} files or devices')


def _observed(file: Path, job: FioEntry, options: dict[str, str], runtime_s: float) -> Observed:
    name = f"{file.name}:{job.jobname}"
    _check_load(file, name, job, options)
    rw = options.get("rw", options.get("readwrite", "read"))
    if rw not in RW:
        raise StudyError(
            [
                FileProblem(
                    file, 0, f"{name}.rw", f'"{rw}"', "this load is not modelled", ", ".join(RW)
                )
            ]
        )
    try:
        _check_one_file(options)
        load = Load(
            rw=rw,
            bs_bytes=_block_bytes(options, rw),
            iodepth=_count(options, "iodepth", "1")
            if options.get("ioengine", "psync") not in _SYNCHRONOUS
            else 1,
            numjobs=_count(options, "numjobs", "1"),
            runtime_s=runtime_s,
            offset_bytes=_bytes(options, "offset") or 0,
            offset_increment_bytes=_bytes(options, "offset_increment") or 0,
            size_bytes=_bytes(options, "size"),
            rwmixread=_read_share(options),
            # The data of a drive are flushed by both; fio takes the one that is given.
            fsync=_count(options, "fsync", "0") or _count(options, "fdatasync", "0"),
        )
        ramp_s = parse_fio_seconds(options.get("ramp_time", "0"))
    except ValueError as error:
        raise StudyError([FileProblem(file, 0, name, "", str(error))]) from None
    _check_uncached(file, name, options, load)
    _check_group(file, name, job, load, ramp_s)
    values: dict[str, float] = {}
    for direction in ("read", "write"):
        part = job.transfers(direction, rw)
        if part.total_ios > 0 and 0 < part.iops < math.inf:
            values[f"{direction}.iops"] = part.iops
            if part.latency_ns:
                values[f"{direction}.latency_ns_mean"] = part.latency_ns
    if not values:
        unified = job.mixed is not None and job.mixed.total_ios > 0
        problem = "has reads and writes as one number" if unified else "holds no requests"
        allowed = "a result without unified_rw_reporting" if unified else ""
        raise StudyError([FileProblem(file, 0, name, "", problem, allowed)])
    measured_s = max(job.transfers(each, rw).runtime_ms for each in ("read", "write")) / 1000
    return Observed(name, load, values, measured_s if 0 < measured_s < math.inf else None, ramp_s)
