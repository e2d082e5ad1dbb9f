"""The study file that `headrace init` writes: an explained first study of a storage."""

from __future__ import annotations

import json
from pathlib import Path

_TEXT = """\
# A Headrace study. `headrace validate` checks it, `headrace plan` shows what it does, `headrace \
run` does it.
headrace = 1
title = "How many slots does this storage feed?"

# The storage under test: any directory. It gets a folder .headrace-USER for generated data, and \
keeps it for the next study.
[target.storage]
kind = "path"
path = {path}
# scheduler = "mq-deadline"     # set for the study and restored afterwards (root)
# read_ahead = "128 KiB"

# `headrace simulate`: the drive that stands for the storage. `headrace drive list` names others.
[site.node]
drives = {{ storage = "samsung-870-evo-1tb" }}

# What runs in the slots: a search for the Higgs boson in four leptons. It reads every \
collection of generated collision events.
# Other kinds: scan (one variable), skim (reads half the events, writes them), sequential and \
random (fio), command (your own program).
[workload.analysis]
kind = "analysis"
data = {{ shape = "bench", events = 200_000, files = {files}, format = "ttree", codec = "zlib" }}

# What is varied: any field of a target, a workload or the run, with a list of its levels.
[factors]
slots = {slots}
# codec = ["zlib", "zstd", "lz4"]
# read_ahead = ["16 KiB", "128 KiB", "1 MiB"]

[plan]
repeats = {{ min = 3 }}           # at least 3 for an interval

[run]
cache = "cold"                  # cold, warm or as-is
timeout = "10 min"              # a job that takes longer is killed and recorded
"""


def first_study(path: Path, cores: int) -> str:
    """Return the text of a study of the storage at `path` for a machine with `cores` cores."""
    slots = sorted({1, max(1, cores // 2), cores, 2 * cores})
    # A dollar sign starts the name of an environment variable.
    written = json.dumps(str(path).replace("$", "$$"), ensure_ascii=False)
    return _TEXT.format(path=written, files=max(slots), slots=slots)
