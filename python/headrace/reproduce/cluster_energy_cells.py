"""Reproduction of *cluster-energy*: the cells of its study files by the factors that the thesis
varies, and their measures as in the thesis."""

from __future__ import annotations

from statistics import fmean

from headrace.catalog import entry
from headrace.engine.simulate.scenario import NODE
from headrace.records.trial_record import TrialRecord
from headrace.reproduce.cells import ObtainedCell, ObtainedCells

CORES = 4
DRIVE = {"hdd": "wd-wd3200bekt", "ssd": "corsair-f40"}
FILESYSTEMS = ("ext3", "ext4", "xfs")
SCHEDULERS = ("noop", "anticipatory", "deadline", "cfq")
# The thesis ran Linux 2.6.18.
LEVEL_OF_SCHEDULER = {"cfq": "cfq-2.6.18"}
SCHEMES = ("local", "nas", "glusterfs")
TARGET = {"local": "local", "nas": "nas", "glusterfs": "gluster"}
# The file-system tables of the thesis were measured with each scheme's best scheduler, the
# scheduler tables with its best file system.
BEST_SCHEDULER = {"local": "deadline", "nas": "noop"}
BEST_FILESYSTEM = {"hdd": "ext4", "ssd": "xfs"}
WHOLE, SAMPLE = "cms-tau-analysis", "cms-tau-analysis-sample"
"""The job, and the part of it that the study files run: the same reads from a part of the file."""
PARTS = 50
"""Number of such parts per job."""
POWER_SUPPLY = 0.8
"""Share of the power at the plug that reaches the drives: assumption, a server's power supply at
part load (80 PLUS)."""


def time_min(cell: ObtainedCell) -> float:
    """Return the mean processing time per relative slot, minutes."""
    return cell.metric("wall_s_per_relative_slot") / 60.0


def energy_wh(cell: ObtainedCell) -> float:
    """Return the energy per job, Wh: all energy of both meters, over all jobs."""
    return cell.metric("energy_wh_per_job")


def energy_as_published_wh(cell: ObtainedCell) -> float:
    """Return the value of the thesis's column: energy of the cluster over the jobs of one node
    (note `wh`)."""
    return cell.metric("cluster_energy_wh_per_job")


def combined(
    cells: ObtainedCells, scheme: str, drive: str, filesystem: str, scheduler: str, slots: int
) -> ObtainedCell:
    """Return a cell of the grid of file systems and schedulers."""
    return cells.find(
        "schemes",
        target=TARGET[scheme],
        drive=DRIVE[drive],
        filesystem=filesystem,
        scheduler=LEVEL_OF_SCHEDULER.get(scheduler, scheduler),
        slots=slots,
    )


def slotted(cells: ObtainedCells, scheme: str, drive: str, slots: int) -> ObtainedCell:
    """Return a cell of the sweep over slots."""
    return cells.find("slots", target=TARGET[scheme], drive=DRIVE[drive], slots=slots)


def variation(cells: list[ObtainedCell]) -> tuple[float, float]:
    """Return (energy: worst over best - 1, time: 1 - best over worst), as the thesis's own rows
    compute them."""
    energies = [energy_as_published_wh(cell) for cell in cells]
    times = [time_min(cell) for cell in cells]
    return max(energies) / min(energies) - 1, 1 - min(times) / max(times)


def by_filesystem(cells: ObtainedCells, scheme: str, drive: str, slots: int) -> list[ObtainedCell]:
    """Return the cells of a scheme that differ in the file system."""
    return [
        combined(cells, scheme, drive, filesystem, BEST_SCHEDULER[scheme], slots)
        for filesystem in FILESYSTEMS
    ]


def by_scheduler(cells: ObtainedCells, scheme: str, drive: str, slots: int) -> list[ObtainedCell]:
    """Return the cells of a scheme that differ in the scheduler."""
    return [
        combined(cells, scheme, drive, BEST_FILESYSTEM[drive], scheduler, slots)
        for scheduler in SCHEDULERS
    ]


def by_both(cells: ObtainedCells, scheme: str, drive: str, slots: int) -> list[ObtainedCell]:
    """Return all cells of a scheme and drive."""
    return [
        combined(cells, scheme, drive, filesystem, scheduler, slots)
        for filesystem in FILESYSTEMS
        for scheduler in SCHEDULERS
    ]


def gains(cells: ObtainedCells, drive: str) -> dict[str, float]:
    """Return the gain in time from relative slot size 1 to 3, by scheme."""
    return {
        scheme: 1
        - time_min(slotted(cells, scheme, drive, 12)) / time_min(slotted(cells, scheme, drive, 4))
        for scheme in SCHEMES
    }


def nas_over_idle_w(cells: ObtainedCells, drive: str, state: str) -> float:
    """Return the NAS's power above that of the bare machine: its four idle drives, or drives and
    cores in a run."""
    if state == "idle":
        return 4 * float(entry("drives", DRIVE[drive]).table["power"]["idle_w"]) / POWER_SUPPLY
    bare_w = float(entry("nodes", "dell-r710").written["power"]["idle_w"])
    watts = [
        ((record.energy.servers_j or 0.0) + drives_j(record, of_nodes=False) / POWER_SUPPLY)
        / record.duration_s
        for record in slotted(cells, "nas", drive, 12).records
    ]
    return fmean(watts) - bare_w


def drives_j(record: TrialRecord, *, of_nodes: bool) -> float:
    """Return the energy of the drives of the nodes, or of the servers."""
    return sum(
        drive.energy_j
        for drive in record.drives
        if (drive.host.partition("[")[0] == NODE) == of_nodes
    )


def node_w(cell: ObtainedCell) -> float:
    """Return the mean power of a node with its drives, while jobs ran."""
    watts = [
        ((record.energy.nodes_j or 0.0) + drives_j(record, of_nodes=True))
        / record.duration_s
        / record.nodes
        for record in cell.records
    ]
    return fmean(watts)
