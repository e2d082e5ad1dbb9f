"""Ganglia and Prometheus as sources of a study: real gmond, real Prometheus and node_exporter."""

from __future__ import annotations

import json
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import HeadraceError
from headrace.probes import service_kinds
from headrace.probes.ganglia import GangliaOptions, GangliaProbe
from headrace.probes.prometheus import PrometheusProbe, PrometheusProbeOptions
from headrace.probes.services import ClockOffset
from headrace.system.waiting import wait_until
from monitoring_servers import gmond, prometheus
from ports import free_port
from workspace import Workspace

STUDY = """
headrace = 1
[target.here]
kind = "path"
path = "{storage}/some data"
create = true
[workload.job]
kind = "command"
command = ["sleep", "4"]
[plan]
repeats = {{ min = 1 }}
[run]
cache = "as-is"
foreign_load = "warning"
"""
PROBES = """
[probe.farm]
kind = "ganglia"
address = "{gmond}"
metrics = ["load_one", "mem_free"]
interval = "0.5 s"
[probe.site]
kind = "prometheus"
address = "{server}"
metrics = {{ load = "node_load1", busy = "sum(rate(node_cpu_seconds_total[5s]))" }}
units = {{ busy = "CPUs" }}
interval = "0.5 s"
[probe.one]
kind = "prometheus"
address = "{exporter}"
metrics = {{ load = "node_load1", idle = 'node_cpu_seconds_total{{cpu="0",mode="idle"}}' }}
units = {{ idle = "s" }}
interval = "0.5 s"
"""

Addresses = dict[str, str]


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    folder = tmp_path_factory.mktemp("monitoring")
    with gmond(folder) as ganglia, prometheus(folder) as (server, exporter):
        yield {"gmond": ganglia, "server": server, "exporter": exporter}


@pytest.fixture(scope="module")
def memory() -> Iterator[Path]:
    """A folder in memory: what other programs write to a device does not spoil its trials."""
    with tempfile.TemporaryDirectory(prefix="headrace-test-", dir="/dev/shm") as folder:
        yield Path(folder)


def study(addresses: Addresses, memory: Path) -> str:
    return (STUDY + PROBES).format(storage=memory, **addresses)


def rows(workspace: Workspace, name: str) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    (file,) = workspace.place.glob(f"results/trials/*/series/{name}.parquet")
    return pq.read_table(file).to_pylist()


def test_values_of_hosts_are_in_the_record_and_the_page(
    workspace: Workspace, addresses: Addresses, memory: Path
) -> None:
    ended = workspace.measure(workspace.study(study(addresses, memory)))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (trial,) = workspace.trials()
    found = {
        "ganglia-farm": {("node07", "load_one"), ("node07", "mem_free")},
        "prometheus-site": {(addresses["exporter"][7:-8], "load"), ("all", "busy")},
        "prometheus-one": {
            (addresses["exporter"][7:-8], "load"),
            (addresses["exporter"][7:-8], "idle"),
        },
    }
    for name, wanted in found.items():
        series, totals = rows(workspace, name), trial["probes"][name]
        assert {(row["host"], row["metric"]) for row in series} == wanted
        assert {(h, m) for h, metrics in totals["hosts"].items() for m in metrics} == wanted
        of_first = [row for row in series if row["metric"] == series[0]["metric"]]
        assert len(of_first) >= 2 and totals["lost"] == 0
        assert min(row["time_s"] for row in series) >= -3
        assert max(row["time_s"] for row in series) <= trial["duration_s"] + 3
        if name != "prometheus-one":  # one machine has one clock
            assert abs(totals["clock_offset_s"]) <= totals["clock_uncertainty_s"] + 0.01 < 1.1
    units = {row["metric"]: row["unit"] for row in rows(workspace, "ganglia-farm")}
    assert units["mem_free"] == "KB"
    assert {row["unit"] for row in rows(workspace, "prometheus-site")} == {"", "CPUs"}
    page = (workspace.place / "results" / "report.html").read_text()
    assert "node07 mem_free" in page and "Monitoring services (KB)" in page


def test_what_a_service_lacks_is_said_before_the_run(
    workspace: Workspace, addresses: Addresses, memory: Path
) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    text = study(
        {**addresses, "gmond": nobody, "exporter": f"{addresses['server']}/x/metrics"}, memory
    )
    ended = workspace.measure(workspace.study(text.replace("node_load1", "node_laod1", 1)))
    said = " ".join((ended.stdout + ended.stderr).split())
    assert ended.returncode == 3, said
    assert f"gmond at {nobody} gives no answer: Connection refused" in said
    assert "/x/metrics answers 404" in said
    assert not (workspace.place / "results").exists()


def test_wrong_fields_are_refused(workspace: Workspace, addresses: Addresses, memory: Path) -> None:
    text = (
        study(addresses, memory)
        .replace("[probe.farm]", '[probe."a/b"]')
        .replace("busy =", "busi =", 1)
    )
    ended = workspace.measure(workspace.study(text))
    said = " ".join((ended.stdout + ended.stderr).split())
    assert ended.returncode == 2 and "not a name" in said and "no such metric: busy" in said


@pytest.mark.parametrize("kind", sorted(service_kinds()))
def test_every_service_keeps_the_contract(kind: str, addresses: Addresses, tmp_path: Path) -> None:
    """Two trials in a row, values in each, and no open file or thread left behind."""
    from headrace.probes import Watch

    load = {"load": "node_load1"}
    each = {
        "ganglia": lambda: [GangliaOptions(address=addresses["gmond"], interval=0.5)],
        "prometheus": lambda: [
            PrometheusProbeOptions(address=addresses[place], metrics=load, interval=0.5)
            for place in ("server", "exporter")
        ],
    }
    for options in each[kind]():
        probe = service_kinds()[kind](options)  # pyright: ignore[reportCallIssue]
        assert probe.check() == []
        handles, threads = len(list(Path("/proc/self/fd").iterdir())), threading.active_count()
        for _ in range(2):
            probe.start(Watch((), (), None, tmp_path))
            time.sleep(2.5)
            if kind == "ganglia":  # gmond reports when it likes
                assert wait_until(lambda probe=probe: probe.samples != [], 60, 0.1)
            sampled = probe.sample()
            totals = probe.finish()
            assert sampled and totals.invalid == []
            for row in sampled:
                assert list(row) == ["time_s", "host", "metric", "value", "unit"]
            json.dumps(totals.values)
        assert len(list(Path("/proc/self/fd").iterdir())) == handles
        assert threading.active_count() == threads


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b'<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>', "it declares entities"),
        (b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><x>&a;</x>', "declares entities"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "not the XML of gmond"),
        (b"<GANGLIA_XML></GANGLIA_XML>", "no cluster"),
        (b"<GANGLIA_XML><CLUSTER LOCALTIME='soon'/></GANGLIA_XML>", "not the XML of gmond"),
        (b"", "not the XML of gmond"),
        (b" " * 2000, "sends more than 1000 B"),
    ],
)
def test_a_bad_answer_of_gmond_is_one_error(
    answer: bytes, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.probes.ganglia.MOST_BYTES", 1000)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        options = GangliaOptions(address=f"127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(HeadraceError, match=why):
            list(GangliaProbe(options).ask())
        thread.join()


def test_errors_of_a_query_are_those_of_prometheus(addresses: Addresses) -> None:
    options = PrometheusProbeOptions(address=addresses["server"], metrics={"x": "sum("})
    (problem,) = PrometheusProbe(options).check()
    assert "parse error" in problem.what


def test_the_offset_of_a_clock_is_within_the_bounds_of_all_answers() -> None:
    clock = ClockOffset()
    for wall_s in (0.0, 10.3, 20.7, 30.95):  # a server 5.25 s ahead that states whole seconds
        clock.add(wall_s, wall_s + 0.01, float(int(wall_s + 5.25)), 1.0)
    assert abs(clock.offset_s - 5.25) <= clock.uncertainty_s < 0.4
    clock.add(40.0, 40.01, 100.0, 1.0)
    assert abs(clock.offset_s - 60.5) < 0.01, "after a jump only the newest answer counts"
