"""CPU time of a command's start and of a small report, beside the import of what they are made of.

Each is a process, and its CPU time the least of several runs, in turns, so that other programs on
the machine matter little. The ratios are to the same libraries imported by Python alone: `typer`
for commands, and pandas, SciPy and Arrow for a report.

    python benchmarks/start_of_commands.py [--rounds 5]

Exit code 0: within the bounds of the ratios, 1: outside one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from figures import SMALL, note

from synthetic_records import Truth, plan_of, write_results

QUICKSTART = str(Path(__file__).parent.parent / "studies" / "quickstart.toml")
COMMANDS = {
    "--help": (["--help"], "typer", 4.5),
    "validate": (["validate", QUICKSTART], "typer", 11.0),
    "plan": (["plan", QUICKSTART], "typer", 17.0),
    "report of six trials": (["report", "results"], "analysis", 2.6),
}
"""Words, the import they are compared with, and the largest ratio."""

IMPORTS = {
    "typer": "import typer",
    "analysis": "import pandas, scipy.special, pyarrow.parquet, typer, jinja2",
}


def cpu_s(command: list[str], folder: Path) -> float:
    """CPU seconds of a process and what it waits for."""
    before = os.times()
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    after = os.times()
    return (
        after.children_user + after.children_system - before.children_user - before.children_system
    )


def main() -> int:
    """Print the table; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1 if SMALL else 5)
    asked = parser.parse_args()
    program = str(Path(sys.executable).with_name("headrace"))
    commands = {name: [program, *words] for name, (words, _, _) in COMMANDS.items()}
    commands |= {name: [sys.executable, "-c", code] for name, code in IMPORTS.items()}
    with tempfile.TemporaryDirectory(prefix="headrace-start-") as name:
        folder = Path(name)
        cells = [{"target": "disk", "workload": "higgs", "slots": slots} for slots in (1, 2)]
        write_results(folder / "results", plan_of(cells, 3), Truth(), series=True)
        least = dict.fromkeys(commands, float("inf"))
        for _ in range(asked.rounds):
            for each, command in commands.items():
                least[each] = min(least[each], cpu_s(command, folder))
    outside = False
    for each, (_, beside, bound) in COMMANDS.items():
        ratio = least[each] / least[beside]
        outside |= ratio > bound and not SMALL
        note(f"start {each}", least[each], {f"imports ({beside})": least[beside]})
        text = f"{least[each]:.2f} s, {ratio:.2f} times the imports ({beside}), bound {bound}"
        print(f"{each:22} {text}")
    return int(outside)


if __name__ == "__main__":
    sys.exit(main())
