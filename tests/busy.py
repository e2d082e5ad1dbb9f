"""Other programs that keep a machine busy.

Real processes, started and ended by the test that wants them.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

SPIN = "while True:\n    pass\n"
WRITE = """import os, sys
piece = bytes(8 << 20)
with open(sys.argv[1], "wb", buffering=0) as file:
    while True:
        os.pwrite(file.fileno(), piece, 0)
        os.fsync(file.fileno())
"""


@contextmanager
def programs(
    folder: Path, name: str, text: str, count: int = 1, *arguments: str, before: Sequence[str] = ()
) -> Generator[list[int]]:
    """Process ids of so many processes that run a script of this name while the block lasts.

    `before`: a command that starts it.
    """
    script = folder / name
    command = [*before, sys.executable, str(script), *arguments]
    script.write_text(f"print(flush=True)\n{text}")
    # Each in a session of its own, as programs of others are: the kernel shares CPUs among sessions
    # first (autogroups).
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
        for _ in range(count)
    ]
    try:
        for process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == b"\n", "it has ended"
        yield [process.pid for process in running]
    finally:
        for process in running:
            process.kill()
            process.communicate()
