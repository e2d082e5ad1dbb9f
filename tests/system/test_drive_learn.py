"""`headrace drive learn` through the kernel: emulated drives with values that the command cannot
know are learnt, and their files have them; what holds data is not written."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command_server import run_command
from headrace.catalog import entry
from headrace.drives.learning import block_device
from headrace.errors import RefusedError

pytestmark = [pytest.mark.usefixtures("needs_root", "journal_place")]

TURN_RPM, LINK = 6500, 200e6


def headrace(*words: str) -> dict[str, Any]:
    done = run_command(words)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout) if "--json" in words else {}


@pytest.mark.slow
@pytest.mark.machine  # times of requests are measured
def test_a_disk_is_learnt_through_the_kernel(tmp_path: Path) -> None:
    text = entry("drives", "seagate-st3750640ns").file.read_text()
    hidden = tmp_path / "hidden.toml"
    for old, new in (
        ("rotation_rpm = 7200.0", f"rotation_rpm = {TURN_RPM}.0"),
        ("link_bytes_per_s = 300e6", f"link_bytes_per_s = {LINK:g}"),
        ('name = "seagate-st3750640ns"', 'name = "hidden"'),
    ):
        assert old in text
        text = text.replace(old, new)
    hidden.write_text(text)
    made = headrace("drive", "attach", str(hidden), "--memory", "64MiB", "--json")
    path = tmp_path / "learnt.toml"
    try:
        words = ("drive", "learn", made["device"], "--out", str(path), "--minutes", "0.5")
        found = headrace(*words, "--kind", "hdd", "--json")
    finally:
        headrace("drive", "detach", made["device"])
    value = {each["name"]: each["value"] for each in found["values"]}
    # What a busy machine delays leaves these as they are; loads are compared in benchmarks/.
    assert value["rotation_rpm"] == pytest.approx(TURN_RPM, rel=0.01)
    assert value["rate at the outer edge"] == pytest.approx(78, rel=0.1)
    assert value["buffer.segments"] == 16
    assert {"kind": "hdd", "capacity_bytes": 750_156_374_016}.items() <= found["table"].items()
    run = headrace("drive", "run", str(path), "--rw", "randread", "--runtime", "5", "--json")
    assert 40 < run["read"]["iops"] < 120


@pytest.mark.slow
@pytest.mark.machine  # times of requests are measured
def test_an_empty_ssd_is_learnt_by_writes_through_the_kernel(tmp_path: Path) -> None:
    """Half a minute: it is written, so that reads need its flash, and read."""
    hidden = tmp_path / "hidden.toml"
    hidden.write_text(
        'kind = "ssd"\nname = "hidden"\ncapacity_bytes = 268_435_456\n'
        "link_bytes_per_s = 250e6\nqueue_depth = 32\n"
        "controller = { read_overhead_us = 300.0, write_overhead_us = 400.0,"
        " read_iops_max = 50e3, write_iops_max = 50e3 }\n"
        "flash = { channels = 2, dies_per_channel = 2, page_bytes = 4096, pages_per_block = 128,"
        " read_us = 600.0, program_us = 2000.0, erase_us = 3000.0,"
        " channel_bytes_per_s = 100e6 }\n"
        'initial = { state = "fresh" }\n[source]\nkind = "a test"\n'
    )
    made = headrace("drive", "attach", str(hidden), "--memory", "512MiB", "--json")
    path = tmp_path / "learnt.toml"
    try:
        words = ("drive", "learn", made["device"], "--out", str(path), "--minutes", "0.5")
        given = ("--kind", "ssd", "--write-to", made["device"], "--json")
        found = headrace(*words, *given)
    finally:
        headrace("drive", "detach", made["device"])
    value = {each["name"]: each["value"] for each in found["values"]}
    # Without writes nothing of the flash would be read: 0.3 ms, not 0.9 ms and the transfers.
    assert value["latency of a read of 4 KiB"] == pytest.approx(960, rel=0.2)
    # Four dies program 4 KiB in 2 ms each.
    assert value["sustained writes"] == pytest.approx(8.2, rel=0.2)
    assert value["flash.program_us"] == pytest.approx(2000, rel=0.3)
    assert found["written_bytes"] > 64 << 20
    assert not found["others"]


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Path]:
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(80 << 20)
    made = subprocess.run(
        ["losetup", "--find", "--show", str(image)], check=True, capture_output=True, text=True
    )
    yield Path(made.stdout.strip())
    subprocess.run(["losetup", "--detach", made.stdout.strip()], check=True)


def refused(*words: str, code: int) -> str:
    done = run_command(("drive", "learn", *words))
    assert done.returncode == code, done.stdout + done.stderr
    return " ".join(done.stderr.split())


def test_only_an_empty_unused_device_that_is_named_again_is_written(
    loop: Path, tmp_path: Path
) -> None:
    words = (str(loop), "--out", str(tmp_path / "x.toml"), "--write-to")
    assert "not the device that is learnt" in refused(*words, "/dev/null", code=2)
    held = os.open(loop, os.O_RDONLY | os.O_EXCL)
    try:
        assert "is in use: another program" in refused(*words, str(loop), code=4)
    finally:
        os.close(held)
    with loop.open("wb") as device:
        device.seek(4096)
        device.write(b"mine")
    assert "is not empty: it holds data of no known kind" in refused(*words, str(loop), code=4)
    subprocess.run(["mkfs.ext4", "-q", str(loop)], check=True)
    assert "is not empty: it holds ext4" in refused(*words, str(loop), code=4)
    assert not (tmp_path / "x.toml").exists()


def test_the_ends_of_a_device_are_not_written(loop: Path) -> None:
    """It is blank afterwards for those who look for what it holds."""
    device = block_device(loop, writable=True)
    device.writes(device.writable_sectors(50))
    with pytest.raises(ValueError, match="must not be written"):
        device.writes([0])
    del device
    assert block_device(loop, writable=True).written_bytes == 0
    with pytest.raises(ValueError, match="must not be written"):
        block_device(loop).writes([80 << 10])


def test_requests_of_other_programs_are_noticed(loop: Path) -> None:
    device = block_device(loop)
    device.reads(device.random_sectors(300))
    assert device.take_others("first") is None
    device.reads(device.random_sectors(300))
    other = block_device(loop, seed=1)
    other.reads(other.random_sectors(20))
    found = device.take_others("second")
    assert found is not None
    assert (found.requests, found.read_bytes, found.doubtful) == (20, 20 * 4096, True)
    device.reads(device.random_sectors(300))
    assert device.take_others("third") is None


def test_a_device_in_use_is_still_read(loop: Path) -> None:
    held = os.open(loop, os.O_RDONLY | os.O_EXCL)
    try:
        with pytest.raises(RefusedError, match="in use"):
            block_device(loop, writable=True)
        assert len(block_device(loop).reads([0, 8])) == 2
    finally:
        os.close(held)
