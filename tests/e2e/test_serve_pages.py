"""The pages of `headrace serve` in a real browser: drawn, reached by keyboard, read aloud, narrow,
dark, and true while the folder changes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from chromium import Chromium
from served_pages import DESK, PHONE, Served, serving, violations
from synthetic_records import Truth, plan_of, write_results

CELLS = [
    {"target": target, "workload": "higgs", "slots": slots}
    for target in ("disk", "ssd")
    for slots in (1, 2, 4)
]
TITLE = "First <b>study</b>"
DRAWN = "Number(document.documentElement.dataset.drawn) > 0"
LIVE = "Number(document.documentElement.dataset.live) > 0"


def make_folder(root: Path) -> Path:
    plan = plan_of(CELLS, 3)
    write_results(root / "one", plan, Truth(), title=TITLE, broken={3: "invalid", 5: "failed"})
    slower = Truth(effects={"slots": {4: -0.5}})
    write_results(root / "below" / "two", plan, slower, seed=2, title="Second")
    modelled = Truth(engine="simulate", provenance="simulated")
    write_results(root / "three", plan, modelled, seed=3, title="Modelled")
    (root / "damaged").mkdir()
    (root / "damaged" / "results.json").write_text("{")
    return root


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with Chromium() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, browser: Chromium) -> Iterator[Served]:
    with serving(make_folder(tmp_path_factory.mktemp("served"))) as server:
        browser.open(server.link, DESK)
        yield server


def dark(tab: Chromium, on: bool) -> None:
    value = "dark" if on else "light"
    features = [{"name": "prefers-color-scheme", "value": value}]
    tab.command("Emulation.setEmulatedMedia", {"features": features})


PAGES = ("/", "/progress/one", "/results/one/", "/compare?a=one&b=below/two", "/nothing")


@pytest.mark.parametrize("shade", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_a_page_fits_is_accessible_and_asks_this_server_alone(
    served: Served, browser: Chromium, path: str, shade: str
) -> None:
    dark(browser, shade == "dark")
    for width in (DESK, PHONE):
        browser.open(f"{served.origin}{path}", width)
        assert browser.evaluate("document.documentElement.scrollWidth") <= width, width
        if browser.evaluate("document.body.innerHTML.includes('Bokeh')"):
            browser.wait_for(DRAWN)
        assert violations(browser) == []
        refused = [each for each in browser.errors() if "404 (Not Found)" not in each]
        assert refused == []
        assert all(url.startswith(served.origin) for url in browser.requests())
    background = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (shade == "light")
    dark(browser, False)


@pytest.mark.parametrize("path", ["/", "/what-if", "/results/one/"])
def test_a_page_is_printed_dark_on_white_in_dark_mode(
    served: Served, browser: Chromium, path: str
) -> None:
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.open(f"{served.origin}{path}", DESK)
    browser.command("Emulation.setEmulatedMedia", {"media": "print", "features": features})
    try:
        seen = browser.evaluate(
            "['backgroundColor', 'color'].map((name) => getComputedStyle(document.body)[name])"
        )
        assert seen == ["rgb(255, 255, 255)", "rgb(26, 26, 26)"]
        cells = browser.evaluate(
            "[...document.querySelectorAll('td, th, p, label')].map((one) =>"
            " Math.min(...getComputedStyle(one).color.match(/[0-9]+/g).slice(0, 3)))"
        )
        assert cells and max(cells) <= 0x80, "text is dark, or of a strong colour"
    finally:
        browser.command("Emulation.setEmulatedMedia", {"media": "", "features": []})


def test_the_list_says_what_is_there(served: Served, browser: Chromium) -> None:
    browser.open(f"{served.origin}/", DESK)
    rows = browser.evaluate(
        "[...document.querySelectorAll('#folders tr')].map((row) =>"
        " row.innerText.replace(/\\s+/g, ' '))"
    )
    one = next(row for row in rows if row.startswith(TITLE))
    assert "real 16 2 18 finished" in one
    assert any(row.startswith("Modelled") and "simulated 18 0 18 finished" in row for row in rows)
    assert any("damaged" in row and "results.json is damaged" in row for row in rows)
    assert len(rows) == 4


def test_from_the_list_to_a_report_and_a_trial(served: Served, browser: Chromium) -> None:
    browser.open(f"{served.origin}/", DESK)
    browser.events.clear()
    browser.evaluate("document.querySelector('#folders a').focus()")
    browser.wait_for(LIVE)
    browser.press("Enter")
    browser.loaded()
    browser.wait_for(DRAWN)
    assert browser.evaluate("document.querySelector('#curves') !== null")
    assert browser.evaluate("document.querySelector('nav.app a').innerText") == "Results"
    browser.events.clear()
    browser.evaluate("document.querySelector('.trials a').click()")
    browser.loaded()
    assert browser.evaluate("document.querySelector('h1').innerText").startswith("Trial ")
    assert "validity.valid" in browser.evaluate("document.body.innerText")


def test_names_of_a_trials_record_are_readable_on_a_phone(
    served: Served, browser: Chromium
) -> None:
    trial = served.get("/results/one/").text.partition("trials/")[2].partition("/")[0]
    browser.open(f"{served.origin}/results/one/trials/{trial}/", PHONE)
    names = "[...document.querySelectorAll('.environment th')]"
    assert browser.evaluate(f"{names}.length") > 20
    assert browser.evaluate(f"Math.min(...{names}.map((e) => e.clientWidth))") > PHONE / 4
    assert browser.evaluate("document.documentElement.scrollWidth") <= PHONE


def test_long_names_do_not_widen_a_page(tmp_path: Path, browser: Chromium) -> None:
    """Titles, folders, storages and workloads without a space, on a narrow phone."""
    cells = [{**cell, "target": cell["target"] * 8, "workload": "w" * 30} for cell in CELLS]
    for name in ("a" * 120, "b" * 120):
        write_results(tmp_path / name, plan_of(cells, 2), Truth(), title="T" * 150)
    one, other = "a" * 120, "b" * 120
    with serving(tmp_path) as server:
        browser.open(server.link, DESK)
        trial = server.get(f"/results/{one}/").text.partition("trials/")[2].partition("/")[0]
        for path in (
            "/", f"/progress/{one}", f"/results/{one}/", f"/results/{one}/trials/{trial}/",
            f"/compare?a={one}&b={other}", "/history",
        ):  # fmt: skip
            browser.open(f"{server.origin}{path}", 320)
            if browser.evaluate("document.body.innerHTML.includes('Bokeh')"):
                browser.wait_for(DRAWN)
            assert browser.evaluate("document.documentElement.scrollWidth") <= 320, path


def test_the_report_is_that_of_the_command(served: Served, browser: Chromium) -> None:
    browser.open(f"{served.origin}/results/below/two/", DESK)
    browser.wait_for(DRAWN)
    shown = browser.evaluate("document.querySelector('#curves').innerText")
    from headrace.library import report

    folder = Path(served.process.args[2])  # pyright: ignore
    _, (file,) = report(folder / "below" / "two")
    browser.open(file, DESK)
    browser.wait_for(DRAWN)
    assert browser.evaluate("document.querySelector('#curves').innerText") == shown


def test_two_are_compared_by_keyboard(served: Served, browser: Chromium) -> None:
    browser.open(f"{served.origin}/", DESK)
    browser.evaluate(
        "document.getElementById('side-a').value = 'one';"
        "document.getElementById('side-b').value = 'below/two';"
        "document.getElementById('side-b').focus()"
    )
    browser.press("Tab")
    assert browser.evaluate("document.activeElement.innerText") == "Compare"
    browser.events.clear()
    browser.press("Enter")
    browser.loaded()
    browser.wait_for(DRAWN)
    text = browser.evaluate("document.body.innerText")
    assert "Two result sets compared" in text and "A better" in text
    link = browser.evaluate("document.querySelector('.trials a').getAttribute('href')")
    assert served.get(link).status_code == 200


def test_real_and_simulated_jobs_are_compared_only_when_told(
    served: Served, browser: Chromium
) -> None:
    browser.open(f"{served.origin}/compare?a=one&b=three", DESK)
    assert browser.evaluate("document.querySelector('[role=alert]') !== null")
    browser.events.clear()
    browser.evaluate("document.querySelector('main button').click()")
    browser.loaded()
    browser.wait_for(DRAWN)
    assert "Two result sets compared" in browser.evaluate("document.body.innerText")


def test_a_folder_that_changes_while_it_is_shown(tmp_path: Path, browser: Chromium) -> None:
    plan = plan_of(CELLS, 2)
    write_results(tmp_path / "one", plan, Truth(), title="One")
    with serving(tmp_path) as server:
        browser.open(server.link, DESK)
        browser.open(f"{server.origin}/", DESK)
        assert browser.evaluate("document.querySelectorAll('#folders tr').length") == 1
        browser.evaluate("document.querySelector('#folders a[href*=one]').focus()")
        write_results(tmp_path / "later", plan, Truth(), title="Later")
        browser.wait_for("document.querySelectorAll('#folders tr').length === 2")
        # Who reads with the keyboard stays where they were.
        assert "one" in browser.evaluate("document.activeElement.getAttribute('href')")
        trial = next((tmp_path / "one" / "trials").iterdir())
        (trial / "trial.json").write_text("{")
        browser.wait_for("document.getElementById('folders').innerText.includes('11')")
        answer = server.get("/results/one/")
        assert answer.status_code == 200 and "damaged" in answer.text
        answer = server.get(f"/results/one/trials/{trial.name}/")
        assert answer.status_code == 200 and "trial.json is damaged" in answer.text
        (tmp_path / "one" / "results.json").unlink()
        gone = server.get("/results/one/")
        assert gone.status_code == 404 and "holds them no longer" in gone.text
        shutil.rmtree(tmp_path / "later")
        shutil.rmtree(tmp_path / "one")
        browser.wait_for("document.getElementById('folders').innerText.includes('No results yet')")
        server.end()
        browser.wait_for("document.getElementById('live-state').innerText.includes('Trying again')")


def test_a_wrong_token_is_explained(served: Served, browser: Chromium) -> None:
    browser.open(f"{served.origin}/?token=wrong", DESK)
    text = browser.evaluate("document.body.innerText")
    assert "token in this link is wrong" in text and "headrace serve" in text
