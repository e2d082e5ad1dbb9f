"""Pages that commands write: a file of the user is refused before the work, an own page is
replaced."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.cli import main
from headrace.cli._output_files import check_page
from headrace.errors import HeadraceError, RefusedError
from headrace.library import calibrate as learn
from headrace.library import screen
from headrace.report.decision_page import _pdf  # pyright: ignore[reportPrivateUsage]
from workspace import ROOT

COMMANDS = [
    "compare a b --html FILE",
    "decide a --html FILE",
    "decide a --pdf FILE",
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
    assert "already exists" in capsys.readouterr().err
    assert file.read_text() == "<html><title>precious</title>"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["n" * 252, "folder", "file/page.html"])
def test_a_page_that_cannot_be_written_is_refused_before_the_work(
    command: str,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    words = [name if word == "FILE" else word for word in command.split()]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["headrace", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    option = command.split()[-2]
    assert (ended.value.code, f"with {option}" in said) == (2, True), said
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "folder"]


@pytest.mark.parametrize(
    "command",
    [
        *COMMANDS,
        "record --out FILE -- touch ran",
        "why --page FILE -- touch ran",
        "drive complete not-there.toml not-there.toml --out FILE",
        "drive learn not-there --out FILE",
        "drive replay wd-wd3200bekt not-there.csv --out FILE",
        "trace convert not-there.csv FILE",
        "trace plot not-there.csv --out FILE",
    ],
)
def test_a_link_that_leads_in_a_circle_is_refused_before_the_work(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The work was done, and ended with a traceback."""
    (tmp_path / "page.toml").symlink_to("page.toml")
    words = ["page.toml" if word == "FILE" else word for word in command.split()]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["headrace", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert (ended.value.code, "Too many levels of symbolic links" in said) == (2, True), said
    assert [each.name for each in tmp_path.iterdir()] == ["page.toml"]


@pytest.mark.parametrize("make", [learn, screen])
def test_a_name_too_long_to_be_written_whole_is_refused_before_the_work(
    make: Callable[..., object], tmp_path: Path
) -> None:
    """Files are written under a longer name first."""
    study = ROOT / "studies" / "what-if-five-drives.toml"
    stop = threading.Event()
    stop.set()  # the work would end at once, and say so
    with pytest.raises(HeadraceError, match="File name too long"):
        make(study, out=tmp_path / ("n" * 252), stop=stop)


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


def test_pdfs_of_headrace_may_be_replaced_and_no_others(tmp_path: Path) -> None:
    file = tmp_path / "page.pdf"
    file.write_bytes(b"%PDF-1.7\nmade by another program\n%%EOF\n")
    with pytest.raises(RefusedError, match="already exists"):
        check_page(file, "--pdf")
    file.write_bytes(b"%PDF-")
    with pytest.raises(RefusedError):
        check_page(file, "--pdf")
    file.write_bytes(_pdf("<title>x</title>", tmp_path))
    check_page(file, "--pdf")


def test_every_page_says_that_it_is_one_of_headrace() -> None:
    for name in ("report", "reproduce"):
        for template in (ROOT / "python" / "headrace" / name).rglob("*.html.j2"):
            text = template.read_text()
            assert 'content="Headrace"' in text or "m.head(" in text, template
