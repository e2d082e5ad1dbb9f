"""What the system tests share.

Root, a journal of their own, loop devices that are left as they were found.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.system.journal import Journal
from headrace.system.owned import work_directory
from headrace.targets import TargetContext


@pytest.fixture(autouse=True)
def no_clients_left() -> Iterator[None]:
    """Clients of file servers that fsspec keeps, and its I/O thread, do not outlive a test.

    The clients have threads of their own, and a fork in a later test would hang freeing them. The
    I/O thread stays in the network namespace of the test that used it first: clients of later tests
    would ask a server of that name elsewhere.
    """
    _forget_clients()
    yield
    _forget_clients()


def _forget_clients() -> None:
    if (fsspec := sys.modules.get("fsspec")) is None:
        return
    kinds = [fsspec.AbstractFileSystem]
    while kinds:
        kind = kinds.pop()
        kind.clear_instance_cache()
        kinds += kind.__subclasses__()
    if (asyn := sys.modules.get("fsspec.asyn")) is not None and asyn.loop[0] is not None:
        asyn.loop[0].call_soon_threadsafe(asyn.loop[0].stop)
        asyn.iothread[0].join()
        # What fsspec itself does after a fork: the next client starts a new thread.
        asyn.reset_lock()


@pytest.fixture
def journal_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "journal"
    monkeypatch.setenv("HEADRACE_JOURNAL_DIR", str(place))
    return place


@pytest.fixture
def journal(journal_place: Path) -> Iterator[Journal]:
    with Journal.open("a test") as journal:
        yield journal
    assert not list(journal_place.iterdir()), "a run that ends well leaves no journal"


@pytest.fixture
def context(journal: Journal, tmp_path: Path) -> Iterator[TargetContext]:
    work, _ = work_directory(journal, tmp_path)
    yield TargetContext(work, journal)
