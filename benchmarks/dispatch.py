"""What dispatching costs: short sleeping jobs under sustained load, over nodes that are processes.

    python benchmarks/dispatch.py [--nodes 100] [--slots 1] [--jobs 10000] [--sleep 1]
    python benchmarks/dispatch.py --spread 8 16 50   # start spread of batches over N nodes
    python benchmarks/dispatch.py --agent            # an agent's CPU: long jobs, probes at 1 s

`headrace run` itself runs each study. Nodes are node processes of this machine
(tests/agent_process.py), as on hosts reached by SSH; `--on dask` has them on the workers of a Dask
cluster. The result is JSON. CPU times are those of /proc between the first and the last second in
which jobs ran; the load average says what else the machine did. Bars: slots are busy for 95 % of
the time, an agent takes less than 1 % of a core, jobs of one host start within 100 ms.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

import headrace

TESTS = Path(__file__).parents[1] / "tests"
sys.path.insert(0, str(TESTS))

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
EVERY_S = 2.0
ROLES = {"node_process": "node", "fork_server": "fork server", "dask": "dask"}
STUDY = """
headrace = 1
title = "dispatch"
[target.here]
kind = "path"
path = "{place}/storage"
create = true
[workload.sleep]
kind = "command"
command = ["sleep", "{sleep}"]
[plan]
repeats = {{ min = {repeats} }}
[run]
on = "{on}"
nodes = {nodes}
slots = {slots}
cache = "as-is"
foreign_load = "warning"
start_spread = 1000
shortest = 0
{more}
"""


@dataclass(frozen=True)
class Use:
    """CPU seconds of a process since its start."""

    role: str
    own_s: float
    ended_s: float
    """Of its children that have ended."""
    rss_bytes: int


@dataclass
class Watched:
    """Samples of the processes of a run while its jobs sleep."""

    at_s: list[float] = field(default_factory=list[float])
    uses: list[dict[int, Use]] = field(default_factory=list[dict[int, Use]])

    def between(self) -> tuple[float, dict[int, tuple[Use, Use]]]:
        """Return the time between the first and the last sample, and both of each process."""
        first, last = self.uses[0], self.uses[-1]
        both = {pid: (first[pid], last[pid]) for pid in last if pid in first}
        return self.at_s[-1] - self.at_s[0], both


def role_of(process: psutil.Process, command: int) -> str | None:
    if process.pid == command:
        return "command"
    words = " ".join(process.cmdline())
    return next((role for word, role in ROLES.items() if word in words), None)


def look(command: int, known: dict[int, str]) -> tuple[dict[int, Use], bool]:
    """Return the use of each process of a run, and whether its jobs sleep."""
    found: dict[int, Use] = {}
    asleep = False
    with contextlib.suppress(psutil.NoSuchProcess):
        everything = [psutil.Process(command), *psutil.Process(command).children(recursive=True)]
        for process in everything:
            with contextlib.suppress(OSError, psutil.Error):
                stat = Path(f"/proc/{process.pid}/stat").read_text()
                name, _, rest = stat.partition("(")[2].rpartition(")")
                asleep = asleep or name == "sleep"
                parent = int(rest.split()[1])
                if known.get(parent) == "fork server":
                    continue  # a job
                if process.pid not in known:
                    if (role := role_of(process, command)) is None:
                        continue
                    known[process.pid] = role
                user, system, ended_user, ended_system = map(int, rest.split()[11:15])
                found[process.pid] = Use(
                    known[process.pid],
                    (user + system) * TICK_S,
                    (ended_user + ended_system) * TICK_S,
                    int(rest.split()[21]) * os.sysconf("SC_PAGE_SIZE"),
                )
    return found, asleep


@contextmanager
def launcher(place: Path, on: str, nodes: int) -> Iterator[tuple[str, dict[str, str]]]:
    """What `[run] on` says, and the environment of the command."""
    if on == "dask":
        from dask_cluster import dask_cluster

        with dask_cluster(nodes) as address:
            yield f"dask://{address}", dict(os.environ)
        return
    import agent_process

    yield "process", {**os.environ, **agent_process.installed_in(place)}


def run(on: str, nodes: int, **fields: Any) -> tuple[list[dict[str, Any]], Any, Watched, float]:
    """Run a study. Returns its records, its jobs, samples of its processes, and its CPU seconds."""
    with (
        tempfile.TemporaryDirectory(prefix="headrace dispatch ", dir="/dev/shm") as made,
        launcher(Path(made), on, nodes) as (kind, environment),
    ):
        place, watched, known = Path(made), Watched(), dict[int, str]()
        study = place / "study.toml"
        filled = {"slots": 1, "repeats": 1, "more": "", **fields}
        study.write_text(STUDY.format(on=kind, nodes=nodes, place=place, **filled))
        words = [sys.executable, "-m", "headrace", "run", str(study), "--results", "results"]
        if profile := os.environ.get("DISPATCH_PROFILE"):
            words[1:1] = ["-m", "cProfile", "-o", profile]
        before = os.times()
        with (place / "said").open("w") as said:
            process = subprocess.Popen(
                words, cwd=place, env=environment, stdout=said, stderr=subprocess.STDOUT
            )
            while process.poll() is None:
                uses, asleep = look(process.pid, known)
                if asleep:
                    watched.at_s.append(time.monotonic())
                    watched.uses.append(uses)
                time.sleep(EVERY_S)
        after = os.times()
        if process.returncode and not [*(place / "results").glob("trials/*/jobs.parquet")]:
            sys.exit((place / "said").read_text())
        spent = after.children_user + after.children_system
        spent -= before.children_user + before.children_system
        files = sorted((place / "results").glob("trials/*/trial.json"))
        trials = [json.loads(file.read_text()) for file in files]
        return trials, headrace.records(place / "results").df(), watched, spent


def quantiles_ms(times_s: list[float]) -> dict[str, float]:
    ordered = sorted(times_s)
    picked = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {
        name: round(1e3 * ordered[min(int(share * len(ordered)), len(ordered) - 1)], 1)
        for name, share in picked.items()
    }


def costs(watched: Watched) -> dict[str, Any]:
    """CPU of the processes of a run by role: percent of a core of each, and of all."""
    wall_s, both = watched.between()
    found: dict[str, Any] = {"seconds": round(wall_s, 1)}
    for role in ("command", *ROLES.values()):
        uses = [pair for pair in both.values() if pair[0].role == role]
        if not uses:
            continue
        shares = [100 * (last.own_s - first.own_s) / wall_s for first, last in uses]
        found[role] = {
            "processes": len(uses),
            "percent_of_a_core_each": round(statistics.mean(shares), 3),
            "percent_of_a_core_most": round(max(shares), 3),
            "percent_of_a_core_all": round(sum(shares), 2),
            "rss_mb_each": round(statistics.mean(last.rss_bytes for _, last in uses) / 1e6, 1),
        }
        if role == "fork server":
            jobs_s = sum(last.ended_s - first.ended_s for first, last in uses)
            found["jobs"] = {"percent_of_a_core_all": round(100 * jobs_s / wall_s, 2)}
    found["percent_of_a_core"] = round(
        sum(part["percent_of_a_core_all"] for part in found.values() if isinstance(part, dict)), 1
    )
    return found


def dispatch(on: str, nodes: int, slots: int, jobs: int, sleep: str) -> dict[str, Any]:
    """Sustained load: how busy slots were, and what each job cost."""
    load, begin_s = os.getloadavg()[0], time.monotonic()
    trials, rows, watched, spent_s = run(
        on, nodes, slots=slots, sleep=sleep, more=f'load = "sustained"\njobs = {jobs}'
    )
    whole_s = time.monotonic() - begin_s
    (trial,) = trials
    by_slot: dict[int, list[tuple[float, float]]] = {}
    for slot, start_s, end_s in zip(rows["slot"], rows["start_s"], rows["end_s"], strict=True):
        by_slot.setdefault(int(slot), []).append((float(start_s), float(end_s)))
    gaps: list[float] = []
    for times in by_slot.values():
        gaps += [after[0] - before[1] for before, after in pairwise(sorted(times))]
    # Until the first slot has nothing left to do: no slot waits for anything but its next job.
    until_s = min(max(end_s for _, end_s in times) for times in by_slot.values())
    busy_s = sum(
        max(0.0, min(end_s, until_s) - start_s)
        for each in by_slot.values()
        for start_s, end_s in each
    )
    found = costs(watched)
    started = len(rows) / float(rows["end_s"].max())
    return {
        "nodes": nodes,
        "slots": nodes * slots,
        "on": on,
        "jobs": len(rows),
        "jobs_distinct": int(rows["job"].nunique()),
        "jobs_ok": int((rows["exit"] == "ok").sum()),
        "status": trial["status"],
        "invalid_because": [each["code"] for each in trial["validity"]["reasons"]],
        "slots_busy": round(busy_s / (nodes * slots * until_s), 4),
        "slots_busy_asleep": round(
            len(rows) * float(sleep) / (nodes * slots * float(rows["end_s"].max())), 4
        ),
        "jobs_per_s": round(started, 1),
        "gap_ms": quantiles_ms(gaps),
        "job_longer_than_sleep_ms": quantiles_ms(
            [float(wall_s) - float(sleep) for wall_s in rows["wall_s"]]
        ),
        "cpu_ms_per_job": round(10 * found["percent_of_a_core"] / started, 2),
        "cpu": found,
        "whole_run": {"cpu_s": round(spent_s, 1), "wall_s": round(whole_s, 1)},
        "load_average": {"before": load, "after": os.getloadavg()[0]},
    }


def spread(on: str, nodes: int) -> dict[str, Any]:
    """Batches of one job for each node: seconds between the first and the last begin."""
    load = os.getloadavg()[0]
    trials, rows, _, _ = run(on, nodes, sleep="1", repeats=5)
    spreads = [
        float(each["start_s"].max() - each["start_s"].min()) for _, each in rows.groupby("trial")
    ]
    return {
        "nodes": nodes,
        "on": on,
        "batches": len(trials),
        "start_spread_ms": [round(1e3 * each, 1) for each in sorted(spreads)],
        "load_average": {"before": load, "after": os.getloadavg()[0]},
    }


def agent(on: str) -> dict[str, Any]:
    """One node whose jobs do nothing: its agent samples the probes, looks at the load and waits."""
    load = os.getloadavg()[0]
    _, _, watched, _ = run(on, 1, slots=2, sleep="60")
    return {"on": on, **costs(watched), "load_average": {"before": load}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--on", choices=("process", "dask"), default="process")
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--sleep", default="1")
    parser.add_argument("--spread", type=int, nargs="+", metavar="NODES")
    parser.add_argument("--agent", action="store_true")
    given = parser.parse_args()
    if given.spread:
        found: Any = [spread(given.on, nodes) for nodes in given.spread]
    elif given.agent:
        found = agent(given.on)
    else:
        found = dispatch(given.on, given.nodes, given.slots, given.jobs, given.sleep)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
