from collections.abc import Callable, Sequence

__version__: str
SECTOR_BYTES: int

class ModelError(Exception):
    """A description that cannot be true: args are (field, given, allowed)."""

    args: tuple[str, str, str]

def drive_check(spec_json: str) -> None:
    """Raises ModelError when a drive's table cannot be true."""

def drive_run_json(spec_json: str, run_json: str) -> str:
    """Runs a fresh model of a drive under a load in fio's words. Raises ModelError."""

def drive_replay(
    spec_json: str,
    time_ns: Sequence[int],
    op: Sequence[int],
    sector: Sequence[int],
    sectors: Sequence[int],
    iodepth: int,
    seed: int,
) -> list[int]:
    """Response time (ns) of every request of a trace; `iodepth` 0: open, at the recorded times; else closed,
    that many in flight. Raises ModelError."""

def simulate_json(scenario_json: str) -> str:
    """Runs a scenario; the outcome as JSON. Raises ModelError."""

def simulate_many(
    scenarios: Sequence[str],
    threads: int,
    finished: Callable[[int, str | None, tuple[str, str, str] | None], bool],
    cancelled: Callable[[], bool],
) -> int:
    """Runs scenarios side by side (0 threads: all cores); `finished(index, outcome, error)` is called in the caller's thread as each
    ends and returns whether to go on. Returns how many were run. Ends early when `cancelled()` says so."""
