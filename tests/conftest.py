"""What every test starts with: the order of tests, and which may run beside others."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

ORDER = ("unit", "property", "golden", "fuzz", "system", "e2e")
"""Folders of tests, fast to slow."""

BESIDE_OTHERS = (
    "system/test_program_pages.py",
    "system/test_recorded_frameworks.py",
    "system/test_recorded_programs.py",
    "system/test_recorded_sizes.py",
    "system/test_recorder.py",
    "system/test_recorder_commands.py",
    "system/test_recorder_harm.py",
    "e2e/test_bad_recordings.py",
    "e2e/test_first_steps.py",
    "e2e/test_profile_command.py",
    "e2e/test_report_page.py",
    "e2e/test_simulate.py",
    "e2e/test_wrong_usage.py",
)
"""Tests in system/ and e2e/ that change nothing of the machine and measure nothing on it.

They record programs, simulate, draw pages and refuse input, each in a folder of its own.
"""


def pytest_configure() -> None:
    """Let Ctrl-C and a closed terminal reach Headrace, also where tests start with both ignored.

    `nohup`, and a shell without job control that starts them with `&`, ignore them for all
    children.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run fast tests first, and mark those that need the machine for themselves with `machine`.

    These change settings of the kernel, start servers at fixed ports, or judge the load of other
    programs. All others can run in several processes: `pytest -m "not machine" -n logical`.
    """
    here = Path(__file__).parent
    places = {item: item.path.relative_to(here) for item in items}
    items.sort(key=lambda item: ORDER.index(places[item].parts[0]))
    for item in items:
        place = places[item]
        if place.parts[0] in ("system", "e2e") and str(place) not in BESIDE_OTHERS:
            item.add_marker(pytest.mark.machine)
