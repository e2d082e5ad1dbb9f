"""What each thread of a job with ROOT works with: columns, work and histograms of its own.

With implicit multithreading, RDataFrame gives each of its threads a slot; lane n is that of slot n.
A job of one thread has one lane.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.jobs import Histogram


class Lanes:
    """The lanes of a job, in the kernel's form (kernel.hpp), and their sums."""

    def __init__(
        self,
        module: Any,
        threads: int,
        columns: Sequence[str],
        work_of: Callable[[Any], Any],
        axes: Mapping[str, tuple[int, float, float]],
    ) -> None:
        """`work_of` makes the work on the columns of a lane; `axes`: bins, low and high edge of
        its histograms."""
        names = module.std.vector["std::string"](list(columns))
        self._axes = axes
        self._columns = [module.headrace.Columns(names) for _ in range(threads)]
        self._works = [work_of(each) for each in self._columns]
        self.kernel = module.headrace.Lanes()
        for of, work in zip(self._columns, self._works, strict=True):
            self.kernel.add(of, work)
            for name, (bins, low, high) in axes.items():
                work.add(name, bins, low, high)

    @property
    def first(self) -> tuple[Any, Any]:
        """Columns and work of the only thread of an event loop."""
        return self._columns[0], self._works[0]

    @property
    def bytes_uncompressed(self) -> int:
        """Event data of all events so far, in bytes."""
        return sum(int(each.bytes) for each in self._columns)

    @property
    def found(self) -> int:
        """Events that the work counted."""
        return sum(int(each.found) for each in self._works)

    def histograms(self) -> dict[str, Histogram]:
        """Return the histograms of all lanes, summed, as numbers."""
        return {
            name: {
                "low": low,
                "high": high,
                "counts": [
                    sum(int(count) for count in of_lanes)
                    for of_lanes in zip(
                        *(each.histograms.at(name).counts for each in self._works), strict=True
                    )
                ],
            }
            for name, (_, low, high) in self._axes.items()
        }


@contextmanager
def implicit_threads(module: Any, threads: int) -> Generator[None]:
    """Let RDataFrame share its loops among this number of threads within this context.

    Raises HeadraceError when ROOT has fewer: it takes no more than the process has CPUs.
    """
    if threads == 1:
        yield
        return
    module.ROOT.EnableImplicitMT(threads)
    try:
        given = int(module.ROOT.GetThreadPoolSize())
        if given != threads:
            raise HeadraceError(
                f"threads = {threads}: ROOT shares a job among {given} threads here, one for each "
                "CPU that the job may use"
            )
        yield
    finally:
        module.ROOT.DisableImplicitMT()
