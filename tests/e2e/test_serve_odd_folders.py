"""`headrace serve` over folders as they are at sites: links, damage, lost files, runs that end."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.types import Message

from command_server import run_command
from headrace.serving.live import Live
from headrace.serving.results_pages import ResultsPages
from served_pages import Served, serving
from synthetic_records import Truth, plan_of, write_results

CELLS = [{"target": "disk", "workload": "higgs", "slots": slots} for slots in (1, 4)]
WAITS = """
headrace = 1
[target.disk]
kind = "path"
path = "storage"
create = true
[workload.waits]
kind = "command"
command = ["sleep", "1000"]
"""


def text_of(page: str) -> str:
    """What a page says, in one line."""
    without = re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", without)).split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("served")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    plan, study = plan_of(CELLS, 4), '[target.disk]\nkind = "path"\n'
    for number in (1, 2, 3, 4):
        write_results(
            root / f"month{number}", plan, Truth(trial_sigma=0.01), title="Farm", series=False,
            created_utc=f"2026-0{number}-01T00:00:00+00:00", study_text=study,
        )  # fmt: skip
    (root / "month3" / "study.toml").unlink()
    header = root / "month4" / "results.json"
    header.write_text(header.read_text().replace("2026-04-01T", "soon "))
    write_results(elsewhere / "private", plan, Truth(), title="Private", series=False)
    (root / "tape").symlink_to(elsewhere)
    (root / "again").symlink_to(root / "month1")
    (root / "round").symlink_to(root)
    shutil.copytree(root / "month1", root / "lost")
    shutil.rmtree(root / "lost" / "trials")
    shutil.copytree(root / "month1", root / "unplanned")
    (root / "unplanned" / "plan.parquet").unlink()
    write_results(root / "other", plan_of([{**CELLS[0], "slots": 3}], 2), Truth(), title="Other")
    (root / "waits.toml").write_text(WAITS)
    (elsewhere / "secret.toml").write_text(WAITS)
    (root / "link.toml").symlink_to(elsewhere / "secret.toml")
    return root


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    with serving(folder) as server:
        yield server


def test_links_are_not_followed_and_the_list_says_so(served: Served) -> None:
    said = text_of(served.get("/").text)
    assert "Private" not in said
    assert "Not searched, because they are symbolic links: again, round, tape." in said
    for name in ("tape/private", "round/../../elsewhere"):
        assert served.get(f"/results/{name}/").status_code == 404


def test_a_study_that_a_link_leads_to_outside_is_not_offered(served: Served) -> None:
    page = served.get("/studies").text
    assert '<option value="waits.toml">' in page and "link.toml" not in page


def test_progress_says_what_is_damaged_or_not_known(served: Served) -> None:
    lost = text_of(served.get("/progress/lost").text)
    assert "Damaged" in lost and "lost/trials: No such file or directory" in lost
    unplanned = text_of(served.get("/progress/unplanned").text)
    assert "8 trials recorded: 8 valid. The plan cannot be read" in unplanned


def test_progress_has_the_numbers_of_the_report(served: Served) -> None:
    said = served.get("/progress/month1").text
    (verdicts,) = {tuple(set(re.findall(r'data-label="Verdict">([^<]*)<', said)))}
    assert verdicts == ("valid",)
    rates = re.findall(r'data-label="Events/s">([^<]*)<', said)
    assert rates and all(re.fullmatch(r"\d{1,3}(\u202f\d{3})+", rate) for rate in rates), rates
    shares = re.findall(r'data-label="Job efficiency">([^<]*)<', said)
    assert shares and all(share.endswith("\u202f%") for share in shares), shares


def test_what_force_cannot_compare_is_not_offered_again(served: Served) -> None:
    page = served.get("/compare?a=month1&b=other")
    assert page.status_code == 409 and "no cell in common" in text_of(page.text)
    assert "Compare all the same" not in page.text


def test_a_history_survives_a_lost_study_and_a_lost_date(served: Served) -> None:
    page = served.get("/history?study=Farm, real").text
    said = text_of(page)
    assert "study.toml: readable → cannot be read" in said
    assert "study.target" not in said
    assert "1970" not in page


def test_a_file_that_goes_while_it_is_sent_is_sent_whole(tmp_path: Path) -> None:
    results = write_results(tmp_path / "one", plan_of(CELLS, 1), Truth())
    file = min((results / "trials").iterdir()) / "jobs.parquet"
    whole = file.read_bytes()
    sent: list[Message] = []
    given = {"name": "one", "trial": file.parent.name, "file": file.name}
    scope = {"type": "http", "method": "GET", "headers": [], "path_params": given}
    answer = ResultsPages(tmp_path, Live()).file(Request(scope))
    file.unlink()

    async def receive() -> Message:
        await asyncio.sleep(3600)
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(answer(scope, receive, send))
    assert sent[0]["status"] == 200
    assert b"".join(each.get("body", b"") for each in sent) == whole


def state_of(served: Served, address: str, until: str) -> str:
    """The page of a run once it says something."""
    deadline = time.monotonic() + 60
    while until not in (said := text_of(served.get(address).text)):
        assert time.monotonic() < deadline, f"never said: {until}: {said}"
        time.sleep(0.1)
    return said


@pytest.mark.parametrize(
    ("number", "state"), [(signal.SIGTERM, "Stopped"), (signal.SIGKILL, "Killed (SIGKILL)")]
)
def test_a_run_that_has_ended_cannot_be_stopped(
    tmp_path: Path, number: signal.Signals, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_JOURNAL_DIR", str(tmp_path / "journal"))
    (tmp_path / "waits.toml").write_text(WAITS)
    with serving(tmp_path) as server:
        token = re.search(r'form_token" value="([^"]+)', server.get("/studies").text)
        assert token is not None
        form = {"form_token": token[1], "study": "waits.toml", "command": "run"}
        started = server.client.post(f"{server.origin}/studies/start", data=form)
        address = started.headers["location"]
        assert "Stop this run" in state_of(server, address, "planned trials are recorded")
        (lock,) = tmp_path.glob("waits-*/.lock")
        os.kill(int(lock.read_text()), number)
        ended = state_of(server, address, state)
        assert "Stop this run" not in ended and "Resume this run" in ended
    # What a killed run could not restore itself.
    undone = run_command(["undo"], tmp_path)
    assert undone.returncode == 0, undone.stderr
    assert list((tmp_path / "journal").glob("*.jsonl")) == []
    assert not (tmp_path / "storage").exists()
