"""The generated collisions.

Kinematics, the share of signal, and that an event is the same wherever it lies.
"""

from __future__ import annotations

import numpy as np
import pytest

from headrace.datasets.collisions import BLOCK_EVENTS, SIGNAL, generate_block
from headrace.datasets.fillings import reduced
from headrace.datasets.further_columns import further
from headrace.datasets.kinematics import (
    HIGGS_MASS_GEV,
    boost,
    decay,
    from_pt_rapidity,
    higgs_z_masses,
)
from headrace.datasets.shapes import dressed_block
from headrace.datasets.table import columns_of


def mass_of(momentum: np.ndarray) -> np.ndarray:
    return np.sqrt(np.maximum(momentum[3] ** 2 - (momentum[:3] ** 2).sum(axis=0), 0))


def test_a_decay_conserves_momentum_and_energy_and_gives_the_masses_asked_for() -> None:
    rng = np.random.default_rng(3)
    count = 500
    mass = rng.uniform(100, 400, count)
    parent = from_pt_rapidity(
        rng.gamma(2, 30, count), rng.normal(0, 2, count), rng.uniform(-3, 3, count), mass
    )
    first_mass, second_mass = rng.uniform(1, 60, count), rng.uniform(0.1, 39, count)
    first, second = decay(rng, parent, mass, first_mass, second_mass)
    np.testing.assert_allclose(first + second, parent, rtol=1e-9, atol=1e-7)
    np.testing.assert_allclose(mass_of(first), first_mass, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(mass_of(second), second_mass, rtol=1e-4, atol=1e-3)


def test_decay_products_fly_in_all_directions_alike_in_the_rest_frame() -> None:
    rng = np.random.default_rng(4)
    count = 20_000
    mass = np.full(count, 125.0)
    at_rest = np.stack([np.zeros(count), np.zeros(count), np.zeros(count), mass])
    first, _ = decay(rng, at_rest, mass, np.full(count, 10.0), np.full(count, 20.0))
    cosine = first[2] / np.sqrt((first[:3] ** 2).sum(axis=0))
    assert abs(cosine.mean()) < 0.02
    assert cosine.var() == pytest.approx(1 / 3, rel=0.03)


def test_a_boost_of_a_particle_at_rest_is_its_frame() -> None:
    mass = np.array([5.0])
    frame = from_pt_rapidity(np.array([30.0]), np.array([1.2]), np.array([0.4]), mass)
    np.testing.assert_allclose(
        boost(np.array([[0.0], [0.0], [0.0], [5.0]]), frame, mass), frame, rtol=1e-12
    )


def test_one_z_of_a_higgs_is_near_its_mass_and_the_other_is_what_is_left() -> None:
    heavy, light = higgs_z_masses(np.random.default_rng(5), 20_000)
    assert (heavy + light < HIGGS_MASS_GEV).all()
    assert (heavy >= light - 0.25).all()
    assert np.median(heavy) == pytest.approx(90, abs=2)
    # The Standard Model's spectrum of the off-shell Z peaks near 30 GeV.
    assert 25 < np.median(light) < 35


def test_the_share_of_signal_is_the_one_asked_for() -> None:
    process = np.concatenate([generate_block(11, block, 0.2).process for block in range(4)])
    assert (process == SIGNAL).mean() == pytest.approx(0.2, abs=0.015)
    assert not (generate_block(11, 0, 0.0).process == SIGNAL).any()


def test_seeds_and_blocks_give_other_events_and_the_same_seed_the_same() -> None:
    one, again = generate_block(1, 5, 0.01), generate_block(1, 5, 0.01)
    np.testing.assert_array_equal(one.tracks.pt, again.tracks.pt)
    for other in (generate_block(2, 5, 0.01), generate_block(1, 6, 0.01)):
        assert len(other.tracks.pt) != len(one.tracks.pt) or not np.array_equal(
            other.tracks.pt, one.tracks.pt
        )


def test_objects_are_sorted_by_event_and_falling_momentum() -> None:
    block = generate_block(1, 0, 0.1)
    for objects in (block.electrons, block.muons, block.jets, block.tracks):
        same = np.diff(objects.event) == 0
        assert (np.diff(objects.event) >= 0).all()
        assert (np.diff(objects.pt)[same] <= 0).all()
        assert objects.counts(block.events).sum() == len(objects.pt)


def test_no_event_is_a_copy_of_another() -> None:
    table = dressed_block(1, 0, 0.01, "bench").table
    rows = np.stack(
        [table.scalars[name] for name in ("MET_pt", "MET_phi", "PV_z", "fixedGridRhoFastjetAll")],
        axis=1,
    )
    assert len(np.unique(rows, axis=0)) == BLOCK_EVENTS


def test_rounding_keeps_the_bits_asked_for_and_no_more() -> None:
    values = np.random.default_rng(1).normal(0, 50, 5000).astype(np.float32)
    for bits in (6, 8, 10, 12):
        rounded = reduced(values, bits)
        assert not (rounded.view(np.uint32) & np.uint32((1 << (23 - bits)) - 1)).any()
        np.testing.assert_allclose(rounded, values, rtol=2.0 ** -(bits + 1) * 1.0001)


def test_shapes_share_their_events_and_differ_in_columns() -> None:
    bench, nano = dressed_block(1, 3, 0.01, "bench").table, dressed_block(1, 3, 0.01, "nano").table
    assert len(columns_of(bench)) < 120
    assert 1500 <= len(columns_of(nano)) <= 1800, (
        "a NanoAOD of version 9 has 1 499, later ones more"
    )
    for name, values in bench.scalars.items():
        np.testing.assert_array_equal(nano.scalars[name], values)
    for name, (_, values) in bench.objects.items():
        np.testing.assert_array_equal(nano.objects[name][1], values)


def test_an_aod_has_thousands_of_columns_with_names_of_their_own() -> None:
    names = [name for name, _, _ in columns_of(dressed_block(1, 0, 0.01, "aod").table)]
    assert 3900 <= len(names) <= 4300, "an AOD of ATLAS has some 3 900 branches"
    assert (
        len(set(names))
        == len(names)
        == 95 + len(further("aod").columns) + len(further("aod").collections)
    )
