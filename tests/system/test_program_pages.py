"""A held program stays in memory when the page cache is emptied."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.system import page_cache
from headrace.system.program_pages import hold_program

PROGRAM = """
import sys
from headrace.system.program_pages import hold_program
print(hold_program(sys.argv[1]), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("held", [True, False])
def test_a_held_program_is_not_dropped(tmp_path: Path, held: bool) -> None:
    """A copy of a real program, so that nobody else holds it."""
    copy = tmp_path / "program"
    shutil.copy(shutil.which("fio") or "/bin/sh", copy)
    size = copy.stat().st_size
    descriptor = os.open(copy, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    package = str(Path(__file__).parents[2] / "python")
    holder = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(copy) if held else "no-such-program"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": package},
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    told = int(holder.stdout.readline())
    page_cache.drop_files([copy])
    resident = page_cache.resident_bytes([copy])
    holder.stdin.close()
    holder.wait()
    if held:
        assert told > size  # with its libraries
        assert resident >= size
    else:
        assert told == 0
        assert resident == 0


def test_scripts_and_missing_programs_are_no_trouble(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    before = hold_program("no-such-program")
    assert hold_program(str(script)) == before + script.stat().st_size
