"""How the programs of an XRootD server follow each other when it starts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.system.cluster import Cluster, NodeSettings
from headrace.system.servers import ServerContext, xrootd
from headrace.targets import TargetContext

pytestmark = pytest.mark.usefixtures("needs_root")


@pytest.fixture
def manager_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file for what is to run before cluster manager daemons."""
    folder = tmp_path / "bin"
    folder.mkdir()
    before = folder / "before"
    (folder / "cmsd").write_text(f'#!/bin/sh\n. "{before}"\nexec {shutil.which("cmsd")} "$@"\n')
    tmp_path.chmod(0o755)
    (folder / "cmsd").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return before


@pytest.fixture
def server(context: TargetContext) -> Generator[tuple[xrootd.XrootdServer, ServerContext]]:
    with Cluster.build(context.journal, [NodeSettings("data")]) as cluster:
        settings = xrootd.XrootdSettings("data", cluster["data"].address)
        server = xrootd.XrootdServer("data", cluster["data"], settings)
        place = context.work_dir / "storage"
        place.mkdir()
        within = ServerContext(
            context.journal, context.work_dir / "work", context.work_dir / "log", place
        )
        yield server, within
        server.stop()


def test_the_data_server_starts_when_its_manager_listens(
    server: tuple[xrootd.XrootdServer, ServerContext], manager_daemon: Path
) -> None:
    """Else it retries after ten seconds, which an outage of a study would last longer."""
    manager_daemon.write_text("sleep 2\n")
    server[0].start(server[1])
    (said,) = server[1].log_dir.rglob("*-cmsd.log")
    assert "Waiting for primary server to login" in said.read_text()


def test_a_program_that_ends_is_noticed_while_the_other_lives(
    server: tuple[xrootd.XrootdServer, ServerContext], manager_daemon: Path
) -> None:
    manager_daemon.write_text("echo no cluster today >&2\nexit 3\n")
    with pytest.raises(HeadraceError, match=r"ended with status 3: no cluster today"):
        server[0].start(server[1])
    assert server[0].pids == []


def test_a_server_that_crashes_at_its_start_is_started_once_more(
    server: tuple[xrootd.XrootdServer, ServerContext], manager_daemon: Path
) -> None:
    """XRootD itself does, in few of its starts; the trial failed."""
    once = manager_daemon.parent / "once"
    manager_daemon.write_text(f"mkdir {once} && kill -SEGV $$\n")
    manager_daemon.parent.chmod(0o777)
    server[0].start(server[1])
    assert once.is_dir() and server[0].ended() == "" and server[0].pids
    assert "it is started once more" in server[0].last_words()


def test_a_server_that_crashes_at_each_start_is_said(
    server: tuple[xrootd.XrootdServer, ServerContext], manager_daemon: Path
) -> None:
    manager_daemon.write_text("kill -SEGV $$\n")
    with pytest.raises(HeadraceError, match=r"ended with status -11"):
        server[0].start(server[1])
    assert server[0].pids == []
