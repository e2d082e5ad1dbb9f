"""`sequential` and `metadata` on storage that is reached by URL.

The protocols' own clients, on two nodes, in step.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.analysis.metrics import trial_metrics
from headrace.analysis.read import read
from headrace.errors import HeadraceError

pytestmark = pytest.mark.usefixtures("needs_root")

STUDY = """
headrace = 1
title = "by URL"
[target.store]
{target}
[workload.stream]
kind = "sequential"
file_size = "6 MiB"
record_size = "512 KiB"
[workload.names]
kind = "metadata"
items = 12
clients = 2
write_bytes = 3000
verify = true
sync = true
stride = 1
{of}
[[exclude]]
workload = "names"
mode = {others}
[factors]
nodes = [2]
mode = {modes}
[plan]
repeats = {{ min = 1, max = 1 }}
[run]
shortest = 0
timeout = "1 min"
"""

TARGETS = {
    "xrootd": 'kind = "xrootd"\nbricks = { size = "256 MiB" }',
    "hdfs": 'kind = "hdfs"\nservers = 1\nreplicas = 1\nbricks = { size = "512 MiB" }',
    "s3": 'kind = "s3"\nexport = { size = "256 MiB" }',
}
MODES = {
    "xrootd": ["write", "rewrite", "read", "random-read", "random-write", "mixed"],
    "hdfs": ["write", "rewrite", "read", "random-read"],
    "s3": ["write", "rewrite", "read", "random-read"],
}


def study_of(kind: str, tmp_path: Path, **given: str) -> Path:
    file = tmp_path / "study.toml"
    modes = MODES[kind]
    values = {
        "target": TARGETS[kind],
        "of": 'of = "files"' if kind == "s3" else "",
        "modes": json.dumps(modes),
        "others": json.dumps(modes[1:]),
        **given,
    }
    file.write_text(STUDY.format(**values))
    return file


def trials_of(results: Path) -> list[dict[str, Any]]:
    return [json.loads(file.read_text()) for file in sorted(results.glob("trials/*/trial.json"))]


@pytest.mark.parametrize("kind", TARGETS)
def test_clients_write_read_and_make_names_in_step(kind: str, tmp_path: Path) -> None:
    results = headrace.load_study(study_of(kind, tmp_path)).run(tmp_path / "results")
    trials = trials_of(results)
    assert len(trials) == len(MODES[kind]) + 1
    for trial in trials:
        # Clients and servers share a machine here, and other programs with them.
        others = ("clients-saturated", "foreign-load", "start-spread")
        reasons = [each for each in trial["validity"]["reasons"] if each["code"] not in others]
        assert (trial["status"], trial["cause"], reasons) == ("done", None, []), trial["cause"]
        if trial["workload"]["name"] == "names":
            check_names(trial, with_directories=kind != "s3")
        else:
            check_stream(trial)
    frame = read(results).trials
    streams = trial_metrics(frame.loc[frame["workload"] == "stream", :].reset_index(drop=True))
    assert bool(streams["network_amplification"].between(1.0, 1.25).all())
    assert bool((streams["parent_sees_bytes_per_s"] > streams["asked_bytes_per_s"]).all())


def check_stream(trial: dict[str, Any]) -> None:
    mode, results = trial["workload"]["options"]["mode"], trial["results"]
    moved = {way: results.get(f"{way}_bytes", 0) for way in ("read", "write")}
    assert sum(moved.values()) == 2 * (6 << 20)
    if mode != "mixed":
        assert moved["write" if "write" in mode else "read"] == 2 * (6 << 20)
    # All bytes over the time from the first begin to the last end, wherever the begins are.
    assert 0 <= results["started_within_s"] < results["span_s"]
    counted = results["parent_rate_bytes_per_s"] * results["span_s"]
    assert counted == pytest.approx(sum(moved.values()))
    assert results["parent_rate_bytes_per_s"] <= 1.01 * results["rate_bytes_per_s"]
    served = trial["sums"]["bytes_served"]
    assert served >= moved["read"], "clients that read by recv, whose bytes no counter of files has"
    # It crossed the links of both nodes.
    nodes = [trial["probes"]["network"][node] for node in ("node-0", "node-1")]
    assert sum(node["bytes_received"] for node in nodes) > moved["read"]
    assert sum(node["bytes_sent"] for node in nodes) > moved["write"]


def check_names(trial: dict[str, Any], *, with_directories: bool) -> None:
    phases = trial["results"]["phases"]
    of_files = {"file_creation", "file_stat", "file_read", "file_removal"}
    of_directories = {
        "directory_creation",
        "directory_stat",
        "directory_rename",
        "directory_removal",
    }
    assert phases.keys() - {"tree_creation", "tree_removal"} == (
        of_files | of_directories if with_directories else of_files
    )
    for name in phases.keys() - {"tree_creation", "tree_removal"}:
        assert phases[name]["operations"] == 2 * 2 * 12
    assert phases["file_creation"]["bytes_written"] == 48 * 3000
    assert phases["file_read"]["bytes_read"] == 48 * 3000
    # Answers to a stat and its question go through both nodes' links.
    assert trial["probes"]["network"]["node-1"]["bytes_received"] > 24 * 3000


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        (
            "hdfs",
            {"modes": '["write", "random-write"]', "others": '["random-write"]'},
            "random-write",
        ),
        ("s3", {"of": 'of = "both"'}, "no directories of one server"),
    ],
)
def test_what_a_protocol_cannot_do_is_said_before_anything_starts(
    kind: str, given: dict[str, str], said: str, tmp_path: Path
) -> None:
    with pytest.raises(HeadraceError, match=said):
        headrace.load_study(study_of(kind, tmp_path, **given)).run(tmp_path / "results")
