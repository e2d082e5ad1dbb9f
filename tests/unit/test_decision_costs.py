"""Costs by arithmetic."""

from __future__ import annotations

import math
from typing import Any

import pytest
from msgspec.structs import replace

from headrace.decision.costs import Activity, copies_written, costs_of
from headrace.decision.offers import Offers, with_catalog
from headrace.records.inventory import InventoryItem


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
    assert found["drive_failures_per_year"] == pytest.approx(-4 * math.log(0.98))
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


def test_each_drive_of_a_target_has_its_own_price_whatever_the_offers_state_of_the_target() -> None:
    """A study with several drives at one target: what is stated of the target is of none of them.
    One drive is offered, one is of the catalog only."""
    offers = _offers(target={"t": {"drives": {"a": 2}, "usable": "900 GB"}})
    for name, price in (("sata-7200-500gb", 4000 + 50), ("intel-x25-m-g2-160gb", None)):
        recorded = (
            InventoryItem(part="node", name="generic-node", host="node", count=1),
            InventoryItem(part="drive", name=name, host="node", count=1, usable_bytes=160e9),
        )
        costs = costs_of(recorded, "t", Activity(None, None), offers)
        assert costs.values.get("price") == price
        assert costs.values["usable_bytes"] == pytest.approx(160e9 * 0.9)
        assert any("[target.t] are not used" in each for each in costs.assumptions)


def test_what_is_stated_of_a_recorded_drive_leaves_out_the_system_disk() -> None:
    """Its name is that of the records: two of them, and no other drive, are priced."""
    stated = {"t": {"drives": {"sata-7200-500gb": 2}, "usable": "900 GB"}}
    recorded = (
        InventoryItem(part="node", name="generic-node", host="node", count=1),
        InventoryItem(part="drive", name="intel-x25-m-g2-160gb", host="node", count=1),
        InventoryItem(part="drive", name="sata-7200-500gb", host="node", count=1),
    )
    costs = costs_of(recorded, "t", Activity(None, None), _offers(target=stated))
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


def test_a_price_that_lacks_an_exchange_rate_says_so() -> None:
    def why(rates: dict[str, object]) -> str:
        offers = with_catalog(Offers.model_validate({"currency": "EUR", "rates": rates}))
        drive = InventoryItem(part="drive", name="sata-7200-500gb", host="node", count=1)
        return costs_of((drive,), "t", Activity(None, None), offers).unknown.get("price", "")

    assert why({}) == (
        "no offer for drive sata-7200-500gb (the catalog's is in GBP, of which [rates] states no "
        "price)"
    )
    assert why({"GBP": {"rate": 1.15, "date": 2026}}) == ""


def test_copies_are_written_too() -> None:
    """Three copies on four servers: of each byte that jobs write, three reach the drives."""
    server = InventoryItem(part="server", name="generic-server", host="data", count=4)
    drives = InventoryItem(
        part="drive",
        name="sata-7200-500gb",
        host="data",
        count=4,
        usable_bytes=4 * 500e9 / 3,
        size_bytes=500 * 10**9,
    )
    assert copies_written((server, drives)) == pytest.approx(3)
    mirrored = replace(drives, count=8, raid_level=1, usable_bytes=4 * 500e9)
    assert copies_written((server, mirrored)) == 1, "those of a RAID are counted with its drives"
    assert copies_written((server, replace(drives, source="device"))) == 1
    assert copies_written((server,)) == 1


def test_switches_that_the_records_count_are_a_part_without_an_offer() -> None:
    nodes = (InventoryItem(part="node", name="generic-node", host="node", count=3),)
    activity = Activity(300.0, None, with_switches=True, has_switches=True)
    without = costs_of(nodes, "t", activity, _offers(switch={}))
    assert "price" not in without.values and "switches" in without.unknown["price"]
    assert costs_of(nodes, "t", activity, _offers()).values["price"] == 12_000 + 700


def test_machines_without_a_switch_are_said_to_have_none_in_the_price() -> None:
    nodes = (InventoryItem(part="node", name="generic-node", host="node", count=3),)
    (note,) = costs_of(nodes, "t", Activity(300.0, None), _offers(switch={})).assumptions
    assert "no switch is in the price and the power: 3 nodes" in note
    one = (replace(nodes[0], count=1),)
    assert costs_of(one, "t", Activity(300.0, None), _offers(switch={})).assumptions == ()


def test_rack_units_are_of_switches_too_and_unknown_without_an_offer() -> None:
    nodes = (InventoryItem(part="node", name="generic-node", host="node", count=3),)
    switch = {"s": {"price": 700, "date": 2026, "ports": 4, "rack_units": 1}}
    found = costs_of(nodes, "t", Activity(300.0, None), _offers(switch=switch))
    assert found.values["rack_units"] == 4
    lacking = costs_of(RAID_5, "nas", Activity(500.0, None), _offers(server={}))
    assert "server generic-server" in lacking.unknown["rack_units"]


def test_the_write_amplification_that_is_assumed_is_named_with_its_drive() -> None:
    notes = costs_of(RAID_5, "nas", Activity(500.0, 1e6), _offers()).assumptions
    said = "write amplification of drive sata-7200-500gb: 1, as neither offers nor records state"
    assert any(note.startswith(said) for note in notes)


def test_a_price_per_rate_without_the_rate_has_a_reason() -> None:
    found = costs_of(RAID_5, "nas", Activity(500.0, None), _offers())
    assert found.unknown["price_per_event_per_s"] == "its trials have no events"
