"""Whether jobs that run at once read the same files: those then come from memory.

The what-if page and `headrace.what_if()` say so.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from headrace.catalog import entry
from headrace.errors import HeadraceError


def shared_files_note(study: str, base: Path, jobs: int) -> str:
    """Return that jobs share files, when the job has too few; else an empty text.

    `study`: text of a study with the workload `job`; its relative paths refer to `base`. `jobs`:
    the most that run at once. The number of a user's own files is not known here.
    """
    job = tomllib.loads(study)["workload"]["job"]
    files, has = _files_of_data(job.get("data"))
    if job.get("kind") == "replay" and isinstance(profile := job.get("profile"), str):
        files, has = _files_of_profile(profile, base)
    if jobs == 1 or files is None or files >= jobs:
        return ""
    return (
        f"{has} for up to {jobs} jobs at once: jobs that read the same file get it from memory, "
        "so more of them look faster than with data of their own."
    )


def _files_of_data(data: object) -> tuple[int | None, str]:
    files = data.get("files") if isinstance(data, dict) else None  # pyright: ignore
    if not isinstance(files, int):
        return None, ""
    return files, f"This job's study has {files} file{'' if files == 1 else 's'}"


def _files_of_profile(profile: str, base: Path) -> tuple[int | None, str]:
    try:
        found = entry("profiles", profile, base=base)
    except HeadraceError:
        return None, ""  # who simulates it says what is wrong
    sets = [each for each in found.table.files if each.share != "new"]
    if any(each.share == "shared" for each in sets):
        return 1, "This profile has the same files"
    files = min((each.count for each in sets if each.count), default=None)
    return files, f"This profile has {files} file{'' if files == 1 else 's'}"
