"""Jobs on hosts reached by SSH: `on = "ssh://HOST,HOST"`, a node for each name, in this order.

The system's `ssh` carries the streams of a node process on each host (`headrace.launchers.remote`).
Keys, known hosts and names of hosts are those of the user's `~/.ssh`.
"""

from __future__ import annotations

import select
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path

from typing_extensions import override

from headrace.errors import HeadraceError, MissingError, all_of
from headrace.launchers import NodesWanted
from headrace.launchers.remote.beats import SILENCE_S
from headrace.launchers.remote.connection import NodeConnection, Streams
from headrace.launchers.remote.launcher import RemoteLauncher, check_version
from headrace.launchers.remote.ssh_client import (
    MARK,
    SshHost,
    command,
    failure,
    parse_hosts,
    said_in,
)
from headrace.launchers.remote.streams import end, started
from headrace.system.journal import Journal
from headrace.system.owned import work_directory
from headrace.system.waiting import remaining

_MARK = MARK.decode()
_NODE = (
    "import os; from headrace.launchers.remote.node_process import main; "
    f'os.write(1, b"{_MARK}"); main()'
)
_VERSION = f'from importlib.metadata import version; print("{_MARK}" + version("headrace"))'
_START_S = 60.0
"""For a host to let us in and to import Headrace."""


class Ssh(RemoteLauncher):
    """Runs jobs on hosts that are reached by SSH."""

    kind = "ssh"
    starts_python = True
    address_form = "ssh://HOST,HOST"

    @override
    @classmethod
    def misread(cls, address: str) -> str | None:
        try:
            parse_hosts(address)
        except ValueError as error:
            return str(error)
        return None

    @override
    @classmethod
    def check(cls, wanted: NodesWanted) -> tuple[str, str] | None:
        return _problem_of(wanted)

    @override
    @classmethod
    def node_count(cls, address: str) -> int:
        return len(parse_hosts(address))

    @override
    @contextmanager
    def connect(self, journal: Journal, wanted: NodesWanted) -> Generator[list[NodeConnection]]:
        with self.connect_each(journal, wanted) as (connections, failures):
            if failures:
                raise all_of(failures)
            yield connections

    @override
    @contextmanager
    def connect_each(
        self, journal: Journal, wanted: NodesWanted
    ) -> Generator[tuple[list[NodeConnection], list[HeadraceError]]]:
        names = [node.name for node in wanted.clients]
        hosts, python = _hosts_of(names, wanted.address), _python_of(wanted)
        place, entry = work_directory(journal)
        with ExitStack() as stack:
            stack.callback(journal.put_back, [entry])
            silence_s = wanted.silence_s
            starts = [
                partial(_Session, name, host, python, _NODE, place / f"{name}.log", silence_s)
                for name, host in zip(names, hosts, strict=True)
            ]
            found = [stack.enter_context(start()) for start in starts]
            failures = _wait_for(found)
            connections = [
                NodeConnection(session.name, session.sock, session.end, partial(_again, start))
                for session, start in zip(found, starts, strict=True)
                if session.name not in failures
            ]
            for connection in connections:
                stack.callback(connection.close)
            yield connections, list(failures.values())


def _again(start: Callable[[], _Session]) -> Streams:
    """Return the streams of another process on a host. Raises HeadraceError."""
    with ExitStack() as stack:
        session = stack.enter_context(start())
        for failure_of_it in _wait_for([session]).values():
            raise failure_of_it
        stack.pop_all()
    return session.sock, session.end


def _python_of(wanted: NodesWanted) -> str:
    return wanted.python or sys.executable


def _hosts_of(names: Sequence[str], address: str) -> tuple[SshHost, ...]:
    hosts = parse_hosts(address)
    if len(hosts) < len(names):
        raise HeadraceError(
            f"[run] on names {len(hosts)} {'host' if len(hosts) == 1 else 'hosts'}; "
            f"{len(names)} nodes need one each",
            hint='name more: on = "ssh://HOST,HOST"; a host that is named twice has two nodes',
        )
    return hosts[: len(names)]


def _problem_of(wanted: NodesWanted) -> tuple[str, str] | None:
    """Return what keeps hosts from being nodes."""
    names, python = [node.name for node in wanted.clients], _python_of(wanted)
    try:
        hosts = _hosts_of(names, wanted.address)
        with tempfile.TemporaryDirectory(prefix="headrace-") as place, ExitStack() as stack:
            found = [
                stack.enter_context(
                    _Session(name, host, python, _VERSION, Path(place) / f"{name}.log", whole=True)
                )
                for name, host in zip(names, hosts, strict=True)
            ]
            failures = _wait_for(found)
            for session in found:
                if session.name not in failures:
                    try:
                        check_version(f"{session.name} ({session.host.text})", session.said)
                    except HeadraceError as error:
                        failures[session.name] = error
            if failures:
                raise all_of([failures[name] for name in names if name in failures])
    except HeadraceError as error:
        return error.message, error.hint or ""
    return None


def _wait_for(sessions: Sequence[_Session]) -> dict[str, HeadraceError]:
    """Wait for sessions until each has said what it is waited for, all at once.

    Return why others have not, by name of the node.
    """
    failures: dict[str, HeadraceError] = {}
    waiting = list(sessions)
    for left_s in remaining(_START_S):
        if not waiting:
            return failures
        ready = select.select([each.sock for each in waiting], [], [], left_s)[0]
        for session in [each for each in waiting if each.sock in ready]:
            try:
                if session.has_said():
                    waiting.remove(session)
            except HeadraceError as error:
                failures[session.name] = error
                waiting.remove(session)
    return failures | {each.name: each.slow() for each in waiting}


class _Session:
    """A command on a host: started at once, and waited for until it has written its mark.

    With `whole`, until it has ended.
    """

    def __init__(
        self,
        name: str,
        host: SshHost,
        python: str,
        code: str,
        log: Path,
        silence_s: float = SILENCE_S,
        whole: bool = False,
    ) -> None:
        ssh = shutil.which("ssh")
        if ssh is None:
            raise MissingError("ssh is not installed", hint="apt-get install openssh-client")
        self.name = name
        self.host = host
        self._python = python
        self._log = log
        self._whole = whole
        self._marked = False
        self._last = b""
        self.sock, self._process = started(name, command(ssh, host, python, code, silence_s), log)

    def has_said(self) -> bool:
        """Read a piece, when there is one; return whether that was the last to wait for.

        Raises HeadraceError that says why there is no mark.
        """
        if self._marked:
            piece = self._read(4096)
            self._last += piece
            return not piece
        byte = self._read(1)  # one by one: what follows the mark is the node's
        if not byte:
            self.end()
            said = said_in(self._log)
            raise failure(self.name, self.host, self._python, said, version("headrace"))
        self._last = self._last[-len(MARK) :] + byte
        if self._last.endswith(MARK):
            self._marked, self._last = True, b""
        return self._marked and not self._whole

    @property
    def said(self) -> str:
        """What a short command wrote after its mark."""
        return self._last.decode(errors="replace").strip()

    def slow(self) -> HeadraceError:
        """Return the error of a host that has not answered in time."""
        return HeadraceError(
            f"{self.name} ({self.host.text}) does not answer within {_START_S:.0f} s",
            hint=f"try ssh {self.host.name}",
        )

    def _read(self, most: int) -> bytes:
        try:
            return self.sock.recv(most)
        except ConnectionError:
            return b""

    def end(self) -> None:
        """Wait for the end of the connection, whose input has ended."""
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)
        end(self._process)

    def __enter__(self) -> _Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()
        try:
            self._process.wait(0.0)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            self._process.wait()
