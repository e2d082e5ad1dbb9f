"""Messages for values of options and arguments that typer refuses: with what was given."""

from __future__ import annotations

import typing
from pathlib import Path
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
        if any(word == "" or word.endswith("=") for word in args):
            self._check_no_empty_path(ctx, args)
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = _message(error)
            raise

    def _check_no_empty_path(self, ctx: Any, args: list[str]) -> None:
        """Refuse an empty path: it would be the current folder. Raises BadParameter.

        A variable of the shell that is not set gives one.
        """
        given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        hints = typing.get_type_hints(self.callback) if self.callback is not None else {}
        parameters: list[Any] = [*self.get_params(ctx)]
        for parameter in parameters:
            name = str(parameter.name)
            value = given.get(name)
            values = value if isinstance(value, (list, tuple)) else [value]
            if "" in values and _is_path(hints.get(name)):
                problem = 'empty, not a path (given: "")'
                raise typer.BadParameter(problem, ctx=ctx, param=parameter)


def _is_path(annotation: Any) -> bool:
    """Return whether an annotation is `Path`, an optional one, or a list of them."""
    return annotation is Path or any(map(_is_path, typing.get_args(annotation)))


def _message(error: typer.BadParameter) -> str:
    found = getattr(error.__cause__, "errors", None)  # pydantic's, where a value was converted
    if found is None:
        return error.message
    first = found()[0]
    text = str(first["input"]).encode(errors="backslashreplace").decode() or '""'
    shown = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
    words = _WORDS.get(first["type"], error.message.replace("Input should be", "must be", 1))
    return f"{words} (given: {shown})"
