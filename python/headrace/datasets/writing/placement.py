"""Positions of baskets and pages in a file: in reading order, or scattered as in unsorted files.

A file that ROOT writes without clusters flushes each branch's basket when that basket is full.
Small branches need thousands of events to fill one, so the baskets of the same events are far
apart. `Placement` delays each piece by a random number of clusters and writes those that are due in
random order. This has the same effect with bounded memory.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

import numpy as np

from headrace.datasets.spec import Order

SCATTER_CLUSTERS = 12
"""Clusters over which the pieces of one cluster are scattered, if the file has that many."""


class Placed(Protocol):
    """A piece that can be placed."""

    @property
    def reading_order(self) -> tuple[int, int]:
        """Sort key of a cluster's pieces for the order in which they are read."""
        ...


PlacedPiece = TypeVar("PlacedPiece", bound=Placed)


class Placement(Generic[PlacedPiece]):
    """Accepts the pieces of one cluster after another and returns those to write next."""

    def __init__(self, order: Order, rng: np.random.Generator) -> None:
        self._order = order
        self._rng = rng
        self._waiting: list[list[PlacedPiece]] = [[] for _ in range(SCATTER_CLUSTERS)]

    def add(self, cluster: list[PlacedPiece]) -> list[PlacedPiece]:
        """Accept a cluster's pieces; return those to write now, in file order."""
        if self._order == "ordered":
            return sorted(cluster, key=lambda piece: piece.reading_order)
        for piece, delay in zip(
            cluster, self._rng.integers(0, SCATTER_CLUSTERS, len(cluster)), strict=True
        ):
            self._waiting[delay].append(piece)
        due = self._waiting.pop(0)
        self._waiting.append([])
        return self._shuffled(due)

    def rest(self) -> list[PlacedPiece]:
        """Return the remaining pieces after the last cluster, in file order."""
        left = [piece for due in self._waiting for piece in due]
        self._waiting = [[] for _ in range(SCATTER_CLUSTERS)]
        return self._shuffled(left)

    def _shuffled(self, pieces: list[PlacedPiece]) -> list[PlacedPiece]:
        return [pieces[index] for index in self._rng.permutation(len(pieces))]
