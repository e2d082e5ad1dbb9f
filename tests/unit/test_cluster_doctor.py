"""What `headrace cluster doctor` says of nodes: each thing that can be wrong, on which, and why."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headrace.engine.measure.cluster_needs import cluster_needs
from headrace.errors import HeadraceError, Problem, UsageError
from headrace.launchers import Clock
from headrace.launchers.local import MachineAgent
from headrace.launchers.node_storage import LocalNodeStorage
from headrace.launchers.remote.diagnosis import (
    ClusterFinding,
    diagnose,
    judge_folder,
    judge_keys,
    judge_own_folder,
    merged,
)
from headrace.launchers.remote.launcher import check_version
from headrace.launchers.remote.messages import Hello, NodeAbilities
from headrace.launchers.remote.shared_folders import FolderViews
from headrace.launchers.remote.survey import SurveyedNode, cluster_of, survey
from headrace.library import load_study
from headrace.system.capabilities import Capability, capabilities
from headrace.system.cluster_keys import key_state, make_credentials
from headrace.system.journal import Journal
from headrace.system.machine_facts import MachineFacts
from headrace.system.node_limits import NodeLimits, node_limits
from headrace.system.owned import show_folder
from headrace.targets.node_storage import TargetOfNode
from headrace.targets.path import PathTarget

HERE = MachineFacts("here", "6.1", "1.0", "3.11.2", "cpu", 8, 16 << 30)
LIMITS = NodeLimits(65536, None, 8 << 30, "/tmp", 1 << 40, ())
ROOT = Capability("root", "formats devices", True, "run as root")


def node(name: str = "node-0", **changed: Any) -> SurveyedNode:
    """A node without faults, whose monotonic clock is 50 s behind; `changed`: fields anywhere."""

    def of(made: Any, *but: str) -> dict[str, Any]:
        return {key: each for key, each in changed.items() if hasattr(made, key) and key not in but}

    limits = replace(LIMITS, **of(LIMITS))
    facts = NodeAbilities(0.0, 0.0, 1050.0, limits, [ROOT])
    facts = msgspec.structs.replace(facts, **of(facts))
    machine = replace(HERE, **of(HERE, "memory_bytes"))
    hello = Hello(machine, changed.get("kernel_id", f"kernel of {name}"))
    return SurveyedNode(name, hello, changed.get("clock", Clock(50.0, 0.001)), facts)


def said(nodes: list[SurveyedNode], needed: set[str] | None = None) -> list[ClusterFinding]:
    return merged(diagnose(nodes, HERE, 1000.0, "kernel of here", needed))


def test_nothing_is_said_of_nodes_without_faults() -> None:
    assert said([node("node-0"), node("node-1")]) == []


@pytest.mark.parametrize(
    ("changed", "words", "fatal"),
    [
        ({"headrace": "0.9"}, "has Headrace 0.9, this machine 1.0", True),
        ({"python": "3.12.1"}, "has Python 3.12.1, this machine 3.11.2", False),
        ({"clock": Clock(50.0, 0.2)}, "clock known to 0.2 s only", False),
        ({"wall_less_monotonic_s": 1060.0}, "clock of the day 10.0 s ahead of", False),
        ({"wall_less_monotonic_s": 1040.0}, "clock of the day 10.0 s behind", False),
        ({"open_files": 256}, "may have 256 open files", False),
        ({"memory_bytes": 1 << 30}, "1 GiB of 16 GiB of memory: a control group", False),
        ({"memory_free_bytes": 1 << 30}, "1 GiB of memory free", False),
        ({"temporary_free_bytes": 1 << 20}, "1 MiB free in /tmp", False),
        ({"governors": ("performance", "powersave")}, "governor powersave", False),
        ({"others_cpus": 2.0}, "other programs use 2.0 of 8 CPUs", False),
        ({"stolen_cpus": 3.0}, "hypervisor withholds 3.0 of 8 CPUs (steal)", False),
        ({"capabilities": [replace(ROOT, there=False)]}, "no root", False),
    ],
)
def test_each_fault_is_said_with_node_and_remedy(
    changed: dict[str, Any], words: str, fatal: bool
) -> None:
    (found,) = said([node("node-0"), node("node-1", **changed)])
    assert words in found.what and found.nodes == ("node-1",) and found.fatal == fatal
    assert found.remedy and found.without


def test_equal_findings_are_said_once_and_fatal_ones_first() -> None:
    nodes = [node(f"node-{number}", open_files=64) for number in range(3)]
    nodes[2] = node("node-2", headrace="0.9")
    first, second = said(nodes)
    assert first.fatal and first.nodes == ("node-2",)
    assert not second.fatal and second.nodes == ("node-0", "node-1")


def test_two_nodes_on_one_machine_are_named_and_only_what_a_study_needs_is_missed() -> None:
    lacking = [replace(ROOT, there=False), Capability("ROOT (PyROOT)", "readers", False, "pip")]
    nodes = [node(name, kernel_id="one", capabilities=lacking) for name in ("node-0", "node-1")]
    found = said(nodes, {"root"})
    assert [each.what for each in found] == ["one machine: they share a kernel", "no root"]
    assert all(each.nodes == ("node-0", "node-1") for each in found)


def test_what_all_nodes_lack_is_said_once_whatever_their_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nodes of a farm have not the same memory free: a row for each said that drives cannot be
    emulated there."""
    monkeypatch.setattr("os.geteuid", lambda: 65534)
    (drives,) = (each for each in capabilities() if each.what == "emulated drives")
    assert not drives.there and "memory" not in drives.gives


def test_who_does_not_see_a_folder() -> None:
    names = ["node-0", "node-1", "node-2"]

    def on(*unseen: tuple[str, str], refused: dict[str, str] | None = None) -> list[Any]:
        views = FolderViews("/data", refused or {}, unseen)
        return [(each.nodes, each.what) for each in judge_folder(views, names, "target x")]

    assert on() == []
    apart = [("", "node-1"), ("node-1", ""), ("node-0", "node-1"), ("node-1", "node-0")]
    assert on(*apart) == [(("node-1",), "does not see what this machine writes into /data")]
    back = (("node-1",), "this machine does not see what it writes into /data")
    assert on(("node-1", "")) == [back], "the other direction alone"
    (between,) = on(("node-0", "node-2"))
    assert between == (("node-0",), "node-2 does not see what it writes into /data")
    assert on(refused={"node-2": "cannot write into /data: Read-only file system"}) == [
        (("node-2",), "cannot write into /data: Read-only file system")
    ]


def test_which_nodes_share_a_folder_of_their_own() -> None:
    names = ["node-0", "node-1", "node-2"]
    alone = tuple((a, b) for a in names for b in names if a != b)
    assert judge_own_folder(FolderViews("/s", {}, alone), names, "target x") == []
    pair = {("node-1", "node-2"), ("node-2", "node-1")}
    shared = tuple(each for each in alone if each not in pair)
    (found,) = judge_own_folder(FolderViews("/s", {}, shared), names, "target x")
    assert found.nodes == ("node-1", "node-2") and found.fatal and "{node}" in found.remedy


def test_keys_that_others_can_read_or_that_end_are_said(tmp_path: Path) -> None:
    for name, days in (("keys", 400), ("short", 20)):
        make_credentials(tmp_path / name, days)
    key, certificate = (tmp_path / "keys" / f"client{end}.pem" for end in ("-key", ""))
    assert judge_keys([key_state(key), key_state(certificate)]) == []
    key.chmod(0o640)
    (found,) = judge_keys([key_state(key)])
    assert f"others can read {key}" in found.what and not found.fatal
    (found,) = judge_keys([key_state(tmp_path / "short" / "client.pem")], "node-3")
    assert "is valid for 20 more days" in found.what and found.nodes == ("node-3",)
    ended = replace(key_state(certificate), ends_in_s=-86400.0 * 3)
    (found,) = judge_keys([ended])
    assert "has been invalid for 3 days" in found.what and found.fatal
    early = replace(key_state(certificate), begins_in_s=7200.0)
    (found,) = judge_keys([early])
    assert "valid in 2.0 h only" in found.what and found.fatal
    (tmp_path / "no key").write_text("nothing")
    for file, why in (("no key", "no key or certificate"), ("missing", "No such file")):
        (found,) = judge_keys([key_state(tmp_path / file)])
        assert why in found.what and found.fatal
    signing = [key_state(tmp_path / "keys" / "ca-key.pem")]
    assert judge_keys(signing, "node-0", away=False) == []
    (found,) = judge_keys(signing, "node-0", away=True)
    assert "signs keys" in found.what


def test_limits_of_this_machine_are_read(tmp_path: Path) -> None:
    for number, governor in enumerate(("powersave", "performance", "powersave")):
        folder = tmp_path / f"cpu{number}" / "cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_governor").write_text(f"{governor}\n")
    found = node_limits(tmp_path)
    assert found.governors == ("performance", "powersave")
    assert found.open_files == -1 or found.open_files >= 3
    assert 0 < found.memory_free_bytes <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert found.temporary_free_bytes > 0 and Path(found.temporary).is_dir()


STUDY = """
headrace = 1
title = "needs"
[target.shared]
kind = "path"
path = "/data"
[target.own]
kind = "path"
on = "node"
path = "/scratch"
create = true
read_ahead = "1 MiB"
[target.numbered]
kind = "path"
on = "node"
path = "/scratch/{node}"
[workload.job]
kind = "command"
command = ["true"]
[factors]
"run.nodes" = [1, 3]
[plan]
repeats = { min = 1 }
[run]
on = "ssh://a,b,c"
python = "/opt/python"
cache = "cold"
"""


def test_what_a_study_needs_of_its_nodes(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(STUDY)
    loaded = load_study(file)
    (needs,) = cluster_needs(loaded.study, loaded.plan())
    assert (needs.on, needs.nodes, needs.python) == ("ssh://a,b,c", 3, "/opt/python")
    assert [(each.folder, each.target, each.create) for each in needs.shared] == [
        ("/data", "shared", False)
    ]
    assert [(each.folder, each.target, each.create) for each in needs.own] == [
        ("/scratch", "own", True)
    ]
    assert needs.capabilities == {"root", "delay accounting", "right to empty the page cache"}
    file.write_text(STUDY.replace('on = "ssh://a,b,c"\npython = "/opt/python"\n', ""))
    loaded = load_study(file)
    assert cluster_needs(loaded.study, loaded.plan()) == []


def test_what_a_node_lacks_keeps_the_words_of_its_target(tmp_path: Path) -> None:
    """What is lost without it is the target's to say; it knows more than the node."""

    class Lacking(PathTarget):
        kind = "path"

        def check(self, forced_devices: frozenset[str]) -> list[Problem]:
            return [Problem("no tool", "target x", "install it", False, "stripes are unknown")]

    with Journal.open("a test", tmp_path / "journal") as journal:
        storage = LocalNodeStorage(journal, MachineAgent(journal))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                "headrace.launchers.node_storage.targets.kinds", lambda: {"path": Lacking}
            )
            found = storage.check_target(TargetOfNode("path", "x", {"path": str(tmp_path)}))
    assert [(each.what, each.without) for each in found.lacks] == [
        ("no tool", "stripes are unknown")
    ]


def test_a_worker_of_another_version_is_refused() -> None:
    check_version("worker tcp://a:1", version("headrace"))
    with pytest.raises(HeadraceError, match=r"worker tcp://a:1 has Headrace 0\.0\.1, this"):
        check_version("worker tcp://a:1", "0.0.1")


def test_a_folder_that_cannot_be_looked_at_leaves_nothing_to_undo(tmp_path: Path) -> None:
    """A name that is too long is refused by every system call, as is one in a closed folder."""
    folder = str(tmp_path / ("a" * 300))
    with Journal.open("a test", tmp_path / "journal") as journal:
        with pytest.raises(HeadraceError, match=r"cannot write into .*: File name too long"):
            show_folder(journal, folder, False)
        assert journal.open_entries == ()
        file, content, entry = show_folder(journal, folder, True)
        assert Path(file).read_text() == content and Path(file).parents[1] == tmp_path
        journal.put_back([entry])


@pytest.mark.parametrize(
    ("on", "python", "why"),
    [
        ("dask://127.0.0.1:1", "/opt/python", "starts no Python"),
        ("slurm", "/bin/$(id)", "--python /bin/"),
    ],
)
def test_a_python_that_nothing_starts_is_refused(on: str, python: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        cluster_of(on, 1, python)


def test_why_nodes_of_a_batch_system_have_no_status_is_not_a_field_that_cannot_be_given() -> None:
    for kind in ("slurm", "sge", "htcondor", "pbs"):
        with pytest.raises(UsageError, match="only while a study runs"):
            survey(kind, None, None)
    with pytest.raises(UsageError, match="cores is missing") as refused:
        cluster_of("sge", 1, None)
    assert "STUDY" in (refused.value.hint or "")
