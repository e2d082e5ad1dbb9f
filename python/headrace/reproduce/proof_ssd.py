"""Reproduction of *proof-ssd*: PROOF on HDD, SSD and their RAIDs (Panitkin et al., BNL)."""

from __future__ import annotations

from headrace.report.wording import plural
from headrace.reproduce.cells import ObtainedCells
from headrace.reproduce.published import (
    Finding,
    Number,
    Published,
    bound_of,
    error_of,
    range_error,
)
from headrace.reproduce.study import Figure, FreeParameter, Judge, Series, StudyModule
from headrace.units import format_change, format_share

DRIVES = ("hdd", "ssd", "hdd-raid0-3", "ssd-raid0-2")
SLOTS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12)
MB = 1e6

PARAMETERS = (
    FreeParameter(
        "CPU time of an event, scan",
        "profiles",
        "proof-bench-scan",
        ("steps", 1, "cpu_ns_per_event"),
        "ns",
        1e3,
        1e5,
        "scan-rate",
    ),
    FreeParameter(
        "bytes of a basket, scan",
        "profiles",
        "proof-bench-scan",
        ("steps", 1, "read_bytes"),
        "bytes",
        2e3,
        2e5,
        "scan-rate",
    ),
    FreeParameter(
        "CPU time of an event, analysis",
        "profiles",
        "atlas-h4l-analysis",
        ("steps", 1, "cpu_ns_per_event"),
        "ns",
        2e5,
        2e6,
        "single-job",
    ),
)

MISSING = {
    "scan-hdd-raid-drops-at-8": (
        "The study does not say what the eighth worker shares its core with: master, redirector "
        "and file server run on the node"
    ),
}


LEVEL = 1 / 3
"""A rate "levels" when it gains less than this share of what the added workers would contribute."""


def rate(cells: ObtainedCells, workload: str, drive: str, slots: int) -> float:
    """Return the rate that PROOF reports, MB/s: bytes that workers requested over the query's
    time."""
    return (
        cells.find("drives", target=drive, workload=workload, slots=slots).metric(
            "asked_bytes_per_s"
        )
        / MB
    )


def _of_farm(cells: ObtainedCells, drive: str, *, nodes: int, slots: int) -> float:
    return cells.find("farm", target=drive, nodes=nodes, slots=slots).metric("asked_bytes_per_s")


def numbers(cells: ObtainedCells, published: Published) -> list[Number]:
    """Return every published rate with the obtained one."""
    found: list[Number] = []
    for id, workload in (("scan-rate", "scan"), ("analysis-rate", "analysis")):
        table = published.tables[id]
        for row in range(len(table.rows)):
            drive, workers, given, relation = table.rows[row]
            obtained = rate(cells, workload, drive, workers)
            found.append(
                Number(
                    id,
                    row,
                    "analysis_rate_mb_s",
                    f"{drive}, {plural(workers, 'worker')}",
                    "MB/s",
                    f"{relation} {given:g}",
                    obtained,
                    error_of(given, obtained, relation),
                    "relative",
                    table.role_of(row, "analysis_rate_mb_s"),
                    target=bound_of(given, relation),
                    aim=float(given),
                )
            )
    table = published.tables["single-job"]
    low, high = table.value(0, "analysis_rate_mb_s_low"), table.value(0, "analysis_rate_mb_s_high")
    for drive in ("hdd", "ssd"):
        obtained = rate(cells, "analysis", drive, 1)
        found.append(
            Number(
                "single-job",
                0,
                "analysis_rate_mb_s",
                f"{drive}, 1 worker",
                "MB/s",
                f"{low:g} to {high:g}",
                obtained,
                range_error(low, high, obtained),
                "relative",
                table.role_of(0, "analysis_rate_mb_s_low"),
                target=(low, high),
                aim=(low + high) / 2,
            )
        )
    return found


Rates = dict[str, dict[int, float]]
"""MB/s by drive and workers."""


def _rates(cells: ObtainedCells, workload: str) -> Rates:
    return {
        drive: {slots: rate(cells, workload, drive, slots) for slots in SLOTS} for drive in DRIVES
    }


def findings(cells: ObtainedCells, published: Published) -> list[Finding]:
    """Return the thirteen claims, judged."""
    judge = Judge(published, MISSING)
    scan, full = _rates(cells, "scan"), _rates(cells, "analysis")
    _scan_on_one_drive(judge, scan)
    _analysis_on_one_drive(judge, full)
    _scan_on_raid(judge, scan)
    _analysis_on_raid(judge, full)
    _farm(judge, cells)
    return judge.done()


def _scan_on_one_drive(judge: Judge, scan: Rates) -> None:
    ratio = scan["ssd"][8] / scan["hdd"][8]
    judge.says(
        "scan-ssd-order-of-magnitude",
        7 <= ratio <= 14,
        f"{scan['ssd'][8]:.1f} against {scan['hdd'][8]:.1f} MB/s: {ratio:.1f} times",
    )
    most = max(scan["hdd"].values())
    judge.says("scan-hdd-ceiling", most <= 3.0 * 1.05, f"the HDD's highest rate is {most:.2f} MB/s")
    gain = scan["ssd"][12] / scan["ssd"][8] - 1
    judge.says(
        "scan-ssd-levels-at-cores",
        gain < LEVEL * (12 / 8 - 1) and scan["ssd"][8] > 1.5 * scan["ssd"][4],
        f"4, 8, 12 workers: {scan['ssd'][4]:.1f}, {scan['ssd'][8]:.1f}, {scan['ssd'][12]:.1f} MB/s",
    )


def _analysis_on_one_drive(judge: Judge, full: Rates) -> None:
    best = max(full["hdd"], key=lambda slots: full["hdd"][slots])
    judge.says(
        "analysis-hdd-peaks-at-2",
        best == 2 and full["hdd"][8] < 10,
        f"highest at {best} workers ({full['hdd'][best]:.1f} MB/s), {full['hdd'][8]:.1f} MB/s at 8",
    )
    ratio = full["ssd"][8] / full["hdd"][8]
    judge.says(
        "analysis-ssd-up-to-10x",
        6 <= ratio <= 12,
        f"{full['ssd'][8]:.1f} against {full['hdd'][8]:.1f} MB/s: {ratio:.1f} times",
    )


def _scan_on_raid(judge: Judge, scan: Rates) -> None:
    gains = {
        slots: scan["ssd-raid0-2"][slots] / scan["ssd"][slots] - 1 for slots in (1, 2, 3, 4, 8)
    }
    equal = all(abs(gains[slots]) < 0.05 for slots in (1, 2, 3, 4))
    judge.says(
        "scan-ssd-raid-no-gain",
        equal and -0.02 <= gains[8] <= 0.15,
        "gain of the RAID at 1, 2, 4, 8 workers: "
        + ", ".join(format_change(gains[slots], 1) for slots in (1, 2, 4, 8)),
    )
    raid = scan["hdd-raid0-3"]
    ratio = raid[7] / scan["hdd"][7]
    linear = all(raid[slots] > 0.97 * raid[slots - 1] for slots in range(2, 8))
    judge.says(
        "scan-hdd-raid-doubles",
        1.6 <= ratio <= 2.4 and linear,
        f"7 workers: {raid[7]:.2f} against {scan['hdd'][7]:.2f} MB/s, {ratio:.2f} times; "
        f"{'rising' if linear else 'not rising'} until then",
    )
    drop = 1 - raid[8] / raid[7]
    judge.says(
        "scan-hdd-raid-drops-at-8",
        0.10 <= drop <= 0.30,
        f"from 7 to 8 workers {format_change(-drop, 1)}",
    )


def _analysis_on_raid(judge: Judge, full: Rates) -> None:
    beyond = {drive: full[drive][12] / full[drive][10] - 1 for drive in ("ssd", "ssd-raid0-2")}
    judge.says(
        "analysis-raid-levels-at-10",
        all(gain < LEVEL * (12 / 10 - 1) for gain in beyond.values()),
        "from 10 to 12 workers: "
        + ", ".join(f"{drive} {format_change(gain, 1)}" for drive, gain in beyond.items()),
    )
    raid = full["hdd-raid0-3"]
    best = max(raid, key=lambda slots: raid[slots])
    ratio = raid[3] / full["hdd"][3]
    judge.says(
        "analysis-hdd-raid-peaks-at-3",
        best in (3, 4) and 2.0 <= ratio <= 4.0 and raid[8] < 0.9 * raid[3],
        f"highest at {best} workers ({raid[best]:.1f} MB/s), {ratio:.1f} times one HDD at 3, "
        f"{raid[8]:.1f} MB/s at 8",
    )
    need = {slots: slots * min(full["ssd"][1], full["ssd-raid0-2"][1]) for slots in SLOTS}
    fed = {slots: raid[slots] / need[slots] for slots in SLOTS}
    judge.says(
        "hdd-raid-no-help-beyond-4",
        all(fed[slots] < 0.7 for slots in (5, 6, 7, 8)),
        "share of what the workers could take at 4, 5, 8: "
        + ", ".join(format_share(fed[slots]) for slots in (4, 5, 8)),
    )
    gain = full["ssd-raid0-2"][8] / full["ssd"][8] - 1
    judge.says(
        "ssd-raid-10-to-20",
        0.08 <= gain <= 0.25,
        f"full analysis, 8 workers: {format_change(gain, 1)}",
    )


def _farm(judge: Judge, cells: ObtainedCells) -> None:
    worst = max(
        abs(
            _of_farm(cells, drive, nodes=8, slots=slots)
            / (8 * _of_farm(cells, drive, nodes=1, slots=slots))
            - 1
        )
        for drive in ("hdd", "ssd")
        for slots in (1, 8)
    )
    judge.says(
        "farm-sums",
        worst < 0.1,
        f"8 nodes differ from 8 times one node by at most {format_share(worst, 1)}",
    )


def figures(cells: ObtainedCells, published: Published) -> list[Figure]:
    """Return figures 1 to 3: rate against workers."""
    found: list[Figure] = []
    for id, workload, title in (
        ("scan-rate", "scan", "Sparse scan"),
        ("analysis-rate", "analysis", "Full analysis"),
    ):
        series = [
            Series(drive, SLOTS, tuple(rate(cells, workload, drive, slots) for slots in SLOTS))
            for drive in DRIVES
        ]
        table = published.tables[id]
        series += [
            Series(f"{row[0]}, published", (row[1],), (row[2],), published=True)
            for row in table.rows
        ]
        found.append(
            Figure(f"{title}: rate against workers", "workers", "MB/s", "lines", tuple(series))
        )
    return found


STUDY = StudyModule(
    id="proof-ssd",
    files=("proof-ssd/drives.toml", "proof-ssd/farm.toml"),
    parameters=PARAMETERS,
    numbers=numbers,
    findings=findings,
    figures=figures,
    missing=MISSING,
    calibration=lambda cell: (
        cell.file == "drives"
        and (
            (cell.workload, cell.target, cell.levels["slots"])
            in {
                ("scan", "hdd", 8),
                ("scan", "ssd", 8),
                ("scan", "hdd-raid0-3", 7),
                ("analysis", "ssd", 1),
                ("analysis", "hdd", 1),
            }
        )
    ),
)
