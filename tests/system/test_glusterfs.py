"""Target `glusterfs` with real servers.

Layouts, settings, faults that copies survive and those that one copy does not.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from headrace.errors import HeadraceError, UnsupportedLevelError
from headrace.system.journal import Journal
from headrace.system.owned import work_directory
from headrace.system.servers.glusterfs import files_of
from headrace.targets import TargetContext
from headrace.targets.glusterfs import Glusterfs, GlusterfsOptions
from headrace.targets.glusterfs_settings import value_of, word_of
from served_targets import assert_gone, fault, made, processes_of, standing

pytestmark = pytest.mark.usefixtures("needs_root")

SIZE = {"size": "128 MiB"}


def test_values_of_gluster_and_ours() -> None:
    assert value_of("on", bool) is True
    assert value_of("disable", bool) is False
    assert value_of("32MB", int) == 32 << 20
    assert value_of("4", int) == 4
    assert value_of("42", float) == 42.0
    assert value_of("soon", int) == "soon"
    assert [word_of(value) for value in (True, False, 3.0, 1 << 20)] == [
        "on",
        "off",
        "3",
        "1048576",
    ]


def test_options_that_contradict_each_other() -> None:
    for wrong in (
        {"replicas": 2, "disperse": {"data": 2}},
        {"address": "server"},
        {"disperse": {"data": 2, "redundancy": 2}},
    ):
        with pytest.raises(ValueError, match=r"replicas or disperse|go together|less than data"):
            GlusterfsOptions.model_validate(wrong)


def test_fewer_servers_than_copies(context: TargetContext) -> None:
    target = made("glusterfs", servers=2, replicas=3)
    (problem,) = target.check(frozenset())
    assert problem.level == ("replicas", "3")
    assert "2 nodes with bricks are fewer than the 3" in (target.unsupported() or "")
    on_nodes = made("glusterfs", replicas=2)
    with (
        pytest.raises(UnsupportedLevelError, match="1 node with a brick is fewer"),
        standing(on_nodes, context),
    ):
        pass


def test_copies_survive_a_lost_server_and_are_filled_again(context: TargetContext) -> None:
    target = made(
        "glusterfs",
        servers=2,
        replicas=2,
        bricks=SIZE,
        ping_timeout="3 s",
        bricks_per_server=1,
        volume_options={"cluster.heal-timeout": "5"},
    )
    assert isinstance(target, Glusterfs)
    with standing(target, context) as (location, within):
        directory = location.directory
        assert directory is not None
        assert location.lacking is not None
        assert all(setting.applied for setting in target.apply(target.options, within))
        assert target.read_settings()["ping_timeout"] == 3.0
        content = os.urandom(1 << 20)
        for number in range(8):
            (directory / f"data-{number}").write_bytes(content)
        bricks = target.volume.bricks if target.volume else []
        sockets = [
            Path(entry)
            for change in context.journal.open_entries
            if change.action == "remove_sockets"
            for entry in change.args["paths"]
        ]
        assert len(sockets) >= 2
        assert [len(files_of(brick)) for brick in bricks] == [8, 8], "each file is on both"
        file = str(directory / "data-0")
        assert sorted(target.locate([file], within)[file]) == ["store-0", "store-1"]

        lost = fault("replica-lost", duration="1 s")
        lost.begin(location, context.journal)
        lost.inject(location, context.journal)
        assert files_of(bricks[1]) == {}
        for number in range(8):
            assert (directory / f"data-{number}").read_bytes() == content, "the other copy is read"
        (directory / "meanwhile").write_bytes(content)
        lost.lift()
        lost.end(location, context.journal)
        assert lost.fired == 1
        assert lost.seen["lost_copies_bytes"] >= 8 << 20
        assert lost.seen["lost_writes"] == 0
        assert lost.seen["acknowledged_writes"] > 0
        assert lost.seen["lacking"] == ""
        assert lost.seen["recovered_s"] is not None
        assert files_of(bricks[0]) == files_of(bricks[1])
        assert "meanwhile" in files_of(bricks[1])
    assert_gone(location, context)
    assert not [path for path in sockets if path.exists()]


def reached(file: Path) -> bool:
    try:
        return file.read_text() == file.name
    except OSError:
        return False


@pytest.mark.heavy
def test_one_copy_on_a_dead_server_is_away_until_it_is_back(context: TargetContext) -> None:
    target = made("glusterfs", servers=2, bricks=SIZE)
    assert isinstance(target, Glusterfs)
    with standing(target, context) as (location, within):
        directory = location.directory
        assert directory is not None
        names = [f"data-{number}" for number in range(16)]
        for name in names:
            (directory / name).write_text(name)
        located = target.locate([str(directory / name) for name in names], within)
        assert target.volume is not None
        for server in target.volume.servers:
            here = {name for name in names if located[str(directory / name)] == (server.name,)}
            assert here == set(files_of(server.bricks[0])) & set(names)
        killed = fault("server-killed", pulse=None, server=0)
        killed.inject(location, context.journal)
        away = [name for name in names if not reached(directory / name)]
        assert 0 < len(away) < len(names), "distribute puts some files on each"
        with pytest.raises(UnsupportedLevelError, match="nowhere else"):
            location.servers["store-1"].lose_storage()
        killed.lift()
        killed.end(location, context.journal)
        assert killed.seen["lacking"] == ""
        deadline = time.monotonic() + 30
        while not all(
            reached(directory / name) for name in names
        ):  # the client connects anew by and by
            assert time.monotonic() < deadline
            time.sleep(0.2)


@pytest.mark.heavy
def test_the_work_directory_may_have_a_long_path(journal: Journal, tmp_path: Path) -> None:
    """Longer than the address of a socket, which has at most 107 bytes; GlusterFS itself refuses
    bricks with much longer paths."""
    place = tmp_path / ("t" * max(1, 110 - len(str(tmp_path))))
    place.mkdir()
    work, _ = work_directory(journal, place)
    target = made("glusterfs", servers=1, bricks=SIZE)
    with standing(target, TargetContext(work, journal)) as (location, _):
        directory = location.directory
        assert directory is not None
        (directory / "data").write_bytes(b"content")
        assert (directory / "data").read_bytes() == b"content"


@pytest.mark.heavy
def test_coded_pieces(context: TargetContext) -> None:
    target = made("glusterfs", servers=3, disperse={"data": 2, "redundancy": 1}, bricks=SIZE)
    with standing(target, context) as (location, _):
        directory = location.directory
        assert directory is not None
        content = os.urandom(1 << 20)
        (directory / "data").write_bytes(content)
        assert isinstance(target, Glusterfs)
        assert target.volume is not None
        held = [files_of(brick)["data"] for brick in target.volume.bricks]
        assert held == [1 << 19] * 3, "half as much on each of three bricks"
        location.servers["store-2"].kill()
        assert (directory / "data").read_bytes() == content


@pytest.mark.heavy
def test_an_option_that_gluster_does_not_know(context: TargetContext) -> None:
    target = made("glusterfs", servers=1, volume_options={"performance.no-such": "on"})
    with pytest.raises(HeadraceError, match="does not exist"), standing(target, context):
        pass
    assert processes_of(str(context.work_dir)) == []
