"""Which nodes share a folder, asked of nodes whose mounts differ as those of machines do."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from headrace.engine.measure import nodes as nodes_module
from headrace.engine.measure.nodes import check_shared
from headrace.errors import HeadraceError
from headrace.launchers import Agent, Nodes
from headrace.launchers.remote.agent import RemoteAgent
from headrace.launchers.remote.connection import NodeConnection
from headrace.launchers.remote.diagnosis import judge_folder, judge_own_folder
from headrace.launchers.remote.shared_folders import views_of
from headrace.launchers.remote.streams import ENTRY, connected
from headrace.targets import Location

Start = Callable[[str, str], NodeConnection]


@pytest.fixture
def start(needs_root: None, tmp_path: Path) -> Iterator[Start]:
    """Start a node process in a mount namespace of its own, after a shell command in it."""
    journals = tmp_path / "journals"
    with ExitStack() as stack:

        def start(name: str, mount: str) -> NodeConnection:
            run = f'{mount} && exec "$@"'
            argv = ["unshare", "--mount", "--propagation", "slave", "sh", "-c", run]
            argv += ["sh", sys.executable, "-c", ENTRY]
            found = connected(name, [*argv, str(journals)], tmp_path / f"{name}.log")
            stack.callback(found.close)
            return found

        yield start
    assert not list(journals.iterdir()), "nothing is left to undo"


def agent_of(connection: NodeConnection) -> Agent:
    return RemoteAgent(connection)  # its kernel is that of the test, as in a container


def own(folder: Path) -> str:
    return f"mount -t tmpfs none '{folder}'"


def bound(folder: Path, to: Path) -> str:
    return f"mount --bind '{to}' '{folder}'"


def test_each_pair_of_nodes_is_compared(start: Start, tmp_path: Path) -> None:
    folder, common = tmp_path / "scratch space", tmp_path / "common"
    folder.mkdir()
    common.mkdir()
    connections = [
        start("node-0", own(folder)),
        start("node-1", bound(folder, common)),
        start("node-2", bound(folder, common)),
    ]
    agents = [agent_of(each) for each in connections]

    def located(count: int) -> Location:
        return Location(directory=folder, node_directories=(folder,) * count, elsewhere=True)

    check_shared(located(2), Nodes((agents[0], agents[1])))
    with pytest.raises(HeadraceError, match="node-1 and node-2 see one folder at"):
        check_shared(located(3), Nodes(tuple(agents)))
    views = views_of(str(folder), connections, here=False, wait_s=0.0)
    (found,) = judge_own_folder(views, ["node-0", "node-1", "node-2"], "target x")
    assert found.nodes == ("node-1", "node-2")
    assert not list(common.iterdir()) and not list(folder.iterdir())


def test_a_node_that_does_not_see_the_folder_is_named(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    same, other = start("node-0", bound(folder, folder)), start("node-1", own(folder))
    read_only = start("node-2", f"{bound(folder, folder)} && mount -o remount,ro,bind '{folder}'")
    location = Location(directory=folder)
    check_shared(location, Nodes((agent_of(same), agent_of(read_only))))
    monkeypatch.setattr(nodes_module, "VISIBLE_S", 0.0)
    with pytest.raises(HeadraceError, match="node-1 does not see the files of"):
        check_shared(location, Nodes((agent_of(same), agent_of(other))))
    views = views_of(str(folder), [same, other, read_only], wait_s=0.0)
    said = {
        each.nodes: each.what
        for each in judge_folder(views, ["node-0", "node-1", "node-2"], "target x")
    }
    assert set(said) == {("node-1",), ("node-2",)}
    assert "does not see what this machine writes" in said["node-1",]
    assert "Read-only file system" in said["node-2",]
    assert not list(folder.iterdir())


def test_a_file_that_is_seen_late_is_waited_for(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    late = start("node-0", own(folder))
    agent = agent_of(late)
    asked = threading.Event()
    ask = agent.has_file

    def has_file(path: str, content: str) -> bool:
        found = ask(path, content)
        asked.set()
        return found

    monkeypatch.setattr(agent, "has_file", has_file)
    monkeypatch.setattr(nodes_module, "VISIBLE_S", 60.0)

    def appear() -> None:
        asked.wait()
        pid = late.hello.pid
        subprocess.run(["nsenter", "-t", str(pid), "-m", "umount", folder], check=True)

    thread = threading.Thread(target=appear)
    thread.start()
    check_shared(Location(directory=folder), Nodes((agent,)))
    thread.join()
    assert not list(folder.iterdir())
