"""Local storage on several nodes.

Which targets each node has for itself, what of a data set it gets, one setting for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from headrace.engine.measure.placing import share_of
from headrace.launchers import LauncherLostError
from headrace.launchers.local import MachineAgent
from headrace.launchers.node_storage import LocalNodeStorage
from headrace.system.journal import Journal
from headrace.system.setting_names import NAMES
from headrace.system.storage_settings import AppliedSetting, SettingValue
from headrace.targets import Location, Setting, Target, TargetContext, TargetOptions, kinds
from headrace.targets.local_drives import LocalDrives, on_nodes


def made(kind: str, **options: Any) -> Target:
    part = kinds()[kind]
    return part("disk", part.Options.model_validate(options))


def test_an_image_and_an_emulated_drive_are_each_nodes_own() -> None:
    target = on_nodes(made("block", image="disks/disk.img", size="1 GiB"), 3)
    assert isinstance(target, LocalDrives)
    images = [one.options.image for one in target._each]
    assert images == ["disks/disk.img", "disks/disk-1.img", "disks/disk-2.img"]
    drive = made("block", drive="samsung-pm9a3-3.84tb", size="1 GiB")
    assert on_nodes(drive, 2).memory_bytes() == 2 * drive.memory_bytes()
    assert isinstance(on_nodes(made("raid", level=1), 2), LocalDrives)


@pytest.mark.parametrize(
    ("kind", "options"),
    [("path", {"path": "/scratch"}), ("block", {"device": "/dev/sdz"}), ("nfs", {})],
)
def test_a_directory_a_device_and_a_server_are_one_for_all(
    kind: str, options: dict[str, Any]
) -> None:
    target = made(kind, **options)
    assert on_nodes(target, 4) is target


def test_one_node_has_the_target_itself() -> None:
    target = made("block", image="disk.img", size="1 GiB")
    assert on_nodes(target, 1) is target


@pytest.mark.parametrize(("count", "nodes"), [(12, 1), (12, 4), (7, 3), (1, 3), (2, 3)])
def test_files_are_dealt_out_each_once_and_none_has_nothing(count: int, nodes: int) -> None:
    shares = [share_of(count, node, nodes) for node in range(nodes)]
    assert all(shares)
    assert set().union(*shares) == set(range(count))
    if count >= nodes:
        assert sorted(number for share in shares for number in share) == list(range(count))
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


class Node(Target):
    """A target of one node whose scheduler may not be had."""

    Options: ClassVar[type[TargetOptions]] = TargetOptions

    def __init__(self, place: Path, scheduler: str) -> None:
        super().__init__("disk", TargetOptions())
        self.place, self.scheduler = place, scheduler
        self.released = 0

    def check(self, forced_devices: frozenset[str]) -> list[Any]:
        return []

    def free_bytes(self) -> int | None:
        return None

    def prepare(self, context: TargetContext) -> Location:
        return Location(self.place, device_names=(self.place.name,))

    def apply(self, options: Any, context: TargetContext) -> list[Setting]:
        return [
            Setting("scheduler", "bfq", "none", self.scheduler, applied=self.scheduler == "bfq")
        ]

    def read_settings(self) -> dict[str, Any]:
        return {"scheduler": self.scheduler}

    def release(self, context: TargetContext) -> None:
        self.released += 1


def test_a_setting_holds_when_it_holds_on_every_node(context_of_nothing: Any) -> None:
    alike = LocalDrives(nodes_with("bfq", "bfq")[0], nodes_with("bfq", "bfq"))
    assert alike.read_settings() == {"scheduler": "bfq"}
    assert alike.apply(None, context_of_nothing)[0].applied
    differing = LocalDrives(nodes_with("bfq")[0], nodes_with("bfq", "none"))
    assert differing.read_settings() == {"scheduler": "node 0: bfq, node 1: none"}
    (setting,) = differing.apply(None, context_of_nothing)
    assert (setting.applied, setting.after) == (False, "none")


def test_the_location_has_every_nodes_directory_and_devices(context_of_nothing: Any) -> None:
    each = nodes_with("bfq", "bfq")
    location = LocalDrives(each[0], each).prepare(context_of_nothing)
    assert location.local_drives
    assert location.node_directories == (Path("/node0"), Path("/node1"))
    assert location.device_names == ("node0", "node1")
    assert location.on_node(1) == Path("/node1")


def nodes_with(*schedulers: str) -> list[Node]:
    return [Node(Path(f"/node{number}"), scheduler) for number, scheduler in enumerate(schedulers)]


@pytest.fixture
def context_of_nothing(tmp_path: Path) -> Iterator[TargetContext]:
    """No node has an agent."""
    with Journal.open("a test", tmp_path / "journal") as journal:
        yield TargetContext(tmp_path, journal)


class Kernel:
    """The settings of storage on another machine, whose kernel has the schedulers `offers`."""

    is_lost = False

    def __init__(self, name: str, *offers: str) -> None:
        self.name, self.kernel, self._offers = name, f"kernel of {name}", offers
        self.in_force: dict[str, SettingValue] = dict.fromkeys(NAMES)
        self.asked: list[str] = []

    def read_settings(self, directory: str) -> dict[str, SettingValue]:
        self.asked.append(directory)
        return dict(self.in_force)

    def apply_settings(
        self, directory: str, wanted: Mapping[str, str | int]
    ) -> tuple[AppliedSetting, ...]:
        (scheduler,) = wanted.values()
        if scheduler not in self._offers:
            return (AppliedSetting("scheduler", None, f"no {scheduler}"),)
        self.in_force["scheduler"] = scheduler
        return (AppliedSetting("scheduler", scheduler),)

    def restore_settings(self, directory: str) -> None:
        self.in_force = dict.fromkeys(NAMES)


def test_a_shared_storage_is_set_once_on_each_kernel(
    context_of_nothing: TargetContext, tmp_path: Path
) -> None:
    one, other = Kernel("node-0", "bfq", "none"), Kernel("node-2", "none")
    again = Kernel("node-1")
    again.kernel = one.kernel
    target = made("path", path=str(tmp_path))
    context = replace(context_of_nothing, agents=(one, again, other))
    target.prepare(context)
    assert again.asked == []
    (setting,) = target.apply(made("path", path="x", scheduler="none").options, context)
    assert (setting.before, setting.after, setting.applied) == (None, "none", True)
    assert (one.in_force["scheduler"], other.in_force["scheduler"]) == ("none", "none")
    (setting,) = target.apply(made("path", path="x", scheduler="bfq").options, context)
    assert not setting.applied
    assert setting.reason == "node-2: no bfq"
    assert target.read_settings()["scheduler"] == "node-0: bfq, node-2: none"
    other.is_lost = True
    assert target.read_settings()["scheduler"] == "bfq"
    one.is_lost, one.asked = True, []
    target.read_settings()
    assert one.asked, "a node that is lost says so; nothing else would be known"
    target.release(context)
    assert one.in_force["scheduler"] is other.in_force["scheduler"] is None


def test_each_nodes_own_storage_is_set_by_its_own_agent(
    context_of_nothing: TargetContext, tmp_path: Path
) -> None:
    agents = (Kernel("node-0", "bfq"), Kernel("node-1", "bfq"))
    places = [tmp_path / "first", tmp_path / "second"]
    each = [made("path", path=str(place), create=True) for place in places]
    target = LocalDrives(each[0], each)
    context = replace(context_of_nothing, agents=agents)
    target.prepare(context)
    (setting,) = target.apply(made("path", path="x", scheduler="bfq").options, context)
    assert setting.applied
    assert [set(agent.asked) for agent in agents] == [{str(place)} for place in places]
    target.release(context)


class LostNode(LocalNodeStorage):
    """The storage of a node that is lost once `lost` is set."""

    lost = False

    @property
    def is_lost(self) -> bool:
        return self.lost

    def read_target(self, name: str) -> dict[str, object]:
        if self.lost:
            raise LauncherLostError("node node-0 is lost: cut")
        return super().read_target(name)


def test_settings_of_lost_nodes_are_left_out_and_those_of_none_are_an_error(
    context_of_nothing: TargetContext, tmp_path: Path
) -> None:
    journal = context_of_nothing.journal
    storages = [LostNode(journal, MachineAgent(journal)) for _ in range(2)]
    agents = tuple(Kernel(f"node-{number}") for number in range(2))
    own = made("path", path=f"{tmp_path}/{{node}}", create=True, on="node")
    target = on_nodes(own, 2, elsewhere=True)
    context = replace(context_of_nothing, agents=agents, storages=tuple(storages))
    target.prepare(context)
    whole = target.read_settings()
    storages[0].lost = True
    assert target.read_settings() == whole
    storages[1].lost = True
    with pytest.raises(LauncherLostError, match="node-0 is lost"):
        target.read_settings()
    for storage in storages:
        storage.lost = False
    target.release(context)
