"""Write a file whole or not at all: under another name beside it, then renamed."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TypeVar

from headrace.errors import HeadraceError, system_words

_Result = TypeVar("_Result")
_STREAM = re.compile(r"/dev/(?:(stdout)|(stderr)|fd/(\d+))")


def is_stream(file: Path) -> bool:
    """Return whether a path is an open stream: `/dev/stdout`, `/dev/stderr`, `/dev/fd/N`."""
    return _descriptor(file) is not None


def leads_nowhere(file: Path) -> str | None:
    """Return why an output is refused that is a symbolic link to nothing; None if it is none.

    To follow it would make a file in a place that nobody named and no check has seen.
    """
    try:
        if not file.is_symlink() or file.exists():
            return None
        return f"is a link to {os.readlink(file)!r}, where nothing is"  # noqa: PTH115 - as written
    except OSError:
        return None  # other checks say what is wrong with the name


@contextmanager
def write_errors(file: Path, hint: str | None = None) -> Generator[None]:
    """Turn an error of the operating system into a message that names the file."""
    try:
        yield
    except OSError as error:
        message = f"{file} cannot be written: {system_words(error)}"
        raise HeadraceError(message, hint=hint) from None


def write_whole(file: Path, write: Callable[[Path], object], hint: str | None = None) -> Path:
    """Write a temporary file and rename it, so that an old file stays until the new one is whole.

    A symbolic link stays, and leads to the new file. A device or a pipe is written directly; an
    open stream gets the bytes where it is. Raises HeadraceError with this hint.
    """
    with write_errors(file, hint):
        whole(file, write)
    return file


def write_new(file: Path, text: str) -> None:
    """Write a text into a new file, whole or not at all. Raises FileExistsError, which also a link
    to nothing causes, and OSError."""
    with file.open("x", encoding="utf-8") as made:
        try:
            made.write(text)
            made.flush()
        except OSError:
            file.unlink(missing_ok=True)
            raise


def whole(file: Path, write: Callable[[Path], _Result], *, seeks: bool = False) -> _Result:
    """As `write_whole`, but return what `write` returns, and raise its errors as they are.

    `seeks`: `write` does not write in order, as Parquet and pictures: a pipe gets a copy.
    """
    stream = _descriptor(file)
    if stream is not None:
        sys.stdout.flush()
        # Opening a stream's path would truncate the file it leads to, and begin at its start.
        return _copied(write, lambda: open(stream, "wb", closefd=False))
    # What a link leads to is replaced, never the link: `/dev/stdout` is one.
    place = resolved(file)
    if place.exists() and not place.is_file():
        return _copied(write, lambda: place.open("wb")) if seeks else write(file)
    part = place.with_name(f".{place.name}.part")
    try:
        result = write(part)
        part.replace(place)
    finally:
        part.unlink(missing_ok=True)
    return result


def resolved(file: Path) -> Path:
    """Return the path that links lead to. Raises OSError for links that lead in a circle."""
    with suppress(FileNotFoundError):
        file.stat()  # `resolve` raises RuntimeError for a circle, or nothing, by Python's version
    return file.resolve()


def _descriptor(file: Path) -> int | None:
    found = _STREAM.fullmatch(os.path.normpath(file.absolute()))
    if found is None:
        return None
    return 1 if found[1] else 2 if found[2] else int(found[3])


def _copied(write: Callable[[Path], _Result], opened: Callable[[], BinaryIO]) -> _Result:
    """Write a temporary file, and copy it into one that was opened."""
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
        part = Path(folder, "part")
        result = write(part)
        with part.open("rb") as made, opened() as out:
            shutil.copyfileobj(made, out)
    return result
