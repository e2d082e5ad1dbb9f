"""The emulated drives of this machine, whichever process attached them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from headrace.errors import HeadraceError
from headrace.scenario import StorageSpec
from headrace.system import loops
from headrace.system.emulator.attaching import LABEL, PROGRAM
from headrace.system.emulator.control import ask
from headrace.system.emulator.report import Report
from headrace.system.identity import start_ticks


@dataclass(frozen=True)
class Running:
    """One running emulated drive."""

    pid: int
    start_ticks: int | None
    label: str
    """Label of its loop device."""
    device: Path | None
    """None while it is being attached or detached."""
    drives: tuple[str, ...]
    raid: str | None
    size_bytes: int
    data_limit_bytes: int
    control: Path
    report: Report | None
    """None when the process does not answer."""


def running() -> list[Running]:
    """Return all visible emulated drives (root sees all)."""
    found: list[Running] = []
    by_label = {loops.label_of(name): name for name in loops.attached()}
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, KeyError):
            arguments = (process / "cmdline").read_bytes().split(b"\0")
            if not process.name.isdigit() or Path(arguments[0].decode()).name != PROGRAM:
                continue
            if _is_guard(process):
                continue
            config = json.loads(Path(arguments[1].decode()).read_text())
            found.append(_running(int(process.name), config, by_label))
    return sorted(found, key=lambda one: str(one.device))


def unseen() -> list[Path]:
    """Return the emulated drives of this machine whose process this user may not ask."""
    named = (name for name, file in loops.attached().items() if file.name.startswith(LABEL))
    return sorted({Path("/dev") / name for name in named} - {one.device for one in running()})


def behind(device_names: Iterable[str]) -> list[int]:
    """Return the process ids of the emulated drives behind these loop devices."""
    labels = {loops.label_of(name) for name in device_names if name.startswith("loop")} - {None}
    found: list[int] = []
    for process in Path("/proc").iterdir() if labels else ():
        with contextlib.suppress(OSError, ValueError, KeyError, IndexError):
            arguments = (process / "cmdline").read_bytes().split(b"\0")
            if process.name.isdigit() and Path(arguments[0].decode()).name == PROGRAM:
                config = json.loads(Path(arguments[1].decode()).read_text())
                if config["source"] in labels:
                    found.append(int(process.name))
    return found


def _is_guard(process: Path) -> bool:
    parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
    with contextlib.suppress(OSError):
        return (Path("/proc") / parent / "cmdline").read_bytes() == (
            process / "cmdline"
        ).read_bytes()
    return False


class _Config(TypedDict):
    """The configuration that `attach` wrote."""

    source: str
    control: str
    size_bytes: int
    data_limit_bytes: int
    storage: StorageSpec | None


def _running(pid: int, config: _Config, by_label: dict[str | None, str]) -> Running:
    storage = config["storage"]
    raid = None if storage is None else storage.get("raid")
    control = Path(str(config["control"]))
    report = None
    with contextlib.suppress(HeadraceError):
        report = Report.of(ask(control, "report", timeout_s=2.0))
    name = by_label.get(str(config["source"]))
    return Running(
        pid=pid,
        start_ticks=start_ticks(pid),
        label=str(config["source"]),
        device=None if name is None else Path("/dev") / name,
        drives=tuple(str(drive.get("name")) for drive in (storage["drives"] if storage else ())),
        raid=None if raid is None else f"RAID {raid['level']} of {raid['drives']}",
        size_bytes=config["size_bytes"],
        data_limit_bytes=config["data_limit_bytes"],
        control=control,
        report=report,
    )
