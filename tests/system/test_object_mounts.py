"""Target `path` on a mount in user space whose files are sent when they are closed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from headrace.errors import ExitCode
from headrace.system.mounts import is_mounted
from headrace.system.waiting import wait_until
from headrace.targets import TargetContext
from headrace.targets.path import PathOptions, PathTarget

_PROGRAM = Path(__file__).parents[1] / "object_mount.py"


STUDY = """headrace = 1
title = "bucket"
[target.bucket]
kind = "path"
path = "{place}"
[workload.scan]
kind = "scan"
reader = "uproot"
data = {{ shape = "bench", events = 2000, files = 1 }}
"""


class Mounted(NamedTuple):
    place: Path
    sent: Path
    """A folder with what was sent to the storage."""
    client: subprocess.Popen[bytes]


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Mounted]:
    pytest.importorskip("mfusepy")
    place, sent = tmp_path / "mounted", tmp_path / "sent"
    place.mkdir()
    sent.mkdir()
    client = subprocess.Popen([sys.executable, _PROGRAM, sent, place])
    try:
        assert wait_until(lambda: is_mounted(place, "site:bucket"), 30, 0.05)
        yield Mounted(place, sent, client)
    finally:
        if client.poll() is None:
            client.terminate()  # it unmounts
        client.wait(10)
        subprocess.run(["umount", place], check=False, capture_output=True)


@pytest.mark.usefixtures("needs_root")
def test_the_trial_write_leaves_nothing(context: TargetContext, mounted: Mounted) -> None:
    place, sent = mounted.place, mounted.sent
    scratch = PathTarget("bucket", PathOptions.model_validate({"path": str(place)}))
    location = scratch.prepare(context)
    scratch.release(context)
    os.listdir(place)  # noqa: PTH208 - answered after what was released before
    assert list(sent.iterdir()) == []
    assert location.network
    assert location.description["network"] == {
        "kind": "rclone", "server": "site", "export": "bucket",
        "client": {"user_id": "0", "group_id": "0"},
    }  # fmt: skip


@pytest.mark.usefixtures("needs_root")
def test_a_mount_whose_client_has_died(mounted: Mounted, tmp_path: Path) -> None:
    """Commands ended with a traceback."""
    study = tmp_path / "study.toml"
    study.write_text(STUDY.format(place=mounted.place))
    mounted.client.kill()
    mounted.client.wait()
    results = ["--results", str(tmp_path / "results")]
    for words, code in (
        (["run", str(study), *results], ExitCode.MISSING),
        (["init", str(mounted.place), "-o", str(tmp_path / "new.toml")], ExitCode.RUN_FAILED),
        (["report", str(mounted.place / "results")], ExitCode.RUN_FAILED),
    ):
        ended = subprocess.run(
            [sys.executable, "-m", "headrace", *words], capture_output=True, text=True
        )
        said = " ".join(ended.stderr.split())
        assert ended.returncode == code, ended.stderr
        assert f"{mounted.place}" in said and "Transport endpoint is not connected" in said
        assert "unmount it, and mount it again" in said
