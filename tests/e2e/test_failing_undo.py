"""What cannot be put back at first.

The rest is, the user is told, and `headrace undo` does it later. Needs root.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.system import network_namespaces
from workspace import Workspace

CRASH = """
import os, signal, sys
from pathlib import Path
from headrace.system import network_namespaces
from headrace.system.journal import Journal
from headrace.system.owned import make_file, work_directory
journal = Journal.open("a run that was killed")
work_directory(journal, Path(sys.argv[1]))
journal.begin("delete_netns", name=sys.argv[2])
network_namespaces.create(sys.argv[2])
make_file(journal, Path(sys.argv[1]) / "disk.img", 4096)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_one_undo_action_that_fails_keeps_nothing_else_from_being_undone(
    workspace: Workspace,
) -> None:
    """A namespace that somebody has mounted once more cannot be deleted."""
    folder = workspace.place / "work"
    folder.mkdir()
    name = f"headrace-test-{os.getpid()}"
    environment = {**os.environ, **workspace.environment}
    ended = subprocess.run([sys.executable, "-c", CRASH, folder, name], env=environment)
    assert ended.returncode == -signal.SIGKILL
    namespace, other = Path("/run/netns") / name, f"{name}-other"
    network_namespaces.create(other)
    subprocess.run(["mount", "--bind", "/proc/self/ns/net", namespace], check=True)
    try:
        ended = workspace.run("undo")
        assert ended.returncode == 6, ended.stdout
        failed = [line for line in ended.stdout.splitlines() if "FAILED" in line]
        assert len(failed) == 1 and f"network namespace {name}: " in failed[0]
        assert "busy" in failed[0]
        assert list(folder.iterdir()) == [], "what comes after it and before it is undone"
    finally:
        # One mount after the other: --all-targets would unmount every namespace of the machine,
        # since all are of one file system.
        while subprocess.run(["umount", namespace], capture_output=True).returncode == 0:
            pass
        network_namespaces.call_inside(other, lambda: None)
        network_namespaces.delete(other)
    ended = workspace.run("undo")
    assert ended.returncode == 0 and "FAILED" not in ended.stdout
    assert not namespace.exists()


@pytest.fixture
def small(workspace: Workspace) -> Iterator[Path]:
    """A small ext4, on which a file can be made so that not even root removes it."""
    image, place = workspace.place / "small.img", workspace.place / "small"
    with image.open("wb") as file:
        file.truncate(32 << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    place.mkdir()
    subprocess.run(["mount", "-o", "loop", image, place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def test_a_fault_that_cannot_be_lifted_is_told_and_lifted_later(
    workspace: Workspace, small: Path
) -> None:
    study = workspace.study(
        """
headrace = 1
title = "a fault that stays"
[target.here]
kind = "path"
path = "small"
[workload.holds]
kind = "command"
command = ["sh", "-c", "until chattr +i small/.headrace-fill-*; do sleep 0.05; done"]
[[fault]]
what = "disk-full"
free = "1 MB"
[plan]
repeats = { min = 2 }
[run]
shortest = 0
cache = "as-is"
""".replace("small/.headrace-fill", f"{small}/.headrace-fill")
    )
    ended = workspace.measure(study)
    assert ended.returncode == 6, ended.stderr
    assert "could not restore" in ended.stderr and "headrace undo" in ended.stderr, ended.stderr
    first, second = workspace.trials()
    assert "Operation not permitted" in first["faults"][0]["not_lifted"]
    assert first["validity"]["valid"] is False
    assert second["status"] == "failed" and "left by an earlier trial" in second["cause"]
    left = list(small.glob(".headrace-fill-*"))
    assert len(left) == 1
    ended = workspace.run("undo")
    assert ended.returncode == 6 and "Operation not permitted" in ended.stdout, ended.stdout
    subprocess.run(["chattr", "-i", *left], check=True)
    ended = workspace.run("undo")
    assert ended.returncode == 0 and "removed" in ended.stdout, ended.stdout
    assert list(small.glob(".headrace-fill-*")) == []
