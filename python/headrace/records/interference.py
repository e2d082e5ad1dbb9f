"""CPU use by other programs during a trial: measured by the engine, read by the analysis."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ForeignProgram:
    """Processes of one name that do not belong to the study."""

    name: str
    processes: int
    """0 for those that could not be identified: they ended, or this user may not see them."""
    cpu_s: float


@dataclass(frozen=True)
class Interference:
    """CPU seconds used on the CPUs available to the jobs, from release to the end of the last job.

    The field `interference` of trial.json. It does not exist in virtual time.
    """

    cpus: float
    """CPUs available to the jobs: by affinity, or fewer by the quota of the control group."""
    capacity_s: float
    """CPU seconds available."""
    jobs_s: float
    own_s: float
    """Headrace, its servers and its emulated drives."""
    kernel_s: float
    """Kernel threads and interrupts."""
    foreign_s: float
    """Programs that do not belong to the study."""
    steal_s: float
    """Time in which the hypervisor ran something else."""
    idle_s: float
    waited_s: float
    """Time in which jobs, and the processes that serve them, were runnable but had no CPU."""
    throttled_s: float
    """Time in which the control group's quota kept them from running."""
    wall_s: float
    """Sum over all jobs."""
    lost_share: float
    """Upper limit of the share of the jobs' time lost to foreign programs and steal, 0..1."""
    pressure: float | None
    """Share of the time in which some task of the machine waited for a CPU.

    None if the kernel does not count it.
    """
    programs: tuple[ForeignProgram, ...]
    """The programs that used the most CPU time, largest first."""

    @property
    def stolen_cpus(self) -> float:
        """Mean number of CPUs that the hypervisor withheld."""
        return self.steal_s / self.capacity_s * self.cpus if self.capacity_s > 0 else 0.0

    @property
    def foreign_cpus(self) -> float:
        """Mean number of CPUs used by foreign programs and the hypervisor."""
        return (
            (self.foreign_s + self.steal_s) / self.capacity_s * self.cpus
            if self.capacity_s > 0
            else 0.0
        )
