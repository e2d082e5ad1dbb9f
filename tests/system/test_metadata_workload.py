"""`metadata` with its real clients.

Several processes in step, none left waiting for a dead one, a full disk said with counts.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.errors import HeadraceError
from headrace.system.own_programs import own_program
from headrace.targets import TargetContext
from headrace.targets import kinds as targets
from headrace.workloads import JobInput, kinds

PHASES = ["file_creation", "file_stat", "file_removal"]


def start(tmp_path: Path, number: int, count: int, **fields: Any) -> subprocess.Popen[str]:
    meeting = tmp_path / "meeting"
    meeting.mkdir(exist_ok=True)
    config = {
        "directory": str(tmp_path / "test"),
        "meeting": str(meeting),
        "clients": 3,
        "first_client": 3 * number,
        "clients_total": 3 * count,
        "items": 20,
        "phases": PHASES,
        **fields,
    }
    file = tmp_path / f"{number}.json"
    file.write_text(json.dumps(config))
    return subprocess.Popen(
        [str(own_program("headrace-metadata")), str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ends(
    processes: list[subprocess.Popen[str]], patience_s: float = 120
) -> list[tuple[int, str, str]]:
    try:
        said = [process.communicate(timeout=patience_s) for process in processes]
        return [(process.returncode, *each) for process, each in zip(processes, said, strict=True)]
    finally:
        for process in processes:
            process.kill()


def test_processes_go_through_the_phases_together(tmp_path: Path) -> None:
    found = ends(
        [start(tmp_path, number, 4, stride=1, unique_directories=True) for number in range(4)]
    )
    assert [code for code, _, _ in found] == [0, 0, 0, 0]
    reports = [json.loads(out) for _, out, _ in found]
    for phases in zip(*(report["phases"] for report in reports), strict=True):
        assert (
            len({(each["phase"], each["start_ns"], each["stonewall_ns"]) for each in phases}) == 1
        )
        if not phases[0]["phase"].startswith("tree"):
            assert sum(each["operations"] for each in phases) == 4 * 3 * 20
    for before, after in zip(reports[0]["phases"], reports[0]["phases"][1:], strict=False):
        assert after["start_ns"] >= before["start_ns"] + before["last_done_ns"]
    assert list((tmp_path / "test").iterdir()) == []


def test_nobody_waits_for_a_client_that_was_killed(tmp_path: Path) -> None:
    processes = [start(tmp_path, number, 3, items=2_000_000) for number in range(3)]
    deadline = time.monotonic() + 60
    while (
        not (tmp_path / "test" / "mdtest" / "mdtest_tree.0.0").exists()
        and time.monotonic() < deadline
    ):
        time.sleep(0.02)
    processes[1].send_signal(signal.SIGKILL)
    killed = time.monotonic()
    found = ends(processes)
    assert time.monotonic() - killed < 60
    assert found[1][0] == -signal.SIGKILL
    for code, _, said in (found[0], found[2]):
        assert code == 1
        assert "of 9 died; the others stopped" in said


def test_processes_that_were_asked_for_different_things_say_so(tmp_path: Path) -> None:
    found = ends([start(tmp_path, 0, 2), start(tmp_path, 1, 2, items=21)])
    assert any("not all asked for the same" in said for _, _, said in found)
    assert all(code == 1 for code, _, _ in found)


@pytest.mark.usefixtures("needs_root")
def test_a_full_disk_is_said_with_counts(context: TargetContext, tmp_path: Path) -> None:
    kind = targets()["block"]
    image = tmp_path / "small.img"
    target = kind(
        "small",
        kind.Options.model_validate({"image": str(image), "size": "16 MiB", "mkfs": ["-N", "400"]}),
    )
    location = target.prepare(context)
    try:
        assert location.directory is not None
        part = kinds()["metadata"]
        workload = part("w", part.Options.model_validate({"items": 1000, "of": "files"}))
        with pytest.raises(
            HeadraceError, match=r"1003 files and directories at once .* of \d+ free"
        ):
            workload.check_room(location.directory, 1)
        scratch = location.directory / "job-0000"
        scratch.mkdir()
        with pytest.raises(HeadraceError) as error:
            workload.run(
                JobInput(
                    files=(), directory=location.directory, scratch=scratch, slot=0, slots=1, seed=1
                )
            )
        said = error.value.message
        assert said.startswith("file creation: no space left on device at client 0 after ")
        assert "of 1000 operations" in said
        assert " 0 of " in said and "inodes free" in said
    finally:
        target.release(context)


def test_a_study_has_its_rates_and_leaves_nothing(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(
        """
headrace = 1
[target.here]
kind = "path"
path = "."
[workload.metadata]
kind = "metadata"
items = 50
clients = 2
depth = 1
branching_factor = 3
write_bytes = 64
verify = true
[factors]
slots = [1, 3]
[run]
cache = "as-is"
shortest = 0
[plan]
repeats = { min = 1 }
"""
    )
    results = headrace.load_study(study).run(tmp_path / "results")
    trials = [json.loads(file.read_text()) for file in results.glob("trials/*/trial.json")]
    assert sorted(trial["results"]["clients"] for trial in trials) == [2, 6]
    for trial in trials:
        phases = trial["results"]["phases"]
        assert trial["status"] == "done", trial["cause"]
        assert phases["file_read"]["bytes_read"] == trial["results"]["clients"] * 50 * 64
        assert len(phases) == 10
        assert trial["results"]["rates"]["directory_renames_per_s"] > 0
    assert not (tmp_path / ".headrace").exists()
