"""`metadata`: which options cannot be, what clients say merged, what mdtest and IOR print read back."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from headrace.errors import HeadraceError
from headrace.workloads import kinds
from headrace.workloads.mdtest.imported import read_ior, read_ior_json, read_mdtest, read_results
from headrace.workloads.mdtest.phases import merge_phases
from headrace.workloads.metadata import Metadata, MetadataOptions

# As of issue 452 of github.com/hpc/ior.
MDTEST_4 = """
mdtest-4.0.0rc1 was launched with 16 total task(s) on 2 node(s)
16 tasks, 1600 files

SUMMARY rate (in ops/sec): (of 1 iterations)
   Operation                     Max            Min           Mean        Std Dev
   ---------                     ---            ---           ----        -------
   File creation               24392.579      24392.579      24392.579          0.000
   File stat                   50747.780      50747.780      50747.780          0.000
   Tree creation                2673.234       2673.234       2673.234          0.000
-- finished at 01/11/2023 10:00:00 --
"""
# As of pull request 336: per rank and per iteration.
MDTEST_33 = """
SUMMARY rate: (of 2 iterations)
   Operation         per Rank: Max            Min           Mean       per Iteration: Max            Min           Mean         Std Dev
   ---------                   ---            ---           ----                      ---            ---           ----         -------
   Directory creation        8405418.838    1785570.030    5115828.881       16677153.082    3571140.060   10124146.571    9267350.682
   Directory rename          5461333.333    1383345.646    3415483.369       10810061.856    2766691.293    6788376.574    5687521.869
"""
IOR_TEXT = """
Summary of all tests:
Operation   Max(MiB)   Min(MiB)  Mean(MiB)     StdDev   Max(OPs)   Min(OPs)  Mean(OPs)     StdDev    Mean(s) Stonewall(s) Stonewall(MiB) Test# #Tasks tPN reps fPP reord reordoff reordrand seed segcnt   blksiz    xsize aggs(MiB)   API RefNum
write        2000.00    1500.00    1750.00     250.00    2000.00    1500.00    1750.00     250.00    0.01000         NA            NA     0      6   3    2   1     0        1         0    0      1  1048576   262144       4.0 POSIX      0
read         6000.00    5000.00    5500.00     500.00    6000.00    5000.00    5500.00     500.00    0.00100         NA            NA     0      6   3    2   1     0        1         0    0      1  1048576   262144       4.0 POSIX      0
Finished            : Sun Nov 22 00:00:00 2026
"""


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
        Metadata("w", options(clients=4096)).lay_out(tmp_path, 2, 1)


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


def test_mdtest_of_version_4() -> None:
    found = read_mdtest(MDTEST_4)
    assert (found.program, found.clients, found.nodes) == ("mdtest 4.0.0rc1", 16, 2)
    assert found.rates["file_stat"].mean == 50747.780
    assert set(found.rates) == {"file_creation", "file_stat", "tree_creation"}
    assert found.about == {"items": 1600}


def test_mdtest_with_columns_per_rank_gives_those_per_iteration() -> None:
    rate = read_mdtest(MDTEST_33).rates["directory_rename"]
    assert (rate.max, rate.min, rate.mean, rate.stddev) == (
        10810061.856,
        2766691.293,
        6788376.574,
        5687521.869,
    )


def test_ior_as_text() -> None:
    (found,) = read_ior(IOR_TEXT)
    assert (found.clients, found.nodes, found.unit) == (6, 2, "bytes/s")
    assert found.rates["write"].mean == 1750 * 2**20
    assert found.rates["read"].stddev == 500 * 2**20


def test_ior_as_json() -> None:
    line = {"operation": "write", "TestID": 0, "numTasks": 4, "tasksPerNode": 4}
    line |= {"bwMaxMIB": 3.0, "bwMinMIB": 1.0, "bwMeanMIB": 2.0, "bwStdMIB": 1.0}
    (found,) = read_ior_json(json.dumps({"Version": "4.0.0", "tests": [], "summary": [line]}))
    assert (found.clients, found.nodes, found.rates["write"].max) == (4, 1, 3 * 2**20)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hello", "neither the output of mdtest nor of IOR"),
        ('{"summary": 3}', "no JSON of IOR"),
        ("SUMMARY rate: (of 1 iterations)\n", "holds no phase"),
        ("SUMMARY rate:\n   File creation   1.0 2.0\n", "has 2 numbers"),
        ("Summary of all tests:\nOperation one two\n", "other columns"),
    ],
)
def test_what_is_no_output_is_refused_with_its_name(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "out.txt"
    file.write_text(text)
    with pytest.raises(HeadraceError, match=said) as error:
        read_results(file)
    assert str(file) in error.value.message


def test_a_simulated_slot_is_one_client() -> None:
    with pytest.raises(HeadraceError, match="slots = 4"):
        Metadata("w", options(clients=4)).profile(None)
    made = kinds()["metadata"]("w", options(items=7, write_bytes=100, of="files")).profile(None)
    (repeat,) = made.steps
    assert repeat["times"] == 7
    assert [step["do"] for step in repeat["steps"]] == ["create", "write", "stat", "read", "delete"]
