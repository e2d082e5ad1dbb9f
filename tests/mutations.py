"""Damage to files of every kind, and what a reader must do with it: what the fuzz tests share.

Strategies give damaged text, bytes and JSON; `refused_by_name` says what may come of reading them:
a result, or an error for the user that names the file. Seeds are fixed. For a long search by hand:

HEADRACE_FUZZ=20 pytest tests/fuzz -k study       # twenty times as many, with a new seed each
time
"""

from __future__ import annotations

import os
import re
import resource
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from headrace.errors import HeadraceError, StudyError

TIMES = int(os.environ.get("HEADRACE_FUZZ", "1"))
LONGEST_S = 20.0
MOST_MEMORY_KIB = 1 << 20
"""By which reading one damaged file may raise the process's highest use of memory."""


FOREIGN = (
    *("pydantic", "msgspec", "Input should", "validation error", "valid dictionary", "instance of"),
    *("Traceback", "object at 0x", "<class", "NoneType"),
)
"""Words of libraries and of Python, which no message for users has."""


def fuzz(examples: int) -> Callable[[Any], Any]:
    """Settings of a fuzz test: so many examples, the same ones in every run."""
    return settings(
        max_examples=examples * TIMES,
        derandomize=TIMES == 1,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=tuple(HealthCheck),  # pyright: ignore[reportArgumentType],
    )


@contextmanager
def bounded() -> Generator[None]:
    """Fail what takes too long or too much memory."""

    def late(*_: object) -> None:
        raise AssertionError(f"not done after {LONGEST_S} s")

    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    handler = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, LONGEST_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
    assert grown_kib < MOST_MEMORY_KIB, f"{grown_kib} KiB of memory"


def refused_by_name(read: Callable[[], object], *files: Path) -> HeadraceError | None:
    """Read; return the error when the reader refuses with one that names one of the files.

    Whatever else is raised fails the test, as it would be a traceback for the user.
    """
    with bounded():
        try:
            read()
        except HeadraceError as error:
            told = (
                [str(problem) for problem in error.problems]
                if isinstance(error, StudyError)
                else [str(error)]
            )
            assert told, "an error without a word"
            text = "\n".join(told)
            assert any(str(file) in text for file in files), f"none of {files} is named in: {text}"
            foreign = [words for words in FOREIGN if words in text]
            assert not foreign, f"{foreign} in: {text}"
            return error
    return None


# -- text ------------------------------------------------------------------------------------------

ODD_TEXTS = [
    "",
    " ",
    "\\u0000",
    "\\n",
    "~nosuchuser/x",
    "../" * 9,
    "/proc/self/mem",
    "ü" * 300,
    "-1",
    "None",
]
ODD_NUMBERS = [
    "0",
    "-1",
    "1e308",
    "-0.0",
    "1e-308",
    "inf",
    "nan",
    "true",
    str(2**31),
    str(2**63 - 1),
    str(2**64),
    "9" * 60,
    "0x" + "f" * 5000,
    "1e12",
    "1000000000000",
]
ODD_VALUES = [
    *ODD_NUMBERS,
    *(f'"{text}"' for text in ODD_TEXTS),
    '"1e308 GB"',
    '"1e300 s"',
    '"-5 MB/s"',
    "[]",
    "{}",
    "[[]]",
    "[{}]",
    "{ a = 1 }",
    "[1, 2]",
    '["a", "a"]',
    "1979-05-27",
    "07:32:00",
    "[" * 60 + "]" * 60,
    "[" * 2000 + "]" * 2000,
    "9" * 5000,
]
_NUMBER = re.compile(r"(?<![\w.])-?\d[\d_]*(?:\.\d+)?(?:e-?\d+)?", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z_][\w.-]*")

Edit = Callable[[str], str]


def _at(items: list[Any], where: float) -> int:
    return min(int(where * len(items)), len(items) - 1)


def _replaced(pattern: re.Pattern[str], where: float, new: str, text: str) -> str:
    found = list(pattern.finditer(text))
    if not found:
        return text + new
    match = found[_at(found, where)]
    return text[: match.start()] + new + text[match.end() :]


def _lines(
    change: Callable[[list[str], float, float], None], where: float, other: float, text: str
) -> str:
    lines = text.splitlines(keepends=True)
    if lines:
        change(lines, where, other)
    return "".join(lines)


def _swap(lines: list[str], where: float, other: float) -> None:
    a, b = _at(lines, where), _at(lines, other)
    lines[a], lines[b] = lines[b], lines[a]


def _delete(lines: list[str], where: float, other: float) -> None:
    del lines[_at(lines, where)]


def _double(lines: list[str], where: float, other: float) -> None:
    lines.insert(_at(lines, other), lines[_at(lines, where)])


def _revalue(lines: list[str], where: float, value: str) -> None:
    pairs = [at for at, line in enumerate(lines) if re.match(r"\s*[\w.\"-]+\s*=", line)]
    if pairs:
        at = pairs[_at(pairs, where)]
        lines[at] = lines[at].partition("=")[0] + f"= {value}\n"


@st.composite
def _text_edit(draw: st.DrawFn, values: list[str]) -> Edit:
    where, other = draw(st.floats(0, 1)), draw(st.floats(0, 1))
    value = draw(st.sampled_from(values))
    kind = draw(
        st.sampled_from(["number", "word", "value", "delete", "double", "swap", "cut", "insert"])
    )
    if kind == "number":
        return lambda text: _replaced(_NUMBER, where, value, text)
    if kind == "word":
        return lambda text: _replaced(_WORD, where, value, text)
    if kind == "value":
        return lambda text: _lines(
            lambda lines, at, _: _revalue(lines, at, value), where, other, text
        )
    if kind == "cut":
        return lambda text: text[: int(where * len(text))]
    if kind == "insert":
        return lambda text: text[: int(where * len(text))] + value + text[int(where * len(text)) :]
    change = {"delete": _delete, "double": _double, "swap": _swap}[kind]
    return lambda text: _lines(change, where, other, text)


@st.composite
def damaged_text(draw: st.DrawFn, texts: list[str], values: list[str] | None = None) -> str:
    """One of the texts with one to four damages."""
    text = draw(st.sampled_from(texts))
    for edit in draw(st.lists(_text_edit(values or ODD_VALUES), min_size=1, max_size=4)):
        text = edit(text)
    return text


# -- bytes -----------------------------------------------------------------------------------------

_WORDS = [0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1]


@st.composite
def _byte_edit(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    where, size = draw(st.floats(0, 1)), draw(st.integers(1, 64))
    kind = draw(st.sampled_from(["flip", "word", "delete", "double", "cut", "zero", "noise"]))
    word = draw(st.sampled_from(_WORDS)).to_bytes(8, draw(st.sampled_from(["little", "big"])))
    width = draw(st.sampled_from([1, 2, 4, 8]))
    bit = draw(st.integers(0, 7))
    noise = draw(st.binary(min_size=1, max_size=16))

    def edit(raw: bytes) -> bytes:
        at = int(where * max(len(raw) - 1, 0))
        head, tail = raw[:at], raw[at:]
        return {
            "flip": head + bytes([tail[0] ^ 1 << bit]) + tail[1:] if tail else raw,
            "word": head + word[:width] + tail[width:],
            "delete": head + tail[size:],
            "double": head + tail[:size] + tail,
            "cut": head,
            "zero": head + bytes(min(size, len(tail))) + tail[size:],
            "noise": head + noise + tail,
        }[kind]

    return edit


@st.composite
def damaged_bytes(draw: st.DrawFn, contents: list[bytes]) -> bytes:
    """One of the contents with one to four damages."""
    raw = draw(st.sampled_from(contents))
    for edit in draw(st.lists(_byte_edit(), min_size=1, max_size=4)):
        raw = edit(raw)
    return raw


# -- JSON ------------------------------------------------------------------------------------------

ODD_JSON: list[Any] = [
    None,
    True,
    0,
    -1,
    1e308,
    float("nan"),
    float("inf"),
    2**63,
    10**40,
    "",
    "x",
    "\0",
    [],
    {},
    [None],
    {"a": 1},
    [[1]],
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of a value of tables and arrays, outer ones first."""
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


@st.composite
def damaged_json(draw: st.DrawFn, value: Any) -> Any:
    """A copy of a value with one to three places taken away or replaced."""
    import copy

    damaged = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, 3))):
        found = list(places(damaged))
        if not found:
            return draw(st.sampled_from(ODD_JSON))
        *path, key = found[draw(st.integers(0, len(found) - 1))]
        inner = damaged
        for part in path:
            inner = inner[part]
        if draw(st.booleans()) and isinstance(inner, dict):
            del inner[key]
        else:
            inner[key] = copy.deepcopy(draw(st.sampled_from(ODD_JSON)))
    return damaged
