"""What meters cost: CPU time of each kind at its default rate, as a share of one core.

    python benchmarks/meter_cost.py

Each kind reads a simulator that speaks its protocol, all at once, as they do during a trial; only
the threads that read are counted, and the processes that they started. What a meter costs once
(to connect, to find its sensors, to align a log) is shown apart. Bound: 0.5 % of a core for all.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import bmc_simulator
import pdu_simulator
import power_simulators as simulators
import redfish_service
from headrace import meters
from headrace.engine.measure.cpu_load import CpuLoad
from headrace.meters import Meter, MeterWindow
from headrace.meters.sampling import MeterSampler

SECONDS = 60.0
BOUND = 0.005


def noisy() -> float:
    return 90 + time.monotonic() % 1


def options(folder: Path, stack: contextlib.ExitStack) -> dict[str, dict[str, Any]]:
    """Start a simulator for each kind; return the options that reach it."""
    zones = {f"intel-rapl:{n}": (f"package-{n}", simulators.steady(40)) for n in range(2)}
    stack.enter_context(simulators.PowercapTree(folder / "powercap", zones, 262_143_328_850))
    for name, text in {"name": "power_meter", "power1_average": "212000000"}.items():
        (folder / "hwmon" / "hwmon0").mkdir(parents=True, exist_ok=True)
        (folder / "hwmon" / "hwmon0" / name).write_text(text)
    for name, text in {"type": "Battery", "status": "Discharging", "power_now": "9000000"}.items():
        (folder / "supplies" / "BAT0").mkdir(parents=True, exist_ok=True)
        (folder / "supplies" / "BAT0" / name).write_text(text)
    series = [({}, 85.3)]
    serve = stack.enter_context
    certificate = redfish_service.certificate(folder)
    service = serve(
        redfish_service.redfish(certificate, redfish_service.chassis("1U", environment=374))
    )
    secret = folder / "secret"
    secret.write_text(redfish_service.PASSWORD)
    bmc = serve(bmc_simulator.bmc(folder / "bmc"))
    (folder / "bmc.secret").write_text(bmc_simulator.PASSWORD)
    pdu = serve(pdu_simulator.pdu(folder / "pdu"))
    return {
        "rapl": {"tree": str(folder / "powercap")},
        "hwmon": {"tree": str(folder / "hwmon"), "covers": "node"},
        "battery": {"tree": str(folder / "supplies")},
        "wattsup": {"device": serve(simulators.watts_up(noisy, every_s=1.0))},
        "shelly": {"address": serve(simulators.http_meter(simulators.shelly_plug(noisy, 2)))},
        "tasmota": {"address": serve(simulators.http_meter(simulators.tasmota_plug(noisy)))},
        "prometheus": {
            "address": serve(simulators.http_meter(simulators.prometheus_server(lambda _: series))),
            "query": "up",
            "unit": "W",
        },
        "redfish": {
            "address": service.address,
            "user": redfish_service.USER,
            "password_file": str(secret),
            "certificate": str(certificate),
        },
        "ipmi": {
            "host": "127.0.0.1",
            "port": bmc.port,
            "user": bmc_simulator.USER,
            "password_file": str(folder / "bmc.secret"),
            "cipher_suite": 3,
            "privilege": "ADMINISTRATOR",
        },
        "snmp": {"host": "127.0.0.1", "port": pdu.port, "preset": "apc-rpdu2"},
    }


def cpu_s(thread: threading.Thread) -> float:
    """CPU time of a thread, from proc(5) schedstat."""
    text = Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text()
    return int(text.split()[0]) / 1e9


def ipmitools() -> float:
    """CPU time of the programs that meters run."""
    found = [each for each in psutil.Process().children() if each.name() == "ipmitool"]
    return sum(sum(each.cpu_times()[:2]) for each in found)


def reading_costs(made: dict[str, Meter]) -> dict[str, tuple[float, float, float]]:
    """Return per kind: CPU time of the begin, of one reading, and the share of a core."""
    sampler = MeterSampler(made)
    sampler.start(first_reading_s=60)
    time.sleep(2)
    threads = {
        each.name.removeprefix("headrace-meter-"): each
        for each in threading.enumerate()
        if each.name.startswith("headrace-meter-")
    }
    # The first readings import, connect and log in.
    before = {name: cpu_s(thread) for name, thread in threads.items()}
    count = {name: len(sampler.readings(name)[1]) for name in made}
    tools_s, begin_s = ipmitools(), time.monotonic()
    time.sleep(SECONDS)
    after = {name: cpu_s(thread) for name, thread in threads.items()}
    after["ipmi"] += ipmitools() - tools_s
    wall_s = time.monotonic() - begin_s
    found: dict[str, tuple[float, float, float]] = {}
    for name in made:
        channels, readings = sampler.readings(name)
        taken = (len(readings) - count[name]) / len(channels)
        if not taken or sampler.error(name):
            raise RuntimeError(f"{name}: {taken:g} readings, {sampler.error(name)}")
        used_s = after[name] - before[name]
        found[name] = before[name], used_s / taken, used_s / wall_s
    sampler.stop()
    return found


def log_costs(folder: Path) -> tuple[float, float]:
    """Return the share of a core of watching the load, and the CPU time of a log of a day."""
    load = CpuLoad()
    load.start()
    (thread,) = (each for each in threading.enumerate() if each.name == "headrace-cpu-load")
    before_s = cpu_s(thread)
    time.sleep(10)
    share = (cpu_s(thread) - before_s) / 10
    load.stop()
    wall_s, end_s = time.time(), time.monotonic()
    begin_s = end_s - 600
    busy = [(begin_s + n / 4, 0.9 if n % 700 < 300 or n > 1900 else 0.1) for n in range(2400)]
    file = folder / "day.csv"
    rows = (
        f"{wall_s - 86_400 + n},{60 + 40 * busy[max(0, 4 * (n - 85_800))][1]:.2f}\n"
        for n in range(86_400)
    )
    file.write_text("time,P\n" + "".join(rows))
    kind = meters.kinds()["csv"]
    given = {"file": str(file), "columns": {"P": "W"}, "wait": 0}
    meter = kind("log", kind.Options.model_validate(given))
    first_s = time.thread_time()
    meter.channels()
    meter.history(MeterWindow(begin_s + 5, end_s, busy))
    return share, time.thread_time() - first_s


def main() -> int:
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        folder = Path(place)
        for name in ("bmc", "pdu"):
            (folder / name).mkdir()
        known = options(folder, stack)
        kinds = meters.kinds()
        missing = [kind for kind, made in kinds.items() if made.live and kind not in known]
        made = {
            name: kinds[name](name, kinds[name].Options.model_validate(given))
            for name, given in known.items()
        }
        costs = reading_costs(made)
        print(f"{'kind':12}{'first':>10}{'a reading':>12}{'share of a core':>18}")
        for name, (first_s, reading_s, share) in costs.items():
            print(f"{name:12}{1e3 * first_s:7.1f} ms{1e6 * reading_s:9.0f} us{100 * share:15.4f} %")
        load_share, log_s = log_costs(folder)
        print(f"{'csv':12}{'':22}{100 * load_share:15.4f} %  (the CPU load, to align with)")
        print(f"csv: {1e3 * log_s:.0f} ms a trial, for a log of a day at one row per second")
        whole = sum(share for _, _, share in costs.values()) + load_share
        print(
            f"all at their default rates: {100 * whole:.3f} % of a core (bound {100 * BOUND:g} %)"
        )
        median = statistics.median(share for _, _, share in costs.values())
        print(f"one of them, median: {100 * median:.4f} %")
        if missing:
            print(f"not measured, no simulator here: {', '.join(missing)}")
    return 0 if whole <= BOUND else 1


if __name__ == "__main__":
    sys.exit(main())
