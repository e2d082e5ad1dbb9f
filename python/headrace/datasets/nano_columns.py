"""The columns of `nano` beyond those of `bench`: those of a NanoAOD file of simulated events.

A NanoAOD of version 9 has 1 499 branches: 651 trigger paths, 321 seeds of the first trigger level,
about 60 columns of each type of lepton, about 40 of each type of jet, and small collections (CMS,
WorkBookNanoAOD). `nano` has as many of each; names come from the CMS documentation of version 9
where it has one for each kind of value.
"""

from __future__ import annotations

from headrace.datasets.fillings import Filling, Further, Kind, named

# Mean number of objects (None: a collection of `bench`), and names by the kind of their values.
_COLLECTIONS: dict[str, tuple[float | None, dict[Kind, str]]] = {
    "Electron": (
        None,
        {
            "score": "mvaFall17V2Iso mvaFall17V2noIso mvaTTH",
            "flag": "mvaIso_WP80 mvaIso_WP90 mvaIso_WPL mvaNoIso_WP80 mvaNoIso_WP90 mvaNoIso_WPL "
            "convVeto isPFcand cutBased_HEEP",
            "fraction": "miniPFRelIso_all miniPFRelIso_chg pfRelIso03_chg jetRelIso jetPtRelv2",
            "signed": "dxyErr dzErr deltaEtaSC eInvMinusPInv ip3d dEscaleUp dEscaleDown dEsigmaUp "
            "dEsigmaDown",
            "energy": "energyErr eCorr scEtOverPt",
            "rare": "dr03EcalRecHitSumEt dr03HcalDepth1TowerSumEt dr03TkSumPt dr03TkSumPtHEEP",
            "word": "vidNestedWPBitmap vidNestedWPBitmapHEEP seedGain",
            "index": "photonIdx genPartIdx tightCharge",
            "count": "genPartFlav",
        },
    ),
    "Muon": (
        None,
        {
            "score": "mvaTTH mvaLowPt softMva",
            "flag": "mediumId mediumPromptId softId softMvaId highPurity inTimeMuon isPFcand "
            "isStandalone triggerIdLoose",
            "fraction": "miniPFRelIso_all miniPFRelIso_chg pfRelIso03_all pfRelIso03_chg "
            "segmentComp jetRelIso jetPtRelv2",
            "signed": "dxyErr dzErr dxybs dxybsErr ip3d",
            "ratio": "tunepRelPt",
            "rare": "tkRelIso",
            "count": "highPtId mvaId mvaLowPtId pfIsoId puppiIsoId tkIsoId multiIsoId miniIsoId "
            "genPartFlav",
            "index": "genPartIdx fsrPhotonIdx tightCharge",
        },
    ),
    "Jet": (
        None,
        {
            "score": "btagCSVV2 btagDeepB btagDeepCvB btagDeepCvL btagDeepFlavCvB btagDeepFlavCvL "
            "btagDeepFlavQG qgl",
            "ratio": "bRegCorr cRegCorr bRegRes cRegRes",
            "fraction": "chEmEF neEmEF muEF chFPV0EF puIdDisc hfsigmaEtaEta hfsigmaPhiPhi",
            "count": "nElectrons nMuons hadronFlavour partonFlavour hfcentralEtaStripSize "
            "hfadjacentEtaStripsSize",
            "index": "electronIdx1 electronIdx2 muonIdx1 muonIdx2 genJetIdx",
            "signed": "muonSubtrFactor",
            "word": "cleanmask",
        },
    ),
    "Tau": (
        0.7,
        {
            "energy": "pt leadTkPtOverTauPt",
            "angle": "eta phi",
            "ratio": "mass",
            "signed": "dxy dz leadTkDeltaEta leadTkDeltaPhi",
            "score": "rawDeepTau2017v2p1VSe rawDeepTau2017v2p1VSjet rawDeepTau2017v2p1VSmu",
            "rare": "chargedIso neutralIso photonsOutsideSignalCone puCorr rawIso rawIsodR03 "
            "rawMVAnewDM2017v2 rawMVAoldDM rawMVAoldDM2017v1 rawMVAoldDM2017v2 "
            "rawMVAoldDMdR032017v2 rawAntiEle rawAntiEle2018",
            "word": "idDeepTau2017v2p1VSe idDeepTau2017v2p1VSjet idDeepTau2017v2p1VSmu idAntiEle "
            "idAntiEle2018 idAntiEleDeadECal idAntiMu idMVAnewDM2017v2 idMVAoldDM "
            "idMVAoldDM2017v1 idMVAoldDM2017v2 cleanmask",
            "flag": "idDecayMode idDecayModeNewDMs idDecayModeOldDMs",
            "count": "decayMode charge genPartFlav rawAntiEleCat",
            "index": "jetIdx genPartIdx",
        },
    ),
    "Photon": (
        0.8,
        {
            "energy": "pt energyErr",
            "angle": "eta phi",
            "zero": "mass",
            "score": "mvaID mvaID_Fall17V1p1",
            "rare": "hoe pfRelIso03_all pfRelIso03_chg",
            "ratio": "r9 eCorr",
            "signed": "sieie dEscaleUp dEscaleDown dEsigmaUp dEsigmaDown",
            "flag": "electronVeto isScEtaEB isScEtaEE mvaID_WP80 mvaID_WP90 pixelSeed",
            "word": "cutBased cutBased_Fall17V1Bitmap vidNestedWPBitmap seedGain cleanmask",
            "index": "electronIdx jetIdx genPartIdx",
            "count": "genPartFlav pdgId charge",
        },
    ),
    "FatJet": (
        0.15,
        {
            "energy": "pt mass msoftdrop",
            "angle": "eta phi",
            "fraction": "tau1 tau2 tau3 tau4 n2b1 n3b1 area lsf3 btagCSVV2 btagDeepB",
            "ratio": "rawFactor particleNet_mass",
            "score": "deepTagMD_HbbvsQCD deepTagMD_TvsQCD deepTagMD_WvsQCD deepTagMD_ZvsQCD "
            "deepTagMD_ZHbbvsQCD deepTag_H deepTag_QCD deepTag_TvsQCD deepTag_WvsQCD "
            "particleNetMD_QCD particleNetMD_Xbb particleNetMD_Xcc particleNetMD_Xqq "
            "particleNet_HbbvsQCD particleNet_TvsQCD particleNet_WvsQCD particleNet_ZvsQCD "
            "btagHbb btagDDBvLV2 btagDDCvBV2 btagDDCvLV2",
            "word": "jetId",
            "count": "nBHadrons nCHadrons nConstituents hadronFlavour",
            "index": "subJetIdx1 subJetIdx2 genJetAK8Idx electronIdx3SJ muonIdx3SJ",
        },
    ),
    "GenPart": (
        21.0,
        {
            "energy": "pt",
            "angle": "eta phi",
            "rare": "mass",
            "count": "pdgId status",
            "word": "statusFlags",
            "index": "genPartIdxMother",
        },
    ),
    "GenJet": (
        3.5,
        {"energy": "pt mass", "angle": "eta phi", "count": "partonFlavour hadronFlavour"},
    ),
    "GenJetAK8": (
        0.2,
        {"energy": "pt mass", "angle": "eta phi", "count": "partonFlavour hadronFlavour"},
    ),
    "SubGenJetAK8": (0.3, {"energy": "pt mass", "angle": "eta phi"}),
    "GenVisTau": (
        0.3,
        {
            "energy": "pt mass",
            "angle": "eta phi",
            "count": "charge status",
            "index": "genPartIdxMother",
        },
    ),
    "GenDressedLepton": (
        0.7,
        {"energy": "pt mass", "angle": "eta phi", "count": "pdgId", "flag": "hasTauAnc"},
    ),
    "SV": (
        0.8,
        {
            "energy": "pt mass",
            "angle": "eta phi pAngle",
            "signed": "dlen dlenSig dxy dxySig x y z",
            "ratio": "chi2",
            "count": "ndof ntracks charge",
        },
    ),
    "IsoTrack": (
        0.4,
        {
            "energy": "pt",
            "angle": "eta phi",
            "signed": "dxy dz",
            "rare": "pfRelIso03_all pfRelIso03_chg miniPFRelIso_all miniPFRelIso_chg",
            "flag": "isFromLostTrack isHighPurityTrack isPFcand",
            "count": "fromPV pdgId charge",
        },
    ),
    "TrigObj": (
        4.0,
        {
            "energy": "pt l1pt l1pt_2 l2pt",
            "angle": "eta phi",
            "rare": "l1iso",
            "word": "filterBits",
            "count": "id l1charge",
        },
    ),
    "SubJet": (
        0.3,
        {
            "energy": "pt mass",
            "angle": "eta phi",
            "score": "btagCSVV2 btagDeepB",
            "ratio": "rawFactor",
            "fraction": "tau1 tau2 tau3 tau4 n2b1 n3b1",
            "count": "nBHadrons nCHadrons hadronFlavour",
        },
    ),
    "FsrPhoton": (
        0.2,
        {"energy": "pt", "angle": "eta phi", "rare": "relIso03 dROverEt2", "index": "muonIdx"},
    ),
    "CorrT1METJet": (
        6.0,
        {"energy": "rawPt", "angle": "eta phi", "fraction": "area", "signed": "muonSubtrFactor"},
    ),
    "SoftActivityJet": (5.0, {"energy": "pt", "angle": "eta phi"}),
    "LHEPart": (
        3.0,
        {
            "energy": "pt mass",
            "angle": "eta phi",
            "exact": "incomingpz",
            "count": "pdgId status spin",
        },
    ),
    "OtherPV": (3.0, {"signed": "z"}),
    "PSWeight": (-4.0, {"ratio": "value"}),
    "LHEScaleWeight": (-9.0, {"ratio": "value"}),
}

_PATH_STEMS = (
    "Ele Mu IsoMu DoubleEle Photon DiPhoton PFJet AK8PFJet PFHT PFMET DoubleTau QuadPFJet DiJet "
    "TkMu BTagMu Dimuon DoubleMu TripleMu MuEle EleMu IsoTkMu LooseIsoPFTau MediumIsoTau CaloJet "
    "PFJetFwd DiPFJetAve HISinglePhoton DiCentralPFJet Rsq MonoCentralPFJet TrkMu Mu8Tau CaloMET "
    "PFMETNoMu DoublePFJets SinglePion L1Jet AK4PFJet DoubleIsoMu EleHT"
)
_SEED_STEMS = (
    "DoubleEG DoubleMu SingleEG SingleMu MuEG TripleMu HTT ETM SingleJet DoubleJet Tau SingleTau "
    "DoubleTau QuadJet TripleJet ETMHF LooseIsoEG IsoEG DoubleIsoTau MuTau EGTau DoubleMuOS "
    "QuadMu ZeroBias TripleEG EGJet MuJet HTTEG LastCollision DoubleJetMass"
)
_EVENT: dict[Kind, str] = {
    "energy": "Generator_scalePDF Generator_x1 LHE_HT LHE_HTIncoming LHE_Vpt SoftActivityJetHT "
    "SoftActivityJetHT2 SoftActivityJetHT5 SoftActivityJetHT10 HTXS_Higgs_pt HTXS_V_pt "
    "GenVtx_t0",
    "exact": "Generator_x2 Generator_xpdf1 Generator_xpdf2 LHEWeight_originalXWGTUP",
    "angle": "HTXS_Higgs_y",
    "ratio": "btagWeight_CSVV2 btagWeight_DeepCSVB L1PreFiringWeight_Nom L1PreFiringWeight_Up "
    "L1PreFiringWeight_Dn L1PreFiringWeight_ECAL_Nom L1PreFiringWeight_Muon_Nom "
    "fixedGridRhoFastjetCentral fixedGridRhoFastjetCentralCalo "
    "fixedGridRhoFastjetCentralNeutral PV_score Pileup_gpudensity",
    "signed": "GenVtx_x GenVtx_y GenVtx_z PV_dx PV_dy",
    "count": "SoftActivityJetNjets2 SoftActivityJetNjets5 SoftActivityJetNjets10 Pileup_nPU "
    "Pileup_sumEOOT Pileup_sumLOOT LHE_Nb LHE_Nc LHE_Nglu LHE_Njets LHE_Nuds LHE_NpLO "
    "LHE_NpNLO Generator_id1 Generator_id2 HTXS_njets25 HTXS_njets30 OtherPV_count",
    "zero": "Generator_binvar",
    "word": "HTXS_stage_0 HTXS_stage_1_pTjet25 HTXS_stage_1_pTjet30 HTXS_stage1_1_cat_pTjet30GeV "
    "genTtbarId",
    "flag": "Flag_goodVertices Flag_HBHENoise Flag_HBHENoiseIso Flag_ecalBadCalib Flag_BadPFMuon"
    " Flag_BadPFMuonDz Flag_eeBadSc Flag_CSCTightHalo Flag_CSCTightHalo2015 "
    "Flag_CSCTightHaloTrkMuUnveto Flag_BadChargedCandidate Flag_EcalDeadCellBoundary "
    "Flag_EcalDeadCellTrigger Flag_globalSuperTightHalo2016 Flag_globalTightHalo2016 "
    "Flag_hcalLaserEvent Flag_hfNoisyHits Flag_muonBadTrack Flag_trkPOG_Filters "
    "Flag_trkPOG_logErrorTooManyClusters Flag_trkPOG_manystripclus53X "
    "Flag_trkPOG_toomanystripclus53X Flag_METFilters Flag_HcalStripHalo Flag_ecalLaserCorr "
    "Flag_chargedHadronTrackResolution HLTriggerFirstPath HLTriggerFinalPath L1simulation_step "
    "L1Reco_step",
}


def nano() -> Further:
    """Return the collections and columns of `nano`."""
    columns: list[Filling] = []
    for path in _PATH_STEMS.split():
        columns += [
            Filling("", f"HLT_{path}{threshold}", "flag") for threshold in range(20, 260, 15)
        ]
    for seed in _SEED_STEMS.split():
        columns += [
            Filling("", f"L1_{seed}{threshold}er2p1", "flag") for threshold in range(5, 60, 5)
        ]
    for met in (
        "CaloMET",
        "ChsMET",
        "PuppiMET",
        "RawMET",
        "RawPuppiMET",
        "TkMET",
        "GenMET",
        "DeepMETResponseTune",
    ):
        columns += [
            Filling("", f"{met}_pt", "energy"),
            Filling("", f"{met}_phi", "angle"),
            Filling("", f"{met}_sumEt", "energy"),
        ]
    columns += named("", _EVENT)
    for collection, (_, kinds) in _COLLECTIONS.items():
        columns += named(collection, kinds)
    means = {name: mean for name, (mean, _) in _COLLECTIONS.items() if mean is not None}
    return Further(means, tuple(columns))
