"""Meter `ipmi`: ipmitool reads a simulated BMC (OpenIPMI's ipmi_sim) over RMCP+."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from bmc_simulator import PASSWORD, USER, Bmc, bmc
from headrace import meters
from headrace.errors import Problem
from headrace.meters import Meter, MeterWindow
from headrace.meters.sampling import MeterSampler
from headrace.system.waiting import wait_until

pytestmark = pytest.mark.slow  # starts a server


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bmc]:
    with bmc(tmp_path_factory.mktemp("a bmc")) as found:
        yield found


@pytest.fixture(autouse=True)
def _no_password_here(monkeypatch: pytest.MonkeyPatch, host: Bmc) -> None:
    for name in ("IPMI_PASSWORD", "IPMITOOL_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    host.set_dcmi(212)
    (host.folder / "password").write_text(f"{PASSWORD}\n")


def meter_of(there: Bmc | None = None, **given: Any) -> Meter:
    part = meters.kinds()["ipmi"]
    options: dict[str, Any] = {}
    if there is not None:
        options = {
            "host": "127.0.0.1",
            "port": there.port,
            "user": USER,
            "password_file": str(there.folder / "password"),
            "cipher_suite": 3,
            # ipmi_sim lets nobody else use commands of groups.
            "privilege": "ADMINISTRATOR",
        }
    return part("mine", part.Options.model_validate({**options, **given}))


def only_problem(meter: Meter) -> Problem:
    (problem,) = meter.check()
    return problem


def test_the_power_reading_of_dcmi(host: Bmc) -> None:
    meter = meter_of(host)
    assert not meter.check()
    (channel,) = meter.channels()
    assert (channel.name, channel.boundary, channel.resolution_w) == ("power", "node", 1.0)
    for watts in (212, 340):
        host.set_dcmi(watts)
        begin_s = time.monotonic()
        (reading,) = meter.read()
        assert reading.power_w == watts and begin_s <= reading.time_s <= time.monotonic()
    meter.close()


def test_sensors_in_watts_and_in_va_with_a_power_factor(host: Bmc) -> None:
    host.set_sensor("Pwr Consumption", 202)
    host.set_sensor("PSU1 Input", 110)
    names = ("Pwr Consumption", "PSU1 Input")
    meter = meter_of(host, sensors=names, power_factor=0.5)

    def read() -> list[float | None]:
        return [each.power_w for each in meter.read()]

    # The simulator reads a sensor's file when its time comes.
    assert wait_until(lambda: read() == [202.0, 55.0], 60, 0.1), read()
    host.set_sensor("Pwr Consumption", 300)
    assert wait_until(lambda: read() == [300.0, 55.0], 60, 0.1), read()
    resolutions = {channel.name: channel.resolution_w for channel in meter.channels()}
    assert resolutions == {"Pwr Consumption": 2.0, "PSU1 Input": 1.0}
    meter.close()


WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "user": ({"user": "nobody"}, "refuses user and password", "password_file"),
    "no password": ({"password_file": None}, "(no password is given)", "IPMI_PASSWORD"),
    "cipher suite": ({"cipher_suite": 17}, "refuses the cipher suite", "17 or 3"),
    "privilege": ({"privilege": "USER"}, "the privilege USER is not enough", "OPERATOR"),
    "VA": ({"sensors": ("PSU1 Input",)}, "apparent power, not power in W", "Pwr Consumption"),
    "temperature": ({"sensors": ("Inlet Temp",)}, "is not a sensor of power", "Pwr Consumption"),
    "sensor": ({"sensors": ("Power",)}, "no sensor Power", "there: Pwr Consumption"),
    "port": ({"port": 9, "timeout": 1}, "gave no session of IPMI", "IPMI over LAN"),
    "name": ({"host": "bmc.invalid"}, "bmc.invalid is not found", "check the name"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_with_its_remedy(host: Bmc, case: str) -> None:
    given, what, remedy = WRONG[case]
    problem = only_problem(meter_of(host, **given))
    assert what in problem.what and remedy in problem.remedy, problem
    assert problem.needed_by == "meter mine"


def test_the_password_is_in_a_file_or_in_the_environment_and_in_no_command_line(
    host: Bmc, monkeypatch: pytest.MonkeyPatch
) -> None:
    (host.folder / "password").write_text("guess\n")
    problem = only_problem(meter_of(host))
    assert "refuses user and password" in problem.what and "guess" not in problem.what
    (host.folder / "password").write_text("x" * 21)
    assert "more than 20 bytes" in only_problem(meter_of(host)).what
    monkeypatch.setenv("IPMI_PASSWORD", PASSWORD)
    meter = meter_of(host, password_file=None)
    assert [each.power_w for each in meter.read()] == [212.0]
    (shell,) = _children_named("ipmitool")
    assert PASSWORD.encode() not in Path(f"/proc/{shell}/cmdline").read_bytes()
    meter.close()
    assert not _children_named("ipmitool")


def test_a_bmc_that_measures_nothing(host: Bmc) -> None:
    host.set_dcmi(0)
    assert "is 0 W" in only_problem(meter_of(host)).what
    host.set_dcmi(212, active=False)
    assert "power reading is deactivated" in only_problem(meter_of(host)).what


def test_this_machine_without_a_bmc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (found,) = meters.kinds()["ipmi"].on_this_machine()
    if not Path("/dev/ipmi0").exists():
        assert "no /dev/ipmi0" in found.lacks and "modprobe ipmi_si" in found.lacks
    monkeypatch.setenv("PATH", str(tmp_path))
    problem = only_problem(meter_of())
    assert problem.what == "ipmitool is not installed"
    assert problem.remedy == "apt-get install ipmitool"


def test_a_session_that_is_lost_is_a_gap_and_is_opened_again(host: Bmc) -> None:
    sampler = MeterSampler({"bmc": meter_of(host, interval=0.05, timeout=20)})
    sampler.start()
    begin_s = time.monotonic()

    def has_read(times: int) -> bool:
        return len(sampler.readings("bmc")[1]) >= times

    assert wait_until(lambda: has_read(5), 60, 0.05)
    (shell,) = _children_named("ipmitool")
    os.kill(shell, signal.SIGKILL)
    assert wait_until(lambda: _children_named("ipmitool") not in ([], [shell]), 60, 0.05)
    assert wait_until(lambda: has_read(15), 60, 0.05)
    end_s = time.monotonic()
    sampler.stop()
    (result,), _ = sampler.results(MeterWindow(begin_s, end_s))
    assert result.integral.lost == 1 and result.integral.samples > 5
    assert result.integral.energy_j == pytest.approx(212 * (end_s - begin_s), rel=0.01)


def test_a_session_that_was_long_idle_is_opened_anew(
    host: Bmc, monkeypatch: pytest.MonkeyPatch
) -> None:
    meter = meter_of(host)
    meter.read()
    first = _children_named("ipmitool")
    meter.read()
    assert _children_named("ipmitool") == first and len(first) == 1
    monkeypatch.setattr("headrace.meters.ipmi._SESSION_S", 0.0)
    assert [each.power_w for each in meter.read()] == [212.0]
    (second,) = _children_named("ipmitool")
    assert second not in first
    meter.close()


def test_options_that_contradict_each_other() -> None:
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"user": "me"}, "state host"),
        ({"sensors": ['a" raw 0x06 0x02 "b']}, "is not a name of a sensor"),
        ({"host": "-P"}, "is not a name or address"),
        ({"sensors": ["a", "a"]}, "duplicate sensor"),
    )
    for given, said in wrong:
        with pytest.raises(ValueError, match=said):
            meter_of(**given)


def _children_named(name: str) -> list[int]:
    """Return living children of this process by their program's name."""
    return [each.pid for each in psutil.Process().children() if each.name() == name]
