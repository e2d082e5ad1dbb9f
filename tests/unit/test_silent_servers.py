"""Servers and hosts that live and say nothing hold nobody up for long."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace import launchers
from headrace.errors import HeadraceError
from headrace.launchers import NodesWanted, ssh
from headrace.launchers.remote.ssh_client import MARK
from headrace.system import batch_jobs
from headrace.system.cluster import NodeSettings

HANGS = "#!/bin/sh\nexec sleep 600\n"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that are found first."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(batch_jobs, "_silent_at_s", [], raising=False)
    return tmp_path


def put(programs: Path, name: str, text: str) -> None:
    (programs / name).write_text(text)
    (programs / name).chmod(0o755)


def test_many_jobs_of_a_silent_server_are_not_all_waited_for(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is in the undo journal: with the patience of the first, 100 took over an hour."""
    monkeypatch.setattr(batch_jobs, "_PATIENCE_S", 1.5)
    monkeypatch.setattr(batch_jobs, "_SHORT_PATIENCE_S", 0.1, raising=False)
    put(programs, "qdel", HANGS)
    said: list[str] = []
    for number in range(1, 5):
        with pytest.raises(HeadraceError) as error:
            batch_jobs.cancel("sge", str(number))
        said.append(error.value.message.partition(":")[0])
    assert said == ["qdel has no answer after 1.5 s"] + ["qdel has no answer after 0.1 s"] * 3
    put(programs, "qdel", "#!/bin/sh\necho has deleted job\n")
    assert batch_jobs.cancel("sge", "1") == "cancelled"
    put(programs, "qdel", HANGS)
    with pytest.raises(HeadraceError, match=r"after 1\.5 s"):
        batch_jobs.cancel("sge", "2")  # it had answered since


def test_a_question_without_an_answer_says_so_in_words(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_jobs, "_PATIENCE_S", 0.3)
    put(programs, "squeue", HANGS)
    part = launchers.kinds()["slurm"]
    state = part.state("7")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    assert not state.over
    assert state.text == "squeue has no answer after 0.3 s: its server does not answer"


def test_a_host_whose_python_hangs_is_not_waited_for_without_end(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has logged in and begun: its Python is on a file system whose server is gone."""
    monkeypatch.setattr(ssh, "_START_S", 0.5)
    put(programs, "ssh", f"#!/bin/sh\nprintf '%s' '{MARK.decode()}'\nexec sleep 600\n")
    wanted = NodesWanted((NodeSettings("node-0"),), address="alpha", python="/usr/bin/python3")
    found = launchers.kinds()["ssh"].check(wanted)
    assert found is not None and "node-0 (alpha) does not answer within" in found[0], found
