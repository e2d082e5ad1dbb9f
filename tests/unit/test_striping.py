"""Striping: the commands of Lustre and BeeGFS, and what their tools say read back."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import UnsupportedLevelError
from headrace.system.network_filesystems import parse_layout
from headrace.system.striping import differs, stripe_command

PLACE = Path("/mnt/data")

LFS = """/mnt/data
stripe_count:  4 stripe_size:   4194304 pattern:       raid0 stripe_offset: -1
"""
BEEGFS = """Entry type: directory
EntryID: 2-5F3A-1
Stripe pattern details:
+ Type: RAID0
+ Chunksize: 512K
+ Number of storage targets: desired: 4
+ Storage Pool: 1 (Default)
"""
CEPH = "stripe_unit=4194304 stripe_count=1 object_size=4194304 pool=cephfs.data"


def test_commands() -> None:
    assert stripe_command("lustre", PLACE, 4, 1 << 20) == [
        "lfs", "setstripe", "-c", "4", "-S", "1048576", "/mnt/data"
    ]  # fmt: skip
    assert stripe_command("lustre", PLACE, 0, None) == ["lfs", "setstripe", "-c", "-1", "/mnt/data"]
    assert stripe_command("beegfs", PLACE, 2, 1 << 19) == [
        "beegfs-ctl", "--setpattern", "--numtargets=2", "--chunksize=524288", "/mnt/data"
    ]  # fmt: skip
    with pytest.raises(UnsupportedLevelError, match="ext4"):
        stripe_command("ext4", PLACE, 2, None)
    with pytest.raises(UnsupportedLevelError, match="their number"):
        stripe_command("beegfs", PLACE, 0, None)


def test_what_is_read_back() -> None:
    lustre, beegfs = parse_layout(LFS), parse_layout(BEEGFS)
    assert differs("lustre", lustre, 4, 4 << 20) is None
    assert "the file system says 4" in (differs("lustre", lustre, 0, None) or "")
    assert "4194304" in (differs("lustre", lustre, None, 1 << 20) or "")
    assert differs("beegfs", beegfs, 4, 512 << 10) is None
    assert differs("beegfs", beegfs, 2, None)
    assert differs("lustre", {}, 1, None)


def test_the_layout_of_a_ceph_directory() -> None:
    found = parse_layout(CEPH)
    assert found["pool"] == "cephfs.data"
    assert found["stripe_count"] == 1
    assert found["object_size_bytes"] == 4 << 20
