"""Copy one input file to a path of this node, in a separate process, completely or not at all.

Used by the workload `stage`. A file in a directory is copied by `cp` (never as a reflink: every
byte moves), one behind a URL by the protocol's own program (`xrdcp`) where installed, otherwise by
this module as a program:

    python -m headrace.workloads.staging.copying URL FILE
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from headrace.datasets.integrity import checksum
from headrace.errors import HeadraceError
from headrace.protocols import filesystem_of, protocol_of
from headrace.system.own_programs import own_module
from headrace.units import format_amount

_PIECE_BYTES = 4 << 20


def size_of(source: str) -> int:
    """Return the size of an input file. Raises HeadraceError when it does not exist."""
    try:
        if "://" in source:
            filesystem, path = filesystem_of(source)
            return int(filesystem.info(path)["size"])
        return Path(source).stat().st_size
    except OSError as error:
        raise HeadraceError(
            f"{source}: the input cannot be reached: {error.strerror or error}"
        ) from error


def copy(source: str, place: Path, *, verify: bool, cached: bool = True) -> tuple[int, float]:
    """Copy a file; return its bytes and the seconds taken.

    With `verify`, the copy is compared with the source. With `cached`, it may stay in the page
    cache; otherwise it is only on the storage when this returns. Raises HeadraceError with the
    cause; no partial copy is left.
    """
    begun = time.monotonic()
    partial = place.with_name(f"{place.name}.partial")
    try:
        command = _command(source, partial)
        if setpriv := shutil.which("setpriv"):
            # The copy must not outlive the job.
            command = [setpriv, "--pdeathsig", "KILL", "--", *command]
        end = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        took_s = time.monotonic() - begun
        if end.returncode != 0:
            said = end.stderr.decode(errors="replace").strip().splitlines()
            raise HeadraceError(
                f"{source} could not be staged: "
                f"{said[-1] if said else f'exit code {end.returncode}'}"
            )
        size, wanted = partial.stat().st_size, size_of(source)
        if size != wanted:
            raise HeadraceError(
                f"{source}: {format_amount(size)} were staged of {format_amount(wanted)}: the copy "
                "is not whole"
            )
        if verify:
            _compare(source, partial)
        if not cached:
            _write_out(partial)
            took_s = time.monotonic() - begun
        partial.replace(place)
    finally:
        partial.unlink(missing_ok=True)
    return size, took_s


def _command(source: str, place: Path) -> list[str]:
    """Return the lightest program that can copy the source: a job shares its cores with it."""
    if "://" not in source:
        return ["cp", "--reflink=never", "--sparse=never", "--", source, str(place)]
    if (command := protocol_of(source).copy_command(source, str(place))) is not None:
        return command
    return own_module("headrace.workloads.staging.copying", source, str(place))


def _write_out(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def _compare(source: str, copied: Path) -> None:
    if "://" not in source:
        if checksum(Path(source)) != checksum(copied):
            raise HeadraceError(f"{source}: the staged copy differs from it")
        return
    filesystem, path = filesystem_of(source)
    with filesystem.open(path, "rb") as far, copied.open("rb") as near:
        while True:
            wanted, found = far.read(_PIECE_BYTES), near.read(_PIECE_BYTES)
            if wanted != found:
                raise HeadraceError(f"{source}: the staged copy differs from it")
            if not wanted:
                return


def _fetch(url: str, place: Path) -> None:
    filesystem, path = filesystem_of(url)
    with filesystem.open(path, "rb") as far, place.open("wb") as near:
        while piece := far.read(_PIECE_BYTES):
            near.write(piece)


def main() -> int:
    """Fetch one file. Return 0, or 1 with the cause on standard error."""
    try:
        _fetch(sys.argv[1], Path(sys.argv[2]))
    except HeadraceError as error:
        print(error.message, file=sys.stderr)
        return 1
    except Exception as error:
        print(" ".join(str(error).split()) or type(error).__name__, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # Clients of some protocols have threads that do not end by themselves.
    os._exit(code)
