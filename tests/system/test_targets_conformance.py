"""What every target must keep, run over the registry.

A new kind that this machine can have adds its options to HERE.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from headrace.errors import HeadraceError
from headrace.system.cluster import Cluster
from headrace.system.owned import OWNER_FILE
from headrace.targets import Location, Target, TargetContext, TargetOptions, kinds
from headrace.targets.served import client_nodes
from machine import loops_below, mounts_below

KINDS = kinds()

HERE: dict[str, Callable[[Path], dict[str, Any]]] = {
    "path": lambda folder: {"path": str(folder / "scratch"), "create": True},
    "block": lambda folder: {"image": str(folder / "disk.img"), "size": "64 MiB"},
    "nfs": lambda folder: {"export": {"image": str(folder / "disk.img"), "size": "64 MiB"}},
    "xrootd": lambda folder: {"bricks": {"image": str(folder / "disk.img"), "size": "64 MiB"}},
    "glusterfs": lambda folder: {
        "bricks": {"image": str(folder / "disk.img"), "size": "64 MiB"},
        "replicas": 2,
    },
    "hdfs": lambda folder: {
        "bricks": {"image": str(folder / "disk.img"), "size": "64 MiB"},
        "servers": 1,
        "replicas": 1,
        "block_size": "1 MiB",
    },
    "s3": lambda folder: {"export": {"image": str(folder / "disk.img"), "size": "64 MiB"}},
    "raid": lambda folder: {"level": 1, "size": "128 MiB", "folder": str(folder)},
}
"""Options with which a kind can be had on the test machine."""

BROKEN: dict[str, Callable[[Path], dict[str, Any]]] = {
    "path": lambda folder: {"path": str(folder / "missing")},
    "block": lambda folder: {
        "image": str(folder / "disk.img"),
        "size": "64 MiB",
        "mount": "no_such_option",
    },
    "nfs": lambda folder: {"export": {"directory": str(folder)}, "read_only": True},
    "xrootd": lambda folder: {
        "bricks": {"image": str(folder / "no" / "disk.img"), "size": "64 MiB"}
    },
    "glusterfs": lambda folder: {
        "bricks": {"directory": str(folder)},
        "volume_options": {"no.such": "on"},
    },
    "hdfs": lambda folder: {"bricks": {"directory": str(folder)}, "servers": 1, "replicas": 2},
    "s3": lambda folder: {"export": {"image": str(folder / "no" / "disk.img"), "size": "64 MiB"}},
    "raid": lambda folder: {"level": 1, "folder": str(folder / "no")},
}
"""Options with which it cannot come to be, found out on the way or before."""

SLOW = {"hdfs", "glusterfs"}
"""Kinds whose servers take many seconds: they come to be once."""

ELSEWHERE: dict[str, dict[str, Any]] = {}
"""The least options of kinds that cannot be had on the test machine, where they need any."""


@pytest.mark.parametrize("kind", KINDS)
def test_options_are_described_and_strict(kind: str) -> None:
    options = KINDS[kind].Options
    assert issubclass(options, TargetOptions)
    assert KINDS[kind].settings <= options.model_fields.keys()
    schema = options.model_json_schema()
    json.dumps(schema)
    for name, field in options.model_fields.items():
        assert field.description, f"{kind}.{name} has no description"
    with pytest.raises(ValidationError):
        options.model_validate({"no_such_field": 1})


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_one_documented_file(kind: str) -> None:
    module = inspect.getmodule(KINDS[kind])
    assert module is not None
    assert module.__doc__, "the file says what it is"
    assert KINDS[kind].__doc__, "the class says what it is"
    assert not inspect.isabstract(KINDS[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_that_cannot_be_had_here_says_so_and_changes_nothing(
    kind: str, context: TargetContext
) -> None:
    if kind in HERE:
        pytest.skip("can be had here")
    target = KINDS[kind]("storage", KINDS[kind].Options.model_validate(ELSEWHERE.get(kind, {})))
    problems = target.check(frozenset())
    assert any(problem.fatal for problem in problems) or target.unsupported()
    before = context.journal.open_entries
    with pytest.raises(HeadraceError):
        target.prepare(context)
    target.release(context)
    assert context.journal.open_entries == before


def made(kind: str, table: dict[str, Callable[[Path], dict[str, Any]]], folder: Path) -> Target:
    return KINDS[kind]("storage", KINDS[kind].Options.model_validate(table[kind](folder)))


@contextmanager
def nodes_for(target: Target, context: TargetContext) -> Generator[TargetContext]:
    """The context with two nodes that run jobs and those of its servers, for a target that needs
    them."""
    if not target.needs_cluster():
        yield context
        return
    clients = client_nodes(None, 2)
    with Cluster.build(context.journal, [*clients, *target.nodes_wanted(None)]) as cluster:
        yield replace(context, cluster=cluster, client_nodes=tuple(node.name for node in clients))


def left_behind(folder: Path) -> list[Any]:
    ours = [
        path
        for path in folder.iterdir()
        if path.name != "journal" and not (path / OWNER_FILE).exists()
    ]
    return [*mounts_below(folder), *loops_below(folder), *ours]


@pytest.mark.usefixtures("needs_root")
@pytest.mark.parametrize("kind", HERE)
def test_a_target_comes_to_be_and_goes_away(
    kind: str, context: TargetContext, tmp_path: Path
) -> None:
    target = made(kind, HERE, tmp_path)
    entries = context.journal.open_entries
    assert [problem for problem in target.check(frozenset()) if problem.fatal] == []
    assert target.unsupported() is None
    assert left_behind(tmp_path) == [], "checking changes nothing"
    promised = target.free_bytes()
    target.release(context)  # before it was ever prepared

    for _ in range(1 if kind in SLOW else 2):  # it can come to be again
        comes_to_be_and_goes_away(target, context, promised)
        assert left_behind(tmp_path) == []
        assert context.journal.open_entries == entries


def comes_to_be_and_goes_away(target: Target, context: TargetContext, promised: int | None) -> None:
    with nodes_for(target, context) as within:
        location: Location = target.prepare(within)
        if location.directory is not None:
            assert location.directory.is_absolute()
            assert list(location.directory.glob("*")) in ([], [location.directory / "lost+found"])
            (location.directory / "data").write_bytes(b"\1" * min(promised or 1, 1 << 20))
            (location.directory / "data").unlink()
        else:
            assert location.url
        for name in location.device_names:
            assert Path("/sys/class/block", name).exists()
        for directory in location.node_directories[1:]:
            assert location.directory is not None
            (location.directory / "seen").write_text("by all")
            assert (directory / "seen").read_text() == "by all"
            (directory / "seen").unlink()
        assert location.provenance in ("measured", "emulated")
        json.dumps(dict(location.description))
        target.release(within)
        target.release(within)


@pytest.mark.usefixtures("needs_root")
@pytest.mark.parametrize("kind", HERE)
def test_settings_are_read_back_and_put_back(
    kind: str, context: TargetContext, tmp_path: Path
) -> None:
    if not KINDS[kind].settings:
        pytest.skip("has no settings")
    target = made(kind, HERE, tmp_path)
    with nodes_for(target, context) as within:
        settings_are_put_back(target, within)
    assert left_behind(tmp_path) == []


def settings_are_put_back(target: Target, context: TargetContext) -> None:
    target.prepare(context)
    try:
        before = target.read_settings()
        assert before.keys() == target.settings
        assert target.apply(target.options, context) == [], "None leaves a setting as it is"
        impossible = {"scheduler": "no-such-scheduler", "queue_depth": 10**9, "read_ahead": 12345}
        asked = {name: impossible.get(name, "no-such-value") for name in target.settings}
        for setting in target.apply(target.options.model_copy(update=asked), context):
            assert not setting.applied
            assert setting.reason
            assert setting.asked == asked[setting.name]
            json.dumps(setting.as_dict())
        assert target.read_settings() == before
    finally:
        target.release(context)


@pytest.mark.usefixtures("needs_root")
@pytest.mark.parametrize("kind", BROKEN)
def test_a_failed_prepare_cleans_up_behind_itself(
    kind: str, context: TargetContext, tmp_path: Path
) -> None:
    target = made(kind, BROKEN, tmp_path)
    entries = context.journal.open_entries
    with nodes_for(target, context) as within, pytest.raises(HeadraceError) as caught:
        target.prepare(within)
    assert caught.value.message
    assert left_behind(tmp_path) == []
    assert context.journal.open_entries == entries
    target.release(context)
    target.release(context)
