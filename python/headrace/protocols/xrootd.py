"""XRootD: its own client library, whose timeouts come from the environment (`XRD_…`)."""

from __future__ import annotations

import contextlib
import importlib
import shutil
import sys
from typing import Any

from typing_extensions import override

from headrace.protocols import UrlProtocol
from headrace.protocols.storage import RemoteStorage

_NOT_FOUND = 3011
"""Error of the protocol for a path that does not exist (kXR_NotFound)."""


class XrootdProtocol(UrlProtocol):
    """URLs `root://HOST:PORT//PATH`, which fsspec-xrootd reads."""

    kind = "root"

    @override
    def client(self) -> type[RemoteStorage]:
        return XrootdStorage

    @override
    def removed_on_servers(self, url: str) -> bool:
        # A redirector passes the removal of a folder on to any one server, or refuses it.
        from XRootD import client
        from XRootD.client import flags as names_of_flags

        flags: Any = names_of_flags
        address, path = self.address_and_path(url)
        names: Any = client.FileSystem(address)
        status, found = names.stat(path)
        if status.ok and not found.flags & flags.StatInfoFlags.IS_DIR:
            return False  # the removal of a file is passed on to the server that has it
        status, places = names.deeplocate(path, flags.OpenFlags.REFRESH)
        if not status.ok:
            return False
        refused: list[str] = []
        for server in dict.fromkeys(place.address for place in places):
            try:
                _remove_tree(client.FileSystem(f"{self.kind}://{server}"), path)
            except OSError as error:  # the others remove theirs all the same
                refused.append(f"{server}: {error}")
        if refused:
            raise OSError("; ".join(refused))
        return True

    @override
    def load(self) -> None:
        if "ROOT" in sys.modules:
            return  # it has a client library of its own, and two of them in a process crash
        for library in ("XRootD.client", "fsspec_xrootd"):
            with contextlib.suppress(ImportError):  # said when a file is opened
                importlib.import_module(library)

    @override
    def copy_command(self, url: str, place: str) -> list[str] | None:
        if shutil.which("xrdcp") is None:
            return None
        return ["xrdcp", "--force", "--silent", "--nopbar", url, place]


def _remove_tree(names: Any, path: str) -> None:
    """Remove a folder of one server with all that is in it."""
    from XRootD.client import flags as names_of_flags

    flags: Any = names_of_flags
    status, listed = names.dirlist(path, flags.DirListFlags.STAT)
    if not status.ok and status.errno == _NOT_FOUND:
        return  # gone meanwhile
    for each in _done((status, listed), path):
        inside = f"{path}/{each.name}"
        if each.statinfo.flags & flags.StatInfoFlags.IS_DIR:
            _remove_tree(names, inside)
        else:
            _done(names.rm(inside), inside)
    _done(names.rmdir(path), path)


class XrootdTlsProtocol(XrootdProtocol):
    """URLs `roots://…`."""

    kind = "roots"


class XrootdStorage(RemoteStorage):
    """Servers behind one address."""

    def __init__(self, address: str) -> None:
        from XRootD import client
        from XRootD.client import flags

        self._flags: Any = flags
        self._address = address
        self._names: Any = client.FileSystem(address)
        # Behind a redirector, each data server has its own directories, and any one of them may
        # make a new one.
        role = bytes(_done(self._names.query(self._flags.QueryCode.CONFIG, "role"), address))
        self.has_directories = not role.startswith((b"manager", b"meta", b"super"))

    @override
    def make_directories(self, path: str) -> None:
        _done(self._names.mkdir(path, self._flags.MkDirFlags.MAKEPATH), path)

    @override
    def make_directory(self, path: str) -> None:
        _done(self._names.mkdir(path), path)

    @override
    def remove_directory(self, path: str) -> None:
        _done(self._names.rmdir(path), path)

    @override
    def stat(self, path: str) -> None:
        _done(self._names.stat(path), path)

    @override
    def rename(self, path: str, other: str) -> None:
        _done(self._names.mv(path, other), path)

    @override
    def create(self, path: str, content: bytes, sync: bool) -> None:
        flags = self._flags.OpenFlags
        file = self._open(path, flags.NEW if self.has_directories else flags.NEW | flags.MAKEPATH)
        if content:
            _done(file.write(content), path)
        if sync:
            _done(file.sync(), path)
        _done(file.close(), path)

    @override
    def read(self, path: str, size: int) -> bytes:
        file = self._open(path, self._flags.OpenFlags.READ)
        found = _done(file.read(0, size), path) if size else b""
        _done(file.close(), path)
        return found

    @override
    def remove(self, path: str) -> None:
        _done(self._names.rm(path), path)

    @override
    def sink(self, path: str, *, new: bool) -> _XrootdFile:
        flags = self._flags.OpenFlags
        return _XrootdFile(
            self._open(path, flags.NEW | flags.MAKEPATH if new else flags.UPDATE), path
        )

    @override
    def source(self, path: str) -> _XrootdFile:
        return _XrootdFile(self._open(path, self._flags.OpenFlags.READ), path)

    def _open(self, path: str, flags: Any) -> Any:
        from XRootD import client

        file: Any = client.File()
        modes = self._flags.AccessMode
        _done(file.open(f"{self._address}/{path}", flags, modes.UR | modes.UW | modes.GR), path)
        return file


class _XrootdFile:
    def __init__(self, file: Any, path: str) -> None:
        self._file, self._path = file, path

    def write(self, offset: int, record: bytes) -> None:
        _done(self._file.write(record, offset), self._path)

    def read(self, offset: int, size: int) -> int:
        return len(_done(self._file.read(offset, size), self._path))

    def flush(self) -> None:
        _done(self._file.sync(), self._path)

    def close(self) -> None:
        _done(self._file.close(), self._path)


def _done(answer: Any, path: str) -> Any:
    """Return the content of an answer. Raises OSError when the request failed."""
    status, content = answer
    if not status.ok:
        raise OSError(f"{path}: {' '.join(str(status.message).split())}")
    return content
