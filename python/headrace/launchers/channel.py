"""Messages between the processes of a launcher on one machine."""

from __future__ import annotations

import array
import pickle
import socket
import struct
from typing import Any

_LENGTH = struct.Struct("!I")


class Channel:
    """Complete pickled messages over a stream socket, only between Headrace's own processes."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def fileno(self) -> int:
        """File descriptor, for select."""
        return self.sock.fileno()

    def send(self, message: Any, descriptor: int | None = None) -> None:
        """Send a message, and an open file descriptor if given."""
        body = pickle.dumps(message)
        data = _LENGTH.pack(len(body)) + body
        if descriptor is not None:
            extra = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
            sent = self.sock.sendmsg([data], extra)
            data = data[sent:]
        self.sock.sendall(data)

    def receive(self) -> tuple[Any, int | None]:
        """Wait for a message and the file descriptor sent with it. Raises EOFError at the end."""
        descriptors = array.array("i")
        data, extra, _, _ = self.sock.recvmsg(_LENGTH.size, socket.CMSG_LEN(descriptors.itemsize))
        if not data:
            raise EOFError
        for _level, _kind, content in extra:
            descriptors.frombytes(content[: descriptors.itemsize])
        head = data + self._exactly(_LENGTH.size - len(data))
        body = self._exactly(_LENGTH.unpack(head)[0])
        return pickle.loads(body), (descriptors[0] if descriptors else None)

    def _exactly(self, size: int) -> bytes:
        pieces = bytearray()
        while len(pieces) < size:
            piece = self.sock.recv(size - len(pieces))
            if not piece:
                raise EOFError
            pieces += piece
        return bytes(pieces)

    def close(self) -> None:
        """Close the socket."""
        self.sock.close()
