"""A study started, watched and stopped or finished in the browser, by `headrace serve`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chromium import Chromium
from served_pages import DESK, PHONE, serving, violations

WAITS = '''
headrace = 1
title = "waits"
[target.disk]
kind = "path"
path = "storage"
create = true
[workload.waits]
kind = "command"
command = ["sh", "-c", """
until [ -e {go}.all ] || mv {go} {go}.taken 2>/dev/null; do sleep 0.05; done"""]
[plan]
repeats = {{ min = 2 }}
[run]
shortest = 0
foreign_load = "warning"
'''
STATE = "document.getElementById('live-state').innerText"
SHOWN = "document.getElementById('run').innerText"


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with Chromium() as chromium:
        yield chromium


def start(browser: Chromium, origin: str, study: str, command: str = "run") -> None:
    browser.open(f"{origin}/studies", DESK)
    browser.evaluate(
        f"document.getElementById('study').value = '{study}';"
        f"document.getElementById('command').value = '{command}';"
        "document.querySelector('main form button').focus()"
    )
    browser.events.clear()
    browser.press("Enter")
    browser.loaded()


def test_a_study_is_started_watched_and_finished(tmp_path: Path, browser: Chromium) -> None:
    go = tmp_path / "go"
    (tmp_path / "waits.toml").write_text(WAITS.format(go=go))
    with serving(tmp_path) as server:
        browser.open(server.link, DESK)
        browser.open(f"{server.origin}/studies", DESK)
        assert violations(browser) == []
        start(browser, server.origin, "waits.toml")
        browser.wait_for(f"{SHOWN}.includes('0 of 2 planned')", 60)
        assert violations(browser) == []
        address = browser.evaluate("location.href")
        browser.open(f"{server.origin}/", DESK)
        assert "running" in browser.evaluate("document.getElementById('folders').innerText")
        browser.open(address, PHONE)
        assert browser.evaluate("document.documentElement.scrollWidth") <= PHONE
        go.touch()  # one trial ends
        browser.wait_for(f"{SHOWN}.includes('1 of 2 planned')", 60)
        browser.wait_for(f"{SHOWN}.includes('trials per hour; about')")
        progress = browser.evaluate("document.querySelector('#run a').getAttribute('href')")
        shown = server.get(progress).text
        assert "trials per hour; about" in shown and "if the last one takes" in shown
        go.touch()
        browser.wait_for(f"{STATE}.startsWith('Finished')", 60)
        assert "per hour" not in server.get(progress).text
        assert "2 of 2 planned" in browser.evaluate(SHOWN)
        assert browser.errors() == []
        assert "finished" in server.get("/").text


def test_a_run_is_stopped_and_another_outlives_the_server(
    tmp_path: Path, browser: Chromium
) -> None:
    go = tmp_path / "go"
    (tmp_path / "waits.toml").write_text(WAITS.format(go=go))
    with serving(tmp_path) as server:
        browser.open(server.link, DESK)
        start(browser, server.origin, "waits.toml")
        browser.wait_for(f"{SHOWN}.includes('0 of 2 planned')", 60)
        browser.events.clear()
        browser.evaluate("document.querySelector('form[action$=stop] button').click()")
        browser.loaded()
        browser.wait_for(f"{STATE}.startsWith('Stopped')", 60)
        start(browser, server.origin, "waits.toml")
        browser.wait_for(f"{SHOWN}.includes('0 of 2 planned')", 60)
        code, said = server.end()
        assert code == 0, said
    with serving(tmp_path) as server:
        browser.open(server.link, DESK)
        browser.open(f"{server.origin}/", DESK)
        rows = "document.getElementById('folders').innerText"
        assert "running" in browser.evaluate(rows) and "not finished" in browser.evaluate(rows)
        Path(f"{go}.all").touch()
        browser.wait_for(f"!{rows}.includes('running')", 60)


def test_a_stopped_run_is_resumed_from_its_page(tmp_path: Path, browser: Chromium) -> None:
    go = tmp_path / "go"
    (tmp_path / "two  words.toml").write_text(WAITS.format(go=go))
    with serving(tmp_path) as server:
        browser.open(server.link, DESK)
        start(browser, server.origin, "two  words.toml")
        go.touch()  # one trial ends
        browser.wait_for(f"{SHOWN}.includes('1 of 2 planned')", 60)
        assert "Resume this run" not in browser.evaluate(SHOWN)
        # It is stopped elsewhere while the keyboard is at the button: Enter must not resume it.
        browser.evaluate("document.getElementById('stop-run').focus()")
        token = server.get("/studies").text.partition('name="form_token" value="')[2][:64]
        address = browser.evaluate("location.href")
        server.client.post(f"{address}/stop", data={"form_token": token})
        browser.wait_for(f"{STATE}.startsWith('Stopped')", 60)
        at = "document.activeElement.closest('form')?.getAttribute('action') ?? ''"
        assert "resume" not in browser.evaluate(at)
        (folder,) = (each.parent for each in tmp_path.glob("*/results.json"))
        assert f"headrace resume '{folder}'" in browser.evaluate(SHOWN)
        assert violations(browser) == []
        Path(f"{go}.all").touch()
        browser.events.clear()
        browser.evaluate("document.querySelector('form[action$=resume] button').focus()")
        browser.press("Enter")
        browser.loaded()
        browser.wait_for(f"{STATE}.startsWith('Finished')", 60)
        shown = browser.evaluate(SHOWN)
        assert "2 of 2 planned" in shown and "Resume this run" not in shown
        assert len(list((folder / "trials").iterdir())) == 2
        # A second click, in another window that still shows the stopped run, changes nothing.
        again = server.client.post(f"{address}/resume", data={"form_token": token})
        assert again.status_code == 303 and "Finished" in server.get(again.headers["location"]).text


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("two  spaces.toml", "headrace = 1"),
        (" leads.toml", "headrace=1"),
        ("quotes \"'<b>&.toml", "'headrace' = 1"),
    ],
)
def test_every_study_file_is_offered_by_its_whole_name(
    tmp_path: Path, browser: Chromium, name: str, first: str
) -> None:
    (tmp_path / name).write_text(WAITS.format(go="go").replace("headrace = 1", first))
    (tmp_path / "other.toml").write_text("[tool.headrace]\na = 1\n# headrace = 1\n")
    with serving(tmp_path) as server:
        browser.open(server.link, DESK)
        browser.open(f"{server.origin}/studies", DESK)
        assert browser.evaluate("[...document.getElementById('study').options].length") == 1
        browser.evaluate("document.querySelector('main form button').focus()")
        browser.events.clear()
        browser.press("Enter")
        browser.loaded()
        (log,) = tmp_path.glob("*.log")
        assert log.name.startswith(f"{Path(name).stem}-")
        browser.events.clear()
        browser.evaluate("document.querySelector('form[action$=stop] button').click()")
        browser.loaded()
        # It was asked to end while it started.
        browser.wait_for(f"{STATE} === 'Stopped'", 60)


def test_what_cannot_be_started(tmp_path: Path) -> None:
    (tmp_path / "wrong.toml").write_text("headrace = 1\n[target.x]\nkind = 'none'\n")
    (tmp_path / "other.toml").write_text("a = 1\n")
    with serving(tmp_path) as server:
        url = f"{server.origin}/studies/start"
        form = {"study": "wrong.toml", "command": "run"}
        assert server.client.post(url, data=form).status_code == 409
        assert {file.name for file in tmp_path.iterdir()} == {"other.toml", "wrong.toml"}
        page = server.get("/studies").text
        assert "wrong.toml" in page and "other.toml" not in page
        token = page.partition('name="form_token" value="')[2][:64]
        form = {**form, "form_token": token}
        for changed in (
            {"study": "other.toml"},
            {"study": "../outside.toml"},
            {"study": "/etc/passwd"},
            {"study": "--help"},
            {"command": "undo"},
        ):
            answer = server.client.post(url, data={**form, **changed})
            assert answer.status_code == 404, changed
        assert server.client.post(f"{server.origin}/runs/1/stop", data=form).status_code == 404
        started = server.client.post(url, data=form)
        assert started.status_code == 303
        address = f"{server.origin}{started.headers['location']}"
        with server.client.stream("GET", address.replace("/runs/", "/events/runs/")) as stream:
            last = [line for line in stream.iter_lines() if line.startswith("data: ")][-1]
        assert "Ended with exit code 2" in last and "wrong.toml" in last
