"""Tests that start real servers, devices and jobs meet a machine that is shared: what failed once is tried once more.

A second failure is a failure, and pytest's last line counts what had to be tried again. Unit, property and golden tests are never
tried again: nothing in them depends on time.
"""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name in ("system", "e2e"):
            item.add_marker(pytest.mark.flaky(reruns=1, reruns_delay=2))
