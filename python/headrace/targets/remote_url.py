"""Targets: upload of data sets for kinds that jobs reach by URL only.

A process on a node that runs jobs copies the files.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from headrace.datasets.integrity import MANIFEST
from headrace.errors import HeadraceError, InterruptedRunError
from headrace.protocols import PATIENCE, UPLOADS_NOTE
from headrace.protocols.repeats import REPEAT
from headrace.system.cluster import Node
from headrace.system.own_programs import own_module
from headrace.system.processes import run_program
from headrace.targets import Held, TargetContext
from headrace.targets.upload import TOKEN

_PATIENCE_S = 1800.0
_SLOWEST_BYTES_PER_S = 2e6
"""An upload slower than this fails."""
_TRY_PATIENCE_S = 60.0
_REACH_PATIENCE_S = 30.0
"""For a server to answer before a run; a request has a fifth of it."""


def put(
    files: Sequence[Path],
    folder_url: str,
    node: Node | None,
    context: TargetContext,
    environment: Mapping[str, str],
    say: Callable[[str], None],
) -> list[Held]:
    """Copy a data set's files, and the manifest next to them, into a folder. Raises HeadraceError
    with the client's message."""
    beside = {file.parent / MANIFEST for file in files}
    sent = [*sorted(path for path in beside if path.is_file()), *files]
    say(
        f"copying {len(sent)} files to the target"
        if len(sent) > 1
        else f"copying {sent[0].name} to the target"
    )
    patience_s = _PATIENCE_S + sum(path.stat().st_size for path in sent) / _SLOWEST_BYTES_PER_S
    words = [folder_url, *map(str, sent)]
    with _known_uploads(folder_url, node, context, environment) as marked:
        said = _run(words, node, context, marked, patience_s, context.stop)
    urls = [str(json.loads(line)["url"]) for line in said.splitlines()[-len(sent) :]]
    return [Held(url) for url, file in zip(urls, sent, strict=True) if file.name != MANIFEST]


def whole(
    files: Sequence[Path],
    folder_url: str,
    node: Node | None,
    context: TargetContext,
    environment: Mapping[str, str],
) -> list[bool]:
    """Return which of these files are complete in a folder. Raises HeadraceError with the client's
    message."""
    patience_s = _PATIENCE_S + sum(path.stat().st_size for path in files) / _SLOWEST_BYTES_PER_S
    words = ["--compare", folder_url, *map(str, files)]
    said = _run(words, node, context, environment, patience_s, context.stop)
    return [bool(json.loads(line)["whole"]) for line in said.splitlines()[-len(files) :]]


def remove(
    folder_url: str, node: Node | None, context: TargetContext, environment: Mapping[str, str]
) -> None:
    """Remove a folder and its contents, if it exists. Raises HeadraceError with the client's
    message."""
    _run(["--remove", folder_url], node, context, environment, _PATIENCE_S)


def try_writing(
    url: str, node: Node | None, context: TargetContext, environment: Mapping[str, str]
) -> None:
    """Write and remove a small file. Raises HeadraceError with the client's message."""
    file_url = f"{url}/.headrace-{os.urandom(4).hex()}"
    with cleared_if_killed(file_url, node, context, environment):
        _run(["--try", file_url], node, context, environment, _TRY_PATIENCE_S, about=url)


def why_not_reached(url: str, environment: Mapping[str, str]) -> str:
    """Return why an existing server cannot be used, in the client's words; empty if it answers.

    Changes nothing, neither there nor in this process: a client starts threads.
    """
    given = {**os.environ, **environment, PATIENCE: f"{_REACH_PATIENCE_S / 5:g}", REPEAT: "0"}
    try:
        done = subprocess.run(
            own_module("headrace.targets.upload", "--reach", url),
            env=given,
            capture_output=True,
            text=True,
            timeout=_REACH_PATIENCE_S,
        )
    except subprocess.TimeoutExpired:
        return f"{url}: the server does not answer within {_REACH_PATIENCE_S:.0f} s"
    said = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
    return f"{url}: {said}" if done.returncode != 0 else ""


@contextmanager
def cleared_if_killed(
    url: str, node: Node | None, context: TargetContext, environment: Mapping[str, str]
) -> Generator[None]:
    """Have the undo journal remove a file that a killed run leaves, on storage that stays after it.

    Servers that the run started (`node`) go with their storage.
    """
    if node is not None:
        yield
        return
    entry = context.journal.begin("clear_url", url=url, environment=dict(environment))
    try:
        yield
    finally:
        context.journal.end(entry)


@contextmanager
def _known_uploads(
    folder_url: str, node: Node | None, context: TargetContext, environment: Mapping[str, str]
) -> Generator[dict[str, str]]:
    """The same for uploads to a folder; yield the environment of the program that makes them.

    What they leave is told from the uploads of others, who may upload the same data set.
    """
    if node is not None:
        yield dict(environment)
        return
    journal, token = context.journal, os.urandom(8).hex()
    note = journal.file.with_name(f"{journal.file.stem}-{token}.uploads")
    entry = journal.begin(
        "drop_unfinished", url=folder_url, environment=dict(environment), token=token,
        note=str(note),
    )  # fmt: skip
    try:
        yield {**environment, TOKEN: token, UPLOADS_NOTE: str(note)}
    finally:
        journal.end(entry)
        note.unlink(missing_ok=True)


def _run(
    words: list[str],
    node: Node | None,
    context: TargetContext,
    environment: Mapping[str, str],
    timeout_s: float,
    stop: Callable[[], bool] | None = None,
    about: str | None = None,
) -> str:
    """`about`: the URL that an error names; None: the first of the words."""
    argv = own_module("headrace.targets.upload", *words)
    command = node.command(argv) if node is not None else argv
    try:
        return run_program(
            context.journal,
            command,
            timeout_s=timeout_s,
            environment=environment,
            stop=stop,
            late=f"the server does not answer within {timeout_s:.0f} s",
        )
    except InterruptedRunError:
        raise
    except HeadraceError as error:
        url = about or next(word for word in words if "://" in word)
        # Keep only the client's message, which follows the command line.
        raise HeadraceError(
            f"{url}: {error.message.partition(' failed: ')[2] or error.message}"
        ) from error
