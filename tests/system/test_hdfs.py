"""Target `hdfs` with real name and data nodes.

Blocks and copies, reading by URL, a data node lost with its blocks and refilled.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from headrace.datasets import DatasetSpec
from headrace.datasets.store import materialise
from headrace.errors import HeadraceError, UnsupportedLevelError
from headrace.system.cluster import call_inside
from headrace.targets import TargetContext
from headrace.targets.hdfs import Hdfs
from headrace.targets.remote_url import put
from headrace.workloads import JobInput
from headrace.workloads.skim import Skim, SkimOptions
from served_targets import assert_gone, fault, made, standing

pytestmark = pytest.mark.usefixtures("needs_root")

SPEC = DatasetSpec.model_validate({"shape": "bench", "events": 4000, "files": 1})


def test_copies_of_blocks_survive_a_lost_data_node(context: TargetContext, tmp_path: Path) -> None:
    files = materialise(SPEC, tmp_path / "cache")
    target = made(
        "hdfs",
        servers=2,
        replicas=2,
        block_size="1 MiB",
        heartbeat="1 s",
        dead_after="11 s",
        bricks={"size": "128 MiB"},
    )
    with standing(target, context) as (location, within):
        assert isinstance(target, Hdfs)
        assert location.cluster is not None
        assert location.lacking is not None
        node = location.cluster["node-0"]
        (held,) = put(files, f"{location.url}/data", node, within, {}, lambda _: None)
        size = files[0].stat().st_size
        for name in ("store-0", "store-1"):
            server = location.servers[name]
            assert server.context is not None
            blocks = [
                file.stat().st_size
                for file in (server.context.storage / "blocks").rglob("blk_*")
                if file.suffix != ".meta"
            ]
            assert sum(blocks) >= size, "each holds a copy"
            assert max(blocks) <= 1 << 20

        located = target.locate([held.url], within)
        assert sorted(located[held.url]) == ["store-0", "store-1"]

        def skimmed() -> int:
            place = tmp_path / f"scratch-{time.monotonic_ns()}"
            place.mkdir()
            skim = Skim(
                "skim",
                SkimOptions.model_validate(
                    {"data": SPEC.model_dump(), "fraction": 1.0, "verify": True}
                ),
            )
            job = JobInput((held.url,), None, place, slot=0, slots=1, seed=0)
            return call_inside(node.namespace, lambda: skim.run(job)).events

        assert skimmed() == 4000
        lost = fault("replica-lost", duration="1 s")
        lost.begin(location, context.journal)
        lost.inject(location, context.journal)
        assert skimmed() == 4000, "the other copy is read"
        lost.lift()
        lost.end(location, context.journal)
        assert lost.seen["server"] == "store-1"
        assert lost.seen["lost_copies_bytes"] >= size
        assert lost.seen["lost_writes"] == 0
        assert lost.seen["lacking"] == ""
        assert skimmed() == 4000
    assert_gone(location, context)


def test_fewer_data_nodes_than_copies(context: TargetContext) -> None:
    assert "1 node with a brick is fewer than the 2" in (
        made("hdfs", servers=1, replicas=2).unsupported() or ""
    )
    with (
        pytest.raises(UnsupportedLevelError, match="fewer than the 3"),
        standing(made("hdfs"), context, clients=2),
    ):
        pass


def test_patience_shorter_than_hdfs_has(context: TargetContext) -> None:
    problems = made("hdfs", servers=3, heartbeat="3 s", dead_after="20 s").check(frozenset())
    assert any("dead_after" in problem.what for problem in problems)


def test_a_name_node_that_is_not_there(context: TargetContext) -> None:
    target = made("hdfs", address="127.0.0.1:9")
    with pytest.raises(HeadraceError, match=r"(?i)refused|connect|name ?node") as caught:
        target.prepare(context)
    assert "RPC port" in (caught.value.hint or "")
