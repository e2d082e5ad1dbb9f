"""Base layer: one node of the cluster: its programs share its network, CPU set and memory limit."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

from headrace.errors import HeadraceError
from headrace.system.cluster.links import LinkSettings, read_link
from headrace.system.network_interface import Interface
from headrace.system.network_namespaces import FOLDER, call_inside
from headrace.system.requirements import require_program

if TYPE_CHECKING:
    from headrace.system.cgroups import MemoryLimit
    from headrace.system.journal import Journal
    from headrace.system.processes import Started


@dataclass(frozen=True)
class NodeSettings:
    """Settings of a node."""

    name: str
    link: LinkSettings = field(default_factory=LinkSettings)
    cpus: tuple[int, ...] | None = None
    """CPUs that its programs may use; all when None."""
    memory_bytes: int | None = None
    """Memory limit of all its programs including page cache; none when None."""


@dataclass
class Node:
    """An existing node."""

    settings: NodeSettings
    namespace: str
    """Name of its network namespace (`ip netns exec NAME …`)."""
    address: str
    port: Interface
    """The switch's end of its cable."""
    memory: MemoryLimit | None = None

    @property
    def name(self) -> str:
        """The name in the settings."""
        return self.settings.name

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return the command that runs `argv` in this node's network namespace and on its CPUs.

        Mounts stay those of the machine.
        """
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
        """Start a program on this node, recorded in the undo journal before it exists.

        It dies with Headrace when it was started from the main thread and does not detach itself;
        otherwise the journal ends it.
        """
        from headrace.system.processes import start_process

        started = start_process(
            journal,
            self.command(argv),
            environment=environment,
            directory=directory,
            output=output,
            outlives_us=threading.current_thread() is not threading.main_thread(),
        )
        with contextlib.suppress(
            HeadraceError
        ):  # it may have ended already; the caller detects that
            self.adopt_memory(started.pid)
        return started

    def adopt_memory(self, pid: int) -> None:
        """Put a process (and its later children) under the node's memory limit."""
        if self.memory is not None:
            self.memory.add(pid)

    def adopt(self, pid: int) -> None:
        """Put a process, before it joins the network, on the node's CPUs and under its limit."""
        if self.settings.cpus is not None:
            try:
                os.sched_setaffinity(pid, self.settings.cpus)
            except OSError as error:
                raise HeadraceError(
                    f"process {pid} cannot be put on processors {self.settings.cpus}: "
                    f"{error.strerror}"
                ) from error
        self.adopt_memory(pid)

    def check_port_free(self, port: int, *, needed_by: str, udp: bool = False) -> None:
        """Raise HeadraceError when a program on this node already listens on a port."""
        import socket

        def bind() -> None:
            with socket.socket(
                socket.AF_INET, socket.SOCK_DGRAM if udp else socket.SOCK_STREAM
            ) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((self.address, port))

        try:
            call_inside(self.namespace, bind)
        except OSError as error:
            raise HeadraceError(
                f"{needed_by}: port {port} of {self.name} ({self.address}) cannot be used: "
                f"{error.strerror}",
                hint="name another port, or end the program that listens there",
            ) from error

    def accepts(self, address: str, port: int, timeout_s: float = 1.0) -> bool:
        """Return whether an address accepts a TCP connection from this node."""
        import socket

        def connect() -> bool:
            try:
                with socket.create_connection((address, port), timeout=timeout_s):
                    return True
            except OSError:
                return False

        return call_inside(self.namespace, connect)

    def as_dict(self) -> dict[str, object]:
        """Return the node's settings for the record, as read back."""
        return {
            "name": self.name,
            "address": self.address,
            "link": self.settings.link.as_dict(),
            "link_read_back": read_link(self.namespace),
            "cpus": None if self.settings.cpus is None else list(self.settings.cpus),
            "memory_bytes": None if self.memory is None else self.memory.read(),
        }
