"""Write a file whole or not at all: under another name beside it, then renamed."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from headrace.errors import HeadraceError


@contextmanager
def write_errors(file: Path, hint: str | None = None) -> Generator[None]:
    """Turn an error of the operating system into a message that names the file."""
    try:
        yield
    except OSError as error:
        message = f"{file} cannot be written: {error.strerror or error}"
        raise HeadraceError(message, hint=hint) from None


def write_whole(file: Path, write: Callable[[Path], object], hint: str | None = None) -> Path:
    """Write a temporary file and rename it, so that an old file stays until the new one is whole.

    A device or a pipe is written directly. Raises HeadraceError with this hint.
    """
    with write_errors(file, hint):
        if file.exists() and not file.is_file():
            write(file)
            return file
        part = file.with_name(f".{file.name}.part")
        try:
            write(part)
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)
    return file
