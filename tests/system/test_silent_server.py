"""A hard NFS mount whose server says nothing, or is killed.

A study that is stopped by a signal ends all the same, in bounded time, and leaves nothing. One
whose server is killed goes on with another.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.system.journal import pending_journals, undo
from headrace.targets import TargetContext
from machine import mounts_below
from served_targets import assert_gone, made, namespaces, namespaces_of, processes_of, standing

pytestmark = pytest.mark.usefixtures("needs_root")

STUDY = """
headrace = 1
title = "a silent server"
[target.nas]
kind = "nfs"
[workload.write]
kind = "sequential"
mode = "write"
file_size = "2 GiB"
[site.node]
link = { rate = "20 Mb/s" }
[run]
timeout = "10 min"
"""


def test_release_does_not_wait_for_a_silent_server(context: TargetContext) -> None:
    target = made("nfs")
    with standing(target, context) as (location, within):
        assert location.directory is not None
        # Dirty pages, which an ordinary unmount would write out.
        program = "import sys; f = open(sys.argv[1], 'wb')\nwhile True: f.write(bytes(1 << 16))"
        writer = subprocess.Popen(
            [sys.executable, "-c", program, str(location.directory / "grows")]
        )
        try:
            time.sleep(0.5)
            (server,) = location.servers.values()
            server.pause()
            begun = time.monotonic()
            target.release(within)
            assert time.monotonic() - begun < 90
        finally:
            writer.kill()
        assert writer.wait(60) != 0
    assert_gone(location, context)


def started(place: Path, study: str) -> subprocess.Popen[str]:
    """Start a study, and return when its jobs are at work."""
    (place / "study.toml").write_text(study)
    program = "from headrace.cli import main; main()"
    run = subprocess.Popen(
        [sys.executable, "-c", program, "run", "study.toml", "--results", "results"],
        cwd=place,
        env={**os.environ, "HEADRACE_JOURNAL_DIR": str(place / "journal"), "TMPDIR": str(place)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    deadline = time.monotonic() + 120
    while not any("written.data" in line for line in processes_of(str(place))):
        assert time.monotonic() < deadline
        assert run.poll() is None, run.communicate()[0]
        time.sleep(0.1)
    time.sleep(1)
    return run


def servers_of(place: Path) -> list[int]:
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit()
        and b"ganesha.nfsd" in command_line(entry)
        and str(place).encode() in command_line(entry)
    ]


def nothing_left(place: Path) -> None:
    assert processes_of(str(place)) == []
    assert mounts_below(place) == []
    assert list((place / "journal").iterdir()) == []


def end(run: subprocess.Popen[str], place: Path) -> None:
    """End a run that did not end by itself; its mount is left to the undo."""
    if run.poll() is None:
        run.kill()
        run.wait()
        for left in pending_journals(place / "journal"):
            undo(left.file)


def test_a_signal_stops_a_study_whose_server_is_silent(tmp_path: Path) -> None:
    run = started(tmp_path, STUDY)
    servers = servers_of(tmp_path)
    try:
        assert servers
        used = namespaces_of(tmp_path / "journal")
        assert used
        for pid in servers:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(0.5)
        run.send_signal(signal.SIGINT)
        said, _ = run.communicate(timeout=60)
    finally:
        for pid in servers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        end(run, tmp_path)
    assert "Traceback" not in said
    assert not used & namespaces()
    nothing_left(tmp_path)


def test_a_server_that_is_killed_costs_one_trial(tmp_path: Path) -> None:
    """Its jobs wait in a hard mount, and the next trial has a server again."""
    again = STUDY.replace('"2 GiB"', '"32 MiB"').replace(
        "[run]", "[plan]\nrepeats = { min = 2 }\n[run]"
    )
    run = started(tmp_path, again)
    try:
        for pid in servers_of(tmp_path):
            os.kill(pid, signal.SIGKILL)
        said, _ = run.communicate(timeout=400)
    finally:
        end(run, tmp_path)
    assert "Traceback" not in said
    assert run.returncode == 5, said
    trials = [
        json.loads((folder / "trial.json").read_bytes())
        for folder in sorted((tmp_path / "results" / "trials").iterdir())
    ]
    lost = {reason["code"]: reason["text"] for reason in trials[0]["validity"]["reasons"]}
    assert "ended (killed by SIGKILL) while jobs ran" in lost.get("node-lost", ""), lost
    assert trials[1]["status"] == "done"
    assert "resume results --retry-invalid" in " ".join(said.split())
    assert "node-lost" not in {reason["code"] for reason in trials[1]["validity"]["reasons"]}
    nothing_left(tmp_path)


@pytest.mark.parametrize(
    ("target", "program", "said"),
    [
        ("servers = 2\nreplicas = 2", "--brick-name", "server nas-. lost its brick"),
        pytest.param(
            "servers = 1", "--brick-name", "server nas-. lost its brick", marks=pytest.mark.heavy
        ),
        ("servers = 1", "--volfile-server", "the client on node-0 ended .killed by SIGKILL."),
        pytest.param(
            None,
            "nfs_fuse",
            "the client on node-0 ended .killed by SIGKILL.",
            marks=pytest.mark.heavy,
        ),
    ],
    ids=["brick-with-a-copy", "brick", "client", "nfs-client"],
)
def test_a_brick_or_client_that_is_killed_costs_one_trial(
    tmp_path: Path, target: str | None, program: str, said: str
) -> None:
    """Bricks are no processes of a volume's first server, and what has copies is still read."""
    study = STUDY.replace('"2 GiB"', '"32 MiB"').replace(
        "[run]", "[plan]\nrepeats = { min = 2 }\n[run]"
    )
    if target is not None:
        gluster = f'kind = "glusterfs"\nbricks = {{ size = "256 MiB" }}\n{target}'
        study = study.replace('kind = "nfs"', gluster)
    run = started(tmp_path, study)
    try:
        os.kill(_first_process(tmp_path, program), signal.SIGKILL)
        shown, _ = run.communicate(timeout=400)
    finally:
        end(run, tmp_path)
    assert run.returncode == 5 and "Traceback" not in shown, shown
    trials = [
        json.loads((folder / "trial.json").read_bytes())
        for folder in sorted((tmp_path / "results" / "trials").iterdir())
    ]
    lost = {reason["code"]: reason["text"] for reason in trials[0]["validity"]["reasons"]}
    assert re.fullmatch(f"{said} while jobs ran", lost.get("node-lost", "")), trials[0]["cause"]
    assert trials[1]["status"] == "done"
    assert "resume results --retry-invalid" in " ".join(shown.split())
    nothing_left(tmp_path)


def _first_process(place: Path, word: str) -> int:
    return min(
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit()
        and word.encode() in (line := command_line(entry))
        and str(place).encode() in line
    )


def command_line(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""
