"""A hard NFS mount whose server says nothing.

A study that is stopped by a signal ends all the same, in bounded time, and leaves nothing.
"""

from __future__ import annotations

import contextlib
import os
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


def test_a_signal_stops_a_study_whose_server_is_silent(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    journals = tmp_path / "journal"
    run = subprocess.Popen(
        [
            sys.executable,
            *(
                "-c",
                "from headrace.cli import main; main()",
                "run",
                "study.toml",
                "--results",
                "results",
            ),
        ],
        cwd=tmp_path,
        env={**os.environ, "HEADRACE_JOURNAL_DIR": str(journals), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    servers: list[int] = []
    try:
        deadline = time.monotonic() + 120
        while not any("written.data" in line for line in processes_of(str(tmp_path))):
            assert time.monotonic() < deadline
            assert run.poll() is None, run.communicate()[0]
            time.sleep(0.1)
        time.sleep(1)
        servers = [
            int(entry.name)
            for entry in Path("/proc").iterdir()
            if entry.name.isdigit()
            and b"ganesha.nfsd" in command_line(entry)
            and str(tmp_path).encode() in command_line(entry)
        ]
        assert servers
        used = namespaces_of(journals)
        assert used
        for pid in servers:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(0.5)
        run.send_signal(signal.SIGINT)
        said, _ = run.communicate(timeout=60)
    finally:
        # A run that did not end by itself leaves its mount to the undo, once its server answers.
        for pid in servers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        if run.poll() is None:
            run.kill()
            run.wait()
            for left in pending_journals(journals):
                undo(left.file)
    assert "Traceback" not in said
    assert not used & namespaces()
    assert processes_of(str(tmp_path)) == []
    assert mounts_below(tmp_path) == []
    assert list(journals.iterdir()) == []


def command_line(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""
