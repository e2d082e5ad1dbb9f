"""Which nodes see the files that others write into a folder of the same path."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.launchers import Agent
from headrace.launchers.remote.connection import NodeConnection
from headrace.launchers.remote.node_process import NodeService
from headrace.system.journal import Journal
from headrace.system.owned import show_folder
from headrace.system.waiting import wait_until

VISIBLE_S = 5.0
"""Time within which a file must be seen on another machine: network file systems keep what they
know of a directory for a while."""


@dataclass(frozen=True)
class FolderViews:
    """What each node can do with a folder. The name of this machine is empty."""

    folder: str
    refused: dict[str, str]
    """Why a node cannot write into it."""
    unseen: tuple[tuple[str, str], ...]
    """(writer, reader): the reader does not see what the writer wrote."""


def views_of(
    folder: str,
    connections: Sequence[NodeConnection],
    *,
    create: bool = False,
    here: bool = True,
    wait_s: float = VISIBLE_S,
) -> FolderViews:
    """Let every node, and this machine (`here`), write into a folder in turn, and ask all others.

    `create`: a study would make the folder when it is missing; the folder above it counts then.
    Each file is removed at once. A reader that sees a file only after `wait_s` does not see it; all
    readers of a file are waited for together.
    """
    refused: dict[str, str] = {}
    unseen: list[tuple[str, str]] = []
    readers: dict[str, Callable[[str, str], bool]] = {"": _sees_here} if here else {}
    readers |= {each.name: _reader(each) for each in connections}
    writers = {"": _shown_here(folder, create)} if here else {}
    writers |= {each.name: _shown(each, folder, create) for each in connections}
    for writer, shown in writers.items():
        try:
            with shown as (file, content):
                others = {name: sees for name, sees in readers.items() if name != writer}
                blind = _blind(others, file, content, wait_s)
                unseen += [(writer, reader) for reader in blind]
        except HeadraceError as error:
            refused[writer] = error.message
    return FolderViews(folder, refused, tuple(unseen))


def _blind(
    readers: Mapping[str, Callable[[str, str], bool]], file: str, content: str, wait_s: float
) -> list[str]:
    """Return the readers that do not see a file with this content, at the latest after `wait_s`."""
    blind = [*readers]

    def all_see() -> bool:
        blind[:] = [name for name in blind if not readers[name](file, content)]
        return not blind

    wait_until(all_see, wait_s, 0.25)
    return blind


def seen(sees: Callable[[str, str], bool], file: str, content: str, wait_s: float) -> bool:
    """Return whether a reader sees a file with this content, at the latest after `wait_s`."""
    return wait_until(lambda: sees(file, content), wait_s, 0.25)


def _sees_here(file: str, content: str) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return Path(file).read_text() == content
    return False


def _reader(connection: NodeConnection) -> Callable[[str, str], bool]:
    return lambda file, content: bool(connection.call(Agent.has_file, file, content))


@contextmanager
def _shown_here(folder: str, create: bool) -> Generator[tuple[str, str]]:
    with Journal.open("headrace cluster doctor") as journal:
        file, content, _ = show_folder(journal, folder, create)
        yield file, content


@contextmanager
def _shown(connection: NodeConnection, folder: str, create: bool) -> Generator[tuple[str, str]]:
    file, content = connection.call(NodeService.show_folder, folder, create)
    try:
        yield file, content
    finally:
        connection.call(NodeService.hide_folder, folder)
