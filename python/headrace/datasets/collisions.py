"""Simulated proton collisions: Higgs to four leptons, and ZZ, Z + jets and top-like background.

All shapes of data set take their physics from here; `shapes.py` adds the columns. Events come in
blocks of fixed size with random streams of their own, so an event is the same in every file,
cluster and shape.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.datasets.kinematics import (
    ELECTRON_MASS_GEV,
    HIGGS_MASS_GEV,
    MUON_MASS_GEV,
    Z_MASS_GEV,
    Z_WIDTH_GEV,
    Floats,
    breit_wigner,
    decay,
    from_pt_rapidity,
    higgs_z_masses,
    to_pt_eta_phi,
)

Ints = npt.NDArray[np.int64]

BLOCK_EVENTS = 2048
"""Events per block.

The bytes of a data set depend on it: increment GENERATOR_VERSION when it changes.
"""

SIGNAL, ZZ, Z_JETS, TOP = 0, 1, 2, 3
BACKGROUND_SHARES = {ZZ: 0.04, Z_JETS: 0.56, TOP: 0.40}
"""Chosen so that a search finds its peak over a flat continuum.

Real cross sections differ by orders of magnitude.
"""


def stream(seed: int, name: str, block: int) -> np.random.Generator:
    """Return the random stream of this name for one block of events."""
    return np.random.default_rng(np.random.SeedSequence([seed, zlib.crc32(name.encode()), block]))


@dataclass(frozen=True)
class Objects:
    """One collection of reconstructed objects of a block, by event, then descending momentum."""

    event: Ints
    pt: Floats
    eta: Floats
    phi: Floats
    flags: dict[str, npt.NDArray[Any]]
    """Further simulated properties: charge, whether prompt, mass …"""

    def counts(self, events: int) -> npt.NDArray[np.int32]:
        """Return the number of objects per event, shape (events,)."""
        return np.bincount(self.event, minlength=events).astype(np.int32)


@dataclass(frozen=True)
class Collisions:
    """A block of reconstructed collisions."""

    events: int
    first_event: int
    process: npt.NDArray[np.int8]
    electrons: Objects
    muons: Objects
    jets: Objects
    tracks: Objects
    missing_pt: Floats
    missing_phi: Floats
    sum_et: Floats
    vertices: Ints
    vertex: Floats
    """Primary vertex x, y, z in cm, shape (3, events)."""
    signal_selected: npt.NDArray[np.bool_]
    """Signal events with four leptons reconstructed, identified, isolated and in acceptance."""


def _sorted(
    event: Ints, pt: Floats, eta: Floats, phi: Floats, flags: dict[str, npt.NDArray[Any]]
) -> Objects:
    order = np.lexsort((-pt, event))
    return Objects(
        event[order],
        pt[order],
        eta[order],
        phi[order],
        {name: of[order] for name, of in flags.items()},
    )


@dataclass(frozen=True)
class _Leptons:
    event: Ints
    momentum: Floats
    charge: Ints
    is_muon: npt.NDArray[np.bool_]


def _four_leptons(
    rng: np.random.Generator,
    event: Ints,
    boson: Floats,
    boson_mass: Floats,
    masses: tuple[Floats, Floats],
) -> list[_Leptons]:
    """Decay boson -> Z Z -> four leptons."""
    first_z, second_z = decay(rng, boson, boson_mass, *masses)
    return [
        *_lepton_pair(rng, event, first_z, masses[0]),
        *_lepton_pair(rng, event, second_z, masses[1]),
    ]


def _lepton_pair(
    rng: np.random.Generator, event: Ints, boson: Floats, mass: Floats
) -> list[_Leptons]:
    """Decay Z -> electron pair or muon pair, equally often."""
    is_muon = rng.random(len(event)) < 0.5
    lepton_mass = np.where(is_muon, MUON_MASS_GEV, ELECTRON_MASS_GEV)
    minus, plus = decay(rng, boson, mass, lepton_mass, lepton_mass)
    charge = np.ones(len(event), np.int64)
    return [_Leptons(event, minus, -charge, is_muon), _Leptons(event, plus, charge, is_muon)]


def _boson(rng: np.random.Generator, mass: Floats, mean_pt: float, rapidity_width: float) -> Floats:
    """Return a boson produced by two protons: falling transverse momentum, central rapidity."""
    count = len(mass)
    rapidity = np.clip(rng.normal(0, rapidity_width, count), -4, 4)
    return from_pt_rapidity(
        rng.gamma(1.5, mean_pt / 1.5, count), rapidity, rng.uniform(-np.pi, np.pi, count), mass
    )


def _prompt_leptons(rng: np.random.Generator, process: npt.NDArray[np.int8]) -> list[_Leptons]:
    found: list[_Leptons] = []
    event = np.flatnonzero(process == SIGNAL)
    mass = np.full(len(event), HIGGS_MASS_GEV)
    found += _four_leptons(
        rng, event, _boson(rng, mass, 30, 1.1), mass, higgs_z_masses(rng, len(event))
    )

    event = np.flatnonzero(process == ZZ)
    kind = rng.random(len(event))
    mass = 2 * Z_MASS_GEV + rng.exponential(60, len(event))
    mass = np.where(kind < 0.25, rng.uniform(98, 2 * Z_MASS_GEV, len(event)), mass)
    mass = np.where(
        kind < 0.08, breit_wigner(rng, 80, np.full(len(event), 98.0), Z_MASS_GEV, Z_WIDTH_GEV), mass
    )
    first = breit_wigner(rng, 12.0, mass - 13, Z_MASS_GEV, Z_WIDTH_GEV)
    second = breit_wigner(rng, 4.0, mass - first - 0.1, Z_MASS_GEV, Z_WIDTH_GEV)
    found += _four_leptons(rng, event, _boson(rng, mass, 24, 1.3), mass, (first, second))

    event = np.flatnonzero(process == Z_JETS)
    low = rng.random(len(event)) < 0.06
    mass = breit_wigner(rng, 40, np.full(len(event), 200.0), Z_MASS_GEV, Z_WIDTH_GEV)
    mass = np.where(low, 12 + rng.exponential(18, len(event)), mass)
    found += _lepton_pair(rng, event, _boson(rng, mass, 16, 1.6), mass)

    top = np.flatnonzero(process == TOP)
    event = np.sort(np.concatenate([top, top[rng.random(len(top)) < 0.3]]))
    charge = np.where(rng.random(len(event)) < 0.5, -1, 1)
    momentum = from_pt_rapidity(
        10 + rng.gamma(2.0, 16, len(event)),
        np.clip(rng.normal(0, 1.1, len(event)), -4, 4),
        rng.uniform(-np.pi, np.pi, len(event)),
        np.zeros(len(event)),
    )
    found.append(_Leptons(event, momentum, charge, rng.random(len(event)) < 0.5))
    return found


def _fake_leptons(rng: np.random.Generator, events: int, mean: float, is_muon: bool) -> _Leptons:
    """Return leptons from hadron decays and misidentified jets: soft, not isolated."""
    event = np.repeat(np.arange(events), rng.poisson(mean, events))
    count = len(event)
    momentum = from_pt_rapidity(
        3.5 + rng.exponential(5, count),
        rng.normal(0, 1.3, count),
        rng.uniform(-np.pi, np.pi, count),
        np.zeros(count),
    )
    return _Leptons(
        event, momentum, np.where(rng.random(count) < 0.5, -1, 1), np.full(count, is_muon)
    )


def _reconstruct(
    rng: np.random.Generator, prompt: list[_Leptons], fake: _Leptons, muons: bool
) -> Objects:
    """Return the detector's view of leptons of one flavour.

    They are smeared, some are lost, and each gets isolation and identification.
    """
    chosen = [of.is_muon == muons for of in prompt]
    event = np.concatenate(
        [*(of.event[keep] for of, keep in zip(prompt, chosen, strict=True)), fake.event]
    )
    momentum = np.concatenate(
        [*(of.momentum[:, keep] for of, keep in zip(prompt, chosen, strict=True)), fake.momentum],
        axis=1,
    )
    charge = np.concatenate(
        [*(of.charge[keep] for of, keep in zip(prompt, chosen, strict=True)), fake.charge]
    )
    is_prompt = np.arange(len(event)) < len(event) - len(fake.event)
    pt, eta, phi = to_pt_eta_phi(momentum)
    count = len(event)
    # Resolutions and efficiencies similar to those that CMS reports for electrons and muons of
    # 5 to 100 GeV (JINST 16 (2021) P05014 and JINST 13 (2018) P06015): about 1 % for muons,
    # 1.5 to 3 % for electrons.
    resolution = (
        0.009 + 0.004 * np.abs(eta) + 0.00005 * pt if muons else np.hypot(0.012, 0.09 / np.sqrt(pt))
    )
    pt = pt * (1 + resolution * rng.standard_normal(count))
    eta = eta + 0.0008 * rng.standard_normal(count)
    phi = np.remainder(phi + 0.0008 * rng.standard_normal(count) + np.pi, 2 * np.pi) - np.pi
    efficiency = 0.98 if muons else 0.93 * -np.expm1(-pt / 5)
    seen = (rng.random(count) < efficiency) & (pt > 3) & (np.abs(eta) < (2.4 if muons else 2.5))
    isolation = np.where(is_prompt, rng.exponential(0.05, count), 0.1 + rng.gamma(1.5, 0.5, count))
    isolation = np.where(is_prompt & (rng.random(count) < 0.25), 0.0, isolation)
    identified = rng.random(count) < np.where(is_prompt, 0.96, 0.35)
    flags: dict[str, npt.NDArray[Any]] = {
        "charge": charge.astype(np.int32),
        "prompt": is_prompt,
        "isolation": isolation,
        "identified": identified,
        "resolution": np.broadcast_to(resolution, count).copy(),
    }
    return _sorted(
        event[seen], pt[seen], eta[seen], phi[seen], {name: of[seen] for name, of in flags.items()}
    )


def _jets(rng: np.random.Generator, process: npt.NDArray[np.int8]) -> Objects:
    """Return jets above 15 GeV with a power-law spectrum; top events have more and harder jets."""
    mean = np.array([3.2, 3.0, 3.4, 5.5])[process]
    event = np.repeat(np.arange(len(process)), rng.poisson(mean))
    count = len(event)
    index = np.where(process[event] == TOP, 2.4, 3.0)
    pt = 15 * (1 - rng.random(count)) ** (-1 / index)
    pt = np.minimum(pt * (1 + 0.1 * rng.standard_normal(count)), 2000)
    eta = np.clip(rng.normal(0, 2.0, count), -4.7, 4.7)
    bottom = rng.random(count) < np.where(process[event] == TOP, 0.35, 0.05)
    flags: dict[str, npt.NDArray[Any]] = {
        "mass": pt * rng.gamma(6.0, 0.022, count),
        "bottom": bottom,
    }
    keep = pt > 15
    return _sorted(
        event[keep],
        pt[keep],
        eta[keep],
        rng.uniform(-np.pi, np.pi, count)[keep],
        {name: of[keep] for name, of in flags.items()},
    )


def _tracks(rng: np.random.Generator, vertices: Ints) -> Objects:
    """Return charged tracks above 0.5 GeV: a few from each vertex, most of them soft."""
    event = np.repeat(np.arange(len(vertices)), rng.poisson(1 + 0.3 * vertices))
    count = len(event)
    flags: dict[str, npt.NDArray[Any]] = {
        "charge": np.where(rng.random(count) < 0.5, -1, 1).astype(np.int32),
        "prompt": rng.random(count) < 0.35,
    }
    pt = 0.5 * (1 - rng.random(count)) ** (-1 / 2.2)
    return _sorted(
        event,
        np.minimum(pt, 800),
        rng.uniform(-2.5, 2.5, count),
        rng.uniform(-np.pi, np.pi, count),
        flags,
    )


def _selected(
    process: npt.NDArray[np.int8], electrons: Objects, muons: Objects
) -> npt.NDArray[np.bool_]:
    good = np.zeros(len(process), np.int64)
    for of, lowest_pt in ((electrons, 7.0), (muons, 5.0)):
        keep = (
            of.flags["prompt"]
            & of.flags["identified"]
            & (of.flags["isolation"] < 0.35)
            & (of.pt > lowest_pt)
        )
        good += np.bincount(of.event[keep], minlength=len(process))
    return (process == SIGNAL) & (good == 4)


def generate_block(seed: int, block: int, signal_fraction: float) -> Collisions:
    """Return block number `block` of the collisions of this seed: BLOCK_EVENTS events."""
    events = BLOCK_EVENTS
    rng = stream(seed, "collisions", block)
    background = rng.choice(list(BACKGROUND_SHARES), events, p=list(BACKGROUND_SHARES.values()))
    process = np.where(rng.random(events) < signal_fraction, SIGNAL, background).astype(np.int8)
    prompt = _prompt_leptons(rng, process)
    electrons = _reconstruct(rng, prompt, _fake_leptons(rng, events, 0.45, False), muons=False)
    muons = _reconstruct(rng, prompt, _fake_leptons(rng, events, 0.35, True), muons=True)
    jets = _jets(rng, process)
    vertices = 1 + rng.poisson(rng.gamma(9.0, 3.4, events))
    tracks = _tracks(rng, vertices)
    sum_et = (
        150 + 22 * vertices + np.bincount(jets.event, jets.pt, events) + rng.exponential(40, events)
    )
    neutrino = np.where(process == TOP, rng.gamma(2.0, 22, events), 0.0)
    neutrino_phi = rng.uniform(-np.pi, np.pi, events)
    noise = 0.55 * np.sqrt(sum_et) * rng.standard_normal((2, events))
    missing = np.stack([neutrino * np.cos(neutrino_phi), neutrino * np.sin(neutrino_phi)]) + noise
    vertex = np.stack(
        [
            0.0104 + 0.0012 * rng.standard_normal(events),
            0.0417 + 0.0012 * rng.standard_normal(events),
            3.6 * rng.standard_normal(events),
        ]
    )
    return Collisions(
        events=events,
        first_event=block * BLOCK_EVENTS,
        process=process,
        electrons=electrons,
        muons=muons,
        jets=jets,
        tracks=tracks,
        missing_pt=np.hypot(*missing),
        missing_phi=np.arctan2(missing[1], missing[0]),
        sum_et=sum_et,
        vertices=vertices,
        vertex=vertex,
        signal_selected=_selected(process, electrons, muons),
    )
