"""What a coupled cluster costs to simulate: nodes of 24 slots that share one file server of 10 Gb/s
with requests of 256 KiB.

CPU time on one core, for each size a short and a longer run, so that the cost a request is that
of the steady state, without starting jobs and closing books. Bars: 1 000 nodes cost at most
twice as much a request as 10; an hour of 1 000 nodes takes less than 2 minutes and 2 GB. Run it
on an otherwise idle machine: `python benchmarks/cluster_speed.py [SECONDS]`.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from figures import SMALL, note

from headrace import _core
from headrace.engine.simulate.scenario import scenario_of
from headrace.plan.order import make_plan
from headrace.study import load_study
from headrace.study.resolve import resolve

NODES = (2, 4) if SMALL else (10, 100, 1000)
REQUEST_BYTES = 256 << 10
STUDY = """
headrace = 1
title = "a cluster on one file server"
[site.node]
count = {nodes}
machine = "generic-node"
link = "10 GbE"
drives = {{ os = "sata-7200-500gb" }}
[site.server.nas]
machine = "generic-server"
link = "10 GbE"
[target.nas]
kind = "nfs"
server = "nas"
export = {{ drive = "samsung-pm9a3-3.84tb" }}
[workload.job]
kind = "replay"
profile = "atlas-dq2-local"
[run]
slots = 24
load = "sustained"
duration = "{seconds} s"
[plan]
repeats = {{ min = 1 }}
[report]
metric = "events_per_s"
"""


def simulated(nodes: int, seconds: float) -> tuple[float, int]:
    """(CPU seconds, requests to the server) of one run."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.toml"
        path.write_text(STUDY.format(nodes=nodes, seconds=seconds))
        study = load_study(path)
        (trial,) = make_plan(study).trials
        resolved = resolve(study, trial.target, trial.workload, trial.levels)
        scenario: dict[str, Any] = scenario_of(resolved, trial.target, trial.workload, 1)
    scenario["services"][0]["tuning"]["read_request_bytes"] = REQUEST_BYTES
    text = json.dumps(scenario)
    before = time.process_time()
    outcome = _core.simulate_json(text)
    spent = time.process_time() - before
    return spent, int(json.loads(outcome)["counters"]["service_requests"])


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0 if SMALL else 120.0
    costs: dict[int, float] = {}
    hour_s = 0.0
    for nodes in NODES:
        (short, few), (long, many) = simulated(nodes, seconds / 2), simulated(nodes, seconds)
        costs[nodes] = (long - short) / (many - few)
        hour_s = long + (long - short) / (seconds / 2) * (3600 - seconds)
        print(
            f"{nodes:5d} nodes: {costs[nodes] * 1e6:6.2f} us of CPU a request, "
            f"{(many - few) / (seconds / 2):8.0f} requests a second; "
            f"an hour: {hour_s:5.0f} s; "
            f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB so far"
        )
    note("cluster hour", hour_s)
    note("cluster ratio", costs[NODES[-1]] / costs[NODES[0]])
    print(
        f"{NODES[-1]} nodes over {NODES[0]}: {costs[NODES[-1]] / costs[NODES[0]]:.2f} times (bar: "
        f"2)"
    )


if __name__ == "__main__":
    main()
