"""Launchers for test_launcher_contract.py whose agents are processes of their own.

Every call of an agent is a line of JSON, and so is its answer: nothing that the engine or an agent
does depends on memory that they share. On `elsewhere` the agents and the jobs have another
monotonic clock than the engine, as on another machine.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from inspect import get_annotations
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from headrace.errors import HeadraceError, UnsupportedLevelError, describe
from headrace.launchers import Agent, Clock, Nodes, NodesWanted
from headrace.launchers.local import Local, LocalAgent, MachineAgent
from headrace.system.journal import Journal

METHODS = sorted(Agent.__abstractmethods__)
AHEAD_S = 5000
"""By how much the clock of `elsewhere` is ahead of the engine's."""


def encoded(value: object) -> bytes:
    return msgspec.json.encode(value, enc_hook=str) + b"\n"


def decoded(line: bytes | msgspec.Raw, kind: Any) -> Any:
    return msgspec.json.decode(line, type=kind, dec_hook=lambda wanted, text: wanted(text))


@cache
def types_of(method: str) -> tuple[tuple[Any, ...], Any]:
    """The types of a method's arguments and of its result."""
    hints = get_type_hints(getattr(Agent, method))
    names = get_annotations(getattr(Agent, method))
    return tuple(hints[name] for name in names if name != "return"), hints["return"]


class Answer(msgspec.Struct):
    value: msgspec.Raw = msgspec.Raw(b"null")
    error: tuple[str, str] | None = None


ERRORS = {kind.__name__: kind for kind in (HeadraceError, UnsupportedLevelError)}


class AgentProcess:
    """The connection to an agent in a process of its own."""

    def __init__(self, place: Path, ahead_s: int) -> None:
        command = [sys.executable, __file__, str(place)]
        if ahead_s:
            clock = ["unshare", "--time", "--monotonic", str(ahead_s), "--fork", "--kill-child"]
            command = clock + command
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def call(self, method: str, *arguments: object) -> Any:
        to, back = self._process.stdin, self._process.stdout
        assert to is not None and back is not None
        to.write(encoded((method, encoded(arguments))))
        to.flush()
        answer = decoded(back.readline(), Answer)
        if answer.error is not None:
            name, message = answer.error
            raise ERRORS.get(name, HeadraceError)(message)
        return decoded(answer.value, float if method == "now_s" else types_of(method)[1])

    def clock(self) -> Clock:
        """The best of several questions for the time."""
        found: list[Clock] = []
        for _ in range(20):
            before_s = time.monotonic()
            node_s = self.call("now_s")
            after_s = time.monotonic()
            middle_s, half_s = (before_s + after_s) / 2, (after_s - before_s) / 2
            found.append(Clock(middle_s - node_s, half_s))
        return min(found, key=lambda clock: clock.uncertainty_s)

    def close(self) -> None:
        with self._process:  # the end of its input ends it
            pass


def _forwarded(method: str) -> Callable[..., Any]:
    return lambda agent, *arguments: agent.process.call(method, *arguments)


class ProcessAgent(LocalAgent):
    """An agent in a process of its own, for jobs of this machine."""

    def __init__(self, name: str, process: AgentProcess, ahead_s: int) -> None:
        self.name = name
        self.process = process
        self.kernel = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        if ahead_s:
            self.kernel += f" {ahead_s} s ahead"
            self.clock = process.clock()


for _method in METHODS:
    setattr(ProcessAgent, _method, _forwarded(_method))
ProcessAgent.__abstractmethods__ = frozenset()


class Process(Local):
    """Jobs of this machine, with an agent for each node in a process of its own."""

    kind = "process"
    ahead_s = 0

    @classmethod
    def refuses(cls, wanted: NodesWanted) -> str | None:
        return None

    @contextmanager
    def nodes(self, journal: Journal, wanted: NodesWanted) -> Generator[Nodes]:
        with contextlib.ExitStack() as stack:
            agents: list[ProcessAgent] = []
            for node in wanted.clients:
                process = AgentProcess(journal.file.parent, self.ahead_s)
                stack.callback(process.close)
                agents.append(ProcessAgent(node.name, process, self.ahead_s))
            yield Nodes(tuple(agents))


class Elsewhere(Process):
    """The same on another clock: `launcher_jobs` sets that of the jobs."""

    kind = "elsewhere"
    ahead_s = AHEAD_S


# -- the process --


def main() -> None:
    """Answer each line of the input until it ends; then undo what is left."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    with Journal.open("an agent", Path(sys.argv[1])) as journal:
        agent = MachineAgent(journal)
        for line in sys.stdin.buffer:
            method, arguments = decoded(line, tuple[str, bytes])
            answers.write(encoded(_answer(agent, method, arguments)))


def _answer(agent: MachineAgent, method: str, arguments: bytes) -> Answer:
    try:
        if method == "now_s":
            value: object = time.monotonic()
        else:
            value = getattr(agent, method)(*decoded(arguments, tuple[*types_of(method)[0]]))
    except Exception as error:
        return Answer(error=(type(error).__name__, describe(error)))
    return Answer(msgspec.Raw(msgspec.json.encode(value, enc_hook=str)))


if __name__ == "__main__":
    main()
