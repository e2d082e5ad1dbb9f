"""Reproduction of *worker-node-ssd*: SSDs as worker-node storage in a WLCG Tier-2 (Glasgow,
GridPP)."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.catalog import entry
from headrace.report.wording import plural
from headrace.reproduce.cells import ObtainedCell, ObtainedCells
from headrace.reproduce.published import Finding, Number, Published
from headrace.reproduce.study import Figure, FreeParameter, Judge, Series, StudyModule

ORDER_8 = ("kingston-ssd", "hdd", "intel-x25", "hdd-raid1-2", "hdd-raid0-2")
HDD = "sata-7200-500gb"
SCRATCH: dict[str, object] = {
    "kingston-ssd": "kingston-ssdnow-v-128gb",
    "intel-x25": "intel-x25-m-g2-160gb",
    "hdd": HDD,
    "hdd-raid1-2": {"drive": HDD, "count": 2, "raid": 1},
    "hdd-raid0-2": {"drive": HDD, "count": 2, "raid": 0},
    "hdd-raid0-3": {"drive": HDD, "count": 3, "raid": 0},
}
PRICES = {
    "kingston-ssd": "kingston-v-128",
    "intel-x25": "intel-x25-m-160",
    "hdd-raid0-2": "hdd-500gb-pair",
}
GB_AS_PUBLISHED = {"kingston-ssd": 128, "intel-x25": 160, "hdd-raid0-2": 500}
MACHINE = {"node8": "glasgow-node8", "node24": "glasgow-node24"}

MISSING = {
    "order-8": (
        "Missing: the state that the X25-M was in. It writes 33 MB/s here, near what it can "
        "when all of it is in use; with the random writes of its data sheet it comes out above "
        "the RAIDs, so HDD < X25-M < RAID 1 lies between (docs/reproduce.md)"
    ),
    "remote-helps-only-the-cheap-ssd": (
        "Decided by one point on the X25-M, and 0.26 % of the fitted memory moves it by two "
        "(docs/reproduce.md): the model cannot tell"
    ),
}
"""For findings: the information on which they depend and that the study does not state."""

# The same job with other input methods: it needs the same memory.
SAME_MEMORY = tuple(
    (name, ("memory_bytes",))
    for name in ("atlas-dq2-local", "atlas-local-ordered", "atlas-local-unordered")
)
# The four files in the profiles that read without staging have the same wait.
SAME_WAIT = tuple(
    (name, ("steps", first + between * number, "wait_ns"))
    for name, first, between in (
        ("atlas-dq2-local", 1, 5),
        ("atlas-local-ordered", 0, 4),
        ("atlas-local-unordered", 0, 4),
    )
    for number in range(4)
)
PARAMETERS = (
    FreeParameter(
        "memory of a job",
        "profiles",
        "atlas-filestager",
        ("memory_bytes",),
        "bytes",
        5e8,
        1.7e9,
        "filestager rows 1, 7",
        SAME_MEMORY,
    ),
    FreeParameter(
        "wait for what is not storage, a file",
        "profiles",
        "atlas-filestager",
        ("steps", 2, "steps", 2, "wait_ns"),
        "ns",
        1e9,
        1e11,
        "filestager rows 1, 7",
        SAME_WAIT,
    ),
)


def efficiency(cell: ObtainedCell) -> float:
    """Return the mean over the jobs of CPU time over wall time, as in the study; the analysis
    uses the totals of all jobs."""
    return cell.metric("mean_job_efficiency")


def staged(cells: ObtainedCells, storage: str, node: str, slots: int) -> float:
    """Return the mean job efficiency with staged input."""
    return efficiency(cells.find("filestager", target=storage, machine=MACHINE[node], slots=slots))


def remote(cells: ObtainedCells, storage: str, node: str, slots: int) -> float:
    """Return the mean job efficiency with input read from the storage element."""
    return efficiency(
        cells.find(
            "dq2-local",
            site__node__drives__scratch=SCRATCH[storage],
            machine=MACHINE[node],
            slots=slots,
        )
    )


def numbers(cells: ObtainedCells, published: Published) -> list[Number]:
    """Return every published efficiency, throughput and price with the obtained one."""
    found: list[Number] = []
    for id, of in (("filestager", staged), ("dq2-local", remote)):
        table = published.tables[id]
        for index in range(len(table.rows)):
            row = table.row(index)
            label = f"{row['storage']}, {plural(row['jobs'], 'job')} on {row['node']}"
            obtained = of(cells, row["storage"], row["node"], row["jobs"])
            found.append(
                table.compared(index, "mean_job_efficiency", label, "", obtained, points=True)
            )
            reading = (
                f"jobs x published efficiency = {row['jobs'] * row['mean_job_efficiency']:.2f}"
            )
            found.append(
                table.compared(
                    index, "mean_throughput", label, "jobs", obtained * row["jobs"], reading=reading
                )
            )
    table = published.tables["production"]
    for index in range(len(table.rows)):
        storage = table.value(index, "storage")
        obtained = efficiency(cells.find("production", target=storage))
        found.append(
            table.compared(index, "mean_job_efficiency", str(storage), "", obtained, points=True)
        )
    return found + _prices(cells, published)


def _price(cells: ObtainedCells, storage: str) -> tuple[float, float, float]:
    """Return the price, the price per job's worth of CPU, and the price per GB as published."""
    amount = entry("prices", PRICES[storage]).table.amount
    return (
        amount,
        amount / (8 * staged(cells, storage, "node8", 8)),
        amount / GB_AS_PUBLISHED[storage],
    )


def _prices(cells: ObtainedCells, published: Published) -> list[Number]:
    table = published.tables["price"]
    found: list[Number] = []
    for index in range(len(table.rows)):
        storage = str(table.value(index, "storage"))
        _, a_throughput, a_gb = _price(cells, storage)
        found.append(
            table.compared(index, "price_per_throughput_gbp", storage, "GBP", a_throughput)
        )
        reading = f"{a_gb / 2:.2f} over both drives" if storage == "hdd-raid0-2" else ""
        found.append(
            table.compared(index, "price_per_gb_gbp", storage, "GBP/GB", a_gb, reading=reading)
        )
    return found


@dataclass(frozen=True)
class _Efficiencies:
    """Job efficiencies by storage, staged to it or read remotely, with 8 and 24 jobs."""

    at8: dict[str, float]
    at24: dict[str, float]
    far: dict[str, float]
    far24: dict[str, float]

    @classmethod
    def of(cls, cells: ObtainedCells) -> _Efficiencies:
        at8 = {storage: staged(cells, storage, "node8", 8) for storage in ORDER_8}
        at24 = {
            storage: staged(cells, storage, "node24", 24)
            for storage in ("intel-x25", "hdd-raid0-2")
        }
        far = {
            storage: remote(cells, storage, "node8", 8)
            for storage in ORDER_8
            if storage != "hdd-raid0-2"
        }
        far24 = {
            storage: remote(cells, storage, "node24", 24)
            for storage in ("hdd-raid0-2", "hdd-raid0-3")
        }
        return cls(at8, at24, far, far24)


def findings(cells: ObtainedCells, published: Published) -> list[Finding]:
    """Return the nine claims, judged."""
    judge = Judge(published, MISSING)
    found = _Efficiencies.of(cells)
    _staged(judge, found)
    _mixed(judge, found, cells)
    _remote(judge, found, cells)
    _order_of_reads(judge, cells)
    _price_factors(judge, cells)
    return judge.done()


def _staged(judge: Judge, found: _Efficiencies) -> None:
    at8, at24 = found.at8, found.at24
    said = ", ".join(f"{storage} {value:.2f}" for storage, value in at8.items())
    judge.says(
        "raid0-best",
        max(at8, key=lambda name: at8[name]) == "hdd-raid0-2"
        and at24["hdd-raid0-2"] > at24["intel-x25"],
        f"8 jobs: {said}; 24 jobs: RAID 0 {at24['hdd-raid0-2']:.2f}, Intel {at24['intel-x25']:.2f}",
    )
    judge.says(
        "cheap-ssd-worse-than-hdd",
        at8["kingston-ssd"] < at8["hdd"],
        f"{at8['kingston-ssd']:.2f} against {at8['hdd']:.2f}",
    )
    judge.says("order-8", list(at8) == sorted(at8, key=lambda name: at8[name]), said)
    fall, loss = at8["intel-x25"] - at24["intel-x25"], at8["hdd-raid0-2"] - at24["hdd-raid0-2"]
    judge.says(
        "ssd-falls-with-slots",
        fall >= 0.15 and loss <= 0.10 and fall > 2 * loss,
        f"Intel SSD {at8['intel-x25']:.2f} to {at24['intel-x25']:.2f}, RAID 0 "
        f"{at8['hdd-raid0-2']:.2f} to {at24['hdd-raid0-2']:.2f}",
    )


def _mixed(judge: Judge, found: _Efficiencies, cells: ObtainedCells) -> None:
    at8 = found.at8
    alone = {
        storage: efficiency(cells.find("unstaged", target=storage))
        for storage in ("kingston-ssd", "intel-x25", "hdd-raid0-2")
    }
    with_writes = all(at8[ssd] < at8["hdd-raid0-2"] for ssd in ("kingston-ssd", "intel-x25"))
    without = all(
        alone[ssd] >= alone["hdd-raid0-2"] - 0.01 for ssd in ("kingston-ssd", "intel-x25")
    )
    judge.says(
        "mixed-writes-hurt-ssd",
        with_writes and without,
        "with staging writes "
        + ", ".join(f"{name} {at8[name]:.2f}" for name in alone)
        + "; the same reads without writes "
        + ", ".join(f"{name} {value:.2f}" for name, value in alone.items()),
    )


def _remote(judge: Judge, found: _Efficiencies, cells: ObtainedCells) -> None:
    at8, at24, far, far24 = found.at8, found.at24, found.far, found.far24
    change = {
        storage: far[storage] - at8[storage]
        for storage in ("kingston-ssd", "intel-x25", "hdd-raid1-2")
    }
    change["hdd-raid0-2 (24 jobs)"] = far24["hdd-raid0-2"] - at24["hdd-raid0-2"]
    others = all(value < 0 for storage, value in change.items() if storage != "kingston-ssd")
    judge.says(
        "remote-helps-only-the-cheap-ssd",
        change["kingston-ssd"] > 0 and others,
        "remote minus staged: "
        + ", ".join(f"{storage} {value:+.2f}" for storage, value in change.items())
        + f", hdd {far['hdd'] - at8['hdd']:+.2f} (rises in the table too)",
    )
    single = staged(cells, "hdd", "node8", 1)
    most = max(*far.values(), *far24.values())
    judge.says(
        "remote-below-single-job",
        most < single,
        f"highest remote {most:.2f}, a single job {single:.2f}",
    )


def _order_of_reads(judge: Judge, cells: ObtainedCells) -> None:
    ordered, unordered = (
        _seeks_per_s(cells, profile) for profile in ("atlas-local-ordered", "atlas-local-unordered")
    )
    judge.says(
        "reordering-cuts-seeks",
        ordered < 0.9 * unordered,
        f"reads a second on the Intel SSD: {ordered:.0f} reordered, {unordered:.0f} unordered",
    )


def _price_factors(judge: Judge, cells: ObtainedCells) -> None:
    prices = {storage: _price(cells, storage) for storage in PRICES}
    factors = {
        ssd: (prices[ssd][1] / prices["hdd-raid0-2"][1], prices[ssd][2] / prices["hdd-raid0-2"][2])
        for ssd in ("kingston-ssd", "intel-x25")
    }
    judge.says(
        "price-factor",
        all(2.5 <= a <= 4.5 and 7 <= b <= 11 for a, b in factors.values()),
        "; ".join(
            f"{ssd}: {a:.1f} times a throughput, {b:.1f} times a GB"
            for ssd, (a, b) in factors.items()
        ),
    )


def _seeks_per_s(cells: ObtainedCells, profile: str) -> float:
    cell = cells.find("reordering", profile=profile)
    (record,) = cell.records
    reads = sum(drive.requests_read for drive in record.drives if drive.volume == "intel-x25")
    return reads / record.duration_s


def figures(cells: ObtainedCells, published: Published) -> list[Figure]:
    """Return the efficiency bars, and the price."""
    found: list[Figure] = []
    for id, title in (("filestager", "Staged input"), ("dq2-local", "Input read remotely")):
        table = published.tables[id]
        rows = [table.row(index) for index in range(len(table.rows))]
        of = staged if id == "filestager" else remote
        labels = tuple(f"{row['storage']} {row['jobs']}:{row['cores']}" for row in rows)
        found.append(
            Figure(
                f"{title}: job efficiency",
                "storage, jobs:cores",
                "CPU time / wall time",
                "bars",
                (
                    Series(
                        "published",
                        labels,
                        tuple(row["mean_job_efficiency"] for row in rows),
                        published=True,
                    ),
                    Series(
                        "obtained",
                        labels,
                        tuple(of(cells, row["storage"], row["node"], row["jobs"]) for row in rows),
                    ),
                ),
            )
        )
    table = published.tables["price"]
    labels = tuple(str(row[0]) for row in table.rows)
    found.append(
        Figure("Price of a job's worth of CPU", "storage", "GBP", "bars", (
            Series("published", labels, tuple(row[2] for row in table.rows), published=True),
            Series("obtained", labels, tuple(_price(cells, storage)[1] for storage in labels)),
        ))
    )  # fmt: skip
    return found


STUDY = StudyModule(
    id="worker-node-ssd",
    files=tuple(
        f"worker-node-ssd/{name}.toml"
        for name in ("filestager", "dq2-local", "production", "unstaged", "reordering")
    ),
    parameters=PARAMETERS,
    numbers=numbers,
    findings=findings,
    figures=figures,
    missing=MISSING,
    calibration=lambda cell: (
        cell.file == "filestager" and cell.target == "hdd" and cell.levels["slots"] in (1, 8)
    ),
)
