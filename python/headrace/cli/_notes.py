"""Notes on standard error, in lines as wide as the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from rich.markup import escape

from headrace.cli._console import err


def print_notes(notes: Iterable[str], label: str = "note") -> None:
    """Print notes with a label, the further lines of each indented. No word is broken."""
    for note in notes:
        lines = textwrap.wrap(
            f"{label}: {note}",
            err.width,
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        text = escape("\n".join(lines)).removeprefix(f"{label}:")
        err.print(f"[yellow]{label}:[/yellow]{text}")
