"""Four-lepton selection with awkward arrays and vector, one chunk of events at a time.

The cuts are those of the CMS open-data analysis of this channel (opendata.cern.ch, record 5500),
without its cuts on trigger and impact, which are specific to one detector's data.
`readers/kernel.hpp` does the same in C++, with the same bin contents.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import awkward as ak
import numpy as np
import vector

from headrace.workloads.higgs.columns import COLLECTIONS
from headrace.workloads.higgs.histograms import Histograms

Z_MASS_GEV = 91.1876
_KINEMATIC = ("pt", "eta", "phi", "mass")

vector.register_awkward()


def collection(columns: Mapping[str, Any], name: str) -> Any:
    """Return one collection as an array of records, as momenta where it has a mass."""
    fields = {field: columns[f"{name}_{field}"] for field in COLLECTIONS[name]}
    for field in _KINEMATIC:
        if field in fields:
            fields[field] = ak.values_astype(fields[field], np.float64)
    return ak.zip(fields, with_name="Momentum4D" if "mass" in fields else "Momentum3D")


def good_leptons(electrons: Any, muons: Any) -> tuple[Any, Any]:
    """Return the electrons and muons that may come from a Z boson."""
    return (
        electrons[
            electrons.looseId
            & (electrons.pt > 7)
            & (abs(electrons.eta) < 2.5)
            & (electrons.pfRelIso03_all < 0.35)
            & (abs(electrons.dxy) < 0.5)
            & (abs(electrons.dz) < 1.0)
        ],
        muons[
            muons.looseId
            & (muons.pt > 5)
            & (abs(muons.eta) < 2.4)
            & (muons.pfRelIso04_all < 0.35)
            & (abs(muons.dxy) < 0.5)
            & (abs(muons.dz) < 1.0)
        ],
    )


def _pairs(leptons: Any, flavour: int) -> Any:
    """Return pairs of opposite charge: their sum, its mass, and the indices of their leptons."""
    index = ak.local_index(leptons.pt, axis=1)
    pair = ak.combinations(
        ak.zip({"lepton": leptons, "index": index}, depth_limit=2), 2, fields=["a", "b"]
    )
    pair = pair[pair.a.lepton.charge + pair.b.lepton.charge == 0]
    total = pair.a.lepton.add(pair.b.lepton)
    return ak.zip(
        {
            "px": total.px,
            "py": total.py,
            "pz": total.pz,
            "E": total.E,
            "first": pair.a.index,
            "second": pair.b.index,
            "flavour": ak.full_like(pair.a.index, flavour),
            "high": np.maximum(pair.a.lepton.pt, pair.b.lepton.pt),
            "low": np.minimum(pair.a.lepton.pt, pair.b.lepton.pt),
        },
        with_name="Momentum4D",
    )


def _four_leptons(electron_pairs: Any, muon_pairs: Any, found: Histograms) -> int:
    """Find the best pair of Z candidates of each event and fill its masses.

    Return the number of events that have one.
    """
    both = ak.concatenate([electron_pairs, muon_pairs], axis=1)
    quad = ak.combinations(both, 2, fields=["a", "b"])
    same = quad.a.flavour == quad.b.flavour
    shared = (
        (quad.a.first == quad.b.first)
        | (quad.a.first == quad.b.second)
        | (quad.a.second == quad.b.first)
        | (quad.a.second == quad.b.second)
    )
    quad = quad[~(same & shared)]
    first_is_nearer = abs(quad.a.mass - Z_MASS_GEV) <= abs(quad.b.mass - Z_MASS_GEV)
    nearer: Any = ak.where(first_is_nearer, quad.a.mass, quad.b.mass)
    other: Any = ak.where(first_is_nearer, quad.b.mass, quad.a.mass)
    leading = np.maximum(quad.a.high, quad.b.high)
    next_one = np.maximum(
        np.minimum(quad.a.high, quad.b.high),
        ak.where(quad.a.high > quad.b.high, quad.a.low, quad.b.low),
    )
    good = (
        (nearer > 40)
        & (nearer < 120)
        & (other > 12)
        & (other < 120)
        & (leading > 20)
        & (next_one > 10)
    )
    quad, nearer, other = quad[good], nearer[good], other[good]
    # The pair nearest to the Z mass wins; when equal (one pair with two partners), the heavier
    # partner.
    some = ak.num(nearer) > 0
    quad, nearer, other = quad[some], nearer[some], other[some]
    best = ak.argmin(abs(nearer - Z_MASS_GEV) - 1e-6 * other, axis=1, keepdims=True)
    quad, nearer, other = quad[best][:, 0], nearer[best][:, 0], other[best][:, 0]
    total = quad.a.add(quad.b)
    mass = ak.to_numpy(total.mass)
    electrons = ak.to_numpy(quad.a.flavour == 11) * 1 + ak.to_numpy(quad.b.flavour == 11) * 1
    found.fill("four_lepton_mass", mass)
    found.fill("four_electron_mass", mass[electrons == 2])
    found.fill("two_electron_two_muon_mass", mass[electrons == 1])
    found.fill("four_muon_mass", mass[electrons == 0])
    found.fill("four_lepton_pt", ak.to_numpy(total.pt))
    found.fill("heavier_z_mass", ak.to_numpy(nearer))
    found.fill("lighter_z_mass", ak.to_numpy(other))
    return len(mass)


def _track_isolation(leptons: Any, tracks: Any) -> Any:
    """Return the relative track isolation of each lepton.

    It is the sum of the momenta of good tracks within 0.3 of the lepton, except its own track, over
    the lepton's momentum.
    """
    pair = ak.cartesian({"lepton": leptons, "track": tracks}, axis=1, nested=True)
    distance = pair.lepton.deltaR(pair.track)
    near = (distance < 0.3) & (distance > 0.01)
    return ak.sum(ak.where(near, pair.track.pt, 0.0), axis=2) / leptons.pt


def search(columns: Mapping[str, Any], found: Histograms) -> int:
    """Run the search over one chunk and fill `found`; return the number of four-lepton events."""
    electrons, muons = good_leptons(collection(columns, "Electron"), collection(columns, "Muon"))
    jets, tracks = collection(columns, "Jet"), collection(columns, "Track")

    good_tracks = tracks[
        tracks.isHighPurity & (tracks.pt > 0.7) & (tracks.nHits >= 7) & (tracks.chi2 < 3)
    ]
    found.fill("good_tracks", ak.num(good_tracks))
    found.fill("muon_track_isolation", ak.flatten(_track_isolation(muons, good_tracks)))
    found.fill("electron_track_isolation", ak.flatten(_track_isolation(electrons, good_tracks)))

    good_jets = jets[(jets.pt > 30) & (abs(jets.eta) < 4.7) & (jets.jetId >= 2)]
    found.fill("jets", ak.num(good_jets))
    found.fill("leading_jet_pt", ak.flatten(good_jets.pt[:, :1]))
    found.fill("jet_pt_sum", ak.sum(good_jets.pt, axis=1))
    pair = ak.combinations(good_jets, 2, fields=["a", "b"])
    found.fill("dijet_mass", ak.flatten(pair.a.add(pair.b).mass))
    found.fill("missing_pt", columns["MET_pt"])

    electron_pairs, muon_pairs = _pairs(electrons, 11), _pairs(muons, 13)
    found.fill("dielectron_mass", ak.flatten(electron_pairs.mass))
    found.fill("dimuon_mass", ak.flatten(muon_pairs.mass))
    enough = ak.num(electron_pairs) + ak.num(muon_pairs) >= 2
    return _four_leptons(electron_pairs[enough], muon_pairs[enough], found)
