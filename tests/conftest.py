"""What every test starts with: the order of tests, and what the processes of one run share.

Tests run side by side: each has folders, an undo journal and network namespaces of its own. One
that measures times or rates, judges the load of the machine, or looks at settings that other tests
may change is marked `machine`, with the reason beside the mark, and runs alone. One that measures
and itself leaves the machine mostly idle is marked `quiet`: it runs beside others of that mark, the
longest first (`quiet(seconds=56)`). A mount namespace that one of them makes holds what another
mounts for as long, which is waited for.
"""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path

import pytest

ORDER = ("unit", "property", "golden", "fuzz", "system", "e2e")
"""Folders of tests, fast to slow."""

LONG = (
    "system/test_drive_learn.py",
    "system/test_watch.py",
    "system/test_why.py",
    "system/test_trial_lifecycle.py",
    "system/test_wheel.py",
    "system/test_targets_conformance.py",
    "system/test_own_files_on_targets.py",
    "system/test_job_pool.py",
    "e2e/test_servers_under_test.py",
    "e2e/test_main_job.py",
    "e2e/test_ssh_study.py",
    "e2e/test_simulate.py",
    "e2e/test_simulate_on_dask.py",
    "e2e/test_dask_study.py",
)
"""Files that take longest: before others of `system`, so that none is left to one process at the
end."""


def pytest_configure() -> None:
    """Let Ctrl-C and a closed terminal reach Headrace, also where tests start with both ignored.

    `nohup`, and a shell without job control that starts them with `&`, ignore them for all
    children.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # Servers in Java live for seconds here: half their CPU time would go into optimising code that
    # ends soon. The user's own value is kept.
    os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
    # ROOT compiles the code that reads a file, and optimising it takes a fifth of such a test's
    # time. `test_own_files_study.py` reads once as users do, with optimisation.
    os.environ.setdefault("EXTRA_CLING_ARGS", "-O0")
    # As in `headrace` itself: an eighth of the tests' own CPU time was spent looking for cycles.
    gc.set_threshold(50_000, 20, 100)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run fast tests first, but of those that take long the longest."""
    here = Path(__file__).parent

    def place(item: pytest.Item) -> tuple[float, int, bool]:
        path = item.path.relative_to(here)
        quiet = item.get_closest_marker("quiet")
        seconds = quiet.kwargs.get("seconds", 0.0) if quiet else 0.0
        if str(path) in LONG:
            return -seconds, ORDER.index("system"), False
        return -seconds, ORDER.index(path.parts[0]), True

    items.sort(key=place)


def pytest_collection_finish() -> None:
    """Leave what was imported out of garbage collection: it stays to the end."""
    gc.freeze()


@pytest.fixture
def needs_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this test run: one for all processes of pytest-xdist."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def data_sets(shared_folder: Path) -> Path:
    """A cache of generated data sets for tests that only read them, or copies of their files."""
    return shared_folder / "data sets"
