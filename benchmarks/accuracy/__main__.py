"""Compares the models with measurements, and writes docs/accuracy.md.

    python benchmarks/accuracy [NAME …] [--data FOLDER] [--list] [--render]

Each comparison is one file in comparisons/. One that misses its measurements is named and keeps its
last result. Exit code 0 also then: what is missing is no error of a model.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from comparisons import comparisons
from page import PAGE, page
from results import load, result_of, save
from rows import Missing


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="accuracy", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="comparisons; default: all")
    parser.add_argument(
        "--data",
        type=Path,
        default=os.environ.get("HEADRACE_MEASUREMENTS") or None,
        help="folder of measurements (or $HEADRACE_MEASUREMENTS)",
    )
    parser.add_argument("--list", action="store_true", help="list the comparisons")
    parser.add_argument("--render", action="store_true", help="only write the page")
    asked = parser.parse_args()
    known = comparisons()
    if asked.list:
        for name, comparison in known.items():
            print(f"{name:20} {comparison.model}: {comparison.title}")
        return 0
    unknown = [name for name in asked.names if name not in known]
    if unknown:
        parser.error(f"no comparison {', '.join(unknown)}; there are {', '.join(known)}")
    data = None if asked.data is None else Path(asked.data)
    if data is not None and not data.is_dir():
        parser.error(f"--data: {data} is not a folder")
    if not asked.render:
        for name in asked.names or known:
            began = time.monotonic()
            try:
                rows = known[name].rows(data)
            except Missing as missing:
                print(f"{name}: not run, its last result is kept. Missing: {missing}")
                continue
            save(result_of(name, known[name], rows))
            print(f"{name}: {len(rows)} rows in {time.monotonic() - began:.1f} s")
    PAGE.write_text(page(load(), known))
    print(f"written: {os.path.relpath(PAGE)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
