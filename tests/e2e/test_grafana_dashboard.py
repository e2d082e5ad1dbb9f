"""The Grafana dashboard: loaded by Grafana's own library, its queries answered by Prometheus.

A real Prometheus scrapes a real run with a power meter. Grafana itself is not in Debian 12; its
library for dashboards (grafana-foundation-sdk) reads the file with the types of Grafana's schema.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from grafana_foundation_sdk.models.dashboard import Dashboard, Panel, RowPanel

from headrace.system.waiting import wait_until
from ports import free_port
from workspace import ROOT, Workspace

DASHBOARD = ROOT / "examples" / "grafana" / "headrace.json"
STUDY = """
headrace = 1
[target.here]
kind = "path"
path = "some data"
create = true
[workload.scan]
kind = "scan"
data = {{ files = 2, events = 100_000 }}
[meter.wall]
kind = "prometheus"
address = "http://127.0.0.1:{port}"
query = "vector(42)"
unit = "W"
scrape_interval = "1 s"
[run]
slots = 2
duration = "120 s"
foreign_load = "warning"
[plan]
repeats = {{ min = 1 }}
"""


def queries() -> dict[str, list[str]]:
    """Each panel's PromQL expressions, with variables as Grafana fills them in."""
    values = {"$job": ".*", "$node": ".*", "$__rate_interval": "10s"}
    found: dict[str, list[str]] = {}
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel["targets"]:
            expression: str = target["expr"]
            for name, value in values.items():
                expression = expression.replace(name, value)
            assert "$" not in expression
            found.setdefault(panel["title"], []).append(expression)
    return found


def test_the_dashboard_is_one_of_grafanas_schema() -> None:
    written = json.loads(DASHBOARD.read_text())
    dashboard = Dashboard.from_json(written)
    assert dashboard.title == "Headrace" and dashboard.templating.list_val
    panels = dashboard.panels or []
    assert len(panels) == len(written["panels"]) == 10
    assert not any(isinstance(panel, RowPanel) for panel in panels)
    places: set[tuple[int, int]] = set()
    for panel in panels:
        assert isinstance(panel, Panel) and panel.grid_pos is not None and panel.targets
        place = panel.grid_pos
        cells = {
            (x, y)
            for x in range(place.x, place.x + place.w)
            for y in range(place.y, place.y + place.h)
        }
        assert not cells & places and place.x + place.w <= 24
        places |= cells


@pytest.mark.heavy
def test_every_panel_has_data_of_a_real_run(workspace: Workspace, tmp_path: Path) -> None:
    port, endpoint = free_port(), free_port()
    config = tmp_path / "prometheus.yml"
    config.write_text(
        "scrape_configs:\n- job_name: headrace\n  scrape_interval: 1s\n  static_configs:\n"
        f"  - targets: ['127.0.0.1:{endpoint}']\n"
    )
    arguments = [
        *("prometheus", f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'tsdb'}"),
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    server = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    run = None
    try:
        url = f"http://127.0.0.1:{port}"
        assert wait_until(lambda: answers(f"{url}/-/ready"), 60, 0.2), "Prometheus does not start"
        study = workspace.study(STUDY.format(port=port))
        run = workspace.start("run", study, "--openmetrics", endpoint, "--results", "results")
        said: list[str] = []
        reading = threading.Thread(target=lambda: said.extend(run.communicate()))
        reading.start()
        empty = queries()
        until_s = time.monotonic() + 100
        while empty and run.poll() is None and time.monotonic() < until_s:
            time.sleep(1)
            empty = {
                title: left
                for title, each in empty.items()
                if (left := [query for query in each if not answer_of(url, query)])
            }
        assert not empty, f"panels without data: {empty}; {said}"
        (watts,) = answer_of(url, "headrace_power_watts")
        assert float(watts["value"][1]) == 42 and watts["metric"]["meter"] == "wall"
    finally:
        for process in (run, server):
            if process is not None:
                process.terminate()
                process.wait(60)


def answers(url: str) -> bool:
    try:
        return httpx.get(url).is_success
    except httpx.HTTPError:
        return False


def answer_of(url: str, query: str) -> list[dict[str, Any]]:
    answer = httpx.get(f"{url}/api/v1/query", params={"query": query}).json()
    assert answer["status"] == "success", answer
    return answer["data"]["result"]
