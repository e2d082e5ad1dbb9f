"""What running jobs wait for: their ledger, measured from outside, without restarting anything.

    watcher = Watcher(PidFinder(["4711"]))
    with watcher:
        sample = watcher.watch(10.0)
    sample.jobs[0].total.ledger.shares  # {"on_cpu": 0.43, …}

A *finder* (`finders/`, one file per kind) names the jobs and their processes. A `JobMeter`
(`job.py`) adds up the counters of a job's processes (`process.py`): time on a CPU, time on a run
queue, bytes, and block I/O where the kernel counts it. Everything else that a job waits for is
estimated from samples of the states of its threads (`states.py`): a thread that sleeps in a read of
a file waits for the storage of that file (`places.py`). `ledger.py` makes the ledger of an interval
from both.
"""

from headrace.watching.finders import Finder, FoundJob, finder_kinds
from headrace.watching.ledger import JobLedger
from headrace.watching.used import JobSample
from headrace.watching.watcher import NodeSample, Watcher

__all__ = [
    "Finder",
    "FoundJob",
    "JobLedger",
    "JobSample",
    "NodeSample",
    "Watcher",
    "finder_kinds",
]
