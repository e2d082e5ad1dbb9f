"""Data sets on disk: made once, found again, made anew when damaged, never half there."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from headrace.datasets import DatasetSpec, estimated_bytes, find_damage, materialise, read_manifest
from headrace.datasets.estimates import estimated_seconds
from headrace.datasets.locks import only_one
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


@pytest.mark.slow
def test_processes_write_the_same_bytes_as_one(tmp_path: Path) -> None:
    spec = spec_of(events=6000, files=3)
    parallel = materialise(spec, tmp_path / "many")
    sums = [entry["xxh3"] for entry in read_manifest(parallel[0].parent).files]
    from headrace.datasets.file_of_events import write_file

    assert sums == [
        write_file(spec, number, tmp_path, lambda events: None).xxh3 for number in range(3)
    ]


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
        found = find_damage(files[0].parent, checksums=False)
        assert [damage.name for damage in found] == [files[1].name] and str(files[1]) in found[
            0
        ].text
    assert materialise(spec_of(), tmp_path) == files
    assert [file.read_bytes() for file in files] == good


def test_a_change_that_keeps_size_and_time_is_found(tmp_path: Path) -> None:
    files = materialise(spec_of(), tmp_path)
    status = files[0].stat()
    content = bytearray(files[0].read_bytes())
    content[5000] ^= 1
    files[0].write_bytes(content)
    os.utime(files[0], ns=(status.st_atime_ns, status.st_mtime_ns))
    assert len(find_damage(files[0].parent, checksums=False)) == 1
    materialise(spec_of(), tmp_path)
    assert find_damage(files[0].parent, checksums=True) == []


def test_only_what_is_damaged_is_made_again(tmp_path: Path) -> None:
    files = materialise(spec_of(), tmp_path)
    before = [file.stat().st_ino for file in files]
    files[1].write_bytes(b"")
    said: list[str] = []
    assert materialise(spec_of(), tmp_path, say=said.append) == files
    after = [file.stat().st_ino for file in files]
    assert after[0] == before[0] and after[1] != before[1]
    assert len(said) == 1 and files[1].name in said[0]


def test_files_of_another_generator_are_made_anew(tmp_path: Path) -> None:
    """As when a version of a codec comes out with other bytes.

    Its files do not fit the manifest of before.
    """
    files = materialise(spec_of(), tmp_path)
    path = files[0].parent / "manifest.json"
    for change in ({"generator": 0}, {"xxh3": "0" * 32}):
        content = json.loads(path.read_text())
        (content if "generator" in change else content["files"][0]).update(change)
        path.write_text(json.dumps(content))
        files[0].write_bytes(b"older")
        assert materialise(spec_of(), tmp_path) == files
        assert find_damage(files[0].parent, checksums=True) == []


def test_a_file_that_was_read_whole_once_is_not_read_again(tmp_path: Path) -> None:
    files = materialise(spec_of(), tmp_path)
    for file in files:
        file.rename(file.with_suffix(".moved"))
        file.with_suffix(".moved").rename(file)
    reads = 0

    def count() -> None:
        nonlocal reads
        reads += 1

    assert find_damage(files[0].parent, checksums=False, tick=count) == []
    assert reads == 2, "a rename changes the time of the inode, so both had to be read"
    assert find_damage(files[0].parent, checksums=False, tick=count) == []
    assert reads == 2


def test_files_copied_elsewhere_with_new_times_are_read_and_trusted(tmp_path: Path) -> None:
    files = materialise(spec_of(), tmp_path)
    for file in files:
        os.utime(file)
    assert find_damage(files[0].parent, checksums=False) == []


def test_a_process_killed_while_it_makes_a_data_set_leaves_none(tmp_path: Path) -> None:
    spec = spec_of(events=60_000)
    code = (
        "import json, sys; from pathlib import Path; from headrace.datasets import DatasetSpec, "
        "materialise\n"
        "materialise(DatasetSpec.model_validate_json(sys.argv[1]), Path(sys.argv[2]), lambda d, "
        "t: print(d, flush=True))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, spec.model_dump_json(), str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
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
        "import sys; from pathlib import Path; from headrace.datasets import DatasetSpec, "
        "materialise\n"
        "print(*materialise(DatasetSpec.model_validate_json(sys.argv[1]), Path(sys.argv[2])))"
    )
    command = [sys.executable, "-c", code, spec.model_dump_json(), str(tmp_path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate()[0] for process in running]
    assert said[0] == said[1] != ""
    assert find_damage(tmp_path / spec.key, checksums=True) == []
    assert list(tmp_path.iterdir()) == [tmp_path / spec.key]


def test_who_asks_while_another_makes_waits_and_takes_what_was_made(tmp_path: Path) -> None:
    spec = spec_of()
    made = materialise(spec, tmp_path / "made")[0].parent
    cache = tmp_path / "cache"
    cache.mkdir()
    code = (
        "import sys; from pathlib import Path; from headrace.datasets import DatasetSpec, "
        "materialise\n"
        "materialise(DatasetSpec.model_validate_json(sys.argv[1]), Path(sys.argv[2]),"
        " lambda done, total: print('made', flush=True), say=lambda text: print(text, flush=True))"
    )
    command = [sys.executable, "-c", code, spec.model_dump_json(), str(cache)]
    with only_one(cache / f".{spec.key}.lock"):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout and "waiting" in process.stdout.readline()
        shutil.copytree(made, cache / spec.key)
    said = process.communicate(timeout=60)[0]
    assert process.returncode == 0 and "made" not in said.splitlines()
    assert list(cache.iterdir()) == [cache / spec.key]


def test_what_a_killed_process_left_goes_with_the_next_making(tmp_path: Path) -> None:
    spec = spec_of()
    (tmp_path / f".{spec.key}-left").mkdir()
    (tmp_path / f".{spec.key}-left" / "events-0000.root").write_bytes(b"half")
    (tmp_path / f".{spec.key}.lock").write_text("")
    materialise(spec, tmp_path)
    assert list(tmp_path.iterdir()) == [tmp_path / spec.key]


@pytest.mark.parametrize("events", [4000, 20_000])
def test_what_progress_raises_stops_the_making_and_leaves_nothing(
    events: int, tmp_path: Path
) -> None:
    """In this process (few events) and with processes of its own, whose listeners must not swallow
    it."""

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        materialise(spec_of(events=events, cluster_events=1000), tmp_path, stop)
    assert list(tmp_path.iterdir()) == []
    assert not [
        child for child in psutil.Process().children() if "writer_process" in str(child.cmdline())
    ]


def test_a_writer_that_dies_is_one_clear_message(tmp_path: Path) -> None:
    def kill(done: int, total: int) -> None:
        for child in psutil.Process().children():
            child.kill()

    with pytest.raises(HeadraceError, match="ended early: killed by signal 9"):
        materialise(spec_of(events=40_000, cluster_events=1000), tmp_path, kill)
    assert list(tmp_path.iterdir()) == []


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
def test_the_estimated_size_is_near_the_size(
    format_: str, shape: str, events: int, tmp_path: Path
) -> None:
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
