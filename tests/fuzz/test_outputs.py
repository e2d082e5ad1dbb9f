"""Damaged outputs of mdtest, IOR and fio: rates, or an error that names the file."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.drives.fio import read_fio_results
from headrace.workloads.mdtest.imported import read_results
from mdtest_output import VERSIONS, ior_output, mdtest_output
from mutations import damaged_json, damaged_text, fuzz, refused_by_name

MDTEST = [
    mdtest_output(
        version, {"File creation": [1000.0, 1100.0], "File stat": [0.0, 0.0]}, tables=tables
    )
    for version in VERSIONS
    for tables in (("rate",), ("rate", "time"), ("time",))
]
IOR = [
    ior_output("3.3.0", {"write": [1228.18, 1000.5], "read": [900.0]}, summary=whole)
    for whole in (True, False)
]
IOR += [
    json.dumps(
        {
            "Version": "4.0.0",
            "tests": [
                {
                    "TestID": 0,
                    "Options": {"tasks": 4, "clients per node": 4},
                    "Results": [
                        [{"access": "write", "bwMiB": 3.0, "totalTime": 1.0}, {"access": "remove"}]
                    ],
                }
            ],
            "summary": [
                {
                    "operation": "write",
                    "TestID": 0,
                    "numTasks": 4,
                    "tasksPerNode": 4,
                    "bwMaxMIB": 3.0,
                    "bwMinMIB": 1.0,
                    "bwMeanMIB": 2.0,
                    "bwStdMIB": 1.0,
                }
            ],
        },
        indent=1,
    ),
    "access,bw(MiB/s),IOPS,Latency,block(KiB),xfer(KiB),open(s),wr/rd(s),close(s),total(s),numTasks,iter\n"
    "write,30.5,30.3,1.5,131072.0,1024.0,15.0,202.2,35.0,202.6,48,0\n",
]
FIO: dict[str, Any] = {
    "fio version": "fio-3.33",
    "global options": {"ioengine": "libaio", "direct": "1"},
    "jobs": [
        {
            "jobname": "random",
            "job options": {
                "rw": "randrw",
                "bs": "4k",
                "iodepth": "16",
                "size": "1g",
                "rwmixread": "70",
            },
            "read": {"total_ios": 700, "iops": 70.0, "clat_ns": {"mean": 1e6}},
            "write": {"total_ios": 300, "iops": 30.0, "clat_ns": {"mean": 2e6}},
        }
    ],
}
"""As fio 3.33 writes it (stat.c), without what Headrace does not read."""


@fuzz(300)
@given(text=damaged_text([*MDTEST, *IOR]))
def test_a_damaged_output_is_read_or_refused_by_name(
    text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / "an output.txt"
    file.write_text(text)
    refused_by_name(lambda: read_results(file), file)


@fuzz(200)
@given(data=st.data())
def test_a_damaged_result_of_fio_is_read_or_refused_by_name(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / "fio.json"
    if data.draw(st.booleans()):
        file.write_text(json.dumps(data.draw(damaged_json(FIO))))
    else:
        file.write_text(data.draw(damaged_text([json.dumps(FIO, indent=1)])))
    refused_by_name(lambda: read_fio_results(file, 1.0), file)
