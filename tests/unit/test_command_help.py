"""Help and documents name the same options, and help shows every word that was written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from rich.text import Text

from headrace.cli import make_app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands(found: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command with the words that call it."""
    for name, each in getattr(found, "commands", {}).items():
        yield from commands(each, (*path, name))
    if not getattr(found, "commands", None):
        yield " ".join(path), found


COMMANDS = dict(commands(typer.main.get_command(make_app())))


@pytest.mark.parametrize("name", COMMANDS)
def test_help_loses_no_word_in_brackets(name: str) -> None:
    texts = [COMMANDS[name].help, *(getattr(each, "help", None) for each in COMMANDS[name].params)]
    for text in filter(None, texts):
        assert Text.from_markup(text).plain == text.replace("\\[", "[")


def test_help_shows_the_tables_of_a_study() -> None:
    texts = [each.help for command in COMMANDS.values() for each in command.params if each.opts]
    shown = " ".join(Text.from_markup(text).plain for text in texts if text)
    assert all(word in shown for word in ("[offers]", "[meter.NAME]", "[site]", "[run] on"))


def test_the_options_of_a_drive_under_load_are_documented() -> None:
    text = (ROOT / "docs" / "catalog.md").read_text()
    options = {each for one in COMMANDS["drive run"].params for each in one.opts if "--" in each}
    assert [each for each in sorted(options - {"--help"}) if f"`{each}`" not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_documents_name_options_that_commands_have(page: Path) -> None:
    text = page.read_text().replace("\\\n", " ")
    for call in re.finditer(r"headrace ((?:(?:drive|profile|trace|cluster) )?\w+)([^\n`]*)", text):
        command = COMMANDS.get(call[1])
        if command is None:
            continue
        options = {"--help", "-h"}.union(*(each.opts for each in command.params))
        # What follows these is another program's, or another command.
        own = re.split(r" -- |#|\||;|&&|\bheadrace\b", call[2])[0]
        given = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", own))
        assert given <= options, call[0]
