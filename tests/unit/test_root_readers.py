"""ROOT's readers beside uproot.

The same bins, the same counts of events and bytes, and failures as clear.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

from headrace.datasets import DatasetSpec, materialise
from headrace.datasets.layout import layout
from headrace.errors import HeadraceError
from headrace.workloads import JobInput, JobOutput, Packet, Workload, kinds

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("ROOT") is None, reason="the optional package root is not there"
    ),
]

FORMATS = ("ttree", "rntuple")
ROOT_READERS = ("rdataframe", "event-loop")


def workload_of(kind: str, format_: str, reader: str, **fields: Any) -> tuple[Workload, Any]:
    data = {
        "events": 3000,
        "files": 2,
        "cluster_events": 500,
        "format": format_,
        "signal_fraction": 0.2,
    }
    part = kinds()[kind]
    workload = part("mine", part.Options.model_validate({"data": data, "reader": reader, **fields}))
    return workload, workload.dataset(1)


def run(
    workload: Workload, files: list[Path], scratch: Path, packets: list[Packet] | None = None
) -> JobOutput:
    scratch.mkdir(exist_ok=True, parents=True)
    names = tuple(str(file) for file in files)

    def pulled() -> Iterator[Packet]:
        yield from packets or []

    return workload.run(
        JobInput(
            () if packets else names, None, scratch, 0, 1, 1, packets=pulled if packets else None
        )
    )


def copies(dataset: DatasetSpec, data_sets: Path, directory: Path) -> list[Path]:
    """The files of a data set, to be damaged."""
    return [Path(shutil.copy(file, directory)) for file in materialise(dataset, data_sets)]


@pytest.mark.parametrize(("format_", "reader"), list(itertools.product(FORMATS, ROOT_READERS)))
def test_the_search_fills_the_same_bins_as_uproots(
    format_: str, reader: str, tmp_path: Path, data_sets: Path
) -> None:
    """The two compute in different order.

    A value in a thousand may fall on the other side of an edge.
    """
    ours, dataset = workload_of("analysis", format_, "uproot")
    files = materialise(dataset, data_sets)
    theirs, _ = workload_of("analysis", format_, reader)
    mine, other = run(ours, files, tmp_path / "s"), run(theirs, files, tmp_path / "s")
    assert mine.events == other.events == 3000
    assert mine.bytes_uncompressed == other.bytes_uncompressed
    assert mine.results["four_lepton_events"] == other.results["four_lepton_events"] > 100
    for name, histogram in mine.results["histograms"].items():
        found = np.array(other.results["histograms"][name]["counts"])
        expected = np.array(histogram["counts"])
        assert found.sum() == expected.sum(), name
        assert np.abs(found - expected).sum() <= max(2, 0.002 * expected.sum()), name
    assert other.bytes_asked > 0.6 * sum(file.stat().st_size for file in files)
    assert 0 < other.read_calls < 2000


@pytest.mark.parametrize(("format_", "reader"), list(itertools.product(FORMATS, ROOT_READERS)))
@pytest.mark.parametrize("variable", ["Jet_pt", "MET_pt", "Track_isHighPurity", "nMuon", "event"])
def test_a_scan_of_any_type_is_the_same(
    format_: str, reader: str, variable: str, tmp_path: Path, data_sets: Path
) -> None:
    fields = {"variable": variable, "bins": 50, "low": 0, "high": 150}
    ours, dataset = workload_of("scan", format_, "uproot", **fields)
    files = materialise(dataset, data_sets)
    theirs, _ = workload_of("scan", format_, reader, **fields)
    packets = [
        Packet(str(files[0]), 0, 700),
        Packet(str(files[1]), 300, 900),
        Packet(str(files[0]), 1200, 300),
    ]
    for given in (None, packets):
        mine, other = (
            run(ours, files, tmp_path / "s", given),
            run(theirs, files, tmp_path / "s", given),
        )
        assert mine.results == other.results
        assert mine.events == other.events
        assert mine.bytes_uncompressed == other.bytes_uncompressed


@pytest.mark.parametrize("format_", FORMATS)
def test_a_skim_by_rdataframe_keeps_the_events_with_two_leptons(
    format_: str, tmp_path: Path, data_sets: Path
) -> None:
    ours, dataset = workload_of("skim", format_, "uproot", fraction=1.0)
    files = materialise(dataset, data_sets)[:1]
    theirs, _ = workload_of("skim", format_, "rdataframe", fraction=1.0)
    mine, other = run(ours, files, tmp_path / "mine"), run(theirs, files, tmp_path / "theirs")
    assert mine.events == other.events == 1500
    assert mine.results == other.results
    assert mine.bytes_uncompressed == other.bytes_uncompressed
    assert other.bytes_written == sum(
        file.stat().st_size for file in (tmp_path / "theirs").iterdir()
    )
    read: list[Any] = []
    for place in ("mine", "theirs"):
        (path,) = (tmp_path / place).iterdir()
        read.append(uproot.open(path)["Events"].arrays(["event", "Muon_pt"]))
    assert ak.all(read[0]["event"] == read[1]["event"])
    assert ak.all(read[0]["Muon_pt"] == read[1]["Muon_pt"])


@pytest.mark.parametrize(("format_", "reader"), list(itertools.product(FORMATS, ROOT_READERS)))
@pytest.mark.parametrize("share", [0.01, 0.5, 0.95])
def test_a_truncated_file_is_one_clear_message(
    format_: str, reader: str, share: float, tmp_path: Path, data_sets: Path
) -> None:
    workload, dataset = workload_of("analysis", format_, reader)
    files = copies(dataset, data_sets, tmp_path)
    os.truncate(files[1], int(files[1].stat().st_size * share))
    with pytest.raises(HeadraceError) as caught:
        run(workload, files, tmp_path / "s")
    assert str(files[1]) in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(("format_", "reader"), list(itertools.product(FORMATS, ROOT_READERS)))
@pytest.mark.parametrize("codec", ["zlib", "zstd"])
def test_a_damaged_basket_is_one_clear_message(
    format_: str, reader: str, codec: str, tmp_path: Path, data_sets: Path
) -> None:
    workload, _ = workload_of("analysis", format_, reader)
    dataset = DatasetSpec.model_validate(
        {"events": 2000, "files": 1, "format": format_, "codec": codec}
    )
    (file,) = copies(dataset, data_sets, tmp_path)
    pieces = [piece for piece in layout(file) if piece.column == "Jet_pt"]
    basket = max(pieces, key=lambda piece: piece.compressed_bytes)
    content = bytearray(file.read_bytes())
    place = basket.offset + basket.compressed_bytes // 2
    content[place : place + 64] = bytes(byte ^ 0xA5 for byte in content[place : place + 64])
    file.write_bytes(content)
    with pytest.raises(HeadraceError) as caught:
        run(workload, [file], tmp_path / "s")
    assert str(file) in caught.value.message
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 500


def test_a_skim_in_an_event_loop_is_said_to_be_missing() -> None:
    workload, _ = workload_of("skim", "ttree", "event-loop")
    assert workload.check()[0].fatal


@pytest.mark.parametrize("format_", FORMATS)
def test_two_threads_of_one_job_do_what_one_does(
    format_: str, tmp_path: Path, data_sets: Path
) -> None:
    for kind, fields in (
        ("analysis", {}),
        ("scan", {"variable": "Jet_pt", "bins": 50, "low": 0, "high": 150}),
    ):
        alone, dataset = workload_of(kind, format_, "rdataframe", **fields)
        shared, _ = workload_of(kind, format_, "rdataframe", threads=2, **fields)
        files = materialise(dataset, data_sets)
        shared.warm()
        one, two = run(alone, files, tmp_path / "s"), run(shared, files, tmp_path / "s")
        assert two.events == one.events == 3000
        assert two.bytes_uncompressed == one.bytes_uncompressed
        histograms = one.results.pop("histograms", None), two.results.pop("histograms", None)
        assert histograms[0] == histograms[1]
        assert two.results == one.results
    skims = [
        workload_of("skim", format_, "rdataframe", fraction=1.0, threads=threads)[0]
        for threads in (1, 2)
    ]
    kept = [run(skim, files[:1], tmp_path / skim.name / str(n)) for n, skim in enumerate(skims)]
    assert kept[0].results == kept[1].results and kept[0].results["events_kept"] > 100
    events = [
        sorted(uproot.open(path)["Events"]["event"].array().tolist())
        for n in (0, 1)
        for path in (tmp_path / "mine" / str(n)).iterdir()
    ]
    assert events[0] == events[1]


def test_more_threads_than_cpus_are_refused_by_the_job(tmp_path: Path, data_sets: Path) -> None:
    """On another node nothing refuses them before."""
    cpus = len(os.sched_getaffinity(0))
    workload, dataset = workload_of("scan", "ttree", "rdataframe", threads=cpus + 1)
    files = materialise(dataset, data_sets)
    with pytest.raises(HeadraceError, match=f"shares a job among {cpus} threads here"):
        run(workload, files, tmp_path / "s")
    alone, _ = workload_of("scan", "ttree", "rdataframe")
    assert run(alone, files, tmp_path / "s").events == 3000
