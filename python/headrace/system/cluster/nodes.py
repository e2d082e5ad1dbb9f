"""Ground: one node of the cluster: what runs on it shares its network, its CPU set and its memory limit."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from headrace.errors import HeadraceError
from headrace.system.cluster.links import LinkSettings, read_link
from headrace.system.cluster.namespaces import FOLDER, Interface, call_inside
from headrace.system.requirements import require_program

if TYPE_CHECKING:
    from headrace.system.cgroups import MemoryLimit
    from headrace.system.journal import Journal
    from headrace.system.processes import Started


@dataclass(frozen=True)
class NodeSettings:
    """What a node is to be."""

    name: str
    link: LinkSettings = field(default_factory=LinkSettings)
    cpus: tuple[int, ...] | None = None
    """Processors that what runs on it may use; all when None."""
    memory_bytes: int | None = None
    """Memory of everything on it with its page cache; no bound when None."""


@dataclass
class Node:
    """A node that is there."""

    settings: NodeSettings
    namespace: str
    """Name of its network namespace (`ip netns exec NAME …`)."""
    address: str
    port: Interface
    """The switch's end of its cable."""
    memory: MemoryLimit | None = None

    @property
    def name(self) -> str:
        """As in the settings."""
        return self.settings.name

    def command(self, argv: Sequence[str]) -> list[str]:
        """The command that runs `argv` on this node: in its network namespace (mounts stay those of the machine) and on its
        processors."""
        inside = [require_program("nsenter"), f"--net={FOLDER / self.namespace}", "--"]
        if self.settings.cpus is not None:
            inside += [require_program("taskset"), "-c", ",".join(map(str, self.settings.cpus))]
        return [*inside, require_program(argv[0]), *argv[1:]]

    def start(
        self,
        journal: Journal,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        output: int | IO[bytes] = subprocess.DEVNULL,
    ) -> Started:
        """Starts a program on this node, in the undo journal before it exists. It dies with Headrace when it was started from the
        main thread and does not detach itself; otherwise the journal ends it."""
        from headrace.system.processes import start_process

        started = start_process(
            journal,
            self.command(argv),
            environment=environment,
            directory=directory,
            output=output,
            outlives_us=threading.current_thread() is not threading.main_thread(),
        )
        with contextlib.suppress(HeadraceError):  # it may have ended already, which its owner finds out
            self.adopt_memory(started.pid)
        return started

    def adopt_memory(self, pid: int) -> None:
        """Puts a process (and what it starts from now on) under the node's memory limit."""
        if self.memory is not None:
            self.memory.add(pid)

    def adopt(self, pid: int) -> None:
        """Puts a process that is not in the node's network yet on its processors and under its memory limit."""
        if self.settings.cpus is not None:
            try:
                os.sched_setaffinity(pid, self.settings.cpus)
            except OSError as error:
                raise HeadraceError(
                    f"process {pid} cannot be put on processors {self.settings.cpus}: {error.strerror}"
                ) from error
        self.adopt_memory(pid)

    def check_port_free(self, port: int, *, needed_by: str, udp: bool = False) -> None:
        """Raises HeadraceError when something on this node listens on a port already."""
        import socket

        def bind() -> None:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM if udp else socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((self.address, port))

        try:
            call_inside(self.namespace, bind)
        except OSError as error:
            raise HeadraceError(
                f"{needed_by}: port {port} of {self.name} ({self.address}) cannot be had: {error.strerror}",
                hint="name another port, or end the program that listens there",
            ) from error

    def accepts(self, address: str, port: int, timeout_s: float = 1.0) -> bool:
        """Whether a TCP connection from this node to an address is taken."""
        import socket

        def connect() -> bool:
            try:
                with socket.create_connection((address, port), timeout=timeout_s):
                    return True
            except OSError:
                return False

        return call_inside(self.namespace, connect)

    def as_dict(self) -> dict[str, Any]:
        """For the record: what it is, as read back."""
        return {
            "name": self.name,
            "address": self.address,
            "link": self.settings.link.as_dict(),
            "link_read_back": read_link(self.namespace),
            "cpus": None if self.settings.cpus is None else list(self.settings.cpus),
            "memory_bytes": None if self.memory is None else self.memory.read(),
        }
