"""Servers and hosts that live and say nothing hold nobody up for long."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from headrace import launchers
from headrace.errors import HeadraceError
from headrace.launchers import NodesWanted, ssh
from headrace.launchers.remote.ssh_client import MARK
from headrace.launchers.remote.survey import survey
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


def test_silent_hosts_are_waited_for_together(
    programs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each was waited for a minute of its own, after one for all."""
    monkeypatch.setenv("HEADRACE_JOURNAL_DIR", str(tmp_path / "journal"))
    monkeypatch.setattr(ssh, "_START_S", 2.0)
    # Each host notes that it was tried, and dies in time or waits.
    tries = f'echo "$*" >> {tmp_path}/tries; case "$*" in *refuses*) echo no >&2; exit 1;; esac'
    put(programs, "ssh", f"#!/bin/sh\n{tries}\nexec sleep 600\n")
    begun_s = time.monotonic()
    nodes, failures = survey("ssh://a,b,c,refuses,e,f,g,h", None, "/usr/bin/python3")
    assert time.monotonic() - begun_s < 4 * 2.0
    assert nodes == []
    assert len((tmp_path / "tries").read_text().splitlines()) == 8
    silent = ["node-0 (a)", "node-1 (b)", "node-2 (c)", *(f"node-{n} ({h})" for n, h in LAST)]
    assert {error.message for error in failures} == {
        "node-3 (refuses) does not start: no",
        *(f"{each} does not answer within 2 s" for each in silent),
    }


LAST = ((4, "e"), (5, "f"), (6, "g"), (7, "h"))


def test_every_bad_host_is_named_before_a_study_starts(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the first one was: each correction showed the next."""
    monkeypatch.setattr(ssh, "_START_S", 5.0)
    said = 'case "$*" in *alpha*) echo refused >&2;; *) echo busy >&2;; esac; exit 255'
    put(programs, "ssh", f"#!/bin/sh\n{said}\n")
    nodes = tuple(NodeSettings(f"node-{number}") for number in range(3))
    wanted = NodesWanted(nodes, address="alpha,beta,gamma", python="/usr/bin/python3")
    found = launchers.kinds()["ssh"].check(wanted)
    assert found == (
        "node-0 (alpha) does not start: refused; node-1 (beta) does not start: busy; "
        "node-2 (gamma) does not start: busy",
        "try ssh alpha; try ssh beta; try ssh gamma",
    )
