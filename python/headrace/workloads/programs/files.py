"""Input files of the user's own, found by a pattern."""

from __future__ import annotations

import glob
from pathlib import Path

from headrace.errors import HeadraceError


def files_that_fit(name: str, pattern: str | None, directory: Path) -> list[str]:
    """Return the user's files that fit the pattern; none without one.

    `directory` is Headrace's own directory within the target's. Raises HeadraceError when no file
    fits.
    """
    if pattern is None:
        return []
    below = "" if pattern.startswith("/") else glob.escape(str(directory.parent)) + "/"
    # Path.glob does not accept absolute patterns.
    names = glob.glob(below + pattern, recursive=True)  # noqa: PTH207
    found = sorted(path for path in names if Path(path).is_file())
    if not found:
        raise HeadraceError(
            f"workload {name}: no file fits {pattern}",
            hint=f"a pattern is looked for below {directory.parent}",
        )
    return found
