"""Reproduction in real time of *proof-ssd*: PROOF's scan and analysis with 1 to 8 workers on
emulated drives and their RAIDs."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.report.wording import plural
from headrace.reproduce.published import Published
from headrace.reproduce.small_study import (
    JudgedClaim,
    Rates,
    SmallCells,
    SmallStudy,
    SmallStudyRow,
    best,
    judged,
)
from headrace.units import format_change

FILE = "emulated-drives"
DRIVES = ("hdd", "ssd", "hdd-raid0-3", "ssd-raid0-2")
SLOTS = (1, 2, 3, 8)
MB = 1e6


def _rates(cells: SmallCells, workload: str, drive: str) -> Rates:
    """Return the rate that workers requested, MB/s, against their number."""
    found: Rates = {}
    for slots in SLOTS:
        rate = cells.bytes_per_s(FILE, target=drive, workload=workload, slots=slots)
        found[slots] = None if rate is None else rate / MB
    return found


def rows(simulated: SmallCells, emulated: SmallCells, published: Published) -> list[SmallStudyRow]:
    """Return every rate, with the published one of the same drive and number of workers where
    there is one."""
    found: list[SmallStudyRow] = []
    for id, workload in (("scan-rate", "scan"), ("analysis-rate", "analysis")):
        given = {(row[0], row[1]): f"{row[3]} {row[2]:g}" for row in published.tables[id].rows}
        for drive in DRIVES:
            s, e = _rates(simulated, workload, drive), _rates(emulated, workload, drive)
            found += [
                SmallStudyRow(
                    id,
                    f"{drive}, {plural(slots, 'worker')}",
                    "MB/s",
                    given.get((drive, slots), ""),
                    s[slots],
                    e[slots],
                )
                for slots in SLOTS
            ]
    return found


def _ratio(rates: Rates, a: str, b: str, slots: int) -> float:
    return (rates[a, slots] or 0.0) / (rates[b, slots] or 1.0)


def _shape(rates: Rates) -> str:
    return (
        ", ".join(f"{slots}: {rate:.1f}" for slots, rate in rates.items() if rate is not None)
        + " MB/s"
    )


@dataclass(frozen=True)
class _Pairs:
    """Rates of the simulated and the emulated study."""

    simulated: SmallCells
    emulated: SmallCells

    def of(self, workload: str, drive: str) -> tuple[Rates, Rates]:
        return _rates(self.simulated, workload, drive), _rates(self.emulated, workload, drive)

    def two(self, workload: str, a: str, b: str, slots: tuple[int, ...]) -> tuple[Rates, Rates]:
        """Return the rates of two drives together."""
        made: list[Rates] = []
        for cells in (self.simulated, self.emulated):
            first, second = _rates(cells, workload, a), _rates(cells, workload, b)
            made.append({**{(a, n): first[n] for n in slots}, **{(b, n): second[n] for n in slots}})
        return made[0], made[1]


def findings(
    simulated: SmallCells, emulated: SmallCells, published: Published
) -> list[JudgedClaim]:
    """Return the findings on order and shape."""
    pairs = _Pairs(simulated, emulated)
    return [*_on_one_drive(pairs), *_on_raid(pairs)]


def _on_one_drive(pairs: _Pairs) -> list[JudgedClaim]:
    return [
        judged(
            "scan-ssd-order-of-magnitude",
            "sparse scan, 8 workers: the SSD is an order of magnitude ahead of the HDD",
            lambda rates: _ratio(rates, "ssd", "hdd", 8) >= 5,
            lambda rates: f"{_ratio(rates, 'ssd', 'hdd', 8):.1f} times",
            *pairs.two("scan", "ssd", "hdd", (8,)),
        ),
        judged(
            "analysis-hdd-peaks-at-2",
            "full analysis: the HDD is best at about 2 workers and worse beyond",
            lambda rates: (
                best(rates) in (2, 3) and (rates[8] or 0) < 0.97 * (rates[best(rates)] or 0)
            ),
            _shape,
            *pairs.of("analysis", "hdd"),
        ),
        judged(
            "analysis-ssd-ahead",
            "full analysis, 8 workers: the SSD is several times the HDD",
            lambda rates: _ratio(rates, "ssd", "hdd", 8) >= 2,
            lambda rates: f"{_ratio(rates, 'ssd', 'hdd', 8):.1f} times",
            *pairs.two("analysis", "ssd", "hdd", (8,)),
        ),
    ]


def _on_raid(pairs: _Pairs) -> list[JudgedClaim]:
    return [
        judged(
            "hdd-raid-helps-few-workers",
            "full analysis: 3 HDDs in RAID 0 help up to a few workers",
            lambda rates: (
                max(_ratio(rates, "hdd-raid0-3", "hdd", slots) for slots in (2, 3)) >= 1.25
            ),
            lambda rates: ", ".join(
                f"{plural(slots, 'worker')} {_ratio(rates, 'hdd-raid0-3', 'hdd', slots):.2f} times"
                for slots in (2, 3)
            ),
            *pairs.two("analysis", "hdd-raid0-3", "hdd", (2, 3)),
        ),
        judged(
            "scan-hdd-raid-helps",
            "sparse scan: 3 HDDs in RAID 0 are ahead of one HDD at many workers",
            lambda rates: _ratio(rates, "hdd-raid0-3", "hdd", 8) >= 1.3,
            lambda rates: f"8 workers {_ratio(rates, 'hdd-raid0-3', 'hdd', 8):.2f} times",
            *pairs.two("scan", "hdd-raid0-3", "hdd", (8,)),
        ),
        judged(
            "scan-ssd-raid-no-gain",
            "sparse scan: 2 SSDs in RAID 0 gain little over one",
            lambda rates: all(
                abs(_ratio(rates, "ssd-raid0-2", "ssd", slots) - 1) < 0.2 for slots in (1, 2, 3)
            ),
            lambda rates: ", ".join(
                f"{plural(slots, 'worker')} "
                f"{format_change(_ratio(rates, 'ssd-raid0-2', 'ssd', slots) - 1)}"
                for slots in (1, 2, 3)
            ),
            *pairs.two("scan", "ssd-raid0-2", "ssd", (1, 2, 3)),
        ),
    ]


STUDY = SmallStudy(
    id="proof-ssd",
    files=("proof-ssd/emulated-drives.toml",),
    rows=rows,
    findings=findings,
    notes=(
        "published rates are of the study's node (8 cores, 46 GB of data, ROOT of 2009); the "
        "small study reads 85 MB with this "
        "machine's cores, so order and shape are compared, not numbers",
    ),
)
