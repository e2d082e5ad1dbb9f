"""Large programs of analysis clusters, recorded and not: the same output, calls and files.

ROOT, coffea, Dask, Java and Go have threads or workers, and code that is compiled while it runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import uproot

from recorded_programs import Program, compare

SOURCES = Path(__file__).parent / "recorded"
ENCODE = (
    "ffmpeg -v error -f rawvideo -pix_fmt gray -s 64x64 -i numbers -c:v ffv1 -bitexact -y o.mkv"
    " && ffmpeg -v error -i o.mkv -f framecrc -bitexact -"
)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the compiled programs and a file of events."""
    folder = tmp_path_factory.mktemp("programs")
    subprocess.run(["javac", "-d", folder, SOURCES / "Reader.java"], check=True)
    # On a machine without Go, the set-up puts it beside Python.
    go = shutil.which("go", path=f"{os.environ['PATH']}:{Path(sys.executable).parent}")
    assert go is not None
    made = [go, "build", "-o", folder / "reader", SOURCES / "reader.go"]
    subprocess.run(made, check=True, env={**os.environ, "CGO_ENABLED": "1"})
    generator = np.random.default_rng(5)
    counts = generator.integers(0, 4, 3000)
    pts = [generator.exponential(20, count).astype("f4") for count in counts]
    with uproot.recreate(folder / "nano.root") as file:
        file.mktree("Events", {"Muon_pt": "var * float32"}, counter_name=lambda name: "nMuon")
        for first in range(0, 3000, 1000):
            file["Events"].extend({"Muon_pt": pts[first : first + 1000]})
    return folder


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "place"
    folder.mkdir()
    monkeypatch.chdir(folder)
    # Java as users have it, with both of its compilers (tests/conftest.py has one).
    monkeypatch.delenv("JDK_JAVA_OPTIONS", raising=False)
    # OpenBLAS starts threads when it is loaded. They spin, and do nothing for these programs.
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    return folder


def analysis(name: str, *changing: str) -> Program:
    command = [sys.executable, str(SOURCES / "analysis.py"), name]
    return Program(command, compared="unordered", changing=frozenset(changing))


PROGRAMS = {
    "root": (analysis("root", "skim.root"), ["nano.root"]),
    "coffea": (analysis("coffea"), ["nano.root"]),
    "dask": (analysis("dask"), []),
    "java": (Program(["java", "-cp", ".", "Reader"], compared="files"), ["Reader.class"]),
    "ffmpeg": (Program(["sh", "-c", ENCODE], compared="files"), []),
    "rsync": (Program(["rsync", "-a", "numbers", "to/"], compared="files"), []),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_large_program_is_the_same_when_it_is_recorded(
    name: str, programs: Path, place: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program, needed = PROGRAMS[name]
    job = compare(program, place, [programs / each for each in needed], tmp_path, capfd)
    assert job.unseen is not None
    # ROOT runs `LD_PRELOAD=DOESNOTEXIST ls` and ldd to find libraries; the notes say so.
    if name == "root":
        assert any("ls was started and is not in the profile" in note for note in job.notes), (
            job.notes
        )
    unseen_max = 65536 if name == "root" else 4096
    assert max(job.unseen.read_bytes, job.unseen.written_bytes) < unseen_max, job.notes


def test_a_go_program_is_the_same_and_what_is_not_seen_of_it_is_said(
    programs: Path, place: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = Program(["./reader"], compared="files")
    job = compare(program, place, [programs / "reader"], tmp_path, capfd)
    size = (place / "numbers").stat().st_size
    assert job.unseen is not None
    assert job.unseen.written_bytes >= 4 * size and job.unseen.read_bytes >= size
    assert any("not seen" in note for note in job.notes), job.notes
