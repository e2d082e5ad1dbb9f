"""Compiled templates are kept, used again, and never trusted when they do not fit."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from jinja2 import DictLoader, Environment
from jinja2.environment import Environment as Compiling

from headrace.report.template_code import KeptTemplateCode


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "kept"))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return tmp_path / "kept"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the templates that Jinja compiles."""
    names: list[str] = []
    compile_source = Compiling.compile

    def counted(self: Compiling, source: str, name: str, filename: str) -> object:
        names.append(name)
        return compile_source(self, source, name, filename)

    monkeypatch.setattr(Compiling, "compile", counted)
    return names


def rendered(source: str) -> str:
    loader = DictLoader({"page": source})
    return (
        Environment(loader=loader, bytecode_cache=KeptTemplateCode()).get_template("page").render()
    )


def files(kept: Path) -> list[Path]:
    return [path for path in kept.rglob("*") if path.is_file()]


def test_a_template_is_compiled_once(kept: Path, compiled: list[str]) -> None:
    assert [rendered("{{ 1 + 1 }}"), rendered("{{ 1 + 1 }}")] == ["2", "2"]
    assert compiled == ["page"]
    assert len(files(kept)) == 1


def test_a_changed_template_is_compiled_again(kept: Path, compiled: list[str]) -> None:
    assert [rendered("{{ 1 + 1 }}"), rendered("{{ 1 + 2 }}")] == ["2", "3"]
    assert len(compiled) == 2


@pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.99])
def test_a_damaged_file_is_compiled_again(kept: Path, compiled: list[str], share: float) -> None:
    rendered("{{ 1 + 1 }}")
    (file,) = files(kept)
    whole = file.read_bytes()
    file.write_bytes(whole[: int(len(whole) * share)])
    assert rendered("{{ 1 + 1 }}") == "2"
    assert len(compiled) == 2 and file.read_bytes() == whole


def test_nothing_is_written_where_python_writes_no_modules(
    kept: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert rendered("{{ 1 + 1 }}") == "2" and not kept.exists()


def test_a_folder_that_cannot_be_written_is_no_error(kept: Path, compiled: list[str]) -> None:
    kept.write_text("a file, no folder")
    assert rendered("{{ 1 + 1 }}") == "2" == rendered("{{ 1 + 1 }}")
    assert len(compiled) == 2
