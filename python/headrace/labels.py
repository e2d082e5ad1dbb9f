"""How a curve's name writes a level of an option: metadata of the option's `Annotated` type."""

from __future__ import annotations

from dataclasses import dataclass


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
