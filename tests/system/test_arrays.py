"""Target `raid`: arrays of the kernel's own over image files.

Whole, with a drive gone, with a new one being filled.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.system import page_cache
from headrace.targets import Location, Target, TargetContext, kinds
from machine import loops_below, mounts_below

pytestmark = pytest.mark.usefixtures("needs_root")


def raid(folder: Path, **options: object) -> Target:
    part = kinds()["raid"]
    given = {"size": "256 MiB", "folder": str(folder), **options}
    return part("array", part.Options.model_validate(given))


def bytes_written(location: Location) -> list[int]:
    return [
        int(Path(f"/sys/block/{name}/stat").read_text().split()[6]) * 512
        for name in location.device_names
    ]


@pytest.mark.parametrize(("level", "drives"), [(0, 2), (1, 2), (10, 4), (5, 3), (6, 4)])
def test_levels(level: int, drives: int, context: TargetContext, tmp_path: Path) -> None:
    target = raid(tmp_path, level=level, drives=drives)
    assert [problem for problem in target.check(frozenset()) if problem.fatal] == []
    location = target.prepare(context)
    assert location.directory is not None
    assert len(location.device_names) == drives
    assert target.read_settings()["state"] == "whole"
    before = bytes_written(location)
    content = os.urandom(16 << 20)
    (location.directory / "data").write_bytes(content)
    os.sync()
    written = [now - then for now, then in zip(bytes_written(location), before, strict=True)]
    assert sum(size > 1 << 20 for size in written) == drives, "every drive has a part"
    copies = {0: 1.0, 1: 2.0, 10: 2.0, 5: 3 / 2, 6: 4 / 2}[level]
    assert sum(written) >= copies * len(content)
    page_cache.drop_all()
    assert (location.directory / "data").read_bytes() == content
    target.release(context)
    target.release(context)
    assert mounts_below(context.work_dir) == []
    assert loops_below(tmp_path) == []
    assert not list(tmp_path.glob("*.img"))


@pytest.mark.parametrize(("level", "drives"), [(1, 2), (5, 3)])
def test_a_drive_goes_and_a_new_one_is_filled(
    level: int, drives: int, context: TargetContext, tmp_path: Path
) -> None:
    target = raid(tmp_path, level=level, drives=drives)
    location = target.prepare(context)
    assert location.directory is not None
    content = os.urandom(32 << 20)
    (location.directory / "data").write_bytes(content)

    def bring_to(state: str) -> None:
        (setting,) = target.apply(target.options.model_copy(update={"state": state}), context)
        assert setting.applied or (state == "rebuilding" and "at once" in setting.reason), setting

    bring_to("degraded")
    assert target.read_settings()["state"] == "degraded"
    page_cache.drop_all()
    assert (location.directory / "data").read_bytes() == content, "the others hold it"
    bring_to("rebuilding")
    assert (location.directory / "data").read_bytes() == content
    bring_to("whole")
    assert target.read_settings()["state"] == "whole"
    bring_to("degraded")  # the drive that was filled goes, and the rest still has everything
    page_cache.drop_all()
    assert (location.directory / "data").read_bytes() == content
    target.release(context)
    assert mounts_below(context.work_dir) == []
    assert loops_below(tmp_path) == []
    assert not list(tmp_path.glob("*.img"))


def test_what_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="3 drives at least"):
        raid(tmp_path, level=5, drives=2)
    with pytest.raises(ValueError, match="even"):
        raid(tmp_path, level=10, drives=5)
    assert "holds nothing" in (raid(tmp_path, level=0, state="degraded").unsupported() or "")
    (problem,) = raid(tmp_path / "missing", level=1).check(frozenset())
    assert problem.remedy == f"mkdir -p {tmp_path / 'missing'}"
