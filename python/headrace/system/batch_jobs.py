"""Base layer: cancel jobs of batch systems by the systems' own commands."""

from __future__ import annotations

import math
import os
import re
import subprocess
import time
from collections.abc import Sequence

from headrace.errors import HeadraceError

CANCEL = {"slurm": "scancel", "sge": "qdel", "pbs": "qdel", "htcondor": "condor_rm"}
"""The command of each batch system that cancels a job, given its identity."""
_PATIENCE_S = 30.0
_SHORT_PATIENCE_S = 2.0
_SILENT_S = 60.0
"""For so long after a command had no answer, other commands are given little time: each of many
jobs would take as long, and all of them are in the undo journal."""
_silent_at_s: list[float] = []
"""When a command had no answer last, on the monotonic clock; empty if the last one had."""
_ID = re.compile(r"[0-9]+([.;][A-Za-z0-9_.-]+)?|headrace-[0-9a-f]+")
_FILTERS = ("SQUEUE_", "SCANCEL_")
"""Beginnings of variables by which a user of Slurm hides jobs from squeue and scancel, such as
SQUEUE_STATES: a job that is hidden looks like one that has ended."""
_GONE = re.compile(
    r"invalid job id|does not exist|do not exist|unknown job|not found|has finished"
    r"|already (completing|completed|in deletion|marked for removal)|couldn't find|no matching",
    re.IGNORECASE,
)

NO_SERVER = re.compile(r"establish a configuration source|Unable to initialize environment")
"""What commands of Slurm and Grid Engine say when they know no server."""
SILENT_SERVER = re.compile(
    r"timed out|unable to contact|unable to send message|unable to connect|can't connect"
    r"|cannot connect|failed to connect|can't find address|got no response|connection refused",
    re.IGNORECASE,
)
"""What commands of batch systems say when the server that they know does not answer."""
ENVIRONMENT = (
    "on a machine where jobs are submitted, with the environment that its commands need "
    "(SLURM_CONF, SGE_ROOT)"
)


def ended_of(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command of a batch system. Raises HeadraceError when it has no answer in time."""
    silent_s = time.monotonic() - _silent_at_s[-1] if _silent_at_s else math.inf
    patience_s = _SHORT_PATIENCE_S if silent_s < _SILENT_S else _PATIENCE_S
    try:
        ended = subprocess.run(
            words,
            env={name: text for name, text in os.environ.items() if not name.startswith(_FILTERS)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=patience_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        _silent_at_s[:] = [time.monotonic()]
        raise HeadraceError(
            f"{words[0]} has no answer after {patience_s:g} s: its server does not answer"
        ) from error
    except OSError as error:
        raise HeadraceError(f"{words[0]} cannot be run: {error.strerror}") from error
    _silent_at_s.clear()
    return ended


def of_cluster(job: str) -> tuple[str, list[str]]:
    """Return the number of a job of Slurm, and the option that names its cluster.

    `job`: as `sbatch --parsable` prints it: `12`, or `12;other` on another cluster.
    """
    number, _, cluster = job.partition(";")
    return number, [f"--clusters={cluster}"] if cluster else []


def cancel(system: str, job: str) -> str:
    """Cancel a job and return what was done, as a clause. Raises HeadraceError when it is left.

    `job`: its identity, or with Slurm and Grid Engine its name. A job that is gone is no error.
    """
    if not _ID.fullmatch(job):
        raise HeadraceError(f"{job!r} is not a batch job")
    words = [CANCEL[system], job]
    if system == "slurm":
        number, option = of_cluster(job)
        named = job.startswith("headrace-")
        words = [CANCEL[system], *option, f"--name={job}" if named else number]
    ended = ended_of(words)
    said = " ".join(f"{ended.stdout} {ended.stderr}".split())
    if ended.returncode == 0:
        return "cancelled"
    if _GONE.search(said):
        return "gone"
    if NO_SERVER.search(said):
        raise HeadraceError(
            f"{words[0]} finds no {system} here; headrace undo cancels the job {ENVIRONMENT}"
        )
    raise HeadraceError(f"{words[0]}: {said or f'exit code {ended.returncode}'}")
