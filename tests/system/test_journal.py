"""The undo journal: written before the change, found after a crash, undone once and only where a
thing is ours."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import select
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.system.journal import Journal, pending_journals, undo
from headrace.system.loops import attach, backed_by
from headrace.system.mounts import mount
from headrace.system.owned import make_directories, make_file, work_directory
from headrace.system.processes import marked, run_program, start_process
from headrace.system.waiting import wait_until
from machine import loops_below, mounts_below

CRASH = """
import os, signal, sys
from pathlib import Path
from headrace.system.journal import Journal
from headrace.system.owned import make_file, work_directory
journal = Journal.open("crashed", Path(sys.argv[1]))
work, _ = work_directory(journal, Path(sys.argv[2]))
(work / "kept").write_text("x")
make_file(journal, Path(sys.argv[2]) / "image", 1 << 20)
os.kill(os.getpid(), signal.SIGKILL)
"""


def crash(place: Path, folder: Path) -> None:
    subprocess.run([sys.executable, "-c", CRASH, str(place), str(folder)])


def test_a_crashed_run_is_found_and_undone(tmp_path: Path) -> None:
    place, folder = tmp_path / "journal", tmp_path / "work"
    folder.mkdir()
    crash(place, folder)
    assert len(list(folder.iterdir())) == 2
    (pending,) = pending_journals(place)
    assert pending.description == "crashed"
    assert pending.same_boot
    results = undo(pending.file)
    assert [result.action for result in results] == ["remove_file", "remove_tree"]
    assert all(result.done for result in results)
    assert list(folder.iterdir()) == []
    assert pending_journals(place) == []
    assert undo(pending.file) == []


def test_a_live_run_is_not_pending_and_not_undone(
    journal: Journal, journal_place: Path, tmp_path: Path
) -> None:
    folder, _ = work_directory(journal, tmp_path)
    assert pending_journals(journal_place) == []
    with pytest.raises(HeadraceError, match="still going on"):
        undo(journal.file)
    assert folder.is_dir()


def test_what_does_not_survive_a_restart_is_dropped(tmp_path: Path) -> None:
    place, folder = tmp_path / "journal", tmp_path / "work"
    folder.mkdir()
    crash(place, folder)
    (file,) = place.iterdir()
    lines = file.read_text().splitlines()
    header = {**json.loads(lines[0]), "boot": "00000000-0000-0000-0000-000000000000"}
    setting = {
        "begin": 90,
        "action": "write_setting",
        "args": {"path": "/proc/sys/kernel/hostname", "value": "wrong"},
    }
    file.write_text("\n".join([json.dumps(header), *lines[1:], json.dumps(setting)]) + "\n")
    (pending,) = pending_journals(place)
    assert not pending.same_boot
    results = undo(pending.file)
    assert all(result.done for result in results)
    assert "restarted" in results[0].text
    assert Path("/proc/sys/kernel/hostname").read_text().strip() != "wrong"
    assert list(folder.iterdir()) == [], "files survive a restart and are removed"


def test_a_torn_last_line_was_never_acted_upon(tmp_path: Path) -> None:
    place, folder = tmp_path / "journal", tmp_path / "work"
    folder.mkdir()
    crash(place, folder)
    (file,) = place.iterdir()
    with file.open("a") as handle:
        handle.write('{"begin": 99, "action": "remove_tr')
    (pending,) = pending_journals(place)
    assert all(entry.number != 99 for entry in pending.entries)
    assert all(result.done for result in undo(file))
    assert not file.exists()


def test_nobody_elses_things_are_touched(tmp_path: Path) -> None:
    place, folder = tmp_path / "journal", tmp_path / "work"
    folder.mkdir()
    crash(place, folder)
    image = folder / "image"
    image.rename(folder / "kept by the user")
    image.write_text("the user's own file of the same name")
    tree = next(path for path in folder.iterdir() if path.is_dir())
    (tree / ".headrace-owner").write_text("another token")
    (pending,) = pending_journals(place)
    results = undo(pending.file)
    assert all("left alone" in result.text for result in results)
    assert image.read_text() == "the user's own file of the same name"
    assert (tree / "kept").exists()


def test_what_fails_stays_in_the_journal(tmp_path: Path) -> None:
    place, folder = tmp_path / "journal", tmp_path / "work"
    folder.mkdir()
    crash(place, folder)
    (file,) = place.iterdir()
    with file.open("a") as handle:
        handle.write(json.dumps({"begin": 99, "action": "from a later version", "args": {}}) + "\n")
    results = undo(file)
    assert [result.done for result in results] == [False, True, True]
    (pending,) = pending_journals(place)
    assert [entry.number for entry in pending.entries] == [99]


FORK = """
import os, sys
from pathlib import Path
from headrace.system.journal import Journal
journal = Journal.open("forked", Path(sys.argv[1]))
if os.fork() == 0:
    try:
        journal.begin("remove_file", path="/x", token="x")
    except RuntimeError:
        os._exit(7)
    os._exit(0)
code = os.waitstatus_to_exitcode(os.wait()[1])
journal.close()
sys.exit(code)
"""


def test_a_fork_cannot_write_to_it(tmp_path: Path) -> None:
    # In a process of its own: a test before this one may have left threads in this one, which do
    # not survive a fork.
    done = subprocess.run([sys.executable, "-c", FORK, str(tmp_path)], timeout=60)
    assert done.returncode == 7


def test_without_a_place_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HeadraceError, match="cannot be kept") as caught:
        Journal.open("a test", tmp_path / "file" / "below")
    assert "HEADRACE_JOURNAL_DIR" in (caught.value.hint or "")


def test_a_change_lasts_as_long_as_its_block(journal: Journal, tmp_path: Path) -> None:
    path = tmp_path / "setting"
    path.write_text("old\n")
    with journal.change("write_setting", path=str(path), value="old"):
        path.write_text("new")
        assert len(journal.open_entries) == 1
    assert path.read_text() == "old"
    assert journal.open_entries == ()


def test_directories_go_only_when_empty(journal: Journal, tmp_path: Path) -> None:
    entries = make_directories(journal, tmp_path / "a" / "b" / "c")
    (tmp_path / "a" / "b" / "results").write_text("of the user")
    for entry in reversed(entries):
        assert journal.undo(entry).done
    assert not (tmp_path / "a" / "b" / "c").exists()
    assert (tmp_path / "a" / "b" / "results").exists()


def test_a_process_that_was_not_yet_its_program_when_we_were_killed_is_ended(
    journal: Journal,
) -> None:
    """Between fork and the end of exec a process carries no mark."""
    entry = journal.begin("end_process", mark="0123456789abcdef")
    late = subprocess.Popen(
        ["sh", "-c", "sleep 0.2; exec env HEADRACE_PROCESS=0123456789abcdef sleep 60"]
    )
    try:
        result = journal.undo(entry)
        assert result.done and str(late.pid) in result.text, result
        late.wait(60)  # its exit code is lost when undo was first to wait for it
    finally:
        late.kill()
        late.wait()


def test_a_process_is_known_by_its_mark_before_its_id_is(journal: Journal) -> None:
    started = start_process(
        journal, ["sh", "-c", "sleep 60 & setsid sleep 60 & wait"], outlives_us=True
    )
    mark = str(started.entry.args["mark"])
    assert started.pid in marked(mark)
    result = journal.undo(
        started.entry
    )  # as after a crash: the entry as it was written first holds no process id
    assert result.done, result
    assert marked(mark) == []
    assert started.stop() is not None


def test_a_stop_while_a_process_is_started_leaves_none(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever starts it undoes what was set up before, and must not do so while it lives."""
    seen: list[int] = []

    def stopped(pid: int) -> int:
        seen.append(pid)
        raise KeyboardInterrupt

    monkeypatch.setattr("headrace.system.processes.start_ticks", stopped)
    with pytest.raises(KeyboardInterrupt):
        start_process(journal, ["sleep", "60"], outlives_us=True)
    comm = Path(f"/proc/{seen[0]}/comm")
    assert not comm.exists() or "\nState:\tZ" in comm.with_name("status").read_text()
    assert journal.open_entries == ()


def test_a_process_dies_with_us(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys; from pathlib import Path; from headrace.system.journal import "
        "Journal;"
        "from headrace.system.processes import start_process;"
        "started = start_process(Journal.open('x', Path(sys.argv[1])), ['sleep', '3600']);"
        "print(started.pid, flush=True); sys.stdin.read(1); os.kill(os.getpid(), signal.SIGKILL)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as ours:
        assert ours.stdout is not None
        pid = int(ours.stdout.readline())
        child = os.pidfd_open(pid)
        # Until it is `sleep`, the request to die with its parent may not have reached the kernel;
        # the undo journal ends such a process.
        comm = Path(f"/proc/{pid}/comm")
        assert wait_until(lambda: comm.read_text() == "sleep\n", 60, 0.005)
        # The end of its input is the word to die.
        ours.communicate()
    # Readable once the process has ended, however long the machine takes to run it for that.
    ended, _, _ = select.select([child], [], [], 300)
    os.close(child)
    assert ended


def test_a_program_that_fails_says_why(journal: Journal) -> None:
    with pytest.raises(HeadraceError, match="cannot access '/no/such/place'"):
        run_program(journal, ["ls", "/no/such/place"])
    with pytest.raises(HeadraceError, match=r"did not end within 0\.1 s"):
        run_program(journal, ["sleep", "60"], timeout_s=0.1)
    assert run_program(journal, ["echo", "well"]) == "well\n"
    assert journal.open_entries == ()


@pytest.mark.usefixtures("needs_root")
def test_another_mount_in_our_place_is_left(journal: Journal, tmp_path: Path) -> None:
    directory = tmp_path / "mounted"
    directory.mkdir()
    first = mount(journal, "ours", directory, "tmpfs")
    second = mount(journal, "theirs", directory, "tmpfs")
    assert journal.undo(first).text.endswith("not mounted"), "the mount on top is not ours"
    assert mounts_below(tmp_path) == [directory, directory]
    assert journal.undo(second).done
    journal.undo(journal.begin("unmount", directory=str(directory), source="ours"))
    assert mounts_below(tmp_path) == []


@pytest.mark.usefixtures("needs_root")
def test_a_tree_with_a_mount_in_it_is_not_removed(journal: Journal, tmp_path: Path) -> None:
    work, entry = work_directory(journal, tmp_path)
    (work / "mounted").mkdir()
    mounted = mount(journal, "precious", work / "mounted", "tmpfs")
    (work / "mounted" / "file").write_text("of value")
    result = journal.undo(entry)
    assert not result.done
    assert "still mounted" in result.text
    assert (work / "mounted" / "file").exists()
    assert journal.undo(mounted).done
    assert journal.undo(entry).done
    assert not work.exists()


@pytest.mark.usefixtures("needs_root")
def test_a_loop_device_of_another_file_of_the_same_name_is_left(
    journal: Journal, tmp_path: Path
) -> None:
    file = tmp_path / "image"
    made = make_file(journal, file, 4 << 20)
    loop = attach(journal, file)
    assert loops_below(tmp_path) == [loop.name]
    assert backed_by(file, file.stat().st_ino + 1) == []
    assert journal.undo(loop.entry).done
    assert loops_below(tmp_path) == []
    assert journal.undo(made).done
    assert not file.exists()


def test_the_newest_run_is_undone_first(tmp_path: Path) -> None:
    place, setting = tmp_path / "journal", tmp_path / "setting"
    setting.write_text("as it was")
    script = (
        "import os, signal, sys; from pathlib import Path; from headrace.system.journal import "
        "Journal;"
        "setting = Path(sys.argv[2]); journal = Journal.open(sys.argv[3], Path(sys.argv[1]));"
        "journal.begin('write_setting', path=str(setting), value=setting.read_text());"
        "setting.write_text(sys.argv[3]); os.kill(os.getpid(), signal.SIGKILL)"
    )
    for number, name in enumerate(("first", "second")):
        subprocess.run([sys.executable, "-c", script, str(place), str(setting), name])
        (file,) = (path for path in place.iterdir() if "2000" not in path.name)
        file.rename(place / f"2000010{number}T000000-1-x.jsonl")
    assert setting.read_text() == "second"
    assert [pending.description for pending in pending_journals(place)] == ["second", "first"]
    for pending in pending_journals(place):
        undo(pending.file)
    assert setting.read_text() == "as it was"


def test_two_commands_do_not_undo_at_once(tmp_path: Path) -> None:
    place, folder = tmp_path / "journal", tmp_path / "work"
    folder.mkdir()
    crash(place, folder)
    (pending,) = pending_journals(place)
    with pending.file.open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(HeadraceError, match="undoing"):
            undo(pending.file)
        assert len(list(folder.iterdir())) == 2
    undo(pending.file)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("folder", ["", "directory-" * 20], ids=["short path", "long path"])
def test_a_socket_is_removed_once_nobody_listens_on_it(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    (tmp_path / folder).mkdir(exist_ok=True)
    monkeypatch.chdir(tmp_path / folder)
    gone, kept = Path("gone").absolute(), Path("kept").absolute()
    with socket.socket(socket.AF_UNIX) as dying, socket.socket(socket.AF_UNIX) as living:
        for listening, path in ((dying, gone), (living, kept)):
            listening.bind(path.name)
            listening.listen()
        last_thread = threading.Timer(0.5, dying.close)
        last_thread.start()
        assert journal.undo(journal.begin("remove_sockets", paths=[str(gone)])).done
        last_thread.join()
        assert not gone.exists()
        entry = journal.begin("remove_sockets", paths=[str(kept)])
        result = journal.undo(entry)
        assert not result.done
        assert "still listened on" in result.text
        assert kept.exists()
    assert journal.undo(entry).done
    assert not kept.exists()


def test_a_step_that_a_full_disk_cuts_short_is_refused_and_leaves_no_part(tmp_path: Path) -> None:
    place = tmp_path / "journal"
    journal = Journal.open("full", place)
    journal.begin("remove_directory", path=str(tmp_path / "first"))
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = journal.file.stat().st_size
    # A write beyond this takes its first 20 bytes, as on a disk that gets full.
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, usual[1]))
    try:
        with pytest.raises(HeadraceError, match="cannot be written"):
            journal.begin("remove_directory", path=str(tmp_path / "second"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert journal.file.stat().st_size == size
    journal.begin("remove_directory", path=str(tmp_path / "third"))
    lines = [json.loads(line) for line in journal.file.read_text().splitlines()]
    assert [line.get("begin") for line in lines] == [None, 1, 2]
    journal.close()
