"""A setting that several runs need is put back by the last of them, to what it was before the
first."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.system import block_queue, loops, shared_settings
from headrace.system.journal import Journal, pending_journals, undo
from headrace.system.shared_settings import holders, put_back_abandoned
from workspace import HEADRACE

# Alone: `headrace undo` of any other test would restore what runs that were killed here left.
pytestmark = pytest.mark.machine

RUN = """
import sys
from pathlib import Path
from headrace.system import block_queue, loops, shared_settings
from headrace.system.journal import Journal
from headrace.system.shared_settings import set_file
with Journal.open("a run", Path(sys.argv[1])) as journal:
    entry = set_file(journal, Path(sys.argv[2]), sys.argv[3])
    print("nothing to do" if entry is None else "set", flush=True)
    sys.stdin.readline()
"""


class Runs:
    """Processes that need one setting, each with an undo journal of its own."""

    def __init__(self, place: Path) -> None:
        self.setting = place / "setting"
        self.setting.write_text("0\n")
        self._place = place
        self._all: list[subprocess.Popen[str]] = []

    @property
    def value(self) -> str:
        return self.setting.read_text().strip()

    def journal(self, run: subprocess.Popen[str]) -> Path:
        return self._place / f"journal {self._all.index(run)}"

    def start(self, value: str = "1", said: str = "set") -> subprocess.Popen[str]:
        run = subprocess.Popen(
            [
                sys.executable,
                "-c",
                RUN,
                str(self._place / f"journal {len(self._all)}"),
                self.setting,
                value,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._all.append(run)
        assert run.stdout and run.stdout.readline().strip() == said
        return run

    def end(self, run: subprocess.Popen[str]) -> None:
        run.communicate("\n", timeout=30)
        assert run.returncode == 0

    def kill(self, run: subprocess.Popen[str]) -> None:
        run.kill()
        run.communicate()

    def undo(self, run: subprocess.Popen[str]) -> str:
        (pending,) = pending_journals(self.journal(run))
        (result,) = undo(pending.file)
        assert result.done
        return result.text


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


@pytest.mark.parametrize("first_ends_first", [True, False])
def test_the_last_of_two_runs_puts_it_back(runs: Runs, first_ends_first: bool) -> None:
    first, second = runs.start(), runs.start()
    for run in (first, second) if first_ends_first else (second, first):
        assert runs.value == "1"
        runs.end(run)
    assert runs.value == "0"
    assert holders(str(runs.setting)) == []


def test_two_runs_that_want_different_values_leave_the_first_one(runs: Runs) -> None:
    first, second = runs.start("1"), runs.start("2")
    runs.end(first)
    assert runs.value == "2"
    runs.end(second)
    assert runs.value == "0"


def test_a_run_that_was_killed_is_undone_without_harm_to_one_that_goes_on(runs: Runs) -> None:
    first, second = runs.start(), runs.start()
    runs.kill(first)
    assert f"left as it is for process {second.pid}" in runs.undo(first)
    assert runs.value == "1"
    runs.end(second)
    assert runs.value == "0"


def test_the_run_after_one_that_was_killed_knows_what_it_was(runs: Runs) -> None:
    first = runs.start()
    runs.kill(first)
    second = runs.start()
    runs.end(second)
    assert runs.value == "0"
    assert "restored before" in runs.undo(first)


def test_what_both_left_when_killed_is_put_back_by_the_undo_of_either(runs: Runs) -> None:
    first, second = runs.start(), runs.start()
    runs.kill(first)
    runs.kill(second)
    assert "set back to 0" in runs.undo(first)
    runs.undo(second)
    assert runs.value == "0"


def test_undo_finds_what_a_run_left_whose_journal_is_gone(runs: Runs, tmp_path: Path) -> None:
    """The journal lay in a folder that was removed: `task_delayacct` was found on with nothing to
    undo."""
    first = runs.start()
    runs.kill(first)
    shutil.rmtree(runs.journal(first))
    ended = subprocess.run(
        [HEADRACE, "undo"],
        env={**os.environ, "HEADRACE_JOURNAL_DIR": str(tmp_path / "empty"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0 and f"{runs.setting}: set back to 0" in ended.stdout, ended
    assert runs.value == "0"


def test_what_is_set_already_and_not_by_headrace_is_left(runs: Runs) -> None:
    runs.setting.write_text("1\n")
    run = runs.start(said="nothing to do")
    assert holders(str(runs.setting)) == []
    runs.end(run)
    assert runs.value == "1"


def test_a_run_that_goes_on_is_not_abandoned(runs: Runs) -> None:
    run = runs.start()
    put_back_abandoned(block_queue.put_back)
    assert runs.value == "1"
    run.send_signal(signal.SIGKILL)
    run.communicate()
    assert any(str(runs.setting) in said for said in put_back_abandoned(block_queue.put_back))
    assert runs.value == "0"


def test_what_was_changed_since_is_left_alone(runs: Runs) -> None:
    """Its loop device may be another program's by now, and undo overwrote what that had set."""
    killed = runs.start()
    runs.kill(killed)
    runs.setting.write_text("7\n")
    assert "left alone: it was set to 7 since" in runs.undo(killed)
    assert runs.value == "7" and holders(str(runs.setting)) == []
    runs.end(runs.start("2"))
    assert runs.value == "7"


SET_A_QUEUE = """
import sys
from pathlib import Path
from headrace.system.block_queue import Queue
from headrace.system.journal import Journal
with Journal.open("a run", Path(sys.argv[1])) as journal:
    queue = Queue(journal, sys.argv[2])
    queue.set_scheduler("none")
    queue.set_depth(16)
    print("set", flush=True)
    sys.stdin.readline()
"""


def stored_for(disk: str) -> list[str]:
    files = shared_settings.folder().glob("*.json")
    return [text for file in files if f"queue of {disk}" in (text := file.read_text())]


@pytest.mark.usefixtures("needs_root")
@pytest.mark.parametrize("gone", [False, True], ids=["attached", "gone"])
def test_undo_puts_a_queue_back_that_a_run_left_whose_journal_is_gone(
    journal: Journal, tmp_path: Path, gone: bool
) -> None:
    """The state of a queue stayed in the folder of settings until the next run on that disk."""
    image = tmp_path / "image"
    image.write_bytes(bytes(1 << 20))
    device = loops.attach(journal, image, direct_io=False)
    before = block_queue.read_scheduler(device.name), block_queue.read_depth(device.name)
    run = subprocess.Popen(
        [sys.executable, "-c", SET_A_QUEUE, str(tmp_path / "lost"), device.name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert run.stdout and run.stdout.readline().strip() == "set"
    assert block_queue.read_depth(device.name) == 16
    run.kill()
    run.communicate()
    shutil.rmtree(tmp_path / "lost")
    assert stored_for(device.name)
    if gone:
        assert journal.undo(device.entry).done
    ended = subprocess.run(
        [HEADRACE, "undo"],
        env={**os.environ, "HEADRACE_JOURNAL_DIR": str(tmp_path / "empty"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0 and f"queue of {device.name}: set back" in ended.stdout, ended
    assert stored_for(device.name) == []
    now = block_queue.read_scheduler(device.name), block_queue.read_depth(device.name)
    assert now == before
