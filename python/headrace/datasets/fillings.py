"""The hundreds (`nano`) or thousands (`aod`) of further columns beside those that an analysis reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.datasets.table import Table


def reduced(values: npt.NDArray[np.float32], bits: int) -> npt.NDArray[np.float32]:
    """32-bit floats rounded to `bits` bits of mantissa (of 23), as NanoAOD stores them so that they compress.

    The same as CMSSW's MiniFloatConverter::reduceMantissaToNbitsRounding, but for infinities and NaN, which do not occur.
    """
    shift = 23 - bits
    words = values.view(np.uint32)
    return ((words + np.uint32(1 << (shift - 1))) & np.uint32((0xFFFFFFFF << shift) & 0xFFFFFFFF)).view(
        np.float32
    )


FILLINGS: dict[str, Any] = {}


def fill(table: Table, filling: Any, streams: Callable[[str], np.random.Generator]) -> None:
    """Adds the columns of a filling to a table."""
