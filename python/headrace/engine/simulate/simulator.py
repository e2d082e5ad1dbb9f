"""What simulates scenarios: the interface, and the cores of this machine.

The results are the same wherever a scenario is simulated.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from typing_extensions import override

from headrace import _core

ScenarioRefusal = tuple[str, str, str]
"""The core's reason to refuse a scenario: field, given value, allowed values."""

Finished = Callable[[int, str | None, ScenarioRefusal | None], bool]
"""Called with the index of a scenario and its outcome or refusal; returns whether to go on."""


def _never() -> bool:
    return False


def _ignored(_simulated_ns: int) -> None:
    """Do nothing with the virtual time."""


class Simulator(ABC):
    """Simulates many scenarios at the same time."""

    at_once: int
    """Scenarios to pass to `run` at once: enough to keep it busy."""

    @abstractmethod
    def run(
        self,
        scenarios: Sequence[str],
        finished: Finished,
        cancelled: Callable[[], bool] = _never,
        progress: Callable[[int], None] = _ignored,
    ) -> None:
        """Simulate the scenarios and call `finished` for each, until it or `cancelled` ends it.

        `cancelled` and `progress` are called from time to time, in the caller's thread, the latter
        with the virtual time in ns that was simulated, summed over all scenarios. Raises
        HeadraceError when what simulates is lost.
        """


class Cores(Simulator):
    """The cores of this machine. Scenarios finish in any order."""

    at_once = 64

    def __init__(self, threads: int = 0) -> None:
        """`threads`: how many; 0: one per core."""
        self._threads = threads

    @override
    def run(
        self,
        scenarios: Sequence[str],
        finished: Finished,
        cancelled: Callable[[], bool] = _never,
        progress: Callable[[int], None] = _ignored,
    ) -> None:
        _core.simulate_many(list(scenarios), self._threads, finished, cancelled, progress)
