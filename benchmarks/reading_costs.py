"""Measures the CPU costs that modelled jobs are made with (python/headrace/readers/costs.py) on
this machine, and prints that table.

For each reader and format, jobs over uncompressed files of different sizes, baskets and columns
are run once warm and once measured; costs of opening, steps, pieces, bytes, events and the
search's final fit are fitted to their CPU time. Codecs are measured by themselves on the pages
of a file. `--check` measures whole jobs of the default codec beside what the table in use makes
of them. Run it on an idle machine.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import uproot.compression
from scipy.optimize import nnls

from headrace.datasets import DatasetSpec, materialise
from headrace.datasets.layout import layout, layout_of_file
from headrace.readers.asking import asked
from headrace.readers.options import ReadingOptions
from headrace.workloads import JobInput, Workload, kinds
from headrace.workloads.higgs.columns import SEARCH_COLUMNS

CACHE = Path(tempfile.gettempdir()) / "headrace-reading-costs"
FORMATS = ("ttree", "rntuple")
OF_FORMAT = ("open", "listed", "piece", "byte")
OF_READER = ("step", "scan event", "search event", "peaks")
READERS = ("uproot", "rdataframe", "event-loop")
JOBS = (
    ("scan", 10_000, 32_000), ("scan", 60_000, 32_000), ("scan", 60_000, 4_000),
    ("scan", 240_000, 32_000),
    ("analysis", 5_000, 32_000), ("analysis", 30_000, 32_000), ("analysis", 60_000, 32_000),
    ("analysis", 60_000, 8_000),
    ("analysis", 30_000, 100_000),
)  # fmt: skip
"""Workload, events, bytes of a basket."""


@dataclass(frozen=True)
class Fit:
    """Costs of one reader, and how far each job is from what they make of it."""

    costs_ns: dict[str, float]
    jobs: tuple[str, ...]
    seen_s: tuple[float, ...]
    errors: tuple[float, ...]


def spec_of(**fields: Any) -> DatasetSpec:
    return DatasetSpec.model_validate({"shape": "bench", "files": 1, "level": 0, **fields})


def cpu_s(part: Workload, file: Path, scratch: Path, times: int) -> float:
    """The least CPU time of a few runs: what disturbs only adds."""
    best = float("inf")
    for _ in range(times):
        begin = time.process_time()
        part.run(JobInput((str(file),), None, scratch, slot=0, slots=1, seed=0))
        best = min(best, time.process_time() - begin)
    return best


def fitted(reader: str, scratch: Path, times: int) -> Fit:
    """Non-negative least squares of the relative errors: a short job counts as much as a long one.

    What a step and an event cost is the reader's own; opening, pieces and bytes cost what they
    do in each format.
    """
    rows: list[list[float]] = []
    seen: list[float] = []
    jobs: list[str] = []
    for at, format in enumerate(FORMATS):
        for kind, events, basket in JOBS:
            spec = spec_of(events=events, format=format, basket_size=basket)
            file = materialise(spec, CACHE)[0]
            part_kind = kinds()[kind]
            part = part_kind(
                kind, part_kind.Options.model_validate({"data": spec, "reader": reader})
            )
            part.warm()
            columns = ["Muon_pt"] if kind == "scan" else list(SEARCH_COLUMNS)
            options = ReadingOptions.model_validate({"data": spec, "reader": reader})
            file_layout = layout_of_file(file)
            runs = asked(file_layout, options.reader, columns, step_events=10_000)
            of_format = [[0.0] * len(OF_FORMAT) for _ in FORMATS]
            of_format[at] = [
                1, len(file_layout.pieces), sum(run.pieces for run in runs),
                sum(run.uncompressed_bytes for run in runs),
            ]  # fmt: skip
            of_reader = [
                len(runs) if reader == "uproot" else 0, events if kind == "scan" else 0,
                events if kind == "analysis" else 0, 1 if kind == "analysis" else 0,
            ]  # fmt: skip
            rows.append([*(cost for costs in of_format for cost in costs), *of_reader])
            seen.append(cpu_s(part, file, scratch, times))
            jobs.append(f"{format} {kind} of {events:,} events, baskets of {basket:,} B")
    table, wanted = np.array(rows), np.array(seen) * 1e9
    solution, _ = nnls(table / wanted[:, None], np.ones(len(wanted)))
    names = [*(f"{format} {field}" for format in FORMATS for field in OF_FORMAT), *OF_READER]
    return Fit(
        dict(zip(names, solution.tolist(), strict=True)),
        tuple(jobs),
        tuple(seen),
        tuple((table @ solution / wanted - 1).tolist()),
    )


def check(reader: str, scratch: Path, times: int) -> None:
    """Prints whole jobs of the default codec, and what the constants in use make of them."""
    for format in FORMATS:
        for kind in ("scan", "analysis", "skim"):
            if kind == "skim" and reader == "event-loop":
                continue
            spec = DatasetSpec.model_validate(
                {"shape": "bench", "files": 1, "events": 60_000, "format": format}
            )
            file = materialise(spec, CACHE)[0]
            part_kind = kinds()[kind]
            fields: dict[str, Any] = {"data": spec, "reader": reader}
            part = part_kind(
                kind,
                part_kind.Options.model_validate(
                    fields | ({"fraction": 1.0} if kind == "skim" else {})
                ),
            )
            part.warm()
            modelled_s = cpu_of(part.profile(None).steps) * 1e-9
            seen_s = cpu_s(part, file, scratch, times)
            print(
                f"{reader}, {format}, {kind}: {seen_s:.3f} s, by the constants {modelled_s:.3f} "
                f"s: {modelled_s / seen_s - 1:+.0%}",
                flush=True,
            )


def cpu_of(steps: list[dict[str, Any]]) -> int:
    """CPU time that a modelled job's own steps take, in nanoseconds."""
    total = 0
    for step in steps:
        works = step.get("cpu_ns", 0)
        total += sum(works) if isinstance(works, list) else works
        total += step.get("cpu_after_ns", 0)
    return total


def codecs() -> dict[str, tuple[float, float]]:
    """(decompression, compression) nanoseconds an uncompressed byte."""
    found: dict[str, tuple[float, float]] = {}
    spec = spec_of(events=20_000, format="rntuple", level=0)
    file = materialise(spec, CACHE)[0]
    with file.open("rb") as raw:
        pages: list[bytes] = []
        for piece in layout(file)[:400]:
            raw.seek(piece.offset)
            pages.append(raw.read(piece.compressed_bytes))
    for name, made in {
        "zlib": uproot.compression.ZLIB(1), "lz4": uproot.compression.LZ4(4),
        "zstd": uproot.compression.ZSTD(5),
        "lzma": uproot.compression.LZMA(1),
    }.items():  # fmt: skip
        size = sum(len(page) for page in pages)
        begin = time.process_time()
        packed = [bytes(uproot.compression.compress(page, made)) for page in pages]
        middle = time.process_time()
        for page, small in zip(pages, packed, strict=True):
            if len(small) < len(page):
                made.decompress(small[9:], len(page)) if name != "lz4" else made.decompress(
                    small[17:], len(page)
                )
        end = time.process_time()
        found[name] = ((end - middle) * 1e9 / size, (middle - begin) * 1e9 / size)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--readers", nargs="*", default=READERS)
    parser.add_argument(
        "--check", action="store_true", help="whole jobs against the constants in use, no fit"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        if given.check:
            for reader in given.readers:
                check(reader, Path(scratch), given.times)
            return
        for name, (out, into) in codecs().items():
            print(
                f"{name}: decompression {out:.2f} ns a byte, compression {into:.2f} ns a byte",
                flush=True,
            )
        for reader in given.readers:
            found = fitted(reader, Path(scratch), given.times)
            said = ", ".join(f"{field} {value:.4g}" for field, value in found.costs_ns.items())
            print(f"{reader}: {said} ns", flush=True)
            for job, seen_s, error in zip(found.jobs, found.seen_s, found.errors, strict=True):
                print(f"    {job:60} {seen_s:6.3f} s, fitted {error:+.0%}", flush=True)


if __name__ == "__main__":
    main()
