"""Data sets on disk: made once, found again, made anew when damaged, never half there."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace.datasets import DatasetSpec, estimated_bytes, faults, materialise, read_manifest
from headrace.datasets.estimates import estimated_seconds
from headrace.errors import HeadraceError


def spec_of(**fields: Any) -> DatasetSpec:
    return DatasetSpec.model_validate({"events": 300, "files": 2, **fields})


def test_a_data_set_is_made_once_with_a_manifest(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    files = materialise(spec_of(), tmp_path, lambda done, total: told.append((done, total)))
    assert [file.name for file in files] == ["events-0000.root", "events-0001.root"]
    assert files[0].parent == tmp_path / spec_of().key
    assert told[-1] == (300, 300)
    manifest = read_manifest(files[0].parent)
    assert manifest.spec == spec_of()
    assert [entry["events"] for entry in manifest.files] == [150, 150]
    assert [entry["bytes"] for entry in manifest.files] == [file.stat().st_size for file in files]
    before = [file.stat().st_mtime_ns for file in files]
    assert materialise(spec_of(), tmp_path) == files
    assert [file.stat().st_mtime_ns for file in files] == before
    assert list(tmp_path.iterdir()) == [tmp_path / spec_of().key]


def test_processes_write_the_same_bytes_as_one(tmp_path: Path) -> None:
    spec = spec_of(events=6000, files=3)
    parallel = materialise(spec, tmp_path / "many")
    sums = [entry["xxh3"] for entry in read_manifest(parallel[0].parent).files]
    from headrace.datasets.file_of_events import write_file

    assert sums == [write_file(spec, number, tmp_path, lambda events: None).xxh3 for number in range(3)]


@pytest.mark.parametrize("damage", ["truncated", "missing", "changed", "manifest"])
def test_what_is_damaged_is_found_and_made_anew(damage: str, tmp_path: Path) -> None:
    files = materialise(spec_of(), tmp_path)
    good = [file.read_bytes() for file in files]
    manifest = files[0].parent / "manifest.json"
    match damage:
        case "truncated":
            os.truncate(files[1], files[1].stat().st_size // 2)
        case "missing":
            files[1].unlink()
        case "changed":
            content = bytearray(good[1])
            content[len(content) // 2] ^= 0xFF
            files[1].write_bytes(content)
        case _:
            manifest.write_text(manifest.read_text()[:-40])
    if damage != "manifest":
        found = faults(files[0].parent, checksums=False)
        assert len(found) == 1 and str(files[1]) in found[0]
    assert materialise(spec_of(), tmp_path) == files
    assert [file.read_bytes() for file in files] == good


def test_a_change_that_keeps_the_time_is_found_with_checksums(tmp_path: Path) -> None:
    files = materialise(spec_of(), tmp_path)
    status = files[0].stat()
    content = bytearray(files[0].read_bytes())
    content[5000] ^= 1
    files[0].write_bytes(content)
    os.utime(files[0], ns=(status.st_atime_ns, status.st_mtime_ns))
    assert faults(files[0].parent, checksums=False) == []
    assert len(faults(files[0].parent, checksums=True)) == 1
    materialise(spec_of(), tmp_path, checksums=True)
    assert faults(files[0].parent, checksums=True) == []


def test_files_copied_elsewhere_with_new_times_are_read_and_trusted(tmp_path: Path) -> None:
    files = materialise(spec_of(), tmp_path)
    for file in files:
        os.utime(file)
    assert faults(files[0].parent, checksums=False) == []


def test_a_process_killed_while_it_makes_a_data_set_leaves_none(tmp_path: Path) -> None:
    spec = spec_of(events=60_000)
    code = (
        "import json, sys; from pathlib import Path; from headrace.datasets import DatasetSpec, materialise\n"
        "materialise(DatasetSpec.model_validate_json(sys.argv[1]), Path(sys.argv[2]), lambda d, t: print(d, flush=True))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, spec.model_dump_json(), str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip()
    process.kill()
    process.wait()
    process.stdout.close()
    assert not (tmp_path / spec.key).exists()


def test_two_processes_may_ask_at_once(tmp_path: Path) -> None:
    spec = spec_of(events=2000)
    code = (
        "import sys; from pathlib import Path; from headrace.datasets import DatasetSpec, materialise\n"
        "print(*materialise(DatasetSpec.model_validate_json(sys.argv[1]), Path(sys.argv[2])))"
    )
    command = [sys.executable, "-c", code, spec.model_dump_json(), str(tmp_path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate()[0] for process in running]
    assert said[0] == said[1] != ""
    assert faults(tmp_path / spec.key, checksums=True) == []
    assert list(tmp_path.iterdir()) == [tmp_path / spec.key]


def test_no_space_is_one_clear_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real full file system stands in tests/system; here the error that it gives."""

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("headrace.datasets.file_of_events.write_file", full)
    with pytest.raises(HeadraceError, match="no space left for a data set of about"):
        materialise(spec_of(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_made_is_one_clear_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HeadraceError, match="cannot be written"):
        materialise(spec_of(), tmp_path / "file" / "cache")


def test_the_key_names_the_bytes() -> None:
    assert spec_of().key == spec_of().key
    others = {
        spec_of(**{name: value}).key
        for name, value in {"seed": 2, "codec": "zstd", "events": 301, "order": "unordered"}.items()
    }
    assert len(others | {spec_of().key}) == 5


@pytest.mark.parametrize("format_", ["ttree", "rntuple"])
@pytest.mark.parametrize(("shape", "events"), [("bench", 10_000), ("nano", 2_500)])
def test_the_estimated_size_is_near_the_size(format_: str, shape: str, events: int, tmp_path: Path) -> None:
    spec = spec_of(events=events, files=1, shape=shape, format=format_)
    size = materialise(spec, tmp_path)[0].stat().st_size
    assert estimated_bytes(spec) == pytest.approx(size, rel=0.12)
    assert estimated_seconds(spec) > 0


def test_the_manifest_says_how_much_signal_there_is(tmp_path: Path) -> None:
    files = materialise(spec_of(events=4000, signal_fraction=0.5), tmp_path)
    content = json.loads((files[0].parent / "manifest.json").read_text())
    signal = sum(entry["signal_events"] for entry in content["files"])
    assert signal == pytest.approx(2000, abs=150)
    assert 0.2 * signal < read_manifest(files[0].parent).signal_selected < 0.6 * signal
