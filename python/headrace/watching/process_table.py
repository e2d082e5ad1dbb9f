"""The processes of this machine: a look costs one listing of /proc, and some reads per new one."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from headrace.system.accounting import CounterFile
from headrace.system.program_names import job_name
from headrace.watching.finders import FoundJob

_KERNEL_THREAD = 0x00200000
"""PF_KTHREAD of include/linux/sched.h, in the field `flags` of /proc/PID/stat."""
_BATCH_JOB = re.compile(
    r"/slurm[^/]*/(?:uid_\d+/)?job_(\d+)|/(?:[^/]*_)?slurmstepd\.scope/job_(\d+)"
)
_CONDOR_SLOT = re.compile(r"/condor_[^/]*?(slot[\w.@-]+)")
_IN_ENVIRONMENT = re.compile(rb"(?:^|\0)(SLURM_JOB_ID|_CONDOR_JOB_AD)=([^\0]+)")
_FIELD = re.compile(r"^(ClusterId|ProcId)\s*=\s*(\d+)\s*$", re.MULTILINE | re.IGNORECASE)
_SCOPE = re.compile(r"/([^/]+\.(?:scope|service))(?:/|$)")


def hides_others() -> bool:
    """Return whether /proc shows this user no processes of others (hidepid): process 1 is root's,
    and always there."""
    return not Path("/proc/1").exists()


@dataclass(frozen=True)
class Process:
    """What does not change while a process runs, except its control group."""

    pid: int
    name: str
    session: int
    started: int
    user: int
    kernel: bool

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """Paths of its control groups; empty when they cannot be read."""
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{self.pid}/cgroup").read_text(errors="replace")
            return tuple(line.split(":", 2)[2] for line in text.splitlines())
        return ()

    @cached_property
    def environment(self) -> Mapping[str, str]:
        """Its environment at its start; empty when it may not be read."""
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{self.pid}/environ").read_bytes().split(b"\0")
            pairs = (word.decode(errors="replace").partition("=") for word in words)
            return {key: value for key, _, value in pairs}
        return {}

    @cached_property
    def job(self) -> tuple[str, str]:
        """Key and name of the job it belongs to: a batch job, a scope of systemd, or a session."""
        for pattern, kind in ((_BATCH_JOB, "slurm"), (_CONDOR_SLOT, "condor"), (_SCOPE, "")):
            for group in self.groups:
                if (found := pattern.search(group)) is not None:
                    name = next(each for each in found.groups() if each)
                    name = f"{kind} {name}".strip() + _container(group[: found.start()], kind)
                    return name, name
            if kind == "condor" and (name := _batch_job(self.pid)):
                return name, name  # the batch system has made no control group
        return f"session {self.session}", ""


@dataclass
class ProcessTable:
    """The processes as of the last `look`, without this one."""

    by_pid: dict[int, Process] = field(default_factory=dict[int, Process])

    def look(self) -> list[Process]:
        """Return the processes of this moment, without threads of the kernel."""
        pids = {int(name) for name in os.listdir("/proc") if name.isdigit()}  # noqa: PTH208
        pids.discard(os.getpid())
        for gone in self.by_pid.keys() - pids:
            del self.by_pid[gone]
        for pid in pids - self.by_pid.keys():
            with contextlib.suppress(OSError, ValueError, IndexError):
                self.by_pid[pid] = _read(pid)
        return [process for process in self.by_pid.values() if not process.kernel]


def _container(above: str, kind: str) -> str:
    """Return ` in NAME` for a service of a container: others, and the host, have one of its name.

    `above`: the groups above that of the service.
    """
    inside = [each for each in above.split("/") if each and not each.endswith(".slice")]
    return f" in {inside[-1]}" if inside and not kind else ""


def _batch_job(pid: int) -> str:
    """Return `slurm 4711` or `condor 4711.0` from the environment of a process; else nothing."""
    with contextlib.suppress(OSError):
        found = _IN_ENVIRONMENT.search(Path(f"/proc/{pid}/environ").read_bytes())
        if found is not None:
            name, value = (each.decode(errors="surrogateescape") for each in found.groups())
            job = value if name == "SLURM_JOB_ID" else condor_job(pid, value)
            return f"{'slurm' if name == 'SLURM_JOB_ID' else 'condor'} {job}" if job else ""
    return ""


def condor_job(pid: int, ad: str) -> str:
    """Return cluster and process of the ClassAd of a job; empty when it cannot be read."""
    for place in (Path(f"/proc/{pid}/root{ad}"), Path(ad)):
        try:
            fields = {name.lower(): value for name, value in _FIELD.findall(place.read_text())}
            return f"{fields['clusterid']}.{fields['procid']}"
        except (OSError, KeyError, UnicodeError):
            continue
    return ""


def _read(pid: int) -> Process:
    with CounterFile(f"/proc/{pid}/stat", 1024) as file:
        head, _, rest = file.read().rpartition(b")")
    fields = rest.split()  # the first is field 3 of proc(5)
    return Process(
        pid=pid,
        name=head.partition(b"(")[2].decode(errors="replace"),
        session=int(fields[3]),
        started=int(fields[19]),
        user=os.stat(f"/proc/{pid}").st_uid,  # noqa: PTH116 - once per process
        kernel=bool(int(fields[6]) & _KERNEL_THREAD),
    )


def grouped(processes: list[Process], names: dict[str, str]) -> list[FoundJob]:
    """Return processes as jobs. `names`: those given before, kept for the same keys."""
    members: dict[str, list[Process]] = {}
    for process in processes:
        members.setdefault(process.job[0], []).append(process)
    for key, mine in members.items():
        if key not in names:
            first = min(mine, key=lambda each: each.started)
            name = mine[0].job[1] or f"{first.pid} {job_name(first.pid, first.name)}"
            names[key] = name
    return [
        FoundJob(key, names[key], frozenset(process.pid for process in mine), follow=False)
        for key, mine in members.items()
    ]
