"""Pages that take long to make, kept until what they show has changed."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

_AT_MOST = 8


class KeptPages:
    """The last few pages. They are made one at a time: a report may take seconds on all cores."""

    def __init__(self) -> None:
        self._made: OrderedDict[tuple[object, ...], str] = OrderedDict()
        self._making = threading.Lock()

    def get(self, key: tuple[object, ...], make: Callable[[], str]) -> str:
        """Return the page of a key, which holds all that it depends on."""
        with self._making:
            if key not in self._made:
                self._made[key] = make()
            self._made.move_to_end(key)
            while len(self._made) > _AT_MOST:
                self._made.popitem(last=False)
            return self._made[key]
