"""Times at which this process itself was stopped: it is stopped here, really."""

from __future__ import annotations

import os
import subprocess
import time

import pytest

from headrace.engine.measure.own_stops import OwnStops


@pytest.mark.slow
def test_a_stop_between_two_waits_is_counted_and_work_is_not() -> None:
    """Jobs are started between waits: a stop there left slots empty in a valid trial."""
    stops = OwnStops()
    with stops.waiting(0.01):
        pass
    time.sleep(1.2)  # work
    with stops.waiting(0.01):
        pass
    assert stops.stopped_s == 0
    stop = f"kill -STOP {os.getpid()}; sleep 2; kill -CONT {os.getpid()}"
    subprocess.run(["sh", "-c", stop], check=True)
    with stops.waiting(0.01):
        pass
    assert 1.5 < stops.stopped_s < 4
