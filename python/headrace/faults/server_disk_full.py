"""Fault `server-disk-full`: fills a server's file system, down to a given number of free bytes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from headrace.errors import UnsupportedLevelError
from headrace.faults import FaultOptions
from headrace.faults.servers import ServerFault, ServerFaultOptions
from headrace.system.owned import fill
from headrace.system.servers import Server
from headrace.system.storage import storage_of
from headrace.targets import Location
from headrace.units import Bytes

if TYPE_CHECKING:
    from headrace.system.journal import Journal, JournalEntry


class ServerDiskFullOptions(ServerFaultOptions):
    """`[[fault]]` with `what = "server-disk-full"`."""

    free: Bytes = Field(0, description="bytes that stay free")


class ServerDiskFull(ServerFault):
    """A server without free space. The space is only reserved, not written, if the file system
    supports it."""

    kind: ClassVar[str] = "server-disk-full"
    Options: ClassVar[type[FaultOptions]] = ServerDiskFullOptions

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._journal: Journal | None = None
        self._entry: JournalEntry | None = None

    def inject_server(self, server: Server, location: Location, journal: Journal) -> None:
        if server.context is None:
            raise UnsupportedLevelError(f"{self.kind}: server {server.name} is not running")
        storage = server.context.storage
        if storage_of(storage).mount.directory in (Path("/"), Path("/tmp")):
            raise UnsupportedLevelError(
                f"{self.kind}: {server.name} stores on this machine's own file system, which "
                "is not filled; "
                'give its servers a size (export = { size = "2 GiB" }) or a drive'
            )
        self._journal = journal
        self._entry = fill(journal, storage, self.options.free)

    def lift_server(self) -> None:
        if self._entry is not None and self._journal is not None:
            self._journal.put_back([self._entry])
            self._entry = None
            os.sync()  # the space becomes free only when its release is on disk
