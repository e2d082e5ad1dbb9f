"""The steps of an outline: reads in the order that was seen, with work and sleep; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from headrace.outline.figures import BoundedFigure
from headrace.outline.open_files import OpenDataFile

CALL_NS = 1000
COPY_BYTES_PER_S = 4e9
"""What the simulator adds for a call and a copied byte (defaults of the catalog's nodes)."""
_ROUNDS = 8
"""Sleep is spread over so many parts of the job."""
_SLEEPS = 0.05
"""Less sleep than this share of the CPU time and sleep together comes at the end."""
_SURE = 0.02
"""A share of reads that is this near to 0 or 1 is taken as that."""

StepTable = dict[str, object]


def files_and_steps(
    files: Sequence[OpenDataFile], figures: Mapping[str, BoundedFigure]
) -> tuple[list[StepTable], list[StepTable]]:
    """Return the sets of files and the steps of a profile."""
    value = {name: figure.value for name, figure in figures.items()}
    inputs = _inputs(files, value)
    written, write_calls = value.get("written_bytes", 0.0), round(value.get("write_calls", 0.0))
    calls = sum(count for _, _, _, count in inputs) + write_calls
    moved = value.get("read_bytes", 0.0) + written
    sleep_ns, all_cpu_ns = round(value["sleep_s"] * 1e9), round(value["cpu_s"] * 1e9)
    cpu_ns = max(0, all_cpu_ns - calls * CALL_NS - round(moved / COPY_BYTES_PER_S * 1e9))
    each_ns = cpu_ns // calls if calls else 0
    rounds = _ROUNDS if sleep_ns > _SLEEPS * (all_cpu_ns + sleep_ns) and calls else 1
    sets: list[StepTable] = [
        {"name": name, "path": file.path, "bytes": file.bytes, "count": 0, "share": "each"}
        for name, file, _, _ in inputs
    ]
    opened = [name for name, _, _, _ in inputs]
    steps: list[StepTable] = [{"do": "open", "file": name} for name in opened]
    if written and write_calls:
        sets.append({"name": "written", "share": "new"})
        steps.append({"do": "create", "file": "written"})
        opened.append("written")
    share = value.get("sequential_share", 1.0)
    for number in range(rounds):
        for name, file, length, count in inputs:
            steps += _reads(name, file, length, _part(count, number, rounds), share, each_ns,
                            (number, rounds))  # fmt: skip
        if written and write_calls and (part := _part(write_calls, number, rounds)):
            length = max(1, round(written / write_calls))
            before = sum(_part(write_calls, each, rounds) for each in range(number))
            steps.append({"do": "pattern", "op": "write", "file": "written", "count": part,
                          "length_bytes": length, "offset_bytes": before * length,
                          "cpu_ns": each_ns})  # fmt: skip
        if sleep_ns // rounds:
            steps.append({"do": "wait", "wait_ns": sleep_ns // rounds})
    if cpu_ns and not calls:
        steps.append({"do": "compute", "cpu_ns": cpu_ns})
    return sets, [*steps, *({"do": "close", "file": name} for name in opened)]


def _inputs(
    files: Sequence[OpenDataFile], value: Mapping[str, float]
) -> list[tuple[str, OpenDataFile, int, int]]:
    """Return name, file, size and number of the reads of each input.

    Bytes are divided among the files by size: what was read of which one is not known.
    """
    total, calls = value.get("read_bytes", 0.0), value.get("read_calls", 0.0)
    if total < 1:
        return []
    mean = total / calls if calls else 1 << 17  # mapped files have no calls
    chosen = [file for file in files if file.read and file.bytes != 0]
    known = [file.bytes for file in chosen if file.bytes]
    assumed = round(sum(known) / len(known)) if known else max(1, round(total))
    chosen = chosen or [OpenDataFile("", None, read=True)]
    sized = [replace(file, bytes=file.bytes or assumed) for file in chosen]
    everything = sum(file.bytes or 0 for file in sized)
    found: list[tuple[str, OpenDataFile, int, int]] = []
    for number, file in enumerate(sized):
        size = file.bytes or 1
        part = total * size / everything
        length = max(1, min(round(mean), size))
        found.append((f"f{number}", file, length, max(1, round(part / length))))
    return found


def _reads(
    name: str, file: OpenDataFile, length: int, count: int, share: float, cpu_ns: int,
    place: tuple[int, int],
) -> list[StepTable]:  # fmt: skip
    number, rounds = place
    in_order = count if share > 1 - _SURE else 0 if share < _SURE else round(count * share)
    same: StepTable = {"do": "pattern", "file": name, "length_bytes": length, "cpu_ns": cpu_ns}
    if file.direct or file.mapped:
        same["access"] = "direct" if file.direct else "mapped"
    steps: list[StepTable] = []
    if in_order:
        # Each part of the job reads on where the one before has ended.
        span = max(length, (file.bytes or length) // rounds)
        steps.append({**same, "count": in_order, "offset_bytes": min(
            number * span, max(0, (file.bytes or span) - span)), "span_bytes": span})  # fmt: skip
    if count > in_order:
        steps.append({**same, "count": count - in_order, "order": {"kind": "random"}})
    return steps


def _part(count: int, number: int, rounds: int) -> int:
    return count * (number + 1) // rounds - count * number // rounds
