"""History, recorded jobs and traces in `headrace serve`, in a real browser: each page, control."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chromium import Chromium
from headrace.cli.watch import watch
from headrace.profiles.importing import read
from headrace.profiles.outlined import amount, label
from headrace.profiles.steps import load, profile_table, save
from headrace.verdict.recorded import verdict_of_profile
from served_pages import DESK, PHONE, Served, serving, violations
from synthetic_records import ENVIRONMENT, Truth, plan_of, write_results

GOLDEN = Path(__file__).parents[1] / "golden"
DRAWN = "document.querySelectorAll('.bk-Figure').length > 2"
CELLS = [{"target": "disk", "workload": "higgs", "slots": slots} for slots in (1, 4)]


def make_folder(root: Path) -> Path:
    plan = plan_of(CELLS, 4)
    months = [
        Truth(trial_sigma=0.01),
        Truth(trial_sigma=0.01),
        Truth(trial_sigma=0.01, device_bytes_per_s=80e6, cpu_s=5.0,
              environment={**ENVIRONMENT, "kernel": "6.12.0 <b>"}),
    ]  # fmt: skip
    for number, truth in enumerate(months, 1):
        write_results(
            root / f"month{number}", plan, truth, seed=number, title="Farm <i>", series=False,
            created_utc=f"2026-0{number}-01T00:00:00+00:00",
        )  # fmt: skip
    write_results(root / "alone", plan, Truth(), title="Once", series=False)
    for number in (1, 2):
        write_results(root / f"less{number}", plan, Truth(), title="Less", series=False)
    (root / "jobs").mkdir()
    save(read(GOLDEN / "imports" / "strace-y.txt", "tau", None), root / "jobs" / "tau <b>.toml")
    outline(root / "jobs" / "watched.toml", root / "data")
    for file in GOLDEN.glob("traces/random.blktrace.*"):
        shutil.copy(file, root / "jobs")
    return root


def outline(profile: Path, data: Path) -> None:
    """Watch a job that reads a file again and again, and write its profile in outline."""
    data.write_bytes(bytes(1 << 20))
    job = "import sys, time\nwhile True: open(sys.argv[1], 'rb').read(); time.sleep(0.01)"
    with subprocess.Popen([sys.executable, "-c", job, str(data)]) as running:
        try:
            watch(pid=[str(running.pid)], once=True, interval="0.5 s", profile=profile)
        finally:
            running.kill()


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with Chromium() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, browser: Chromium) -> Iterator[Served]:
    with serving(make_folder(tmp_path_factory.mktemp("served"))) as server:
        browser.open(server.link, DESK)
        yield server


def choose(tab: Chromium, **values: str) -> None:
    """Choose in the form, and press its button by keyboard."""
    for name, value in values.items():
        tab.evaluate(f"document.getElementById('{name}').value = {value!r}; 0")
    tab.evaluate("document.querySelector('form.ask button').focus()")
    tab.events.clear()
    tab.press("Enter")
    tab.loaded()


def marks(tab: Chromium) -> tuple[int, int, int]:
    """Changes, worse and better points that are drawn."""
    return tuple(
        tab.evaluate(f"document.querySelectorAll('.curves path.{name}').length")
        for name in ("change", "worse", "better")
    )  # pyright: ignore[reportReturnType]


def test_runs_and_changes(served: Served, browser: Chromium) -> None:
    browser.open(f"{served.origin}/", DESK)
    browser.events.clear()
    browser.evaluate("document.querySelector('nav.app a[href=\"/history\"]').click()")
    browser.loaded()
    rows = browser.evaluate(
        "[...document.querySelectorAll('table tbody')[0].rows].map((row) => row.innerText)"
    )
    assert len(rows) == 3 and "2026-01-01" in rows[0]
    assert "nothing that is recorded" in rows[1] and "2 unchanged" in rows[1]
    assert "kernel: 6.1.0-18-amd64 → 6.12.0 <b>" in rows[2] and "2 worse" in rows[2]
    assert marks(browser) == (2, 2, 0), "one change in each of two figures"
    assert "Once" not in browser.evaluate("document.getElementById('study').innerText")
    link = browser.evaluate("[...document.querySelectorAll('td a')].pop().getAttribute('href')")
    assert link == "/compare?a=month2&b=month3" and served.get(link).status_code == 200


JOB = "/profiles/jobs/tau%20%3Cb%3E.toml"
OUTLINED = "/profiles/jobs/watched.toml"


@pytest.mark.parametrize("width", [DESK, PHONE])
@pytest.mark.parametrize(
    "path",
    ["/history", "/captured", JOB, f"{JOB}/verdict", OUTLINED, "/traces/jobs/random"],
)
def test_a_page_fits_and_is_accessible(
    served: Served, browser: Chromium, path: str, width: int
) -> None:
    browser.open(f"{served.origin}{path}", width)
    if "traces" in path:
        browser.wait_for(DRAWN)
    browser.evaluate("for (const each of document.querySelectorAll('details')) each.open = true; 0")
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(browser) == [] and browser.errors() == []
    assert all(url.startswith(served.origin) for url in browser.requests())


def test_each_control(served: Served, browser: Chromium) -> None:
    browser.open(f"{served.origin}/history", DESK)
    choose(browser, metric="efficiency")
    assert "efficiency" in browser.evaluate("document.querySelector('figcaption').innerText")
    assert marks(browser)[0] == 2
    choose(browser, metric="", tolerance="20 %")
    assert browser.evaluate("document.getElementById('tolerance').value") == "20 %"
    assert marks(browser)[0] == 2
    choose(browser, study="Less, real")
    assert marks(browser) == (0, 0, 0)
    for wrong in ("study=None", "metric=none", "tolerance=7"):
        answer = served.get(f"/history?{wrong}")
        assert answer.status_code == 404 and "Traceback" not in answer.text, wrong


def test_from_the_list_to_a_job_its_verdict_and_what_if(served: Served, browser: Chromium) -> None:
    browser.open(f"{served.origin}/captured", DESK)
    follow(browser, "main li a")
    text = browser.evaluate("document.body.innerText")
    recording = load(str(Path(served.process.args[2]) / "jobs" / "tau <b>.toml"))  # pyright: ignore
    for sentence in verdict_of_profile(recording).sentences:
        assert " ".join(sentence.split()) in " ".join(text.split())
    assert browser.evaluate("document.querySelector('img.picture').naturalWidth") > 1000
    what_if = browser.evaluate("document.querySelector('main a').getAttribute('href')")
    follow(browser, "a[href$=verdict]")
    assert browser.evaluate("document.querySelector('h1').innerText") == "Why is it slow?"
    page = served.get(what_if).text
    assert '<option value="file/jobs/tau &lt;b&gt;.toml" selected>' in page


def test_a_job_in_outline_and_what_if(served: Served, browser: Chromium) -> None:
    browser.open(f"{served.origin}/captured", DESK)
    follow(browser, f"main li a[href='{OUTLINED}']")
    text = browser.evaluate("document.body.innerText")
    table = profile_table(str(Path(served.process.args[2]) / "jobs" / "watched.toml"))[0]  # pyright: ignore
    assert table.outline is not None and "cpu_s" in table.outline.figures
    for name, figure in table.outline.figures.items():
        assert f"{label(name)}\t{amount(name, figure.value)}" in text, name
    for sentence in table.outline.unknown:
        assert sentence in text
    follow(browser, "main a[href^='/what-if']")
    assert browser.evaluate("document.getElementById('job').value") == "file/jobs/watched.toml"
    browser.events.clear()
    browser.evaluate("document.querySelector('form button').click()")
    browser.loaded()
    browser.wait_for("document.documentElement.dataset.ended === '1'")
    assert browser.evaluate("document.querySelectorAll('#answer tbody tr').length") == 5
    assert browser.errors() == []
    answer = served.get(f"{OUTLINED}/verdict")
    assert answer.status_code in (404, 409) and "Traceback" not in answer.text


def test_two_runs_of_one_title_are_told_apart(served: Served) -> None:
    text = served.get("/compare?a=month1&b=month3").text
    assert "Farm &lt;i&gt; (month1, 2026-01-01)" in text
    assert "Farm &lt;i&gt; (month3, 2026-03-01)" in text
    assert "</strong> Once<br>" in served.get("/compare?a=alone&b=month3").text


def test_a_trace_is_drawn(served: Served, browser: Chromium) -> None:
    browser.open(f"{served.origin}/captured", DESK)
    follow(browser, "main a[href^='/traces/']")
    browser.wait_for(DRAWN)
    assert "random" in browser.evaluate("document.querySelector('tbody').innerText")
    assert browser.errors() == []


def test_what_is_not_there_is_said(served: Served, browser: Chromium) -> None:
    for path in ("/profiles/none.toml", "/profiles/../../etc/passwd", "/traces/none", "/traces/"):
        answer = served.get(path)
        assert answer.status_code in (404, 409) and "Traceback" not in answer.text, path


def follow(tab: Chromium, link: str) -> None:
    tab.events.clear()
    tab.evaluate(f"document.querySelector({link!r}).click()")
    tab.loaded()
