"""The page of `headrace serve` that shows what running jobs wait for, in a real browser."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chromium import Chromium
from served_pages import DESK, PHONE, serving, violations


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        yield process
        process.kill()


def test_a_job_is_watched_until_it_ends(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    with serving(tmp_path) as server, Chromium() as browser:
        browser.open(server.link, DESK)
        browser.open(f"{server.origin}/watch", DESK)
        assert violations(browser) == []
        browser.evaluate(
            "document.getElementById('kind').value = 'pid';"
            f"document.getElementById('names').value = '{sleeper.pid}';"
            "document.querySelector('main button').focus()"
        )
        browser.events.clear()
        browser.press("Enter")
        browser.loaded()
        row = "(document.querySelector('#watch tbody tr')?.innerText ?? '')"
        browser.wait_for(f"{row}.includes('{sleeper.pid}') && {row}.includes('100 %')")
        assert violations(browser) == []
        browser.open(browser.evaluate("location.href"), PHONE)
        browser.wait_for(f"{row}.includes('{sleeper.pid}')")
        assert browser.evaluate("document.documentElement.scrollWidth") <= PHONE
        assert browser.errors() == []
        sleeper.kill()
        sleeper.wait()
        browser.wait_for("document.documentElement.dataset.ended === '1'")
        assert "have ended" in browser.evaluate("document.getElementById('live-state').innerText")
        for wrong, said in (
            ("kind=pid&names=", "No processes by number are named."),
            ("kind=none&names=1", "none: allowed: user"),
        ):
            assert server.get(f"/events/watch?{wrong}").status_code == 404
            page = server.get(f"/watch?{wrong}").text
            assert said in page and "Looking for a second" not in page
        browser.open(f"{server.origin}/watch?kind=pid&names=no-number", DESK)
        browser.wait_for("document.getElementById('live-state').innerText.includes('no-number')")
