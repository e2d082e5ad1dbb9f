"""Messages for values of options and arguments that typer refuses: with what was given."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

_WORDS = {
    "int_parsing": "not a whole number",
    "int_parsing_size": "a number with too many digits",
    "int_from_float": "not a whole number",
    "float_parsing": "not a number",
    "string_unicode": "not UTF-8 text",
}
"""For kinds of pydantic's errors, which typer shows in pydantic's words."""
_LONGEST_SHOWN = 60


class CheckedCommand(TyperCommand):
    """A command whose messages for refused values say what was given."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Return the words that are left. Raises BadParameter."""
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = _message(error)
            raise


def _message(error: typer.BadParameter) -> str:
    found = getattr(error.__cause__, "errors", None)  # pydantic's, where a value was converted
    if found is None:
        return error.message
    first = found()[0]
    text = str(first["input"]).encode(errors="backslashreplace").decode() or '""'
    shown = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
    words = _WORDS.get(first["type"], error.message.replace("Input should be", "must be", 1))
    return f"{words} (given: {shown})"
