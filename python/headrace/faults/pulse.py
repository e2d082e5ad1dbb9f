"""Probe a storage's availability while a fault affects it, in a separate process.

It writes small files one after the other, each synced to the storage, and reports when each was
acknowledged or refused. Afterwards it reads back all acknowledged files. As a separate process, it
blocks nothing else when the storage does not answer.

    python -m headrace.faults.pulse write PLACE INTERVAL_S
        write until ended, and print a JSON line per file
    python -m headrace.faults.pulse verify PLACE COUNT
        print one JSON line: which of the first COUNT files are lost

PLACE is a directory or a URL. Files are numbered, so that storage that distributes files over
servers uses all of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import zlib
from pathlib import Path
from typing import Any

BYTES = 4096


def content(number: int) -> bytes:
    """Return the contents of file `number`: they depend on the number and include a checksum."""
    body = bytes((number * 31 + place) % 251 for place in range(BYTES - 4))
    return body + zlib.crc32(body).to_bytes(4, "little")


class _Files:
    """Files in a directory."""

    def __init__(self, place: str) -> None:
        self._folder = Path(place)
        self._folder.mkdir(exist_ok=True)

    def write(self, number: int) -> None:
        descriptor = os.open(self._folder / str(number), os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, content(number))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def read(self, number: int) -> bytes:
        return (self._folder / str(number)).read_bytes()


class _Objects:
    """Objects below a URL, acknowledged when they are closed.

    Each is written by a new client: what a client has learnt of a server's failure is not part of
    the storage.
    """

    def __init__(self, place: str) -> None:
        self._place = place

    def _at(self, number: int) -> tuple[Any, str]:
        # Not at the top: files in a directory need none of it.
        from headrace.protocols import filesystem_of

        return filesystem_of(f"{self._place}/{number}")

    def write(self, number: int) -> None:
        filesystem, path = self._at(number)
        from headrace.protocols import protocol_of

        if not protocol_of(self._place).objects:
            filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
        with filesystem.open(path, "wb") as file:
            file.write(content(number))

    def read(self, number: int) -> bytes:
        filesystem, path = self._at(number)
        return bytes(filesystem.cat_file(path))


def _storage(place: str) -> _Files | _Objects:
    return _Objects(place) if "://" in place else _Files(place)


def _write(place: str, interval_s: float) -> None:
    storage, number = None, 0
    while True:
        try:
            storage = storage or _storage(place)
            storage.write(number)
            said: dict[str, object] = {"number": number, "at": time.monotonic()}
        except Exception as error:
            said = {"refused": str(error)[:200] or type(error).__name__, "at": time.monotonic()}
        print(json.dumps(said), flush=True)
        number += "refused" not in said
        time.sleep(interval_s)


def _verify(place: str, count: int) -> None:
    storage = _storage(place)
    lost: list[int] = []
    why = ""
    for number in range(count):
        try:
            held = storage.read(number)
        except Exception as error:
            held, why = b"", str(error)[:200] or type(error).__name__
        if held != content(number):
            lost.append(number)
    print(json.dumps({"lost": lost, "why": why}))


def main() -> int:
    """Run the process."""
    task, place, value = sys.argv[1:4]
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        if task == "write":
            _write(place, float(value))
        else:
            _verify(place, int(value))
    return 0


if __name__ == "__main__":
    sys.exit(main())
