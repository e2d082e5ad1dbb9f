"""The parameters of a site that can be learnt: their bounds, and the cells that each acts on."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import tomlkit

from headrace.calibration.choices import Choices, most_common
from headrace.scenario import Scenario
from headrace.site import SiteCalibration
from headrace.units import format_bytes_per_s

Unit = Literal["times", "s", "bytes/s", "share"]
_IN_PROCESS = ("xrootd", "eos", "hdfs")
"""Kinds of services whose client is a library that each job starts; kernels mount the others."""
_BUSY: tuple[float, float, float, Unit] = (0.05, 0.0, 0.7, "share")
"""Start and bounds of what a core loses to busy neighbours."""


@dataclass(frozen=True)
class Learnable:
    """One parameter. It is fitted on the logarithm of its value, a share on the value itself."""

    path: tuple[str, ...]
    """Place in `[site.calibration]`."""
    start: float
    low: float
    high: float
    unit: Unit
    target: str | None = None
    """The target whose cells it acts on; None: every target's."""
    workload: str | None = None
    choice: tuple[str, str] | None = None
    """A field of the workload and its word: the cells it acts on have it; None: all."""

    @cached_property  # a fit asks for it a hundred thousand times
    def name(self) -> str:
        """Dotted path below `[site.calibration]`, as TOML has it."""
        return ".".join(tomlkit.key(each).as_string() for each in self.path)

    def acts_on(self, target: str, workload: str, choices: Choices) -> bool:
        """Return whether it can change cells of this target and workload, with these words."""
        chosen = self.choice is None or choices.get(self.choice[0]) == self.choice[1]
        return chosen and self.target in (None, target) and self.workload in (None, workload)

    def scaled(self, value: float) -> float:
        """Scale a value to 0..1 over the bounds."""
        if self.unit == "share":
            return (value - self.low) / (self.high - self.low)
        return math.log(value / self.low) / math.log(self.high / self.low)

    def value(self, scaled: float) -> float:
        """Return the value of a scaled one: the inverse of `scaled`."""
        if self.unit == "share":
            return self.low + scaled * (self.high - self.low)
        return self.low * (self.high / self.low) ** scaled

    def text(self, value: float) -> str:
        """Return a value as a study file has it."""
        if self.unit == "s":
            return f'"{value * 1e6:.4g} us"'
        return f"{value:.4g}"

    def words(self, value: float) -> str:
        """Return a value for people."""
        if self.unit == "s":
            return f"{value * 1e6:.3g} us"
        if self.unit == "bytes/s":
            return format_bytes_per_s(float(f"{value:.3g}"))
        return f"{value:.3g}" if self.unit == "share" else f"x {value:.3g}"


@dataclass(frozen=True)
class ModelledCell:
    """A cell to learn from, and its scenario before anything is learnt."""

    target: str
    workload: str
    scenario: Scenario
    known_drive: bool
    """Whether the drive is the one of the catalog (emulated), so that its rates are known."""
    choices: Choices


def has_known_drive(options: object) -> bool:
    """Return whether a target, given by its options, is on emulated drives."""
    places = [options, *(getattr(options, name, None) for name in ("export", "bricks"))]
    return any(getattr(place, "drive", None) is not None for place in places)


def learnables(cells: Sequence[ModelledCell], several_slots: bool) -> list[Learnable]:
    """Return the parameters of cells. `several_slots`: whether some cells have more than one."""
    found: dict[str, Learnable] = {}

    def add(each: Learnable) -> None:
        found.setdefault(each.name, each)

    plain = {cell.workload for cell in cells if not _client_in_process(cell)}
    usual = {
        name: most_common(cell.choices for cell in cells if cell.workload == name)
        for name in {cell.workload for cell in cells}
    }
    for cell in cells:
        if _computes(cell.scenario):
            name = cell.workload
            add(Learnable(("cpu", name), 1.0, 0.05, 20.0, "times", workload=name))
            for choice in _other_code(cell, usual[name]):
                place = ("cpu_of", name, *choice)
                add(Learnable(place, 1.0, 0.05, 20.0, "times", workload=name, choice=choice))
            add(Learnable(("cache_reload", name), 1e-4, 1e-6, 0.01, "s", workload=name))
        else:
            add(Learnable(("call",), 1e-6, 1e-7, 1e-3, "s"))
            add(Learnable(("copy_rate",), 8e9, 1e8, 1e11, "bytes/s"))
        for each in _of_target(cell, cell.workload in plain):
            add(each)
        if several_slots:
            # What waits for memory loses more to busy neighbours than what computes in its cache.
            name = cell.workload
            add(Learnable(("busy_core_slowdown", name), *_BUSY, workload=name))
            for choice in _other_code(cell, usual[name]):
                place = ("busy_core_slowdown_of", name, *choice)
                add(Learnable(place, *_BUSY, workload=name, choice=choice))
    return list(found.values())


def _other_code(cell: ModelledCell, usual: Choices) -> list[tuple[str, str]]:
    """Return the fields and words of a cell that are not the usual ones."""
    return [(each, word) for each, word in cell.choices.items() if word != usual[each]]


def _computes(scenario: Scenario) -> bool:
    words = ("cpu_ns", "cpu_after_ns", "cpu_ns_per_event")

    def in_steps(steps: Sequence[Mapping[str, object]]) -> bool:
        return any(
            any(step.get(word) for word in words) or in_steps(_inner(step)) for step in steps
        )

    return any(in_steps(profile["steps"]) for profile in scenario["profiles"])


def _creates(scenario: Scenario) -> bool:
    """Return whether jobs create files again and again."""

    def in_steps(steps: Sequence[Mapping[str, object]]) -> bool:
        return any(step["do"] == "create" or in_steps(_inner(step)) for step in steps)

    return any(
        in_steps(_inner(step)) for profile in scenario["profiles"] for step in profile["steps"]
    )


def _inner(step: Mapping[str, object]) -> Sequence[Mapping[str, object]]:
    inner = step.get("steps", ())
    return inner if isinstance(inner, list) else ()


def _client_in_process(cell: ModelledCell) -> bool:
    services = cell.scenario["services"]
    return any(each["name"] == cell.target and each["kind"] in _IN_PROCESS for each in services)


def _of_target(cell: ModelledCell, elsewhere: bool) -> list[Learnable]:
    """Return the parameters of a cell's target. `elsewhere`: another target without a client in the
    job runs its workload, so that the client's CPU time can be told from the work."""
    target, scenario = cell.target, cell.scenario

    def of(field: str, start: float, low: float, high: float, unit: Unit) -> Learnable:
        # A catalog's value may be beyond what is possible here: a controller that takes no time.
        begin = min(max(start, low), high)
        return Learnable(("target", target, field), begin, low, high, unit, target=target)

    drive, kind = _drive_values(scenario, target)
    made = [of("drive_read", drive["read"], 1e-7, 0.05, "s")]
    if not cell.known_drive:
        made.append(of("drive_rate", drive["rate"], 1e6, 2e10, "bytes/s"))
    if _writes(scenario) and kind == "ssd":
        made.append(of("drive_write", drive["write"], 1e-7, 0.05, "s"))
    if _creates(scenario):
        # By file system: one that is full and old takes twice the time of a new one.
        made.append(of("create", 1.0, 0.05, 20.0, "times"))
    if scenario.get("one_machine"):
        # Known where the CPU time of all that is not a job is: on the cores that jobs share.
        made.append(of("beside_job", 5e-3, 1e-5, 1.0, "s"))
        made.append(of("beside_request", 2e-5, 1e-6, 0.01, "s"))
    kinds = [each["kind"] for each in scenario["services"] if each["name"] == target]
    if kinds:
        port = scenario["nodes"][0]["network"]
        made += [
            of("network_latency", max(port["latency_ns"], 1000) * 1e-9, 1e-6, 0.2, "s"),
            of("network_rate", port["rate_bytes_per_s"], 1e6, 2e10, "bytes/s"),
            of("server_request", 30e-6, 1e-6, 0.02, "s"),
            of("server_rate", 4e9, 1e7, 1e11, "bytes/s"),
            of("client_request", 10e-6, 1e-7, 0.02, "s"),
            of("server_open", 100e-6, 1e-6, 0.2, "s"),
        ]
    if _client_in_process(cell):
        made.append(of("client_start", 20e-3, 1e-4, 5.0, "s"))
        if elsewhere:
            made.append(of("client_start_cpu", 5e-3, 1e-4, 5.0, "s"))
    return made


def _writes(scenario: Scenario) -> bool:
    return any(files["share"] == "new" for files in scenario["files"]) or any(
        step.get("op") == "write" or step["do"] == "write" or step.get("read_fraction", 1) != 1
        for profile in scenario["profiles"]
        for step in profile["steps"]
    )


def _drive_values(scenario: Scenario, target: str) -> tuple[dict[str, float], str]:
    """Return start values and the kind of the drive that holds a target's data."""
    values = {"read": 1e-5, "write": 1e-5, "rate": 5e8}
    volumes = [
        volume
        for host in (*scenario["servers"], *scenario["nodes"])
        for volume in host.get("volumes", ())
        if volume["name"] == target or host in scenario["servers"]
    ]
    for volume in volumes:
        if "storage" not in volume:
            continue
        drive: Mapping[str, object] = {**volume["storage"]["drives"][0]}
        controller, rates = drive.get("controller"), drive.get("rates")
        if isinstance(controller, dict):
            values["read"] = controller.get("read_overhead_us", 10) * 1e-6
            values["write"] = controller.get("write_overhead_us", 10) * 1e-6
        overhead_us = drive.get("controller_overhead_us")
        if isinstance(overhead_us, (int, float)):
            values["read"] = overhead_us * 1e-6
        rate = rates["outer_bytes_per_s"] if isinstance(rates, dict) else drive["link_bytes_per_s"]
        if isinstance(rate, (int, float)):
            values["rate"] = float(rate)
        return values, str(drive["kind"])
    return values, "ideal"


def as_calibration(values: Mapping[str, float]) -> SiteCalibration:
    """Return learnt values, given by dotted path, as the table of a site."""
    lines = (f"{name} = {float(value)!r}\n" for name, value in values.items())
    return SiteCalibration.model_validate(tomllib.loads("".join(lines)))
