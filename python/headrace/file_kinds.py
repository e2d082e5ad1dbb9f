"""Base layer: which kind of TOML file a file is, to name the command that takes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.document import Document
from headrace.errors import FileProblem, StudyError, as_word

_DRIVES = ("hdd", "ssd")
_OF_OFFERS = ("currency", "years", "busy", "pue", "filesystem_share", "target")
_PRICED = ("drive", "node", "server", "switch", "electricity", "rates")


@dataclass(frozen=True)
class _Kind:
    what: str
    used: str
    """Where it is used, with `{}` for the file as a word of a shell."""
    has: Callable[[Mapping[str, Any]], bool]


def _fields(*names: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda values: set(names) <= set(values)


_ENTRY = "a study names it by its path"
_KINDS = {
    "study": _Kind(
        "a study",
        "headrace validate {0}, headrace simulate {0} and headrace run {0} take it",
        lambda values: "headrace" in values or {"target", "workload"} <= set(values),
    ),
    "drive": _Kind(
        "a drive",
        "headrace drive show {0} and headrace drive run {0} take it; a study names it in the "
        "field drive",
        lambda values: values.get("kind") in _DRIVES,
    ),
    "site": _Kind(
        "a site",
        "headrace simulate STUDY --site {0} takes it; [site] in a study says the same",
        lambda values: set(values) == {"site"},
    ),
    "profile": _Kind(
        "a job profile",
        "headrace profile show {0} and headrace profile simulate {0} take it; a study names it in "
        'a workload of kind = "replay"',
        lambda values: bool({"steps", "steps_file"} & set(values)),
    ),
    "offers": _Kind(
        "offers (prices)",
        "headrace decide RESULTS --offers {0} takes it; [offers] in a study says the same",
        lambda values: (
            any(isinstance(values.get(name), dict) for name in _PRICED)
            and set(values) <= {*_PRICED, *_OF_OFFERS}
        ),
    ),
    "node": _Kind("a machine of the catalog", _ENTRY, _fields("cores", "memory_bytes", "power")),
    "link": _Kind("a link of the catalog", _ENTRY, _fields("rate_bytes_per_s", "latency_ns")),
    "switch": _Kind("a switch of the catalog", _ENTRY, _fields("ports", "power_w")),
    "controller": _Kind(
        "a controller of the catalog", _ENTRY, _fields("cache_bytes", "queue_depth", "command_us")
    ),
    "server": _Kind("a server of the catalog", _ENTRY, _fields("kind", "tuning", "source")),
    "filesystem": _Kind(
        "a filesystem of the catalog", _ENTRY, _fields("kind", "free_extent_bytes")
    ),
    "price": _Kind(
        "a price of the catalog",
        "headrace decide RESULTS --offers FILE takes prices of yours",
        _fields("amount", "currency", "year"),
    ),
}
"""By what is looked for; the first that fits counts."""


def check_kind(document: Document, wanted: str) -> None:
    """Raise StudyError if a file is plainly of another kind than `wanted`, a key of `_KINDS`.

    A file that is of no kind that is known passes: its own check says what is wrong with it.
    """
    values = document.values
    if document.within or _KINDS[wanted].has(values):
        return
    for kind in _KINDS.values():
        if kind.has(values):
            raise _refused(document.file, kind, wanted)


def _refused(file: Path, kind: _Kind, wanted: str) -> StudyError:
    problem = f"this file describes {kind.what}, not {_KINDS[wanted].what}"
    error = StudyError([FileProblem(file, 0, "", "", problem)])
    error.hint = kind.used.format(as_word(file))
    return error
