"""Put files on storage that nodes on other machines have for themselves, through their agents.

A data set is made once, into the cache of this machine. Each node is sent the files that it lacks,
in pieces, and compares them with the manifest's checksums.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from headrace.datasets import Data
from headrace.datasets.integrity import MANIFEST
from headrace.engine.measure.placing import CHECKED_BYTES, Placing
from headrace.errors import HeadraceError
from headrace.launchers import Agent
from headrace.targets.node_storage import PIECE_BYTES, FilesWanted, NodeStorage


def placed_on_node(
    placing: Placing,
    spec: Data,
    agent: Agent,
    directory: Path,
    indices: Sequence[int],
    *,
    thorough: bool,
) -> tuple[list[str], list[int]]:
    """Return paths on the node of files of a data set, by their indices, and the events in each.

    Raises HeadraceError that names the node.
    """
    made, events = placing.made(spec)
    names = tuple(made[index].name for index in indices)
    manifest = (made[0].parent / MANIFEST).read_bytes()
    sizes = {str(file["name"]): int(file["bytes"]) for file in json.loads(manifest)["files"]}
    thorough = thorough and sum(sizes[name] for name in names) <= CHECKED_BYTES
    wanted = FilesWanted(str(directory), spec.key, manifest, names, thorough)
    try:
        lacking = agent.storage.lacking_files(wanted)
        if lacking.damaged:
            placing.say(f"damaged on {agent.name}, sent again: {', '.join(lacking.damaged)}")
        for name in lacking.names:
            placing.say(f"sending {name} to {agent.name}")
            _sent(placing, spec, made[0].parent / name, agent.storage, lacking.folder)
    except (HeadraceError, OSError) as error:
        if isinstance(error, HeadraceError):
            error.message = f"{agent.name}: {error.message}"
            raise
        raise HeadraceError(f"{agent.name}: the data set cannot be placed: {error}") from error
    return [f"{lacking.folder}/{name}" for name in names], [events[index] for index in indices]


def _sent(placing: Placing, spec: Data, source: Path, storage: NodeStorage, folder: str) -> None:
    """Send one file. If the cached file turns out to be damaged, generate it again first."""
    for _ in range(2):
        with source.open("rb") as file:
            offset = 0
            while (piece := file.read(PIECE_BYTES)) or offset == 0:
                placing.tick()
                storage.write_file(folder, source.name, offset, piece)
                offset += len(piece)
                if not piece:
                    break
        if storage.finish_file(folder, source.name):
            return
        placing.made(spec, checksums=True)
    raise HeadraceError(
        f"{source} has other contents whenever it is read",
        hint="the drive or memory under the cache is failing; name another place by --cache-dir",
    )
