"""Decisions: wishes and offers as written, costs by arithmetic, and answers with a known truth."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace import decide, simulate
from headrace.analysis.read import Records, read
from headrace.decision.answer import DecisionAnswer, answer, objectives_of
from headrace.decision.costs import Activity, costs_of
from headrace.decision.offers import (
    Offers,
    catalog_offers,
    load_offers,
    priced_offers,
    with_catalog,
)
from headrace.decision.sensitivity import DecisionInputs
from headrace.decision.wishes import metric_quantity, parse_wishes
from headrace.errors import RefusedError, StudyError, UsageError
from headrace.records.inventory import InventoryItem
from headrace.report.decision import as_json, basis_sentences, headline, reasons
from headrace.whatif.scaling import scaled
from synthetic_records import Truth, plan_of, write_results

KNOWN = ("events_per_s", "efficiency", "energy_wh_per_job", "mean_power_w")

# -- wishes --


def test_a_wish_is_a_metric_by_its_name_or_unit_or_a_quantity_of_the_configuration() -> None:
    wishes = parse_wishes(
        "events/s", "price <= 40_000 EUR, usable >= 200 TB, efficiency >= 85 %, power <= 3 kW",
        "EUR", KNOWN,
    )  # fmt: skip
    assert wishes.want.name == "events_per_s"
    assert [(limit.quantity.name, limit.sense, limit.amount) for limit in wishes.limits] == [
        ("price", "<=", 40_000.0),
        ("usable_bytes", ">=", 200e12),
        ("efficiency", ">=", 0.85),
        ("power_w", "<=", 3000.0),
    ]
    assert parse_wishes("Wh/job", "", "EUR", KNOWN).want.less_is_better
    assert parse_wishes("cost", "usable >= 2 TiB", "EUR", KNOWN).limits[0].amount == 2 * 2**40


@pytest.mark.parametrize(
    ("want", "within", "said"),
    [
        ("evens/s", "", "no such quantity"),
        ("events/s", "price <= 40000", "the currency of price is missing"),
        ("events/s", "price <= 40000 USD", 'currency of the offers, not "USD"'),
        ("events/s", "power <= 3 kVA", "VA is apparent power"),
        ("events/s", "power <= 3 kWh", "Wh is an amount of energy, W the power"),
        ("events/s", "energy <= 3 MW", "W is power, Wh an amount of energy"),
        ("events/s", "usable >= 200 Tb", "b is a bit, B a byte"),
        ("events/s", "usable >= 200", "its unit is missing"),
        ("events/s", "usable >= 200 W", '"W" is not its unit'),
        ("events/s", "price < 40000 EUR", "< is no sense of a limit"),
        ("events/s", "cheap", "not a limit"),
        ("events/s", "power <= 1 kW, power >= 2 kW", "exclude each other"),
    ],
)
def test_a_bad_wish_is_one_message(want: str, within: str, said: str) -> None:
    with pytest.raises(StudyError) as raised:
        parse_wishes(want, within, "EUR", KNOWN)
    assert said in raised.value.message and "\n" not in raised.value.message


# -- offers --


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[drive.a]\nprice = 5\n", "drive.a.date: is missing"),
        ('[drive.a]\nprice = 5\ndate = 2026\ncurrency = "euro"\n', "three capital letters"),
        ('currency = "EUE"\n', "EUE is no currency of ISO 4217"),
        ("[rates]\nUSDD = { rate = 1, date = 2026 }\n", "three capital letters"),
        ("[rates]\nUSD = { rate = 1 }\n", "rates.USD.date: is missing"),
        ('[node.a]\nprice = 5\ndate = 2026\npower = "90 VA"\n', "node.a.power"),
        ('[electricity]\nprice = "0.25 EUR/MWh"\n', "electricity.price"),
        ('[drive.a]\nprice = 5\ndate = 2026\ncurrency = "USD"\n', "[rates] USD"),
        ("[drive.a]\nprice = -5\ndate = 2026\n", "drive.a.price"),
        ("[drives.a]\nprice = 5\ndate = 2026\n", "drives"),
        ('[drive.a]\nprice = 5\ndate = 2026\ncapacity = "2 W"\n', "no unit of size"),
        ("[electricity]\nprice = 'x'\n", "electricity.price"),
        ("price = = 3\n", "offers.toml:1"),
    ],
)
def test_a_bad_offers_file_names_file_line_and_field(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "offers.toml"
    file.write_text(text)
    with pytest.raises(StudyError) as raised:
        load_offers(file)
    assert said in raised.value.message and "offers.toml" in raised.value.message


def test_a_price_in_another_currency_is_converted_at_the_given_rate(tmp_path: Path) -> None:
    file = tmp_path / "offers.toml"
    file.write_text(
        'currency = "EUR"\n[rates]\nUSD = { rate = 0.9, date = "2026-11-01" }\n'
        '[drive.a]\nprice = 100\ncurrency = "USD"\ndate = "2026-11"\n'
    )
    offers = load_offers(file)
    assert offers.amount(offers.drive["a"]) == pytest.approx(90)
    assert offers.drive["a"].date == "2026-11"


def test_the_catalog_s_prices_have_dates_and_are_those_of_one_currency() -> None:
    offers = catalog_offers()
    assert offers.drive
    assert {offer.currency for offer in offers.drive.values()} == {offers.currency}
    assert all(int(offer.date[:4]) > 1980 for offer in offers.drive.values())


# -- costs --


def test_the_catalog_completes_offers_in_the_currencies_that_they_have() -> None:
    given = {"drive": {"corsair-f40": {"price": 80, "date": 2026}}}
    dollars = with_catalog(Offers.model_validate({"currency": "USD", **given}))
    assert dollars.drive["corsair-f40"].price == 80
    assert dollars.drive["wd-wd3200bekt"].price == 59.99
    assert "intel-x25-m-g2-160gb" not in dollars.drive  # pounds, without a rate
    rates = {"GBP": {"rate": 1.5, "date": 2010}}
    both = with_catalog(Offers.model_validate({"currency": "USD", "rates": rates}))
    assert both.amount(both.drive["intel-x25-m-g2-160gb"]) == pytest.approx(245 * 1.5)


def test_an_offer_without_a_price_has_the_catalog_s_and_the_answer_says_so(
    tmp_path: Path,
) -> None:
    file = tmp_path / "offers.toml"
    file.write_text('currency = "USD"\n[drive.corsair-f40]\nendurance = "70 TB"\n')
    offer = load_offers(file).drive["corsair-f40"]
    assert (offer.price, offer.date[:4], offer.of_catalog) == (104.99, "2011", True)
    assert offer.endurance == 70e12
    part = {"a": {"nodes": {"worker": 1}, "drives": {"corsair-f40": 1}}}
    priced = Offers.model_validate(
        {"currency": "USD", "target": part, "node": {"worker": {"price": 1, "date": 2026}}}
    )
    made = _answer([_results(tmp_path / "r", {"a": 0.0})], offers=with_catalog(priced))
    said = "Prices of the catalog, as no offer states one: corsair-f40 (2011)."
    assert said in basis_sentences(made)
    file.write_text('currency = "USD"\n[drive.corsair-f40]\ndate = 2026\n')
    with pytest.raises(StudyError, match=r"drive\.corsair-f40\.price: is missing"):
        load_offers(file)
    file.write_text('currency = "EUR"\n[drive.corsair-f40]\n')
    with pytest.raises(StudyError, match=r"\[rates\] USD"):
        load_offers(file)


def test_the_catalog_s_prices_are_in_the_currency_of_the_drives_that_are_judged() -> None:
    assert catalog_offers(["intel-x25-m-g2-160gb"]).currency == "GBP"
    assert catalog_offers(["samsung-870-evo-1tb", "no such drive"]).currency == "USD"


def test_the_offers_of_the_studies_count_where_no_file_is_given(tmp_path: Path) -> None:
    text = '[offers]\ncurrency = "EUR"\n[offers.drive.a]\nprice = {}\ndate = "2026-11"\n'
    sets = [_results(tmp_path / name, {"a": 0.0}) for name in ("r", "s")]
    for records in sets:
        (records.root / "study.toml").write_text(text.format(7))
    assert priced_offers(None, sets).drive["a"].price == 7
    (sets[1].root / "study.toml").write_text(text.format(8))
    with pytest.raises(RefusedError, match="different"):
        priced_offers(None, sets)
    (sets[1].root / "study.toml").write_text(text.format(-8))
    with pytest.raises(StudyError) as raised:
        priced_offers(None, sets)
    assert "study.toml:4: drive.a.price" in raised.value.message
    file = tmp_path / "offers.toml"
    file.write_text('[drive.a]\nprice = 9\ndate = "2026-11"\n')
    assert priced_offers(file, sets).drive["a"].price == 9


def _offers(**more: Any) -> Offers:
    return Offers.model_validate(
        {
            "currency": "EUR",
            "years": 5,
            "filesystem_share": 0.1,
            "electricity": {"price": 0.2, "co2": 400},
            "drive": {
                "sata-7200-500gb": {
                    "price": 50, "date": 2026, "failures_per_year": 0.02, "endurance": "100 TB",
                }
            },
            "node": {"generic-node": {"price": 4000, "date": 2026, "rack_units": 1}},
            "server": {"generic-server": {"price": 3000, "date": 2026, "rack_units": 2}},
            "switch": {"s": {"price": 700, "date": 2026, "ports": 4, "power": 20}},
            **more,
        }
    )  # fmt: skip


RAID_5 = (
    InventoryItem(part="node", name="generic-node", host="node", count=3),
    InventoryItem(part="server", name="generic-server", host="nas", count=1),
    InventoryItem(
        part="drive", name="sata-7200-500gb", host="nas", count=4, usable_bytes=3 * 500e9,
        size_bytes=500 * 10**9, raid_level=5,
    ),
)  # fmt: skip


def test_costs_follow_from_parts_and_offers() -> None:
    """By hand: 3 x 4000 + 3000 + 4 x 50 + a switch of 4 ports; 3 drives of data, a tenth for the
    filesystem; 500 W and a switch of 20 W over a year."""
    costs = costs_of(RAID_5, "nas", Activity(500.0, 1e6), _offers())
    found = costs.values
    assert found["price"] == 12_000 + 3000 + 200 + 700
    assert found["usable_bytes"] == pytest.approx(3 * 500e9 * 0.9)
    assert found["power_w"] == 520
    assert found["energy_wh_per_year"] == pytest.approx(520 * 8766)
    assert found["co2_g_per_year"] == pytest.approx(520 * 8.766 * 400)
    assert found["cost"] == pytest.approx(found["price"] + 5 * 520 * 8.766 * 0.2)
    assert found["rack_units"] == 5
    assert found["drive_failures_per_year"] == pytest.approx(0.08)
    # RAID 5 of 4 writes a third more than the data; each drive takes a quarter of it.
    per_drive = 1e6 * 4 / 3 / 4 * 8766 * 3600
    assert found["wear_years"] == pytest.approx(100e12 / per_drive)


def test_mirrors_of_several_nodes_write_twice_and_not_once_for_each_node() -> None:
    """Three nodes with a RAID 1 of two drives each: every drive takes a third of the writes."""
    mirrors = (
        InventoryItem(part="node", name="generic-node", host="node", count=3),
        InventoryItem(
            part="drive",
            name="sata-7200-500gb",
            host="node",
            count=6,
            usable_bytes=3 * 500e9,
            size_bytes=500 * 10**9,
            raid_level=1,
        ),
    )
    costs = costs_of(mirrors, "t", Activity(500.0, 3e6), _offers())
    assert costs.values["wear_years"] == pytest.approx(100e12 / (1e6 * 8766 * 3600))


def test_jobs_that_run_half_the_time_leave_idle_power_for_the_other_half() -> None:
    node = (InventoryItem(part="node", name="generic-node", host="node", count=1),)
    costs = costs_of(node, "t", Activity(300.0, None), _offers(busy=0.5, switch={}, pue=1.5))
    # The catalog's generic node idles at 120 W.
    assert costs.values["energy_wh_per_year"] == pytest.approx(1.5 * (300 + 120) / 2 * 8766)


def test_idle_power_of_the_records_has_their_overhead_and_switches() -> None:
    node = (InventoryItem(part="node", name="generic-node", host="node", count=3),)
    whole = Activity(900.0, None, of_facility=True, with_switches=True, idle_w=700.0)
    costs = costs_of(node, "t", whole, _offers(busy=0.5, pue=1.5))
    assert costs.values["energy_wh_per_year"] == pytest.approx((900 + 700) / 2 * 8766)


def test_overhead_and_switches_of_the_records_are_not_counted_twice() -> None:
    node = (InventoryItem(part="node", name="generic-node", host="node", count=3),)
    offers = _offers(pue=1.5)
    plain = costs_of(node, "t", Activity(300.0, None), offers)
    whole = Activity(300.0, None, of_facility=True, with_switches=True)
    assert costs_of(node, "t", whole, offers).values["power_w"] == 300
    assert plain.values["power_w"] > 1.5 * 300, "with a switch"
    notes = " ".join(costs_of(node, "t", whole, offers).assumptions)
    assert "PUE is not applied" in notes and "switches is not added" in notes


def test_a_part_without_an_offer_leaves_the_price_unknown_and_is_named() -> None:
    costs = costs_of(RAID_5, "nas", Activity(500.0, None), _offers(server={}))
    assert "price" not in costs.values and "server generic-server" in costs.unknown["price"]
    assert costs.values["usable_bytes"] > 0


def test_the_offers_say_what_a_target_is_made_of() -> None:
    stated = {"t": {"drives": {"sata-7200-500gb": 2}, "usable": "900 GB"}}
    unnamed = (
        InventoryItem(part="node", name="generic-node", host="node", count=1),
        InventoryItem(part="drive", name="", host="node", count=1),
    )
    costs = costs_of(unnamed, "t", Activity(None, None), _offers(target=stated))
    assert costs.values["price"] == 4000 + 100
    assert costs.values["usable_bytes"] == 900e9


def test_a_drive_without_a_capacity_is_named() -> None:
    stated = {"t": {"drives": {"a drive": 2}}}
    shelf = {"a drive": {"price": 5, "date": 2026}}
    costs = costs_of((), "t", Activity(None, None), _offers(target=stated, drive=shelf))
    assert costs.unknown["usable_bytes"] == (
        "drive a drive has no capacity, neither in the offers nor in the catalog"
    )
    shelf = {"a drive": {"price": 5, "date": 2026, "capacity": "2 TB"}}
    costs = costs_of((), "t", Activity(None, None), _offers(target=stated, drive=shelf))
    assert "[target.NAME] usable" in costs.unknown["usable_bytes"]


# -- answers --


def _results(
    root: Path,
    effects: dict[str, float],
    *,
    repeats: int = 4,
    sigma: float = 0.02,
    slots: tuple[int, ...] = (1, 4),
    seed: int = 1,
    **truth: Any,
) -> Records:
    cells = [
        {"target": name, "workload": "scan", "slots": count} for name in effects for count in slots
    ]
    known = Truth(
        effects={"target": dict(effects)}, trial_sigma=sigma, site_w=200.0, cores=64, **truth
    )
    return read(write_results(root, plan_of(cells, repeats), known, seed=seed, series=False))


def _answer(
    sets: list[Records], within: str = "", offers: Offers | None = None, want: str = "events/s",
    shares: dict[str, float] | None = None,
) -> DecisionAnswer:  # fmt: skip
    priced = offers or _priced(100, 100)
    known = {name for each in sets for values in each.trials["metrics"] for name in values}
    wishes = parse_wishes(want, within, priced.currency, known)
    objectives = objectives_of(wishes.want, metric_quantity("efficiency"))
    return answer(DecisionInputs(sets, priced, wishes, shares, None, objectives))


def _priced(a: float, b: float) -> Offers:
    node = {"worker": {"price": 1000, "date": 2026}}
    drive = {"a": {"price": a, "date": 2026}, "b": {"price": b, "date": 2026}}
    target = {name: {"nodes": {"worker": 1}, "drives": {name: 1}} for name in ("a", "b")}
    return Offers.model_validate({"node": node, "drive": drive, "target": target})


def test_the_better_storage_is_recommended_with_its_probability(tmp_path: Path) -> None:
    made = _answer([_results(tmp_path / "r", {"a": 0.0, "b": 0.5})])
    best = made.choice.recommended
    assert best is not None and best.candidate.target == "b" and best.candidate.slots == 4
    assert best.best > 0.95 and best.pareto
    assert made.choice.runner_up is not None and made.choice.runner_up.candidate.target == "a"
    assert {len(each.candidate.evidence[0].trials) for each in made.choice.judged} == {4}


@pytest.mark.slow
def test_no_winner_is_named_between_storages_that_are_the_same(tmp_path: Path) -> None:
    """Over many result sets of two equal storages, one is named at about the rate that is said."""
    named = 0
    for seed in range(30):
        root = tmp_path / f"r{seed}"
        made = _answer([_results(root, {"a": 0.0, "b": 0.0}, seed=seed, sigma=0.1, slots=(4,))])
        named += made.choice.recommended is not None
        if made.choice.recommended is None:
            assert "no difference" in headline(made)
    assert named <= 6  # 5 % of either side: three are expected


def test_the_cheapest_of_those_not_told_apart_is_named(tmp_path: Path) -> None:
    records = _results(tmp_path / "r", {"a": 0.0, "b": 0.001}, sigma=0.1, slots=(4,))
    said = " ".join(reasons(_answer([records], offers=_priced(100, 300))))
    assert "a, 4 slots has the lowest price" in said


def test_a_limit_moves_the_recommendation_and_what_would_move_it_back_is_said(
    tmp_path: Path,
) -> None:
    records = _results(tmp_path / "r", {"a": 0.0, "b": 0.5})
    made = _answer([records], "price <= 1500 EUR", _priced(100, 900))
    best = made.choice.recommended
    assert best is not None and best.candidate.target == "a"
    by = {each.what: each.leads for each in made.changes}
    assert by["a limit of price <= 1900 EUR"] == "b, 4 slots"
    assert any(what.startswith("price of drive b ÷ 2") for what in by)


def test_a_limit_of_a_share_that_would_move_the_recommendation_is_in_per_cent(
    tmp_path: Path,
) -> None:
    records = _results(tmp_path / "r", {"a": 0.0, "b": 0.5}, device_bytes_per_s=5e7)
    shares = [values["efficiency"] for values in records.trials["metrics"]]
    assert min(shares) < 0.9 < max(shares)
    (change,) = _answer([records], "efficiency >= 90 %").changes
    assert re.fullmatch(r"a limit of efficiency >= [1-8]\d(\.\d+)? %", change.what)


@pytest.mark.parametrize(
    ("within", "name", "value", "said"),
    [
        ("price <= 40_000 EUR", "price", 89_546.8, "89547 EUR"),
        ("price <= 40_000 EUR", "price", 1_234_567.1, "1234568 EUR"),
        ("efficiency >= 38 %", "efficiency", 0.370_26, "37.02 %"),
        ("efficiency >= 38 %", "efficiency", 0.370_3, "37.03 %"),
        ("usable >= 2 TB", "usable_bytes", 912_207_860_121.6, "0.9122 TB"),
        ("usable >= 2_000_000 MB", "usable_bytes", 912_207_860_121.6, "912207 MB"),
        ("power <= 0.55 kW", "power_w", 668.34, "0.6684 kW"),
        ("wall_s <= 40 ms", "wall_s", 0.046_531, "46.54 ms"),
        ("nodes <= 2", "nodes", 4.0, "4"),
    ],
)
def test_an_amount_that_is_offered_as_a_limit_lets_the_value_in(
    within: str, name: str, value: float, said: str
) -> None:
    """Also in the unit of the limit, and as `--within` reads it: 8.955e+04 EUR was neither."""
    known = (*KNOWN, "wall_s")
    (limit,) = parse_wishes("events/s", within, "EUR", known).limits
    assert limit.quantity.name == name and limit.written(value) == said
    again = f"{within.split(limit.sense)[0]} {limit.sense} {said}"
    assert parse_wishes("events/s", again, "EUR", known).limits[0].holds(value)


def test_the_limit_that_is_named_admits_the_configuration_that_is_named(tmp_path: Path) -> None:
    records = _results(tmp_path / "r", {"a": 0.0, "b": 0.5}, device_bytes_per_s=5e7)
    (change,) = _answer([records], "efficiency >= 90 %").changes
    within = change.what.removeprefix("a limit of ")
    leading = _answer([records], within).choice.leading
    assert leading is not None and leading.candidate.key == change.leads


def test_an_unlimited_life_is_no_number_in_json(tmp_path: Path) -> None:
    """Nothing is written: the drives last for ever, and the quantiles of that are not NaN."""
    drive = {"price": 100, "date": 2026, "endurance": "600 TB"}
    target = {name: {"drives": {"d": 1}, "usable": "1 TB"} for name in ("a", "b")}
    offers = Offers.model_validate({"drive": {"d": drive}, "target": target})
    made = _answer([_results(tmp_path / "r", {"a": 0.0, "b": 0.5})], "life >= 5 y", offers)
    first = made.choice.judged[0].candidate
    assert first.interval("wear_years") == (np.inf, np.inf)
    text = json.dumps(as_json(made), allow_nan=False)
    values = json.loads(text)["configurations"][0]
    assert values["values"]["wear_years"] is None and "wear_years" not in values["intervals"]


def test_the_workload_of_a_mix_that_lacks_what_is_wanted_is_named(tmp_path: Path) -> None:
    scan = _results(tmp_path / "r", {"a": 0.0, "b": 0.5})
    cells = [{"target": name, "workload": "seq", "slots": 4} for name in ("a", "b")]
    moves = Truth(loads_storage=True, job_events=0)
    seq = read(write_results(tmp_path / "s", plan_of(cells, 4), moves, series=False))
    assert "rate is unknown for every configuration: trials of seq have no such value" in headline(
        _answer([scan, seq])
    )
    assert _answer([scan, seq], shares={"scan": 1.0}).choice.recommended is not None


def test_a_price_for_performance_is_as_uncertain_as_the_performance(tmp_path: Path) -> None:
    records = _results(tmp_path / "r", {"a": 0.0, "b": 0.5}, slots=(4,))
    made = _answer([records], want="price/event/s", offers=_priced(100, 900))
    for each in made.choice.judged:
        one = each.candidate
        price = one.points["price"]
        assert one.points["price_per_event_per_s"] == price / one.points["events_per_s"]
        low, high = one.interval("price_per_event_per_s") or (0, 0)
        rates = one.interval("events_per_s") or (0, 0)
        assert (low, high) == pytest.approx((price / rates[1], price / rates[0]), rel=0.01)
        throughput = one.interval("throughput_jobs") or (0, 0)
        assert throughput[0] <= one.points["throughput_jobs"] <= throughput[1]
    unpriced = _answer([records], want="price/throughput", offers=Offers.model_validate({}))
    assert "price per throughput is unknown for every configuration: the" in headline(unpriced)


@pytest.mark.parametrize(
    ("within", "said"),
    [
        ("power <= 100 W", "power <= 100 W excludes every configuration; the nearest has 200 W"),
        ("power <= 0.1 kW", "power <= 0.1 kW excludes every configuration; the nearest has 0.2 kW"),
        ("price <= 1500 EUR, usable >= 1 TB", "usable capacity is unknown for every"),
        ("price <= 1050 EUR, power <= 199 W", "price <= 1050 EUR excludes every"),
    ],
)
def test_the_wish_that_excludes_everything_is_named(tmp_path: Path, within: str, said: str) -> None:
    made = _answer([_results(tmp_path / "r", {"a": 0.0, "b": 0.5})], within)
    assert made.choice.recommended is None and said in headline(made)


def test_limits_that_only_together_exclude_everything_say_which_to_drop(tmp_path: Path) -> None:
    records = _results(tmp_path / "r", {"a": 0.0, "b": 0.5}, slots=(4,))
    offers = _priced(100, 900)
    fast = max(values["events_per_s"] for values in records.trials["metrics"]) * 0.9
    slow_only = _answer([records], f"price <= 1500 EUR, events/s >= {fast:.0f} events/s", offers)
    assert "no configuration keeps all limits together" in slow_only.choice.excluding


def test_a_decision_refuses_to_rest_on_no_valid_trial(tmp_path: Path) -> None:
    cells = [{"target": "a", "workload": "scan", "slots": 1}]
    root = write_results(
        tmp_path / "r", plan_of(cells, 2), Truth(), broken={0: "invalid", 1: "failed"}
    )
    with pytest.raises(RefusedError, match="no valid trial"):
        decide([root])


def test_invalid_trials_are_left_out_and_counted(tmp_path: Path) -> None:
    cells = [{"target": name, "workload": "scan", "slots": 1} for name in ("a", "b")]
    truth = Truth(effects={"target": {"a": 0.0, "b": 1.0}}, trial_sigma=0.01)
    root = write_results(tmp_path / "r", plan_of(cells, 3), truth, broken={1: "invalid"})
    made = _answer([read(root)])
    assert made.choice.basis.left_out == 1 and made.choice.basis.trials == 5


def test_a_mix_weighs_the_workloads_by_their_events(tmp_path: Path) -> None:
    cells = [{"target": "a", "workload": workload, "slots": 1} for workload in ("scan", "analysis")]
    truth = Truth(effects={"workload": {"scan": 1.0, "analysis": 0.0}}, trial_sigma=0.0)
    records = read(write_results(tmp_path / "r", plan_of(cells, 2), truth, series=False))
    rates = {
        row["workload"]: row["metrics"]["events_per_s"] for row in records.trials.to_dict("records")
    }
    made = _answer([records], shares={"scan": 3, "analysis": 1})
    value = made.choice.judged[0].candidate.points["events_per_s"]
    assert value == pytest.approx(1 / (0.75 / rates["scan"] + 0.25 / rates["analysis"]))
    with pytest.raises(UsageError, match="no result set has a workload 'skim'"):
        _answer([records], shares={"skim": 1})


def test_bytes_of_a_mix_are_those_of_its_events_over_its_time(tmp_path: Path) -> None:
    """So are those that are written, by which drives wear out."""
    cells = [{"target": "a", "workload": workload, "slots": 1} for workload in ("scan", "analysis")]
    truth = Truth(effects={"workload": {"scan": 1.0, "analysis": 0.0}}, trial_sigma=0.0)
    records = read(write_results(tmp_path / "r", plan_of(cells, 2), truth, series=False))
    rows = records.trials.to_dict("records")
    for row in rows:
        scan = row["workload"] == "scan"
        row["metrics"] = {**row["metrics"], "asked_bytes_per_s": 1e6 if scan else 50e6}
        row["device_bytes_written"] = 0.0 if scan else 1e6 * row["last_done_s"]
    events = {row["workload"]: row["metrics"]["events_per_s"] for row in rows}
    changed = records.trials.assign(
        metrics=[row["metrics"] for row in rows],
        device_bytes_written=[row["device_bytes_written"] for row in rows],
    )
    holds = {"drives": {"a": 1}, "nodes": {"worker": 1}, "usable": "1 TB"}
    drive = {"a": {"price": 9, "date": 2026, "endurance": "100 TB"}}
    offers = Offers.model_validate(
        {"node": {"worker": {"price": 1, "date": 2026}}, "drive": drive, "target": {"a": holds}}
    )
    shares = {"scan": 3.0, "analysis": 1.0}
    made = _answer([replace(records, trials=changed)], offers=offers, shares=shares)
    scan_s, analysis_s = 0.75 / events["scan"], 0.25 / events["analysis"]
    points = made.choice.judged[0].candidate.points
    total_s = scan_s + analysis_s
    assert points["asked_bytes_per_s"] == pytest.approx(
        (1e6 * scan_s + 50e6 * analysis_s) / total_s
    )
    assert points["wear_years"] == pytest.approx(
        100e12 / (1e6 * analysis_s / total_s * 8766 * 3600)
    )


@pytest.mark.parametrize("factor", ["nodes", "run.nodes"])
def test_more_nodes_are_simulated_whatever_the_factor_is_called(
    tmp_path: Path, factor: str
) -> None:
    levels = f'target = ["a"]\n"{factor}" = [1, 2]\n"run.slots" = [1, 2]'
    text = SCALED.replace('target = ["a", "b", "c"]\nslots = [1, 4]', levels)
    (tmp_path / "s.toml").write_text(text)
    records = read(simulate(tmp_path / "s.toml", tmp_path / "r"))
    made = _answer([scaled(records, 8)])
    assert {each.nodes for each in made.choice.basis.candidates} == {8}
    assert {tuple(each.levels) for each in made.choice.basis.candidates} == {("slots",)}


def test_a_measured_cell_counts_more_than_its_simulation_and_gives_the_model_s_error(
    tmp_path: Path,
) -> None:
    measured = _results(tmp_path / "m", {"a": 0.0, "b": 0.5})
    simulated = _results(
        tmp_path / "s", {"a": 0.1, "b": 0.6}, engine="simulate", provenance="simulated", sigma=0.0
    )
    basis = _answer([measured, simulated]).choice.basis
    assert {each.provenance for each in basis.candidates} == {"measured"}
    alone = replace(simulated, trials=simulated.trials.assign(provenance="simulated"))
    simulated_only = _answer([alone]).choice.basis
    assert simulated_only.model_error_source == "assumed"
    both = _answer([measured, simulated]).choice.basis
    assert both.notes


SCALED = """
headrace = 1
title = "scaled"
[target.a]
kind = "block"
drive = "wd-wd3200bekt"
[target.b]
kind = "block"
drive = "samsung-870-evo-1tb"
[target.c]
kind = "path"
path = "."
[workload.scan]
kind = "scan"
data = { events = 2000, files = 4 }
[factors]
target = ["a", "b", "c"]
slots = [1, 4]
"""


def test_measured_cells_are_scaled_each_by_its_own_simulation(tmp_path: Path) -> None:
    """Repeats lie between one another in the plan. A target without a model is left out by name."""
    cells = [
        {"target": name, "workload": "scan", "slots": slots}
        for name in ("a", "b", "c")
        for slots in (1, 4)
    ]
    truth = Truth(effects={"target": {"a": 0.0, "b": 1.0}}, trial_sigma=0.05)
    root = write_results(
        tmp_path / "r", plan_of(cells, 2, ()), truth, study_text=SCALED, series=False
    )
    records = read(root)
    both = scaled(records, 3)
    assert any("target c" in warning for warning in both.warnings)
    measured = {row["id"]: row for row in records.trials.to_dict("records")}
    assert set(both.trials["target"]) == {"a", "b"} and len(both.trials) == 8
    ratios: dict[tuple[str, int], set[float]] = {}
    for row in both.trials.to_dict("records"):
        own = measured[row["id"]]
        assert (own["target"], own["slots"], own["repeat"]) == (
            row["target"],
            row["slots"],
            row["repeat"],
        )
        ratio = row["metrics"]["events_per_s"] / own["metrics"]["events_per_s"]
        ratios.setdefault((row["target"], row["slots"]), set()).add(round(ratio, 6))
    assert all(len(each) == 1 for each in ratios.values()), ratios
    assert len({min(each) for each in ratios.values()}) > 1, "cells differ"


def test_a_number_of_slots_with_which_another_storage_leads_is_named(tmp_path: Path) -> None:
    """Storage b is twice as fast for one job, and does not get faster with four."""
    cells = [
        {"target": name, "workload": "scan", "slots": slots}
        for name in ("a", "b")
        for slots in (1, 4)
    ]
    truth = Truth(effects={"target": {"a": 0.0, "b": 0.7}}, trial_sigma=0.0, cores=64, site_w=200.0)
    root = write_results(tmp_path / "r", plan_of(cells, 2), truth, series=False)
    records = read(root)
    for row in records.trials.to_dict("records"):
        if (row["target"], row["slots"]) == ("b", 4):
            row["metrics"]["events_per_s"] /= 4
    by = {each.what: each.leads for each in _answer([records]).changes}
    assert by["1 slot per node"] == "b, 1 slot"
    same = {each.what for each in _answer([_results(tmp_path / "s", {"a": 0.0, "b": 0.7})]).changes}
    assert not any("per node" in what for what in same)


NODES = """
headrace = 1
title = "nodes"
[site.server.nas]
machine = "generic-server"
link = "1 GbE"
[target.local]
kind = "block"
drive = "wd-wd3200bekt"
[target.nas]
kind = "nfs"
server = "nas"
export = { drive = "samsung-870-evo-1tb" }
[workload.read]
kind = "sequential"
mode = "read"
file_size = "64 MiB"
[plan]
repeats = { min = 1 }
"""


def test_a_number_of_nodes_with_which_another_storage_leads_is_named(tmp_path: Path) -> None:
    """A server feeds one node faster than its disk does; four disks together are faster."""
    file = tmp_path / "nodes.toml"
    file.write_text(NODES)
    results = simulate(file, tmp_path / "r")
    made, _ = decide([results], want="asked_bytes_per_s")
    leading = made.choice.leading
    assert leading is not None and leading.candidate.target == "nas"
    by = {each.what: each.leads for each in made.changes}
    assert [lead for what, lead in by.items() if "nodes" in what] == ["local, 1 slot"], by


def test_single_trials_alone_name_no_winner_by_a_small_difference(tmp_path: Path) -> None:
    made = _answer([_results(tmp_path / "r", {"a": 0.0, "b": 0.05}, sigma=0.0, repeats=1)])
    assert made.choice.recommended is None
    assert any("no configuration was measured twice" in note for note in made.choice.basis.notes)


def test_a_single_trial_has_the_spread_of_the_others(tmp_path: Path) -> None:
    several = _results(tmp_path / "m", {"a": 0.0}, sigma=0.2, repeats=6)
    one = _results(tmp_path / "o", {"b": 0.0}, sigma=0.2, repeats=1)
    judged = _answer([several, one]).choice.judged
    widths = {
        each.candidate.target: float(np.std(np.log(each.candidate.draws["events_per_s"])))
        for each in judged
        if each.candidate.slots == 4
    }
    assert widths["b"] > 0.05 and widths["b"] > widths["a"]
