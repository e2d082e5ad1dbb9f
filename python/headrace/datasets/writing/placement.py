"""Where baskets and pages lie in a file: in reading order, or scattered as in files that were never put in order.

A file written by ROOT without clusters flushes each branch's basket when that basket is full. Small branches take
thousands of events to fill one, so the baskets of the same events lie far from each other. `Placement` keeps each
piece back for a random number of clusters and lets those that are due go in random order, which has the same effect
and bounded memory.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

import numpy as np

from headrace.datasets.spec import Order

SCATTER_CLUSTERS = 12
"""Clusters over which the pieces of one cluster are scattered, when the file has so many."""


class Placed(Protocol):
    """What can be placed."""

    @property
    def reading_order(self) -> tuple[int, int]:
        """Sorts the pieces of a cluster into the order in which they are read."""
        ...


Piece = TypeVar("Piece", bound=Placed)


class Placement(Generic[Piece]):
    """Takes the pieces of one cluster after another and gives those that are to be written next."""

    def __init__(self, order: Order, rng: np.random.Generator) -> None:
        self._order = order
        self._rng = rng
        self._waiting: list[list[Piece]] = [[] for _ in range(SCATTER_CLUSTERS)]

    def add(self, cluster: list[Piece]) -> list[Piece]:
        """Takes a cluster's pieces; returns what is to be written now, in order of place."""
        if self._order == "ordered":
            return sorted(cluster, key=lambda piece: piece.reading_order)
        for piece, delay in zip(cluster, self._rng.integers(0, SCATTER_CLUSTERS, len(cluster)), strict=True):
            self._waiting[delay].append(piece)
        due = self._waiting.pop(0)
        self._waiting.append([])
        return self._shuffled(due)

    def rest(self) -> list[Piece]:
        """What is left when there are no more clusters, in order of place."""
        left = [piece for due in self._waiting for piece in due]
        self._waiting = [[] for _ in range(SCATTER_CLUSTERS)]
        return self._shuffled(left)

    def _shuffled(self, pieces: list[Piece]) -> list[Piece]:
        return [pieces[index] for index in self._rng.permutation(len(pieces))]
