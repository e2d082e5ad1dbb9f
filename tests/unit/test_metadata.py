"""`metadata`: which options cannot be, and what clients say merged."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from headrace.errors import HeadraceError
from headrace.workloads import kinds
from headrace.workloads.mdtest.phases import merge_phases
from headrace.workloads.metadata import Metadata, MetadataOptions


def options(**fields: Any) -> MetadataOptions:
    return MetadataOptions.model_validate(fields)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"depth": 9, "branching_factor": 9}, "more than 1000000 directories"),
        ({"phases": ["create", "stat"]}, "create and remove"),
        ({"phases": ["create", "create", "remove"]}, "twice"),
        ({"read_bytes": "2 KiB", "write_bytes": "1 KiB"}, "more than write_bytes"),
        ({"of": "directories", "write_bytes": 5}, "hold no bytes"),
        ({"of": "files", "phases": ["create", "rename", "remove"]}, "not renamed"),
        ({"of": "directories", "phases": ["create", "read", "remove"]}, "not read"),
        ({"clients": 0}, "greater than or equal to 1"),
    ],
)
def test_what_cannot_be(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        options(**fields)


def test_phases_come_in_mdtests_order() -> None:
    assert options(phases=["remove", "rename", "create"]).phase_names == [
        "directory_creation",
        "directory_rename",
        "directory_removal",
        "file_creation",
        "file_removal",
    ]


def test_too_few_inodes_are_counted_before_anything_runs(tmp_path: Path) -> None:
    if not os.statvfs(tmp_path).f_files:
        pytest.skip("this filesystem makes inodes as it goes")
    with pytest.raises(HeadraceError, match="need as many inodes") as error:
        Metadata("w", options(items=100_000_000, clients=100)).check_room(tmp_path, 2)
    assert "20000000003" in error.value.message


def test_more_clients_than_can_keep_in_step(tmp_path: Path) -> None:
    with pytest.raises(HeadraceError, match="at most 4096"):
        Metadata("w", options(clients=4096)).prepare_files(tmp_path, 2, 1)


def process(clients: list[tuple[int, int]], histogram: list[list[int]]) -> dict[str, Any]:
    phase = {
        "phase": "file_stat",
        "stonewall_ns": 1_000_000_000,
        "stonewall_operations": 150,
        "operations": sum(count for count, _ in clients),
        "last_done_ns": max(end for _, end in clients),
        "each": clients,
        "cpu_ns": 500_000_000,
        "written_bytes": 0,
        "read_bytes": 0,
        "latency_ns_mean": 10.0,
        "latency_ns_max": 90,
        "latency_histogram": histogram,
    }
    return {"clients": len(clients), "phases": [phase]}


def test_rates_are_those_of_all_processes() -> None:
    merged = merge_phases(
        [
            process([(100, 1_000_000_000)], [[5, 60], [90, 40]]),
            process([(100, 2_000_000_000)], [[5, 100]]),
        ]
    )
    stat = merged["phases"]["file_stat"]
    assert merged["clients"] == 2
    assert stat["operations"] == 200
    assert stat["rate_ops_per_s"] == merged["rates"]["file_stats_per_s"] == 100
    assert stat["stonewall_rate_ops_per_s"] == 150
    assert (stat["client_rate_ops_per_s_min"], stat["client_rate_ops_per_s_max"]) == (50, 100)
    assert stat["cpu_share"] == pytest.approx(0.25)
    assert stat["latency_histogram"] == [[5, 160], [90, 40]]
    assert (stat["latency_ns_p50"], stat["latency_ns_p90"]) == (5, 90)


def test_a_simulated_slot_is_one_client() -> None:
    with pytest.raises(HeadraceError, match="slots = 4"):
        Metadata("w", options(clients=4)).profile(None)
    made = kinds()["metadata"]("w", options(items=7, write_bytes=100, of="files")).profile(None)
    (repeat,) = made.steps
    assert repeat["times"] == 7
    assert [step["do"] for step in repeat["steps"]] == ["create", "write", "stat", "read", "delete"]
