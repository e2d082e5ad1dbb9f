"""The hundreds (`nano`) or thousands (`aod`) of further columns beside those that an analysis reads.

Nobody reads most of them in one job, but they lie between those that are read, and make a file what it is to the
storage. Each column has a distribution of the kind that its name promises, so that it compresses like a real one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from headrace.datasets.spec import Shape
from headrace.datasets.table import Array, Table

Kind = Literal[
    "energy", "angle", "signed", "fraction", "score", "ratio", "rare", "flag", "count", "index", "word"
]
"""Falling spectrum; flat angle; symmetric with tails; between 0 and 1; piled up at 0 or 1; around 1; mostly exactly 0;
yes or no; small number; -1 or a small number; a few bits set."""


@dataclass(frozen=True)
class Filling:
    """One further column: of the event (`collection` empty) or of a collection's objects."""

    collection: str
    name: str
    kind: Kind


@dataclass(frozen=True)
class Further:
    """What a shape has beyond `bench`: the mean number of objects of each new collection, and columns."""

    collections: dict[str, float]
    columns: tuple[Filling, ...]


def reduced(values: npt.NDArray[np.float32], bits: int) -> npt.NDArray[np.float32]:
    """32-bit floats rounded to `bits` bits of mantissa (of 23), as NanoAOD stores them so that they compress.

    The same as CMSSW's MiniFloatConverter::reduceMantissaToNbitsRounding, but for infinities and NaN, which do not occur.
    """
    shift = 23 - bits
    words = values.view(np.uint32)
    mask = np.uint32((0xFFFFFFFF << shift) & 0xFFFFFFFF)
    return ((words + np.uint32(1 << (shift - 1))) & mask).view(np.float32)


def _draw(rng: np.random.Generator, kind: Kind, size: int) -> Array:
    """`size` values of a kind."""
    exponential = lambda: rng.standard_exponential(size, np.float32)  # noqa: E731
    match kind:
        case "energy":
            return reduced(5 + 20 * exponential(), 10)
        case "angle":
            return reduced((rng.random(size, np.float32) - np.float32(0.5)) * np.float32(2 * np.pi), 10)
        case "signed":
            return reduced(rng.standard_normal(size, np.float32) * np.float32(0.02), 8)
        case "fraction":
            return reduced(np.square(rng.random(size, np.float32)), 6)
        case "score":
            one = np.float32(1)
            return reduced(one / (one + np.exp(np.float32(-3) * rng.standard_normal(size, np.float32))), 8)
        case "ratio":
            return reduced(1 + np.float32(0.1) * rng.standard_normal(size, np.float32), 8)
        case "rare":
            return np.where(rng.random(size, np.float32) < 0.85, np.float32(0), reduced(exponential(), 8))
        case "flag":
            return rng.random(size, np.float32) < 0.04
        case "count":
            return np.minimum(4 * exponential(), 60).astype(np.int32)
        case "index":
            return np.where(rng.random(size, np.float32) < 0.7, np.float32(-1), 3 * exponential()).astype(
                np.int32
            )
        case "word":
            return rng.choice(
                np.array([0, 1, 3, 7, 62, 254, 1022], np.int32), size, p=[0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]
            )


# What NanoAOD keeps of each collection, by the kind of its values: a selection of the names of version 9
# (cms-nanoaod-integration.web.cern.ch), enough to have its variety.
_NANO: dict[str, tuple[float | None, dict[Kind, str]]] = {
    "Electron": (
        None,
        {
            "score": "mvaFall17V2Iso mvaFall17V2noIso mvaTTH",
            "flag": "mvaIso_WP80 mvaIso_WP90 mvaNoIso_WP80 mvaNoIso_WP90 convVeto isPFcand",
            "fraction": "miniPFRelIso_all miniPFRelIso_chg pfRelIso03_chg jetRelIso jetPtRelv2",
            "signed": "dxyErr dzErr deltaEtaSC eInvMinusPInv ip3d dEscaleUp dEscaleDown dEsigmaUp dEsigmaDown",
            "rare": "dr03EcalRecHitSumEt dr03HcalDepth1TowerSumEt dr03TkSumPt",
            "word": "vidNestedWPBitmap vidNestedWPBitmapHEEP seedGain",
            "index": "photonIdx genPartIdx tightCharge",
        },
    ),
    "Muon": (
        None,
        {
            "score": "mvaTTH mvaLowPt softMva",
            "flag": "mediumId mediumPromptId softId softMvaId highPurity inTimeMuon isPFcand isStandalone triggerIdLoose",
            "fraction": "miniPFRelIso_all miniPFRelIso_chg pfRelIso03_all pfRelIso03_chg segmentComp jetRelIso jetPtRelv2",
            "signed": "dxyErr dzErr dxybs ip3d",
            "ratio": "tunepRelPt",
            "rare": "tkRelIso",
            "count": "highPtId mvaId pfIsoId puppiIsoId tkIsoId multiIsoId",
            "index": "genPartIdx fsrPhotonIdx",
        },
    ),
    "Jet": (
        None,
        {
            "score": "btagCSVV2 btagDeepB btagDeepCvB btagDeepCvL btagDeepFlavCvB btagDeepFlavCvL btagDeepFlavQG qgl",
            "ratio": "bRegCorr cRegCorr bRegRes cRegRes",
            "fraction": "chEmEF neEmEF muEF chFPV0EF puIdDisc",
            "count": "nElectrons nMuons hadronFlavour partonFlavour hfcentralEtaStripSize",
            "index": "electronIdx1 electronIdx2 muonIdx1 muonIdx2 genJetIdx",
            "signed": "muonSubtrFactor",
        },
    ),
    "Tau": (
        0.6,
        {
            "energy": "pt leadTkPtOverTauPt",
            "angle": "eta phi",
            "signed": "dxy dz leadTkDeltaEta leadTkDeltaPhi",
            "score": "rawDeepTau2017v2p1VSe rawDeepTau2017v2p1VSjet rawDeepTau2017v2p1VSmu",
            "rare": "chargedIso neutralIso photonsOutsideSignalCone puCorr rawIso rawIsodR03",
            "word": "idDeepTau2017v2p1VSe idDeepTau2017v2p1VSjet idDeepTau2017v2p1VSmu idAntiEleDeadECal idAntiMu",
            "count": "decayMode charge genPartFlav",
            "index": "jetIdx genPartIdx",
        },
    ),
    "Photon": (
        1.1,
        {
            "energy": "pt energyErr",
            "angle": "eta phi",
            "score": "mvaID mvaID_Fall17V1p1",
            "rare": "hoe pfRelIso03_all pfRelIso03_chg",
            "ratio": "r9 eCorr",
            "signed": "sieie dEscaleUp dEscaleDown dEsigmaUp dEsigmaDown",
            "flag": "electronVeto isScEtaEB isScEtaEE mvaID_WP80 mvaID_WP90 pixelSeed",
            "word": "cutBased vidNestedWPBitmap seedGain",
            "index": "electronIdx jetIdx genPartIdx",
        },
    ),
    "FatJet": (
        0.25,
        {
            "energy": "pt mass msoftdrop",
            "angle": "eta phi",
            "fraction": "tau1 tau2 tau3 tau4 n2b1 n3b1 area",
            "score": "deepTagMD_HbbvsQCD deepTagMD_TvsQCD deepTagMD_WvsQCD particleNetMD_QCD particleNetMD_Xbb"
            " particleNet_HbbvsQCD particleNet_TvsQCD particleNet_WvsQCD btagHbb btagDDBvLV2 btagDDCvBV2 btagDDCvLV2",
            "word": "jetId",
            "count": "nBHadrons nCHadrons",
            "index": "subJetIdx1 subJetIdx2 genJetAK8Idx electronIdx3SJ muonIdx3SJ",
        },
    ),
    "GenPart": (
        14.0,
        {
            "energy": "pt",
            "angle": "eta phi",
            "rare": "mass",
            "count": "pdgId status",
            "word": "statusFlags",
            "index": "genPartIdxMother",
        },
    ),
    "GenJet": (5.0, {"energy": "pt mass", "angle": "eta phi", "count": "partonFlavour hadronFlavour"}),
    "SV": (
        1.2,
        {
            "energy": "pt mass",
            "angle": "eta phi pAngle",
            "signed": "dlen dlenSig dxy dxySig x y z",
            "ratio": "chi2",
            "count": "ndof ntracks charge",
        },
    ),
    "IsoTrack": (
        0.8,
        {
            "energy": "pt",
            "angle": "eta phi",
            "signed": "dxy dz",
            "rare": "pfRelIso03_all pfRelIso03_chg miniPFRelIso_all",
            "flag": "isFromLostTrack isHighPurityTrack isPFcand",
            "count": "fromPV pdgId charge",
        },
    ),
    "TrigObj": (
        6.0,
        {
            "energy": "pt l1pt",
            "angle": "eta phi",
            "rare": "l1iso",
            "word": "filterBits",
            "count": "id l1charge",
        },
    ),
    "SubJet": (
        0.5,
        {
            "energy": "pt mass",
            "angle": "eta phi",
            "score": "btagCSVV2 btagDeepB",
            "ratio": "rawFactor",
            "fraction": "tau1 tau2 tau3 tau4",
        },
    ),
    "FsrPhoton": (
        0.2,
        {"energy": "pt", "angle": "eta phi", "rare": "relIso03 dROverEt2", "index": "muonIdx"},
    ),
}

_OBJECTS = [
    "DoubleEG",
    "DoubleMu",
    "SingleEG",
    "SingleMu",
    "MuEG",
    "TripleMu",
    "HTT",
    "ETM",
    "SingleJet",
    "DoubleJet",
    "Tau",
]
_PATHS = [
    "Ele",
    "Mu",
    "IsoMu",
    "DoubleEle",
    "Photon",
    "DiPhoton",
    "PFJet",
    "AK8PFJet",
    "PFHT",
    "PFMET",
    "DoubleTau",
    "QuadPFJet",
    "DiJet",
    "TkMu",
    "BTagMu",
    "Dimuon",
]


def _named(collection: str, kinds: dict[Kind, str]) -> Iterator[Filling]:
    for kind, names in kinds.items():
        yield from (Filling(collection, name, kind) for name in names.split())


def _nano() -> Further:
    columns: list[Filling] = []
    for path in _PATHS:
        columns += [
            Filling("", f"HLT_{path}{threshold}_v{threshold % 7 + 1}", "flag")
            for threshold in range(20, 260, 15)
        ]
    for seed in _OBJECTS:
        columns += [Filling("", f"L1_{seed}{threshold}er2p1", "flag") for threshold in range(5, 65, 5)]
    for met in ("CaloMET", "ChsMET", "PuppiMET", "RawMET", "TkMET", "GenMET"):
        columns += [
            Filling("", f"{met}_pt", "energy"),
            Filling("", f"{met}_phi", "angle"),
            Filling("", f"{met}_sumEt", "energy"),
        ]
    columns += [
        Filling("", f"Flag_{name}", "flag")
        for name in ["goodVertices", "HBHENoise", "ecalBadCalib", "BadPFMuon", "eeBadSc"]
    ]
    for collection, (_, kinds) in _NANO.items():
        columns += _named(collection, kinds)
    return Further({name: mean for name, (mean, _) in _NANO.items() if mean is not None}, tuple(columns))


# An AOD keeps whole objects: for each, what every part of the detector and every algorithm said.
_AOD_COLLECTIONS = {
    "Electron": None,
    "Muon": None,
    "Jet": None,
    "Photon": 1.1,
    "Tau": 0.6,
    "Cluster": 9.0,
    "Tower": 12.0,
    "Vertex": 3.0,
    "Candidate": 8.0,
}
_AOD_PARTS = [
    "Pixel",
    "Strip",
    "EcalBarrel",
    "EcalEndcap",
    "Preshower",
    "HcalBarrel",
    "HcalEndcap",
    "HcalOuter",
    "HcalForward",
    "DriftTube",
    "CathodeStrip",
    "ResistivePlate",
    "Global",
    "Standalone",
    "Refit",
]
_AOD_QUANTITIES: dict[Kind, str] = {
    "energy": "Energy",
    "angle": "Angle",
    "signed": "Residual Time Offset",
    "rare": "Noise Leakage Outlier",
    "fraction": "Fraction Isolation",
    "ratio": "Calibration",
    "score": "Quality",
    "count": "Hits Layers Cells",
    "word": "Status Pattern DetId",
    "index": "SeedRef TrackRef ClusterRef",
    "flag": "Valid Saturated Recovered",
}


def _aod() -> Further:
    nano = _nano()
    columns = list(nano.columns)
    for collection in _AOD_COLLECTIONS:
        for part in _AOD_PARTS:
            columns += _named(
                collection,
                {
                    kind: " ".join(part + name for name in names.split())
                    for kind, names in _AOD_QUANTITIES.items()
                },
            )
    new = {name: mean for name, mean in _AOD_COLLECTIONS.items() if mean is not None}
    return Further({**new, **nano.collections}, tuple(columns))


@cache
def further(shape: Shape) -> Further:
    """What this shape has beyond `bench`."""
    return {"bench": lambda: Further({}, ()), "nano": _nano, "aod": _aod}[shape]()


def fill(table: Table, more: Further, stream: Callable[[str], np.random.Generator]) -> None:
    """Adds the columns to a table; `stream` gives the random stream of a name."""
    for name, mean in more.collections.items():
        rng = stream(f"filling/{name}/count")
        table.counts[name] = rng.poisson(mean, table.events).astype(np.int32)
    streams: dict[str, np.random.Generator] = {}
    for column in more.columns:
        of = column.collection
        rng = streams.setdefault(of, stream(f"filling/{of}"))
        if of:
            table.objects[f"{of}_{column.name}"] = (of, _draw(rng, column.kind, int(table.counts[of].sum())))
        else:
            table.scalars[column.name] = _draw(rng, column.kind, table.events)
