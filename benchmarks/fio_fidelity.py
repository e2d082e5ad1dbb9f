"""Is `sequential` as fast as the same fio job by hand? Both in one run, in turns; the ratio must
lie within 3 %.

By hand: `fio` started from here with the same options. Through Headrace: a whole trial's way for a
job, in a process of its own, with the ledger around it and the default probes sampled beside it.
Files are cached: there the harness weighs most. The verdict is on the median of the pairs' ratios
and its interval of at least 95 % (order statistics).

    python benchmarks/fio_fidelity.py [--directory DIR] [--pairs 15] [--size MIB]

Exit code 0: within the bound, 1: outside it, 2: the machine was too busy to tell.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from scipy.stats import binom

from headrace import probes
from headrace.probes import Watch
from headrace.probes.ledger import LedgerMeter
from headrace.workloads import JobInput
from headrace.workloads.sequential import Mode, Sequential, SequentialOptions

BOUND = 0.03
MODES: tuple[Mode, ...] = ("write", "read", "random-read")


def by_hand(file: Path, options: dict[str, Any], folder: Path) -> float:
    """Bytes/s of plain fio."""
    output = folder / "hand.json"
    command = [
        "fio",
        "--name=hand",
        f"--filename={file}",
        "--invalidate=0",
        "--fallocate=none",
        "--output-format=json",
        f"--output={output}",
    ]
    command += [f"--{name}={value}" for name, value in options.items()]
    subprocess.run(command, check=True, cwd=folder)
    said = json.loads(output.read_text())["jobs"][0]
    return said["read"]["bw_bytes"] + said["write"]["bw_bytes"]


def _job(mode: Mode, options: dict[str, Any], given: JobInput, answer: Any) -> None:
    part = Sequential("w", SequentialOptions.model_validate({"mode": mode, **options}))
    meter = LedgerMeter(network=False)
    meter.begin()
    output = part.run(given)
    meter.end(output.read_wait_s)
    answer.send(part.merge([output.results])["rate_bytes_per_s"])


def through_headrace(mode: Mode, options: dict[str, Any], given: JobInput) -> float:
    """Bytes/s that Headrace reports of one job, with everything running that runs in a trial."""
    watch = Watch((), (), given.directory, given.scratch)
    running = [part() for part in probes.kinds().values() if part.default and not part().check()]
    for probe in running:
        probe.start(watch)
    stop = threading.Event()

    def sample() -> None:
        while not stop.wait(1.0):
            for probe in running:
                probe.sample()

    sampler = threading.Thread(target=sample)
    sampler.start()
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(
        target=_job, args=(mode, options, given, sender)
    )
    process.start()
    rate = receiver.recv()
    process.join()
    stop.set()
    sampler.join()
    for probe in running:
        probe.finish()
    return rate


def bring_into_cache(file: Path) -> None:
    """Reads it once."""
    with file.open("rb", buffering=0) as opened:
        while opened.read(4 << 20):
            pass


def interval_of_median(values: list[float]) -> tuple[float, float]:
    """Between the two order statistics that hold the median with a probability of at least 0.95
    (binomial)."""
    rank = max(0, int(binom.ppf(0.025, len(values), 0.5)) - 1)
    return sorted(values)[rank], sorted(values)[-1 - rank]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--directory", type=Path, help="on the storage to use; a temporary one when not given"
    )
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--size", type=int, default=1024, help="MiB of the file")
    asked = parser.parse_args()
    verdicts: list[str] = []
    with tempfile.TemporaryDirectory(dir=asked.directory) as name:
        folder = Path(name)
        options = {"file_size": asked.size << 20, "record_size": 65536, "flush": False}
        for mode in MODES:
            part = Sequential("w", SequentialOptions.model_validate({"mode": mode, **options}))
            files = tuple(part.prepare_files(folder, 1, seed=1))
            scratch = folder / "job-0000"
            scratch.mkdir(exist_ok=True)
            given = JobInput(files, folder, scratch, slot=0, slots=1, seed=1)
            file = Path(files[0]) if files else scratch / "written.data"
            seen: list[tuple[float, float]] = []
            for pair in range(asked.pairs + 1):
                rates: dict[bool, float] = {}
                for ours in (True, False) if pair % 2 else (False, True):
                    if mode == "write":
                        file.unlink(missing_ok=True)
                    else:
                        bring_into_cache(file)
                    rates[ours] = (
                        through_headrace(mode, options, given)
                        if ours
                        else by_hand(file, part.fio_options(1), scratch)
                    )
                if pair:  # the first warms programs and caches
                    seen.append((rates[True], rates[False]))
            ratios = [ours / hand for ours, hand in seen]
            low, high = interval_of_median(ratios)
            verdicts.append(
                "yes"
                if low >= 1 - BOUND and high <= 1 + BOUND
                else "no"
                if high < 1 - BOUND or low > 1 + BOUND
                else "unsure"
            )
            print(
                f"{mode:12} {statistics.median(ratios):.3f} of fio by hand, {low:.3f} to "
                f"{high:.3f}: within 3 %? {verdicts[-1]}"
            )
    return 1 if "no" in verdicts else 2 if "unsure" in verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
