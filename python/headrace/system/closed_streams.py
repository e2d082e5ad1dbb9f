"""Which of descriptors 0 to 2 the caller of Headrace had closed.

Headrace opens them for itself, on nothing; a program that is run for the user has them closed.
"""

from __future__ import annotations

import os

_CLOSED: set[int] = set()


def note_closed(descriptor: int) -> None:
    """Remember that the caller had closed a descriptor."""
    _CLOSED.add(descriptor)


def close_at_exec() -> None:
    """In a child: let the next program have closed what the caller had closed."""
    for descriptor in _CLOSED:
        os.set_inheritable(descriptor, False)
