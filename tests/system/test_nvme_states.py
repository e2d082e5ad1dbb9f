"""Power states of NVMe drives: what Headrace reads is what nvme-cli reads of the same drive.

This machine need not have such a drive: a preloaded library answers the commands of a character
device as one does.
"""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

STATES = (
    # Most power in 10 mW, flags, entry and exit in us, idle power and scale, active and scale.
    (850, 0, 0, 0, 0, 0, 0, 0),
    (450, 0, 5, 10, 35, 2 << 6, 320, 2 << 6),
    (500, 3, 210, 1500, 500, 1 << 6, 0, 0),
)
"""The last one is in units of 0.1 mW and not operational."""


def identify() -> bytes:
    """An answer to Identify Controller (NVMe Base Specification 2.0, figure 275)."""
    data = bytearray(4096)
    data[24:64] = b"Example NVMe".ljust(40)
    data[263] = len(STATES) - 1
    for number, state in enumerate(STATES):
        most, flags, entry, leave, idle, idle_scale, active, active_scale = state
        at = 2048 + 32 * number
        struct.pack_into("<HBBII", data, at, most, 0, flags, entry, leave)
        struct.pack_into("<HB", data, at + 16, idle, idle_scale)
        struct.pack_into("<HB", data, at + 20, active, active_scale)
    return bytes(data)


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which the folder `dev` has a drive."""
    folder = tmp_path_factory.mktemp("nvme")
    library = folder / "nvme_device.so"
    source = Path(__file__).parents[1] / "nvme_device.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    (folder / "identify").write_bytes(identify())
    (folder / "sys" / "nvme0").mkdir(parents=True)
    (folder / "sys" / "nvme0" / "model").write_text("Example NVMe   \n")
    (folder / "dev").mkdir()
    os.mknod(folder / "dev" / "nvme0", 0o020600, os.makedev(1, 3))
    return {
        **os.environ,
        "FOLDER": str(folder),
        "LD_PRELOAD": str(library),
        "NVME_IDENTIFY": str(folder / "identify"),
        "NVME_STATE": "1",
    }


def headrace_reads(environment: dict[str, str]) -> dict[str, Any]:
    program = """
import dataclasses, json, os, pathlib
import msgspec
from headrace.engine.inventory import stated_power
from headrace.system import nvme
folder = pathlib.Path(os.environ["FOLDER"])
nvme.DEVICES = folder / "dev"
(found,) = nvme.controllers(folder / "sys", nvme.DEVICES)
print(json.dumps({
    **dataclasses.asdict(found),
    "described": found.described,
    "inventory": msgspec.to_builtins(stated_power("nvme0n1")),
}))
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    return json.loads(ended.stdout)


def nvme_cli_reads(environment: dict[str, str]) -> list[dict[str, Any]]:
    ended = subprocess.run(
        ["nvme", "id-ctrl", f"{environment['FOLDER']}/dev/nvme0"],
        env={**environment, "PATH": f"{environment['PATH']}:/usr/sbin"},
        capture_output=True,
        text=True,
        check=True,
    )

    def watts(text: str) -> float | None:
        return None if text == "-" else float(text.removesuffix("W"))

    pattern = (
        r"^ps +(\d+) : mp:(\S+) (non-operational|operational) enlat:(\d+) exlat:(\d+) .*?"
        r"idle_power:(\S+) active_power:(\S+)"
    )
    return [
        {
            "number": int(number),
            "max_w": watts(most),
            "operational": operational == "operational",
            "entry_us": int(entry),
            "exit_us": int(leave),
            "idle_w": watts(idle),
            "active_w": watts(active),
        }
        for number, most, operational, entry, leave, idle, active in re.findall(
            pattern, ended.stdout, re.MULTILINE | re.DOTALL
        )
    ]


def test_the_states_are_those_that_nvme_cli_reads(drive: dict[str, str]) -> None:
    found = headrace_reads(drive)
    assert found["model"] == "Example NVMe" and found["present"] == 1 and not found["error"]
    assert [state["max_w"] for state in found["states"]] == [8.5, 4.5, 0.05]
    assert [state["operational"] for state in found["states"]] == [True, True, False]
    assert [state["idle_w"] for state in found["states"]] == [None, 0.35, 0.05]
    assert [state["active_w"] for state in found["states"]] == [None, 3.2, None]
    assert found["described"] == "0: 8.5 W, 1: 4.5 W, 2: 0.05 W (idle); now in 1"
    assert nvme_cli_reads(drive) == found["states"]
    assert found["inventory"][1] == {
        "state": 1,
        "max_w": 4.5,
        "operational": True,
        "idle_w": 0.35,
        "active_w": 3.2,
        "provenance": "stated",
    }


def test_a_drive_that_cannot_be_asked_says_why(drive: dict[str, str]) -> None:
    plain = {name: value for name, value in drive.items() if name != "LD_PRELOAD"}
    found = headrace_reads(plain)
    assert found["states"] == [] and found["error"] and found["inventory"] == []
