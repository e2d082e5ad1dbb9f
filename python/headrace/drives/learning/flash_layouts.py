"""Layouts of the flash of an SSD: whole numbers, of which a fit tries one beside another."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

DIES = (1, 2, 4, 8, 16, 32, 64, 128)
CHANNELS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)
DIES_PER_CHANNEL = (1, 2, 3, 4, 6, 8, 12, 16)
PAGE_UNITS = (1, 2, 4, 8, 16)
MAPPED_UNITS = (1, 2, 4, 8)
"""Units of 4 KiB that the mapping keeps together."""
AHEAD_BYTES = (64 << 10, 256 << 10, 1 << 20, 4 << 20)
"""What a controller that reads ahead may read."""


@dataclass(frozen=True)
class FlashLayout:
    """What of the flash is a whole number."""

    dies: int
    channels: int
    page_units: int
    ahead_bytes: int = 0
    """What the controller reads ahead of reads in order."""
    mapped_units: int = 1
    """Units of 4 KiB that the mapping keeps together; they divide a page evenly."""

    def with_page(self, units: int) -> FlashLayout:
        """Return the layout with another page, which is mapped as a whole if it is smaller than
        what was kept together."""
        return replace(self, page_units=units, mapped_units=min(self.mapped_units, units))


def neighbours(layout: FlashLayout) -> list[FlashLayout]:
    """Return layouts with one step more or less of channels, dies of a channel, units of a page or
    of the mapping, or bytes read ahead, and those with other channels and as many dies, or about as
    many."""
    found: list[FlashLayout] = []
    deep = layout.dies // layout.channels
    for channels in _beside(CHANNELS, layout.channels):
        found.append(replace(layout, dies=channels * deep, channels=channels))
        about = max(round(layout.dies / channels), 1)
        found.append(replace(layout, dies=channels * about, channels=channels))
    for channels in _beside(_divisors(layout.dies), layout.channels):
        found.append(replace(layout, channels=channels))
    for each in _beside(DIES_PER_CHANNEL, deep):
        found.append(replace(layout, dies=each * layout.channels))
    for units in _beside(PAGE_UNITS, layout.page_units):
        found.append(layout.with_page(units))
    for units in _beside(_mappings(layout), layout.mapped_units):
        found.append(replace(layout, mapped_units=units))
    for ahead in _beside(AHEAD_BYTES, layout.ahead_bytes) if layout.ahead_bytes else ():
        found.append(replace(layout, ahead_bytes=ahead))
    return list(dict.fromkeys(found))


def _mappings(layout: FlashLayout) -> tuple[int, ...]:
    """Return the units that the mapping may keep together: no more than a page."""
    return tuple(each for each in MAPPED_UNITS if each <= layout.page_units)


def _divisors(dies: int) -> tuple[int, ...]:
    """Return the numbers of channels over which so many dies divide evenly."""
    return tuple(each for each in range(1, max(CHANNELS) + 1) if dies % each == 0)


def _beside(steps: tuple[int, ...], value: int) -> list[int]:
    """Return the next smaller and the next larger step."""
    low, high = [each for each in steps if each < value], [each for each in steps if each > value]
    return [*low[-1:], *high[:1]]


def alternatives(layout: FlashLayout) -> dict[str, list[list[tuple[int, list[FlashLayout]]]]]:
    """Return rows of layouts with another number of dies, channels, units of a page or of the
    mapping, or bytes read ahead, the nearest number first: smaller ones and larger ones.

    Other dies are in as many channels, or in others: four dies in two channels meet what five dies
    in five do, where no load depends on the channels.
    """
    dies, channels = layout.dies, layout.channels
    deeper = [each * channels for each in DIES_PER_CHANNEL]
    divided = sorted({each * deep for each in CHANNELS for deep in DIES_PER_CHANNEL})
    return {
        "dies": [
            *_outwards(dies, [(each, [replace(layout, dies=each)]) for each in deeper]),
            *_outwards(
                dies,
                [
                    (
                        each,
                        [
                            replace(layout, dies=each, channels=split)
                            for split in _splits(each, channels)
                        ],
                    )
                    for each in divided
                ],
            ),
        ],
        "channels": _outwards(
            channels, [(each, [replace(layout, channels=each)]) for each in _divisors(dies)]
        ),
        "page": _outwards(
            layout.page_units,
            [(each, [layout.with_page(each)]) for each in PAGE_UNITS],
        ),
        "mapping": _outwards(
            layout.mapped_units,
            [(each, [replace(layout, mapped_units=each)]) for each in _mappings(layout)],
        ),
        "ahead": _outwards(
            layout.ahead_bytes,
            [(each, [replace(layout, ahead_bytes=each)]) for each in AHEAD_BYTES],
        )
        if layout.ahead_bytes
        else [],
    }


def _outwards(
    now: int, steps: list[tuple[int, list[FlashLayout]]]
) -> list[list[tuple[int, list[FlashLayout]]]]:
    """Return the steps below a number, from it downwards, and those above it."""
    return [
        [each for each in reversed(steps) if each[0] < now],
        [each for each in steps if each[0] > now],
    ]


def _splits(dies: int, channels: int) -> list[int]:
    """Return the three numbers of channels, nearest to another by their ratio, that divide dies."""
    found = [each for each in CHANNELS if dies / each in DIES_PER_CHANNEL]
    return sorted(found, key=lambda each: abs(math.log(each / channels)))[:3]
