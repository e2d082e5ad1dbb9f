"""Runs the benchmarks, each a program of its own, and prints the table of their figures at the end.

    python benchmarks [NAME …] [--small] [--write]

`--small`: at the smallest size, to see that they run; figures mean nothing then. `--write`: also
write the table into docs/performance.md, with date and machine. A benchmark that fails or is
outside its bounds does not stop the others. Exit code 0: all ran and are within their bounds.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from figures import read
from table import machine, table, write

FOLDER = Path(__file__).parent
PARTS = {"__main__", "figures", "table"}
"""Modules that are no benchmarks."""
BY_HAND = {"compare_versions", "read_ahead_of_linux"}
"""Those that need an argument."""
SMALL = ("cluster_speed", "recorder_overhead", "report_scale", "start_of_commands", "sweep")
"""Those that have a small size: others need peers, devices, servers or examples of the crates."""


def run(name: str, small: bool, figures: Path) -> bool:
    """Run a benchmark; return whether it ran and is within its bounds."""
    print(f"== {name}", flush=True)
    environment = {**os.environ, "HEADRACE_FIGURES": str(figures)}
    if small:
        environment["HEADRACE_SMALL"] = "1"
    program = FOLDER / f"{name}.py"
    ended = subprocess.run([sys.executable, program], env=environment, cwd=FOLDER.parent)
    if ended.returncode:
        print(f"== {name} ended with exit code {ended.returncode}", flush=True)
    return ended.returncode == 0


def main() -> int:
    """Return the exit code."""
    known = sorted({file.stem for file in FOLDER.glob("*.py")} - PARTS - BY_HAND)
    parser = argparse.ArgumentParser(
        prog="benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks; default: all")
    parser.add_argument("--small", action="store_true", help="see that they run")
    parser.add_argument("--write", action="store_true", help="write docs/performance.md, too")
    asked = parser.parse_args()
    names = asked.names or (SMALL if asked.small else known)
    if unknown := [name for name in names if name not in known]:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(known)}")
    if asked.small and (large := [name for name in names if name not in SMALL]):
        parser.error(f"no small size: {', '.join(large)}; there are {', '.join(SMALL)}")
    with tempfile.TemporaryDirectory(prefix="headrace-figures-") as folder:
        file = Path(folder) / "figures.jsonl"
        failed = [name for name in names if not run(name, asked.small, file)]
        lines = table(read(file))
    print("\n".join(["", machine(), "", *lines]))
    if asked.write:
        write(lines)
    if failed:
        print(f"failed, or outside their bounds: {', '.join(failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
