"""The jobs and data of a cell on more nodes than those that it describes."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from headrace.scenario import FileSet
from headrace.workloads import ModelledJob


def grown(job: ModelledJob, growth: Fraction) -> ModelledJob:
    """Return the job with `growth` times the files of which each job has its own, and times the
    events of a query."""
    packets = job.packets
    if packets is not None and "events" in packets:
        packets = {**packets, "events": more(packets["events"], growth)}
    return replace(job, files=[_grown(each, growth) for each in job.files], packets=packets)


def more(count: int, growth: Fraction) -> int:
    """Return so many times a number, rounded up."""
    return math.ceil(count * growth)


def _grown(files: FileSet, growth: Fraction) -> FileSet:
    # A count of 0 is one for each slot, and grows with the nodes.
    count = files.get("count")
    if not count or files["share"] != "each":
        return files
    return {**files, "count": more(count, growth)}
