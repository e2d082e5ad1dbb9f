"""The text of a study in which many nodes run a recorded job.

`headrace profile simulate` writes it, and users edit it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path


def study_text(
    profile: str, drives: list[str], nodes: int, slots: list[int], link: str | None
) -> str:
    """Return the text of a study.

    `profile`: file name, relative to the study. `link`: link of an NFS server with the drive; None
    puts a drive into each node.
    """
    quoted = [_quoted(drive) for drive in drives]
    # A dollar sign starts the name of an environment variable.
    path = _quoted(profile.replace("$", "$$"))
    title = f"{profile.removesuffix('.toml')} on {nodes} node{'s' if nodes > 1 else ''}"
    if link is None:
        target = f'[target.storage]\nkind = "block"\ndrive = {quoted[0]}\n'
        factor = f"drive = [{', '.join(quoted)}]\n"
        site = f"[site.node]\ncount = {nodes}\n"
    else:
        # One target per drive: a server's export cannot be a factor.
        target = "".join(
            f'[target.{_quoted("nfs-" + drive)}]\nkind = "nfs"\nserver = "nas"\n'
            f"export = {{ drive = {name} }}\n\n"
            for drive, name in zip(drives, quoted, strict=True)
        )
        factor = (
            f"target = [{', '.join(_quoted('nfs-' + drive) for drive in drives)}]\n"
            if len(drives) > 1
            else ""
        )
        site = (
            f"[site.node]\ncount = {nodes}\nlink = {_quoted(link)}\n\n"
            f"[site.server.nas]\nlink = {_quoted(link)}\n"
        )
    return (
        f"# A recorded job on {'each of ' if nodes > 1 else ''}{nodes} "
        f"node{'s' if nodes > 1 else ''}, in virtual time: headrace simulate THIS\n"
        f"headrace = 1\ntitle = {_quoted(title)}\n\n"
        f"{site}\n{target}\n"
        f'[workload.job]\nkind = "replay"\nprofile = {path}\n\n'
        f"[factors]\n{factor}slots = {slots}\n\n"
        f'[plan]\nrepeats = {{ min = 1 }}\n\n[run]\nshortest = "0 s"\n'
    )


def _quoted(text: str) -> str:
    """Return a string as TOML has it, which has no surrogate pairs."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def drives_named_in(base: Path, drives: Sequence[str]) -> list[str]:
    """Return drives as a study in the folder `base` has to name them.

    A file is relative to the current folder where a user names it, and to `base` in the study.
    """
    found: list[str] = []
    for drive in drives:
        file, *cache_state = drive.split(" write-cache=")
        here = Path(file).absolute()
        if file.endswith(".toml") and not Path(file).is_absolute() and here.exists():
            # Not with "..": the study's folder may be a symbolic link.
            written = here.relative_to(base) if here.is_relative_to(base) else here
            file = str(written).replace("$", "$$")  # a study replaces $NAME
        found.append(" write-cache=".join((file, *cache_state)))
    return found
