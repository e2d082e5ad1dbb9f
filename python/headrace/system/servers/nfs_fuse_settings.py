"""Base layer: settings of the user-space NFS client.

They are separate from `nfs_fuse.py`, which needs FUSE and a library to be installed.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class ClientSettings:
    """Settings of the client program."""

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
    """How long requests to a server that does not answer are retried; None: for ever."""

    def as_json(self) -> str:
        """Return the program's one argument."""
        return json.dumps(asdict(self))
