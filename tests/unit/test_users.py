"""Users of one machine do not share files that one of them owns."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.study import load_study
from headrace.study.packaged import STUDIES
from headrace.targets.path import PathOptions
from headrace.user import user_name


def names_of(uid: int) -> str:
    """The user's name and folder on a target, seen by a process of that user."""
    program = (
        "import os, sys\n"
        "os.geteuid = lambda: int(sys.argv[1])\n"
        "from headrace.engine.measure.placing import OURS\n"
        "from headrace.user import user_name\n"
        "print(user_name(), OURS)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(uid)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_users_have_folders_of_their_own_on_a_shared_target() -> None:
    assert names_of(0) == "root .headrace"
    assert names_of(65534) == "nobody .headrace-nobody"
    # A container's user often has no name.
    assert names_of(123_456) == "123456 .headrace-123456"


@pytest.mark.parametrize("file", sorted(STUDIES.rglob("*.toml")), ids=lambda file: file.stem)
def test_no_study_of_ours_makes_a_folder_that_users_would_share(file: Path) -> None:
    if file.parent.name == "drives":
        return
    for target in load_study(file).targets.values():
        options = target.options
        if isinstance(options, PathOptions) and options.create:
            place = Path(options.path)
            assert user_name() in place.name or not place.is_relative_to(Path("/var/tmp")), place
            assert os.access(place if place.exists() else place.parent, os.W_OK), place
