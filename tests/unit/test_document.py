from pathlib import Path

import pytest

from headrace.document import dotted, parse_document, read_document
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
    assert document.line(("target", "a", "missing")) == 2, (
        "what is missing is placed at what should hold it"
    )


def test_dotted() -> None:
    assert dotted(("fault", 0, "at")) == "fault[0].at"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (b"a = 1\nb = \n", 2, "not valid TOML"),
        (b"a = 1\na = 2\n", 2, "not valid TOML"),
        (b"a = 1\nb = \xff\n", 2, "UTF-8"),
        (b"[a\n", 1, "not valid TOML"),
        (b"a = 1\nb = " + b"[" * 50 + b"]" * 50, 2, "nested too deeply"),
        (b"a = 1\nb = " + b"[" * 5000 + b"]" * 5000, 2, "nested too deeply"),
        (b"a" + b".a" * 5000 + b" = 1\n", 1, "nested too deeply"),
        (b"b = [\n" + b"{a = " * 2000 + b"1" + b"}" * 2000 + b"]", 2, "nested too deeply"),
        (b"a = 1\nb = " + b"9" * 5000, 2, "too many digits"),
        (b"a = 1\nb = 0x" + b"f" * 5000, 2, "too large"),
        (b"a = 1\nb = [1, inf]\n", 2, "finite"),
        (b'a = 1\n"b\\u0000" = 1\n', 2, "NUL"),
    ],
)
def test_what_is_no_toml_is_placed(text: bytes, line: int, words: str) -> None:
    with pytest.raises(StudyError) as caught:
        parse_document(text, Path("s.toml"))
    assert caught.value.problems[0].line == line
    assert words in caught.value.problems[0].problem


def test_a_byte_order_mark_and_line_ends_of_windows_are_no_mistake() -> None:
    document = parse_document(b"\xef\xbb\xbfa = 1\r\n[b]\r\nc = 2\r\n", Path("s.toml"))
    assert document.values == {"a": 1, "b": {"c": 2}}
    assert document.line(("b", "c")) == 3


def test_an_empty_text_is_shown_and_a_missing_value_is_not() -> None:
    document = parse_document(b'a = ""\n', Path("s.toml"))
    assert str(document.problem(("a",), "is bad", given="")) == 's.toml:1: a: is bad (given: "")'
    assert str(document.problem(("a",), "is bad")) == "s.toml:1: a: is bad"


def test_an_endless_file_is_refused() -> None:
    with pytest.raises(StudyError, match="longer than"):
        read_document(Path("/dev/zero"))
