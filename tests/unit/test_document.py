from pathlib import Path

import pytest

from headrace.document import dotted, parse_document
from headrace.errors import StudyError

TEXT = b"""headrace = 1
[target.a]
kind = "path"
raid = { level = 0, drives = 2 }
"x y".z = 3
[[fault]]
what = "a"
[[fault]]
what = "b"
at = [1,
 2]
[fault.inner]
deep = 1
"""


def test_every_field_has_its_line() -> None:
    document = parse_document(TEXT, Path("s.toml"))
    assert document.line(("target", "a", "kind")) == 3
    assert document.line(("target", "a", "raid", "drives")) == 4
    assert document.line(("target", "a", "x y", "z")) == 5
    assert document.line(("fault", 0, "what")) == 7
    assert document.line(("fault", 1, "at", 1)) == 11
    assert document.line(("fault", 1, "inner", "deep")) == 13
    assert document.line(("target", "a", "missing")) == 2, "what is missing is placed at what should hold it"


def test_dotted() -> None:
    assert dotted(("fault", 0, "at")) == "fault[0].at"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (b"a = 1\nb = \n", 2, "no TOML"),
        (b"a = 1\na = 2\n", 2, "no TOML"),
        (b"a = 1\nb = \xff\n", 2, "UTF-8"),
        (b"[a\n", 1, "no TOML"),
    ],
)
def test_what_is_no_toml_is_placed(text: bytes, line: int, words: str) -> None:
    with pytest.raises(StudyError) as caught:
        parse_document(text, Path("s.toml"))
    assert caught.value.faults[0].line == line
    assert words in caught.value.faults[0].problem
