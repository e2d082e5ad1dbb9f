"""The columns of `aod` beyond those of `nano`: objects with the data of every subdetector.

An AOD of ATLAS has about 3 900 branches. Most of its bytes carry little information: links that
repeat the hash of a collection, decisions of triggers that did not fire, quantities without a value
for most objects. A DAOD_PHYSLITE file of 1 494 branches has 83 kB per event before compression and
compresses 5.5 times; half of its bytes compress more than ten times, a tenth less than twice
(measured on a file of scikit-hep-testdata; ATLAS aims at 10 to 12 kB per compressed event, ATLAS
Open Data, PHYSLITE).
"""

from __future__ import annotations

from headrace.datasets.fillings import Filling, Further, Kind, named
from headrace.datasets.nano_columns import nano

_COLLECTIONS: dict[str, float | None] = {
    "Electron": None,
    "Muon": None,
    "Jet": None,
    "Photon": None,
    "Tau": None,
    "Cluster": 9.0,
    "Tower": 13.0,
    "Vertex": 3.0,
    "Candidate": 9.0,
}
"""Mean number of objects; None: a collection of `bench` or `nano`."""

_PARTS = (
    "Pixel Strip EcalBarrel EcalEndcap Preshower HcalBarrel HcalEndcap HcalOuter HcalForward "
    "DriftTube CathodeStrip ResistivePlate Global Standalone Refit"
)
_QUANTITIES: dict[Kind, str] = {
    "exact": "Energy",
    "signed": "Residual Slope",
    "rare": "Noise",
    "count": "Hits",
    "word": "Status",
    "index": "SeedRef",
    "flag": "Valid Saturated",
    "unset": "Time Offset Isolation Calibration",
    "zero": "Leakage Outlier",
    "key": "TrackLink_key ClusterLink_key",
    "running": "TrackLink_index ClusterLink_index",
}
_TRIGGER_WORDS = 320
_TRIGGER_COLUMNS: dict[Kind, str] = {
    "bits": "passedPhysics passedRaw prescaled",
    "zero": "passedThrough resurrected passedL2Physics passedL2Raw passedL2Through prescaledL2 "
    "resurrectedL2",
}
_LINKS = 120.0
"""Mean number of links between objects of the event."""
_LINK_ENDS = "truth track cluster jet vertex candidate photon tau muon electron"


def aod() -> Further:
    """Return the collections and columns of `aod`."""
    base = nano()
    columns = list(base.columns)
    for collection in _COLLECTIONS:
        for part in _PARTS.split():
            parts: dict[Kind, str] = {
                kind: " ".join(part + name for name in names.split())
                for kind, names in _QUANTITIES.items()
            }
            columns += named(collection, parts)
    columns += named("TrigDecision", _TRIGGER_COLUMNS)
    for end in _LINK_ENDS.split():
        columns += [
            Filling("Link", f"{end}_key", "key"),
            Filling("Link", f"{end}_index", "running"),
        ]
    new = {name: mean for name, mean in _COLLECTIONS.items() if mean is not None}
    further = {"TrigDecision": -float(_TRIGGER_WORDS), "Link": _LINKS}
    return Further({**base.collections, **new, **further}, tuple(columns))
