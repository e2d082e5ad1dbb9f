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
    sent = [*sorted(path for path in beside if path.is_file()), *files]
    say(
        f"copying {len(sent)} files to the target"
        if len(sent) > 1
        else f"copying {sent[0].name} to the target"
    )
    said = _run([folder_url, *map(str, sent)], node, context, environment, _PATIENCE_S)
    urls = [str(json.loads(line)["url"]) for line in said.splitlines()[-len(sent) :]]
    return [Held(url) for url, file in zip(urls, sent, strict=True) if file.name != MANIFEST]


def remove(
    folder_url: str, node: Node | None, context: TargetContext, environment: Mapping[str, str]
) -> None:
    """Removes a folder and all in it, if it is there. Raises HeadraceError with the client's words."""
    _run(["--remove", folder_url], node, context, environment, _PATIENCE_S)


def try_writing(url: str, node: Node | None, context: TargetContext, environment: Mapping[str, str]) -> None:
    """Writes and removes a small file. Raises HeadraceError with the client's words."""
    _run([url], node, context, environment, _TRY_PATIENCE_S)


def _run(
    words: list[str],
    node: Node | None,
    context: TargetContext,
    environment: Mapping[str, str],
    timeout_s: float,
) -> str:
    argv = [sys.executable, "-m", "headrace.readers.upload", *words]
    command = node.command(argv) if node is not None else argv
    try:
        return run_program(context.journal, command, timeout_s=timeout_s, environment=environment)
    except HeadraceError as error:
        url = next(word for word in words if "://" in word)
        # Its own words stand behind the command line.
        raise HeadraceError(f"{url}: {error.message.partition(' failed: ')[2] or error.message}") from error
