"""Codecs as ROOT uses them, at the level asked: uproot's, but for the two in which it differs from ROOT.

uproot's LZ4 has one level only (cramjam's encoder has no high-compression mode), and its LZMA takes the preset's
dictionary of many MB for a basket of some kB, where ROOT takes a quarter of the basket (core/lzma/src/ZipLZMA.c).
"""

from __future__ import annotations

import lzma
from typing import Any

import lz4.block
import uproot.compression
import uproot.const

from headrace.datasets.spec import Codec, DatasetSpec

USUAL_LEVELS: dict[Codec, int] = {"zlib": 1, "lz4": 4, "zstd": 5, "lzma": 7}
"""ROOT's own defaults (ROOT::RCompressionSetting::ELevel in Compression.h)."""

_SMALLEST_DICTIONARY_BYTES = 4096


class _Lz4(uproot.compression.LZ4):
    """LZ4, from level 4 on with the slower search that ROOT takes there (core/lz4/src/ZipLZ4.cxx)."""

    @property
    def code_pair(self) -> tuple[int, int]:
        """ROOT's numbers of algorithm and level."""
        return uproot.const.kLZ4, int(self.level)

    def compress(self, data: bytes) -> bytes:
        """One block, without header."""
        if self.level < 4:
            return lz4.block.compress(data, mode="default", store_size=False)
        return lz4.block.compress(
            data, mode="high_compression", compression=int(self.level), store_size=False
        )


class _Lzma(uproot.compression.LZMA):
    """LZMA with a dictionary that fits the block."""

    @property
    def code_pair(self) -> tuple[int, int]:
        """ROOT's numbers of algorithm and level."""
        return uproot.const.kLZMA, int(self.level)

    def compress(self, data: bytes) -> bytes:
        """One block, without header."""
        dictionary = max(_SMALLEST_DICTIONARY_BYTES, len(data) // 4)
        encoder = {"id": lzma.FILTER_LZMA2, "preset": int(self.level), "dict_size": dictionary}
        return lzma.compress(data, format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC32, filters=[encoder])


def compression_of(spec: DatasetSpec) -> Any:
    """The codec of a data set as an object of uproot's; None at level 0."""
    level = USUAL_LEVELS[spec.codec] if spec.level is None else spec.level
    if level == 0:
        return None
    kind: Any = {"zlib": uproot.compression.ZLIB, "lz4": _Lz4, "zstd": uproot.compression.ZSTD, "lzma": _Lzma}
    return kind[spec.codec](level)
