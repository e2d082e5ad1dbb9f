"""Variables that Headrace sets for its own code: programs of the user do not inherit them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.system.own_variables import BLAS, THREAD_COUNTS, one_thread, users_environment

HEADRACE = (sys.executable, "-c", "from headrace.cli import main; main()")
THREADS = (
    "import sys; sys.argv = ['headrace', '--version']\n"
    "import contextlib, headrace.cli\n"
    "with contextlib.suppress(SystemExit): headrace.cli.main()\n"
    "import numpy, threading; from pathlib import Path\n"
    "print(len(list(Path('/proc/self/task').iterdir())))"
)


@pytest.fixture(autouse=True)
def users(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user has chosen one of them."""
    for name in (*THREAD_COUNTS, "HEADRACE_SET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MKL_NUM_THREADS", "6")


def test_what_the_user_set_stays_and_what_headrace_set_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = dict(os.environ)
    assert users_environment() == before
    for names in (BLAS, THREAD_COUNTS):  # the command, and the process that forks its jobs
        for name, value in one_thread(names).items():
            monkeypatch.setenv(name, value)
        assert {name: os.environ[name] for name in names} == {
            name: "6" if name == "MKL_NUM_THREADS" else "1" for name in names
        }
        assert users_environment() == before


@pytest.mark.parametrize("command", ["record", "why"])
def test_a_program_that_is_watched_has_the_users_environment(command: str, tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "print(*(os.environ.get(name) for name in ('OPENBLAS_NUM_THREADS', 'MKL_NUM_THREADS')),"
        " any(name.startswith('HEADRACE_SET') for name in os.environ), file=sys.stderr)"
    )
    out = ("--out", str(tmp_path / "job.toml")) if command == "record" else ()
    words = (*HEADRACE, command, *out, "--", sys.executable, "-c", code)
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "None 6 False" in done.stderr.splitlines(), done.stderr


def test_numpy_starts_no_threads_in_a_command() -> None:
    done = subprocess.run((sys.executable, "-c", THREADS), capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "1", done.stdout + done.stderr
