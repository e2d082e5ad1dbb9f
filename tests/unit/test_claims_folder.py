"""Claims of places are seen by all processes of a user, whatever their environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

CLAIMED_TWICE = """
import os, sys, tempfile
from pathlib import Path
from headrace.errors import RefusedError
from headrace.system.claims import Place, claimed
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
place = Place(Path(sys.argv[1], "target"), "the folder of target disk")
with claimed([place]):
    child = os.fork()
    if not child:
        os.environ["TMPDIR"], tempfile.tempdir = sys.argv[1], None
        assert tempfile.gettempdir() == sys.argv[1]
        try:
            with claimed([place]):
                print("claimed twice", flush=True)
        except RefusedError as error:
            print(error.message, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


def test_a_place_is_claimed_for_processes_with_another_tmpdir() -> None:
    """Batch systems give each job a TMPDIR of its own: two runs used one target at once."""
    with TemporaryDirectory(prefix="headrace test ", dir="/var/tmp") as folder:
        Path(folder).chmod(0o777)
        ended = subprocess.run(
            [sys.executable, "-c", CLAIMED_TWICE, folder], capture_output=True, text=True
        )
        assert "is in use by another headrace" in ended.stdout, ended.stdout + ended.stderr
        assert not list(Path(folder).iterdir())
