"""The environment in which a program loads the recorder's library and finds its file."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Generator
from pathlib import Path

from headrace.profiles.arena import Arena
from headrace.system.own_programs import own_library
from headrace.system.own_variables import users_environment

LIBRARY = "libheadrace_recorder.so"


@contextlib.contextmanager
def preloaded(arena: Arena) -> Generator[dict[str, str]]:
    """Yield the user's environment with the recorder preloaded after existing preloads.

    After them: next to the C library it sees the calls as they are made. Raises MissingError
    without the library.
    """
    with _without_separators(own_library(LIBRARY)) as library:
        users = users_environment()
        others = users.get("LD_PRELOAD", "")
        name, value = arena.variable()
        yield {
            **users,
            "LD_PRELOAD": " ".join(part for part in (others, str(library)) if part),
            name: value,
        }


@contextlib.contextmanager
def _without_separators(library: Path) -> Generator[Path]:
    """Yield a path that LD_PRELOAD can hold: the loader splits it at spaces and colons, so such a
    path is replaced by a link."""
    if not re.search(r"[\s:]", str(library)):
        yield library
        return
    place = tempfile.gettempdir() if not re.search(r"[\s:]", tempfile.gettempdir()) else "/tmp"
    with tempfile.TemporaryDirectory(prefix="headrace-", dir=place) as folder:
        link = Path(folder) / library.name
        link.symlink_to(library)
        yield link
