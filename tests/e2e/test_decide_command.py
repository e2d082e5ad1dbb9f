"""`headrace decide` as a user has it: from a study and offers to a page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from workspace import Workspace

STUDY = """
headrace = 1
title = "which drive"
[site.node]
machine = "generic-node"
[target.local]
kind = "block"
drive = "wd-wd3200bekt"
[workload.scan]
kind = "scan"
data = { events = 20_000, files = 4 }
[factors]
drive = ["wd-wd3200bekt", "corsair-f40", "samsung-870-evo-1tb"]
slots = [1, 4]
[plan]
repeats = { min = 2 }
"""

OFFERS = """
currency = "EUR"
years = 5
[electricity]
price = 0.25
co2 = 300
[node.generic-node]
price = 4000
date = "2026-01"
rack_units = 1
[drive.wd-wd3200bekt]
price = 60
date = 2026
[drive.corsair-f40]
price = 105
date = 2026
[drive.samsung-870-evo-1tb]
price = 90
date = 2026
endurance = "600 TB"
failures_per_year = 0.01
"""


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    place = tmp_path_factory.mktemp("decide with spaces")
    made = Workspace(place, place / "cache", {"COLUMNS": "80"})
    study = made.study(STUDY)
    assert made.run("simulate", study, "--results", "results").returncode == 0
    (place / "offers.toml").write_text(OFFERS)
    return made


def test_the_best_drive_within_the_limits_is_recommended(workspace: Workspace) -> None:
    limits = "price <= 5000 EUR, usable >= 200 GB"
    ended = workspace.run(
        "decide", "results", "--offers", "offers.toml", "--within", limits, "--json"
    )
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    # By hand, from the records: the highest mean rate of the drives that hold 200 GB.
    rates: dict[str, list[float]] = {}
    for record in workspace.trials():
        drive, slots = record["levels"]["drive"], record["levels"]["slots"]
        if drive != "corsair-f40":  # 40 GB
            key = f"local, {drive}, {slots} slot{'s' if slots > 1 else ''}"
            rate = record["sums"]["events"] / record["last_done_s"]
            rates.setdefault(key, []).append(rate)
    best = max(rates, key=lambda key: sum(rates[key]) / len(rates[key]))
    assert found["recommended"] == best
    by_key = {each["configuration"]: each for each in found["configurations"]}
    assert by_key[best]["values"]["price"] == 4090
    assert by_key[best]["values"]["events_per_s"] == pytest.approx(
        sum(rates[best]) / len(rates[best])
    )
    assert not by_key["local, corsair-f40, 4 slots"]["within_limits"]


def test_every_number_of_the_page_leads_to_its_trials(workspace: Workspace, tmp_path: Path) -> None:
    page, pdf = tmp_path / "what to buy.html", tmp_path / "page.pdf"
    ended = workspace.run(
        "decide", "results", "--offers", "offers.toml", "--html", page, "--pdf", pdf
    )
    assert ended.returncode == 0, ended.stderr
    text = page.read_text()
    links = re.findall(r'href="([^"]+/trials/[^"]+)"', text)
    assert len(links) == 12
    for link in links:
        assert (page.parent / unquote(link) / "trial.json").is_file(), link
    assert "<script" not in text and "http:" not in re.sub(r'"http://www.w3.org[^"]*"', "", text)
    assert pdf.read_bytes().startswith(b"%PDF-")
    for said in ("4 090 EUR", "kWh", "Pareto", "samsung-870-evo-1tb", "an assumption"):
        assert said.replace(" ", "\u202f") in text or said in text, said


def test_an_own_page_is_replaced_and_a_stream_is_written_to(workspace: Workspace) -> None:
    for option in ("--html", "--pdf"):
        page = workspace.place / f"own{option}"
        ended = workspace.run("decide", "results", option, page)
        assert ended.returncode == 0 and page.exists(), ended.stderr
        again = workspace.run("decide", "results", option, page)  # an own page is replaced
        assert again.returncode == 0, again.stderr
    ended = workspace.run("decide", "results", "--json", "--html", "/dev/stdout")
    assert ended.returncode == 0 and "</html>" in ended.stdout, ended.stderr


def test_what_is_unknown_is_named_in_words(workspace: Workspace, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert workspace.run("decide", "results", "--html", page).returncode == 0
    unknown = re.findall(r"<p>Unknown: ([^<]+)</p>", page.read_text())
    named = [sentence.partition(": ")[0] for sentence in unknown]
    for title in ("failure during a rebuild", "data losses per year"):
        assert any(title in each for each in named), named
    assert not [name for name in named if "_" in name]


def test_the_terminal_s_table_fits_80_columns_through_a_pipe(workspace: Workspace) -> None:
    ended = workspace.run("decide", "results", "--offers", "offers.toml", "--want", "cost")
    assert ended.returncode == 0
    assert max(len(line) for line in ended.stdout.splitlines()) <= 80
    assert "It is based on 12 valid trials of 6 configurations (6 simulated)." in ended.stdout


def test_more_nodes_are_simulated_not_multiplied(workspace: Workspace) -> None:
    """Local drives: three nodes give three times the rate of an SSD."""
    found = {}
    for nodes in ("1", "3"):
        ended = workspace.run(
            "decide", "results", "--offers", "offers.toml", "--nodes", nodes, "--json"
        )
        assert ended.returncode == 0, ended.stderr
        found[nodes] = {
            each["target"] + str(each["levels"]): each
            for each in json.loads(ended.stdout)["configurations"]
        }
    for key, one in found["1"].items():
        three = found["3"][key]
        assert three["nodes"] == 3 and one["nodes"] == 1
        assert three["values"]["price"] == pytest.approx(3 * one["values"]["price"])
        ratio = three["values"]["events_per_s"] / one["values"]["events_per_s"]
        # Disks differ more: each node has fewer of the files, and the slowest one ends the trial.
        low, high = (2.7, 3.3) if "samsung" in key else (2, 6)
        assert low < ratio < high, key


def test_the_smaller_study_of_a_screening_is_simulated_as_it_is(workspace: Workspace) -> None:
    screened = ("screen", "study.toml", "--offers", "offers.toml", "--within", "price <= 4095 EUR")
    ended = workspace.run(*screened, "--out", "a smaller.toml")
    assert ended.returncode == 0, ended.stderr
    assert max(len(line) for line in ended.stdout.splitlines()) <= 80
    assert "breaks price <= 4095 EUR" in " ".join(ended.stdout.split())
    left = int(re.findall(r"(\d+) of 12 trials stay", ended.stdout)[0])
    ended = workspace.run("simulate", "a smaller.toml", "--results", "smaller")
    assert ended.returncode == 0, ended.stderr
    records = list((workspace.place / "smaller" / "trials").glob("*/trial.json"))
    drives = {json.loads(each.read_text())["levels"]["drive"] for each in records}
    assert len(records) == left < 12 and "corsair-f40" not in drives
    assert workspace.run(*screened, "--out", "a smaller.toml").returncode == 4


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["results", "--want", "evnts"], 2, "no such quantity"),
        (["results", "--within", "price <= 5 EUR"], 2, "currency"),
        (["nowhere"], 2, "nowhere"),
        (["results", "--offers", "none.toml"], 2, "none.toml"),
        (["results", "--mix", "scan"], 2, "not a share"),
        (["results", "--within", "efficiency >= 85"], 2, "its unit is missing"),
        (["results", "--mix", "scan=1e308, skim=1e308"], 2, "the shares are too large"),
        (["results", "--mix", "scan=1, scan=3"], 2, "two shares of workload scan"),
        (["results", "--mix", "skim=3"], 2, "no result set has a workload 'skim'"),
        (["results", "--html", "nowhere/page.html"], 2, "nowhere/page.html"),
        (["results", "--offers", "offers.toml", "--within", "power <= 1 W"], 5, None),
    ],
)
def test_bad_input_is_one_message(
    workspace: Workspace, arguments: list[str], code: int, said: str | None
) -> None:
    ended = workspace.run("decide", *arguments)
    assert ended.returncode == code, ended.stderr
    if said is None:
        assert "power <= 1 W excludes every configuration" in " ".join(ended.stdout.split())
    else:
        assert said in " ".join(ended.stderr.split())
