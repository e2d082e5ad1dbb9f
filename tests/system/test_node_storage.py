"""Storage that nodes on other machines have for themselves, set up by the agents of the nodes.

The nodes are processes of this machine that share nothing with the engine (`agent_process.py`).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_process import Elsewhere
from headrace.datasets.integrity import MANIFEST, checksum
from headrace.errors import HeadraceError, UnsupportedLevelError
from headrace.launchers import Agent, LauncherLostError, Launchers, NodesWanted
from headrace.system import journal as journals
from headrace.system.claims import Place, claimed
from headrace.system.cluster import NodeSettings
from headrace.system.journal import Journal
from headrace.system.mounts import read_mounts
from headrace.system.waiting import wait_until
from headrace.targets.node_storage import FilesWanted, TargetOfNode

pytestmark = pytest.mark.usefixtures("needs_root")

STUDY = """
headrace = 1
title = "storage of each node"
[target.image]
kind = "block"
image = "{place}/disk of.img"
size = "64 MiB"
[target.emulated]
kind = "block"
drive = "mtron-msp-sata7035064"
size = "64 MiB"
[target.folder]
kind = "path"
on = "node"
path = "{place}/folder of {{node}}"
[target.missing]
kind = "block"
device = "/dev/headrace-none"
[workload.scan]
kind = "scan"
data = {{ events = 8_000, files = 4 }}
[workload.write]
kind = "sequential"
mode = "write"
file_size = "4 MiB"
[factors]
target = {targets}
workload = ["scan", "write"]
[plan]
repeats = {{ min = 1 }}
[run]
on = "elsewhere"
nodes = 2
slots = 2
shortest = 0
foreign_load = "warning"
start_spread = 100
"""


@pytest.fixture
def journal_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the engine and the nodes keep their undo journals; nothing is left in it."""
    place = tmp_path / "journals"
    monkeypatch.setenv("HEADRACE_JOURNAL_DIR", str(place))
    yield place
    assert [file.read_text() for file in place.iterdir()] == [], "nothing is left to undo"


def run(tmp_path: Path, targets: list[str]) -> subprocess.CompletedProcess[str]:
    """Run the study as a user does, with the launcher of the tests beside the registered ones."""
    added = tmp_path / "added" / "elsewhere-1.0.dist-info"
    added.mkdir(parents=True, exist_ok=True)
    (added / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1.0\n")
    (added / "entry_points.txt").write_text(
        "[headrace.launchers]\nelsewhere = agent_process:Elsewhere\n"
    )
    study = tmp_path / "study.toml"
    study.write_text(STUDY.format(place=tmp_path, targets=json.dumps(targets)))
    path = f"{added.parent}:{Path(__file__).parent.parent}:{os.environ.get('PYTHONPATH', '')}"
    words = ["run", str(study), "--results", str(tmp_path / "results")]
    return subprocess.run(
        [sys.executable, "-m", "headrace", *words, "--cache-dir", str(tmp_path / "cache")],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )


def trials(tmp_path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    found = [json.loads(file.read_text()) for file in tmp_path.glob("results/trials/*/trial.json")]
    return {(each["target"]["name"], each["workload"]["name"]): each for each in found}


def left_over(place: Path) -> list[str]:
    listed = subprocess.run(["losetup", "-a"], capture_output=True, text=True, check=True)
    mounted = [str(mount.directory) for mount in read_mounts()]
    return [text for text in [*listed.stdout.splitlines(), *mounted] if str(place) in text]


def test_each_node_sets_up_its_own_storage(tmp_path: Path, journal_place: Path) -> None:
    for number in range(2):
        (tmp_path / f"folder of {number}").mkdir()
    ended = run(tmp_path, ["image", "emulated", "folder", "missing"])
    said = " ".join((ended.stdout + ended.stderr).split())
    assert "Traceback" not in said
    assert ended.returncode == 5, said
    found = trials(tmp_path)
    for (target, _), trial in found.items():
        if target == "missing":
            assert trial["status"] == "failed", "not a level of which the study has to do without"
            assert "node-0: " in trial["cause"] and "is missing" in trial["cause"]
            continue
        assert (trial["status"], trial["cause"]) == ("done", None)
        assert trial["teardown_errors"] == []
        assert [node["node"] for node in trial["location"]["nodes"]] == ["node-0", "node-1"]
        places = [node["directory"] for node in trial["location"]["nodes"]]
        assert len(set(places)) == 2
    scan = found["image", "scan"]
    assert scan["location"]["nodes"][1]["medium"] == f"{tmp_path}/disk of-1.img"
    drives = found["emulated", "write"]
    assert drives["provenance"] == "emulated"
    assert {each["device"].partition("/")[0] for each in drives["emulators"]} == {
        "node-0",
        "node-1",
    }
    assert all(each["writes"] > 0 for each in drives["emulators"])
    parts = drives["energy"]["parts"]
    assert drives["energy"]["drives_j"] == pytest.approx(sum(part["energy_j"] for part in parts))
    assert drives["device"]["flash_written_bytes"] == sum(
        each["flash_written_bytes"] for each in drives["emulators"]
    )
    # A data set is dealt out, and its files are those of the cache.
    kept = sorted(tmp_path.glob("folder of */.headrace/datasets/*/*.root"))
    (cached,) = (tmp_path / "cache" / "datasets").glob("*/manifest.json")
    assert len(kept) == len({file.name for file in kept}) == 4
    assert all(checksum(file) == checksum(cached.parent / file.name) for file in kept)
    assert not left_over(tmp_path) and not list(tmp_path.glob("*.img"))
    assert not list(tmp_path.glob("folder of */.headrace/scratch"))


def test_what_every_node_lacks_is_said_before_anything_starts(
    tmp_path: Path, journal_place: Path
) -> None:
    ended = run(tmp_path, ["missing"])
    said = " ".join((ended.stdout + ended.stderr).split())
    assert ended.returncode == 3, said
    for name in ("node-0", "node-1"):
        assert f"{name}: the device /dev/headrace-none is missing" in said, said
    assert not trials(tmp_path)


@contextmanager
def node(tmp_path: Path) -> Generator[Agent]:
    """The agent of one node."""
    with (
        ExitStack() as stack,
        Journal.open("a test", tmp_path / "journals") as journal,
        Launchers() as opened,
        Elsewhere(opened) as launcher,
    ):
        wanted = NodesWanted((NodeSettings("node-0"),))
        yield stack.enter_context(launcher.nodes(journal, wanted)).agents[0]


def block(tmp_path: Path) -> TargetOfNode:
    options: dict[str, object] = {"image": f"{tmp_path}/disk.img", "size": 64 << 20}
    return TargetOfNode("block", "disk", options)


def pid_of_node(tmp_path: Path) -> int:
    """The node process: the other one with a journal in the folder."""
    pids = {each.pid for each in journals.pending_journals(tmp_path / "journals")}
    pids |= {
        json.loads(file.read_text().splitlines()[0])["pid"]
        for file in (tmp_path / "journals").iterdir()
    }
    (found,) = pids - {os.getpid()}
    return found


def test_what_a_killed_node_leaves_is_undone(tmp_path: Path, journal_place: Path) -> None:
    emulated = TargetOfNode("block", "drive", {"drive": "mtron-msp-sata7035064", "size": 64 << 20})
    with node(tmp_path) as agent:
        location = agent.storage.prepare_target(block(tmp_path))
        agent.storage.prepare_target(emulated)
        agent.storage.make_scratch(location.directory)
        assert left_over(tmp_path)
        os.kill(pid_of_node(tmp_path), signal.SIGKILL)
        with pytest.raises(LauncherLostError):
            agent.storage.read_target("disk")
        agent.storage.release_target("disk")  # its process has a journal
    pending = journals.pending_journals(journal_place)
    assert len(pending) == 1
    results = journals.undo(pending[0].file)
    assert all(result.done for result in results), results
    assert wait_until(lambda: not left_over(tmp_path), 60, 0.1)
    assert not (tmp_path / "disk.img").exists()


def test_storage_that_another_run_uses_may_be_had_later(
    tmp_path: Path, journal_place: Path
) -> None:
    """It is no level that the node lacks: the trial fails, and can be run again."""
    image = Place(tmp_path / "disk.img", "the medium of target disk")
    with node(tmp_path) as agent:
        with claimed([image]), pytest.raises(LauncherLostError, match="in use by another headrace"):
            agent.storage.prepare_target(block(tmp_path))
        agent.storage.prepare_target(block(tmp_path))
    assert not left_over(tmp_path)


def test_storage_that_a_node_refuses_fails_with_what_to_do(
    tmp_path: Path, journal_place: Path
) -> None:
    """A device with data is not a level that the node lacks: its trials must not seem harmless."""
    (tmp_path / "disk.img").write_bytes(b"data of a user" + bytes(64 << 20))
    subprocess.run(["mkfs.ext4", "-qF", tmp_path / "disk.img"], check=True)
    held = (tmp_path / "disk.img").read_bytes()
    with node(tmp_path) as agent:
        with pytest.raises(HeadraceError) as refused:
            agent.storage.prepare_target(block(tmp_path))
        assert not isinstance(refused.value, UnsupportedLevelError)
        assert refused.value.hint, "the remedy comes from the node, too"
        missing = TargetOfNode("block", "disk", {"device": "/dev/headrace-none"})
        with pytest.raises(HeadraceError, match="is missing") as lacking:
            agent.storage.prepare_target(missing)
        assert not isinstance(lacking.value, UnsupportedLevelError) and lacking.value.hint
    assert (tmp_path / "disk.img").read_bytes() == held


def test_a_node_whose_engine_is_gone_tears_its_storage_down(
    tmp_path: Path, journal_place: Path
) -> None:
    with node(tmp_path) as agent:
        location = agent.storage.prepare_target(block(tmp_path))
        scratch = Path(agent.storage.make_scratch(location.directory))
        (scratch / "job-0").mkdir()
    assert not left_over(tmp_path) and not (tmp_path / "disk.img").exists()


def test_files_are_sent_whole_and_as_they_are(tmp_path: Path, journal_place: Path) -> None:
    content = os.urandom(5000)
    source, place = tmp_path / "source", tmp_path / "place"
    source.write_bytes(content)
    place.mkdir()
    file = {"name": "a.root", "bytes": 5000, "events": 1, "xxh3": checksum(source)}
    spec = {"shape": "bench", "events": 100, "files": 1}
    manifest = json.dumps({"generator": 1, "spec": spec, "files": [file]}).encode()
    wanted = FilesWanted(str(place), "key", manifest, ("a.root",))
    with node(tmp_path) as agent:
        storage = agent.storage
        lacking = storage.lacking_files(wanted)
        assert (lacking.names, lacking.damaged) == (("a.root",), ())
        storage.write_file(lacking.folder, "a.root", 0, content[:4000])
        with pytest.raises(HeadraceError, match="was not expected"):
            storage.write_file(lacking.folder, "a.root", 3000, content[3000:])
        storage.write_file(lacking.folder, "a.root", 4000, b"x" * 1000)
        assert not storage.finish_file(lacking.folder, "a.root"), "other bytes"
        assert [file.name for file in Path(lacking.folder).iterdir()] == [MANIFEST]
        storage.write_file(lacking.folder, "a.root", 0, content)
        assert storage.finish_file(lacking.folder, "a.root")
        assert storage.lacking_files(wanted).names == ()
        assert (Path(lacking.folder) / "a.root").read_bytes() == content
        with pytest.raises(HeadraceError, match="not a name of a file"):
            storage.write_file(lacking.folder, "../a.root", 0, content)
        huge = {**file, "name": "b.root", "bytes": 1 << 60}
        manifest = json.dumps({"generator": 1, "spec": spec, "files": [file, huge]}).encode()
        with pytest.raises(HeadraceError, match="no space on"):
            storage.lacking_files(FilesWanted(str(place), "key", manifest, ("b.root",)))
        with pytest.raises(HeadraceError, match="is missing"):
            storage.prepare_target(TargetOfNode("block", "none", {"device": "/dev/none"}))
