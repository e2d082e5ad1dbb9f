"""Meter `snmp`: PDUs by SNMP 2c and 3, of the simulator snmpsim."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import meters
from headrace.meters import Meter, MeterWindow
from headrace.meters.pdu_presets import PRESETS
from headrace.meters.sampling import MeterSampler
from headrace.system.waiting import wait_until
from pdu_simulator import CONTEXT, PASSWORD, PRIVACY_PASSWORD, USER, Pdu, pdu

pytestmark = pytest.mark.slow  # starts a server


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pdu]:
    with pdu(tmp_path_factory.mktemp("a pdu")) as found:
        yield found


def meter_of(**options: Any) -> Meter:
    part = meters.kinds()["snmp"]
    return part("mine", part.Options.model_validate(options))


def on(agent: Pdu, **options: Any) -> Meter:
    return meter_of(**{"host": "127.0.0.1", "port": agent.port, "timeout": 2, **options})


READ: dict[str, tuple[dict[str, Any], dict[str, float]]] = {
    "apc": ({"preset": "apc-rpdu2"}, {"total": 520.0}),
    "apc phase": ({"preset": "apc-rpdu2", "branches": [2]}, {"branch 2": 170.0}),
    "apc outlet": ({"preset": "apc-rpdu2", "outlets": [2]}, {"outlet 2": 33.0}),
    "old apc": ({"preset": "apc-rpdu"}, {"total": 410.0}),
    "eaton": ({"preset": "eaton"}, {"total": 700.0}),
    "eaton section": ({"preset": "eaton", "pdu": 2, "branches": [2]}, {"branch 2": 350.0}),
    "eaton outlet": ({"preset": "eaton", "outlets": [4]}, {"outlet 4": 77.0}),
    "raritan": ({"preset": "raritan"}, {"total": 600.0}),
    "raritan digits": ({"preset": "raritan", "outlets": [5]}, {"outlet 5": 123.4}),
    "sentry": ({"preset": "servertech"}, {"total": 512.0}),
    "sentry outlet": ({"preset": "servertech", "outlets": [8]}, {"outlet 8": 64.0}),
    "own": (
        {
            "oids": {
                "text": {"oid": ".1.3.6.1.4.1.99999.2", "unit": "W"},
                "tenths": {"oid": "1.3.6.1.4.1.318.1.1.12.1.16.0", "unit": "W", "scale": 0.1},
                "va": {
                    "oid": "1.3.6.1.4.1.318.1.1.12.1.16.0",
                    "unit": "VA",
                    "power_factor": 0.5,
                },
            }
        },
        {"text": 123.5, "tenths": 41.0, "va": 205.0},
    ),
}


@pytest.mark.parametrize("case", READ)
def test_power_of_pdus(agent: Pdu, case: str) -> None:
    options, wanted = READ[case]
    meter = on(agent, **options)
    assert {each.channel: each.power_w for each in meter.read()} == pytest.approx(wanted)
    assert [channel.name for channel in meter.channels()] == list(wanted)
    meter.close()


def test_a_step_of_the_value_is_the_resolution(agent: Pdu) -> None:
    for options, step_w in (
        ({"preset": "apc-rpdu2"}, 10.0),
        ({"preset": "apc-rpdu2", "outlets": [2]}, 1.0),
        ({"preset": "raritan", "outlets": [5]}, 0.1),
    ):
        meter = on(agent, **options)
        assert [channel.resolution_w for channel in meter.channels()] == pytest.approx([step_w])
        meter.close()


def test_a_counter_of_energy_wraps_where_its_type_ends(agent: Pdu) -> None:
    """100 Wh per second, from shortly before 2^32: a mean power of 360 kW."""
    energy = {"oid": "1.3.6.1.4.1.99999.1", "unit": "Wh"}
    meter = on(agent, oids={"energy": energy}, interval=0.1)
    (channel,) = meter.channels()
    wraps_at_j = 3600.0 * 2**32
    assert channel.counter and channel.wraps_at_j == wraps_at_j

    def read() -> tuple[float, float, float]:
        """Times before and after a reading, and its energy."""
        before_s = time.monotonic()
        (reading,) = meter.read()
        assert before_s <= reading.time_s <= time.monotonic() and reading.energy_j is not None
        return before_s, time.monotonic(), reading.energy_j

    # A busy machine may take long for each: bounds from within and from outside.
    before_s, begun_s, first_j = read()
    time.sleep(1.5)
    end_s, after_s, second_j = read()
    meter.close()
    counted_j = (second_j - first_j) % wraps_at_j
    assert 0.9 * 360e3 * (end_s - begun_s) < counted_j < 1.1 * 360e3 * (after_s - before_s)


def files(folder: Path, **texts: str) -> dict[str, str]:
    for name, text in texts.items():
        (folder / name).write_text(f"{text}\n")
    return {f"{name}_file": str(folder / name) for name in texts}


def user(folder: Path, password: str = PASSWORD, privacy: str = PRIVACY_PASSWORD) -> dict[str, Any]:
    return {
        "preset": "apc-rpdu2",
        "user": USER,
        "authentication": "SHA256",
        "privacy": "AES",
        "context": CONTEXT,
        **files(folder, password=password, privacy_password=privacy),
    }


def test_a_user_of_version_3(agent: Pdu, tmp_path: Path) -> None:
    meter = on(agent, **user(tmp_path))
    assert not meter.check()
    assert [each.power_w for each in meter.read()] == [520.0]
    meter.close()


def test_what_is_wrong_is_said_with_its_remedy(agent: Pdu, tmp_path: Path) -> None:
    known = user(tmp_path)
    outlets: dict[str, Any] = {"preset": "apc-rpdu2"}
    text = {"oid": "1.3.6.1.2.1.1.1.0", "unit": "W"}
    (tmp_path / "guess").mkdir()
    (tmp_path / "short").mkdir()
    for options, what, remedy in (
        ({**known, "user": "nobody"}, "refuses user nobody", "passwords"),
        (user(tmp_path / "guess", password="not this one"), "refuses user", "passwords"),
        (user(tmp_path / "guess", privacy="not this one"), "refuses user", "passwords"),
        (user(tmp_path / "short", password="short"), "fewer than 8 characters", ""),
        ({**known, "authentication": "MD5"}, "refuses user", "authentication"),
        ({**outlets, "outlets": [9]}, "has no object 1.3.6.1.4.1.318.1.1.26.9.4.3.1.7.9", "outlet"),
        ({**outlets, "outlets": [3]}, "is -1: the PDU does not measure it", "meters"),
        ({"oids": {"name": text}}, "'Rack PDU' is not a number", ""),
        ({**outlets, "host": "pdu.invalid"}, "pdu.invalid is not found", "name"),
        (
            {**outlets, "timeout": 0.3, **files(tmp_path, community="private")},
            "gave no answer within 0.3 s",
            "community may read",
        ),
    ):
        (problem,) = on(agent, **options).check()
        assert what in problem.what and remedy in problem.remedy, problem
        for secret in ("not this one", PASSWORD, PRIVACY_PASSWORD, "private"):
            assert secret not in problem.what + problem.remedy


REFUSED: dict[str, dict[str, Any]] = {
    "state preset (apc-rpdu2": {},
    "or oids": {"preset": "eaton", "oids": {"a": {"oid": "1.3.6", "unit": "W"}}},
    "unknown preset eton; did you mean eaton": {"preset": "eton"},
    "has no power per branch": {"preset": "raritan", "branches": [1]},
    "an outlet's power is part of": {"preset": "eaton", "outlets": [1], "branches": [1]},
    "different numbers": {"preset": "eaton", "outlets": [1, 1]},
    "apparent power, not power in W": {"oids": {"a": {"oid": "1.3.6", "unit": "VA"}}},
    "unknown unit A": {"oids": {"a": {"oid": "1.3.6", "unit": "A"}}},
    "names of a MIB are not known": {"oids": {"a": {"oid": "outletWatts", "unit": "W"}}},
    "user is missing": {"preset": "eaton", "privacy": "AES"},
    "belong together": {"preset": "eaton", "user": "me", "authentication": "SHA"},
    "state one": {"preset": "eaton", "user": "me", "community_file": "c"},
}


@pytest.mark.parametrize("said", REFUSED)
def test_options_that_cannot_be(said: str) -> None:
    with pytest.raises(ValueError) as refused:
        meter_of(host="pdu", **REFUSED[said])
    assert said in str(refused.value)


def test_an_agent_that_is_silent_for_a_while_leaves_a_gap(agent: Pdu) -> None:
    meter = on(agent, preset="apc-rpdu2", outlets=[1], interval=0.1, timeout=0.3)
    sampler = MeterSampler({"pdu": meter})
    sampler.start()
    begin_s = time.monotonic()

    def has_read(times: int) -> bool:
        return len(sampler.readings("pdu")[1]) >= times

    assert wait_until(lambda: has_read(5), 60, 0.05)
    with agent.silent():
        # As long as it answered before: a part of the window that is not small.
        silent_s = max(1.0, (began_s := time.monotonic()) - begin_s)
        assert wait_until(
            lambda: sampler.error("pdu") and time.monotonic() > began_s + silent_s, 60, 0.05
        )
    known = len(sampler.readings("pdu")[1])
    assert wait_until(lambda: has_read(known + 5), 60, 0.05)
    end_s = time.monotonic()
    sampler.stop()
    (result,), _ = sampler.results(MeterWindow(begin_s, end_s))
    made = result.integral
    assert made.lost >= 1 and made.samples >= 5 and not made.usable
    assert "nothing is known" in made.reasons[0]
    assert made.energy_j == pytest.approx(90 * (end_s - begin_s), rel=0.05)


def test_every_preset_has_a_source_and_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "energy.md").read_text()
    for name, preset in PRESETS.items():
        assert f"`{name}`" in text and "MIB" in preset.source and preset.about
