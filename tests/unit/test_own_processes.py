"""Processes of Headrace in a folder whose files have the names of libraries."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headrace.launchers.fork_server import ForkServer
from headrace.launchers.remote.dask_streams import NodeStreams
from headrace.launchers.remote.messages import Frames


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("msgspec", "json", "pickle"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a file of the user')\n")
    monkeypatch.chdir(tmp_path)


def test_a_node_on_a_dask_worker_introduces_itself() -> None:
    async def first_bytes() -> bytes:
        streams = NodeStreams()
        while (data := await streams.receive()) is None:
            pass
        await streams.finish()
        return data

    assert Frames().feed(asyncio.run(first_bytes()))


def test_the_client_of_s3_is_imported_once_for_all_jobs_and_starts_no_thread() -> None:
    server = ForkServer()
    try:
        for _ in range(2):
            server.spawn({"s3", "no-such-scheme"})[1].close()
        process = Path(f"/proc/{server.pid}")
        assert "/aiohttp/" in (process / "maps").read_text()
        assert len(list((process / "task").iterdir())) == 1, "a fork with threads may hang"
    finally:
        server.close()


def test_jobs_are_forked() -> None:
    server = ForkServer()
    try:
        assert server.warm("command", "jobs", {"command": ["true"]}) is None
    finally:
        server.close()
