"""Run Headrace commands in processes forked from one that has imported the libraries they use.

A command spends more CPU time on imports than on a small study, and the tests run hundreds. Here
what most commands import is imported once for all commands of a test process. The order of imports
is not what users have; no order can fail, as no modules import each other
(`tests/unit/test_house.py`), and what a command imports is tested in processes of its own
(`tests/unit/test_start_up.py`).

`python command_server.py DESCRIPTOR` serves the socket DESCRIPTOR; `CommandServer` is its client.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from running_command import RunningCommand, exactly, number_from, tell

HEADRACE = Path(sys.executable).with_name("headrace")

LIBRARIES = (
    *("asyncio", "email", "jinja2", "msgspec", "numpy"),
    *(
        "pandas",
        "pyarrow.compute",
        "pyarrow.dataset",
        "pyarrow.parquet",
        "pydantic",
        "rich.console",
    ),
    *("rich.table", "rich.progress", "scipy.special", "tomllib", "typer", "typer._adapters"),
    *("cryptography.x509", "hist", "packaging.version", "prometheus_client", "psutil"),
    *("statistics", "tree_sitter_toml", "urllib.request", "xxhash"),
)

OWN = (
    "headrace.library",
    "headrace.engine.measure",
    "headrace.engine.estimate",
    "headrace.engine.simulate.where",
    "headrace.analysis.find",
    "headrace.records.tables",
    "headrace.report.html",
    "headrace.traces",
)
"""Modules of Headrace with which most others come; none of `headrace.cli`, whose consoles take
their width from the environment."""

READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "OMP_", "OPENBLAS_", "TZ", "MALLOC", "ASAN")
"""Beginnings of the names of variables that a process reads when it starts or imports."""

Started = RunningCommand | subprocess.Popen[str]
"""What can be done with a command is the same, forked or not."""


class _Order(NamedTuple):
    words: list[str]
    folder: str
    environment: dict[str, str]


class CommandServer:
    """The client of a process that forks commands."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()]
            )

    def start(
        self, words: Sequence[str], folder: Path, environment: dict[str, str]
    ) -> RunningCommand:
        """Start `headrace` with these words."""
        order = json.dumps(_Order(list(words), str(folder), environment)).encode()
        ours, theirs = socket.socketpair()
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        with theirs:
            socket.send_fds(self._socket, [b"run"], [out_end, err_end, theirs.fileno()])
        os.close(out_end)
        os.close(err_end)
        pid = number_from(ours)
        started = RunningCommand(words, pid, ours, os.fdopen(out), os.fdopen(err))
        ours.sendall(len(order).to_bytes(8, "big") + order)
        return started

    def run(
        self, words: Sequence[str], folder: Path, environment: dict[str, str], timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Run `headrace` with these words. Raise TimeoutExpired, after it was killed."""
        started = self.start(words, folder, environment)
        try:
            out, err = started.communicate(timeout_s)
        except BaseException:
            started.kill()
            raise
        return subprocess.CompletedProcess(started.args, started.wait(), out, err)


@cache
def _server() -> tuple[CommandServer, dict[str, str]]:
    return CommandServer(), dict(os.environ)


def _as_at_the_start(environment: dict[str, str]) -> CommandServer | None:
    """Return the process that forks, unless only a new process would read these variables."""
    server, started_with = _server()
    return server if _of_the_start(environment) == _of_the_start(started_with) else None


def _of_the_start(environment: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(READ_AT_START)}


def run_command(
    words: Sequence[str],
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = 300,
) -> subprocess.CompletedProcess[str]:
    """Run `headrace` with these words in a forked process, here and with the variables of this
    process unless others are given.

    A command whose variables only a new process would read is a new process.
    """
    folder = folder or Path.cwd()
    environment = dict(os.environ if environment is None else environment)
    if (server := _as_at_the_start(environment)) is not None:
        return server.run(words, folder, environment, timeout_s)
    return subprocess.run(
        [str(HEADRACE), *words],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        timeout=timeout_s,
    )


def start_command(words: Sequence[str], folder: Path, environment: dict[str, str]) -> Started:
    """Start `headrace` as `run_command` runs it."""
    if (server := _as_at_the_start(environment)) is not None:
        return server.start(words, folder, environment)
    return start_anew(words, folder, environment)


def start_anew(
    words: Sequence[str], folder: Path, environment: dict[str, str], new_session: bool = False
) -> subprocess.Popen[str]:
    """Start `headrace` as a shell does: for tests of signals, and of how a process ends."""
    return subprocess.Popen(
        [str(HEADRACE), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment,
        start_new_session=new_session,
    )


# -- the process that forks --


def _serve(orders: socket.socket) -> _Order | None:
    """Fork a process for each order; return the order in it, and None when there are no more."""
    running: dict[int, tuple[int, socket.socket]] = {}
    while True:
        ready, _, _ = select.select([orders, *running], [], [])
        for pidfd in [each for each in running if each in ready]:
            pid, channel = running.pop(pidfd)
            os.close(pidfd)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            # Who gave the order may have given it up.
            with channel, contextlib.suppress(BrokenPipeError):
                tell(channel, code)
        if orders not in ready:
            continue
        message, descriptors, _, _ = socket.recv_fds(orders, 16, 3)
        if not message:
            return None
        out, err, channel_fd = descriptors
        channel = socket.socket(fileno=channel_fd)
        pid = os.fork()
        if pid == 0:
            for descriptor in (orders.fileno(), *running):
                os.close(descriptor)
            return _become(channel, out, err)
        os.close(out)
        os.close(err)
        running[os.pidfd_open(pid)] = pid, channel
        tell(channel, pid)


def _become(channel: socket.socket, out: int, err: int) -> _Order:
    """Make this process what a started command is; return its order."""
    order = _Order(*json.loads(exactly(channel, number_from(channel))))
    channel.close()
    for number, descriptor in ((1, out), (2, err)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", closefd=False, errors="backslashreplace")
    sys.stdout.reconfigure(write_through=unbuffered)
    sys.stderr.reconfigure(line_buffering=True, write_through=unbuffered)
    os.chdir(order.folder)
    os.environ.clear()
    os.environ.update(order.environment)
    sys.argv = [str(HEADRACE), *order.words]
    sys.path[0] = str(HEADRACE.parent)
    return order


def _end_with(command: Callable[[], None]) -> None:
    """Run a command, and end this process as Python does, but without freeing each object.

    That would copy most of the memory that it shares with the process it was forked from.
    """
    code = 0
    try:
        command()
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            raise
        code = end.code or 0
    threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = 120  # as Python does
    os._exit(code)


def _use_once() -> None:
    """Check a study and parse the page of a report, as most commands do.

    Models are built, and plug-ins and templates found, at their first use.
    """
    from headrace.library import load_study
    from headrace.report.html import environment

    sys.path[0] = str(HEADRACE.parent)  # as `_become`: plug-ins are found once for a path
    load_study(Path(__file__).parents[1] / "studies" / "quickstart.toml").plan()
    environment().get_template("report.html.j2")


def main() -> None:
    """Serve; in the process of a command, run it."""
    for name in (*LIBRARIES, *OWN):
        importlib.import_module(name)
    _use_once()
    import gc

    gc.collect()
    gc.freeze()
    if _serve(socket.socket(fileno=int(sys.argv[1]))) is not None:
        from headrace.cli import main as command

        _end_with(command)


if __name__ == "__main__":
    main()
