"""Reproduction: what each finding's judgement depends on: a prediction, an input, or a choice that
was made after the finding had been seen.

A mechanism from the kernel's source that was built because a finding did not hold is a choice, too:
nobody knows how many other mechanisms would have been tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["predicted", "built in", "chosen"]
KINDS: dict[Kind, str] = {
    "predicted": "nothing that decides it was set or chosen with it in sight",
    "built in": "an input or a fitted row decides it: the model could hardly say otherwise",
    "chosen": "a value or mechanism that decides it was chosen after it had been seen",
}


@dataclass(frozen=True)
class Origin:
    """What a finding's judgement depends on."""

    kind: Kind
    why: str


def _predicted(why: str) -> Origin:
    return Origin("predicted", why)


def _built_in(why: str) -> Origin:
    return Origin("built in", why)


def _chosen(why: str) -> Origin:
    return Origin("chosen", why)


WINDOW = "events in a window of the analysis, set again when predicted rows were known"
PROFILE = "the job's profile was made with predicted rows known"

PROOF_SSD = {
    "scan-ssd-order-of-magnitude": _built_in("both rates are calibrate rows"),
    "scan-hdd-ceiling": _built_in("the rate with 8 workers is a calibrate row"),
    "scan-ssd-levels-at-cores": _built_in(
        "8 cores, and CPU time of an event fitted to the SSD's rate with 8 workers"
    ),
    "analysis-hdd-peaks-at-2": _chosen(f"{WINDOW}: holds with 20 and 40, not with 80 and 160"),
    "analysis-ssd-up-to-10x": _predicted("holds with windows of 20 to 160 events"),
    "scan-ssd-raid-no-gain": _built_in("the CPU time fitted to one SSD leaves no gain to a second"),
    "scan-hdd-raid-doubles": _chosen(
        "both rates are calibrate rows; rising until 7 workers needs 100 files, 20 before"
    ),
    "scan-hdd-raid-drops-at-8": _predicted("no mechanism was made for it"),
    "analysis-raid-levels-at-10": _built_in("8 cores: the analysis needs the CPU on SSDs"),
    "analysis-hdd-raid-peaks-at-3": _chosen(f"{WINDOW}: holds with 20 and 40, not with 80 and 160"),
    "hdd-raid-no-help-beyond-4": _predicted("holds with windows of 20 to 160 events"),
    "ssd-raid-10-to-20": _predicted("the analysis on SSDs with 8 workers is not a calibrate row"),
    "farm-sums": _built_in("nodes with data of their own share nothing in the model"),
}
WORKER_NODE_SSD = {
    "raid0-best": _chosen(f"{PROFILE}; lost if the X25-M had been filled in order"),
    "cheap-ssd-worse-than-hdd": _predicted("log blocks of its controller, from reviews"),
    "order-8": _predicted("the state of the X25-M is taken from its source: no TRIM"),
    "ssd-falls-with-slots": _predicted("the state of the X25-M is taken from its source: no TRIM"),
    "mixed-writes-hurt-ssd": _chosen(
        "that reordered files are read whole and in order was concluded from this finding"
    ),
    "remote-helps-only-the-cheap-ssd": _chosen(
        "holds with half the load of the storage element, which was chosen by eye at first, alone"
    ),
    "remote-below-single-job": _predicted("holds with any load of the storage element"),
    "reordering-cuts-seeks": _built_in("one profile reads in order, the other basket by basket"),
    "price-factor": _built_in("prices and capacities are inputs"),
}
CLUSTER_ENERGY = {
    "slots-help": _built_in("times at slot sizes 1 and 3 of both drives are calibrate rows"),
    "slot2-equal": _predicted("slot size 2 is in no calibrate row"),
    "slot3-ssd-no-gain": _predicted("slot size 2 is in no calibrate row"),
    "node-power-rises": _built_in("power of idle node and busy core are fitted: busier draws more"),
    "energy-flat-ssd-local": _built_in("energies at slot sizes 1 and 3 are calibrate rows"),
    "read-ahead-ssd-none": _predicted("jobs hardly wait for the SSD"),
    "read-ahead-hdd-hurts": _predicted("length of reads from CMSSW's defaults"),
    "fs-matters-on-hdd": _chosen(
        "where ext3 puts files of one directory was built in from its source afterwards"
    ),
    "fs-choice": _predicted("no mechanism was made for it"),
    "scheduler-ssd-none": _predicted("jobs hardly wait for the SSD"),
    "scheduler-noop-ssd": _predicted("jobs hardly wait for the SSD"),
    "scheduler-nas-as-worst": _predicted("md was assumed before"),
    "cfq-worst-local": _chosen(
        "the pause at every change of process was found in the kernel's source afterwards, and "
        "reads are single, no longer in groups of 19"
    ),
    "wrong-choice-costs": _predicted("follows file systems and schedulers"),
    "most-efficient": _chosen("four runs instead of one, when one run had lost it"),
    "fastest": _predicted("no mechanism was made for it"),
    "hdd-faster-at-3": _predicted("no mechanism was made for it"),
    "nas-overhead": _built_in("the NAS's 115 W are an input"),
    "ssd-saves-a-watt": _built_in("the drives' powers are inputs"),
}
STORAGE_OPTIONS = {
    "lustre-best-skim": _chosen(
        "its client is served more bytes, by the event's size of 100 kB (90 kB before)"
    ),
    "others-equal-skim": _predicted("one description of all servers, and cold caches"),
    "lustre-reads-too-much": _chosen("event of 100 kB (90 kB before); lost with 32 kB"),
    "lustre-vm-write": _chosen("write-through guest disks; a rate of 75 MB/s before"),
    "skim-write-cpu-bound": _chosen("CPU time of packing was set with it known"),
    "hadoop-replicas": _predicted("each replica is written through the pipeline"),
    "orangefs-name-nodes": _built_in("metadata servers with a fixed time per operation"),
    "hadoop-metadata": _built_in("times per metadata operation are inputs"),
}

ORIGINS: dict[str, dict[str, Origin]] = {
    "proof-ssd": PROOF_SSD,
    "worker-node-ssd": WORKER_NODE_SSD,
    "cluster-energy": CLUSTER_ENERGY,
    "storage-options": STORAGE_OPTIONS,
}
