"""Whether what was read into memory for a warm trial could stay there."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.engine.measure.node_watch import unless_lost
from headrace.launchers import Agent
from headrace.system.storage_settings import one_per_kernel


class CacheWatch:
    """Counts the drops of the page cache on each machine from now on.

    Any program of root may drop it, such as a cold trial of another study.
    """

    def __init__(self, agents: Sequence[Agent]) -> None:
        self._agents = one_per_kernel(agents)
        self._before = self._drops()

    def dropped(self) -> tuple[str, ...]:
        """Return the names of machines whose page cache was dropped since; not of lost ones."""
        pairs = zip(self._agents, self._before, self._drops(), strict=True)
        return tuple(
            agent.name or "this machine"
            for agent, before, now in pairs
            if before is not None and now is not None and now != before
        )

    def _drops(self) -> list[int | None]:
        """Return the count of each machine; None if it is not known, or the machine is lost."""
        return [unless_lost(agent.page_cache_drops) for agent in self._agents]
