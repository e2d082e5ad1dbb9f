"""`headrace power`: the present watts of meters as a table, lines or JSON; idle power; the ends."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from headrace import meters
from headrace.cli.power import _table, power  # pyright: ignore[reportPrivateUsage]
from headrace.errors import MissingError, UsageError
from headrace.meters import Meter
from headrace.meters.live import LiveMeters
from headrace.system.waiting import wait_until
from power_simulators import PowercapTree, http_meter, shelly_plug, steady
from workspace import HEADRACE

ZONES = {
    "intel-rapl:0": ("package-0", steady(40.0)),
    "intel-rapl:0:0": ("core", steady(25.0)),
}


@pytest.fixture(scope="module")
def rapl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The option for processors of 40 W."""
    folder = tmp_path_factory.mktemp("machine") / "powercap"
    with PowercapTree(folder, ZONES, 10_000_000_000):
        yield f"rapl,tree={folder}"


@pytest.mark.slow
def test_lines_and_json(rapl: str, capsys: pytest.CaptureFixture[str]) -> None:
    power(meter=[rapl], once=True)
    heading, package, core = (line.split("\t") for line in capsys.readouterr().out.splitlines())
    shown = dict(zip(heading, package, strict=True))
    assert (shown["meter"], shown["channel"], shown["covers"]) == ("rapl", "package-0", "socket")
    assert float(shown["power_w"]) == pytest.approx(40, rel=0.2) and core[2] == "package-0/core"
    # 5 % as bounds of a uniform distribution.
    assert float(shown["uncertainty_w"]) / float(shown["power_w"]) == pytest.approx(
        0.0289, rel=0.02
    )
    assert shown["idle_power_w"] == ""
    power(meter=[rapl], seconds="1.6", idle="1 s", as_json=True)
    ended = capsys.readouterr()
    rows = [json.loads(line) for line in ended.out.splitlines()]
    packages = [row for row in rows if row["channel"] == "package-0"]
    assert 3 <= len(packages) <= 6 and len({row["time"] for row in packages}) == len(packages)
    assert all(row["idle_power_w"] == pytest.approx(40, rel=0.1) for row in packages)
    assert packages[-1]["mean_power_w"] == pytest.approx(40, rel=0.2)
    assert packages[0]["source"] == "measured" and "RAPL" in packages[0]["accuracy_source"]
    assert {row["within"] for row in rows} == {None, "package-0"}
    assert "measuring idle power for 1 s" in ended.err


@pytest.mark.slow
def test_no_reading_between_two_lines_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """100 W for a fifth of the time, else 20 W: the mean is 36 W, however often it is shown."""
    zones = {"intel-rapl:0": ("package-0", lambda time_s: 100.0 if time_s % 0.5 < 0.1 else 20.0)}
    with PowercapTree(tmp_path / "powercap", zones, 10_000_000_000):
        power(meter=[f"rapl,tree={tmp_path / 'powercap'},interval=0.1"], seconds="3", as_json=True)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert 20 <= len(rows) <= 35
    assert rows[-1]["mean_power_w"] == pytest.approx(36, rel=0.15)


STUDY = """
headrace = 1
[target.here]
kind = "path"
path = "."
[workload.wait]
kind = "command"
command = ["true"]
{meters}
"""


def test_the_meters_of_a_study(
    rapl: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = rapl.partition("=")[2]
    log = tmp_path / "my log.csv"
    log.write_text("t,P\n1,5\n2,6\n")
    wall = '[meter.wall]\nkind = "csv"\nfile = "my log.csv"\ncolumns = { P = "W" }\n'
    study = tmp_path / "study.toml"
    study.write_text(STUDY.format(meters=f'[meter.cpu]\nkind = "rapl"\ntree = "{tree}"\n{wall}'))
    power(study=study, once=True, as_json=True)
    ended = capsys.readouterr()
    assert {json.loads(line)["meter"] for line in ended.out.splitlines()} == {"cpu"}
    assert "meter wall is a log" in ended.err
    study.write_text(STUDY.format(meters=wall))
    with pytest.raises(MissingError, match="no meter tells its present power"):
        power(study=study, once=True)
    study.write_text(STUDY.format(meters=""))
    with pytest.raises(UsageError, match=r"has no \[meter.NAME\]"):
        power(study=study, once=True)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "kind": ({"meter": ["rappl"]}, "unknown kind rappl; did you mean rapl"),
    "field": ({"meter": ["shelly,adress=a"]}, "did you mean"),
    "no value": ({"meter": ["shelly,address"]}, "address has no value"),
    "time": ({"meter": ["rapl"], "idle": "3x"}, "is not a unit of time"),
    "unit": ({"meter": ["prometheus,address=a,query=up,unit=VA"]}, "apparent power"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_options(wrong: str) -> None:
    given, said = WRONG[wrong]
    with pytest.raises(UsageError, match=re.escape(said)):
        power(**given)


def test_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(MissingError) as refused:
        power(meter=["shelly,address=127.0.0.1:9,timeout=1"], once=True)
    assert "meter shelly: 127.0.0.1:9 is not reachable" in refused.value.message
    assert refused.value.exit_code == 3
    zone = tmp_path / "intel-rapl:0"
    zone.mkdir()
    (zone / "name").write_text("package-0")
    (zone / "max_energy_range_uj").write_text("1000")
    with pytest.raises(MissingError, match=r"energy_uj cannot be read.*chmod a[+]r"):
        power(meter=[f"rapl,tree={tmp_path}"], once=True)


def test_a_meter_that_says_negative_power_is_named_with_it() -> None:
    with (
        http_meter(shelly_plug(lambda: -20.0, 2)) as plug,
        pytest.raises(MissingError, match=r"shelly: power says -20 W, which is negative"),
    ):
        power(meter=[f"shelly,address={plug}"], seconds="1 s")


def test_the_meters_of_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever it has: their power, or what each kind lacks."""
    here = [found for kind in meters.kinds().values() for found in kind.on_this_machine()]
    assert len(here) >= 3
    if any(found.meter is not None for found in here):
        power(once=True)
        assert len(capsys.readouterr().out.splitlines()) > 1
    else:
        with pytest.raises(MissingError, match="no power meter that can be read") as refused:
            power(once=True)
        assert all(f"{found.what}: {found.lacks}" in refused.value.message for found in here)


class _Scripted(Meter):
    """A meter that answers as a test says."""

    kind = "scripted"

    def __init__(self, answer: Any) -> None:
        super().__init__("wall", meters.MeterOptions())
        self._answer = answer

    def channels(self) -> tuple[meters.MeterChannel, ...]:
        made = self.channel("power", "node", 0.05, (0.01, "exact"))
        return (replace(made, resolution_w=0.1),)

    def read(self) -> list[meters.Reading]:
        return [meters.Reading("power", time.monotonic(), power_w=self._answer())]


@pytest.mark.slow
def test_a_meter_that_disappears_or_repeats_a_value_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = iter([50.0 + n / 10 for n in range(8)])

    def answer() -> float:
        try:
            return next(values)
        except StopIteration:
            raise meters.MeterError("it does not answer") from None

    live = LiveMeters({"wall": _Scripted(answer)})
    live.start()
    assert live.present()[0].power_w >= 50 and not live.errors()
    assert wait_until(live.errors, 60, 0.05)
    assert live.errors() == {"wall": "it does not answer"}
    live.stop()
    monkeypatch.setattr(meters.MeterChannel, "stuck_after_s", lambda *_: 0.3)
    live = LiveMeters({"wall": _Scripted(lambda: 77.0)})
    live.start()
    assert wait_until(live.errors, 60, 0.05)
    assert "power has repeated 77 W for" in live.errors()["wall"]
    live.stop()


@pytest.mark.slow
def test_the_table_fits_80_columns(rapl: str) -> None:
    with http_meter(shelly_plug(lambda: 90 + time.monotonic() % 1, 2)) as plug:
        from headrace.cli.power import _chosen  # pyright: ignore[reportPrivateUsage]

        chosen = _chosen(None, [rapl, f"shelly,address={plug}", f"shelly,address={plug}"])
        live = LiveMeters(chosen.meters, idle_s=0.6)
        live.start()
        live.measure_idle()
        rows = live.present()
        live.stop()
    rows += [replace(rows[0], covers="server production-storage-1", power_w=12345.6, mean_w=1e4)]
    assert [row.meter for row in rows] == ["rapl", "rapl", "shelly", "shelly-2", "rapl"]
    text = io.StringIO()
    Console(file=text, width=80).print(_table(rows, with_idle=True))
    assert all(len(line) <= 80 for line in text.getvalue().splitlines()), text.getvalue()
    for word in ("above", "idle", "12345.6", "package-0/core", "shelly-2"):
        assert word in text.getvalue()


@pytest.mark.slow
def test_ctrl_c_ends_the_display_of_a_terminal(rapl: str) -> None:
    ours, theirs = os.openpty()
    environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm"}
    process = subprocess.Popen(
        [str(HEADRACE), "power", "--meter", rapl],
        stdout=theirs,
        stderr=theirs,
        env=environment,
    )
    os.close(theirs)
    shown = b""
    while shown.count(b"package-0/core") < 2:
        shown += os.read(ours, 4096)
    process.send_signal(signal.SIGINT)
    try:
        while piece := os.read(ours, 4096):
            shown += piece
    except OSError:
        pass  # the terminal was closed
    assert process.wait(timeout=60) == 130
    os.close(ours)
    assert shown.count(b"\x1b[?25h") >= 1, "the cursor is still hidden"
    plain = re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", shown).decode().replace("\r", "\n")
    assert "Traceback" not in plain and "stopped" in plain
    assert max(map(len, plain.splitlines())) <= 80, plain
