"""Add the columns of a data set to collisions: `bench`, `nano` or `aod`.

Names and precisions follow CMS NanoAOD. `bench` has what an analysis needs, about 1 kB per event;
`nano` adds the hundreds of other columns of a NanoAOD file, `aod` adds thousands (see
`fillings.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from headrace.datasets.collisions import (
    BLOCK_EVENTS,
    SIGNAL,
    Collisions,
    Objects,
    generate_block,
    stream,
)
from headrace.datasets.fillings import fill, reduced
from headrace.datasets.further_columns import further
from headrace.datasets.kinematics import ELECTRON_MASS_GEV, MUON_MASS_GEV
from headrace.datasets.spec import Shape
from headrace.datasets.table import Array, Table, columns_of

TRIGGERS = (
    "HLT_Ele27_WPTight_Gsf",
    "HLT_Ele23_Ele12_CaloIdL_TrackIdL_IsoVL",
    "HLT_IsoMu24",
    "HLT_IsoTkMu24",
    "HLT_Mu17_TrkIsoVVL_Mu8_TrkIsoVVL",
    "HLT_Mu23_TrkIsoVVL_Ele12_CaloIdL_TrackIdL_IsoVL",
    "HLT_TripleMu_12_10_5",
    "HLT_PFMET120_PFMHT120_IDTight",
    "HLT_PFJet450",
    "HLT_AK8PFJet360_TrimMass30",
)


def _floats(values: npt.ArrayLike, bits: int) -> Array:
    return reduced(np.asarray(values, np.float32), bits)


def _event(rng: np.random.Generator, block: Collisions) -> dict[str, Array]:
    events = block.events
    number = block.first_event + np.arange(events)
    electrons, muons = block.electrons, block.muons
    electron_trigger = np.bincount(electrons.event[electrons.pt > 29], minlength=events) > 0
    muon_trigger = np.bincount(muons.event[muons.pt > 25], minlength=events) > 0
    rates = [0.0, 0.12, 0.0, 0.02, 0.16, 0.08, 0.02, 0.01, 0.003, 0.006]
    fired = [rng.random(events) < rate for rate in rates]
    fired[0], fired[2] = electron_trigger, muon_trigger
    bunch = rng.integers(1, 3565, events).astype(np.int32)
    return {
        "run": np.full(events, 297050, np.uint32),
        "luminosityBlock": (1 + number // 500).astype(np.uint32),
        "event": (1 + number).astype(np.uint64),
        "bunchCrossing": bunch,
        "MET_pt": _floats(block.missing_pt, 10),
        "MET_phi": _floats(block.missing_phi, 10),
        "MET_sumEt": _floats(block.sum_et, 10),
        "MET_significance": _floats(block.missing_pt**2 / (0.3 * block.sum_et), 10),
        "MET_covXX": _floats(0.3 * block.sum_et * rng.gamma(30, 1 / 30, events), 8),
        "MET_covYY": _floats(0.3 * block.sum_et * rng.gamma(30, 1 / 30, events), 8),
        "PV_npvs": block.vertices.astype(np.int32),
        "PV_npvsGood": rng.binomial(block.vertices, 0.85).astype(np.int32),
        "PV_x": _floats(block.vertex[0], 10),
        "PV_y": _floats(block.vertex[1], 10),
        "PV_z": _floats(block.vertex[2], 16),
        "PV_chi2": _floats(rng.gamma(20, 0.05, events), 8),
        "PV_ndof": _floats(rng.gamma(6, 12, events), 8),
        "fixedGridRhoFastjetAll": _floats(0.62 * block.vertices + rng.normal(0, 1.2, events), 10),
        "genWeight": np.where(rng.random(events) < 0.02, -1.0, 1.0).astype(np.float32),
        "Pileup_nTrueInt": _floats(block.vertices + rng.normal(0, 2, events), 8),
        **dict(zip(TRIGGERS, fired, strict=True)),
    }


def _impact(rng: np.random.Generator, of: Objects, bits: int) -> dict[str, Array]:
    """Return impact parameters (cm): narrow for objects from the vertex, else long-tailed."""
    count = len(of.pt)
    spread = np.where(of.flags["prompt"], 1.0, 5.0) * np.exp(0.5 * rng.standard_normal(count))
    size = 0.0015 + 0.012 / np.maximum(of.pt, 0.5)
    return {
        "dxy": _floats(size * spread * rng.standard_normal(count), bits),
        "dz": _floats(2.2 * size * spread * rng.standard_normal(count), bits),
    }


def _leptons(
    rng: np.random.Generator, of: Objects, mass: float, pdg: int, cone: str
) -> dict[str, Array]:
    count = len(of.pt)
    impact = _impact(rng, of, 10)
    charge = of.flags["charge"]
    identified, isolation = of.flags["identified"], of.flags["isolation"]
    return {
        "pt": _floats(of.pt, 12),
        "eta": _floats(of.eta, 12),
        "phi": _floats(of.phi, 12),
        "mass": np.full(count, mass, np.float32),
        "charge": charge.astype(np.int32),
        "pdgId": (-pdg * charge).astype(np.int32),
        **impact,
        "sip3d": _floats(np.abs(impact["dxy"]) / 0.002 + rng.gamma(2.0, 0.4, count), 10),
        f"pfRelIso{cone}_all": _floats(isolation, 10),
        "ptErr": _floats(of.flags["resolution"] * of.pt, 6),
        "looseId": identified,
        "tightId": identified & (rng.random(count) < 0.85),
        "jetIdx": np.where(isolation > 0.35, rng.integers(0, 4, count), -1).astype(np.int32),
    }


def _electrons(rng: np.random.Generator, of: Objects) -> dict[str, Array]:
    count = len(of.pt)
    prompt = of.flags["prompt"]
    return {
        **_leptons(rng, of, ELECTRON_MASS_GEV, 11, "03"),
        "cutBased": np.where(
            of.flags["identified"], rng.integers(2, 5, count), rng.integers(0, 2, count)
        ).astype(np.int32),
        "hoe": _floats(
            np.where(rng.random(count) < 0.6, 0, rng.exponential(np.where(prompt, 0.02, 0.2))), 8
        ),
        "r9": _floats(
            np.where(prompt, 0.94 - rng.exponential(0.05, count), rng.uniform(0.2, 1, count)), 8
        ),
        "sieie": _floats(
            np.where(np.abs(of.eta) < 1.48, 0.0095, 0.027) * rng.gamma(60, 1 / 60, count), 8
        ),
        "lostHits": rng.binomial(2, np.where(prompt, 0.03, 0.2)).astype(np.uint8),
    }


def _muons(rng: np.random.Generator, of: Objects) -> dict[str, Array]:
    count = len(of.pt)
    return {
        **_leptons(rng, of, MUON_MASS_GEV, 13, "04"),
        "isGlobal": rng.random(count) < np.where(of.flags["prompt"], 0.99, 0.6),
        "isTracker": rng.random(count) < 0.98,
        "nStations": np.clip(rng.binomial(4, 0.85, count), 0, 4).astype(np.int32),
        "nTrackerLayers": np.clip(rng.normal(13.5, 1.8, count), 5, 18).astype(np.int32),
    }


def _jets(rng: np.random.Generator, of: Objects) -> dict[str, Array]:
    count = len(of.pt)
    bottom = of.flags["bottom"]
    score = np.where(bottom, rng.beta(4, 1, count), rng.beta(0.5, 6, count))
    charged = rng.beta(5, 3, count)
    return {
        "pt": _floats(of.pt, 10),
        "eta": _floats(of.eta, 10),
        "phi": _floats(of.phi, 10),
        "mass": _floats(of.flags["mass"], 8),
        "area": _floats(0.5 + 0.02 * rng.standard_normal(count), 8),
        "btagDeepFlavB": _floats(score, 8),
        "chHEF": _floats(charged, 6),
        "neHEF": _floats((1 - charged) * rng.beta(2, 3, count), 6),
        "rawFactor": _floats(0.05 + 0.06 * rng.standard_normal(count), 6),
        "nConstituents": np.clip(rng.poisson(6 + 3 * np.log(of.pt)), 1, 120).astype(np.uint8),
        "jetId": np.where(rng.random(count) < 0.96, 6, 2).astype(np.int32),
        "puId": np.where(
            of.pt > 50, 7, rng.choice([0, 4, 6, 7], count, p=[0.2, 0.1, 0.1, 0.6])
        ).astype(np.int32),
    }


def _tracks(rng: np.random.Generator, of: Objects) -> dict[str, Array]:
    count = len(of.pt)
    return {
        "pt": _floats(of.pt, 8),
        "eta": _floats(of.eta, 8),
        "phi": _floats(of.phi, 8),
        "charge": of.flags["charge"],
        **_impact(rng, of, 6),
        "chi2": _floats(rng.gamma(9, 1 / 9, count), 5),
        "nHits": np.clip(rng.normal(14, 3.5, count), 3, 30).astype(np.int32),
        "nPixelHits": np.clip(rng.normal(3.3, 0.7, count), 0, 6).astype(np.int32),
        "lostInnerHits": np.where(rng.random(count) < 0.9, -1, rng.integers(0, 2, count)).astype(
            np.int32
        ),
        "fromPV": np.where(of.flags["prompt"], 3, rng.integers(0, 3, count)).astype(np.int32),
        "isHighPurity": rng.random(count) < 0.92,
    }


def _dressed(block: Collisions, seed: int) -> Table:
    rng = stream(seed, "dressing", block.first_event // BLOCK_EVENTS)
    table = Table(block.events, scalars=_event(rng, block))
    for name, of, columns in (
        ("Electron", block.electrons, _electrons(rng, block.electrons)),
        ("Muon", block.muons, _muons(rng, block.muons)),
        ("Jet", block.jets, _jets(rng, block.jets)),
        ("Track", block.tracks, _tracks(rng, block.tracks)),
    ):
        table.counts[name] = of.counts(block.events)
        table.objects.update(
            {f"{name}_{column}": (name, values) for column, values in columns.items()}
        )
    return table


@dataclass(frozen=True)
class DressedBlock:
    """A block of events in a shape, with the truth about each event, shape (events,)."""

    table: Table
    signal: npt.NDArray[np.bool_]
    signal_selected: npt.NDArray[np.bool_]
    """Signal events with four leptons reconstructed, identified, isolated and in acceptance."""


def dressed_block(seed: int, block: int, signal_fraction: float, shape: Shape) -> DressedBlock:
    """Return block number `block` of the events of this seed, in this shape."""
    collisions = generate_block(seed, block, signal_fraction)
    table = _dressed(collisions, seed)
    fill(table, further(shape), lambda name: stream(seed, name, block))
    return DressedBlock(table, collisions.process == SIGNAL, collisions.signal_selected)


@cache
def column_names(shape: Shape) -> list[str]:
    """Return the names of all columns of a shape, counts of collections included."""
    table = dressed_block(0, 0, 0.0, shape).table
    return [name for name, _, _ in columns_of(table)]
