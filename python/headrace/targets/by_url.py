"""Targets: what kinds share that jobs reach by URL alone: data sets are put there by a process on a node that runs jobs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from headrace.datasets.integrity import MANIFEST
from headrace.errors import HeadraceError
from headrace.system.cluster import Node
from headrace.system.processes import run_program
from headrace.targets import Held, TargetContext

_PATIENCE_S = 1800.0
_TRY_PATIENCE_S = 60.0


def put(
    files: Sequence[Path],
    folder_url: str,
    node: Node | None,
    context: TargetContext,
    environment: Mapping[str, str],
    say: Callable[[str], None],
) -> list[Held]:
    """Puts a data set's files, and the manifest beside them, into a folder. Raises HeadraceError with the client's words."""
    beside = {file.parent / MANIFEST for file in files}
    held: list[Held] = []
    for file in [*sorted(path for path in beside if path.is_file()), *files]:
        say(f"copying {file.name} to the target")
        said = _run(folder_url, [str(file)], node, context, environment, _PATIENCE_S)
        if file.name != MANIFEST:
            held.append(Held(str(json.loads(said.splitlines()[-1])["url"])))
    return held


def try_writing(url: str, node: Node | None, context: TargetContext, environment: Mapping[str, str]) -> None:
    """Writes and removes a small file. Raises HeadraceError with the client's words."""
    _run(url, [], node, context, environment, _TRY_PATIENCE_S)


def _run(
    url: str,
    files: list[str],
    node: Node | None,
    context: TargetContext,
    environment: Mapping[str, str],
    timeout_s: float,
) -> str:
    argv = [sys.executable, "-m", "headrace.readers.upload", url, *files]
    command = node.command(argv) if node is not None else argv
    try:
        return run_program(context.journal, command, timeout_s=timeout_s, environment=environment)
    except HeadraceError as error:
        # Its own words stand behind the command line.
        raise HeadraceError(f"{url}: {error.message.partition(' failed: ')[2] or error.message}") from error
