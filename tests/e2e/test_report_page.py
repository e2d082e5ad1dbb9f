"""The report as a reader sees it.

A real browser draws the figures, asks the network for nothing, and nothing overflows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from chromium import Chromium
from headrace.analysis.find import find
from headrace.analysis.findings import Comparison, Difference, EnvironmentDifference, Estimate
from headrace.analysis.read import read
from headrace.report import write_report
from headrace.report.comparison import write_comparison
from headrace.report.select import series_trials, shown_curves
from sample_findings import sample_findings, write_series
from synthetic_records import Truth, plan_of, write_results

NARROW, PHONE, DESK = 320, 390, 1280
DRAWN = "document.documentElement.dataset.drawn !== undefined"
# Pixels of each figure's canvases that are neither transparent nor white, found through Bokeh's
# shadow roots.
INK = """(() => {
  const canvases = (root) => [...root.querySelectorAll("*")].flatMap((e) =>
    [...(e.tagName === "CANVAS" ? [e] : []), ...(e.shadowRoot ? canvases(e.shadowRoot) : [])]);
  return [...document.querySelectorAll(".figure")].map((figure) => {
    let ink = 0;
    for (const canvas of canvases(figure)) {
      if (!canvas.width || !canvas.height) continue;
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      for (let i = 0; i < data.length; i += 4)
        if (data[i + 3] > 0 && data[i] + data[i + 1] + data[i + 2] < 700) ink++;
    }
    return [figure.id, ink, figure.clientWidth];
  });
})()"""
# Pixels of one colour in one figure.
COLOURED = """((id, red, green, blue) => {
  const canvases = (root) => [...root.querySelectorAll("*")].flatMap((e) =>
    [...(e.tagName === "CANVAS" ? [e] : []), ...(e.shadowRoot ? canvases(e.shadowRoot) : [])]);
  let count = 0;
  for (const canvas of canvases(document.getElementById(id))) {
    if (!canvas.width || !canvas.height) continue;
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    for (let i = 0; i < data.length; i += 4)
      if (Math.abs(data[i] - red) + Math.abs(data[i + 1] - green)
          + Math.abs(data[i + 2] - blue) < 12 && data[i + 3] > 200) count++;
  }
  return count;
})"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with Chromium() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = tmp_path_factory.mktemp("results")
    findings = sample_findings(
        targets=("scratch", "nas"),
        workloads=("higgs", "scan"),
        schedulers=("mq-deadline", "bfq", "none"),
        energy=True,
    )
    findings = replace(
        findings,
        extra_tables={"fio": [{"block size": "4 KiB", "iops": 612.3, "latency_ms_p99": 21.7}]},
    )
    for trial in series_trials(shown_curves(findings)):
        write_series(results, trial)
    (file,) = write_report(results, findings, ["html"])
    return file


def opened(browser: Chromium, page: Path, width: int, changed: str = "") -> Chromium:
    """The tab with a page. `changed`: what the caller changes there; empty for nothing."""
    if browser.show(page, width, DRAWN, changed):
        # Bokeh paints in the next frames.
        browser.evaluate("new Promise((done) => setTimeout(done, 500))")
    return browser


def test_values_on_a_narrow_phone_do_not_cover_each_other(browser: Chromium, report: Path) -> None:
    tab = opened(browser, report, NARROW)
    covered = tab.evaluate("""(() => {
      const cells = [...document.querySelectorAll("table.stack td")].filter((e) => e.offsetParent);
      const wider = (cell) => [...cell.querySelectorAll(".value, .interval")].some((each) =>
        each.getBoundingClientRect().right > cell.getBoundingClientRect().right + 1);
      return cells.filter(wider).map((cell) => cell.innerText);
    })()""")
    assert covered == []


@pytest.mark.parametrize("width", [NARROW, PHONE, DESK])
def test_the_page_is_drawn_fits_and_asks_for_nothing(
    browser: Chromium, report: Path, width: int
) -> None:
    tab = opened(browser, report, width)
    figures = tab.evaluate(INK)
    assert len(figures) >= 3 + 2 + 5
    for element, ink, drawn_width in figures:
        assert ink > 500, f"{element} is empty"
        assert drawn_width >= min(300, width - 60), element
    assert tab.evaluate("innerWidth") == width
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    # A table of numbers is read by rolling down, also on a phone.
    wide = (
        "[...document.querySelectorAll('table.stack')].filter((t) => t.scrollWidth > "
        "t.parentElement.clientWidth + 1).length"
    )
    assert tab.evaluate(wide) == 0
    assert tab.errors() == []
    assert tab.requests() == [report.resolve().as_uri()]


def test_tables_follow_what_is_drawn_and_can_show_all(browser: Chromium, report: Path) -> None:
    tab = opened(browser, report, DESK, "tables")
    shown = "[...document.querySelectorAll('#time tbody')].filter((t) => !t.hidden).length"
    assert (
        tab.evaluate(shown)
        == tab.evaluate("document.querySelectorAll('#curves input:checked').length")
        == 4
    )
    tab.evaluate("document.querySelector('#time input.only').click()")
    assert tab.evaluate(shown) == 24


@pytest.mark.parametrize("width", [NARROW, PHONE])
def test_no_metric_makes_the_page_wider_than_a_phone(
    browser: Chromium, report: Path, width: int
) -> None:
    tab = opened(browser, report, width, "each metric")
    widths = tab.evaluate("""(async () => {
      const picker = document.getElementById("pick-metric");
      const found = {};
      for (const option of picker.options) {
        picker.value = option.value;
        picker.dispatchEvent(new Event("change"));
        await new Promise((done) => setTimeout(done, 100));
        found[option.text] = document.documentElement.scrollWidth;
      }
      return found;
    })()""")
    assert "Throughput, sum of efficiencies (jobs)" in widths
    assert {name: wide for name, wide in widths.items() if wide > width} == {}
    assert tab.errors() == []


def test_a_phone_that_is_turned_upright_shows_whole_titles(browser: Chromium, report: Path) -> None:
    tab = opened(browser, report, 844, "width")
    tab.command(
        "Emulation.setDeviceMetricsOverride",
        {"width": NARROW, "height": 844, "deviceScaleFactor": 1, "mobile": True},
    )
    tab.wait_for(f"document.documentElement.scrollWidth === {NARROW}")
    assert tab.evaluate("innerWidth") == NARROW


def test_ticking_a_storage_draws_it(browser: Chromium, report: Path) -> None:
    tab = opened(browser, report, DESK, "ticks")
    purple = f"{COLOURED}('figure-rate', 204, 121, 167)"
    before = tab.evaluate(purple)
    assert before > 50, "the fourth colour is drawn at first"
    tab.evaluate(
        "[...document.querySelectorAll('#curves tbody:not([hidden]) input:checked')].at(-1).click()"
    )
    tab.evaluate("new Promise((done) => setTimeout(done, 300))")
    assert tab.evaluate(purple) == 0
    tab.evaluate(
        "document.querySelector('#curves tbody:not([hidden]) input:not(:checked)').click()"
    )
    tab.evaluate("new Promise((done) => setTimeout(done, 300))")
    assert tab.evaluate(purple) > 50
    assert tab.errors() == []


@pytest.mark.parametrize(
    ("picker", "figure", "value"),
    [
        ("pick-metric", "figure-rate", "energy_j_per_job"),
        ("pick-workload", "figure-rate", "scan"),
        ("pick-bytes", "figure-bytes", "5"),
    ],
)
def test_pickers_redraw(
    browser: Chromium, report: Path, picker: str, figure: str, value: str
) -> None:
    tab = opened(browser, report, DESK, "picked")
    state = f"""(() => {{
      const views = Object.values(Bokeh.index.roots ?? Bokeh.index);
      const view = views.find((v) => v.el?.parentElement?.id === "{figure}");
      return JSON.stringify(view.model.renderers.map((r) => r.data_source?.data));
    }})()"""
    before = tab.evaluate(state)
    tab.evaluate(
        f"(() => {{ const p = document.getElementById('{picker}'); p.value = '{value}'; "
        "p.dispatchEvent(new Event('change')); })()"
    )
    after = tab.evaluate(state)
    assert before != after
    assert tab.errors() == []


def test_picking_a_trial_links_to_its_records(browser: Chromium, report: Path) -> None:
    tab = opened(browser, report, DESK, "picked")
    tab.evaluate(
        "(() => { const p = document.getElementById('pick-trial'); p.selectedIndex = 1; "
        "p.dispatchEvent(new Event('change')); })()"
    )
    trial = tab.evaluate("document.getElementById('pick-trial').value")
    assert (
        tab.evaluate("document.getElementById('trial-link').getAttribute('href')")
        == f"trials/{trial}/"
    )
    assert (report.parent / "trials" / trial).is_dir()
    assert tab.errors() == []


def test_a_number_leads_to_its_trials(browser: Chromium, report: Path) -> None:
    tab = opened(browser, report, PHONE, "followed")
    tab.evaluate(
        "document.querySelector('#bytes tbody:not([hidden]) a[href^=\"#point-\"]').click()"
    )
    tab.wait_for("document.querySelector('tr:target details')?.open === true")
    link = tab.evaluate("document.querySelector('tr:target details a').getAttribute('href')")
    assert link.startswith("trials/0")
    assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE


def test_a_page_without_script_still_holds_every_number(browser: Chromium, report: Path) -> None:
    browser.command("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.open(report, DESK)
        browser.command("DOM.enable")
        root = browser.command("DOM.getDocument", {"depth": 0})["root"]["nodeId"]
        rows = browser.command(
            "DOM.querySelectorAll",
            {"nodeId": root, "selector": "#time tbody:not([hidden]) td.wide"},
        )["nodeIds"]
        assert len(rows) == 24 * 5
    finally:
        browser.command("Emulation.setScriptExecutionDisabled", {"value": False})


AXES = """Object.values(Bokeh.index.roots ?? Bokeh.index).map((v) => v.model)
  .filter((m) => m.title?.text).map((m) => [m.title.text, m.left[0].axis_label, m.y_range.end,
    m.below[0].axis_label, m.x_range.end])"""


@pytest.mark.parametrize(
    ("events", "unit"),
    [(300, "events/s"), (200_000, "k events/s"), (10**7, "M events/s"), (10**13, "T events/s")],
)
def test_an_axis_never_writes_million_as_m(
    browser: Chromium, tmp_path: Path, events: int, unit: str
) -> None:
    cells = [
        {"target": "disk", "workload": "higgs", "scheduler": scheduler, "slots": slots}
        for scheduler in ("none", "bfq")
        for slots in (1, 2)
    ]
    truth = Truth(job_events=events, trial_sigma=0.01, effects={"scheduler": {"bfq": -0.3}})
    results = write_results(tmp_path / "r", plan_of(cells, 3), truth, series=False)
    (page,) = write_report(results, find(read(results)), ["html"])
    tab = opened(browser, page, DESK)
    axes = tab.evaluate(AXES)
    rate = next(each for each in axes if each[0].startswith("Event rate against"))
    assert rate[1] == f"Event rate ({unit})"
    assert 0.01 < rate[2] <= 12_000
    levels = next(each for each in axes if each[0] == "Means by level")
    assert levels[3] == f"Event rate ({unit})"
    assert levels[4] <= 12_000
    text = page.read_text(encoding="utf-8")
    assert 'NumeralTickFormatter"' not in text.split('id="headrace-data">')[1].split("</script>")[0]


def difference(slots: int, ratio: float) -> Difference:
    a = Estimate(1000.0, 950.0, 1050.0, 3, "mean, t interval", ("0001-a-r0", "0002-a-r1"))
    b = replace(a, value=1000 * ratio, low=950 * ratio, high=1050 * ratio)
    differs = abs(ratio - 1) > 0.05
    return Difference(
        "scratch", "higgs", {"filesystem": "xfs", "slots": slots}, slots, "events_per_s", a, b,
        Estimate(ratio, ratio - 0.05, ratio + 0.05, 6, "Welch, on the logarithm", ()),
        Estimate((ratio - 1) * 20, -1.0, 5.0, 6, "Hedges' g", ()), 0.01 if differs else 0.7,
        differs,
        ("b" if ratio > 1 else "a") if differs else "",
    )  # fmt: skip


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_a_comparison_is_drawn(browser: Chromium, tmp_path: Path, width: int) -> None:
    a, b = tmp_path / "old disk", tmp_path / "new"
    comparison = Comparison(
        "Old <disk>", "New disk", "measured",
        (difference(1, 1.01), difference(4, 1.3), difference(8, 0.8)),
        ("scratch, higgs, 16 slots",), (),
        (EnvironmentDifference("kernel", ("6.1.0",), ("6.6.2",)),), ("kernels differ",),
    )  # fmt: skip
    page = write_comparison(comparison, tmp_path / "comparison.html", a, b)
    tab = opened(browser, page, width)
    assert tab.errors() == []
    assert tab.requests() == [page.resolve().as_uri()]
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert all(ink > 500 for _, ink, _ in tab.evaluate(INK))
    text = tab.evaluate("document.body.innerText")
    assert "B is better in 1, A in 1 of 3 cells" in text
    assert "+30\u202f%" in text.replace("+30 %", "+30\u202f%")
    assert "Old <disk>" in text
    links = tab.evaluate(
        "[...document.querySelectorAll('details a')].map((a) => a.getAttribute('href'))"
    )
    assert "old%20disk/trials/0001-a-r0/" in links
    assert "new/trials/0002-a-r1/" in links
