"""Support in uproot for ROOT's compression before 2005, which files of that time still have.

Blocks are marked `CS` and hold a deflate stream without zlib's header (ROOT,
`core/zip/src/RZip.cxx`, "old zlib format"). uproot recognises it and raises an error.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import uproot
import uproot.compression
import uproot.source.chunk

_MARK = b"CS"
_HEAD_BYTES = 9
"""Block header: mark, method, and two sizes of 24 bits, compressed and uncompressed."""
_uproots_own: Any = uproot.compression.decompress


def _decompress(
    chunk: Any,
    cursor: Any,
    context: Any,
    compressed_bytes: int,
    uncompressed_bytes: int,
    block_info: Any = None,
) -> Any:
    """Decompress as uproot does, and old blocks too."""
    start = int(cursor.index)
    if bytes(chunk.get(start, start + len(_MARK), cursor.copy(), context)) != _MARK:
        return _uproots_own(
            chunk, cursor, context, compressed_bytes, uncompressed_bytes, block_info
        )
    parts: list[bytes] = []
    at = start
    while at < start + compressed_bytes:
        head = bytes(chunk.get(at, at + _HEAD_BYTES, cursor.copy(), context))
        size = int.from_bytes(head[3:6], "little")
        body = bytes(chunk.get(at + _HEAD_BYTES, at + _HEAD_BYTES + size, cursor.copy(), context))
        parts.append(zlib.decompress(body, -zlib.MAX_WBITS))
        if block_info is not None:
            block_info.append(("ZLIB", size, len(parts[-1])))
        at += _HEAD_BYTES + size
    data = b"".join(parts)
    if len(data) != uncompressed_bytes:
        raise ValueError(
            f"{len(data)} bytes came out of blocks that should hold {uncompressed_bytes}"
        )
    cursor.skip(compressed_bytes)
    return uproot.source.chunk.Chunk.wrap(chunk.source, np.frombuffer(data, np.uint8))


def read_old_files() -> None:
    """Make uproot read such files from now on. Idempotent."""
    if uproot.compression.decompress is not _decompress:
        for hook in ("hook_before_block", "hook_after_block"):
            setattr(_decompress, hook, getattr(_uproots_own, hook))
        uproot.compression.decompress = _decompress
