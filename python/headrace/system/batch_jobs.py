"""Base layer: cancel jobs of batch systems by the systems' own commands."""

from __future__ import annotations

import re
import subprocess

from headrace.errors import HeadraceError

CANCEL = {"slurm": "scancel", "sge": "qdel", "pbs": "qdel", "htcondor": "condor_rm"}
"""The command of each batch system that cancels a job, given its identity."""
_PATIENCE_S = 60.0
_ID = re.compile(r"[0-9]+(\.[A-Za-z0-9_.-]+)?|headrace-[0-9a-f]+")
_GONE = re.compile(
    r"invalid job id|does not exist|do not exist|unknown job|not found|has finished"
    r"|already (completing|completed|in deletion)|couldn't find|no matching",
    re.IGNORECASE,
)

NO_SERVER = re.compile(r"establish a configuration source|Unable to initialize environment")
"""What commands of Slurm and Grid Engine say when they know no server."""
ENVIRONMENT = (
    "on a machine where jobs are submitted, with the environment that its commands need "
    "(SLURM_CONF, SGE_ROOT)"
)


def cancel(system: str, job: str) -> str:
    """Cancel a job and return what was done, as a clause. Raises HeadraceError when it is left.

    `job`: its identity, or with Slurm and Grid Engine its name. A job that is gone is no error.
    """
    if not _ID.fullmatch(job):
        raise HeadraceError(f"{job!r} is not a batch job")
    words = [CANCEL[system], job]
    if system == "slurm" and job.startswith("headrace-"):
        words = [CANCEL[system], f"--name={job}"]
    try:
        ended = subprocess.run(
            words, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HeadraceError(f"{words[0]} cannot be run: {error}") from error
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
