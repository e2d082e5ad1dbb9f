"""Fitting a drive: the fields that are free, their bounds, and which loads tell them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from headrace.drives.fio import Load


@dataclass(frozen=True)
class Parameter:
    """A field that can be fitted, with bounds valid for every drive of its kind."""

    path: tuple[str, ...]
    low: float
    high: float
    logarithmic: bool = False
    whole: bool = False
    believed: float | None = None
    """Prior uncertainty of the table's value, as a factor (1.1: 10 %); None without a prior."""

    @property
    def name(self) -> str:
        """Dotted path of the field."""
        return ".".join(self.path)

    def scaled(self, value: float) -> float:
        """Scale a value to 0..1 over the bounds."""
        value = min(max(value, self.low), self.high)
        if self.logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def doubt(self) -> float:
        """Return `believed` on the scale; infinite without a prior."""
        if self.believed is None or not self.logarithmic:
            return math.inf
        return math.log(self.believed) / math.log(self.high / self.low)

    def value(self, scaled: float) -> float:
        """Return the value of a scaled one: the inverse of `scaled`."""
        scaled = min(max(scaled, 0.0), 1.0)
        found = (
            self.low * (self.high / self.low) ** scaled
            if self.logarithmic
            else self.low + scaled * (self.high - self.low)
        )
        return round(found) if self.whole else found


FREE: dict[str, tuple[Parameter, ...]] = {
    "hdd": (
        Parameter(("controller_overhead_us",), 10, 2000, logarithmic=True, believed=3.0),
        Parameter(("seek", "average_ms"), 1.0, 20.0, logarithmic=True, believed=1.1),
        Parameter(("seek", "track_to_track_ms"), 0.1, 2.5, logarithmic=True, believed=1.1),
        Parameter(("seek", "short_base_ms"), 0.1, 4.0, logarithmic=True, believed=1.1),
        Parameter(("seek", "short_root_ms"), 0.001, 1.0, logarithmic=True, believed=1.1),
        Parameter(("seek", "long_base_ms"), 1.0, 15.0, logarithmic=True, believed=1.1),
        Parameter(("seek", "long_slope_ms"), 1e-5, 0.02, logarithmic=True, believed=1.1),
        *(
            Parameter(("overhead", f"{kind}_us"), 5, 5000, logarithmic=True, believed=3.0)
            for kind in (
                "read_hit_after_read",
                "read_miss_after_read",
                "write_hit_after_write",
                "write_miss_after_write",
            )
        ),
        Parameter(("write_settle_ms",), 0.0, 3.0),
        Parameter(("queue", "reordering"), 0.0, 1.0),
        Parameter(("queue", "commit_ms"), 0.05, 20.0, logarithmic=True),
        Parameter(("rates", "outer_bytes_per_s"), 2e7, 4e8, logarithmic=True),
        Parameter(("rates", "inner_bytes_per_s"), 1e7, 3e8, logarithmic=True),
        Parameter(("buffer", "write_cache_extents"), 1, 2048, logarithmic=True, whole=True),
    ),
    "ssd": (
        Parameter(("controller", "read_overhead_us"), 1, 1000, logarithmic=True),
        Parameter(("controller", "write_overhead_us"), 1, 1000, logarithmic=True),
        Parameter(("flash", "read_us"), 10, 500, logarithmic=True),
        Parameter(("flash", "program_us"), 50, 5000, logarithmic=True),
    ),
}
"""Parameters that data sheets do not give, by kind of drive. Only fields in the drive's table are
fitted, and those of `UNSTATED`."""


def _queued_reads(load: Load) -> bool:
    return load.rw == "randread" and load.iodepth * load.numjobs > 1


def _random_writes(load: Load) -> bool:
    return load.rw == "randwrite"


UNSTATED: dict[str, tuple[tuple[tuple[str, str], float, Callable[[Load], bool]], ...]] = {
    "hdd": (
        (("queue", "reordering"), 0.3, _queued_reads),
        (("buffer", "write_cache_extents"), 64, _random_writes),
    ),
}
"""Fields that are fitted without being in the table, by kind of drive: the model's default, and the
loads that tell them. What other fields could tell of these loads is little."""


def _sequential(load: Load) -> bool:
    return load.rw in ("read", "write", "rw", "readwrite")


STAGES: dict[str, tuple[tuple[str, Callable[[Load], bool], tuple[str, ...]], ...]] = {
    "hdd": (
        (
            "rates, from sequential loads",
            _sequential,
            ("rates.outer_bytes_per_s", "rates.inner_bytes_per_s"),
        ),
        (
            "seek and overhead, from random reads one at a time",
            lambda load: load.rw == "randread" and load.iodepth * load.numjobs == 1,
            ("seek.average_ms", "controller_overhead_us", "seek.track_to_track_ms"),
        ),
        (
            "reordering, from random reads in a queue",
            _queued_reads,
            ("queue.reordering", "queue.commit_ms"),
        ),
        (
            "write cache, from random writes",
            _random_writes,
            ("buffer.write_cache_extents", "write_settle_ms"),
        ),
    ),
}
"""Which parameters are fitted to which loads, in stages: overhead, seek and reordering would
compensate each other. Parameters that no stage determines are tried on all loads at the end."""
