"""The workloads scan, analysis and skim, run as jobs on data that was made for them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

from headrace.datasets import materialise, read_manifest
from headrace.errors import HeadraceError
from headrace.system.waiting import wait_until
from headrace.workloads import JobInput, JobOutput, Packet, Workload, kinds


def workload_of(kind: str, **fields: Any) -> Workload:
    part = kinds()[kind]
    return part("mine", part.Options.model_validate(fields))


def run(
    workload: Workload, files: list[Path], directory: Path, packet_events: int | None = None
) -> JobOutput:
    scratch = directory / "scratch"
    scratch.mkdir(exist_ok=True)

    def packets() -> Iterator[Packet]:
        assert packet_events is not None
        for file in files:
            total = int(uproot.open(file)["Events"].num_entries)
            for first in range(0, total, packet_events):
                yield Packet(str(file), first, min(packet_events, total - first))

    names = tuple(str(file) for file in files)
    if packet_events is not None:
        return workload.run(JobInput((), directory, scratch, 0, 1, 1, packets=packets))
    return workload.run(JobInput(names, directory, scratch, 0, 1, 1))


def data(events: int = 3000, files: int = 2, **fields: Any) -> dict[str, Any]:
    return {"events": events, "files": files, "cluster_events": 500, **fields}


@pytest.mark.parametrize("format_", ["ttree", "rntuple"])
def test_scan_fills_what_is_in_the_column(format_: str, tmp_path: Path, data_sets: Path) -> None:
    scan = workload_of(
        "scan", data=data(format=format_), variable="Jet_pt", bins=40, low=0, high=200
    )
    dataset = scan.dataset(4)
    assert dataset is not None
    files = materialise(dataset, data_sets)
    output = run(scan, files, tmp_path)
    values = np.concatenate(
        [np.asarray(ak.flatten(uproot.open(file)["Events"]["Jet_pt"].array())) for file in files]
    )
    expected, _ = np.histogram(values.astype(np.float64), 40, (0, 200))
    assert output.events == 3000
    assert output.results["histogram"]["counts"][1:-1] == expected.tolist()
    assert sum(output.results["histogram"]["counts"]) == len(values)
    merged = scan.merge([output.results, output.results])
    assert merged["histogram"]["counts"][1:-1] == (2 * expected).tolist()
    assert json.loads(json.dumps(merged)) == merged


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["scan", "analysis"])
@pytest.mark.parametrize("format_", ["ttree", "rntuple"])
def test_packets_give_the_same_as_files(
    kind: str, format_: str, tmp_path: Path, data_sets: Path
) -> None:
    workload = workload_of(kind, data=data(format=format_, signal_fraction=0.3))
    dataset = workload.dataset(1)
    assert dataset is not None
    files = materialise(dataset, data_sets)
    whole, parts = run(workload, files, tmp_path), run(workload, files, tmp_path, packet_events=370)
    assert whole.events == parts.events == 3000
    assert whole.results == parts.results
    assert parts.bytes_asked > whole.bytes_asked  # packets cut through baskets
    assert parts.bytes_uncompressed == whole.bytes_uncompressed


@pytest.mark.slow
def test_analysis_finds_the_higgs_boson_that_was_put_in(tmp_path: Path, data_sets: Path) -> None:
    """Mass and yield within the errors of the fit.

    The energy scale of the generated detector is true.
    """
    analysis = workload_of(
        "analysis", data=data(40_000, 2, signal_fraction=0.06, cluster_events=5000, seed=3)
    )
    dataset = analysis.dataset(2)
    assert dataset is not None
    files = materialise(dataset, data_sets)
    outputs = [run(analysis, [file], tmp_path) for file in files]
    merged = analysis.merge([output.results for output in outputs])
    higgs = merged["peaks"]["higgs"]
    put_in = read_manifest(files[0].parent).signal_selected
    assert put_in > 500
    assert higgs["valid"]
    assert higgs["mass_gev"] == pytest.approx(125.0, abs=max(0.25, 4 * higgs["mass_error_gev"]))
    assert 0.6 < higgs["width_gev"] < 2.0
    # Of the signal with four good leptons a few per cent fail the cuts on the pairs' masses and the
    # leading momenta.
    assert 0.85 * put_in - 4 * higgs["yield_error_events"] < higgs["yield_events"]
    assert higgs["yield_events"] < put_in + 4 * higgs["yield_error_events"]
    for name in ("z_to_muons", "z_to_electrons"):
        assert merged["peaks"][name]["mass_gev"] == pytest.approx(91.19, abs=0.3)
    assert merged["four_lepton_events"] == sum(
        output.results["four_lepton_events"] for output in outputs
    )


def test_analysis_finds_no_higgs_boson_where_there_is_none(tmp_path: Path, data_sets: Path) -> None:
    analysis = workload_of(
        "analysis", data=data(12_000, 1, signal_fraction=0.0, cluster_events=4000)
    )
    dataset = analysis.dataset(1)
    assert dataset is not None
    output = run(analysis, materialise(dataset, data_sets), tmp_path)
    counts = output.results["histograms"]["four_lepton_mass"]["counts"][1:-1]
    near, around = sum(counts[51:59]), sum(counts[40:80])  # 121 to 129 GeV, 110 to 150 GeV
    assert near < 0.35 * around + 3 * around**0.5


@pytest.mark.parametrize("format_", ["ttree", "rntuple"])
@pytest.mark.parametrize("fraction", [0.5, 1.0])
def test_skim_reads_its_share_and_writes_the_survivors(
    format_: str, fraction: float, tmp_path: Path, data_sets: Path
) -> None:
    skim = workload_of("skim", data=data(4000, 1, format=format_), fraction=fraction, min_leptons=2)
    dataset = skim.dataset(1)
    assert dataset is not None
    files = materialise(dataset, data_sets)
    output = run(skim, files, tmp_path)
    assert output.events == 4000 * fraction
    kept = list((tmp_path / "scratch").glob("*.root"))
    assert len(kept) == 1
    assert output.bytes_written == kept[0].stat().st_size
    survivors: Any = uproot.open(kept[0])["Events"].arrays()
    assert len(survivors) == output.results["events_kept"]
    assert 0.2 < len(survivors) / output.events < 0.9
    whole: Any = uproot.open(files[0])["Events"].arrays()
    positions = np.asarray(survivors["event"], np.int64) - 1
    assert (np.diff(positions) > 0).all()
    for name in whole.fields:
        assert ak.all(whole[name][positions] == survivors[name]), name
    share = output.bytes_asked / files[0].stat().st_size
    assert fraction * 0.95 < share < fraction * 1.1 + 0.02


@pytest.mark.parametrize("kind", ["scan", "analysis", "skim"])
def test_a_damaged_file_fails_the_job_with_its_name(
    kind: str, tmp_path: Path, data_sets: Path
) -> None:
    workload = workload_of(kind, data=data())
    dataset = workload.dataset(1)
    assert dataset is not None
    files = [Path(shutil.copy(file, tmp_path)) for file in materialise(dataset, data_sets)]
    os.truncate(files[1], files[1].stat().st_size * 2 // 3)
    with pytest.raises(HeadraceError, match=str(files[1])):
        run(workload, files, tmp_path)


@pytest.mark.parametrize("damage", ["other", "changed"])
def test_verification_finds_a_file_that_is_not_the_manifests(damage: str, tmp_path: Path) -> None:
    scan = workload_of("scan", data=data(codec="zstd"), verify=True)
    dataset = scan.dataset(1)
    assert dataset is not None
    files = materialise(dataset, tmp_path)
    assert run(scan, files, tmp_path).events == 3000
    if damage == "other":
        other = workload_of("scan", data=data(1000, 1)).dataset(1)
        assert other is not None
        files[0].write_bytes(materialise(other, tmp_path)[0].read_bytes())
    else:
        content = bytearray(files[0].read_bytes())
        content[len(content) // 2] ^= 1
        files[0].write_bytes(content)
    with pytest.raises(HeadraceError, match="the manifest's"):
        run(scan, files, tmp_path)


@pytest.mark.parametrize("kind", ["scan", "analysis", "skim"])
def test_warming_reads_nothing_of_the_data_set_and_leaves_nothing(
    kind: str, tmp_path: Path
) -> None:
    workload = workload_of(kind, data=data())
    before = set(Path("/dev/shm").glob("headrace-warm*"))
    workload.warm()
    assert not list(tmp_path.iterdir())
    left = set(Path("/dev/shm").glob("headrace-warm*")) - before
    # Tests in other processes warm at the same time, each for less than a second.
    assert wait_until(lambda: not any(path.exists() for path in left), 30.0, 0.05), left


def test_jobs_have_one_thread(tmp_path: Path, data_sets: Path) -> None:
    analysis = workload_of("analysis", data=data())
    dataset = analysis.dataset(1)
    assert dataset is not None
    files = materialise(dataset, data_sets)
    before = len(list(Path("/proc/self/task").iterdir()))
    run(analysis, files, tmp_path)
    assert len(list(Path("/proc/self/task").iterdir())) == before
