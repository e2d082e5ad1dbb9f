"""The columns that the search reads: every collection and the event's own values."""

from __future__ import annotations

_LEPTON = (
    "pt",
    "eta",
    "phi",
    "mass",
    "charge",
    "pdgId",
    "dxy",
    "dz",
    "sip3d",
    "ptErr",
    "looseId",
    "tightId",
    "jetIdx",
)

COLLECTIONS: dict[str, tuple[str, ...]] = {
    "Electron": (*_LEPTON, "pfRelIso03_all", "cutBased", "hoe", "r9", "sieie", "lostHits"),
    "Muon": (*_LEPTON, "pfRelIso04_all", "isGlobal", "isTracker", "nStations", "nTrackerLayers"),
    "Jet": (
        "pt",
        "eta",
        "phi",
        "mass",
        "area",
        "btagDeepFlavB",
        "chHEF",
        "neHEF",
        "rawFactor",
        "nConstituents",
        "jetId",
        "puId",
    ),
    "Track": (
        "pt",
        "eta",
        "phi",
        "charge",
        "dxy",
        "dz",
        "chi2",
        "nHits",
        "nPixelHits",
        "lostInnerHits",
        "fromPV",
        "isHighPurity",
    ),
}

EVENT = (
    "run",
    "luminosityBlock",
    "event",
    "MET_pt",
    "MET_phi",
    "MET_sumEt",
    "MET_significance",
    "PV_npvs",
    "PV_npvsGood",
    "PV_z",
    "fixedGridRhoFastjetAll",
    "genWeight",
    "HLT_IsoMu24",
    "HLT_Ele27_WPTight_Gsf",
)

SEARCH_COLUMNS: tuple[str, ...] = (
    *EVENT,
    *(
        f"{collection}_{column}"
        for collection, columns in COLLECTIONS.items()
        for column in columns
    ),
)
"""All columns of the four collections and 14 of the event: nine tenths of the bytes of `bench`."""
