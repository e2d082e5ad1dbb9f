"""Findings of a size and shape that a test asks for, from a simple closed-queue picture of jobs on
a disk.

A job computes for `cpu_s` an event and needs the device for `device_s`; with n slots the device
gives at most 1/device_s events a second. Repeats spread by 2 %. The numbers are like those of
real trials on a hard disk.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from pathlib import Path
from typing import Any

import pandas as pd

from headrace.analysis.curves import CurveOptions, make_curves
from headrace.analysis.findings import (
    Combined,
    Curve,
    Estimate,
    FactorEffect,
    Findings,
    LeftOut,
    LevelEffect,
    Limit,
    Point,
)
from headrace.analysis.naming import Kinds, with_names
from headrace.analysis.ranking import best_first

DEVICE_S = {"ext4": 1 / 2900, "xfs": 1 / 3400, "ext3": 1 / 2100, "btrfs": 1 / 2500}
SCHEDULER = {"mq-deadline": 1.0, "bfq": 1.22, "none": 1.05, "kyber": 1.03}
READ_AHEAD = {"4 KiB": 1.9, "128 KiB": 1.0, "1 MiB": 0.94}
CPU_S = 1 / 640
BOUND = 0.9


def rounded(value: float) -> float:
    """Without the last digits, which differ between versions of numerical libraries (golden files
    hold these numbers)."""
    return float(f"{value:.9g}")


def estimate(values: list[float], trials: list[str], provenance: str = "") -> Estimate:
    mean = rounded(statistics.fmean(values))
    if len(values) < 3:
        return Estimate(mean, None, None, len(values), "mean", tuple(trials), provenance)
    # Here, as it takes as long to import as some files of tests.
    from scipy import stats

    half = (
        float(stats.t.ppf(0.975, len(values) - 1))
        * statistics.stdev(values)
        / math.sqrt(len(values))
    )
    low, high = rounded(mean - half), rounded(mean + half)
    return Estimate(mean, low, high, len(values), "mean, t interval", tuple(trials), provenance)


def sample_findings(
    *,
    title: str = "How many slots does this disk feed?",
    targets: tuple[str, ...] = ("scratch",),
    workloads: tuple[str, ...] = ("higgs",),
    filesystems: tuple[str, ...] = ("ext4", "xfs"),
    schedulers: tuple[str, ...] = ("mq-deadline", "bfq"),
    read_aheads: tuple[str, ...] = ("128 KiB",),
    slots: tuple[int, ...] = (1, 2, 4, 6, 8),
    repeats: int = 3,
    provenance: str = "measured",
    energy: bool = False,
    left_out: int = 2,
) -> Findings:
    """Findings of a full factorial of these levels."""
    rng = random.Random(7)
    index = itertools.count()
    points: list[Point] = []
    values: dict[str, dict[str, float]] = {workload: {} for workload in workloads}
    for target, workload, fs, scheduler, ahead in itertools.product(
        targets, workloads, filesystems, schedulers, read_aheads
    ):
        device_s = (
            DEVICE_S[fs]
            * SCHEDULER[scheduler]
            * READ_AHEAD[ahead]
            * (1.6 if target == "nas" else 1.0)
        )
        levels: dict[str, Any] = {
            "filesystem": fs,
            "scheduler": scheduler,
            "read_ahead": ahead,
            "cache": "cold",
        }
        for n in slots:
            point, rates = _point(
                target,
                workload,
                {**levels, "slots": n},
                n,
                device_s,
                repeats,
                rng,
                index,
                provenance,
                energy,
            )
            points.append(point)
            values[workload] |= rates
    headline = dict.fromkeys(workloads, "events_per_s")
    options = CurveOptions(headline, BOUND, 0.95, (), values)
    # What the analysis makes of these points: names, slots fed, knees, ranks.
    kinds = Kinds(
        dict.fromkeys(targets, "block"),
        dict.fromkeys(workloads, "analysis"),
        tuple(points[0].levels),
    )
    curves = best_first(with_names(make_curves(points, options), kinds), headline, values, 0.95)
    factors = {"filesystem": filesystems, "scheduler": schedulers, "read_ahead": read_aheads}
    effects = tuple(
        _effect(factor, workload, [c for c in curves if c.workload == workload])
        for workload in workloads
        for factor, levels in factors.items()
        if len(levels) > 1
    )
    done = len(points) * repeats
    return Findings(
        title=title,
        provenance=(provenance, "modelled") if energy else (provenance,),
        curves=tuple(curves),
        effects=effects,
        combined=tuple(
            _combined(workload, target, curves) for workload in workloads for target in targets
        ) if effects else (),
        left_out=tuple(
            LeftOut(
                f"{done + i:04d}-0123456789ab-r0",
                {"filesystem": "ext4", "slots": 8},
                ("invalid", "failed", "unsupported")[i % 3],
                ((
                    "cache not cold: the device moved 12 % of the bytes asked",
                    "job 3 ended with exit code 139",
                    "scheduler anticipatory is not in this kernel",
                )[i % 3],),
            )
            for i in range(left_out)
        ),
        trials_planned=done + left_out,
        trials_done=done,
        environment={
            "kernel": "6.1.0-28-amd64", "cpu": {"model": "Intel Xeon E5-2680", "cores": 8},
            "memory_bytes": 34359738368, "device": "/dev/sdb",
        },
    )  # fmt: skip


def _point(
    target: str, workload: str, levels: dict[str, Any], n: int, device_s: float, repeats: int,
    rng: random.Random,
    index: itertools.count[int], provenance: str, energy: bool,
) -> tuple[Point, dict[str, float]]:  # fmt: skip
    ids = [f"{next(index):04d}-{rng.randrange(16**12):012x}-r{r}" for r in range(repeats)]
    wall_s = max(CPU_S + device_s * 0.15 * n, device_s * n)  # one event of one job
    efficiency = CPU_S / wall_s
    spread = [1 + rng.gauss(0, 0.01) for _ in ids]
    rate = [n / wall_s * s for s in spread]
    metrics = {
        "events_per_s": estimate(rate, ids),
        "efficiency": estimate([min(1.0, efficiency * s) for s in spread], ids),
        "throughput_jobs": estimate([n * efficiency * s for s in spread], ids),
        "uncompressed_bytes_per_s": estimate([r * 1010.0 for r in rate], ids),
        "asked_bytes_per_s": estimate([r * 340.0 for r in rate], ids),
        "served_bytes_per_s": estimate([r * 341.0 for r in rate], ids),
        "device_bytes_per_s": estimate([r * 402.0 for r in rate], ids),
        "amplification": estimate([402 / 340 * s for s in spread], ids),
        "wall_s": estimate([50_000 * wall_s / s for s in spread], ids),
    }
    if energy:
        metrics["energy_j_per_job"] = estimate(
            [50_000 * wall_s * (90 + 8 * n) / n * s for s in spread], ids, "modelled"
        )
    waiting = 1 - efficiency
    ledger = {
        "on_cpu": efficiency,
        "wait_cpu": waiting * 0.08,
        "wait_block": waiting * 0.85,
        "wait_network": 0.0,
        "other": waiting * 0.07,
    }
    if efficiency > 0.85:
        limit = Limit(
            "cpu", efficiency, f"jobs were on a CPU for {100 * efficiency:.0f} % of their wall time"
        )
    else:
        limit = Limit(
            "device latency",
            waiting * 0.85,
            f"jobs waited {85 * waiting:.0f} % of "
            f"their wall time for blocks while the "
            f"device was busy 97 % at 9.1 ms a request",
        )
    point = Point(
        target, workload, levels, n, metrics, ledger, limit, provenance, 0, 0, trials=tuple(ids)
    )
    return point, dict(zip(ids, rate, strict=True))


def _effect(factor: str, workload: str, curves: list[Curve]) -> FactorEffect:
    by_level: dict[Any, list[Point]] = {}
    for curve in curves:
        by_level.setdefault(curve.levels[factor], []).extend(curve.points)
    levels = tuple(
        LevelEffect(
            level,
            estimate(
                [p.metrics["events_per_s"].value for p in points],
                [t for p in points for t in p.metrics["events_per_s"].trials],
            ),
        )
        for level, points in by_level.items()
    )
    ordered = sorted(levels, key=lambda e: e.estimate.value)
    cost = 1 - ordered[0].estimate.value / ordered[-1].estimate.value
    trials = tuple(t for level in levels for t in level.estimate.trials)
    return FactorEffect(
        factor, workload, "events_per_s", levels, ordered[-1].level, ordered[0].level,
        Estimate(cost, cost - 0.03, cost + 0.03, len(trials), "ratio of means, bootstrap", trials),
        0.0004,
        "whole plots" if factor == "filesystem" else "trials",
    )  # fmt: skip


def _combined(workload: str, target: str, curves: list[Curve]) -> Combined:
    mine = [c for c in curves if c.workload == workload and c.target == target]
    ordered = sorted(mine, key=lambda c: c.points[-1].metrics["events_per_s"].value)
    worst, best = ordered[0].points[-1], ordered[-1].points[-1]
    cost = 1 - worst.metrics["events_per_s"].value / best.metrics["events_per_s"].value
    trials = worst.metrics["events_per_s"].trials + best.metrics["events_per_s"].trials
    return Combined(
        workload, target, best.slots, "events_per_s", ordered[-1].levels, ordered[0].levels,
        Estimate(cost, cost - 0.02, cost + 0.02, len(trials), "ratio of means, bootstrap", trials),
        cells=len(mine),
    )  # fmt: skip


def write_series(results: Path, trial: str, seconds: int = 40) -> None:
    """Probe series of one trial, as the engine writes them, on two devices."""
    rng = random.Random(trial)
    folder = results / "trials" / trial / "series"
    folder.mkdir(parents=True)
    block = [
        {
            "time_s": float(second), "device": device, "read_bytes_per_s": 8e7 + rng.gauss(0, 4e6),
            "write_bytes_per_s": 0.0,
            "read_iops": 650 + rng.gauss(0, 30), "write_iops": 0.0, "in_flight": 5 + rng.random(),
            "read_latency_ms": 9 + rng.gauss(0, 0.5), "write_latency_ms": float("nan"),
            "busy": 0.97,
        }
        for second in range(seconds)
        for device in ("sdb", "sdc")
    ]  # fmt: skip
    pd.DataFrame(block).to_parquet(folder / "block.parquet")
    cpu = [
        {
            "time_s": float(s),
            "user": 0.42,
            "system": 0.05,
            "iowait": 0.4,
            "idle": 0.13,
            "steal": 0.0,
        }
        for s in range(seconds)
    ]
    pd.DataFrame(cpu).to_parquet(folder / "cpu.parquet")
