"""Offers as written, the catalog's prices, and those of studies."""

from __future__ import annotations

from pathlib import Path

import pytest

from decided import answered, results_of
from headrace.decision.offers import (
    Offers,
    catalog_offers,
    load_offers,
    priced_offers,
    with_catalog,
)
from headrace.errors import RefusedError, StudyError
from headrace.report.decision import basis_sentences


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[drive.a]\nprice = 5\n", "drive.a.date: is missing"),
        ('[drive.a]\nprice = 5\ndate = 2026\ncurrency = "euro"\n', "three capital letters"),
        ('currency = "EUE"\n', "EUE is not a currency of ISO 4217"),
        ("[rates]\nUSDD = { rate = 1, date = 2026 }\n", "three capital letters"),
        ("[rates]\nUSD = { rate = 1 }\n", "rates.USD.date: is missing"),
        ('[node.a]\nprice = 5\ndate = 2026\npower = "90 VA"\n', "node.a.power"),
        ('[electricity]\nprice = "0.25 EUR/MWh"\n', "electricity.price"),
        ('[drive.a]\nprice = 5\ndate = 2026\ncurrency = "USD"\n', "[rates] USD"),
        (
            '[drive.a]\nprice = 5\ndate = 2026\ncurrency = "USD"\n',
            "offers.toml:4: drive.a.currency: the file is in EUR, and no rate of USD is given",
        ),
        ("[drive.a]\nprice = -5\ndate = 2026\n", "drive.a.price"),
        ("[drive.a]\nprice = 1e308\ndate = 2026\n", "drive.a.price: is too large (given: 1e+308)"),
        ("[drive.a]\nprice = true\ndate = 2026\n", "drive.a.price: must be a number (given: true)"),
        (
            "[drive.a]\nprice = 5\ndate = 2026\nfailures_per_year = 1\n",
            "drive.a.failures_per_year: is too large (given: 1); allowed: less than 1",
        ),
        (
            '[drive.a]\nprice = 5\ndate = 2026\nrebuild_rate = "1 B/s"\n',
            'rebuild_rate: is too small (given: "1 B/s"); allowed: at least 1.00 kB/s',
        ),
        ("[electricity]\nprice = 1e300\n", "electricity.price: is too large"),
        ("[rates]\nUSD = { rate = 1e-300, date = 2026 }\n", "rates.USD.rate: is too small"),
        ("[target.a]\ndrives = { x = -2 }\n", "target.a.drives.x: is too small (given: -2)"),
        ("pue = 1e9\n", "pue: is too large"),
        ("[drives.a]\nprice = 5\ndate = 2026\n", "drives"),
        ('[drive.a]\nprice = 5\ndate = 2026\ncapacity = "2 W"\n', "not a unit of size"),
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
    made = answered([results_of(tmp_path / "r", {"a": 0.0})], offers=with_catalog(priced))
    said = "Prices of the catalog, as no offer states one: corsair-f40 (2011)."
    assert said in basis_sentences(made)
    file.write_text('currency = "USD"\n[drive.corsair-f40]\ndate = 2026\n')
    with pytest.raises(StudyError, match=r"drive\.corsair-f40\.price: is missing"):
        load_offers(file)
    file.write_text('currency = "EUR"\n[drive.corsair-f40]\n')
    with pytest.raises(StudyError, match=r"\[rates\] USD"):
        load_offers(file)


def test_an_offer_of_a_misspelt_drive_is_told(tmp_path: Path) -> None:
    part = {"a": {"nodes": {"worker": 1}, "drives": {"corsair-f40": 1}}}
    offers = {
        "currency": "USD",
        "target": part,
        "node": {"worker": {"price": 1, "date": 2026}},
        "drive": {"corsair-f4": {"price": 80, "date": 2026}, "other": {"price": 5, "date": 2026}},
    }
    results = [results_of(tmp_path / "r", {"a": 0.0})]
    made = answered(results, offers=with_catalog(Offers.model_validate(offers)))
    said = (
        'The offer of drive "corsair-f4" is of no part here; did you mean "corsair-f40", which has '
        "none?"
    )
    assert said in basis_sentences(made)
    offers["drive"] = {"corsair-f40": {"price": 80, "date": 2026}}
    made = answered(results, offers=with_catalog(Offers.model_validate(offers)))
    assert not [text for text in basis_sentences(made) if "is of no part" in text]


def test_the_catalog_s_prices_are_in_the_currency_of_the_drives_that_are_judged() -> None:
    assert catalog_offers(["intel-x25-m-g2-160gb"]).currency == "GBP"
    assert catalog_offers(["samsung-870-evo-1tb", "no such drive"]).currency == "USD"


def test_the_offers_of_the_studies_count_where_no_file_is_given(tmp_path: Path) -> None:
    text = '[offers]\ncurrency = "EUR"\n[offers.drive.a]\nprice = {}\ndate = "2026-11"\n'
    sets = [results_of(tmp_path / name, {"a": 0.0}) for name in ("r", "s")]
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
