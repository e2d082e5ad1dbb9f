"""Codecs as ROOT uses them: uproot's, except for two that differ from ROOT's.

uproot's LZ4 has only one level (cramjam's encoder has no high-compression mode). Its LZMA uses the
preset's dictionary of many MB for a basket of some kB, where ROOT uses a quarter of the basket
(core/lzma/src/ZipLZMA.c).
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
    """LZ4; from level 4 on with ROOT's slower search (core/lz4/src/ZipLZ4.cxx)."""

    @property
    def code_pair(self) -> tuple[int, int]:
        """ROOT's numbers of algorithm and level."""
        return uproot.const.kLZ4, int(self.level)

    def compress(self, data: bytes) -> bytes:
        """Return one compressed block, without header."""
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
        """Return one compressed block, without header."""
        dictionary = max(_SMALLEST_DICTIONARY_BYTES, len(data) // 4)
        encoder = {"id": lzma.FILTER_LZMA2, "preset": int(self.level), "dict_size": dictionary}
        return lzma.compress(data, format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC32, filters=[encoder])


def compression_of(spec: DatasetSpec) -> Any:
    """Return a data set's codec as an uproot object; None at level 0."""
    level = USUAL_LEVELS[spec.codec] if spec.level is None else spec.level
    if level == 0:
        return None
    kind: Any = {
        "zlib": uproot.compression.ZLIB,
        "lz4": _Lz4,
        "zstd": uproot.compression.ZSTD,
        "lzma": _Lzma,
    }
    return kind[spec.codec](level)
