"""Measures the CPU costs that modelled jobs are made with (python/headrace/readers/costs.py) on this machine, and prints that table.

For each reader and format, jobs over uncompressed files of different sizes, baskets and columns are run once warm and once measured;
costs of opening, steps, pieces, bytes and events are fitted to their CPU time (non-negative least squares). Codecs are measured by
themselves on the pages of a file. Run it on an idle machine.
"""

from __future__ import annotations

import argparse
import tempfile
import time
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
FIELDS = ("open", "step", "piece", "byte", "scan event", "search event")
READERS = ("uproot", "rdataframe", "event-loop")


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


def fitted(reader: str, format: str, scratch: Path, times: int) -> tuple[dict[str, float], float]:
    """Costs in nanoseconds by field, and the largest relative error of a run."""
    rows: list[list[float]] = []
    seen: list[float] = []
    for events, basket, kind in [
        (10_000, 32_000, "scan"), (60_000, 32_000, "scan"), (60_000, 4_000, "scan"), (10_000, 32_000, "analysis"),
        (60_000, 32_000, "analysis"), (60_000, 8_000, "analysis"), (30_000, 100_000, "analysis"),
    ]:  # fmt: skip
        spec = spec_of(events=events, format=format, basket_size=basket)
        file = materialise(spec, CACHE)[0]
        part_kind = kinds()[kind]
        part = part_kind(kind, part_kind.Options.model_validate({"data": spec, "reader": reader}))
        part.warm()
        columns = ["Muon_pt"] if kind == "scan" else list(SEARCH_COLUMNS)
        options = ReadingOptions.model_validate({"data": spec, "reader": reader})
        runs = asked(layout_of_file(file), options.reader, columns, step_events=10_000)
        fixed_s = 0.06 if kind == "analysis" else 0.0  # the fit of the peaks, see FIT_NS
        rows.append(
            [
                1,
                len(runs) if reader == "uproot" else 0,
                sum(run.pieces for run in runs),
                sum(run.uncompressed_bytes for run in runs),
                events if kind == "scan" else 0,
                events if kind == "analysis" else 0,
            ]
        )
        seen.append(max(1e-3, cpu_s(part, file, scratch, times) - fixed_s))
    table, wanted = np.array(rows), np.array(seen) * 1e9
    # Relative errors count: each row is divided by what was seen.
    solution, _ = nnls(table / wanted[:, None], np.ones(len(wanted)))
    error = float(np.abs(table @ solution / wanted - 1).max())
    return dict(zip(FIELDS, solution.tolist(), strict=True)), error


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
        "zlib": uproot.compression.ZLIB(1), "lz4": uproot.compression.LZ4(4), "zstd": uproot.compression.ZSTD(5),
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
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--readers", nargs="*", default=READERS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        for name, (out, into) in codecs().items():
            print(f"{name}: decompression {out:.2f} ns a byte, compression {into:.2f} ns a byte", flush=True)
        for reader in given.readers:
            for format in ("ttree", "rntuple"):
                costs, error = fitted(reader, format, Path(scratch), given.times)
                said = ", ".join(f"{field} {value:.4g}" for field, value in costs.items())
                print(f"{reader} {format}: {said} ns; off by {error:.0%} at most", flush=True)


if __name__ == "__main__":
    main()
