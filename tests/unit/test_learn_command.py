"""What `headrace drive learn` refuses, and what it doubts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace import _core
from headrace.cli import make_app
from headrace.cli.drive.learnt import (
    _doubt_an_empty_ssd,  # pyright: ignore[reportPrivateUsage]
)
from headrace.drives.learning import (
    LearntDrive,
    block_device,
    share_of_zeros,
)
from headrace.errors import RefusedError, StudyError, UsageError


def test_a_device_that_cannot_be_opened_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"  # what the core says of it is what it says of a device
    with pytest.raises(OSError, match="No such file") as refused:
        _core.TimedBlockDevice(gone, False)
    assert isinstance(refused.value, FileNotFoundError)

    def yes(_: Path) -> bool:
        return True

    monkeypatch.setattr(Path, "exists", yes)
    monkeypatch.setattr(Path, "is_block_device", yes)
    with pytest.raises(StudyError, match="cannot be opened: No such file"):
        block_device(gone)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere", "--out", "x.toml"), "not found"),
        (("{file}", "--out", "x.toml"), "is not a block device"),
        (("{file}", "--out", "x.toml", "--minutes", "11"), "--minutes"),
        (("{file}", "--out", "x.toml", "--kind", "tape"), "--kind"),
        (("{file}", "--out", "no/folder/x.toml"), "--out"),
    ],
)
def test_a_mistake_is_one_message(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x")
    given = [word.format(file=file) for word in words]
    with pytest.raises(StudyError) as refused:
        CliRunner().invoke(make_app(), ["drive", "learn", *given], catch_exceptions=False)
    assert said in str(refused.value)


def test_no_file_is_overwritten(tmp_path: Path) -> None:
    """Said before the reads, which take minutes: a drive file may have been edited."""
    mine = tmp_path / "mine.toml"
    mine.write_text("# my own words\n")
    with pytest.raises(RefusedError, match="already exists"):
        words = ["drive", "learn", "nowhere", "--out", str(mine)]
        CliRunner().invoke(make_app(), words, catch_exceptions=False)
    assert mine.read_text() == "# my own words\n"


@pytest.mark.parametrize("folder", [".", "/"])
def test_a_folder_is_no_file_for_the_drive(folder: str) -> None:
    """A name without a last part ended in a traceback."""
    with pytest.raises(UsageError, match="is a folder, not a file") as refused:
        words = ["drive", "learn", "nowhere", "--out", folder]
        CliRunner().invoke(make_app(), words, catch_exceptions=False)
    assert "--out" in (refused.value.hint or "")


@pytest.mark.parametrize(("zero_parts", "doubtful"), [(0, False), (1, True), (4, True)])
def test_an_ssd_that_may_never_have_been_written_is_doubtful(
    zero_parts: int, doubtful: bool, tmp_path: Path
) -> None:
    """An SSD answers such reads without its flash: what was learnt of one was taken for sound."""
    device = tmp_path / "device"
    parts = [bytes(1 << 20)] * zero_parts + [b"x" * (1 << 20)] * (4 - zero_parts)
    device.write_bytes(b"".join(parts))
    assert share_of_zeros(device) == pytest.approx(zero_parts / 4, abs=0.02)
    learnt = LearntDrive(table={"kind": "ssd"})
    learnt.add("flash.read_us", 5.0, "µs", "all loads, and the model")
    _doubt_an_empty_ssd(learnt, device)
    assert [bool(each.doubt) for each in learnt.values] == [doubtful]
    disk = LearntDrive(table={"kind": "hdd"}, values=[replace(learnt.values[0], doubt="")])
    _doubt_an_empty_ssd(disk, device)
    assert not disk.values[0].doubt
