"""The page as text: self-contained, escaped, small for large studies, every number traceable."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from bokeh.document import Document
from jinja2 import DictLoader, Environment

from headrace.analysis.findings import Findings, Knee, LeftOut
from headrace.report import write_report
from headrace.report.html import environment, render
from headrace.report.select import series_trials, shown_curves
from headrace.report.tables import extra_tables
from sample_findings import sample_findings, write_series

HOSTILE = "</script><script>alert(1)</script>&\"'<b>"
VOID = {"meta", "link", "br", "input", "hr", "img"}


class Outline(HTMLParser):
    """Collects what the tests ask about, and checks that elements nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tables = 0
        self.captions = 0
        self.headers_without_scope = 0
        self.external: list[str] = []
        self.labels: list[str] = []
        self.feed(text)
        assert self.stack == [], f"left open: {self.stack}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag not in VOID:
            self.stack.append(tag)
        if values.get("id"):
            self.ids.append(values["id"] or "")
        if tag == "a":
            self.links.append(values.get("href") or "")
        self.tables += tag == "table"
        self.captions += tag == "caption"
        self.headers_without_scope += tag == "th" and "scope" not in values
        for name in ("src", "href"):
            value = values.get(name) or ""
            if re.match(r"(https?:)?//", value):
                self.external.append(value)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack, f"</{tag}> closes nothing"
        assert self.stack.pop() == tag, f"</{tag}> closes another element"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    results = tmp_path_factory.mktemp("results")
    findings = sample_findings(targets=("scratch", "nas"), workloads=("higgs", "scan"), energy=True)
    for trial in series_trials(shown_curves(findings)):
        write_series(results, trial)
    (file,) = write_report(results, findings, ["html"])
    return file.read_text(encoding="utf-8")


def page_json(text: str) -> dict[str, object]:
    match = re.search(
        r'<script type="application/json" id="headrace-data">(.*?)</script>', text, flags=re.DOTALL
    )
    assert match
    return json.loads(match[1])


def models_of(value: object) -> list[dict[str, Any]]:
    """Return every model of a figure of the page, in the order in which it is read."""
    if isinstance(value, dict):
        own = [value] if value.get("type") == "object" else []
        return own + [model for each in value.values() for model in models_of(each)]
    return [model for each in value for model in models_of(each)] if isinstance(value, list) else []


def test_figures_are_what_bokeh_writes(page: str) -> None:
    """Bokeh checks every model and property that it reads."""
    data: Any = page_json(page)
    items = [*data["figures"], *(each["item"] for each in data["series_figures"])]
    assert len(items) >= 8
    for item in items:
        read = Document.from_json(item["doc"])
        assert [root.id for root in read.roots] == [item["root_id"]]
        again = {model["id"]: model for model in models_of(read.to_json(deferred=False))}
        mine = {model["id"]: model for model in models_of(item["doc"]["roots"])}
        assert mine.keys() <= again.keys()
        for number, model in mine.items():
            assert model["name"] == again[number]["name"]
            kept = again[number].get("attributes", {}).keys()  # all but defaults
            assert kept <= model.get("attributes", {}).keys(), model["name"]
    ids = [model["id"] for item in items for model in models_of(item["doc"])]
    assert len(ids) == len(set(ids))


def without_scripts(text: str) -> str:
    return re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)


def test_the_page_is_whole_and_asks_for_nothing(page: str) -> None:
    outline = Outline(page)
    assert outline.external == []
    assert len(outline.ids) == len(set(outline.ids))
    assert "default-src 'none'" in html.unescape(page)
    assert "unsafe-eval" not in page.split("</head>")[0]


def test_tables_can_be_heard(page: str) -> None:
    outline = Outline(page)
    assert outline.tables == outline.captions >= 6
    assert outline.headers_without_scope == 0


def test_every_anchor_has_a_place(page: str) -> None:
    outline = Outline(page)
    anchors = [link[1:] for link in outline.links if link.startswith("#")]
    assert len(anchors) >= 8
    assert set(anchors) <= set(outline.ids)


def test_every_point_leads_to_its_trials() -> None:
    findings = sample_findings()
    outline = Outline(render(findings, Path("/nowhere")))
    linked = {
        link.removeprefix("trials/").strip("/")
        for link in outline.links
        if link.startswith("trials/")
    }
    for curve in findings.curves:
        for point in curve.points:
            assert set(point.trials) <= linked
    assert {left.trial for left in findings.left_out} <= linked


def test_the_answer_and_the_numbers_stand_in_the_text(page: str) -> None:
    text = html.unescape(re.sub(r"<[^>]+>", " ", without_scripts(page)))
    assert "scratch feeds 4 slots of higgs at 90\u202f% job efficiency" in text
    for words in (
        "Four byte counts",
        "What a choice is worth",
        "Inside one trial",
        "Left out",
        "Environment",
        "Energy per job",
    ):
        assert words in text


def test_a_modelled_value_is_marked_as_such(page: str) -> None:
    energy = page[page.index('id="other"') :]
    assert 'class="mark mark-modelled"' in energy
    assert 'class="mark mark-measured"' in energy


def test_every_value_has_a_mark(page: str) -> None:
    values = re.findall(r'<span class="value".*?</span>', page, flags=re.DOTALL)
    assert len(values) > 100
    assert all('<abbr class="mark' in value for value in values)


def test_columns_of_energy_only_when_there_is_energy() -> None:
    assert "Energy per job" not in render(sample_findings(), Path("/nowhere"))


def test_names_cannot_break_the_page() -> None:
    findings = replace(
        sample_findings(),
        title=HOSTILE,
        warnings=(HOSTILE,),
        environment={HOSTILE: HOSTILE},
        extra_tables={HOSTILE: [{HOSTILE: HOSTILE, "n": 1}]},
        left_out=(LeftOut("x/../y", {HOSTILE: HOSTILE}, "failed", (HOSTILE,)),),
    )
    findings = replace(
        findings, curves=tuple(replace(curve, label=HOSTILE) for curve in findings.curves)
    )
    text = render(findings, Path("/nowhere"))
    Outline(text)
    assert "alert(1)</script>" not in text
    assert page_json(text)["curves"]


def test_embedded_data_are_what_the_findings_say() -> None:
    findings = sample_findings(filesystems=("xfs",), schedulers=("none",))
    data = page_json(render(findings, Path("/nowhere")))
    (curve,) = data["curves"]  # type: ignore[misc]
    for position, point in enumerate(findings.curves[0].points):
        value, low, high, *_ = curve["values"]["events_per_s"][position]
        estimate = point.metrics["events_per_s"]
        assert [value, low, high] == pytest.approx(
            [estimate.value, estimate.low, estimate.high], rel=1e-5
        )
        assert curve["load"][position] == point.slots


@pytest.mark.parametrize("seen", [True, False, None])
def test_a_knee_is_ringed_only_where_a_difference_was_seen(seen: bool | None) -> None:
    findings = sample_findings()
    curve = findings.curves[0]
    knee = Knee(curve.points[0].load, "events_per_s", 1.0, "level", 1, None, seen)
    data = page_json(
        render(replace(findings, curves=(replace(curve, knee=knee),)), Path("/nowhere"))
    )
    (drawn,) = data["curves"]  # type: ignore[misc]
    ringed = {"load": knee.slots, "metric": knee.metric}
    assert drawn["knee"] == (None if seen is False else ringed)


def many(repeats: int) -> Findings:
    return sample_findings(
        targets=("a", "b", "c", "d"),
        filesystems=("ext3", "ext4", "xfs", "btrfs"),
        schedulers=("mq-deadline", "bfq", "none", "kyber"),
        read_aheads=("4 KiB", "128 KiB", "1 MiB"),
        slots=(1, 2, 3, 4, 6, 8),
        repeats=repeats,
        left_out=500,
    )


@pytest.mark.slow
def test_ten_thousand_trials_make_a_page_of_bounded_size(tmp_path: Path) -> None:
    findings = many(9)
    assert findings.trials_done > 10_000
    for trial in series_trials(shown_curves(findings)):
        write_series(tmp_path, trial, seconds=3600)
    html_file, csv_file, parquet_file = write_report(tmp_path, findings, ["html", "csv", "parquet"])
    assert html_file.stat().st_size < 5e6
    assert parquet_file.stat().st_size > 0
    text = html_file.read_text(encoding="utf-8")
    Outline(text)
    assert "more combinations, between the best and the worst" in text
    # What the page leaves away is in the table.
    assert csv_file.read_text().count('"events_per_s"') >= 192 * 6


def test_findings_of_no_valid_trial_make_a_page() -> None:
    findings = replace(
        sample_findings(left_out=3), curves=(), effects=(), combined=(), trials_done=0
    )
    text = render(findings, Path("/nowhere"))
    Outline(text)
    assert "No trial can be trusted" in text
    assert "cache not cold" in text


def test_what_is_the_same_in_every_row_stands_apart() -> None:
    rows = [{"trial": f"{i}", "peak_gev": 125.0 + i, "variable": "Muon_pt"} for i in range(3)]
    (table,) = extra_tables(replace(sample_findings(), extra_tables={"higgs": rows}))
    assert table["columns"] == ["trial", "peak_gev"]
    assert table["same"] == [("variable", "Muon_pt")]
    assert table["rows"][2] == ["2", "127.0"]
    (single,) = extra_tables(replace(sample_findings(), extra_tables={"higgs": rows[:1]}))
    assert single["columns"] == ["trial", "peak_gev", "variable"]


def test_templates_are_parsed_once_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    first = environment().get_template("report.html.j2")

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("the template is parsed again")

    with monkeypatch.context() as patch:
        patch.setattr(Environment, "_parse", refused)
        again = environment().get_template("report.html.j2")
    assert again is not first
    changing = {"page": "one"}
    made = environment()
    made.loader = DictLoader(changing)
    assert made.get_template("page").render() == "one"
    changing["page"] = "another"
    other = environment()
    other.loader = DictLoader(changing)
    assert other.get_template("page").render() == "another"
