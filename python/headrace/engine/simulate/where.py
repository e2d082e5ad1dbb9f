"""Where scenarios are simulated: on this machine, or on the workers of a Dask cluster.

with simulator_on("dask://127.0.0.1:8786") as simulator:
    simulator.run(scenarios, finished)
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from headrace.engine.simulate.dask_workers import dask_workers
from headrace.engine.simulate.simulator import Cores, Simulator
from headrace.errors import UsageError


@contextmanager
def simulator_on(on: str = "") -> Generator[Simulator]:
    """Open what `--on` names: `dask://HOST:PORT`, or the cores of this machine when empty.

    Raises UsageError for anything else, HeadraceError when it cannot be reached.
    """
    if not on or on == "local":
        yield Cores()
        return
    kind, _, address = on.partition("://")
    host, _, port = address.rpartition(":")
    if kind != "dask" or not host or not port.isdigit():
        raise UsageError(
            f"--on {on}: simulations run on this machine or on a Dask cluster",
            hint="--on dask://HOST:PORT names its scheduler",
        )
    with dask_workers(address) as simulator:
        yield simulator
