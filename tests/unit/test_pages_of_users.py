"""Pages that commands write: a file of the user is refused before the work, an own page is
replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli import main
from headrace.cli._output_files import check_page
from headrace.errors import RefusedError
from workspace import ROOT

COMMANDS = [
    "compare a b --html FILE",
    "decide a --html FILE",
    "reproduce proof-ssd --html FILE",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_of_the_user_is_refused_before_the_work(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "my page.html"
    file.write_text("<html><title>precious</title>")
    words = [str(file) if word == "FILE" else word for word in command.split()]
    monkeypatch.setattr("sys.argv", ["headrace", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 4
    assert "is there already" in capsys.readouterr().err
    assert file.read_text() == "<html><title>precious</title>"


def test_pages_of_headrace_may_be_replaced(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    for text in (
        '<html>\n<meta name="generator" content="Headrace">\n<title>x</title>',
        "<html><title>Headrace: four studies reproduced</title>",
    ):
        file.write_text(text)
        check_page(file, "--html")
    file.write_text("<html><title>notes</title><body>about Headrace</body>")
    with pytest.raises(RefusedError):
        check_page(file, "--html")


def test_every_page_says_that_it_is_one_of_headrace() -> None:
    for name in ("report", "reproduce"):
        for template in (ROOT / "python" / "headrace" / name).rglob("*.html.j2"):
            text = template.read_text()
            assert 'content="Headrace"' in text or "m.head(" in text, template
