"""What tells configurations apart: the settings that differ between trials. Pure.

A study states most settings once, and varies few as factors. Result sets of several studies may
therefore differ in settings that are no factor of either. Each of those becomes a level here, with
the value that the trial's record has; a factor of one study that another one states is the same
setting.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from headrace.analysis.read import Records
from headrace.decision.facts import facts_of, site_of
from headrace.study.level_words import default_of, level_words, option_of

CHOICES, FACTS = "choices", "facts"
"""Columns of trials: the levels of a configuration that a study states, and those that only the
machine or the site has."""

NOT_SET = "not set"
"""Level of a setting that a study does not state and another one does."""

_NO_LEVELS = ("target", "workload", "slots", "nodes")
_NO_CHOICES: Mapping[str, frozenset[str]] = {
    # Where jobs run, and how carefully they are observed.
    "run": frozenset({
        "batch", "duration", "foreign_load", "node_patience", "node_silence", "nodes", "on",
        "python", "series_interval", "shortest", "slots", "start_spread", "timeout", "trace",
        "verify",
    }),
    # Names of places, which differ from one folder of a study to another.
    "target": frozenset({"create", "image", "patience", "path", "ping_timeout", "server_python"}),
    "workload": frozenset({"verify", "seed"}),
}  # fmt: skip
"""Last parts of the names of options that change no configuration."""
_OF_WORKLOAD = frozenset({
    "feed", "jobs", "load", "packet_events", "packet_longest", "packet_shortest", "packets",
    "workers_per_server",
})  # fmt: skip
"""Options of the run that belong to a workload: how its jobs are handed out."""


class _Setting(NamedTuple):
    """A field of a study."""

    section: str
    owner: str
    """Target or workload that has it; empty for the run."""
    path: str

    @property
    def name(self) -> str:
        """Its name as a factor."""
        return self.path.removeprefix("data.")


@dataclass
class _Kind:
    """Trials with equal settings, factors and levels."""

    target: str
    target_kind: str
    workload: str
    workload_kind: str
    settings: dict[_Setting, Any]
    factors: dict[_Setting, str]
    """The factor that varies a setting."""
    levels: dict[str, object]
    choices: dict[str, object] = field(default_factory=dict[str, object])

    def has(self, setting: _Setting) -> bool:
        """Return whether a setting may apply to these trials."""
        return setting.owner in ("", self.target if setting.section == "target" else self.workload)


def told_apart(sets: Sequence[Records]) -> list[Records]:
    """Return the result sets with the columns `CHOICES` and `FACTS`: the levels by which their
    configurations are told apart."""
    kinds: dict[tuple[Any, ...], _Kind] = {}
    rows = [_rows(records) for records in sets]
    of_row = [[_kind(row, kinds) for row in mine] for mine in rows]
    _choose(list(kinds.values()))
    choices = [[kind.choices for kind in mine] for mine in of_row]
    facts = _facts(sets, rows, choices)
    return [
        replace(records, trials=records.trials.assign(**{CHOICES: mine, FACTS: found}))
        if len(records.trials)
        else records
        for records, mine, found in zip(sets, choices, facts, strict=True)
    ]


def levels_of(row: Mapping[str, Any]) -> dict[str, object]:
    """Return the factors of a trial with their levels, without slots and nodes."""
    return {
        name: level
        for name, level in dict(row["levels"]).items()
        if name.removeprefix("run.") not in _NO_LEVELS and level is not None
    }


def _rows(records: Records) -> list[dict[str, object]]:
    return records.trials.to_dict("records") if len(records.trials) else []


def _kind(row: Mapping[str, Any], kinds: dict[tuple[Any, ...], _Kind]) -> _Kind:
    names = ("target_options", "workload_options", "run", "levels")
    # Rows of one folder share their equal values.
    shared = tuple(id(row.get(name)) for name in names)
    key = (row["target"], row["target_kind"], row["workload"], *shared)
    if key not in kinds:
        target, workload, levels = row["target"], row["workload"], levels_of(row)
        settings = {
            _Setting("target", target, "kind"): row["target_kind"],
            **_of_section("target", target, row.get("target_options")),
            **_of_section("workload", workload, row.get("workload_options")),
        }
        for setting, value in _of_section("run", "", row.get("run")).items():
            handed_out = setting.path.partition(".")[0] in _OF_WORKLOAD
            settings[setting._replace(owner=workload) if handed_out else setting] = value
        fields = {
            name: option_of(name, row["target_kind"], row.get("workload_kind") or "")
            for name in levels
        }
        factors = {
            setting: name
            for name, varied in fields.items()
            for setting in settings
            if varied is not None and _is_in(setting, varied)
        }
        of_workload = row.get("workload_kind") or ""
        kinds[key] = _Kind(
            target, row["target_kind"], workload, of_workload, settings, factors, levels
        )
    return kinds[key]


def _is_in(setting: _Setting, varied: tuple[str, tuple[str, ...]]) -> bool:
    """Return whether a setting is the field, or in the table, that a factor varies."""
    section, path = varied
    return setting.section == section and f"{setting.path}.".startswith(".".join(path) + ".")


def _of_section(section: str, owner: str, options: Any) -> dict[_Setting, Any]:
    return {
        _Setting(section, owner, path): value
        for path, value in _flat(options or {})
        if path.rpartition(".")[2] not in _NO_CHOICES[section]
    }


def _flat(options: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted name and the value of each option that is set."""
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")  # pyright: ignore[reportUnknownArgumentType]
        elif value not in (None, (), []):
            yield prefix + name, _without_folder(value)


def _without_folder(value: Any) -> Any:
    """Return a value, of paths the last part only: a study may have been moved."""
    if isinstance(value, (list, tuple)):
        return [_without_folder(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
    is_file = isinstance(value, str) and value.startswith("/") and not value.startswith("/dev/")
    return value.rpartition("/")[2] if is_file else value


def _choose(kinds: Sequence[_Kind]) -> None:
    """Set the levels by which trials of these kinds are told apart."""
    for kind in kinds:
        kind.choices = dict(kind.levels)
    settings = dict.fromkeys(setting for kind in kinds for setting in kind.settings)
    told = [each for each in settings if _is_told(each, kinds)]
    for setting in told:
        for kind in kinds:
            if kind.has(setting):
                kind.choices.pop(kind.factors.get(setting, ""), None)
    names = _names(told, frozenset(name for kind in kinds for name in kind.choices))
    for setting in told:
        for kind in kinds:
            if not kind.has(setting):
                continue
            if setting in kind.settings:
                kind.choices[names[setting]] = kind.settings[setting]
            elif _table_is_set(setting, kind.settings):
                kind.choices[names[setting]] = NOT_SET


def _is_told(setting: _Setting, kinds: Iterable[_Kind]) -> bool:
    """Return whether a setting differs and is not the same factor of all trials that have it."""
    mine = [kind for kind in kinds if kind.has(setting)]
    factors = {kind.factors.get(setting) for kind in mine if setting in kind.settings}
    if len(factors) == 1 and None not in factors:
        return False
    if factors != {None}:
        return True
    values = {repr(kind.settings.get(setting)) for kind in mine}
    return len(values) > 1 and not _is_default(setting, mine)


def _is_default(setting: _Setting, kinds: Sequence[_Kind]) -> bool:
    """Return whether a field of a table that only some trials have is the default in all of them:
    `raid.level` tells a RAID from a drive, its chunk of 64 KiB need not be named as well."""
    having = [kind for kind in kinds if _table_is_set(setting, kind.settings)]
    if len(having) == len(kinds):
        return False
    first = having[0]
    table = {
        each: default_of(each.section, each.path, first.target_kind, first.workload_kind)
        for each in first.settings
        if each[:2] == setting[:2] and each.path.startswith(setting.path.rpartition(".")[0] + ".")
    }
    own = {each: default for each, default in table.items() if first.settings[each] != default}
    if not own or setting not in table:
        return False
    return all(kind.settings.get(setting) == table[setting] for kind in having)


def _table_is_set(setting: _Setting, settings: Iterable[_Setting]) -> bool:
    """Return whether the table of a setting is there: `raid.level` is nothing without `raid`."""
    table, _, _ = setting.path.rpartition(".")
    return not table or any(
        each[:2] == setting[:2] and each.path.startswith(f"{table}.") for each in settings
    )


def _names(settings: Sequence[_Setting], used: Collection[str]) -> dict[_Setting, str]:
    """Return the names of settings, with their section where two sections have the same, or where
    it is a name in use."""
    sections: dict[str, set[str]] = {}
    for each in settings:
        sections.setdefault(each.name, set()).add(each.section)
    return {
        each: each.name
        if len(sections[each.name]) == 1 and each.name not in used
        else ".".join(part for part in each if part)
        for each in settings
    }


def _facts(
    sets: Sequence[Records],
    rows: Sequence[Sequence[Mapping[str, Any]]],
    choices: Sequence[Sequence[Mapping[str, Any]]],
) -> list[list[dict[str, object]]]:
    """Return for each trial the facts of its machine and site that tell it apart from others of the
    same target, settings, workload and provenance."""
    found: list[list[dict[str, object]]] = []
    seen: dict[tuple[Any, ...], dict[str, set[str]]] = {}
    firsts: dict[tuple[int, str, str], dict[str, object]] = {}
    for number, (records, mine, levels) in enumerate(zip(sets, rows, choices, strict=True)):
        site = site_of(records.study) if len(sets) > 1 else {}
        found.append([])
        for row, chosen in zip(mine, levels, strict=True):
            own = {**site, **facts_of(row, records.environments)}
            varied = {*chosen, *levels_of(row)}
            own = {name: v for name, v in own.items() if not _is_varied(name, varied)}
            same = (*_scope(row), row["workload"], row["slots"], row["nodes"], repr(chosen))
            for name, value in own.items():
                seen.setdefault(same, {}).setdefault(name, set()).add(repr(value))
            # A trial that failed early does not know all of them.
            first = firsts.setdefault((number, *_scope(row)), {})
            first.update({name: value for name, value in own.items() if name not in first})
            found[-1].append(own)
    apart: dict[tuple[str, str], set[str]] = {}
    for same, values in seen.items():
        several = {name for name, each in values.items() if len(each) > 1}
        apart.setdefault((same[0], same[1]), set()).update(several)
    return [
        [
            {
                name: value
                for name, value in {**firsts[number, *_scope(row)], **own}.items()
                if name in apart.get(_scope(row), ()) and (name in own or not row["valid"])
            }
            for row, own in zip(mine, facts, strict=True)
        ]
        for number, (mine, facts) in enumerate(zip(rows, found, strict=True))
    ]


def _scope(row: Mapping[str, Any]) -> tuple[str, str]:
    return str(row["target"]), str(row["provenance"])


def _is_varied(name: str, levels: Iterable[str]) -> bool:
    """Return whether a factor varies what a fact says: `link`, or `site.node.link`."""
    return any(f".{name}".endswith(f".{level.removeprefix('site.')}") for level in levels)


def words_of(name: str, level: Any, target_kind: str) -> str:
    """Return a level of a configuration for readers."""
    if level == NOT_SET:
        return f"{name.replace('.', ' ').replace('_', '-')} {NOT_SET}"
    return level_words(name, level, target_kind, "")
