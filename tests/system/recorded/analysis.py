"""Analyses of a small NanoAOD-like file, by ROOT, coffea and Dask: recorded and not."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path


def by_root() -> None:
    import ROOT

    ROOT.EnableImplicitMT(2)
    frame = ROOT.RDataFrame("Events", "nano.root")
    good = frame.Filter("nMuon > 1").Define("leading", "Muon_pt[0]")
    print(f"{good.Sum('leading').GetValue():.3f}")
    ROOT.DisableImplicitMT()
    kept = ROOT.RDataFrame("Events", "nano.root").Filter("nMuon > 2")
    kept.Snapshot("Events", "skim.root", ["nMuon", "Muon_pt"])


def by_coffea() -> None:
    import awkward as ak
    import hist
    from coffea import processor
    from coffea.nanoevents import BaseSchema

    class Leading(processor.ProcessorABC):
        def process(self, events):
            pt = events.Muon_pt[ak.num(events.Muon_pt) > 1][:, 0]
            found = hist.Hist.new.Reg(20, 0, 100).Double().fill(ak.to_numpy(pt))
            return {"seen": len(events), "counts": found}

        def postprocess(self, accumulator):
            return accumulator

    run = processor.Runner(
        executor=processor.FuturesExecutor(workers=2, status=False),
        # In this process: to start workers for it as well takes a second, and tests nothing more.
        pre_executor=processor.IterativeExecutor(status=False),
        schema=BaseSchema,
        chunksize=1000,
    )
    # Its progress bars have times in them.
    with contextlib.redirect_stdout(sys.stderr):
        found = run({"nano": {"files": {"nano.root": "Events"}}}, processor_instance=Leading())
    Path("histogram").write_text(f"{found['seen']} {found['counts'].values().tolist()}\n")


def by_dask() -> None:
    import dask
    import dask.bag

    lines = dask.bag.read_text("numbers", blocksize=20_000)
    with dask.config.set(scheduler="threads", num_workers=2):
        print(lines.map(int).sum().compute())
    with dask.config.set(scheduler="processes", num_workers=2):
        lines.map(str.strip).map(len).map(str).to_textfiles("lengths-*.txt")


if __name__ == "__main__":
    {"root": by_root, "coffea": by_coffea, "dask": by_dask}[sys.argv[1]]()
