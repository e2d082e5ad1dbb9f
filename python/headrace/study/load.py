"""Step 1 of the way: a study file -> Study. Every fault is found at once, with file, line, field, given and allowed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError

from headrace import faults as fault_room
from headrace import targets as target_room
from headrace import workloads as workload_room
from headrace.catalog import entry
from headrace.document import Document, FieldPath, parse_document, read_document
from headrace.errors import Fault, StudyError
from headrace.registry import nearest
from headrace.study.fields import Address, anchor_drives, drive_names, field_paths, find_field, with_level
from headrace.study.model import Part, PlanOptions, ReportOptions, RunOptions, Site, Study

VERSION = 1
"""Version of the study file that this Headrace reads."""

FAULT = "fault"
"""The factor that varies which of the study's faults strikes."""
NO_FAULT = "none"
"""Its level without any."""

_TABLES = (
    "headrace",
    "title",
    "target",
    "workload",
    "factors",
    "exclude",
    "plan",
    "run",
    "site",
    "fault",
    "report",
)
Model = TypeVar("Model", bound=BaseModel)


def load_study(file: str | Path, *, base: Path | None = None) -> Study:
    """Reads and checks a study file.

    Relative paths in it are relative to `base` (the file's own directory when None). Raises StudyError with every fault.
    """
    path = Path(file)
    return study_of(read_document(path), base or path.resolve().parent)


def load_study_text(text: str, *, file: Path, base: Path) -> Study:
    """The same from text; `file` is only for messages."""
    return study_of(parse_document(text.encode(), file), base)


def study_of(document: Document, base: Path) -> Study:
    """Document -> Study. Raises StudyError with every fault."""
    return _Loader(document, base).load()


class _Loader:
    """Gathers faults while it goes through the tables in turn."""

    def __init__(self, document: Document, base: Path) -> None:
        self.document = document
        self.base = base
        self.faults: list[Fault] = []

    def fault(self, path: FieldPath, problem: str, *, given: object = "", allowed: str = "") -> None:
        self.faults.append(self.document.fault(path, problem, given=given, allowed=allowed))

    def load(self) -> Study:
        values = self.document.values
        for name in values:
            if name not in _TABLES:
                self.unknown((name,), name, list(_TABLES))
        version = values.get("headrace")
        if version is None:
            self.fault(
                ("headrace",), "the version of the study file is missing", allowed=f"headrace = {VERSION}"
            )
        elif version != VERSION:
            self.fault(
                ("headrace",),
                "this version of the study file is not known",
                given=version,
                allowed=str(VERSION),
            )
        title = values.get("title", self.document.file.stem)
        if not isinstance(title, str) or not title.strip():
            self.fault(("title",), "must be text", given=title)
        targets = self.parts("target", target_room.kinds())
        workloads = self.parts("workload", workload_room.kinds())
        plan = self.section("plan", PlanOptions)
        run = self.section("run", RunOptions)
        report = self.section("report", ReportOptions)
        site = self.section("site", Site) if "site" in values else None
        self.check_sources(targets, workloads, site)
        faults = self.injected_faults(targets)
        study = Study(
            headrace=VERSION,
            title=str(title),
            file=self.document.file,
            base=self.base.resolve(),
            targets=targets,
            workloads=workloads,
            factors={},
            exclude=[],
            plan_options=plan or PlanOptions.model_validate({}),
            run_options=run or RunOptions.model_validate({}),
            report_options=report or ReportOptions.model_validate({}),
            site=site,
            faults=faults,
            hash="",
        )
        factors = self.factors(study)
        exclude = self.exclude(factors)
        for name in study.report_options.price:
            if targets and name not in targets:
                self.unknown(("report", "price", name), name, list(targets))
        if self.faults:
            raise StudyError(sorted(self.faults, key=lambda fault: fault.line))
        identity = {key: values[key] for key in sorted(values) if key not in ("title", "report")}
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()[:16]
        return study.model_copy(update={"factors": factors, "exclude": exclude, "hash": digest})

    # -- tables ---------------------------------------------------------------------------------------------

    def unknown(self, path: FieldPath, name: str, allowed: list[str]) -> None:
        near = nearest(name, allowed)
        problem = f'unknown field; did you mean "{near}"?' if near else "unknown field"
        self.fault(path, problem, given=name, allowed=", ".join(allowed))

    def table(self, path: FieldPath, value: object) -> dict[str, Any] | None:
        if isinstance(value, dict):
            return value  # pyright: ignore[reportUnknownVariableType]
        self.fault(path, "must be a table", given=value)
        return None

    def section(self, name: str, model: type[Model]) -> Model | None:
        table = self.table((name,), self.document.values.get(name, {}))
        if table is None:
            return None
        if name == "site":
            self.known_drives((name,), table)
            table = anchor_drives(table, self.base)
        return self.validated((name,), table, model)

    def known_drives(self, path: FieldPath, table: dict[str, Any], *, at: FieldPath | None = None) -> None:
        """Faults of drives that the catalog does not have, or whose file is wrong; placed in the study, or at `at`."""
        for place, name in drive_names(table):
            try:
                entry("drives", name, base=self.base)
            except StudyError as error:
                if name.endswith(".toml") and all(fault.line for fault in error.faults):
                    self.faults += [fault for fault in error.faults if fault not in self.faults]
                    continue
                for fault in error.faults:
                    self.fault(at or (*path, *place), fault.problem, given=name, allowed=fault.allowed)

    def validated(
        self, path: FieldPath, table: dict[str, Any], model: type[Model], *, at: FieldPath | None = None
    ) -> Model | None:
        """Validates a table; faults are placed at `path` + their own place, or all at `at`."""
        try:
            return model.model_validate(table)
        except ValidationError as error:
            seen: set[tuple[FieldPath, str]] = set()
            for item in error.errors(include_url=False):
                inner = self._place(table, item["loc"])
                place = at if at is not None else path + inner
                problem, allowed = self._worded(item, model, inner)
                if (place, problem) not in seen:
                    seen.add((place, problem))
                    given = "" if item["type"] in ("missing", "extra_forbidden") else item["input"]
                    self.fault(
                        place, problem, given="" if isinstance(given, dict) else given, allowed=allowed
                    )
            return None

    @staticmethod
    def _place(table: Any, loc: tuple[int | str, ...]) -> FieldPath:
        """The part of pydantic's place that stands in the file: it also names members of unions."""
        place: list[str | int] = []
        inner: Any = table
        for index, part in enumerate(loc):
            if (isinstance(inner, dict) and part in inner) or (
                isinstance(inner, list) and isinstance(part, int) and part < len(inner)
            ):
                inner = cast(Any, inner)[part]
                place.append(part)
            elif index == len(loc) - 1 and isinstance(inner, dict) and isinstance(part, str):
                place.append(part)
        return tuple(place)

    @staticmethod
    def _worded(item: Any, model: type[BaseModel], inner: FieldPath) -> tuple[str, str]:
        kind, context = item["type"], item.get("ctx", {})
        names = [str(part) for part in inner if isinstance(part, str)]
        siblings = [path[-1] for path in field_paths(model) if path[:-1] == tuple(names[:-1])]
        if kind == "extra_forbidden":
            near = nearest(names[-1], siblings) if names else None
            problem = f'unknown field; did you mean "{near}"?' if near else "unknown field"
            return problem, ", ".join(siblings)
        if kind == "missing":
            return "is missing", ""
        if kind in ("literal_error", "enum"):
            allowed = str(context.get("expected", "")).replace(" or ", ", ").replace("'", '"')
            near = nearest(str(item["input"]), [word.strip(' "') for word in allowed.split(",")])
            return (
                f'not one of the allowed values; did you mean "{near}"?'
                if near
                else "not one of the allowed values"
            ), allowed
        message = str(item["msg"])
        message = message.removeprefix("Value error, ").removeprefix("Assertion failed, ")
        return (message[:1].lower() + message[1:]).replace("input should be", "must be"), ""

    def parts(self, room: str, kinds: dict[str, Any]) -> dict[str, Part]:
        values = self.document.values.get(room)
        if not values:
            self.fault((room,), f"a study needs at least one [{room}.NAME]")
            return {}
        table = self.table((room,), values)
        found: dict[str, Part] = {}
        for name, written in (table or {}).items():
            part_table = self.table((room, name), written)
            if part_table is None:
                continue
            kind = part_table.get("kind")
            if kind is None:
                self.fault((room, name, "kind"), "is missing", allowed=", ".join(kinds))
            elif kind not in kinds:
                near = nearest(str(kind), list(kinds))
                problem = f'unknown kind; did you mean "{near}"?' if near else "unknown kind"
                self.fault((room, name, "kind"), problem, given=kind, allowed=", ".join(kinds))
            else:
                own = {key: value for key, value in part_table.items() if key != "kind"}
                if room == "target":
                    self.known_drives((room, name), own)
                own = self.anchored(kinds[kind].Options, own)
                options = self.validated((room, name), own, kinds[kind].Options)
                found[name] = Part(name=name, kind=kind, written=own, options=options)
        return found

    def anchored(self, model: type[BaseModel], written: dict[str, Any]) -> dict[str, Any]:
        """Relative paths made absolute, so that a study means the same from wherever it is run."""
        for name in getattr(model, "path_fields", ()):
            value = written.get(name)
            # A profile without an ending is an entry of the catalog.
            named = name == "profile" and not str(value).endswith(".toml")
            if isinstance(value, str) and value and not named:
                written = {**written, name: str((self.base / Path(value).expanduser()).resolve())}
        return anchor_drives(written, self.base)

    def check_sources(self, targets: dict[str, Part], workloads: dict[str, Part], site: Site | None) -> None:
        """Input comes from a target of the study, or from a server of its site."""
        known = [*targets, *(site.server if site is not None else ())]
        for name, part in workloads.items():
            source = _source(part)
            if source is not None and source not in known:
                near = nearest(source, known)
                problem = "no such target, nor server of the site" + (
                    f'; did you mean "{near}"?' if near else ""
                )
                self.fault(("workload", name, "source"), problem, given=source, allowed=", ".join(known))

    def injected_faults(self, targets: dict[str, Part]) -> list[Any]:
        values = self.document.values.get("fault", [])
        if not isinstance(values, list):
            self.fault(("fault",), "must be an array of tables, [[fault]]", given=values)
            return []
        kinds = fault_room.kinds()
        found: list[Any] = []
        for index, written in enumerate(values):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            path: FieldPath = ("fault", index)
            table = self.table(path, written)
            if table is None:
                continue
            what = table.get("what")
            if what not in kinds:
                near = nearest(str(what), list(kinds))
                problem = f'unknown fault; did you mean "{near}"?' if near else "unknown fault"
                self.fault((*path, "what"), problem, given=what, allowed=", ".join(kinds))
                continue
            if table.get("target") is not None and table["target"] not in targets:
                self.unknown((*path, "target"), str(table["target"]), list(targets))
            found.append(self.validated(path, table, kinds[what].Options))
        return found

    # -- factors --------------------------------------------------------------------------------------------

    def factors(self, study: Study) -> dict[str, list[Any]]:
        table = self.table(("factors",), self.document.values.get("factors", {})) or {}
        # A target that is there for a workload's input is under test only when it is named as a level.
        sources = {_source(part) for part in study.workloads.values()}
        tested = [name for name in study.targets if name not in sources] or list(study.targets)
        found: dict[str, list[Any]] = {"target": tested, "workload": list(study.workloads)}
        for name, levels in self.flat(table):
            path: FieldPath = ("factors", *name.split("."))
            if not isinstance(levels, list):
                levels = [levels]
            if not levels:
                self.fault(path, "a factor needs at least one level", given="[]")
                continue
            for index, level in enumerate(levels):
                if level in levels[:index]:
                    self.fault((*path, index), "this level stands there twice", given=level)
            if name in ("target", "workload"):
                known = list(study.targets if name == "target" else study.workloads)
                for index, level in enumerate(levels):
                    if level not in known:
                        near = nearest(str(level), known)
                        self.fault(
                            (*path, index),
                            f"no such {name}" + (f'; did you mean "{near}"?' if near else ""),
                            given=level,
                            allowed=", ".join(known),
                        )
            else:
                self.check_levels(study, name, path, levels)
            found[name] = levels
        return found

    def flat(self, table: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
        """`link.rate = […]` and `[factors.link] rate = […]` are the same factor."""
        found: list[tuple[str, Any]] = []
        for name, value in table.items():
            if isinstance(value, dict):
                found.extend(self.flat(value, f"{prefix}{name}."))  # pyright: ignore[reportUnknownArgumentType]
            else:
                found.append((prefix + name, value))
        return found

    def check_levels(self, study: Study, name: str, path: FieldPath, levels: list[Any]) -> None:
        if name == FAULT:
            self.check_fault_levels(study, path, levels)
            return
        addresses = find_factor(study, name)
        rooms = {address.room for address in addresses}
        if not addresses:
            known = factor_names(study)
            near = nearest(name, known)
            problem = "no target, workload or run field has this name" + (
                f'; did you mean "{near}"?' if near else ""
            )
            self.fault(path, problem, given=name, allowed=", ".join(known))
            return
        if len(rooms) > 1:
            both = ", ".join(
                sorted(f"{a.room}.{a.part}.{a.field}" if a.part else f"{a.room}.{a.field}" for a in addresses)
            )
            self.fault(
                path, "the name fits more than one field; name one of them whole", given=name, allowed=both
            )
            return
        for index, level in enumerate(levels):
            before = len(self.faults)
            for address in addresses:
                if self._faulty(study, address):
                    continue  # its own faults are named already
                model, written = self._owner(study, address)
                if address.room in ("target", "site"):
                    whole = with_level({}, tuple(address.field.split(".")), level)
                    self.known_drives(path, whole, at=(*path, index))
                table = self.anchored(model, with_level(written, tuple(address.field.split(".")), level))
                self.validated(path, table, model, at=(*path, index))
                if len(self.faults) > before:
                    break

    def check_fault_levels(self, study: Study, path: FieldPath, levels: list[Any]) -> None:
        known = [NO_FAULT, *dict.fromkeys(each.label for each in study.faults if each is not None)]
        if len(known) == 1:
            self.fault(path, "the study has no [[fault]] to vary")
            return
        for index, level in enumerate(levels):
            if level not in known:
                near = nearest(str(level), known)
                problem = "no such fault" + (f'; did you mean "{near}"?' if near else "")
                self.fault((*path, index), problem, given=level, allowed=", ".join(known))

    @staticmethod
    def _faulty(study: Study, address: Address) -> bool:
        parts = {"target": study.targets, "workload": study.workloads}.get(address.room)
        return parts is not None and parts[str(address.part)].options is None

    @staticmethod
    def _owner(study: Study, address: Address) -> tuple[type[BaseModel], dict[str, Any]]:
        if address.room == "target":
            part = study.targets[str(address.part)]
            return target_room.kinds()[part.kind].Options, part.written
        if address.room == "workload":
            part = study.workloads[str(address.part)]
            return workload_room.kinds()[part.kind].Options, part.written
        if address.room == "run":
            return RunOptions, study.run_options.model_dump(exclude_unset=True)
        return Site, (study.site or Site.model_validate({})).model_dump(exclude_unset=True)

    def exclude(self, factors: dict[str, list[Any]]) -> list[dict[str, list[Any]]]:
        values = self.document.values.get("exclude", [])
        if not isinstance(values, list):
            self.fault(("exclude",), "must be an array of tables, [[exclude]]", given=values)
            return []
        found: list[dict[str, list[Any]]] = []
        for index, written in enumerate(values):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            table = self.table(("exclude", index), written)
            cell: dict[str, list[Any]] = {}
            for name, levels in self.flat(table or {}):
                path: FieldPath = ("exclude", index, *name.split("."))
                if name not in factors:
                    self.unknown(path, name, list(factors))
                    continue
                wanted: list[Any] = levels if isinstance(levels, list) else [levels]
                for level in wanted:
                    if level not in factors[name]:
                        self.fault(
                            path,
                            "the factor has no such level",
                            given=level,
                            allowed=", ".join(map(str, factors[name])),
                        )
                cell[name] = wanted
            if table is not None and not table:
                self.fault(("exclude", index), "excludes everything: it names no factor")
            elif cell:
                found.append(cell)
        return found


def find_factor(study: Study, name: str) -> list[Address]:
    """Every field that a factor varies; empty when no part has it."""
    head, _, rest = name.partition(".")
    if head == "run" and rest:
        return [Address("run", None, rest)] if rest in RunOptions.model_fields else []
    if head in ("target", "workload") and rest:
        part, _, field = rest.partition(".")
        parts = study.targets if head == "target" else study.workloads
        return _in_part(head, parts[part], field) if part in parts and field else []
    if name == FAULT and study.faults:
        return [Address("fault", None, name)]
    if name in RunOptions.model_fields:
        return [Address("run", None, name)]
    found = [address for part in study.targets.values() for address in _in_part("target", part, name)]
    found += [address for part in study.workloads.values() for address in _in_part("workload", part, name)]
    if not found:
        inner = rest if head == "site" else name
        found = [Address("site", None, ".".join(path)) for path in find_field(Site, inner)]
        if not found and inner.startswith("node.drives."):
            # A mapping: its keys are the study's own names.
            found = [Address("site", None, inner)]
    return found


def _source(part: Part) -> str | None:
    """Where a workload's input comes from, when it says so."""
    return getattr(part.options, "source", None)


def _in_part(room: str, part: Part, field: str) -> list[Address]:
    kinds: dict[str, Any] = dict(target_room.kinds() if room == "target" else workload_room.kinds())
    return [Address(room, part.name, ".".join(path)) for path in find_field(kinds[part.kind].Options, field)]


def factor_names(study: Study) -> list[str]:
    """Names that a factor of this study may have, without the whole (qualified) forms."""
    names: list[str] = ["target", "workload", *RunOptions.model_fields]
    for room, parts in (("target", study.targets), ("workload", study.workloads)):
        kinds: dict[str, Any] = dict(target_room.kinds() if room == "target" else workload_room.kinds())
        for part in parts.values():
            names.extend(path[-1] for path in field_paths(kinds[part.kind].Options))
    return list(dict.fromkeys(names))
