"""Folders in memory: one that a killed process has left goes away with the next, no other does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from headrace.system.memory_folder import memory_folder

_WAITS = """
import sys, time
from headrace.system.memory_folder import memory_folder
with memory_folder(sys.argv[1]) as folder:
    (folder / "a folder").mkdir()
    (folder / "a folder" / "file").write_text("data")
    print(folder, flush=True)
    time.sleep(600)
"""


def in_use(purpose: str) -> tuple[subprocess.Popen[str], Path]:
    """Start a process that has such a folder until it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", _WAITS, purpose], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    folder = Path(process.stdout.readline().strip())
    os.utime(folder, (0, 0))  # a young one is never removed
    return process, folder


@pytest.mark.parametrize("killed", [signal.SIGKILL, signal.SIGTERM])
def test_what_a_killed_process_left_is_removed(killed: signal.Signals) -> None:
    purpose = f"test-{uuid.uuid4().hex}"
    (left, its_folder), (running, in_its_use) = in_use(purpose), in_use(purpose)
    with left, running:
        left.send_signal(killed)
        left.wait()
        assert (its_folder / "a folder" / "file").read_text() == "data"
        with memory_folder(purpose) as own:
            assert own.is_dir() and own.stat().st_mode & 0o77 == 0
            assert not its_folder.exists() and (in_its_use / "a folder" / "file").exists()
        assert not own.exists()
        running.kill()
    with memory_folder(purpose):
        assert not in_its_use.exists()


def test_no_space_for_a_sample_is_no_problem_of_the_study(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(
        'headrace = 1\ntitle = "Full"\ntarget.t = { kind = "path", path = "." }\n'
        'site.node.drives = { t = "samsung-870-evo-1tb" }\n'
        'workload.w = { kind = "scan", data = { shape = "bench", events = 20_000, files = 1 } }\n'
    )
    lines = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))\n"
    lines += "sys.argv = ['headrace', 'simulate', 'study.toml']\n"
    lines += "from headrace.cli import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", lines], cwd=tmp_path, capture_output=True, text=True
    )
    assert ended.returncode == 6, ended.stderr
    assert "a temporary file cannot be written to /" in ended.stderr
    assert "File too large\n  raise the limit for the size of files (ulimit -f)" in ended.stderr
