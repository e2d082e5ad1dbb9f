"""The what-if page of `headrace serve` in a real browser: asked, answered, narrow, saved, run."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from chromium import Chromium
from command_server import run_command
from headrace.analysis.read import read
from headrace.document import anchored_path
from headrace.library import load_study
from headrace.profiles.shared_files import shared_files_note
from headrace.serving.what_if_pages import measured_points
from headrace.serving.what_if_study import Question, question_of, study_of
from served_pages import DESK, PHONE, Served, serving, violations
from synthetic_records import Truth, plan_of, write_results

CELLS = [{"target": "disk", "workload": "search", "slots": slots} for slots in (1, 2, 4)]
STUDY = """
headrace = 1
[target.disk]
kind = "path"
path = "/data"
[workload.search]
kind = "analysis"
data = { events = 20_000, files = 4 }
[site.node]
machine = "dell-r210"
memory = "8 GiB"
[site.server.nas]
machine = "generic-server"
[site.calibration]
call = "1 us"
cpu = { search = 1.5 }
cpu_of = { search = { "data.format" = { rntuple = 0.5 } } }
busy_core_slowdown = { search = 0.1 }
"""
ENDED = "document.documentElement.dataset.ended === '1'"


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with Chromium() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("served")
    write_results(root / "one", plan_of(CELLS, 2), Truth(), title="One", study_text=STUDY)
    (root / "learnt.toml").write_text('[site.node]\nmachine = "dell-r710"\n')
    (root / "jobs").mkdir()
    job = "with open('/proc/self/exe', 'rb') as f: f.read(1 << 20)"
    recorded = run_command(
        ["record", "--out", str(root / "jobs" / "recorded.toml"), "--", sys.executable, "-c", job],
        root,
    )
    assert recorded.returncode == 0, recorded.stderr
    return root


@pytest.fixture(scope="module")
def served(folder: Path, browser: Chromium) -> Iterator[Served]:
    with serving(folder) as server:
        browser.open(server.link, DESK)
        yield server


def rows(tab: Chromium) -> list[list[str]]:
    return tab.evaluate(
        "[...document.querySelectorAll('#answer tbody tr')].map((row) =>"
        " [...row.children].map((cell) => cell.innerText))"
    )


def test_a_question_is_asked_by_keyboard_and_answered(served: Served, browser: Chromium) -> None:
    browser.open(f"{served.origin}/what-if", DESK)
    assert violations(browser) == []
    browser.evaluate("document.getElementById('most_slots').focus()")
    browser.press("Tab")
    assert browser.evaluate("document.activeElement.innerText") == "Simulate"
    browser.events.clear()
    browser.press("Enter")
    browser.loaded()
    browser.wait_for(ENDED)
    found = rows(browser)
    assert [row[0] for row in found] == ["1", "2", "4", "8", "16"]
    rates = [float(row[1].replace("\u202f", "")) for row in found]
    assert rates == sorted(rates) and rates[0] > 0
    assert all(row[2].endswith("%") and row[5] == "–" for row in found)
    assert browser.evaluate("document.querySelectorAll('#answer svg').length") == 4
    assert browser.evaluate("document.querySelectorAll('#answer polygon.band').length") == 4
    text = browser.evaluate("document.body.innerText")
    assert "± 15 %" in text and "1 × 139.99 USD" in text
    assert "5 points" in browser.evaluate("document.getElementById('live-state').innerText")
    assert violations(browser) == [] and browser.errors() == []
    browser.open(browser.evaluate("location.href"), PHONE)
    browser.wait_for(ENDED)
    assert browser.evaluate("document.documentElement.scrollWidth") <= PHONE
    assert violations(browser) == []


def test_measured_points_of_the_same_job_stand_beside(served: Served, browser: Chromium) -> None:
    browser.open(f"{served.origin}/what-if?job=study/search/one&ask=1&most_slots=4", DESK)
    browser.wait_for(ENDED)
    assert len(rows(browser)) == 3
    first = "document.querySelector('#answer figure').querySelectorAll('.measured').length"
    assert browser.evaluate(first) == 6, "three numbers of slots, two trials each"
    assert "measured: valid trials of One" in browser.evaluate("document.body.innerText")


def test_crosses_are_of_as_many_nodes_and_named_by_what_they_are(tmp_path: Path) -> None:
    cells = [{**cell, "nodes": nodes} for cell in CELLS for nodes in (1, 3)]
    truth = Truth(provenance="emulated")
    results = write_results(tmp_path / "r", plan_of(cells, 1), truth)
    found, how = measured_points(results, "search", 3, "cold")
    assert [slots for slots, *_ in found] == [1.0, 2.0, 4.0] and how == "emulated"
    one, _ = measured_points(results, "search", 1, "cold")
    assert [slots for slots, *_ in one] == [1.0, 2.0, 4.0] and one != found
    assert measured_points(results, "search", 2, "cold") == ([], "")


@pytest.mark.parametrize("cache", ["cold", "warm"])
def test_crosses_have_the_page_cache_of_the_question(
    tmp_path: Path, cache: str, browser: Chromium
) -> None:
    """A study measured both, warm twice as fast: each question has its own crosses."""
    for each, rate in (("cold", 100e6), ("warm", 200e6)):
        truth = Truth(cache=each, device_bytes_per_s=rate, cpu_s=0.1)
        write_results(tmp_path / each, plan_of(CELLS, 2), truth, title=each, study_text=STUDY)
    for trial in (tmp_path / "warm" / "trials").iterdir():
        trial.rename(tmp_path / "cold" / "trials" / f"9{trial.name[1:]}")
    both, _ = measured_points(tmp_path / "cold", "search", 1, cache)
    other, _ = measured_points(tmp_path / "cold", "search", 1, {"cold": "warm"}.get(cache, "cold"))
    assert len(both) == len(other) == 6
    rates = [sum(rate for _, rate, *_ in found if rate) for found in (both, other)]
    assert (rates[0] > 1.5 * rates[1]) == (cache == "warm")
    with serving(tmp_path) as server:
        browser.open(server.link, DESK)
        asked = f"job=study/search/cold&ask=1&most_slots=1&cache={cache}"
        browser.open(f"{server.origin}/what-if?{asked}", DESK)
        browser.wait_for(ENDED)
        assert f"with 1 node, {cache}" in browser.evaluate("document.body.innerText")


def test_the_most_slots_are_simulated_too() -> None:
    for most, slots in ((1, [1]), (4, [1, 2, 4]), (12, [1, 2, 4, 8, 12])):
        text = study_of(question_of({"most_slots": str(most)}), Path("/")).text
        assert tomllib.loads(text)["factors"]["slots"] == slots


@pytest.mark.parametrize("where", ["local", "nfs"])
def test_more_nodes_do_not_make_jobs_share_files(tmp_path: Path, where: str) -> None:
    """A disk of each node gives 16 jobs no more than of one node alone; a server's link is full."""
    rates: dict[int, float] = {}
    for nodes in (1, 10):
        asked = {"drive": "wd-wd3200bekt", "nodes": str(nodes), "where": where, "link": "1 GbE"}
        text = study_of(question_of({**asked, "most_slots": "16"}), tmp_path).text
        file = tmp_path / f"{where}-{nodes}.toml"
        file.write_text(text.replace("slots = [1, 2, 4, 8, 16]", "slots = [16]"))
        load_study(file).simulate(tmp_path / f"results-{nodes}")
        frame = read(tmp_path / f"results-{nodes}").trials
        (rates[nodes],) = [row["metrics"]["events_per_s"] for row in frame.to_dict("records")]
    assert rates[10] <= (10 if where == "local" else 1) * 1.25 * rates[1]


def note_of(question: Question, root: Path) -> str:
    study = study_of(question, root)
    return shared_files_note(study.text, study.base, question.nodes * question.most_slots)


def test_jobs_of_a_study_that_share_files_are_told(tmp_path: Path) -> None:
    results = tmp_path / "one"
    write_results(results, plan_of(CELLS, 1), Truth(), title="One", study_text=STUDY)
    for nodes, told in ((1, ""), (2, "This job's study has 4 files for up to 8 jobs at once")):
        question = question_of({"job": "study/search/one", "nodes": str(nodes), "most_slots": "4"})
        note = note_of(question, tmp_path)
        assert note.startswith(told) and bool(note) == bool(told)
    for job, told in (
        ("builtin/scan", ""),
        ("catalog/cms-nanoaod-ttree", ""),
        ("catalog/atlas-local-ordered", "This profile has 10 files for up to 320 jobs"),
        ("catalog/proof-bench-scan", "This profile has the same files for up to 320 jobs"),
    ):
        question = question_of({"job": job, "nodes": "20", "most_slots": "16"})
        note = note_of(question, tmp_path)
        assert note.startswith(told) and bool(note) == bool(told)


def test_the_band_of_the_price_is_that_of_the_rate(served: Served, browser: Chromium) -> None:
    """Of any figure, the band's ends over the points; of the price, those of 1 / rate."""
    browser.open(f"{served.origin}/what-if?ask=1&most_slots=2", DESK)
    browser.wait_for(ENDED)
    ends = browser.evaluate("""[...document.querySelectorAll("#answer figure")].map((figure) => {
      const numbers = (text) => text.trim().split(/[ ,]+/).map(Number);
      const band = numbers(figure.querySelector(".band").getAttribute("points"));
      const line = numbers(figure.querySelector(".line").getAttribute("points"));
      const rows = [...figure.querySelectorAll(".grid")].map((e) =>
        Number(e.getAttribute("d").match(/ ([0-9.]+)H/)[1]));
      const zero = Math.max(...rows);
      return [band[1], band.at(-1)].map((y) => (zero - y) / (zero - line[1]));
    })""")
    assert len(ends) == 4
    assert ends[0] == pytest.approx([1.15, 0.85], abs=0.01)
    assert ends[3] == pytest.approx([1 / 0.85, 1 / 1.15], abs=0.01)


@pytest.mark.parametrize(
    "asked",
    [
        "where=nfs&link=1 GbE&nodes=2&raid=5&drives=4&drive=sata-7200-500gb",
        "job=catalog/cms-tau-analysis-sample",
        "raid=10&drives=4&filesystem=xfs",
        "cache=warm&site=catalog/dell-r710",
        "job=study/search/one&site=study/one&cache=warm",
        "where=xrootd&servers=2&server=dell-r710&link=25 GbE",
        "where=cephfs&servers=4&nodes=2",
        "site=file/learnt.toml&where=glusterfs",
        "job=file/jobs/recorded.toml",
    ],
)
def test_other_storage_and_jobs(served: Served, browser: Chromium, asked: str) -> None:
    browser.open(f"{served.origin}/what-if?ask=1&most_slots=2&{asked.replace(' ', '%20')}", DESK)
    browser.wait_for(ENDED, 60)
    said = browser.evaluate("document.getElementById('answer').innerText")
    assert [row[5] for row in rows(browser)] == ["–", "–"], said
    text = browser.evaluate("document.querySelector('details pre').textContent")
    assert tomllib.loads(text)["run"]["cache"] == ("warm" if "cache=warm" in asked else "cold")


def test_every_control_has_its_place_in_the_study(served: Served) -> None:
    """Each control of the form changes the study that is simulated, and saved."""
    page = served.get("/what-if").text
    first = question_of({})
    asked = {
        "job": "builtin/scan", "site": "catalog/dell-r710", "drive": "sata-7200-500gb",
        "raid": "5", "drives": "6", "filesystem": "xfs", "where": "cephfs", "server": "dell-r210",
        "servers": "2", "link": "25 GbE", "cache": "warm", "nodes": "3", "most_slots": "8",
    }  # fmt: skip
    assert asked.keys() == first.fields().keys()
    base = {"where": "xrootd", "raid": "0"}
    for name, value in asked.items():
        assert f'name="{name}"' in page
        given = {**base, name: value, **({"raid": "5"} if name == "drives" else {})}
        without = {key: each for key, each in given.items() if key != name}
        texts = [study_of(question_of(each), Path("/")).text for each in (given, without)]
        assert texts[0] != texts[1], name


def test_the_site_of_results_keeps_its_nodes_and_what_was_learnt_of_the_job(folder: Path) -> None:
    asked = {"job": "study/search/one", "site": "study/one", "nodes": "3"}
    site = tomllib.loads(study_of(question_of(asked), folder).text)["site"]
    assert site["node"] == {"machine": "dell-r210", "memory": "8 GiB", "count": 3}
    assert site["calibration"] == {
        "call": "1 us",
        "cpu": {"job": 1.5},
        "cpu_of": {"job": {"data.format": {"rntuple": 0.5}}},
        "busy_core_slowdown": {"job": 0.1},
    }
    assert "server" not in site


def test_storage_that_is_not_possible_is_explained(served: Served, browser: Chromium) -> None:
    browser.open(f"{served.origin}/what-if?ask=1&raid=10&drives=3", DESK)
    browser.wait_for(ENDED)
    assert "raid" in browser.evaluate("document.getElementById('answer').innerText").lower()
    for wrong in (
        "drive=none-such",
        "nodes=0",
        "nodes=1001",
        "raid=x",
        "job=file/../../etc/passwd",
        "job=x",
        "site=x",
        "where=nfs&servers=2",
    ):
        answer = served.get(f"/what-if?ask=1&{wrong}")
        gone = wrong.startswith(("job=", "site="))
        assert answer.status_code == (404 if gone else 400), wrong
        assert "Traceback" not in answer.text, wrong


def test_a_question_is_saved_and_simulated(served: Served, browser: Chromium, folder: Path) -> None:
    browser.open(f"{served.origin}/what-if?ask=1&most_slots=2", DESK)
    browser.wait_for(ENDED)
    shown = rows(browser)
    browser.evaluate("document.getElementById('name').value = 'my-question'")
    browser.events.clear()
    browser.evaluate("document.querySelector('form[method=post] button').click()")
    browser.loaded()
    assert "Saved as" in browser.evaluate("document.body.innerText")
    file = folder / "my-question.toml"
    ended = run_command(["simulate", str(file), "--results", str(folder / "asked")], folder)
    assert ended.returncode == 0, ended.stderr
    page = served.get("/results/asked/").text
    assert len(shown) == 2 and "What if: Higgs search" in page


def test_a_saved_question_finds_the_files_of_its_study(tmp_path: Path) -> None:
    """A study elsewhere names its files relative to itself; the saved study lies in another folder
    and names the same ones."""
    home = tmp_path / "a $tudy"
    home.mkdir()
    study = STUDY.replace("events = 20_000, files = 4", 'files = ["data/*.root", "more.root"]')
    study = study.replace('machine = "dell-r210"', 'machine = "nodes/mine.toml"')
    root = tmp_path / "results"
    made = write_results(root / "one", plan_of(CELLS, 1), Truth(), title="One", study_text=study)
    header = json.loads((made / "results.json").read_text())
    (made / "results.json").write_text(json.dumps({**header, "base": str(home)}))
    asked = question_of({"job": "study/search/one", "site": "study/one"})
    saved = tomllib.loads(study_of(asked, root).text)
    found = [
        anchored_path(root, each).relative_to(home).as_posix()
        for each in (*saved["workload"]["job"]["data"]["files"], saved["site"]["node"]["machine"])
    ]
    assert found == ["data/*.root", "more.root", "nodes/mine.toml"]


def test_only_the_servers_own_form_saves(served: Served, folder: Path) -> None:
    before = sorted(folder.glob("*.toml"))
    url = f"{served.origin}/what-if/save"
    for form in ({}, {"form_token": "guess"}):
        answer = served.client.post(url, data={"name": "forged", **form})
        assert answer.status_code == 409 and "not of this server" in answer.text
    token = served.get("/what-if?ask=1").text.partition('name="form_token" value="')[2][:64]
    other = {"Origin": "https://evil.example"}
    answer = served.client.post(url, data={"name": "x", "form_token": token}, headers=other)
    assert answer.status_code == 409
    for name in ("../outside", "a/b", "", ".hidden"):
        answer = served.client.post(url, data={"name": name, "form_token": token})
        assert answer.status_code == 400, name
        assert "Wrong value" in answer.text
    assert sorted(folder.glob("*.toml")) == before
    assert not (folder.parent / "outside.toml").exists()
    assert served.client.post(url, data={"name": "twice", "form_token": token}).status_code == 200
    again = served.client.post(url, data={"name": "twice", "form_token": token})
    assert again.status_code == 409 and "exists" in again.text
