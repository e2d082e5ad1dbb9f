"""Monitoring: metrics of a run, where they go, and the lines of nodes in the terminal."""

from __future__ import annotations

import base64
import http.server
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from headrace.cli._progress import node_lines
from headrace.engine.live import NodeLive, PowerLive, TrialLive
from headrace.errors import RefusedError, UsageError
from headrace.library import Silent
from headrace.monitoring import MonitoringOptions, monitored
from headrace.monitoring.metrics import StudyMetrics
from headrace.monitoring.outlets import check_file, check_push, on_loopback, served
from headrace.plan.trial import Trial
from headrace.system.accounting import process_use

Values = dict[tuple[str, frozenset[tuple[str, str]]], float]


def some_trial(index: int = 0) -> Trial:
    levels: dict[str, object] = {"target": "disk", "workload": "scan", "slots": 4}
    return Trial(index, "disk", "scan", levels, repeat=0, seed=1, whole_plot=0)


def two_nodes(elapsed_s: float, done: int, read_bytes: int, *, lost: bool = False) -> TrialLive:
    power = (PowerLive("plug", "power", "node", ("node-1",), 42.5),)
    return TrialLive(
        elapsed_s,
        (
            NodeLive("node-1", 4, 4, 3, done, 0, 0, read_bytes, 10, 3.0, 4.0),
            NodeLive("node-2", 4, 0, 0, 0, 1, lost=lost),
        ),
        power,
        events=100 * done,
    )


def scraped(url: str) -> Values:
    answer = httpx.get(url, headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def of(values: Values, name: str, **labels: str) -> float:
    return values[name, frozenset(labels.items())]


def url_of(told: list[str]) -> str:
    return next(word for word in told[0].split() if word.startswith("http"))


def test_metrics_of_a_run_are_served_as_openmetrics() -> None:
    told: list[str] = []
    options = MonitoringOptions(openmetrics="0")
    with monitored(Silent(), "My study", options, told.append) as observer:
        observer.started(3, 1)
        observer.trial_started(some_trial(), 8)
        observer.live(two_nodes(1.0, 2, 1_000_000))
        observer.live(two_nodes(3.0, 5, 5_000_000, lost=True))
        found = scraped(url_of(told))
        trial = {"number": "1", "target": "disk", "workload": "scan", "levels": "slots=4"}
        assert of(found, "headrace_trial_info", **trial, repeat="1") == 1
        assert of(found, "headrace_run_active") == 1
        assert of(found, "headrace_trials") == 3 and of(found, "headrace_trials_recorded") == 1
        assert of(found, "headrace_study_info", study="My study") == 1
        assert of(found, "headrace_slots", node="node-2") == 4
        assert of(found, "headrace_slots_busy", node="node-1") == 3
        assert of(found, "headrace_jobs_running", node="node-1") == 4
        assert of(found, "headrace_jobs_completed_total", node="node-1") == 5
        assert of(found, "headrace_jobs_failed_total", node="node-2") == 1
        assert of(found, "headrace_jobs_read_bytes_total", node="node-1") == 5_000_000
        assert of(found, "headrace_read_bytes_per_second", node="node-1") == 2_000_000
        assert of(found, "headrace_job_efficiency_ratio", node="node-1") == 0.75
        assert ("headrace_job_efficiency_ratio", frozenset({("node", "node-2")})) not in found
        assert of(found, "headrace_node_up", node="node-1") == 1
        assert of(found, "headrace_node_up", node="node-2") == 0
        labels = {"meter": "plug", "channel": "power", "boundary": "node", "node": "node-1"}
        assert of(found, "headrace_power_watts", **labels) == 42.5
    with pytest.raises(httpx.HTTPError):
        httpx.get(url_of(told))


def test_counters_go_on_over_trials_and_gauges_do_not(tmp_path: Path) -> None:
    told: list[str] = []
    with monitored(Silent(), "two", MonitoringOptions(openmetrics="0"), told.append) as observer:
        for index in range(2):
            observer.trial_started(some_trial(index), 8)
            observer.live(two_nodes(2.0, 5, 1_000))
            observer.trial_finished(some_trial(index), "done", [], "")
        found = scraped(url_of(told))
        assert of(found, "headrace_jobs_completed_total", node="node-1") == 10
        assert of(found, "headrace_jobs_read_bytes_total", node="node-1") == 2_000
        assert of(found, "headrace_events_processed_total") == 1_000
        assert of(found, "headrace_trials_finished_total", status="done") == 2
        assert not [key for key in found if key[0] == "headrace_slots_busy"], "no trial runs"


def test_an_error_of_monitoring_is_told_once_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(self: StudyMetrics, trial: TrialLive) -> None:
        raise RuntimeError("odd state")

    monkeypatch.setattr(StudyMetrics, "live", fail)
    told: list[str] = []
    with monitored(Silent(), "x", MonitoringOptions(openmetrics="0"), told.append) as observer:
        observer.live(two_nodes(1.0, 1, 1))
        observer.live(two_nodes(2.0, 1, 1))
    assert [line for line in told if "odd state" in line] == told[1:] and len(told) == 2


def test_an_address_that_is_taken_is_refused_before_the_run() -> None:
    told: list[str] = []
    with served(StudyMetrics("x"), "127.0.0.1:0", told.append):
        port = url_of(told).partition("127.0.0.1:")[2].partition("/")[0]
        with (
            pytest.raises(UsageError, match="cannot listen there: Address already in use"),
            served(StudyMetrics("x"), port, told.append),
        ):
            pass
    for wrong in ("host", "127.0.0.1:http", "70000", ""):
        with pytest.raises(UsageError, match="not HOST:PORT"), served(StudyMetrics("x"), wrong, id):
            pass


def test_an_address_beyond_this_machine_is_told_so() -> None:
    told: list[str] = []
    with served(StudyMetrics("x"), "0.0.0.0:0", told.append):
        assert "readable without a password from other machines" in told[0]
    assert on_loopback("127.3.0.1") and on_loopback("::1") and not on_loopback("10.0.0.1")


def test_the_file_is_whole_and_last_says_that_the_run_has_ended(tmp_path: Path) -> None:
    file = tmp_path / "my metrics.prom"
    options = MonitoringOptions(openmetrics_file=file)
    with monitored(Silent(), "filed", options, print) as observer:
        observer.started(2, 0)
    text = file.read_text()
    assert "headrace_run_active 0.0\n" in text and "headrace_trials 2.0\n" in text
    assert [each.name for each in tmp_path.iterdir()] == ["my metrics.prom"]
    with pytest.raises(UsageError, match=r"must end in \.prom"):
        check_file(tmp_path / "metrics.txt")
    with pytest.raises(UsageError, match="not a folder that can be written to"):
        check_file(tmp_path / "missing" / "metrics.prom")


def test_metrics_of_others_are_not_replaced(tmp_path: Path) -> None:
    """Any .prom file was replaced; a symbolic link was, too, instead of what it led to."""
    theirs, link, pipe = (tmp_path / name for name in ("node.prom", "link.prom", "pipe.prom"))
    theirs.write_text("# HELP node_load1 1m load average.\nnode_load1 0.5\n")
    link.symlink_to(theirs)
    os.mkfifo(pipe)
    for file, error in ((theirs, RefusedError), (link, RefusedError), (pipe, UsageError)):
        options = MonitoringOptions(openmetrics_file=file)
        with pytest.raises(error), monitored(Silent(), "x", options, print):
            pass
    with pytest.raises(UsageError, match="is a folder"):
        (tmp_path / "folder.prom").mkdir()
        check_file(tmp_path / "folder.prom")
    assert theirs.read_text().endswith("node_load1 0.5\n") and pipe.is_fifo()

    theirs.write_text("")
    for study in ("first", "second"):  # an empty file, and one of Headrace, are replaced
        with monitored(Silent(), study, MonitoringOptions(openmetrics_file=link), print):
            pass
        assert study in theirs.read_text() and link.is_symlink()


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://10.1.2.3:9091", "only https"),
        ("https://me:secret@push.example.org", "user or password in it"),
        ("push.example.org:9091", "not a URL"),
        ("http://127.0.0.1:port", "port"),
    ],
)
def test_a_push_gateway_that_is_not_safe_is_refused(url: str, why: str) -> None:
    with pytest.raises(UsageError, match=why) as refused:
        check_push(url)
    assert "secret" not in refused.value.message


class Gateway(http.server.BaseHTTPRequestHandler):
    """Keeps what was pushed."""

    pushed: list[tuple[str, str | None, bytes]]

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.pushed.append((self.path, self.headers["Authorization"], body))
        self.send_response(202)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def gateway() -> Iterator[tuple[str, list[tuple[str, str | None, bytes]]]]:
    handler = type("Handler", (Gateway,), {"pushed": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", handler.pushed  # pyright: ignore
        server.shutdown()
        thread.join()


def test_metrics_are_pushed_with_the_password_of_the_environment(
    gateway: tuple[str, list[tuple[str, str | None, bytes]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, pushed = gateway
    monkeypatch.setenv("HEADRACE_PUSH_USER", "me")
    monkeypatch.setenv("HEADRACE_PUSH_PASSWORD", "secret")
    told: list[str] = []
    with monitored(Silent(), "a/b", MonitoringOptions(push_gateway=url), told.append) as observer:
        observer.started(2, 0)
    path, login, body = pushed[-1]
    assert path == f"/metrics/job/headrace/instance/{socket.gethostname()}/study@base64/YS9i"
    assert login == "Basic " + base64.b64encode(b"me:secret").decode()
    assert b"headrace_run_active 0.0" in body and told == []


def test_a_gateway_that_does_not_answer_is_told_once() -> None:
    told: list[str] = []
    with monitored(
        Silent(), "x", MonitoringOptions(push_gateway="http://127.0.0.1:9"), told.append
    ):
        pass
    assert len(told) == 1 and "Connection refused" in told[0] and "the run continues" in told[0]


BUSY = """
import pathlib, sys
file = pathlib.Path(sys.argv[1])
file.write_bytes(bytes(30_000_000))
file.read_bytes()
sum(range(5_000_000))
print("ready", flush=True)
sys.stdin.read()
"""


def test_the_use_of_a_process_is_what_the_kernel_counts(tmp_path: Path) -> None:
    command = [sys.executable, "-c", BUSY, str(tmp_path / "data")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        use = process_use(process.pid)
        assert use is not None and use.cpu_s > 0
        assert use.read_bytes >= 30_000_000 and use.written_bytes >= 30_000_000
        process.communicate()
    assert process_use(process.pid) is None


def test_lines_of_nodes_fit_and_begin_with_what_is_lost() -> None:
    before = two_nodes(1.0, 1, 1_000_000)
    lines = [line.plain for line in node_lines(before, two_nodes(3.0, 2, 401_000_000, lost=True))]
    assert lines == [
        "  node-2                  0 running      0 done 1 failed  lost",
        "  node-1                  4 running      2 done      200 MB/s",
    ]
    long = tuple(NodeLive(f"a-very-long-name-of-a-node-{n}", 8, 8, 8, 10**6) for n in range(100))
    shown = node_lines(None, TrialLive(5.0, long))
    assert len(shown) == 17 and max(len(line.plain) for line in shown) <= 80
    assert shown[-1].plain == "  84 more nodes: 672 running, 84000000 done"
