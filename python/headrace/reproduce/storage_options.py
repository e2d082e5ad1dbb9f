"""Reproduction of *storage-options*: Lustre, Hadoop, BlueArc and OrangeFS under IOzone, a skim
and metadata load (Fermilab)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from headrace.reproduce.cells import ObtainedCell, ObtainedCells
from headrace.reproduce.published import (
    Finding,
    Number,
    Published,
    PublishedTable,
    error_of,
    range_error,
)
from headrace.reproduce.study import Figure, FreeParameter, Judge, Series, StudyModule
from headrace.units import format_share

STORAGES = ("lustre", "hadoop", "bluearc", "orangefs")
CLIENTS = (3, 21)
MB = 1e6

# The file is read in ten parts with the same CPU time per read, also in the skim without writes.
SAME_WORK = tuple(
    [("nova-skim", ("steps", 2 + 3 * part, "cpu_ns")) for part in range(1, 10)]
    + [("nova-skim-unwritten", ("steps", 2 + part, "cpu_ns")) for part in range(10)]
)
MISSING = {
    "summary": (
        "The study gives ranges over replicas or name nodes and clients, not which of them was "
        "slowest, and no size of records: 1 MB here"
    ),
    "lustre-best-skim": (
        "Missing: how the six disks of Lustre's server were used, and what its cache held; as the "
        "RAID 5 of the other servers, read cold, they give half of what IOzone measured"
    ),
    "others-equal-skim": (
        "Missing: what the servers' caches held. Caches are cold here, as for IOzone, and clients "
        "that skip through their files wait for the servers' disks"
    ),
    "lustre-vm-write": (
        "Missing: how the six disks were used; every write of 1 MiB reads old data and parity of "
        "a RAID 5, on bare metal too"
    ),
    "skim-write-cpu-bound": (
        "Missing: what the servers' caches held. Caches are cold here, and writes wait for disks "
        "that are busy with reads"
    ),
}
"""Assumptions that the study does not state, for numbers and findings that cannot be obtained."""


def as_fast(entry: str) -> tuple[tuple[str, tuple[str | int, ...]], ...]:
    """Return the follower of a storage that writes as fast as it reads: the assumption that its
    entry states."""
    return ((entry, ("storage", "write_bytes_per_s")),)


PARAMETERS = (
    FreeParameter(
        "read rate of the filer's storage",
        "servers",
        "bluearc-fermilab",
        ("storage", "read_bytes_per_s"),
        "bytes/s",
        2e7,
        2e9,
        "summary row 4, read",
        as_fast("bluearc-fermilab"),
    ),
    FreeParameter(
        "CPU time between reads",
        "profiles",
        "nova-skim",
        ("steps", 2, "cpu_ns"),
        "ns",
        1e6,
        1e8,
        "root-21-clients row 0",
        SAME_WORK,
    ),
)


def best(cells: ObtainedCells, storage: str, workload: str) -> float:
    """Return the aggregate rate of 21 clients, the number that the study states for most of its
    tests, MB/s."""
    return _rate(cells.find("iozone", target=storage, workload=workload, nodes=21))


def _rate(cell: ObtainedCell) -> float:
    """Return the read or the write rate of the clients: an IOzone cell does only one of the two."""
    return cell.metric("asked_bytes_per_s") / MB


def skim(cells: ObtainedCells, storage: str) -> ObtainedCell:
    """Return the cell of the skim on 21 clients."""
    return cells.find("skim", target=storage)


def skim_rate(cells: ObtainedCells, storage: str) -> float:
    """Return the rate at which a client receives data, MB/s: bytes moved to it over the job's
    time."""
    cell = skim(cells, storage)
    return cell.per_job("bytes_served") / cell.metric("wall_s") / MB


def moved(cells: ObtainedCells, storage: str) -> float:
    """Return the bytes moved to a client over the file's size."""
    return skim(cells, storage).per_job("bytes_served") / 2e9


def numbers(cells: ObtainedCells, published: Published) -> list[Number]:
    """Return every published rate with the obtained one."""
    found: list[Number] = []
    table = published.tables["summary"]
    for index in range(len(table.rows)):
        if table.row(index)["benchmark"] == "root":
            found.append(_skim_number(cells, table, index))
        else:
            for way in ("read", "write"):
                found += _iozone_numbers(cells, table, index, way)
    table = published.tables["root-21-clients"]
    for index in range(len(table.rows)):
        storage = table.value(index, "storage")
        found.append(table.compared(index, "read_mb_s", storage, "MB/s", skim_rate(cells, storage)))
    table = published.tables["bytes-moved"]
    column = "fraction_of_file_transferred"
    for index in range(len(table.rows)):
        storage = table.value(index, "storage")
        found.append(table.compared(index, column, storage, "", moved(cells, storage), points=True))
    vm = cells.find("virtual", target="lustre-vm", workload="write")
    found.append(
        Number(
            "summary",
            0,
            "write_mb_s, server in a VM",
            "lustre, IOzone write, virtual server",
            "MB/s",
            70.0,
            _rate(vm),
            error_of(70.0, _rate(vm)),
            "relative",
            "predict",
            target=(70.0, 70.0),
        )
    )
    return found


def _skim_number(cells: ObtainedCells, table: PublishedTable, index: int) -> Number:
    row = table.row(index)
    given, obtained = row["read_mb_s_low"], skim_rate(cells, row["storage"])
    return Number(
        "summary",
        index,
        "read_mb_s",
        f"{row['storage']}, skim, a client",
        "MB/s",
        given,
        obtained,
        error_of(given, obtained),
        "relative",
        table.role_of(index, "read_mb_s_high"),
        target=(given, given),
    )


def _iozone_numbers(
    cells: ObtainedCells, table: PublishedTable, index: int, way: str
) -> Iterator[Number]:
    """Return the rate that one row gives of reading or writing, or both ends of its range."""
    row = table.row(index)
    storage = row["storage"]
    low, high = row[f"{way}_mb_s_low"], row[f"{way}_mb_s_high"]
    if math.isnan(low):
        return
    label = f"{storage}, IOzone {way}"
    if low == high:
        obtained = best(cells, storage, way)
        yield Number(
            "summary",
            index,
            f"{way}_mb_s",
            label,
            "MB/s",
            high,
            obtained,
            error_of(high, obtained),
            "relative",
            table.role_of(index, f"{way}_mb_s_high"),
            target=(high, high),
        )
        return
    # Rates inside a range meet it; an end that is a calibrate cell is compared by itself.
    for end, obtained in zip(("low", "high"), ends(cells, storage, way), strict=True):
        column = f"{way}_mb_s_{end}"
        calibrates = table.role_of(index, column) == "calibrate"
        given = row[column]
        yield Number(
            "summary",
            index,
            column,
            label,
            "MB/s",
            given,
            obtained,
            error_of(given, obtained) if calibrates else range_error(low, high, obtained),
            "relative",
            table.role_of(index, column),
            "" if calibrates else f"the range is {low:g} to {high:g}",
            target=(given, given) if calibrates else (low, high),
        )


def ends(cells: ObtainedCells, storage: str, way: str) -> tuple[float, float]:
    """Return the lowest and highest rate over what the study varied: replicas (Hadoop) or name
    nodes (OrangeFS), and clients."""
    file = {"hadoop": "replicas", "orangefs": "name-nodes"}[storage]
    rates = [
        _rate(cell)
        for cell in [
            *cells.all(file, workload=way),
            *cells.all("iozone", target=storage, workload=way),
        ]
    ]
    return min(rates), max(rates)


def findings(cells: ObtainedCells, published: Published) -> list[Finding]:
    """Return the eight claims, judged."""
    judge = Judge(published, MISSING)
    _skims(judge, cells)
    _virtual_server(judge, cells)
    _writes(judge, cells)
    _metadata(judge, cells)
    return judge.done()


def _skims(judge: Judge, cells: ObtainedCells) -> None:
    rates = {storage: skim_rate(cells, storage) for storage in STORAGES}
    said = ", ".join(f"{storage} {value:.2f} MB/s" for storage, value in rates.items())
    judge.says("lustre-best-skim", max(rates, key=lambda name: rates[name]) == "lustre", said)
    others = [rates[name] for name in STORAGES if name != "lustre"]
    judge.says("others-equal-skim", max(others) / min(others) - 1 <= 0.10, said)
    parts = {storage: moved(cells, storage) for storage in STORAGES}
    judge.says(
        "lustre-reads-too-much",
        parts["lustre"] >= 0.75
        and all(abs(parts[name] - 0.5) < 0.05 for name in STORAGES if name != "lustre"),
        ", ".join(f"{name} {format_share(value)}" for name, value in parts.items()),
    )


def _virtual_server(judge: Judge, cells: ObtainedCells) -> None:
    vm = {
        (kind, way): _rate(cells.find("virtual", target=kind, workload=way))
        for kind in ("lustre-bare", "lustre-vm")
        for way in ("read", "write")
    }
    judge.says(
        "lustre-vm-write",
        vm["lustre-vm", "read"] >= 0.8 * vm["lustre-bare", "read"]
        and vm["lustre-vm", "write"] <= 0.45 * vm["lustre-bare", "write"],
        ", ".join(f"{kind} {way} {value:.0f} MB/s" for (kind, way), value in vm.items()),
    )


def _writes(judge: Judge, cells: ObtainedCells) -> None:
    added = {storage: time_of_writes(cells, storage) for storage in STORAGES}
    judge.says(
        "skim-write-cpu-bound",
        all(cpu > wall - cpu for wall, cpu in added.values()),
        "time that writing adds to a job, and how much of it is CPU: "
        + ", ".join(f"{name} {wall:.1f} s, {cpu:.1f} s" for name, (wall, cpu) in added.items()),
    )
    writes = {
        clients: [
            _rate(cells.find("replicas", workload="write", replicas=count, nodes=clients))
            for count in (1, 2, 3)
        ]
        for clients in CLIENTS
    }
    # With three clients the links may be the limit; with 21 each further replica must cost rate.
    judge.says(
        "hadoop-replicas",
        all(more <= fewer for rates in writes.values() for fewer, more in pairwise(rates))
        and all(more < 0.95 * fewer for fewer, more in pairwise(writes[21])),
        "writes with 1, 2, 3 replicas: "
        + "; ".join(
            f"{clients} clients " + ", ".join(f"{rate:.0f} MB/s" for rate in rates)
            for clients, rates in writes.items()
        ),
    )


def _metadata(judge: Judge, cells: ObtainedCells) -> None:
    names = {count: cells.find("metadata", target="orangefs", name_nodes=count) for count in (1, 4)}
    speed = {count: cell.metric("jobs_per_s") for count, cell in names.items()}
    judge.says(
        "orangefs-name-nodes",
        speed[4] > 1.2 * speed[1],
        f"metadata jobs a second with 1 and 4 name nodes: {speed[1]:.2f}, {speed[4]:.2f}",
    )
    hadoop = cells.find("metadata", target="hadoop", name_nodes=None)
    bare = {"hadoop": hadoop.metric("jobs_per_s"), "orangefs (4)": speed[4]}
    judge.says(
        "hadoop-metadata",
        bare["hadoop"] > bare["orangefs (4)"],
        ", ".join(f"{name} {value:.2f} metadata jobs/s" for name, value in bare.items()),
    )


def time_of_writes(cells: ObtainedCells, storage: str) -> tuple[float, float]:
    """Return the time that the skim's writes add to a job: seconds in total, and of CPU (the
    rest is wait for the storage)."""
    with_writes, without = skim(cells, storage), cells.find("skim-unwritten", target=storage)
    wall_s = with_writes.metric("wall_s") - without.metric("wall_s")
    return wall_s, with_writes.per_job("on_cpu_s") - without.per_job("on_cpu_s")


def figures(cells: ObtainedCells, published: Published) -> list[Figure]:
    """Return the rates against clients, and the skim's bars."""
    found = [
        Figure(
            f"IOzone {way}: all clients together",
            "clients",
            "MB/s",
            "lines",
            tuple(
                Series(
                    storage,
                    CLIENTS,
                    tuple(
                        _rate(cells.find("iozone", target=storage, workload=way, nodes=clients))
                        for clients in CLIENTS
                    ),
                )
                for storage in STORAGES
            ),
        )
        for way in ("read", "write")
    ]
    table = published.tables["summary"]
    given = {row[0]: row[2] for row in table.rows if row[1] == "root"}
    found.append(
        Figure(
            "Skim, 21 clients: rate of a client",
            "storage",
            "MB/s",
            "bars",
            (
                Series(
                    "published",
                    STORAGES,
                    tuple(given[storage] for storage in STORAGES),
                    published=True,
                ),
                Series(
                    "obtained", STORAGES, tuple(skim_rate(cells, storage) for storage in STORAGES)
                ),
            ),
        )
    )
    return found


STUDY = StudyModule(
    id="storage-options",
    files=tuple(
        f"storage-options/{name}.toml"
        for name in (
            "iozone",
            "skim",
            "skim-unwritten",
            "virtual",
            "replicas",
            "name-nodes",
            "metadata",
        )
    ),
    parameters=PARAMETERS,
    numbers=numbers,
    findings=findings,
    figures=figures,
    missing=MISSING,
    calibration=lambda cell: (
        (cell.file in ("iozone", "replicas", "name-nodes") and cell.workload == "read")
        or (cell.file == "skim" and cell.target == "bluearc")
    ),
)
