"""End to end: benchmarks run, at a small size. Their times mean nothing here."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.slow
def test_each_benchmark_with_a_small_size_runs_and_has_its_row() -> None:
    """All others need peers, devices, servers or examples of the crates."""
    command = [sys.executable, str(BENCHMARKS), "--small"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    rows = [line for line in ended.stdout.splitlines() if line.startswith("| ")]
    not_run = [row.split(" | ")[0] for row in rows if row.endswith("| not run |")]
    assert len(rows) == 17
    assert [name.split(",")[0] for name in not_run] == [
        "| disk",
        "| disk",
        "| SSD",
        "| block trace",
        "| emulated device",
        "| emulated device",
        "| emulated SSD",
        "| `headrace reproduce`",
    ]


def test_what_every_benchmark_imports_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also within functions, and in those that need devices or servers to run."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    missing: list[str] = []
    for file in sorted(BENCHMARKS.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("headrace"):
                module = importlib.import_module(str(node.module))
                for name in node.names:
                    if not hasattr(module, name.name) and not _is_module(node.module, name.name):
                        missing.append(f"{file.name}: {node.module}.{name.name}")
    assert missing == []


def _is_module(package: str | None, name: str) -> bool:
    try:
        importlib.import_module(f"{package}.{name}")
    except ImportError:
        return False
    return True
