"""A BMC for tests: OpenIPMI's ipmi_sim, with sensors that read files, and a module for DCMI."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from headrace.system.waiting import wait_until
from ports import free_port

USER, PASSWORD = "reader", "s3cret"
WATTS, VOLT_AMPERES, DEGREES = 6, 9, 1
"""Units of sensors (IPMI 2.0, table 43-15)."""
SENSORS = {"Pwr Consumption": WATTS, "PSU1 Input": VOLT_AMPERES, "Inlet Temp": DEGREES}
_STEP = 2
"""Watts per count of every sensor."""

_NETWORK = """
name "bmc"
set_working_mc 0x20
loadlib "{module}" "{watts}"
startlan 1
  addr 127.0.0.1 {port}
  priv_limit admin
  allowed_auths_callback none md2 md5 straight
  allowed_auths_user none md2 md5 straight
  allowed_auths_operator none md2 md5 straight
  allowed_auths_admin none md2 md5 straight
  guid a123456789abcdefa123456789abcdef
endlan
user 1 true "" "none" user 10 none md2 md5 straight
user 2 true "{user}" "{password}" admin 10 none md2 md5 straight
"""


@dataclass(frozen=True)
class Bmc:
    """A running simulator."""

    port: int
    folder: Path

    def set_dcmi(self, watts: int, active: bool = True) -> None:
        """Set the power reading."""
        _replace(self.folder / "watts", f"{watts} {int(active)}\n")

    def set_sensor(self, name: str, value: int) -> None:
        """Set a sensor; it is read every 0.1 s."""
        _replace(self.folder / f"sensor-{list(SENSORS).index(name)}", f"{value // _STEP}\n")


@contextlib.contextmanager
def bmc(folder: Path) -> Generator[Bmc]:
    """Start a BMC on the loopback interface."""
    module = folder / "dcmi.so"
    source = Path(__file__).with_name("dcmi_module.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", module, source], check=True)
    port = free_port(socket.SOCK_DGRAM)
    made = Bmc(port, folder)
    made.set_dcmi(212)
    for name in SENSORS:
        made.set_sensor(name, 202)
    (folder / "state").mkdir()
    known = {"user": USER, "password": PASSWORD, "port": port}
    network = _NETWORK.format(module=module, watts=folder / "watts", **known)
    (folder / "lan.conf").write_text(network)
    (folder / "sensors.emu").write_text(_commands(folder))
    command = [
        "setpriv",
        "--pdeathsig",
        "KILL",
        "--",
        "ipmi_sim",
        "-n",
        "-c",
        "lan.conf",
        "-f",
        "sensors.emu",
        "-s",
        "state",
    ]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        listening = f":{port:04X} "
        assert wait_until(lambda: listening in Path("/proc/net/udp").read_text(), 60, 0.02), (
            folder / "log"
        ).read_text()
        yield made
    finally:
        process.terminate()
        process.wait()


def _commands(folder: Path) -> str:
    lines = ["mc_setbmc 0x20", "mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02"]
    for number, (name, unit) in enumerate(SENSORS.items()):
        file = folder / f"sensor-{number}"
        record = " ".join(f"0x{byte:02x}" for byte in _sensor_record(number, name, unit))
        never = " ".join(["0" * 15] * 4)
        lines += [
            f'sensor_add 0x20 0 {number} 0x0b 0x01 poll 100 file "{file}"',
            f"main_sdr_add 0x20 {record}",
            f"sensor_set_event_support 0x20 0 {number} enable scanning per-state {never}",
        ]
    return "\n".join([*lines, "mc_enable 0x20", ""])


def _sensor_record(number: int, name: str, unit: int) -> bytes:
    """Return a full sensor record (IPMI 2.0, table 43-1)."""
    record = bytearray(48)
    record[0], record[2], record[3] = number + 1, 0x51, 0x01
    record[5], record[7] = 0x20, number  # owner, number
    record[8], record[9] = 0x0A, number + 1  # a power supply
    record[10], record[11], record[12], record[13] = 0x7F, 0x68, 0x0B, 0x01
    record[21], record[24], record[34] = unit, _STEP, 0xFF  # unit, M, largest raw value
    record[47] = 0xC0 | len(name)
    record += name.encode("ascii")
    record[4] = len(record) - 5
    return bytes(record)


def _replace(file: Path, text: str) -> None:
    """Write a file that others read meanwhile."""
    made = file.with_suffix(".new")
    made.write_text(text)
    made.replace(file)
