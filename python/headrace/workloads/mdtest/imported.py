"""Read output of mdtest and IOR, and results folders of Headrace, into one form for comparison."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.errors import FileProblem, StudyError
from headrace.text_file import check_unpacked, decoded
from headrace.workloads.mdtest.ior import is_ior, read_ior
from headrace.workloads.mdtest.output import is_mdtest, read_mdtest
from headrace.workloads.mdtest.phases import TITLES, rate_name
from headrace.workloads.mdtest.rates import Imported, OutputError, Rate
from headrace.workloads.mdtest.wrapped import unwrap_ior, unwrap_mdtest

_LAUNCHER = r"\[[^\]\s]{1,200}\]<std(?:out|err)>:? ?|\[\d{1,9}\] |\d{1,9}: "
"""What launchers put before each line: Open MPI (--tag-output), MPICH and Intel MPI
(-prepend-rank), Slurm (srun --label)."""
_QUOTED = r"(?:[>|] ?){1,9}"
"""What mail and trackers put before each line of a quoted text."""
_TIME = r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?:? "
"""What batch systems and containers put before each line of a log."""
_TAG = rf"[ \t]{{0,9}}(?:{_LAUNCHER}|{_QUOTED}|{_TIME})"
_TAGGED = re.compile(
    rf"^{_TAG}[ \t]*(?:mdtest-\S+ was launched|IOR-[^\s:]+:|SUMMARY|Summary of all tests|\{{$)",
    re.MULTILINE,
)
_TAGS = re.compile(rf"^{_TAG}", re.MULTILINE)
_TYPOGRAPHY = str.maketrans(
    {"\u00a0": " ", "\u2010": "-", "\u2011": "-", "\u2012": "-", "\u2013": "-", "\u2014": "--",
     "\u2212": "-", "\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'}
)  # fmt: skip
"""What editors and mail make of spaces, dashes and quotes."""

MOST_BYTES = 256 << 20
"""Maximum size of an output; that of thousands of ranks has a few megabytes."""


def read_results(path: Path) -> list[Imported]:
    """Return the results in a file of mdtest or IOR, or in a results folder of Headrace.

    Raises StudyError (exit code 2), naming the file and line, when it is none of these or has no
    rate.
    """
    if path.is_dir():
        return _read_folder(path)
    try:
        with path.open("rb") as opened:
            raw = opened.read(MOST_BYTES + 1)
    except OSError as error:
        raise _fault(path, error.strerror or str(error)) from error
    if len(raw) > MOST_BYTES:
        raise _fault(path, f"is longer than {MOST_BYTES >> 20} MiB")
    check_unpacked(path, raw, "file")
    try:
        found = _read_output(decoded(raw).translate(_TYPOGRAPHY))
    except OutputError as error:
        raise _fault(
            path, error.problem, line=error.line, given=error.given, allowed=error.allowed
        ) from None
    for each in found:
        each.unknown += [phase for phase, rate in each.rates.items() if not rate.is_known]
        each.rates = {phase: rate for phase, rate in each.rates.items() if rate.is_known}
    if not any(each.rates for each in found):
        unknown = sorted({phase for each in found for phase in each.unknown})
        why = f": {', '.join(unknown)}: no numbers (nan)" if unknown else ""
        raise _fault(path, f"holds no rate{why}")
    return found


def _read_output(text: str) -> list[Imported]:
    """Return the results of both programs: a job's output can have those of several."""
    if _TAGGED.search(text):
        text = _TAGS.sub("", text)
    readers: list[Callable[[str], list[Imported]]] = []
    if is_mdtest(text):
        readers.append(lambda text: read_mdtest(unwrap_mdtest(text)))
    if is_ior(text):
        readers.append(lambda text: read_ior(unwrap_ior(text)))
    if not readers:
        raise OutputError(
            "is neither the output of mdtest nor of IOR",
            allowed="mdtest's table SUMMARY rate, IOR's Results, Max Write, Max Read, its JSON or "
            "CSV",
        )
    found: list[Imported] = []
    failed: OutputError | None = None
    for reader in readers:
        try:
            found += reader(text)
        except OutputError as error:
            failed = failed or error
    if failed is not None and (not found or failed.line):
        raise failed
    for each in found:
        each.whole = each.whole and failed is None
    return found


def _fault(
    path: Path, problem: str, *, line: int = 0, given: str = "", allowed: str = ""
) -> StudyError:
    return StudyError([FileProblem(path, line, "file", given, problem, allowed)])


def _read_folder(folder: Path) -> list[Imported]:
    """Return one result per cell (target, levels) of a folder; repeats are its iterations.

    Failed and invalid trials enter no rate; each result has their number.
    """
    cells: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {}
    left_out: Counter[str] = Counter()
    for file in sorted(folder.glob("trials/*/trial.json")):
        try:
            trial = json.loads(file.read_bytes())
            results = trial.get("results") or {}
            if trial["workload"]["kind"] != "metadata":
                continue
            key = json.dumps(trial.get("levels", {}), sort_keys=True, default=str)
            counts = _counts(trial)
            if counts and "phases" not in results:
                continue
            _cell(trial, [results] if counts else [])
        except OSError as error:
            raise _fault(file, f"cannot be read: {error.strerror}") from None
        except KeyError as error:
            raise _fault(
                file, f'is not a complete record of a trial: "{error.args[0]}" is missing'
            ) from None
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            raise _fault(
                file, "is not a complete record of a trial: a field is not as written"
            ) from None
        _, counting = cells.setdefault(key, (trial, []))
        if counts:
            counting.append(results)
        else:
            left_out[key] += 1
    if not any(counting for _, counting in cells.values()):
        which = "valid trial" if cells else "trial"
        raise _fault(folder, f"holds no {which} of a metadata workload")
    return [_cell(trial, counting, left_out[key]) for key, (trial, counting) in cells.items()]


def _counts(trial: dict[str, Any]) -> bool:
    """Return whether a trial was done and can be trusted."""
    valid = trial.get("validity", {}).get("valid", True)
    return trial.get("status", "done") == "done" and bool(valid)


def _cell(trial: dict[str, Any], results: list[dict[str, Any]], left_out: int = 0) -> Imported:
    rates: dict[str, Rate] = {}
    for phase in TITLES:
        seen = [
            each["phases"][phase]["rate_ops_per_s"] for each in results if phase in each["phases"]
        ]
        values = [float(rate) for rate in seen if rate]
        if values:
            rates[phase] = Rate.of(values)
    levels = {name: level for name, level in trial.get("levels", {}).items() if level is not None}
    varied = [
        f"{name}={level}" for name, level in levels.items() if name not in ("target", "workload")
    ]
    return Imported(
        " ".join(["headrace", str(levels.get("target", "")), *varied]),
        int(results[0]["clients"]) if results else None,
        int((trial.get("run") or {}).get("nodes") or 1),
        rates,
        about={"levels": levels, "metric": [rate_name(phase) for phase in rates]},
        left_out=left_out,
    )
