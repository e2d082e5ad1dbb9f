"""How often the threads of a job ran or could run in samples: so long they can have waited for a
CPU."""

from __future__ import annotations

from headrace.system.accounting import Times
from headrace.system.thread_states import SAMPLES_ENOUGH, queued_ns


class AwakeSamples:
    """Bounds the run-queue delay of a job, in which the kernel may count sleep (`queued_ns`).

    Threads that wake up together are seen awake together: samples of one moment count as one.
    Where looks have few samples, those of several looks bound the sum of their times; what the
    looks before had too much, the next ones have too little.
    """

    def __init__(self) -> None:
        self._moment = -1
        self._at_moment = 0
        """Samples taken at this moment."""
        self._begin(0)

    def _begin(self, given_ns: int) -> None:
        self._samples = self._awake = self._squares = 0
        self._spent, self._lived_ns, self._given_ns = Times(), 0, given_ns

    def add(self, moment: int, *, awake: bool) -> None:
        """Count a sample of a thread. `moment`: a number, equal for samples taken at once."""
        if moment != self._moment:
            self._moment, self._at_moment = moment, 0
        self._squares += 2 * self._at_moment + 1  # sum of the squares of samples per moment
        self._at_moment += 1
        self._samples += 1
        self._awake += awake

    def believed(self, spent: Times, lived_ns: int) -> Times:
        """Return the times of a look with the run-queue delay that the samples allow. `lived_ns`:
        lifetimes of the threads within it."""
        self._spent += spent
        self._lived_ns += lived_ns
        independent = self._samples**2 // max(1, self._squares)
        share = self._awake / max(1, self._samples)
        allowed_ns = queued_ns(self._spent, self._lived_ns, share, independent)
        waited_ns = max(0, min(spent.wait_cpu_ns, allowed_ns - self._given_ns))
        self._given_ns += waited_ns
        if independent >= SAMPLES_ENOUGH:
            self._begin(max(0, self._given_ns - allowed_ns))
        return Times(spent.run_ns, waited_ns, spent.wait_block_ns)
