"""The wheel of `make wheel`, installed where there is no Rust: everything that a newcomer runs,
from it alone.

The wheel is linked for this machine (`HEADRACE_WHEEL_GLIBC=host`), so that what `make setup` has
built is used. `HEADRACE_TESTED_WHEEL` names one that is there already, such as that of `make
wheel`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMPILERS = ("cargo", "rustc", "rustup", "cc", "gcc", "clang")


@dataclass
class Installed:
    """A fresh environment with the wheel in it, and a folder to work in."""

    place: Path
    wheel: Path

    def run(self, *words: object, codes: tuple[int, ...] = (0,)) -> str:
        """Run a program of the environment, or of the machine; return what it printed."""
        done = subprocess.run(
            list(map(str, words)),
            cwd=self.place,
            env={
                "PATH": f"{self.place / 'venv/bin'}:{self.place / 'programs'}",
                "HOME": str(self.place),
                "HEADRACE_JOURNAL_DIR": str(self.place / "journals"),
            },
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode in codes, done.stdout + done.stderr
        return done.stdout

    def headrace(self, *words: object, codes: tuple[int, ...] = (0,)) -> str:
        return self.run(self.place / "venv/bin/headrace", *words, codes=codes)


def _programs_without_compilers(place: Path) -> None:
    """Fill a folder with links to every program of the machine but compilers."""
    place.mkdir()
    for folder in ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"):
        for program in Path(folder).glob("*"):
            link = place / program.name
            if program.name not in COMPILERS and not link.is_symlink():
                link.symlink_to(program)


def _built(place: Path) -> Path:
    if given := os.environ.get("HEADRACE_TESTED_WHEEL"):
        return Path(given)
    subprocess.run(
        [ROOT / "scripts" / "wheel", place / "dist"],
        env={**os.environ, "HEADRACE_WHEEL_GLIBC": "host"},
        check=True,
        capture_output=True,
    )
    (wheel,) = (place / "dist").iterdir()
    return wheel


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    place = tmp_path_factory.mktemp("wheel")
    wheel = _built(place)
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, place / "venv"], check=True)
    install = [
        uv,
        "pip",
        "install",
        "-q",
        "--python",
        place / "venv/bin/python",
        "--only-binary",
        ":all:",
    ]
    install += ["--constraint", ROOT / "requirements.lock", wheel]
    # Set-up has put the packages into the cache of uv; without that cache they are fetched.
    if subprocess.run([*install, "--offline"], capture_output=True).returncode:
        subprocess.run(install, check=True)
    _programs_without_compilers(place / "programs")
    yield Installed(place, wheel)
    shutil.rmtree(place / "venv")


def test_nothing_comes_from_the_clone_or_a_compiler(installed: Installed) -> None:
    assert "-cp311-abi3-manylinux_2_" in installed.wheel.name
    look = f"import headrace, shutil; print(headrace.__file__, *map(shutil.which, {COMPILERS}))"
    file, *compilers = installed.run(installed.place / "venv/bin/python", "-c", look).split()
    assert Path(file).is_relative_to(installed.place / "venv")
    assert set(compilers) == {"None"}
    assert not list((installed.place / "venv" / "bin").glob("headrace-*")), (
        "programs lie in the package"
    )


def test_the_quickstart_and_its_simulation(installed: Installed) -> None:
    installed.headrace("init", "quickstart")
    study = installed.place / "quickstart.toml"
    # The study as it comes, but smaller and in a folder of this test's.
    text = (
        study.read_text()
        .replace("240_000", "8_000")
        .replace("/var/tmp/headrace-quickstart-$USER", "disk")
    )
    study.write_text(text.replace("min = 3", "min = 1"))
    printed = installed.headrace("run", study, "--results", "quick", codes=(0, 5))
    assert "analysis" in printed
    assert (installed.place / "quick" / "report.html").stat().st_size > 100_000
    records = [
        json.loads(each.read_text())
        for each in (installed.place / "quick").glob("trials/*/trial.json")
    ]
    assert len(records) == 6
    assert {each["status"] for each in records} <= {"done", "invalid"}, (
        "on a busy machine some are invalid"
    )
    printed = installed.headrace("simulate", study, "--results", "virtual")
    assert "6 of 6 planned trials done; all of them count" in printed


def test_a_recorded_program(installed: Installed) -> None:
    code = "open('made', 'wb').write(bytes(50_000))"
    installed.headrace("record", "--out", "job.toml", "--", "python", "-c", code)
    profile = tomllib.loads((installed.place / "job.toml").read_text())
    assert profile["recorded"]["exit"] == "exit code 0"
    assert "50.0 kB" in installed.headrace("profile", "show", "job.toml")


@pytest.mark.usefixtures("needs_root")
def test_an_emulated_drive(installed: Installed) -> None:
    made = json.loads(
        installed.headrace("drive", "attach", "seagate-st3750640ns", "--size", "64 MiB", "--json")
    )
    try:
        with Path(made["device"]).open("rb") as device:
            assert device.read(4096) == bytes(4096)
    finally:
        installed.headrace("drive", "detach", made["device"])
