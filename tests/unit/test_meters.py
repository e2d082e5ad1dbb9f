"""Power meters: their options in a study file, what a machine lacks for them, what they read."""

from __future__ import annotations

import pickle
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace import meters
from headrace.errors import StudyError
from headrace.meters import Meter, MeterChannel, MeterError, MeterWindow, Reading, factor_of
from headrace.meters.integration import integrate
from headrace.meters.sampling import MeterSampler
from headrace.study.load import load_study_text
from headrace.system.waiting import wait_until
from power_simulators import (
    http_meter,
    prometheus_server,
    shelly_plug,
    tasmota_plug,
    watts_up,
)

STUDY = """
headrace = 1
[target.here]
kind = "path"
path = "."
[target.nas]
kind = "nfs"
export = {{ drive = "seagate-st3750640ns" }}
[workload.wait]
kind = "command"
command = ["true"]
{meter}
"""


def faults_of(meter: str) -> list[str]:
    text = STUDY.format(meter=meter)
    try:
        load_study_text(text, file=Path("study.toml"), base=Path("/tmp"))
    except StudyError as error:
        return [str(fault) for fault in error.problems]
    return []


def test_meters_of_a_study() -> None:
    text = STUDY.format(meter='[meter.cpu]\nkind = "rapl"\nidle = "5 s"\ninterval = "200 ms"')
    study = load_study_text(text, file=Path("study.toml"), base=Path("/tmp"))
    part = study.meters["cpu"]
    assert (part.kind, part.options.idle, part.options.interval) == ("rapl", 5.0, 0.2)
    assert pickle.loads(pickle.dumps(part.options)) == part.options


WRONG = {
    '[meter.cpu]\nkind = "rappl"': "meter.cpu.kind: unknown kind; did you mean",
    "[meter.cpu]": "meter.cpu.kind: is missing",
    '[meter.cpu]\nkind = "rapl"\nidel = 5': "meter.cpu.idel: unknown field; did you mean",
    '[meter.cpu]\nkind = "rapl"\ncovers = "node"': 'covers = "node" is more than RAPL counts',
    '[meter.cpu]\nkind = "rapl"\ncovers = "workspace"': "meter.cpu.covers",
    '[meter.cpu]\nkind = "rapl"\naccuracy = 1.5': "meter.cpu.accuracy",
    '[meter.cpu]\nkind = "rapl"\nof = ["node-1"]': "names parts of what `covers` says",
    "meter = 3": "meter",
    '[meter.board]\nkind = "hwmon"': "covers is missing",
    '[meter.p]\nkind = "prometheus"\naddress = "a"\nquery = "up"\nunit = "VA"': "apparent power",
    '[meter.p]\nkind = "prometheus"\naddress = "a"\nquery = "up"\nunit = "BTU"': "unknown unit BTU",
    '[meter.nas]\nkind = "shelly"\naddress = "a"\ncovers = "server"\nof = ["nsa"]': (
        "no such server"
    ),
}


BOARD = '[meter.board]\nkind = "hwmon"\ncovers = "node"\nof = ["{node}"]\n'


@pytest.mark.parametrize(
    ("node", "run", "right"),
    [
        ("node-1", "", True),
        ("node-1", '[run]\non = "ssh://a"', False),
        ("node-0", '[run]\non = "ssh://a"', True),
        ("node-1", '[run]\non = "ssh://a,b"\nnodes = 2', True),
        ("node-1", '[factors]\n"run.on" = ["local", "ssh://a"]', True),
    ],
)
def test_a_meter_is_of_nodes_that_the_record_names(node: str, run: str, right: bool) -> None:
    """A name that no trial has would leave out its energy without a word."""
    found = faults_of(BOARD.format(node=node) + run)
    assert (found == []) == right, found
    assert right or "no such node" in found[0]


@pytest.mark.parametrize("meter", WRONG, ids=lambda text: text.splitlines()[-1][:40])
def test_a_wrong_meter_is_one_message(meter: str) -> None:
    found = faults_of(meter)
    assert len(found) == 1, found
    assert WRONG[meter] in found[0] and found[0].startswith("study.toml"), found


def powercap(folder: Path, zones: dict[str, tuple[str, int]]) -> Path:
    for zone, (name, counted) in zones.items():
        (folder / zone).mkdir(parents=True)
        (folder / zone / "name").write_text(f"{name}\n")
        (folder / zone / "max_energy_range_uj").write_text("262143328850\n")
        (folder / zone / "energy_uj").write_text(f"{counted}\n")
    return folder


def meter_of(kind: str, **options: Any) -> Meter:
    part = meters.kinds()[kind]
    return part("mine", part.Options.model_validate(options))


def test_rapl_reads_every_zone_and_knows_what_contains_what(tmp_path: Path) -> None:
    zones = {
        "intel-rapl:0": ("package-0", 5_000_000),
        "intel-rapl:0:0": ("core", 3_000_000),
        "intel-rapl:0:1": ("dram", 1_000_000),
        "intel-rapl:1": ("package-1", 4_000_000),
        "intel-rapl:1:0": ("core", 2_000_000),
        "intel-rapl-mmio:0": ("package-0", 5_000_000),
    }
    meter = meter_of("rapl", tree=str(powercap(tmp_path / "tree", zones)))
    assert not meter.check()
    within = {channel.name: channel.within for channel in meter.channels()}
    assert within == {
        "package-0": None,
        "package-0/core": "package-0",
        "package-0/dram": None,
        "package-1": None,
        "package-1/core": "package-1",
    }
    energies = {reading.channel: reading.energy_j for reading in meter.read()}
    assert energies["package-0"] == 5.0 and energies["package-1/core"] == 2.0
    assert all(channel.wraps_at_j == 262143.32885 for channel in meter.channels())
    meter.close()


def test_psys_is_the_node_and_contains_the_packages(tmp_path: Path) -> None:
    zones = {"intel-rapl:0": ("package-0", 5), "intel-rapl:1": ("psys", 9)}
    meter = meter_of("rapl", tree=str(powercap(tmp_path / "tree", zones)))
    found = {channel.name: (channel.boundary, channel.within) for channel in meter.channels()}
    assert found == {"package-0": ("socket", "psys"), "psys": ("node", None)}
    meter.close()


def test_a_machine_without_counters_says_what_to_do(tmp_path: Path) -> None:
    (problem,) = meter_of("rapl", tree=str(tmp_path)).check()
    assert "no RAPL counters" in problem.what and "modprobe" in problem.remedy
    assert problem.needed_by == "meter mine" and problem.fatal
    tree = powercap(tmp_path / "tree", {"intel-rapl:0": ("package-0", 5)})
    (tree / "intel-rapl:0" / "energy_uj").unlink()
    (problem,) = meter_of("rapl", tree=str(tree)).check()
    assert "cannot be read" in problem.what


def sensors(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return folder


def test_sensors_of_the_board(tmp_path: Path) -> None:
    files = {
        "hwmon0/name": "power_meter",
        "hwmon0/power1_average": "212000000",
        "hwmon1/name": "ina219",
        "hwmon1/power1_input": "1500000",
        "hwmon1/power1_average": "1400000",
        "hwmon1/in1_input": "5000",
        "hwmon1/curr1_input": "300",
        "hwmon2/name": "amd_energy",
        "hwmon2/energy1_input": "7500000",
    }
    tree = str(sensors(tmp_path, files))
    meter = meter_of("hwmon", tree=tree, covers="node")
    read = {each.channel: (each.power_w, each.energy_j) for each in meter.read()}
    assert read == {
        "power_meter/power1_average": (212.0, None),
        "ina219/power1_input": (1.5, None),
        "amd_energy/energy1_input": (None, 7.5),
    }
    assert {each.name: each.counter for each in meter.channels()} == {
        name: name.startswith("amd") for name in read
    }
    product = {"usb": ("ina219/curr1_input", "ina219/in1_input")}
    meter = meter_of(
        "hwmon",
        tree=tree,
        covers="device",
        sensors=("power_meter/power1_average",),
        products=product,
    )
    assert [each.power_w for each in meter.read()] == [212.0, 1.5]
    (problem,) = meter_of("hwmon", tree=tree, covers="node", sensors=("cpu/power1_input",)).check()
    assert problem.what == "no sensor cpu/power1_input" and "power_meter" in problem.remedy
    (problem,) = meter_of("hwmon", tree=str(tmp_path / "none"), covers="node").check()
    assert "no sensor of power" in problem.what


def test_a_battery_counts_only_when_it_discharges(tmp_path: Path) -> None:
    files = {
        "AC/type": "Mains",
        "BAT0/type": "Battery",
        "BAT0/status": "Discharging",
        "BAT0/current_now": "1200000",
        "BAT0/voltage_now": "12000000",
        "hid-1/type": "Battery",
        "hid-1/scope": "Device",
        "hid-1/status": "Discharging",
    }
    meter = meter_of("battery", tree=str(sensors(tmp_path, files)))
    (reading,) = meter.read()
    assert reading.channel == "BAT0" and reading.power_w == pytest.approx(14.4)
    sensors(tmp_path, {"BAT0/power_now": "9000000"})
    assert [each.power_w for each in meter.read()] == [9.0]
    sensors(tmp_path, {"BAT0/status": "Charging"})
    (problem,) = meter.check()
    assert "BAT0 is not discharging (Charging)" in problem.what and "mains" in problem.remedy


@pytest.mark.parametrize(
    ("status", "power_uw", "gives"),
    [
        ("Not charging", "", True),
        ("Full", "", True),
        ("Unknown", "0", True),
        ("Unknown", "5000000", False),
        ("Unknown", "", False),
        ("Charging", "0", False),
    ],
)
def test_an_idle_battery_beside_one_that_discharges(
    tmp_path: Path, status: str, power_uw: str, gives: bool
) -> None:
    """As laptops with two batteries, which empty one after the other."""
    files = {
        "BAT0/type": "Battery",
        "BAT0/status": status,
        "BAT0/power_now": power_uw,
        "BAT1/type": "Battery",
        "BAT1/status": "Discharging",
        "BAT1/power_now": "9000000",
    }
    tree = sensors(tmp_path, files)
    meter = meter_of("battery", tree=str(tree))
    if not gives:
        (problem,) = meter.check()
        assert "battery BAT0" in problem.what
        return
    assert [each.power_w for each in meter.read()] == [0.0, 9.0]
    # Nothing flows in an idle battery for hours: that is no reading that got stuck.
    taken = [
        replace(each, time_s=float(second)) for second in range(0, 700) for each in meter.read()
    ]
    idle, _ = meter.channels()
    made = integrate(idle, taken, 0, 699)
    assert made.usable and made.energy_j == 0.0
    # Without one that discharges, mains power is connected.
    sensors(tmp_path, {"BAT1/status": "Not charging"})
    assert "is not discharging" in meter.check()[0].what


@pytest.mark.parametrize("generation", [1, 2])
def test_plugs_of_shelly(generation: int, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("s3cret\n")
    (tmp_path / "wrong").write_text("guess\n")
    with http_meter(shelly_plug(lambda: 57.3, generation, "s3cret")) as address:
        known = {"address": address, "user": "admin"}
        meter = meter_of("shelly", password_file=str(tmp_path / "password"), **known)
        assert not meter.check()
        assert [each.power_w for each in meter.read()] == [57.3]
        meter.close()
        for wrong in ({"address": address}, {**known, "password_file": str(tmp_path / "wrong")}):
            (problem,) = meter_of("shelly", **wrong).check()
            assert "refuses user and password" in problem.what and "guess" not in problem.what
        (problem,) = meter_of("shelly", **known, password_file=str(tmp_path / "none")).check()
        assert "password file" in problem.what
    with http_meter(shelly_plug(lambda: 57.3, generation)) as address:
        (problem,) = meter_of("shelly", address=address, output=3).check()
        assert "no output 3" in problem.what
    with http_meter(tasmota_plug(lambda: 3)) as address:
        (problem,) = meter_of("shelly", address=address).check()
        assert "is not a Shelly device" in problem.what


def test_plugs_with_tasmota(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("s3cret")
    with http_meter(tasmota_plug(lambda: [112, 30], "s3cret")) as address:
        known = {"address": address, "user": "admin", "password_file": str(tmp_path / "password")}
        assert [each.power_w for each in meter_of("tasmota", **known, output=1).read()] == [30.0]
        (problem,) = meter_of("tasmota", **known, output=2).check()
        assert "no output 2; it has 2" in problem.what
        (problem,) = meter_of("tasmota", address=address).check()
        assert "refuses user and password" in problem.what
    with http_meter(tasmota_plug(lambda: "n/a")) as address:
        (problem,) = meter_of("tasmota", address=address).check()
        assert "is not a number" in problem.what


def test_series_of_prometheus() -> None:
    series: dict[str, list[tuple[dict[str, str], float]]] = {
        "scaph_host_power_microwatts": [({"instance": "a"}, 85_300_000.0)],
        "joules": [({}, 4.5)],
        "two": [({"i": "a"}, 1.0), ({"i": "b"}, 2.0)],
    }
    with http_meter(prometheus_server(lambda query: series.get(query, []))) as address:

        def of(query: str, unit: str, **more: Any) -> Meter:
            return meter_of("prometheus", address=address, query=query, unit=unit, **more)

        (reading,) = of("scaph_host_power_microwatts", "uW").read()
        assert reading.power_w == pytest.approx(85.3)
        meter = of("joules", "kJ")
        assert meter.channels()[0].counter and meter.read()[0].energy_j == 4500.0
        assert of("joules", "VA", power_factor=0.9).read()[0].power_w == pytest.approx(4.05)
        assert "2 series, not one" in of("two", "W").check()[0].what
        assert "no such series" in of("none", "W").check()[0].what


def test_the_serial_line_of_watts_up() -> None:
    with watts_up(lambda: 110.5) as line:
        meter = meter_of("wattsup", device=line)
        assert not meter.check()
        assert [each.power_w for each in meter.read()] == [110.5]
        meter.close()
    (problem,) = meter_of("wattsup", device="/dev/no-such-line").check()
    assert "/dev/no-such-line cannot be opened" in problem.what


def test_a_meter_that_hangs_is_given_up_in_time() -> None:
    def slow(*_: object) -> tuple[int, Any, dict[str, str]]:
        time.sleep(1.5)
        return 200, {}, {}

    with http_meter(slow) as address:
        (problem,) = meter_of("tasmota", address=address, timeout=0.3).check()
    assert "gave no answer within 0.3 s" in problem.what


@pytest.mark.parametrize("unit", ["VA", "kVA"])
def test_apparent_power_is_refused_without_a_power_factor(unit: str) -> None:
    with pytest.raises(ValueError, match="apparent power"):
        factor_of(unit)
    assert factor_of("VA", 0.9) == (False, 0.9)


def test_units() -> None:
    assert factor_of("kW") == (False, 1000.0) and factor_of("Wh") == (True, 3600.0)
    assert factor_of("Watts") == (False, 1.0) and factor_of("µW") == (False, 1e-6)
    with pytest.raises(ValueError, match="unknown unit BTU; allowed: uW"):
        factor_of("BTU")


class _Scripted(Meter):
    """A meter that answers as a test says."""

    kind = "scripted"

    def __init__(self, answer: Any, interval_s: float = 0.05) -> None:
        super().__init__("scripted", meters.MeterOptions.model_validate({}))
        self._answer, self._interval_s = answer, interval_s

    def channels(self) -> tuple[MeterChannel, ...]:
        return (self.channel("wall", "node", self._interval_s, (0.0, "exact")),)

    def read(self) -> list[Reading]:
        return [Reading("wall", time.monotonic(), power_w=self._answer())]


@pytest.mark.slow
def test_a_slow_meter_delays_no_other() -> None:
    """An answer of one takes as long as ten of the other."""
    answers, ending = list[float](), threading.Event()

    def fast_answer() -> float:
        answers.append(50.0 + time.monotonic() % 1)
        return answers[-1]

    def slow_answer() -> float:
        given = len(answers)
        assert wait_until(lambda: len(answers) >= given + 10 or ending.is_set(), 60, 0.01)
        return 100.0

    sampler = MeterSampler({"slow": _Scripted(slow_answer), "fast": _Scripted(fast_answer)})
    sampler.start()
    begin_s = time.monotonic()
    read_before = len(sampler.readings("slow")[1])
    assert wait_until(lambda: len(sampler.readings("slow")[1]) >= read_before + 3, 120, 0.01)
    end_s = time.monotonic()
    ending.set()
    sampler.stop()
    results, rows = sampler.results(MeterWindow(begin_s, end_s))
    samples = {result.meter: result.integral.samples for result in results}
    assert samples["fast"] > 3 * samples["slow"] > 0
    assert {row["meter"] for row in rows} == {"slow", "fast"}


def test_a_meter_that_disappears_leaves_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    gone, refused = threading.Event(), list[float]()

    def answer() -> float:
        if gone.is_set():
            refused.append(time.monotonic())
            raise MeterError("it does not answer")
        return 100.0 + time.monotonic() % 1

    sampler = MeterSampler({"wall": _Scripted(answer)})
    sampler.start()
    begin_s = time.monotonic()
    assert wait_until(lambda: len(sampler.readings("wall")[1]) >= 10, 60, 0.01)
    gone.set()
    known_s = time.monotonic() - begin_s
    assert wait_until(lambda: time.monotonic() > begin_s + 1.5 * known_s, 60, 0.05)
    assert wait_until(lambda: len(refused) > 5, 60, 0.05)
    end_s = time.monotonic()
    sampler.stop()
    (result,), _ = sampler.results(MeterWindow(begin_s, end_s))
    made = result.integral
    assert not made.usable and made.lost > 3 and "nothing is known" in made.reasons[0]
    assert made.energy_j == pytest.approx(100 * (end_s - begin_s), rel=0.1)
    # One that never answered has no channel that anybody knows.
    never = MeterSampler({"wall": _Scripted(answer)})
    never.start()
    never.stop()
    (result,), _ = never.results(MeterWindow(begin_s, end_s))
    assert result.integral.energy_j is None and not result.integral.usable


def test_every_kind_is_documented_and_has_options_that_can_be_pickled() -> None:
    text = (Path(__file__).parents[2] / "docs" / "energy.md").read_text()
    for kind, part in meters.kinds().items():
        assert f"`{kind}`" in text, f"docs/energy.md does not name {kind}"
        assert pickle.loads(pickle.dumps(part.Options)) is part.Options
