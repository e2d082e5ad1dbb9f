"""Trials that failed for a reason that may pass are run again; names that no file can have."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.engine.measure.outcome import failure_of
from headrace.errors import HeadraceError, UsageError
from headrace.library.running import default_results
from headrace.profiles.places import profile_to_write


@pytest.mark.parametrize(
    ("number", "code", "remedy"),
    [
        (errno.ENOSPC, "no-space", "free some space"),
        (errno.EDQUOT, "no-space", "free some space"),
        (errno.EROFS, "read-only", "mount it writable"),
        (errno.EMFILE, "open-files", "raise the limit (ulimit -n)"),
        (errno.EAGAIN, "processes", "raise the limit (ulimit -u"),
        (errno.EFBIG, "file-size", "raise the limit (ulimit -f)"),
    ],
)
def test_what_the_machine_lacked_is_said_with_its_remedy(
    number: int, code: str, remedy: str
) -> None:
    error = OSError(number, os.strerror(number), "/data/scratch")
    failure = failure_of(error)
    assert (failure.passing, failure.trace) == (code, None)
    assert failure.cause.startswith(f"/data/scratch: {os.strerror(number)} ({remedy}")
    assert failure.cause.endswith("resume with --retry-invalid)")
    try:
        raise HeadraceError("the directory cannot be made") from error
    except HeadraceError as raised:
        assert failure_of(raised).passing == code


def test_a_thread_that_could_not_be_started_is_a_limit_that_may_pass() -> None:
    failure = failure_of(RuntimeError("can't start new thread"))
    assert (failure.passing, failure.trace) == ("processes", None)
    assert "ulimit -u" in failure.cause


def test_other_errors_do_not_pass() -> None:
    failure = failure_of(OSError(errno.ENOENT, "No such file or directory", "/data"))
    assert (failure.passing, failure.node_lost) == ("", False)
    assert failure.cause.endswith("(not foreseen by Headrace; see error.txt in the record)")


@pytest.mark.parametrize("name", [b"a\xff.toml", b"q" * 237 + b".toml"])
def test_a_profile_whose_steps_could_not_be_written_is_refused(name: bytes, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"the name of .*(UTF-8|too long)") as caught:
        profile_to_write(tmp_path / os.fsdecode(name), "name")
    assert caught.value.hint == "give it another name"


def test_a_program_is_not_run_if_its_profile_could_not_be_written(tmp_path: Path) -> None:
    file = os.fsencode(tmp_path) + b"/a\xff.toml"
    words = ["-m", "headrace", "record", "--out", file, "--", "touch", tmp_path / "ran"]
    ended = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert ended.returncode == 2 and "must be UTF-8" in ended.stderr, ended.stderr
    assert not (tmp_path / "ran").exists()


def test_the_longest_name_of_a_study_has_results(tmp_path: Path) -> None:
    made = default_results(tmp_path / f"{'é' * 124}.toml")
    assert len(os.fsencode(made.name)) <= 230
    assert re.fullmatch(r"é{100}-\d{8}-\d{6}", made.name)
