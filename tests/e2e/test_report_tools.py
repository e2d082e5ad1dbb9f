"""The report's first screen and tools in a real browser: ticket, CSV, filters, dark mode."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from chromium import Chromium
from synthetic_records import Truth, plan_of, write_results

PHONE, DESK = 390, 1280
DRAWN = "document.documentElement.dataset.drawn !== undefined"
# What a click on a download button would save.
SAVED = """((button) => new Promise((done) => {
  const real = URL.createObjectURL;
  URL.createObjectURL = (blob) => {
    blob.text().then(done);
    URL.createObjectURL = real;
    return real(blob);
  };
  button.click();
}))"""
VISIBLE = """[...document.querySelectorAll('#curves tbody tr')]
  .filter((row) => row.offsetParent).length"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with Chromium() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cells = [
        {"target": target, "workload": "higgs", "filesystem": name, "read_ahead": a, "slots": slots}
        for target in ("disk", "ssd")
        for name in ("ext4", "xfs", "btrfs")
        for a in ("128 KiB", "1 MiB", "4 MiB", "16 MiB")
        for slots in (1, 2, 4, 8)
    ]
    truth = Truth(trial_sigma=0.01, effects={"target": {"ssd": 0.3}})
    folder = tmp_path_factory.mktemp("wide")
    results = write_results(folder / "r", plan_of(cells, 2), truth, series=False)
    _, (page,) = headrace.report(results)
    return page


def opened(browser: Chromium, page: Path, width: int, changed: str = "") -> Chromium:
    """The tab with a page. `changed`: what the caller changes there; empty for nothing."""
    browser.show(page, width, DRAWN, changed)
    return browser


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_the_recommendation_and_its_curve_come_first(
    browser: Chromium, report: Path, width: int
) -> None:
    tab = opened(browser, report, width)
    tab.wait_for("document.querySelectorAll('#figure-answer > *').length > 0")
    assert tab.evaluate("document.getElementById('legend-answer').textContent").startswith("●ssd")
    top, bottom = tab.evaluate(
        "(() => { const at = document.querySelector('.action').getBoundingClientRect();"
        " return [at.top, at.bottom]; })()"
    )
    assert 0 < top < bottom < 500
    assert tab.evaluate("document.querySelector('.action').textContent").startswith("Take ssd")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.errors() == [] and len(tab.requests()) == 1


def test_tables_are_downloaded_as_csv(browser: Chromium, report: Path) -> None:
    tab = opened(browser, report, DESK)
    buttons = tab.evaluate("document.querySelectorAll('button.csv').length")
    assert buttons == tab.evaluate("document.querySelectorAll('.scroll > table').length")
    text = tab.evaluate(f"{SAVED}(document.querySelector('#slots button.csv'))")
    rows = list(csv.DictReader(io.StringIO(text.lstrip("\ufeff"))))
    assert len(rows) == 24  # those that the table cuts off, too
    assert rows[0]["Storage"].startswith("ssd")
    rate = rows[0]["Best rate"].split()
    assert float(rate[0]) > 10_000 and rate[1] == "events/s"
    text = tab.evaluate(f"{SAVED}(document.querySelector('#time button.csv'))")
    points = list(csv.DictReader(io.StringIO(text.lstrip("\ufeff"))))
    assert points[0]["Storage"].startswith("ssd") and points[0]["Slots"] == "1"
    assert float(points[0]["Event rate (events/s)"]) > 10_000


def test_the_keyboards_focus_is_seen_on_figures(browser: Chromium, report: Path) -> None:
    tab = opened(browser, report, DESK)
    tab.wait_for("document.querySelectorAll('#figure-answer > *').length > 0")
    tab.evaluate("document.getElementById('copy-ticket').focus()")
    tab.press("Tab")
    figure = "document.activeElement.parentElement"  # Bokeh's own element has the focus
    assert tab.evaluate(f"{figure}.id") == "figure-answer"
    assert tab.evaluate(f"getComputedStyle({figure}).outlineStyle") == "solid"
    tab.evaluate("document.activeElement.blur()")


def test_a_csv_has_what_the_table_shows(browser: Chromium, report: Path) -> None:
    """No control, no words run together, and numbers in names stay as they are."""
    tab = opened(browser, report, DESK, "names")
    name = "document.querySelector('#curves tbody th[scope=row]')"
    tab.evaluate(f"{name}.textContent = 'disk 4 128 KiB'")
    text = tab.evaluate(f"{SAVED}(document.querySelector('#slots button.csv'))")
    heads, first = list(csv.reader(io.StringIO(text.lstrip("\ufeff"))))[:2]
    assert heads[:2] == ["Rank", "Storage"]
    assert first[1] == "disk 4 128 KiB"
    text = tab.evaluate(f"{SAVED}(document.querySelector('#time button.csv'))")
    for row in csv.DictReader(io.StringIO(text.lstrip("\ufeff"))):
        assert row["Evidence"].startswith("2 trials; why: Jobs "), row["Evidence"]
    text = tab.evaluate(f"{SAVED}(document.querySelector('#choices button.csv'))")
    heads = next(csv.reader(io.StringIO(text.lstrip("\ufeff"))))
    assert "Judged against, interval" not in heads


def test_a_long_table_begins_with_a_few_rows(browser: Chromium, report: Path) -> None:
    tab = opened(browser, report, DESK, "rows")
    assert tab.evaluate(VISIBLE) == 12
    tab.evaluate("document.querySelector('#slots button.more').click()")
    assert tab.evaluate(VISIBLE) == 24
    assert tab.evaluate("document.querySelector('#slots button.more').textContent") == (
        "Show fewer rows"
    )


def test_filters_leave_what_was_chosen(browser: Chromium, report: Path) -> None:
    tab = opened(browser, report, DESK, "filters")
    change = "dispatchEvent(new Event('change', {bubbles: true}))"
    picker = "document.querySelector('select[data-filter=filesystem]')"
    tab.evaluate(f"{picker}.value = 'xfs', {picker}.{change}")
    assert tab.evaluate(VISIBLE) == 8
    assert tab.evaluate("document.getElementById('filter-count').textContent") == "8 of 24 storages"
    find = "document.getElementById('filter-text')"
    tab.evaluate(f"{find}.value = 'ssd 4 MiB', {find}.dispatchEvent(new Event('input'))")
    assert tab.evaluate(VISIBLE) == 1
    tab.evaluate("document.getElementById('filter-clear').click()")
    assert tab.evaluate(VISIBLE) == 12


def test_the_answer_is_copied_as_text(browser: Chromium, report: Path) -> None:
    tab = opened(browser, report, DESK, "copied")
    tab.evaluate("document.getElementById('copy-ticket').click()")
    tab.wait_for("document.getElementById('copied').textContent !== ''")
    said = tab.evaluate("document.getElementById('copied').textContent")
    text = tab.evaluate("document.getElementById('ticket').textContent")
    assert text == headrace.library.report_text(report.parent)
    # Without a clipboard the text is selected.
    assert said == "Copied." or tab.evaluate("String(getSelection())").startswith(text[:40])


def test_controls_are_reached_by_key_and_have_names(browser: Chromium, report: Path) -> None:
    tab = opened(browser, report, DESK, "copied by key")
    unnamed = tab.evaluate(
        "[...document.querySelectorAll('button, select, input')].filter((each) =>"
        " !(each.getAttribute('aria-label') || each.textContent.trim() || each.labels?.length))"
        ".map((each) => each.outerHTML)"
    )
    assert unnamed == []
    assert tab.evaluate("document.querySelectorAll('[tabindex]:not([tabindex=\"0\"])').length") == 0
    tab.evaluate("document.getElementById('copy-ticket').focus()")
    for kind in ("keyDown", "keyUp"):
        key = {"type": kind, "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13}
        tab.command("Input.dispatchKeyEvent", {**key, "text": "\r"} if kind == "keyDown" else key)
    tab.wait_for("document.getElementById('copied').textContent !== ''")


def test_text_is_legible_in_the_dark(browser: Chromium, report: Path) -> None:
    """Every text keeps the contrast of WCAG AA (4.5) against what is behind it."""
    contrast = """(() => {
      const light = (c) => { const [r, g, b] = c.match(/[\\d.]+/g).map((v) => { v /= 255;
        return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
      const behind = (e) => { for (; e; e = e.parentElement) {
        const c = getComputedStyle(e).backgroundColor;
        if (!/rgba\\(.*, 0\\)/.test(c)) return c; } return 'rgb(255, 255, 255)'; };
      return [...document.querySelectorAll('p, h1, h2, td, th, li, a, button, label, abbr, pre')]
        .filter((e) => e.offsetParent && !e.closest('.figure, .bar')).map((e) => {
          const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
          return [(a + 0.05) / (b + 0.05), e.tagName + '.' + e.className]; })
        .filter(([ratio]) => ratio < 4.5).map(([ratio, name]) => `${name} ${ratio.toFixed(2)}`);
    })()"""
    media = "Emulation.setEmulatedMedia"
    for scheme in ("dark", "light"):
        browser.command(media, {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
        tab = opened(browser, report, DESK, scheme)
        assert sorted(set(tab.evaluate(contrast))) == [], scheme
    browser.command(media, {"features": []})
