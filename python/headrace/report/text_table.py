"""Tables for the terminal that never shorten a cell: columns wrap, or rows become blocks.

Rich truncates what does not fit with an ellipsis, and breaks lines at narrow no-break spaces,
within numbers. A shortened device, number or name is lost, so these tables break lines only at
ordinary spaces.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from rich.box import Box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

GAP = 2
"""Spaces between two columns."""
FOLDED_TO = 20
"""The smallest width to which a column that may break within words is narrowed."""


class WholeText:
    """Text for `Console.print` whose lines break only at ordinary spaces.

    A word too long for a line is folded.

    Not a subclass of Rich's Text: `Console.print` would convert it to a plain one, which breaks
    numbers.
    """

    def __init__(self, content: str | Text) -> None:
        """Accept markup or a Text."""
        self.text = content if isinstance(content, Text) else Text.from_markup(content, emoji=False)

    @property
    def plain(self) -> str:
        """The text without styles."""
        return self.text.plain

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = max(1, options.max_width)
        for line in self.text.split("\n", allow_blank=True):
            for piece in line.divide(_break_offsets(line.plain, width)):
                piece.rstrip()
                if options.justify == "right":
                    piece.pad_left(width - cell_len(piece.plain))
                piece.no_wrap = True
                yield piece

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(longest_word(self.plain), widest_line(self.plain))


def _break_offsets(text: str, width: int) -> list[int]:
    """Return the offsets at which to break a line so that no piece is wider than `width`."""
    offsets: list[int] = []
    used = 0
    position = 0
    for word in text.split(" "):
        length = cell_len(word)
        if used and used + length > width:
            offsets.append(position)
            used = 0
        for character in word if length > width else "":
            wide = cell_len(character)
            if used and used + wide > width:
                offsets.append(position)
                used = 0
            used += wide
            position += 1
        if length <= width:
            used += length
            position += len(word)
        used += 1
        position += 1
    return offsets


def longest_word(text: str) -> int:
    """Return the number of columns of the longest piece between ordinary spaces."""
    return max((cell_len(word) for line in text.split("\n") for word in line.split(" ")), default=0)


def widest_line(text: str) -> int:
    """Return the number of columns of the widest line."""
    return max((cell_len(line) for line in text.split("\n")), default=0)


@dataclass
class _Column:
    heading: WholeText
    justify: Literal["left", "right"]
    fold: bool
    cells: list[WholeText] = field(default_factory=list[WholeText])

    def texts(self) -> Iterable[str]:
        return (text.plain for text in (self.heading, *self.cells))

    def least(self, *, numbers_break: bool) -> int:
        """Return the smallest usable width: that of the longest word, or of the widest cell in a
        column of numbers."""
        longest = max(longest_word(text) for text in self.texts())
        if self.justify == "right" and not numbers_break:
            return max([longest, *(widest_line(cell.plain) for cell in self.cells)])
        return min(longest, FOLDED_TO) if self.fold else longest

    @property
    def most(self) -> int:
        return max(widest_line(text) for text in self.texts())


class TextTable:
    """A table for `Console.print`: `add_column` and `add_row` as in `rich.table.Table`; cells
    are markup or Text."""

    def __init__(
        self,
        *headings: str,
        title: str = "",
        box: Box | None = None,
        show_header: bool = True,
    ) -> None:
        self.title = title
        self._box = box
        self._show_header = show_header
        self._columns: list[_Column] = []
        self._styles: list[str] = []
        for heading in headings:
            self.add_column(heading)

    def add_column(
        self, heading: str, *, justify: Literal["left", "right"] = "left", fold: bool = False
    ) -> None:
        """Add a column; a heading may have several lines.

        `fold` allows breaks within long words.
        """
        self._columns.append(_Column(WholeText(heading), justify, fold))

    def add_row(self, *cells: str | Text, style: str = "") -> None:
        """Add a row; missing cells at its end are empty. Raises ValueError for too many."""
        if len(cells) > len(self._columns):
            raise ValueError(f"{len(cells)} cells for {len(self._columns)} columns")
        padded = [*cells, *[""] * (len(self._columns) - len(cells))]
        for column, cell in zip(self._columns, padded, strict=True):
            column.cells.append(WholeText(cell))
        self._styles.append(style)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.title:
            yield WholeText(f"[bold]{self.title}[/bold]")
        widths = self.widths(options.max_width)
        if widths is None:
            yield from self._blocks()
        else:
            yield self._table(widths)

    def widths(self, room: int) -> list[int] | None:
        """Return a width for each column within `room`, or None when the longest words do not fit.

        Right-aligned cells stay on one line where the width allows it.
        """
        room -= GAP * (len(self._columns) - 1)
        least = [column.least(numbers_break=False) for column in self._columns]
        if sum(least) > room:
            least = [column.least(numbers_break=True) for column in self._columns]
        if sum(least) > room:
            return None
        widths = [column.most for column in self._columns]
        while (excess := sum(widths) - room) > 0:
            # Narrow the widest shrinkable columns together, down to the width of the next one.
            open_ = [index for index in range(len(widths)) if widths[index] > least[index]]
            widest = max(widths[index] for index in open_)
            tops = [index for index in open_ if widths[index] == widest]
            under = max([widths[index] for index in open_ if widths[index] < widest], default=0)
            cut = min(widest - under, math.ceil(excess / len(tops)))
            for index in tops:
                widths[index] = max(least[index], widths[index] - cut)
        return widths

    def _table(self, widths: list[int]) -> Table:
        table = Table(
            box=self._box,
            show_header=self._show_header,
            show_edge=False,
            pad_edge=False,
            header_style="bold",
            padding=(0, GAP, 0, 0),
            collapse_padding=True,
        )
        for column, width in zip(self._columns, widths, strict=True):
            table.add_column(column.heading, justify=column.justify, width=width)
        for number, style in enumerate(self._styles):
            table.add_row(*(column.cells[number] for column in self._columns), style=style or None)
        return table

    def _blocks(self) -> Iterable[WholeText]:
        """Yield every row as lines of heading and value, for terminals too narrow for columns."""
        for number, style in enumerate(self._styles):
            first = True
            for column in self._columns:
                cell = column.cells[number]
                if not cell.plain.strip():
                    continue
                heading = " ".join(column.heading.plain.split()) if self._show_header else ""
                text = Text("" if first else "  ", style=style)
                text.append(f"{heading}: " if heading and not first else "", style="dim")
                text.append_text(cell.text)
                yield WholeText(text)
                first = False
