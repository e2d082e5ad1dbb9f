"""`headrace watch` and `why` where /proc shows little, as in containers: said, and no traceback."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from workspace import HEADRACE

pytestmark = pytest.mark.usefixtures("needs_root")
NOBODY = (
    # The right to read files is that of the programs, which another user may not reach.
    "setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps +dac_read_search "
    "--ambient-caps +dac_read_search env HOME=/nonexistent"
)


@pytest.fixture
def sleeper() -> Iterator[int]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process.pid
        process.kill()


def within(before: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run headrace in a mount namespace of its own, behind these commands."""
    ended = subprocess.run(
        ["unshare", "-m", "sh", "-c", f'{before} "$@"', "sh", str(HEADRACE), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in ended.stderr + ended.stdout, ended.stderr
    return ended


@pytest.mark.parametrize(
    "arguments",
    [("--pid", "PID"), ("--all",), ("--user", "root"), ("--cgroup", "/"), ("--slurm", "1")],
)
def test_a_container_without_proc(sleeper: int, arguments: tuple[str, ...]) -> None:
    given = [str(sleeper) if each == "PID" else each for each in arguments]
    ended = within("mount -t tmpfs none /proc; exec", "watch", "--once", *given)
    assert ended.returncode == 3 and "/proc does not show processes here" in ended.stderr


def test_why_without_proc(sleeper: int) -> None:
    empty = "mount -t tmpfs none /proc; exec"
    ended = within(empty, "why", "--pid", str(sleeper))
    assert ended.returncode == 3 and "/proc does not show processes here" in ended.stderr
    ended = within(empty, "why", "--", "true")  # the program runs all the same
    assert ended.returncode == 0 and "Limit: not known" in ended.stderr


def test_counters_of_the_machine_that_a_container_hides(sleeper: int) -> None:
    hide = "for name in diskstats loadavg stat; do mount --bind /dev/null /proc/$name; done; exec"
    ended = within(hide, "watch", "--pid", str(sleeper), "--once", "--json", "--interval", "0.3 s")
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert found["jobs"][0]["interval"]["wall_s"] > 0.2
    assert found["foreign_io"] == {} and found["foreign_cpus"] is None


def test_processes_that_hidepid_hides(sleeper: int) -> None:
    hidden = f"mount -t proc -o hidepid=2 none /proc; exec {NOBODY}"
    for arguments in (("watch", "--once"), ("why",)):
        ended = within(hidden, *arguments, "--pid", str(sleeper))
        assert ended.returncode == 3
        assert "the process runs, but /proc does not show it" in ended.stderr
    ended = within(hidden, "watch", "--once", "--user", "root")
    assert ended.returncode == 3 and "mounted with hidepid" in ended.stderr
    ended = within(hidden, "watch", "--all", "--once", "--interval", "0.2 s")
    assert ended.returncode == 0, ended.stderr
    assert "hidepid" in ended.stdout
