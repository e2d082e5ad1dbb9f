"""Step 1 of the pipeline: the parts of a study file, checked against the options of their kinds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from headrace import faults as fault_package
from headrace import launchers
from headrace import meters as meter_package
from headrace import probes as probe_package
from headrace import targets as target_package
from headrace import workloads as workload_package
from headrace.catalog import entry
from headrace.document import FieldPath, as_key
from headrace.errors import StudyError
from headrace.site import OF_CODE, OF_WORKLOADS, Site, has_field
from headrace.study.fields import anchor_drives, anchored_fields, entry_names
from headrace.study.model import NamedPlugin
from headrace.validation import Model, Problems

_SEVERAL = {
    "run": "several levels go in [factors]: {} = […]",
    "site": "several levels go in [factors]: site.{} = […]",
}
"""Sections with fields that factors vary -> what to do with an array where one value is allowed."""


class PartsReader:
    """Reads targets, workloads, faults and sections; adds problems to `problems`."""

    def __init__(self, problems: Problems, base: Path) -> None:
        self.problems = problems
        self.base = base
        """Directory that relative paths refer to."""

    def section(self, name: str, model: type[Model]) -> Model | None:
        """Return a table such as `[run]`; its defaults when the file has none."""
        table = self.problems.table((name,), self.problems.document.values.get(name, {}))
        if table is None:
            return None
        if name == "site":
            self.known_entries((name,), table)
            table = self.anchored_drives((name,), table)
        several = _SEVERAL.get(name, "")
        return self.problems.validated((name,), table, model, several=several)

    def parts(self, section: str, kinds: Mapping[str, Any]) -> dict[str, NamedPlugin]:
        """Return the targets or workloads by name, without those of unknown kind."""
        values = self.problems.document.values.get(section)
        if values is None or values == {}:
            self.problems.add((section,), f"a study needs at least one [{section}.NAME]")
            return {}
        found: dict[str, NamedPlugin] = {}
        for name, written in (self.problems.table((section,), values) or {}).items():
            part = self._part(section, name, written, kinds)
            if part is not None:
                found[name] = part
        return found

    def _part(
        self, section: str, name: str, written: object, kinds: Mapping[str, Any]
    ) -> NamedPlugin | None:
        path: FieldPath = (section, name)
        table = self.problems.table(path, written)
        if table is None:
            return None
        kind = self.problems.choice((*path, "kind"), table.get("kind"), kinds, "unknown kind")
        if kind is None:
            return None
        own = {key: value for key, value in table.items() if key != "kind"}
        self.known_entries(path, own)
        before = len(self.problems.found)
        own = self.anchored(path, kinds[kind].Options, own)
        several = f"several levels go in [factors]: {section}.{as_key(name)}.{{}} = […]"
        options = self.problems.validated(path, own, kinds[kind].Options, several=several)
        if options is not None and len(self.problems.found) == before:
            self.check_own_files(path, options)
        if len(self.problems.found) > before:
            options = None  # prevents reporting the same problem again for levels of factors
        return NamedPlugin(name=name, kind=kind, written=own, options=options)

    def injected_faults(self, targets: dict[str, NamedPlugin]) -> list[Any]:
        """Return the options of every `[[fault]]`; None for an invalid one."""
        kinds = fault_package.kinds()
        found: list[Any] = []
        values = self.problems.document.values.get("fault", [])
        for path, table in self.problems.tables(("fault",), values):
            what = self.problems.choice((*path, "what"), table.get("what"), kinds, "unknown fault")
            if what is None:
                found.append(None)
                continue
            if table.get("target") is not None:
                self.problems.choice(
                    (*path, "target"), table["target"], list(targets), "no such target"
                )
            found.append(self.problems.validated(path, table, kinds[what].Options))
        return found

    def meters(self, targets: dict[str, NamedPlugin], site: Site | None) -> dict[str, NamedPlugin]:
        """Return the power meters by name, without those of unknown kind."""
        values = self.problems.document.values.get("meter", {})
        found: dict[str, NamedPlugin] = {}
        for name, written in (self.problems.table(("meter",), values) or {}).items():
            part = self._part("meter", name, written, meter_package.kinds())
            if part is not None:
                found[name] = part
                if part.options is not None:
                    self._check_covered(("meter", name), part.options, targets, site)
        return found

    def probes(self) -> dict[str, NamedPlugin]:
        """Return the probes of monitoring services by name, without those of unknown kind."""
        values = self.problems.document.values.get("probe", {})
        found: dict[str, NamedPlugin] = {}
        for name, written in (self.problems.table(("probe",), values) or {}).items():
            if not re.fullmatch(r"[\w-]+", name):  # it becomes the name of a file
                allowed = "letters, digits, - and _"
                self.problems.add(("probe", name), "not a name", given=name, allowed=allowed)
                continue
            part = self._part("probe", name, written, probe_package.service_kinds())
            if part is not None:
                found[name] = part
        return found

    def _check_covered(
        self,
        path: FieldPath,
        options: meter_package.MeterOptions,
        targets: dict[str, NamedPlugin],
        site: Site | None,
    ) -> None:
        """Report names in `of` that are not of the boundary that the meter covers."""
        if not options.of:
            return
        known: dict[str, list[str]] = {
            "device": ["drives", "switch"],
            "node": self._node_names(site),
            "server": [
                *(site.server if site is not None else ()),
                *targets,
                *_agents_of(targets),
            ],
        }
        if options.covers not in known:
            allowed = ", ".join(f'covers = "{boundary}"' for boundary in known)
            problem = "names parts of what `covers` says, which is missing or has none"
            self.problems.add((*path, "of"), problem, allowed=f"with {allowed}")
            return
        for index, name in enumerate(options.of):
            problem = f"no such {options.covers}"
            self.problems.choice((*path, "of", index), name, known[options.covers], problem)

    def _node_names(self, site: Site | None) -> list[str]:
        """Return the names of nodes, as in records. This machine alone is node-1."""
        counts = [1 if site is None else site.node.count, *self._given("nodes")]
        most = max(count for count in counts if isinstance(count, int))
        places = self._given("on")
        alone = [] if places and all(map(_is_elsewhere, places)) else ["node-1"]
        return list(dict.fromkeys([*(f"node-{number}" for number in range(most)), *alone]))

    def _given(self, name: str) -> list[object]:
        """Return the values that the file gives a field of `[run]`: there, and as levels."""
        values = self.problems.document.values
        found: list[object] = []
        for table, field in (("run", name), ("factors", name), ("factors", f"run.{name}")):
            section = values.get(table)
            given: object = section.get(field) if isinstance(section, dict) else None
            found += given if isinstance(given, list) else [given]
        return [each for each in found if each is not None]

    def check_sources(
        self, targets: dict[str, NamedPlugin], workloads: dict[str, NamedPlugin], site: Site | None
    ) -> None:
        """Report workloads whose input comes from neither a target nor a server of the site."""
        known = [*targets, *(site.server if site is not None else ())]
        for name, part in workloads.items():
            source = source_of(part)
            if source is not None:
                place: FieldPath = ("workload", name, "source")
                self.problems.choice(place, source, known, "no such target, nor server of the site")

    def check_calibrated(
        self,
        site: Site | None,
        targets: Mapping[str, object],
        workloads: Mapping[str, NamedPlugin],
    ) -> None:
        """Report learnt values of targets and workloads that the study does not have, and of fields
        that a workload does not have."""
        if site is None or site.calibration is None:
            return
        learnt = site.calibration
        known = {**dict.fromkeys(OF_WORKLOADS, workloads), "target": targets}
        for field, parts in known.items():
            given = getattr(learnt, field)
            for name in given if isinstance(given, dict) else ():
                place: FieldPath = ("site", "calibration", field, name)
                self.problems.choice(place, name, list(parts), "no such part of the study")
        for field in OF_CODE:
            for name, fields in getattr(learnt, field).items():
                for each in fields if name in workloads else ():
                    if not has_field(workloads[name].options, each):
                        where: FieldPath = ("site", "calibration", field, name, each)
                        self.problems.add(where, f"workload {name} has no such field", given=each)

    def check_own_files(
        self, path: FieldPath, options: BaseModel, *, at: FieldPath | None = None
    ) -> None:
        """Report problems with the user's own files that a workload reads, at their field or at
        `at`.
        """
        wrong_fields = getattr(options, "wrong_fields", None)
        for place, problem in wrong_fields() if wrong_fields is not None else ():
            where: FieldPath = at or (*path, *place)
            while isinstance(where[-1], int) and where not in self.problems.document.lines:
                where = where[:-1]  # a single file, not an array
            self.problems.add(where, problem)

    # -- paths and drives --

    def known_entries(
        self, path: FieldPath, table: dict[str, Any], *, at: FieldPath | None = None
    ) -> None:
        """Report entries that the catalog lacks or whose file is invalid, at their field or at
        `at`.
        """
        for place, shelf, name in entry_names(table):
            try:
                entry(shelf, name, base=self.base)
            except StudyError as error:
                if name.endswith(".toml") and all(each.line for each in error.problems):
                    seen = self.problems.found
                    self.problems.found += [each for each in error.problems if each not in seen]
                    continue
                given: Any = table
                for key in place:
                    given = given[key]
                for each in error.problems:
                    where = at or (*path, *place)
                    self.problems.add(where, each.problem, given=given, allowed=each.allowed)

    def anchored(
        self,
        path: FieldPath,
        model: type[BaseModel],
        written: dict[str, Any],
        *,
        at: FieldPath | None = None,
    ) -> dict[str, Any]:
        """Make relative paths absolute: a study must not depend on the working directory."""
        written, wrong = anchored_fields(model, written, self.base)
        for name, value, problem in wrong:
            self.problems.add(at or (*path, name), problem, given=value)
        return self.anchored_drives(path, written, at=at)

    def anchored_drives(
        self, path: FieldPath, written: dict[str, Any], *, at: FieldPath | None = None
    ) -> dict[str, Any]:
        """Make the paths of drives given as files absolute."""
        try:
            return anchor_drives(written, self.base)
        except ValueError as error:
            self.problems.add(at or path, str(error))
            return written


def source_of(part: NamedPlugin) -> str | None:
    """Return the source of a workload's input, if the workload names one."""
    return getattr(part.options, "source", None)


def kinds_of(section: str) -> Mapping[str, Any]:
    """Return the kinds of a section, `target` or `workload`."""
    return target_package.kinds() if section == "target" else workload_package.kinds()


def _is_elsewhere(on: object) -> bool:
    """Return whether a value of `[run] on` names other machines."""
    kind = launchers.split_on(str(on))[0]
    kinds = launchers.kinds()
    return kind in kinds and kinds[kind].elsewhere


def _agents_of(targets: Mapping[str, NamedPlugin]) -> list[str]:
    """Return the names of servers that have an agent, as in records."""
    given = (getattr(part.options, "server_agents", None) for part in targets.values())
    most = max((len(each.split(",")) for each in given if each), default=0)
    return [f"server-{number}" for number in range(most)]
