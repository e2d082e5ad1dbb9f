"""Several files of the user's own as one data set: some without events, or without a column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot

from headrace.datasets import OwnFiles
from headrace.datasets.own_check import described, wrong_files
from headrace.readers.modelled_data import modelled_data
from headrace.workloads import JobInput, Workload, kinds

pytestmark = pytest.mark.slow

READERS = ["uproot", "event-loop", "rdataframe"]


def write(path: Path, events: int, columns: str = "xy", codec: Any = None, times: int = 1) -> Path:
    handle: Any = uproot.recreate(str(path), compression=codec)
    with handle as file:
        file.mktree("Events", dict.fromkeys(columns, "f4"))
        for _ in range(times if events else 0):
            values = np.arange(events, dtype="f4") + 0.25
            file["Events"].extend(dict.fromkeys(columns, values))
    return path


def workload_of(kind: str, files: list[Path], **options: Any) -> Workload:
    part = kinds()[kind]
    data = {"files": [str(file) for file in files]}
    return part(kind, part.Options.model_validate({"data": data, **options}))


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Files of 0, 100, 0, 60 and 40 events, of different compression and baskets."""
    folder = tmp_path_factory.mktemp("chain")
    return [
        write(folder / "a.root", 0),
        write(folder / "b.root", 100, codec=uproot.ZLIB(1)),
        write(folder / "c.root", 0),
        write(folder / "d.root", 6, codec=uproot.LZMA(5), times=10),
        write(folder / "e.root", 40, columns="yx"),
    ]


@pytest.mark.parametrize("columns", [["y"], ["*"]])
@pytest.mark.parametrize("reader", READERS)
def test_files_without_events_are_read_over(
    reader: str, columns: list[str], chain: list[Path], tmp_path: Path
) -> None:
    scan = workload_of("scan", chain, variable="x", columns=columns, reader=reader)
    assert scan.options.wrong_fields() == []
    scan = kinds()["scan"]("scan", scan.options_for_jobs())
    files = tuple(str(file) for file in chain)
    output = scan.run(JobInput(files, None, tmp_path, slot=0, slots=1, seed=0))
    assert output.events == 200
    assert sum(output.results["histogram"]["counts"]) == 200
    assert modelled_data(scan.options).layout.events > 0


@pytest.mark.parametrize("reader", ["uproot", "rdataframe"])
def test_a_skim_writes_nothing_of_a_file_without_events(
    reader: str, chain: list[Path], tmp_path: Path
) -> None:
    skim = workload_of("skim", chain, keep=0.5, fraction=1.0, reader=reader)
    assert skim.options.wrong_fields() == []
    files = tuple(str(file) for file in chain)
    output = skim.run(JobInput(files, None, tmp_path, slot=0, slots=1, seed=0))
    assert (output.events, output.results["events_kept"]) == (200, 100)


def test_files_without_events_are_named_and_no_event_at_all_is_refused(chain: list[Path]) -> None:
    own = OwnFiles.model_validate({"files": [str(file) for file in chain]})
    assert wrong_files(own) == []
    assert described(own).endswith("; without events: a.root, c.root")
    empty = OwnFiles.model_validate({"files": [str(chain[0]), str(chain[2])]})
    [(_, problem)] = wrong_files(empty)
    assert problem == "no file has events"


@pytest.mark.parametrize(("named", "field"), [({"variable": "y"}, "variable"), ({}, "columns")])
def test_a_column_that_a_later_file_lacks_is_named_before_the_run(
    named: dict[str, str], field: str, chain: list[Path], tmp_path: Path
) -> None:
    lacking = write(tmp_path / "lacking.root", 20, columns="x")
    options = named or {"columns": ["y"], "variable": "x"}
    scan = workload_of("scan", [*chain, lacking], **options)
    [(place, problem)] = scan.options.wrong_fields()
    assert place == (field,)
    assert "lacking.root has no column y" in problem
    assert workload_of("scan", [*chain, lacking], variable="x", columns="*").options
