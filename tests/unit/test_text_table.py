"""Tables of the terminal: whatever the width, no cell is shortened and no number is broken."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from headrace.report.text_table import TextTable, WholeText

DEVICE = "/dev/disk/by-id/ata-Samsung_SSD_870_EVO_1TB_S6PTNM0R123456A-part1"
NUMBERS = ("98,000.123", "1\u202f234\u202f567\u202f890\u202f123", "−0.000\u202f1", "1e+12")


def printed(content: object, width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width).print(content)
    lines = out.getvalue().splitlines()
    assert all(len(line) <= width for line in lines), lines
    return lines


def squeezed(lines: list[str]) -> str:
    return "".join(line.strip() for line in lines)


@pytest.mark.parametrize("width", [30, 60, 80, 200])
def test_devices_and_numbers_stand_whole_at_every_width(width: int) -> None:
    table = TextTable(title="Drives")
    table.add_column("device", fold=True)
    for heading in ("requests", "rate", "late", "most"):
        table.add_column(heading, justify="right")
    table.add_row(DEVICE, *NUMBERS)
    lines = printed(table, width)
    assert "…" not in "".join(lines)
    for number in NUMBERS:
        assert any(number in line for line in lines), f"{number} is broken at {width} columns"
    # A name may run over lines: put together again it is whole.
    starts = "".join(re.split(r"\s{2,}", line.strip())[0] for line in lines)
    assert DEVICE in starts or DEVICE in squeezed(lines)


def test_a_table_without_room_becomes_blocks() -> None:
    table = TextTable("storage")
    for heading in ("rate", "at slots"):
        table.add_column(heading, justify="right")
    table.add_row("a-storage-of-forty-characters-in-its-name", "123\u202f456\u202f789", "12")
    assert printed(table, 44) == [
        "a-storage-of-forty-characters-in-its-name",
        "  rate: 123\u202f456\u202f789",
        "  at slots: 12",
    ]


def test_a_sentence_breaks_at_ordinary_spaces_only() -> None:
    text = WholeText(
        "disk gives 1\u202f664\u202f506 events/s and [bold]wrong[/bold] costs 11\u202f%"
    )
    for width in range(14, 60):
        lines = printed(text, width)
        assert any("1\u202f664\u202f506" in line for line in lines)
        assert any("11\u202f%" in line for line in lines)
        assert " ".join(lines) == text.plain


def test_too_many_cells_are_refused() -> None:
    with pytest.raises(ValueError, match="2 cells for 1 columns"):
        TextTable("one").add_row("a", "b")


# Rich doubles a backslash at the end of a name.
LETTERS = st.characters(categories=("L", "N", "P"), max_codepoint=0x2FF, exclude_characters="\\")
WORDS = st.text(LETTERS, min_size=1, max_size=30)
CELLS = st.lists(WORDS, min_size=0, max_size=4).map(" ".join)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=5),
    width=st.integers(12, 120),
)
def test_every_word_of_every_cell_is_printed(rows: list[tuple[str, str, str]], width: int) -> None:
    from rich.markup import escape

    table = TextTable("a", "b", "c")
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    lines = printed(table, width)
    widths = table.widths(width)
    if widths is None:
        text = squeezed(lines)
        assert all(word in text for row in rows for cell in row for word in cell.split(" "))
    else:
        on_lines = {word for line in lines for word in line.split(" ")}
        assert all(
            word in on_lines for row in rows for cell in row for word in cell.split(" ") if word
        )
