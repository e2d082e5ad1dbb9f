"""Requests that the drive models serve a second of CPU on one core, beside SimPy and SimGrid in the
same run.

The peers serve a bare resource (no seeks, no platter), so the comparison favours them.
`scripts/setup-bench` (part of `make bench`) installs them; without one of them its row says so.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from figures import note

ROOT = Path(__file__).parents[1]
REQUESTS = 200_000


def models() -> dict[str, float]:
    """Our own, by the example of the crate: name and depth -> requests per CPU second."""
    command = [
        "cargo",
        "run",
        "--release",
        "-q",
        "-p",
        "headrace-model",
        "--example",
        "drive_speed",
    ]
    text = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    rows = re.findall(r"^(\S+)\s+(\w+)\s+depth\s+(\d+):\s+([\d.]+) M", text, re.M)
    return {
        f"{name} {pattern} depth {depth}": float(millions) * 1e6
        for name, pattern, depth, millions in rows
    }


def simpy_resource() -> float | None:
    """A closed loop of one client on a bare SimPy resource."""
    try:
        import simpy
    except ImportError:
        return None
    environment = simpy.Environment()
    disk = simpy.Resource(environment, capacity=1)

    def client():
        for _ in range(REQUESTS):
            with disk.request() as request:
                yield request
                yield environment.timeout(0.0127)

    environment.process(client())
    begin = time.process_time()
    environment.run()
    return REQUESTS / (time.process_time() - begin)


def simgrid_disk() -> float | None:
    """One SimGrid actor reading from one SimGrid disk."""
    if shutil.which("g++") is None or not Path("/usr/include/simgrid/s4u.hpp").exists():
        return None
    with tempfile.TemporaryDirectory() as place:
        program = Path(place) / "simgrid_disk"
        source = Path(__file__).with_name("peers") / "simgrid_disk.cpp"
        subprocess.run(["g++", "-O2", "-std=c++17", "-o", program, source, "-lsimgrid"], check=True)
        ended = subprocess.run([program, str(REQUESTS)], check=True, capture_output=True, text=True)
    return float(ended.stdout)


def main() -> None:
    peers = {"SimPy, bare resource": simpy_resource(), "SimGrid, disk": simgrid_disk()}
    for name, rate in peers.items():
        print(
            f"{name:32} "
            + ("not installed" if rate is None else f"{rate / 1e6:6.3f} M requests per CPU second")
        )
    fastest = max((rate for rate in peers.values() if rate is not None), default=None)
    measured = {name: rate for name, rate in peers.items() if rate is not None}
    for name, rate in models().items():
        note(name, rate, measured)
        ratio = (
            ""
            if fastest is None
            else f", {rate / fastest:5.1f} times the fastest peer (wanted: at least 5)"
        )
        print(f"{name:32} {rate / 1e6:6.2f} M requests per CPU second{ratio}")


if __name__ == "__main__":
    main()
