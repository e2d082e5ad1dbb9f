"""Step 1 of the pipeline: read a study file and report all problems with file, line and field.

The document refuses values that no field accepts (`headrace.document`). `parts.py` and `factors.py`
check tables against the options of their kinds (`headrace.validation`). A study that passes needs
no further checks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace import launchers
from headrace import targets as target_package
from headrace import workloads as workload_package
from headrace.document import Document, parse_document, read_document
from headrace.errors import StudyError, as_word
from headrace.file_kinds import check_kind
from headrace.registry import nearest
from headrace.site import Site
from headrace.study.factors import FAULT, NO_FAULT, FactorsReader, factor_names, find_factor
from headrace.study.model import PlanOptions, ReportOptions, RunOptions, Study
from headrace.study.overlaps import check_overlaps
from headrace.study.packaged import packaged_studies
from headrace.study.parts import PartsReader
from headrace.validation import Problems

if TYPE_CHECKING:
    from headrace.offers import Offers

__all__ = [
    "FAULT",
    "NO_FAULT",
    "VERSION",
    "factor_names",
    "find_factor",
    "load_study",
    "load_study_text",
]

VERSION = 1
"""Version of the study file that this Headrace reads."""

_TABLES = (
    "headrace",
    "title",
    "target",
    "workload",
    "factors",
    "exclude",
    "only",
    "plan",
    "run",
    "site",
    "fault",
    "meter",
    "probe",
    "report",
    "offers",
)


def load_study(file: str | Path, *, base: Path | None = None) -> Study:
    """Read and check a study file.

    Relative paths in the file refer to `base` (the file's directory when None). Raises StudyError
    with every problem.
    """
    path = Path(file)
    try:
        document = read_document(path)
    except StudyError as error:
        if not path.exists():
            error.hint = _where_else(path)
        elif (path / "study.toml").is_file():
            error.hint = f"the study in it is {as_word(path / 'study.toml')}"
        raise
    return study_of(document, base or path.resolve().parent)


def stored_document(results: Path) -> Document:
    """Return the study stored in a results folder. Raises StudyError when it cannot be read."""
    try:
        return read_document(results / "study.toml")
    except StudyError as error:
        error.hint = "put the study of these results back there, as it was"
        raise


def _where_else(missing: Path) -> str:
    """Return a hint for a missing study file: what the user may have meant."""
    if missing.stem in packaged_studies():
        return f"headrace init {missing.stem} writes this study, which comes with Headrace"
    beside = [file.name for file in sorted(missing.parent.glob("*.toml"))]
    near = nearest(missing.name, beside) or nearest(f"{missing.name}.toml", beside)
    if near:
        return f"did you mean {missing.parent / near}?"
    return "headrace init writes a first study file; headrace init --list names more"


def load_study_text(text: str, *, file: Path, base: Path) -> Study:
    """Check the text of a study file. `file` is used only in messages."""
    return study_of(parse_document(text.encode(), file), base)


def study_of(document: Document, base: Path) -> Study:
    """Check a document. Raises StudyError with every problem."""
    check_kind(document, "study")
    problems = Problems(document)
    for name in document.values:
        if name not in _TABLES:
            problems.unknown((name,), name, list(_TABLES))
    _check_version(problems)
    reader = PartsReader(problems, base)
    study = _parts_of(problems, reader, base)
    factors = FactorsReader(problems, reader, study)
    levels = factors.factors()
    exclude, only = factors.partial_cells("exclude", levels), factors.partial_cells("only", levels)
    factors.check_together(exclude, only=bool(only))
    check_overlaps(problems, study, levels)
    _check_used(problems, study, levels)
    for name in study.report_options.price:
        if study.targets and name not in study.targets:
            problems.unknown(("report", "price", name), name, list(study.targets))
    for name in study.offers.target if study.offers else ():
        if study.targets and name not in study.targets:
            problems.unknown(("offers", "target", name), name, list(study.targets))
    if problems.found:
        raise StudyError(sorted(problems.found, key=lambda problem: problem.line))
    return replace(study, factors=levels, exclude=exclude, only=only, hash=_hash(document.values))


def _starts_python(part: type[launchers.Launcher]) -> bool:
    return part.starts_python


def _is_batch(part: type[launchers.Launcher]) -> bool:
    return not part.nodes_at_once


_READ_BY: dict[str, Callable[[type[launchers.Launcher]], bool]] = {
    "python": _starts_python,
    "batch": _is_batch,
}
"""Fields of `[run]` that some launchers alone read."""


def _check_used(problems: Problems, study: Study, levels: Mapping[str, list[Any]]) -> None:
    """Refuse fields of `[run]` that no launcher of the study reads."""
    used = {field: _factor_of(study, levels, field) for field in _READ_BY}
    used = {
        field: factor
        for field, factor in used.items()
        if factor is not None or getattr(study.run_options, field) is not None
    }
    if not used:
        return  # most studies: no launcher is imported
    varied = _factor_of(study, levels, "on")
    values = levels[varied] if varied else [study.run_options.on]
    kinds = launchers.kinds()
    named = {launchers.split_on(str(on))[0] for on in values}
    for field, factor in used.items():
        reads = _READ_BY[field]
        if any(reads(kinds[name]) for name in named if name in kinds):
            continue
        path = ("factors", *factor.split(".")) if factor else ("run", field)
        able = [kind for kind, part in kinds.items() if reads(part)]
        forms = [f'on = "{kinds[kind].address_form or kind}"' for kind in able]
        given = "" if values == [None] else f": on = {', '.join(map(str, values))}"
        problems.add(path, f"nothing in this study uses it{given}", allowed=" or ".join(forms))


def _factor_of(study: Study, levels: Mapping[str, list[Any]], field: str) -> str | None:
    """Return the factor that varies a field of `[run]` or a part of it."""
    for name in levels:
        if name in ("target", "workload", FAULT):
            continue
        for address in find_factor(study, name):
            if address.section == "run" and address.field.partition(".")[0] == field:
                return name
    return None


def _parts_of(problems: Problems, reader: PartsReader, base: Path) -> Study:
    """Return the study without its factors; invalid parts have no options."""
    document = problems.document
    title = document.values.get("title", document.file.stem)
    if not isinstance(title, str) or not title.strip():
        problems.add(("title",), "must be text", given=title)
    targets = reader.parts("target", target_package.kinds())
    workloads = reader.parts("workload", workload_package.kinds())
    plan = reader.section("plan", PlanOptions)
    run = reader.section("run", RunOptions)
    report = reader.section("report", ReportOptions)
    site = reader.section("site", Site) if "site" in document.values else None
    reader.check_sources(targets, workloads, site)
    reader.check_calibrated(site, targets, workloads)
    return Study(
        headrace=VERSION,
        title=str(title),
        file=document.file,
        document=document,
        base=base.resolve(),
        targets=targets,
        workloads=workloads,
        factors={},
        exclude=[],
        plan_options=plan or PlanOptions.model_validate({}),
        run_options=run or RunOptions.model_validate({}),
        report_options=report or ReportOptions.model_validate({}),
        offers=_offers(reader) if "offers" in document.values else None,
        site=site,
        faults=reader.injected_faults(targets),
        meters=reader.meters(targets, site),
        probes=reader.probes(),
        hash="",
    )


def _offers(reader: PartsReader) -> Offers | None:
    from headrace.offers import Offers  # with the catalog's tables: few studies have prices

    return reader.section("offers", Offers)


def _check_version(problems: Problems) -> None:
    version = problems.document.values.get("headrace")
    if version is None:
        allowed = f"headrace = {VERSION}"
        problems.add(("headrace",), "the version of the study file is missing", allowed=allowed)
    elif type(version) is not int or version != VERSION:
        problem = "this version of the study file is not known"
        problems.add(("headrace",), problem, given=version, allowed=str(VERSION))


def _hash(values: dict[str, Any]) -> str:
    """Hash everything that affects what a trial measures: all but the title, report and offers."""
    others = ("title", "report", "offers")
    identity = {key: values[key] for key in sorted(values) if key not in others}
    return hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()[
        :16
    ]
