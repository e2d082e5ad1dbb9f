"""scripts/setup says what this machine lacks before it changes anything."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from workspace import ROOT

NEEDED = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"]
PACKAGES = "these Debian packages are missing"
"""The message of the step after the check of Rust: the folder of programs has no C compiler."""


def set_up(place: Path, rustc: str | None) -> subprocess.CompletedProcess[str]:
    """Run scripts/setup in a folder with nothing else, where `rustc` prints this version.

    It goes no further than its first change: a file is where the environment would be made.
    """
    clone, programs = place / "clone", place / "programs"
    (clone / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts/setup", clone / "scripts/setup")
    shutil.copy(ROOT / "Cargo.toml", clone / "Cargo.toml")
    (clone / ".venv").touch()
    programs.mkdir()
    for name in ("bash", "cut", "dirname", "head", "id", "python3", "sed", "sort", "tr"):
        found = shutil.which(name)
        assert found is not None, f"this test needs the program {name}"
        (programs / name).symlink_to(found)
    for name in ("cargo", "rustc") if rustc is not None else ():
        (programs / name).write_text(f"#!/bin/sh\necho '{name} {rustc} (0123456789 2025-01-01)'\n")
        (programs / name).chmod(0o755)
    return subprocess.run(
        [clone / "scripts/setup"],
        env={"PATH": str(programs), "HOME": str(place)},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("version", ["1.80.0", "1.87.0", "1.9.0", "0.99.1", "1.87.0-nightly"])
def test_an_older_rust_is_refused_by_its_version(tmp_path: Path, version: str) -> None:
    done = set_up(tmp_path, version)
    assert done.returncode == 3
    assert f"rustc is {version}, Headrace needs {NEEDED} or newer" in done.stderr
    assert "rustup update" in done.stderr
    assert PACKAGES not in done.stderr


def test_no_rust_is_told(tmp_path: Path) -> None:
    done = set_up(tmp_path, None)
    assert done.returncode == 3
    assert f"Rust is missing: install it from https://rustup.rs (cargo, rustc >= {NEEDED})" in (
        done.stderr
    )


@pytest.mark.parametrize("version", [f"{NEEDED}.0", "1.100.0", f"{NEEDED}.0-nightly", "2.0.0"])
def test_a_new_enough_rust_is_not_complained_of(tmp_path: Path, version: str) -> None:
    said = set_up(tmp_path, version).stderr
    assert "Rust is" not in said
    assert PACKAGES in said


def test_the_stated_rust_is_what_the_dependencies_need() -> None:
    said = subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--locked"],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{Path.home() / '.cargo/bin'}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    stated = {
        package["name"]: tuple(map(int, package["rust_version"].split(".")[:2]))
        for package in json.loads(said.stdout)["packages"]
        if package["rust_version"]
    }
    needed = tuple(map(int, NEEDED.split(".")))
    assert {name: version for name, version in stated.items() if version > needed} == {}
    for page in ("README.md", "docs/install.md"):
        assert f"Rust {NEEDED}" in (ROOT / page).read_text(), page
