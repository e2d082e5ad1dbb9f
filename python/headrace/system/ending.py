"""Base layer: the end of a short process of Headrace."""

from __future__ import annotations

import atexit
import gc


def end_without_search() -> None:
    """Let this process end without a search for garbage among all that it has imported.

    Python makes several such searches: a fifth of the CPU time of `headrace validate`. What only a
    search would find is freed with the process; it must not rely on `__del__`.
    """
    atexit.register(gc.freeze)
