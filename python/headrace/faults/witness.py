"""A witness of durability: writes numbered records and later reports which are lost.

Each record is forced to stable storage before the next.
"""

from __future__ import annotations

import os
import struct
import threading
import zlib
from pathlib import Path

RECORD_BYTES = 4096
_HEAD = struct.Struct("<QI")
NAME = ".headrace-witness"


class Witness:
    """Writes one record of 4 KiB every `interval_s` seconds, followed by `fdatasync`, until stopped
    or refused."""

    def __init__(self, directory: Path, interval_s: float) -> None:
        self._file = directory / NAME
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="headrace-witness", daemon=True)
        self.acknowledged = 0
        """Records that the storage acknowledged."""
        self.refused: str | None = None
        """The storage's error for the first record that it refused."""

    def start(self) -> None:
        """Create a new file and force its existence to stable storage, then start to write."""
        descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.fsync(descriptor)
        os.close(descriptor)
        folder = os.open(self._file.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        self._thread.start()

    def _loop(self) -> None:
        try:
            descriptor = os.open(self._file, os.O_WRONLY)
            try:
                while not self._stop.wait(self._interval_s):
                    os.pwrite(
                        descriptor, record(self.acknowledged), self.acknowledged * RECORD_BYTES
                    )
                    os.fdatasync(descriptor)
                    self.acknowledged += 1
            finally:
                os.close(descriptor)
        except OSError as error:
            self.refused = error.strerror

    def stop(self, patience_s: float = 30.0) -> None:
        """Stop writing, after the record in progress."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(patience_s)

    def verdict(self, directory: Path) -> dict[str, object]:
        """Return `acknowledged_writes`, `lost_writes` out of them, and the storage's error, if
        any."""
        try:
            held = (directory / NAME).read_bytes()
        except OSError as error:
            return {
                "acknowledged_writes": self.acknowledged,
                "lost_writes": self.acknowledged,
                "witness_refused": error.strerror,
            }
        lost = sum(
            held[number * RECORD_BYTES : (number + 1) * RECORD_BYTES] != record(number)
            for number in range(self.acknowledged)
        )
        return {
            "acknowledged_writes": self.acknowledged,
            "lost_writes": lost,
            "witness_refused": self.refused,
        }


def record(number: int) -> bytes:
    """Return record `number`: the number, a checksum, and contents that depend on the number."""
    filling = bytes((number * 31 + place) % 251 for place in range(64)) * 64
    body = filling[: RECORD_BYTES - _HEAD.size]
    return _HEAD.pack(number, zlib.crc32(body)) + body
