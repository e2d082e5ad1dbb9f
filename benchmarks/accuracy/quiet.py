"""Refuses to record what was measured on a busy machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from rows import Missing

LOAD_PER_CPU = 0.25
"""Load average of a minute, divided by the CPUs, above which nothing is begun."""
REFUSAL = (
    "Nothing is recorded on a busy machine: with a load average above "
    f"{LOAD_PER_CPU:g} per CPU, or when more than one in twenty trials is invalid or may have lost "
    "3 % of its time to other programs."
)
LOST_SHARE = 0.03
"""Largest share of the jobs' time that other programs may have cost a trial: what a trial's
record warns of (python/headrace/engine/measure/validity.py)."""
SPOILT_SHARE = 0.05
"""Largest share of trials that may have lost more. Medians of repeats hardly notice them, and
results leave invalid ones out."""


def check_quiet() -> None:
    """Raise Missing if other programs use the machine now."""
    load, cpus = os.getloadavg()[0], os.cpu_count() or 1
    if load > LOAD_PER_CPU * cpus:
        raise Missing(
            f"a quiet machine: the load average is {load:.1f}, and {LOAD_PER_CPU * cpus:.1f} is "
            f"the most for {cpus} CPUs"
        )


def check_was_quiet(results: Path) -> None:
    """Raise Missing if other programs may have cost many trials of these records much of their
    time, or emulated drives were too late for them."""
    files = sorted(results.glob("trials/*/trial.json"))
    busy = [lost for lost in map(_lost_share, files) if lost is not None]
    if len(busy) > SPOILT_SHARE * len(files) or not files:
        raise Missing(
            f"a quiet machine: {len(busy)} of {len(files)} trials are invalid, or other programs "
            f"cost them more than {LOST_SHARE:.0%} of their time, up to {max(busy, default=0):.0%}"
        )


def remove_disturbed(results: Path) -> int:
    """Remove the trials that `check_was_quiet` counts, to be measured again; return how many."""
    disturbed = [
        file for file in results.glob("trials/*/trial.json") if _lost_share(file) is not None
    ]
    for file in disturbed:
        shutil.rmtree(file.parent)
    return len(disturbed)


def _lost_share(file: Path) -> float | None:
    """Return the share of its time that a disturbed trial may have lost; None for a quiet one."""
    record = json.loads(file.read_text())
    lost = (record.get("interference") or {}).get("lost_share", 0.0)
    return lost if lost > LOST_SHARE or not record["validity"]["valid"] else None


def check_root() -> None:
    """Raise Missing for other users: devices are emulated, and caches dropped."""
    if os.geteuid() != 0:
        raise Missing("root")


def headrace(*words: str | Path, accepted: tuple[int, ...] = (0,)) -> None:
    """Run a command of this environment; raise Missing with its last words if it refuses."""
    command = [str(Path(sys.executable).with_name("headrace")), *map(str, words)]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode not in accepted:
        last = " ".join((ended.stderr or ended.stdout).split()[-40:])
        raise Missing(f"`headrace {words[0]}` ended with {ended.returncode}: {last}")
