"""Site files: what `headrace calibrate` writes, and how a study gets the site of such a file."""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import tomlkit

from headrace.calibration.fitting import SiteFit
from headrace.document import read_document
from headrace.errors import RefusedError, StudyError
from headrace.file_kinds import check_kind
from headrace.records.place import check_file_place
from headrace.site import OF_CODE, OF_WORKLOADS, Site, has_field
from headrace.study.load import load_study_text
from headrace.study.model import Study
from headrace.validation import Problems

FIRST = "# Learnt by headrace calibrate"
"""The beginning of every site file that Headrace wrote: such a file may be written again."""


@dataclass(frozen=True)
class SiteFacts:
    """What a study does not state of the site that was measured."""

    node: Mapping[str, int | str] = field(default_factory=dict[str, "int | str"])
    """Of `[site.node]`."""
    one_machine: bool = False
    """Nodes and servers were on one machine, and shared its cores."""
    cpu_spread: Mapping[str, float] = field(default_factory=dict[str, float])
    """Workload -> by which share the CPU times of its jobs differed."""


def site_text(fit: SiteFit, facts: SiteFacts, words: Sequence[str]) -> str:
    """Return the text of a site file; `words` are comments in it."""
    lines = [f"{FIRST}; simulated with: headrace simulate STUDY --site FILE"]
    for each in words:
        lines += textwrap.wrap(each, 98, initial_indent="# ", subsequent_indent="#   ")
    if facts.one_machine:
        lines += ["", "# Leave it out to simulate nodes and servers with cores of their own."]
        lines += ["[site]", "one_machine = true"]
    if facts.node:
        lines += [
            "",
            "[site.node]",
            *(f"{name} = {_value(each)}" for name, each in facts.node.items()),
        ]
    tables: dict[tuple[str, ...], list[str]] = {("site", "calibration"): []}
    if facts.cpu_spread:
        tables["site", "calibration", "cpu_spread"] = [
            f"{_key(name)} = {share:.2g}" for name, share in facts.cpu_spread.items()
        ]
    for each in fit.learnt:
        *place, name = each.parameter.path
        said = f"{each.parameter.words(each.low)} to {each.parameter.words(each.high)}"
        line = f"{_key(name)} = {each.parameter.text(each.value)}  # 95 %: {said}"
        tables.setdefault(("site", "calibration", *place), []).append(line)
    for place, own in tables.items():
        lines += ["", f"[{'.'.join(map(_key, place))}]", *own]
    if fit.undetermined:
        lines += ["", "# Not determined by the measured cells; the catalog's values stay:"]
        lines += [f"#   {each.parameter.name}: {each.why}" for each in fit.undetermined]
    return "\n".join(lines) + "\n"


def _value(value: int | str) -> str:
    return tomlkit.item(value).as_string()


def _key(name: str) -> str:
    return tomlkit.key(name).as_string()


def check_out(file: Path) -> None:
    """Raise RefusedError if the file exists and is no site file that Headrace wrote."""
    check_file_place(file, "--out")
    if file.exists() and not _is_site(file):
        raise RefusedError(
            f"{file} already exists, and is not a site that headrace calibrate wrote",
            hint="name another file with --out",
        )


def _is_site(file: Path) -> bool:
    """Return whether a file that exists is a site that Headrace wrote."""
    if not file.is_file():  # a pipe or a device may have no end
        return False
    with contextlib.suppress(OSError), file.open("rb") as stream:
        return stream.read(len(FIRST.encode())) == FIRST.encode()
    return False


def with_site(study: Study, text: str, file: Path) -> tuple[Study, str]:
    """Return a study, and its text, with the `[site]` of a file put over its own.

    Learnt values of targets, workloads and their fields that the study does not have are left out.
    Raises StudyError for problems of the file.
    """
    document = read_document(file)
    check_kind(document, "site")
    problems = Problems(document)
    for name in document.values:
        if name != "site":
            problems.unknown((name,), name, ["site"])
    table = problems.table(("site",), document.values.get("site", {}))
    if "site" not in document.values:
        problems.add(("site",), "the table [site] is missing")
    elif table is not None:
        problems.validated(("site",), table, Site)
    if problems.found or table is None:
        raise StudyError(problems.found)
    own: dict[str, Any] = {} if study.document is None else study.document.values.get("site", {})
    merged = _of_study(_over(own, table), study)
    written: Any = tomlkit.parse(text)
    written.pop("site", None)
    made = tomlkit.dumps(written).rstrip("\n") + "\n\n" + tomlkit.dumps({"site": merged})
    return load_study_text(made, file=study.file, base=study.base), made


def _over(own: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table with the values of another one put over it."""
    made = dict(own)
    for name, value in given.items():
        there = made.get(name)
        both = isinstance(value, dict) and isinstance(there, dict)
        made[name] = (
            _over(cast("dict[str, Any]", there), cast("dict[str, Any]", value)) if both else value
        )
    return made


def _of_study(site: dict[str, Any], study: Study) -> dict[str, Any]:
    """Return a site without learnt values of parts that the study does not have."""
    learnt = site.get("calibration")
    if not isinstance(learnt, dict):
        return site
    kept: dict[str, Any] = dict(cast("dict[str, Any]", learnt))
    places = {**dict.fromkeys(OF_WORKLOADS, study.workloads), "target": study.targets}
    for name, parts in places.items():
        if isinstance(kept.get(name), dict):
            kept[name] = {part: each for part, each in kept[name].items() if part in parts}
    for name in OF_CODE:
        kept[name] = {
            part: {
                field: words
                for field, words in fields.items()
                if has_field(study.workloads[part].options, field)
            }
            for part, fields in kept.get(name, {}).items()
        }
    return {**site, "calibration": kept}
