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
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

from typing_extensions import override

from headrace.errors import HeadraceError, MissingError
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
    @classmethod
    def one_by_one(cls, wanted: NodesWanted) -> list[NodesWanted]:
        return [
            replace(wanted, clients=(node,), address=host.text)
            for node, host in zip(wanted.clients, parse_hosts(wanted.address), strict=False)
        ]

    @override
    @contextmanager
    def connect(self, journal: Journal, wanted: NodesWanted) -> Generator[list[NodeConnection]]:
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
            for session in found:
                session.wait()
            connections = [
                NodeConnection(session.name, session.sock, session.end, partial(_again, start))
                for session, start in zip(found, starts, strict=True)
            ]
            for connection in connections:
                stack.callback(connection.close)
            yield connections


def _again(start: Callable[[], _Session]) -> Streams:
    """Return the streams of another process on a host. Raises HeadraceError."""
    with ExitStack() as stack:
        session = stack.enter_context(start())
        session.wait()
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
                    _Session(name, host, python, _VERSION, Path(place) / f"{name}.log")
                )
                for name, host in zip(names, hosts, strict=True)
            ]
            for session in found:
                session.wait()
                check_version(f"{session.name} ({session.host.text})", session.rest())
    except HeadraceError as error:
        return error.message, error.hint or ""
    return None


class _Session:
    """A command on a host: started at once, and waited for until it has written its mark."""

    def __init__(
        self,
        name: str,
        host: SshHost,
        python: str,
        code: str,
        log: Path,
        silence_s: float = SILENCE_S,
    ) -> None:
        ssh = shutil.which("ssh")
        if ssh is None:
            raise MissingError("ssh is not installed", hint="apt-get install openssh-client")
        self.name = name
        self.host = host
        self._python = python
        self._log = log
        self.sock, self._process = started(name, command(ssh, host, python, code, silence_s), log)

    def wait(self) -> None:
        """Read up to the mark. Raises HeadraceError that says why there is none."""
        last = b""
        for left_s in remaining(_START_S):
            if not select.select([self.sock], [], [], left_s)[0]:
                break
            byte = self._read(1)  # one by one: what follows the mark is the node's
            if not byte:
                self.end()
                said = said_in(self._log)
                raise failure(self.name, self.host, self._python, said, version("headrace"))
            last = last[-len(MARK) :] + byte
            if last.endswith(MARK):
                return
        raise self._slow()

    def rest(self) -> str:
        """Return what else a short command writes. Raises HeadraceError if it does not end."""
        found = b""
        for left_s in remaining(_START_S):
            if not select.select([self.sock], [], [], left_s)[0]:
                break
            if not (data := self._read(4096)):
                return found.decode(errors="replace").strip()
            found += data
        raise self._slow()

    def _slow(self) -> HeadraceError:
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
