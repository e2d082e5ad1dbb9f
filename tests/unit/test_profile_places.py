"""Where a new profile may be written: a wrong name is refused before the program runs."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest

from headrace.errors import RefusedError, UsageError
from headrace.profiles.places import profile_to_write
from headrace.profiles.study_text import study_text


@pytest.mark.parametrize("name", [b"\xff.toml", b"a\xfe"])
def test_a_name_that_is_not_utf_8_is_refused(name: bytes, tmp_path: Path) -> None:
    """The profile, which is UTF-8, names the file with its steps."""
    with pytest.raises(UsageError, match="must be UTF-8"):
        profile_to_write(tmp_path / os.fsdecode(name), "job")


def test_a_file_of_the_user_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.toml"
    path.write_text("mine")
    with pytest.raises(RefusedError, match="is not a recorded profile"):
        profile_to_write(path, "job")
    assert profile_to_write(None, "job").name == "job.toml"


@pytest.mark.parametrize(
    "name", ['my "best" job', "a\nb", "c\\d", "\N{MICROSCOPE}", "x\x7f", "$HOME"]
)
def test_the_study_of_a_profile_is_toml_whatever_its_name(name: str) -> None:
    text = study_text(f"{name}.toml", ["samsung-870-evo-1tb"], 2, [1], "10 GbE")
    study = tomllib.loads(text)
    assert study["title"] == f"{name} on 2 nodes"
    assert study["workload"]["job"]["profile"] == f"{name}.toml".replace("$", "$$")
