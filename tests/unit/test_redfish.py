"""Meter `redfish`: a BMC's service over TLS; the places of power, logins, certificates."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.meters.redfish import Redfish, RedfishOptions
from redfish_service import PASSWORD, USER, certificate, chassis, redfish, sensor

RACKMOUNT = chassis(
    "1U",
    environment=374,
    control={"System Input Power": 344, "CPU": 120.5},
    sensors=(
        sensor("TotalPower", 374.2, Accuracy=0.2, PhysicalContext="Chassis"),
        sensor("CPU1Power", 121.0, PhysicalContext="CPU"),
        sensor("IntakeTemp", 24.5, units="Cel", kind="Temperature"),
        sensor("PS1Apparent", 380, units="VA"),
        sensor("PS1Energy", 35166, units="kW.h", kind="EnergykWh"),
        sensor("Shelf", 1.5, units="kW"),
    ),
)


@pytest.fixture(scope="module")
def expired(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As it comes with a BMC: out of date, and of no host."""
    return certificate(tmp_path_factory.mktemp("expired"), expired=True)


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificate(tmp_path_factory.mktemp("named"))


@pytest.fixture
def password(tmp_path: Path) -> Iterator[str]:
    file = tmp_path / "bmc.secret"
    file.write_text(f"{PASSWORD}\n")
    yield str(file)


def meter(address: str, trusted: Path | None, password: str, **more: Any) -> Redfish:
    given: dict[str, Any] = {"address": address, "user": USER, "password_file": password, **more}
    if trusted is not None:
        given["certificate"] = str(trusted)
    given = {name: value for name, value in given.items() if value is not None}
    return Redfish("bmc", RedfishOptions.model_validate(given))


def watts(of: Redfish) -> dict[str, float | None]:
    try:
        return {reading.channel: reading.power_w for reading in of.read()}
    finally:
        of.close()


@pytest.mark.slow
def test_where_vendors_have_the_power_of_a_chassis(expired: Path, password: str) -> None:
    with redfish(expired, RACKMOUNT) as service:

        def of(**more: Any) -> Redfish:
            return meter(service.address, expired, password, **more)

        assert watts(of()) == {"1U": 374.0}
        both = of(resource="Power")
        assert {each.name: each.within for each in both.channels()} == {
            "1U": None,
            "1U/CPU": "1U",
        }
        assert watts(both) == {"1U": 344.0, "1U/CPU": 120.5}
        named = of(sensors=("1U/TotalPower", "1U/Shelf"))
        assert [each.accuracy for each in named.channels()] == [0.002, 0.05]
        assert watts(named) == {"1U/TotalPower": 374.2, "1U/Shelf": 1500.0}
        (channel,) = of().channels()
        assert channel.boundary == "node"
        assert (channel.accuracy, channel.accuracy_source) == (
            0.002,
            "Accuracy of the Redfish sensor",
        )
    older = chassis("Self", environment=None, control={"System Power Control": 201})
    silent = chassis("1", environment=lambda: None, control={"Server": 99})
    with redfish(expired, older, silent) as service:
        assert watts(meter(service.address, expired, password)) == {"Self": 201.0, "1": 99.0}
        assert watts(meter(service.address, expired, password, chassis=("1",))) == {"1": 99.0}


def test_a_blade_is_within_its_enclosure(expired: Path, password: str) -> None:
    parts = (
        chassis("Enclosure", environment=2000),
        chassis("Blade1", environment=300, within="Enclosure"),
        chassis("Fans", within="Enclosure"),
    )
    with redfish(expired, *parts) as service:
        made = meter(service.address, expired, password)
        assert {each.name: each.within for each in made.channels()} == {
            "Enclosure": None,
            "Blade1": "Enclosure",
        }
        made.close()


def test_certificates(expired: Path, named: Path, password: str, tmp_path: Path) -> None:
    with redfish(expired, RACKMOUNT) as service:
        assert not meter(service.address, expired, password).check()
        for trusted in (None, named):
            (problem,) = meter(service.address, trusted, password).check()
            assert "is not trusted: " in problem.what and "certificate" in problem.remedy
        assert service.logins == 1, "a password was sent to a service that is not trusted"
        (problem,) = meter(service.address, tmp_path / "none.pem", password).check()
        assert "none.pem cannot be read" in problem.what
    with redfish(named, RACKMOUNT) as service:
        assert not meter(service.address, None, password, ca=str(named)).check()
        # A CA's certificate must be of this host.
        other = service.address.replace("127.0.0.1", "localhost")
        (problem,) = meter(other, None, password, ca=str(named)).check()
        assert "is not trusted" in problem.what


def test_a_session_is_ended_and_begun_again_when_the_service_ends_it(
    expired: Path, password: str
) -> None:
    with redfish(expired, RACKMOUNT) as service:
        made = meter(service.address, expired, password)
        made.read()
        made.read()
        assert service.logins == 1 and len(service.sessions) == 1
        service.sessions.clear()  # a time limit, or a restart of the BMC
        assert made.read() and service.logins == 2
        made.close()
        assert not service.sessions


@pytest.mark.slow
def test_wrong_logins(
    expired: Path, password: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("guess")
    with redfish(expired, RACKMOUNT) as service:
        for more in ({}, {"login": "basic"}):
            (problem,) = meter(service.address, expired, str(wrong), **more).check()
            assert "refuses user and password" in problem.what and "guess" not in problem.what
            assert not meter(service.address, expired, password, **more).check()
        variable = {"password_file": None, "password_variable": "BMC_SECRET"}
        (problem,) = meter(service.address, expired, password, **variable).check()
        assert "environment variable BMC_SECRET is not set" in problem.what
        monkeypatch.setenv("BMC_SECRET", PASSWORD)
        assert not meter(service.address, expired, password, **variable).check()
        (problem,) = meter(service.address, expired, password, user=None).check()
        assert "refuses user and password" in problem.what
        service.has_sessions = False
        (problem,) = meter(service.address, expired, password).check()
        assert (
            "gives no sessions: it answers 404" in problem.what
            and 'login = "basic"' in problem.remedy
        )


WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "chassis": ({"chassis": ("2U",)}, "has no chassis 2U", "its chassis: 1U"),
    "sensor": ({"sensors": ("1U/Total",)}, "no sensor 1U/Total", "1U/TotalPower, 1U/CPU1Power"),
    "VA": ({"sensors": ("1U/PS1Apparent",)}, "VA is apparent power", ""),
    "degrees": ({"sensors": ("1U/IntakeTemp",)}, "is of Temperature, not of Power", ""),
    "energy": ({"sensors": ("1U/PS1Energy",)}, "is of EnergykWh, not of Power", ""),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_the_service_lacks(expired: Path, password: str, wrong: str) -> None:
    more, what, remedy = WRONG[wrong]
    with redfish(expired, RACKMOUNT) as service:
        (problem,) = meter(service.address, expired, password, **more).check()
    assert what in problem.what and remedy in problem.remedy, problem


def test_a_service_without_power(expired: Path, password: str) -> None:
    parts = chassis("1U", sensors=(sensor("PS1InputPower", 374),))
    with redfish(expired, parts) as service:
        (problem,) = meter(service.address, expired, password).check()
        assert "no chassis has power in EnvironmentMetrics nor Power" in problem.what
        assert "1U/PS1InputPower" in problem.remedy
    answers = itertools.chain([374], itertools.repeat(None))
    with redfish(expired, chassis("1U", environment=lambda: next(answers))) as service:
        made = meter(service.address, expired, password)
        made.channels()
        (problem,) = made.check()  # the node was switched off
        assert "has no power at present" in problem.what
    (problem,) = meter("127.0.0.1:9", None, password, timeout=1).check()
    assert "127.0.0.1:9 is not reachable" in problem.what


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"address": "http://bmc", "user": USER, "password_file": "f"}, "without TLS"),
        ({"address": "bmc", "user": USER}, "user needs password_file or password_variable"),
        ({"address": "bmc", "certificate": "a", "ca": "b"}, "cannot both be stated"),
    ],
)
def test_options_that_cannot_be(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        RedfishOptions.model_validate(given)
