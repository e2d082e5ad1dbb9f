"""Base layer: folders of a run on storage that is reached by URL and that stays after the run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

from headrace.errors import HeadraceError
from headrace.system.own_programs import own_module

_PATIENCE_S = 120.0


def clear(url: str, environment: Mapping[str, str]) -> str:
    """Remove a folder or a file with what jobs left in it, and say so.

    Credentials are those of this process's environment. Raises HeadraceError when it stays.
    """
    _run("--remove", url, environment)
    return "removed"


def drop_unfinished(url: str, environment: Mapping[str, str], token: str, note: str) -> str:
    """Remove what unfinished uploads of one run left in a folder, and say so.

    `token` and `note`: what tells them from those of others (targets/upload.py). Raises
    HeadraceError when it stays.
    """
    _run("--unfinished", url, environment, token, note)
    return "without unfinished uploads"


def _run(task: str, url: str, environment: Mapping[str, str], *further: str) -> None:
    try:
        done = subprocess.run(
            own_module("headrace.targets.upload", task, url, *further),
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise HeadraceError(f"the server does not answer within {_PATIENCE_S:g} s") from error
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise HeadraceError(said[-1] if said else f"exit code {done.returncode}")
