"""Keeps a recording that cannot be made again where its own place has no room."""

from __future__ import annotations

import tempfile
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.profiles.places import temporary_places
from headrace.profiles.steps import Recording, save


def save_somewhere(recording: Recording, path: Path) -> tuple[Path, HeadraceError | None]:
    """Write a profile; where that fails, write it into a new folder for temporary files.

    Return its path, and why it is not the one that was given. Raises HeadraceError, of the path
    that was given, if no folder takes it.
    """
    try:
        save(recording, path)
        return path, None
    except HeadraceError as error:
        problem = error
    for place in temporary_places():
        try:
            # Others may write into `place`: a new folder is this user's alone.
            folder = Path(tempfile.mkdtemp(prefix="headrace-", dir=place))
        except OSError:
            continue
        try:
            save(recording, folder / path.name)
            return folder / path.name, problem
        except HeadraceError:
            folder.rmdir()
    raise problem
