"""How long `headrace reproduce` takes for all four published studies.

    python benchmarks/reproduce_time.py [STUDY ...]

Prints wall time and CPU time. Exit code 0: within the goal of 25 s, 1: outside.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from figures import note

GOAL_S = 25.0


def main() -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("studies", nargs="*", metavar="STUDY", help="default: all")
    studies = parser.parse_args().studies
    command = str(Path(sys.executable).with_name("headrace"))
    with tempfile.TemporaryDirectory(prefix="headrace-reproduce-") as folder:
        page = str(Path(folder) / "page.html")
        before, begin = os.times(), time.monotonic()
        subprocess.run(
            [command, "reproduce", *studies, "--html", page],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wall_s, after = time.monotonic() - begin, os.times()
    cpu_s = (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
    if not studies:
        note("reproduce", wall_s)
    print(
        f"{', '.join(studies) or 'all studies'}: {wall_s:.1f} s, {cpu_s:.1f} s of CPU time on "
        f"{os.cpu_count()} CPUs; goal {GOAL_S:.0f} s"
    )
    return int(wall_s > GOAL_S)


if __name__ == "__main__":
    sys.exit(main())
