"""Which data nodes hold the blocks of a file in HDFS, as the name node says over HTTP (WebHDFS)."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from http.client import HTTPException
from typing import TypedDict
from urllib.parse import quote

NAME_HTTP_PORT = 9870


class _Holder(TypedDict):
    ipAddr: str


class _Block(TypedDict):
    numBytes: int


class LocatedBlock(TypedDict):
    """A block of a file, and its data nodes."""

    block: _Block
    locations: list[_Holder]


def located_blocks(host: str, path: str, patience_s: float) -> list[LocatedBlock]:
    """Return the blocks of a file. Raises OSError or ValueError without a usable answer."""
    url = f"http://{host}:{NAME_HTTP_PORT}/webhdfs/v1{quote(path)}?op=GET_BLOCK_LOCATIONS"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=patience_s) as answer:
            said = json.loads(answer.read())
    except HTTPException as error:
        raise ValueError(f"{url}: no answer over HTTP: {error!r}") from error
    try:
        return said["LocatedBlocks"]["locatedBlocks"]
    except (KeyError, TypeError) as error:
        raise ValueError(f"{url}: no locations of blocks") from error


def holders(blocks: list[LocatedBlock]) -> tuple[str, ...]:
    """Return the addresses of the data nodes that hold at least half of the bytes of a file.

    Those with the most bytes come first.
    """
    held: Counter[str] = Counter()
    for block in blocks:
        for holder in block["locations"]:
            held[holder["ipAddr"]] += block["block"]["numBytes"]
    whole = sum(block["block"]["numBytes"] for block in blocks)
    return tuple(address for address, size in held.most_common() if 2 * size >= whole > 0)
