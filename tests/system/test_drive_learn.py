"""`headrace drive learn` through the kernel: an emulated disk with values that the command cannot
know is read, and its file has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from command_server import run_command
from headrace.catalog import entry

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
