"""Clients of `metadata` beside fio's filecreate, filestat and filedelete, on the same local ext4 in
one run: ratio at least 1.0 each.

Both make, stat and remove the same number of empty files in one shared directory, with as many
clients as there are cores; rounds alternate until the time is up, medians are compared. With root
the ext4 is fresh, in an image in memory (the cost of the calls and not a disk is to be seen);
otherwise, or with a directory named, it is whatever lies there. Where mdtest (`ior`) and `mpirun`
are installed they are compared, too.

    python benchmarks/metadata_speed.py [DIRECTORY] [--items N] [--seconds S]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from headrace.system.own_programs import own_program
from headrace.workloads.mdtest.output import read_mdtest
from headrace.workloads.mdtest.phases import merge_phases

CLIENTS = len(os.sched_getaffinity(0))
LEAST_ROUNDS = 3
ENGINES = {"file_creation": "filecreate", "file_stat": "filestat", "file_removal": "filedelete"}


@contextmanager
def place(named: str | None) -> Generator[Path]:
    """A directory on ext4, gone afterwards."""
    if named is not None or os.geteuid() != 0:
        made = Path(tempfile.mkdtemp(prefix="headrace-metadata-", dir=named))
        try:
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)
        return
    with tempfile.TemporaryDirectory(prefix="headrace-metadata-", dir="/dev/shm") as folder:
        image, mount = Path(folder) / "ext4.img", Path(folder) / "mnt"
        mount.mkdir()
        with image.open("wb") as file:
            file.truncate(2 << 30)
        subprocess.run(["mkfs.ext4", "-q", "-N", "400000", str(image)], check=True)
        subprocess.run(["mount", "-o", "loop", str(image), str(mount)], check=True)
        try:
            yield mount
        finally:
            subprocess.run(["umount", str(mount)], check=True)


def ours(directory: Path, items: int) -> dict[str, float]:
    """Operations a second of each phase, until the last client is done."""
    config = {
        "directory": str(directory / "ours"),
        "clients": CLIENTS,
        "items": items,
        "phases": list(ENGINES),
    }
    file = directory / "config.json"
    file.write_text(json.dumps(config))
    said = subprocess.run(
        [str(own_program("headrace-metadata")), str(file)],
        check=True,
        capture_output=True,
        text=True,
    )
    shutil.rmtree(directory / "ours")
    phases = merge_phases([json.loads(said.stdout)])["phases"]
    return {name: phases[name]["rate_ops_per_s"] for name in ENGINES}


def fio(directory: Path, items: int) -> dict[str, float]:
    """The same of fio: all operations over the runtime of its slowest job."""
    rates: dict[str, float] = {}
    for phase, engine in ENGINES.items():
        folder = directory / "fio"
        folder.mkdir()
        command = [
            "fio",
            "--name=f",
            f"--ioengine={engine}",
            f"--directory={folder}",
            f"--numjobs={CLIENTS}",
        ]
        command += [
            f"--nrfiles={items}",
            "--openfiles=1",
            "--filesize=1",
            "--bs=1",
            "--fallocate=none",
        ]
        command += ["--output-format=json", "--eta=never"]
        if engine == "filecreate":
            command.append("--create_on_open=1")
        said = subprocess.run(command, check=True, capture_output=True, text=True, cwd=directory)
        jobs = json.loads(said.stdout[said.stdout.index("{") :])["jobs"]
        done = sum(job[way]["total_ios"] for job in jobs for way in ("read", "write", "trim"))
        if done != CLIENTS * items:
            raise SystemExit(
                f"fio {engine} did {done} of {CLIENTS * items} operations: no comparison"
            )
        slowest_s = (
            max(job[way]["runtime"] for job in jobs for way in ("read", "write", "trim")) / 1000
        )
        rates[phase] = done / slowest_s
        shutil.rmtree(folder)
    return rates


def mdtest(directory: Path, items: int) -> dict[str, float] | None:
    """The same of mdtest under MPI, where both are installed."""
    if not (shutil.which("mdtest") and shutil.which("mpirun")):
        return None
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(CLIENTS)]
    command += ["mdtest", "-F", "-n", str(items), "-d", str(directory / "mdtest")]
    said = subprocess.run(command, check=True, capture_output=True, text=True, cwd=directory)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(directory / "mdtest")
    found = read_mdtest(said.stdout)[0].rates
    return {name: found[name].mean for name in ENGINES}


def _leave(number: int, frame: object) -> None:
    sys.exit(128 + number)


def main() -> int:
    """Prints the ratios; 1 when one is below 1.0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", nargs="?")
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument(
        "--seconds", type=float, default=60, help="no round begins that would end later"
    )
    asked = parser.parse_args()
    # So that what is mounted is unmounted when somebody loses patience.
    signal.signal(signal.SIGTERM, _leave)
    peers = {"headrace": ours, "fio": fio, "mdtest": mdtest}
    seen: dict[str, dict[str, list[float]]] = {
        name: {phase: [] for phase in ENGINES} for name in peers
    }
    with place(asked.directory) as directory:
        begun = time.monotonic()
        rounds = 0
        # As long as another one fits, by the mean of those before.
        while (
            rounds < LEAST_ROUNDS
            or (time.monotonic() - begun) * (rounds + 1) / rounds < asked.seconds
        ):
            for name in sorted(peers, reverse=bool(rounds % 2)):
                for phase, rate in (peers[name](directory, asked.items) or {}).items():
                    seen[name][phase].append(rate)
            rounds += 1
            ratios = [seen["headrace"][phase][-1] / seen["fio"][phase][-1] for phase in ENGINES]
            said = ", ".join(
                f"{phase} {ratio:.2f}" for phase, ratio in zip(ENGINES, ratios, strict=True)
            )
            print(f"round {rounds}, {time.monotonic() - begun:.0f} s: {said} times fio", flush=True)
    print(
        f"{CLIENTS} clients, {asked.items} files each, {rounds} rounds; operations a second, "
        f"medians"
    )
    worst = float("inf")
    for phase in ENGINES:
        own = statistics.median(seen["headrace"][phase])
        for name in ("fio", "mdtest"):
            if seen[name][phase]:
                peer = statistics.median(seen[name][phase])
                worst = min(worst, own / peer)
                print(
                    f"{phase:14} headrace {own:10.0f}   {name:6} {peer:10.0f}   ratio "
                    f"{own / peer:.2f}"
                )
    print(f"lowest ratio {worst:.2f} (at least 1.0)")
    return 0 if worst >= 1.0 else 1


if __name__ == "__main__":
    sys.exit(main())
