"""Environment variables that Headrace sets for its own code, and the user's environment without
them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

_SET = "HEADRACE_SET"
"""Names of the variables that Headrace set, by comma: own processes inherit it."""

BLAS = ("OPENBLAS_NUM_THREADS",)
"""What NumPy's and SciPy's library reads when it is loaded. It starts a thread for every CPU, and
each spins for some 50 ms before it sleeps; Headrace computes nothing that would pay for them."""

THREAD_COUNTS = (*BLAS, "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
"""What numerical libraries read."""


def one_thread(names: Sequence[str]) -> dict[str, str]:
    """Return variables that leave a process of Headrace's own one thread.

    Those that the user has set are kept: they are not among them.
    """
    return own(dict.fromkeys(names, "1"))


def own(values: Mapping[str, str]) -> dict[str, str]:
    """Return variables for processes of Headrace's own, without those that the user has set."""
    ours = {name: value for name, value in values.items() if name not in os.environ}
    return {**ours, _SET: ",".join(dict.fromkeys((*_set_by_us(), *ours)))}


def users_environment() -> dict[str, str]:
    """Return the user's environment, without what Headrace set for its own code."""
    ours = {_SET, *_set_by_us()}
    return {name: value for name, value in os.environ.items() if name not in ours}


def _set_by_us() -> list[str]:
    return [name for name in os.environ.get(_SET, "").split(",") if name]
