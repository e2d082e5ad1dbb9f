"""Ground: what the NFS client in user space (`nfs_fuse.py`) is told; apart from it, as that needs FUSE and a library to be there."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class ClientSettings:
    """What the program is told."""

    server: str
    export: str
    directory: str
    version: int = 3
    rsize_bytes: int = 1 << 20
    wsize_bytes: int = 1 << 20
    nfs_port: int | None = None
    mount_port: int | None = None
    attribute_s: float = 3.0
    patience_s: float | None = None
    """How long a server that does not answer is asked again; None: for ever."""

    def as_json(self) -> str:
        """The program's one argument."""
        return json.dumps(asdict(self))
