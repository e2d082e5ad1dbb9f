"""Reproduction in real time of *cluster-energy*: file systems, kernel schedulers, read-ahead and
slots on an emulated disk and SSD."""

from __future__ import annotations

from collections.abc import Callable

from headrace.report.wording import plural
from headrace.reproduce.published import Published
from headrace.reproduce.small_study import (
    JudgedClaim,
    Rates,
    SmallCells,
    SmallStudy,
    SmallStudyRow,
    judged,
    spread,
)
from headrace.units import format_change

SCHEMES, WINDOWS = "emulated-schemes", "emulated-read-ahead"
DRIVES = ("wd-wd3200bekt", "corsair-f40")
DISK, SSD = DRIVES
FILESYSTEMS = ("ext3", "ext4", "xfs")
SCHEDULERS = ("none", "mq-deadline", "kyber", "bfq")
READ_AHEAD = ("4 KiB", "128 KiB")
WINDOW_SIZES = ("4 KiB", "16 KiB", "64 KiB", "128 KiB")
SLOTS = (1, 2, 4, 8)


def _scheme(
    cells: SmallCells, drive: str, filesystem: str, scheduler: str, read_ahead: str
) -> float | None:
    return cells.events_per_s(
        SCHEMES,
        target="local",
        workload="search",
        drive=drive,
        filesystem=filesystem,
        scheduler=scheduler,
        read_ahead=read_ahead,
    )


def _window(cells: SmallCells, drive: str, read_ahead: str, slots: int) -> float | None:
    return cells.events_per_s(
        WINDOWS, target="local", workload="search", drive=drive, read_ahead=read_ahead, slots=slots
    )


def rows(simulated: SmallCells, emulated: SmallCells, published: Published) -> list[SmallStudyRow]:
    """Return the events per second of every cell.

    Published values are empty: the study reports other measures (minutes, Wh per job).
    """
    found: list[SmallStudyRow] = []
    for drive in DRIVES:
        for filesystem in FILESYSTEMS:
            for scheduler in SCHEDULERS:
                for window in READ_AHEAD:
                    label = f"{drive}, {filesystem}, {scheduler}, read-ahead {window}, 4 slots"
                    found.append(
                        SmallStudyRow(
                            "schemes",
                            label,
                            "events/s",
                            "",
                            _scheme(simulated, drive, filesystem, scheduler, window),
                            _scheme(emulated, drive, filesystem, scheduler, window),
                        )
                    )
        for window in WINDOW_SIZES:
            for slots in SLOTS:
                label = f"{drive}, ext4, mq-deadline, read-ahead {window}, {plural(slots, 'slot')}"
                found.append(
                    SmallStudyRow(
                        "read-ahead",
                        label,
                        "events/s",
                        "",
                        _window(simulated, drive, window, slots),
                        _window(emulated, drive, window, slots),
                    )
                )
    return found


def _schemes(cells: SmallCells) -> Rates:
    return {
        (drive, filesystem, scheduler): _scheme(cells, drive, filesystem, scheduler, "4 KiB")
        for drive in DRIVES
        for filesystem in FILESYSTEMS
        for scheduler in SCHEDULERS
    }


def _windows(cells: SmallCells) -> Rates:
    return {
        (drive, window, slots): _window(cells, drive, window, slots)
        for drive in DRIVES
        for window in WINDOW_SIZES
        for slots in SLOTS
    }


def _over(rates: Rates, drive: str, place: int) -> float:
    """Return the spread over filesystems (1) or schedulers (2), averaged over the other
    factor."""
    others = sorted({key[3 - place] for key in rates})
    spreads = [
        spread([rate for key, rate in rates.items() if key[0] == drive and key[3 - place] == other])
        for other in others
    ]
    return sum(spreads) / len(spreads)


def _says(place: int) -> Callable[[Rates], str]:
    return lambda rates: (
        f"best over worst {format_change(_over(rates, DISK, place))} on the disk, "
        f"{format_change(_over(rates, SSD, place))} on the SSD"
    )


def _matters(place: int) -> Callable[[Rates], bool]:
    return lambda rates: (
        _over(rates, DISK, place) > 0.05
        and _over(rates, SSD, place) < 0.5 * _over(rates, DISK, place)
    )


def _ahead(rates: Rates, slots: int) -> float:
    return spread([rates[DISK, window, slots] for window in WINDOW_SIZES])


def findings(
    simulated: SmallCells, emulated: SmallCells, published: Published
) -> list[JudgedClaim]:
    """Return the findings on factors that matter on a disk and hardly on an SSD."""

    def both(make: Callable[[SmallCells], Rates]) -> tuple[Rates, Rates]:
        return make(simulated), make(emulated)

    return [
        judged(
            "schedulers-matter-on-disks",
            "schedulers matter on the disk, and hardly on the SSD",
            _matters(2),
            _says(2),
            *both(_schemes),
        ),
        judged(
            "filesystems-matter-on-disks",
            "file systems matter on the disk, and hardly on the SSD",
            _matters(1),
            _says(1),
            *both(_schemes),
        ),
        judged(
            "ssd-ahead",
            "the SSD is ahead of the disk, the more so the more slots there are",
            lambda rates: _gain(rates, 8) > 1.2 and _gain(rates, 8) >= 0.95 * _gain(rates, 1),
            lambda rates: (
                f"{_gain(rates, 1):.1f} times at 1 slot, {_gain(rates, 8):.1f} times at 8 "
                "(read-ahead 4 KiB)"
            ),
            *both(_windows),
        ),
        judged(
            "read-ahead-matters-on-disks",
            "read-ahead matters on the disk where several jobs share it",
            lambda rates: _ahead(rates, 8) > 0.1,
            lambda rates: (
                f"best over worst window {format_change(_ahead(rates, 1))} at 1 slot, "
                f"{format_change(_ahead(rates, 8))} at 8"
            ),
            *both(_windows),
        ),
    ]


def _gain(rates: Rates, slots: int) -> float:
    return (rates[SSD, "4 KiB", slots] or 0.0) / (rates[DISK, "4 KiB", slots] or 1.0)


STUDY = SmallStudy(
    id="cluster-energy",
    files=("cluster-energy/emulated-schemes.toml", "cluster-energy/emulated-read-ahead.toml"),
    rows=rows,
    findings=findings,
    notes=(
        "this kernel's schedulers are none, mq-deadline, kyber and bfq; the study's (noop, "
        "anticipatory, deadline, cfq) are their "
        "forebears",
        "the study measured minutes and Wh of a job of 312; a small one gives events a second, "
        "whose order is compared",
    ),
)
