"""The engine's end of a connection to a node process."""

from __future__ import annotations

import contextlib
import math
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import cached_property
from importlib.metadata import version
from typing import Any

import msgspec

from headrace.errors import HeadraceError
from headrace.launchers import Agent, AgentEvent, Clock, LauncherLostError, NodeLostError
from headrace.launchers.remote.beats import SILENCE_S
from headrace.launchers.remote.messages import (
    Beat,
    Call,
    CallAnswer,
    Frames,
    FromNode,
    Hello,
    decode,
    encode,
    error_of,
    framed,
    types_of,
)
from headrace.launchers.remote.node_process import AGENT, METERS, STORAGE, NodeService
from headrace.meters.node_meters import NodeMeters
from headrace.system.waiting import remaining
from headrace.targets.node_storage import NodeStorage

_QUESTIONS = 20
"""How often a node is asked for its time; the quickest answer counts."""

_END_PATIENCE_S = 20.0
"""For a node to kill its jobs and to undo its journal."""

_STOP_PATIENCE_S = 120.0
"""For a node to answer a call after the user has stopped the run. Without a stop a call has no
limit: to read all files into the page cache may take an hour."""

_LOOK_S = 1.0
"""Time between looks for a stop of the run."""

Streams = tuple[socket.socket, Callable[[], None]]
"""A stream socket to a node process, and what ends the carrier of its streams."""


class NodeConnection:
    """A node process, over a stream socket whose other end carries its two streams.

    Methods raise NodeLostError when the node cannot be reached any more.
    """

    def __init__(
        self,
        name: str,
        sock: socket.socket,
        close: Callable[[], None],
        again: Callable[[], Streams] | None = None,
    ) -> None:
        """`close` ends what carries the streams; it is called once, after the socket is closed.

        `again` starts a new process on the node; it raises HeadraceError while it cannot.
        """
        self.name = name
        self.lost: str | None = None
        """Why the node cannot be reached any more."""
        self.history: list[AgentEvent] = []
        """What happened to the node since `Agent.take_events`."""
        self.stopped: Callable[[], bool] = lambda: False
        """Whether the user has stopped the run."""
        self._stop_seen_s = math.inf
        self._again = again
        self._calls = 0
        self._before: Hello | None = None
        """The process that was lost, until another has undone its changes."""
        self._kept_s = SILENCE_S
        self._sending = threading.Lock()
        self._ending: list[threading.Thread] = []
        """Ends of what carried the streams of lost processes."""
        self._begin(sock, close)

    def _begin(self, sock: socket.socket, close: Callable[[], None]) -> None:
        self._sock = sock
        self._close = close
        self._frames = Frames()
        self._events: deque[FromNode] = deque()
        self._asked: set[int] = set()
        self._answers: dict[int, CallAnswer] = {}
        self._glances: dict[Callable[..., Any], int] = {}
        self._heard_s = self._spoke_s = time.monotonic()
        self._silence_s = SILENCE_S  # a process that starts imports Headrace first

    # -- silence --

    def keep(self, silence_s: float) -> None:
        """Give the node up when it is not heard of for this time; it gives the engine up likewise.

        `beat` must be called several times in it.
        """
        self.call(NodeService.keep, silence_s)
        self._kept_s = self._silence_s = silence_s

    def beat(self) -> None:
        """Tell the node that the engine is there. Never waits; called from another thread."""
        if self._sending.acquire(blocking=False):
            try:
                if self.lost is None and select.select([], [self._sock], [], 0)[1]:
                    self._sock.sendall(_BEAT)
            except (OSError, ValueError):
                pass  # what reads the socket finds out
            finally:
                self._sending.release()

    def _wait(self, begun_s: float, *, to_write: bool = False) -> bool:
        """Wait a moment until the socket is ready; return whether the node has said something.

        Raises NodeLostError when it is silent for too long, or when the run was stopped and what
        was begun at `begun_s` does not end.
        """
        writing = [self._sock] if to_write else []
        found = select.select([self._sock], writing, [], min(_LOOK_S, self._silence_s))
        now_s = time.monotonic()
        if not any(found) and now_s - max(begun_s, self._heard_s) > self._silence_s:
            raise self._silent()
        if self.stopped():
            self._stop_seen_s = min(self._stop_seen_s, now_s)
        if now_s - max(begun_s, self._spoke_s, self._stop_seen_s) > _STOP_PATIENCE_S:
            raise self._gone(f"it did not answer within {_STOP_PATIENCE_S:g} s of the stop")
        return bool(found[0])

    def _silent(self) -> NodeLostError:
        return self._gone(f"nothing was heard of it for {self._silence_s:g} s")

    # -- a new process on the node --

    @property
    def can_return(self) -> bool:
        """Whether a new process can be started on the node."""
        return self._again is not None

    def reconnect(self) -> None:
        """Start a new process in place of one that was lost; it undoes what the old one left.

        Raises HeadraceError when it cannot; the node is then lost as before.
        """
        lost = self.lost
        if lost is None:
            return
        if self._again is None:
            raise NodeLostError(lost)
        if self._before is None:
            self._before = self.__dict__.get("hello")
        self._drop()
        streams = self._again()
        with self._sending:
            self._begin(*streams)
        self.__dict__.pop("hello", None)
        told = len(self.history)
        try:
            self.lost = None
            self._succeed()
        except BaseException:
            self.lost = lost
            del self.history[told:]
            self._drop()
            raise
        self.history.append(AgentEvent("returned", time.monotonic(), ""))

    def _succeed(self) -> None:
        machine = self.hello.machine
        check_version(f"node {self.name} ({machine.host})", machine.headrace)
        if self._before is not None:
            self.call(NodeService.succeed, self._before)
        self._before = None
        self.keep(self._kept_s)

    def _drop(self) -> None:
        """Close the socket to a lost process, and end what carried its streams."""
        if self._sock.fileno() >= 0:
            with self._sending:
                self._sock.close()
            # What carries the streams may not notice for a while: nobody waits for that.
            ending = threading.Thread(target=self._close)
            ending.start()
            self._ending.append(ending)

    def fileno(self) -> int:
        """File descriptor, for select."""
        return self._sock.fileno()

    def call(self, method: Callable[..., Any], *arguments: object) -> Any:
        """Call a method of the node process (`NodeService`) or its parts; return its result.

        Raises the error that the method raised there.
        """
        return self.answer(self.ask(method, *arguments), method)

    def ask(self, method: Callable[..., Any], *arguments: object) -> int:
        """Begin a call, for `answer`: several nodes work at once when each is asked first."""
        self._calls += 1
        self._send(self._calls, method, arguments)
        self._asked.add(self._calls)
        return self._calls

    def answer(self, number: int, method: Callable[..., Any], patience_s: float = math.inf) -> Any:
        """Return the result of a call of a method that was begun by `ask`, as `call` does.

        A node that says nothing but that it is there for `patience_s` is lost.
        """
        begin_s = time.monotonic()
        while number not in self._answers:
            if time.monotonic() - max(begin_s, self._spoke_s) > patience_s:
                raise self._gone(f"it did not answer within {patience_s:g} s")
            if self._wait(begin_s):
                self._receive()
        answer = self._answers.pop(number)
        if answer.error is not None:
            raise error_of(answer.error)
        try:
            return decode(answer.value, types_of(method)[1])
        except (ValueError, TypeError) as error:
            raise self._gone(str(error)) from error

    def glance(self, method: Callable[..., Any], *arguments: object) -> Any | None:
        """Call a method without waiting: return the result of such a call before, if it has come.

        For what is shown while jobs run: a node that is slow or cut off delays no other one's jobs.
        """
        found = None
        if self._glances.get(method) in self._answers:
            found = self.answer(self._glances.pop(method), method)
        if method not in self._glances:
            self._glances[method] = self.ask(method, *arguments)
        return found

    def forget(self, method: Callable[..., Any]) -> None:
        """Return no result of `glance` that was asked for before."""
        if (number := self._glances.pop(method, None)) is not None:
            self._asked.discard(number)
            self._answers.pop(number, None)

    def lose(self, why: str) -> None:
        """Use the node no more: it breaks the protocol."""
        self._gone(why)

    def send(self, method: Callable[..., Any], *arguments: object) -> None:
        """Call a method and do not wait for its end."""
        self._send(0, method, arguments)

    def tell(self, method: Callable[..., Any], *arguments: object) -> None:
        """Call a method and do not wait for its end. A node that is lost is passed over."""
        with contextlib.suppress(LauncherLostError):
            self.send(method, *arguments)

    def events(self, readable: bool) -> list[FromNode]:
        """Return what the node has said so far.

        `readable`: the socket has more, which is read first. A node that is silent for long is
        lost.
        """
        if readable and self.lost is None:
            with contextlib.suppress(LauncherLostError):
                self._receive()
        elif self.lost is None and time.monotonic() - self._heard_s > self._silence_s:
            self._silent()
        found = list(self._events)
        self._events.clear()
        return found

    def discard(self, kind: type[object]) -> None:
        """Forget events of a kind that were received so far."""
        self._events = deque(event for event in self._events if not isinstance(event, kind))

    @property
    def has_events(self) -> bool:
        """Whether `events` returns something at once."""
        return bool(self._events)

    @cached_property
    def hello(self) -> Hello:
        """What the node says of itself."""
        return self.call(NodeService.hello)

    def clock(self) -> Clock:
        """Return the node's clock, from the quickest of several answers."""
        found: list[Clock] = []
        for _ in range(_QUESTIONS):
            before_s = time.monotonic()
            node_s = self.call(NodeService.now_s)
            after_s = time.monotonic()
            found.append(Clock((before_s + after_s) / 2 - node_s, (after_s - before_s) / 2))
        return min(found, key=lambda clock: clock.uncertainty_s)

    def hang_up(self) -> None:
        """Tell the node process to end, and do not wait for it: `close` does."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """End the node process and wait for it, for a bounded time. Safe to call twice."""
        if self._sock.fileno() >= 0:
            self.hang_up()
            with contextlib.suppress(OSError):
                # A node that hangs goes on to say that it is there.
                for left_s in remaining(_END_PATIENCE_S if self.lost is None else 0.0):
                    self._sock.settimeout(left_s)
                    if not self._sock.recv(1 << 16):
                        break
            self._sock.close()
            self._close()
        for ending in self._ending:
            ending.join()
        self.lost = self.lost or f"node {self.name} has ended"

    def _send(self, number: int, method: Callable[..., Any], arguments: tuple[object, ...]) -> None:
        if self.lost is not None:
            raise NodeLostError(self.lost)
        name = method.__name__
        if method is getattr(Agent, name, None):
            name = AGENT + name
        elif method is getattr(NodeStorage, name, None):
            name = STORAGE + name
        elif method is getattr(NodeMeters, name, None):
            name = METERS + name
        data = framed(Call(number, name, msgspec.Raw(encode(arguments))))
        try:
            with self._sending:
                self._write(data)
        except OSError as error:
            raise self._gone(error.strerror or str(error)) from error

    def _write(self, message: bytes) -> None:
        """Write a message. What the node says is read where it would wait for us meanwhile."""
        left, begin_s = memoryview(message), time.monotonic()
        while left:
            try:
                left = left[self._sock.send(left, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                if self._wait(begin_s, to_write=True):
                    self._receive()

    def _receive(self) -> None:
        """Read what the node says; wait until it says something."""
        try:
            data = self._sock.recv(1 << 16)
            messages = self._frames.feed(data)
            found = [decode(message, FromNode) for message in messages]
        except (OSError, ValueError, TypeError) as error:
            raise self._gone(str(error)) from error
        if not data:
            raise self._gone("the connection has ended")
        self._heard_s = time.monotonic()
        if not found or any(not isinstance(message, Beat) for message in found):
            self._spoke_s = self._heard_s
        for message in found:
            if isinstance(message, Beat):
                continue
            if not isinstance(message, CallAnswer):
                self._events.append(message)
            elif message.error is not None and not message.number:
                raise self._gone(f"a call failed there: {message.error.words}")
            elif message.number in self._asked:
                self._asked.remove(message.number)
                self._answers[message.number] = message

    def _gone(self, why: str) -> NodeLostError:
        if self.lost is None:
            self.lost = f"node {self.name} is lost: {why}"
            self.history.append(AgentEvent("lost", time.monotonic(), why))
        return NodeLostError(self.lost)


_BEAT = framed(Call(0, NodeService.beat.__name__, msgspec.Raw(encode(()))))


def check_version(node: str, there: str) -> None:
    """Raise HeadraceError when a node has another version of Headrace than this machine."""
    if there != version("headrace"):
        raise HeadraceError(
            f"{node} has Headrace {there}, this machine {version('headrace')}",
            hint="install the same version on all nodes",
        )
