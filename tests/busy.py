"""Other programs that keep a machine busy.

Real processes, started and ended by the test that wants them.
"""

from __future__ import annotations

import subprocess
import sys
import time
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
    script.write_text(text)
    command = [*before, sys.executable, str(script), *arguments]
    # Each in a session of its own, as programs of others are: the kernel shares CPUs among sessions
    # first (autogroups).
    running = [subprocess.Popen(command, start_new_session=True) for _ in range(count)]
    try:
        time.sleep(0.2)
        assert all(process.poll() is None for process in running)
        yield [process.pid for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()
