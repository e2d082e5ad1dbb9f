"""fio's words: sizes and times as its options are written, a load, and the results that it leaves as JSON.

Meanings as in fio's manual (https://fio.readthedocs.io): `4k` is 4096 bytes, a bare time is in seconds.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headrace.errors import Fault, StudyError

RW = ("read", "write", "randread", "randwrite", "rw", "readwrite", "randrw")
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_TIMES_S = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "ms": 1e-3, "us": 1e-6}


def parse_fio_bytes(text: str) -> int:
    """`4k` -> 4096, `1g`, `65536`. Raises ValueError."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgtp]?)b?\s*", text.lower())
    if match is None:
        raise ValueError(f'"{text}" is no size; write it as fio does: 4k, 64k, 1m, 2g')
    size = float(match.group(1)) * 1024 ** _POWERS[match.group(2)]
    if size != int(size):
        raise ValueError(f'"{text}" is not a whole number of bytes')
    return int(size)


def parse_fio_seconds(text: str) -> float:
    """`60`, `90s`, `2m`, `500ms`. Raises ValueError."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text.lower())
    if match is None or match.group(2) not in _TIMES_S:
        raise ValueError(f'"{text}" is no time; write it as fio does: 60, 90s, 2m, 500ms')
    return float(match.group(1)) * _TIMES_S[match.group(2)]


@dataclass(frozen=True)
class Load:
    """What fio would be asked for. Fields are fio's options; the Rust core takes the same."""

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
    seed: int = 0

    def as_json(self) -> str:
        """For the core."""
        return json.dumps({key: value for key, value in asdict(self).items() if value is not None})


@dataclass(frozen=True)
class Observed:
    """One job of a fio result: the load, and what the real drive gave."""

    name: str
    """File and job, for messages."""
    load: Load
    values: dict[str, float]
    """`read.iops`, `read.latency_ns_mean`, `write.iops` …: only what fio saw requests for."""


def read_fio_results(file: Path, runtime_s: float) -> list[Observed]:
    """Every job of fio's `--output-format=json`. `runtime_s` is how long the model is run for each.

    Raises StudyError when it is none, or when a job's options are not those of a plain load.
    """
    try:
        text = file.read_text()
        found = json.loads(text[text.index("{") :])
        jobs, common = found["jobs"], found.get("global options", {})
    except OSError as error:
        raise StudyError([Fault(file, 0, "file", "", f"cannot be read: {error.strerror}")]) from None
    except (ValueError, KeyError, TypeError):
        raise StudyError([Fault(file, 0, "file", "", "is no result of fio --output-format=json")]) from None
    return [_observed(file, job, {**common, **job.get("job options", {})}, runtime_s) for job in jobs]


def _observed(file: Path, job: dict[str, Any], options: dict[str, str], runtime_s: float) -> Observed:
    name = f"{file.name}:{job.get('jobname', '?')}"
    rw = options.get("rw", options.get("readwrite", "read"))
    if rw not in RW:
        raise StudyError(
            [Fault(file, 0, f"{name}.rw", f'"{rw}"', "this load is not modelled", ", ".join(RW))]
        )
    try:
        load = Load(
            rw=rw,
            bs_bytes=parse_fio_bytes(options.get("bs", options.get("blocksize", "4k"))),
            iodepth=int(options.get("iodepth", "1"))
            if options.get("ioengine", "libaio") not in ("sync", "psync")
            else 1,
            numjobs=int(options.get("numjobs", "1")),
            runtime_s=runtime_s,
            size_bytes=parse_fio_bytes(options["size"])
            if "size" in options and "%" not in options["size"]
            else None,
            rwmixread=int(options.get("rwmixread", "50")),
            fsync=int(options.get("fsync", "0")),
        )
    except ValueError as error:
        raise StudyError([Fault(file, 0, name, "", str(error))]) from None
    values: dict[str, float] = {}
    # With group_reporting one entry stands for all jobs of the group; without, each for itself.
    share = 1 if options.get("group_reporting") is not None else load.numjobs
    for direction in ("read", "write"):
        part = job.get(direction, {})
        if part.get("total_ios", 0) > 0 and part.get("iops", 0) > 0:
            values[f"{direction}.iops"] = float(part["iops"]) * share
            mean = part.get("clat_ns", part.get("lat_ns", {})).get("mean", 0.0)
            if mean > 0:
                values[f"{direction}.latency_ns_mean"] = float(mean)
    if not values:
        raise StudyError([Fault(file, 0, name, "", "holds no requests")])
    return Observed(name, load, values)
