"""Commands with a limited address space (`ulimit -v`): a result or one sentence, never a hang."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from synthetic_records import Truth, plan_of, write_results

REPORT = (sys.executable, "-c", "from headrace.cli import main; main()", "report", "results")


def limited(folder: Path, kib: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        REPORT,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (kib * 1024, kib * 1024)),
    )


@pytest.mark.parametrize("kib", [150_000, 250_000, 400_000, 1_500_000])
def test_a_limit_that_is_too_low_is_named(tmp_path: Path, kib: int) -> None:
    """With 400 000 KiB OpenBLAS waited for memory without an end; with less it was a traceback, and
    with 1 500 000 as well, of which Arrow's allocator had reserved most."""
    cells = [{"target": "disk", "workload": "scan", "slots": slots} for slots in (1, 2)]
    write_results(tmp_path / "results", plan_of(cells, 2), Truth())
    ended = limited(tmp_path, kib)
    assert "Traceback" not in ended.stderr
    if kib < 500_000:
        assert ended.returncode == 3, ended.stderr
        assert f"limited to {kib} KiB (ulimit -v)" in " ".join(ended.stderr.split())
    else:
        assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "results" / "report.html").exists() == (ended.returncode == 0)
