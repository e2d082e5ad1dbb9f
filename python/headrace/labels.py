"""How a curve's name writes a level of an option: metadata of the option's `Annotated` type."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast


@dataclass(frozen=True)
class Label:
    """Words for the levels of one option: `Annotated[int, Label("{} copy", "{} copies")]`.

    `{}` stands for the level. An option without a label is written as its name and the level:
    `scheduler bfq`.
    """

    one: str
    many: str = ""
    """For numbers other than 1; `one` when empty."""

    def of(self, level: object) -> str:
        """Return the words for a level."""
        return (self.many or self.one if level != 1 else self.one).format(level)


ITSELF = Label("{}")
"""For levels that need no name before them: `xfs`, `corsair-f40`."""


def plain(level: object) -> object:
    """Return a level for readers: a table as `cores 4, queue main`, a list as JSON, and `true`."""
    if isinstance(level, Mapping):
        fields = cast(Mapping[str, object], level)
        return ", ".join(f"{name} {plain(value)}" for name, value in fields.items())
    return json.dumps(level) if isinstance(level, (list, tuple, bool)) else level
