"""Reproduction of *cluster-energy*: the cells of its study files by what the thesis varies, and what it says of each."""

from __future__ import annotations

from functools import cache

from headrace.catalog import entry
from headrace.reproduce.cells import Cell, Cells

NODES = 3
CORES = 4
DRIVE = {"hdd": "wd-wd3200bekt", "ssd": "corsair-f40"}
FILESYSTEMS = ("ext3", "ext4", "xfs")
SCHEDULERS = ("noop", "anticipatory", "deadline", "cfq")
SCHEMES = ("local", "nas", "glusterfs")
TARGET = {"local": "local", "nas": "nas", "glusterfs": "gluster"}
# The file-system tables of the thesis were taken with each scheme's best scheduler, the scheduler tables with its best file system.
BEST_SCHEDULER = {"local": "deadline", "nas": "noop"}
BEST_FILESYSTEM = {"hdd": "ext4", "ssd": "xfs"}
WHOLE, SAMPLE = "cms-tau-analysis", "cms-tau-analysis-sample"
"""The job, and the part of it that the study files run: the same reads of a part of the file."""
PARTS = 50
"""How many such parts a job has."""
POWER_SUPPLY = 0.8
"""Share of the power at the plug that reaches the drives: assumption, a server's power supply at part load (80 PLUS)."""


@cache
def sampled_part() -> float:
    """Whole jobs over the sampled part that is run: times and energies grow with the number of reads."""
    whole, part = (entry("profiles", name).written["steps"][2]["count"] for name in (WHOLE, SAMPLE))
    return float(whole) / float(part)


def time_min(cell: Cell, slots: int) -> float:
    """Mean processing time a relative slot, minutes."""
    return cell.wall_s * sampled_part() / 60.0 / (slots / CORES)


def energy_wh(cell: Cell) -> float:
    """Energy a job, Wh: everything that the two meters saw, over all jobs."""
    return cell.total_j * sampled_part() / 3600.0 / len(cell.jobs)


def energy_as_published_wh(cell: Cell) -> float:
    """The thesis's column: energy of the cluster over the jobs of one node (note `wh`)."""
    return energy_wh(cell) * NODES


def combined(cells: Cells, scheme: str, drive: str, filesystem: str, scheduler: str, slots: int) -> Cell:
    """A cell of the grid of file systems and schedulers."""
    return cells.find(
        "schemes",
        target=TARGET[scheme],
        drive=DRIVE[drive],
        filesystem=filesystem,
        scheduler=scheduler,
        slots=slots,
    )


def slotted(cells: Cells, scheme: str, drive: str, slots: int) -> Cell:
    """A cell of the sweep over slots."""
    return cells.find("slots", target=TARGET[scheme], drive=DRIVE[drive], slots=slots)


def variation(cells: list[Cell], slots: int) -> tuple[float, float]:
    """(energy: worst over best - 1, time: 1 - best over worst), the two forms that the thesis's own rows follow."""
    energies = [energy_as_published_wh(cell) for cell in cells]
    times = [time_min(cell, slots) for cell in cells]
    return max(energies) / min(energies) - 1, 1 - min(times) / max(times)


def by_filesystem(cells: Cells, scheme: str, drive: str, slots: int) -> list[Cell]:
    """The cells of a scheme that differ in the file system."""
    return [
        combined(cells, scheme, drive, filesystem, BEST_SCHEDULER[scheme], slots)
        for filesystem in FILESYSTEMS
    ]


def by_scheduler(cells: Cells, scheme: str, drive: str, slots: int) -> list[Cell]:
    """The cells of a scheme that differ in the scheduler."""
    return [
        combined(cells, scheme, drive, BEST_FILESYSTEM[drive], scheduler, slots) for scheduler in SCHEDULERS
    ]


def by_both(cells: Cells, scheme: str, drive: str, slots: int) -> list[Cell]:
    """All cells of a scheme and drive."""
    return [
        combined(cells, scheme, drive, filesystem, scheduler, slots)
        for filesystem in FILESYSTEMS
        for scheduler in SCHEDULERS
    ]


def gains(cells: Cells, drive: str) -> dict[str, float]:
    """Gain in time from relative slot size 1 to 3, by scheme."""
    return {
        scheme: 1
        - time_min(slotted(cells, scheme, drive, 12), 12) / time_min(slotted(cells, scheme, drive, 4), 4)
        for scheme in SCHEMES
    }


def nas_over_idle_w(cells: Cells, drive: str, state: str) -> float:
    """What the NAS's meter shows above the bare machine: its four idle drives, or drives and cores in a run."""
    if state == "idle":
        return 4 * float(entry("drives", DRIVE[drive]).table["power"]["idle_w"]) / POWER_SUPPLY
    cell = slotted(cells, "nas", drive, 12)
    drives_j = sum(each["energy_j"] for each in cell.drives if each["host"].startswith("nas"))
    bare_w = float(entry("nodes", "dell-r710").written["power"]["idle_w"])
    return (cell.servers_j - drives_j + drives_j / POWER_SUPPLY) / cell.end_s - bare_w
