"""ROOT files as users have them, written by uproot and by ROOT.

Several trees, jagged branches, odd names.
"""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import uproot


def write_user_file(path: Path, events: int = 600, seed: int = 1) -> Path:
    """A file with a tree of events in a directory, one of runs beside it, in three clusters."""
    path.parent.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    handle = uproot.recreate(str(path), compression=uproot.ZLIB(1))
    with handle as file:
        for first in range(0, events, max(1, events // 3)):
            count = min(max(1, events // 3), events - first)
            hits = ak.unflatten(random.normal(100, 20, 3 * count).astype("f4"), np.full(count, 3))
            table = {
                "number": np.arange(first, first + count, dtype="i8"),
                "Hit_pt": hits,
                "weight": random.random(count),
            }
            if not first:
                kinds = {"number": "i8", "Hit_pt": "var * float32", "weight": "f8"}
                file.mktree("deep/Events", kinds)
                file.mktree("Runs", {"run": "i4"})
            file["deep/Events"].extend(table)
        file["Runs"].extend({"run": np.array([1, 2], "i4")})
    return path


def write_empty_tree(path: Path) -> Path:
    """A file whose tree has branches and no events."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with uproot.recreate(str(path)) as file:
        file.mktree("Events", {"number": "i8"})
    return path


_BY_ROOT = """
#include <ROOT/RNTupleModel.hxx>
#include <ROOT/RNTupleWriter.hxx>
void write(const char *tree_file, const char *ntuple_file, int compression)
{
   TFile file(tree_file, "recreate", "", compression);
   TTree tree("data", "");
   std::vector<float> v;
   std::vector<std::vector<int>> nested;
   TClonesArray hits("TMarker");
   TLorentzVector vector;
   int n;
   double x[10];
   std::string text;
   tree.Branch("v", &v);
   tree.Branch("nested", &nested);
   tree.Branch("hits", &hits);
   tree.Branch("p4", &vector);
   tree.Branch("n", &n);
   tree.Branch("x", x, "x[n]/D");
   tree.Branch("text", &text);
   auto model = ROOT::RNTupleModel::Create();
   auto fv = model->MakeField<std::vector<float>>("v");
   auto fl = model->MakeField<std::int64_t>("l");
   auto fn = model->MakeField<std::vector<std::vector<int>>>("nested");
   auto ft = model->MakeField<std::string>("text");
   auto writer = ROOT::RNTupleWriter::Recreate(std::move(model), "data", ntuple_file);
   for (int i = 0; i < 1000; ++i) {
      v.assign(i % 5, i * 0.1f);
      nested.assign(i % 3, std::vector<int>(i % 4, i));
      hits.Clear();
      for (int j = 0; j < i % 3; ++j)
         new (hits[j]) TMarker(i, 2 * i + j, 1);
      vector.SetPxPyPzE(i, 1, 2, 2 * i);
      n = i % 10;
      for (int j = 0; j < n; ++j)
         x[j] = i + 0.01 * j;
      text = std::string(i % 7, 'a');
      tree.Fill();
      *fv = v;
      *fl = i;
      *fn = nested;
      *ft = text;
      writer->Fill();
   }
   file.Write();
}
void write_tuples(const char *tuple_file)
{
   TFile file(tuple_file, "recreate");
   TNtuple single("single", "", "x:y");
   TNtupleD twice("twice", "", "x:y");
   for (int i = 0; i < 200; ++i) {
      single.Fill(i, -i);
      twice.Fill(1 + 1e-9 * i, i);
   }
   file.Write();
}
void write_unflushed(const char *tree_file)
{
   TFile file(tree_file, "recreate");
   TTree tree("data", "");
   tree.SetDirectory(nullptr);
   int n;
   double x[10];
   tree.Branch("n", &n);
   tree.Branch("x", x, "x[n]/D");
   for (n = 0; n < 10; ++n) {
      for (int j = 0; j < n; ++j)
         x[j] = n + 0.01 * j;
      tree.Fill();
   }
   file.WriteTObject(&tree, "data"); // unlike TTree::Write, this flushes no basket
}
struct Hit { float x = 0; int id = 0; std::vector<float> charges; };
struct Track { float pt = 0; std::vector<Hit> hits; };
void write_records(const char *file, const char *with_bitset)
{
   auto model = ROOT::RNTupleModel::Create();
   auto tracks = model->MakeField<std::vector<Track>>("tracks");
   auto best = model->MakeField<Hit>("best");
   auto vector = model->MakeField<ROOT::RVec<float>>("vector");
   auto point = model->MakeField<std::array<double, 3>>("point");
   auto text = model->MakeField<std::string>("text");
   auto either = model->MakeField<std::variant<float, int>>("either");
   auto writer = ROOT::RNTupleWriter::Recreate(std::move(model), "data", file);
   for (int i = 0; i < 300; ++i) {
      tracks->clear();
      for (int j = 0; j < i % 4; ++j) {
         tracks->push_back({i + 0.25f * j, {}});
         for (int k = 0; k < j; ++k)
            tracks->back().hits.push_back({float(k), i, {1.f * i, 2.f}});
      }
      *best = {0.5f * i, i, std::vector<float>(i % 3, i)};
      vector->assign(i % 3, i);
      *point = {1. * i, 2. * i, 3. * i};
      *text = std::string(i % 7, 'a');
      *either = i;
      writer->Fill();
      if (i % 100 == 99)
         writer->CommitCluster();
   }
   writer.reset();
   auto odd = ROOT::RNTupleModel::Create();
   odd->MakeField<std::bitset<16>>("bits");
   odd->MakeField<float>("x");
   ROOT::RNTupleWriter::Recreate(std::move(odd), "data", with_bitset)->Fill();
}
void write_friends(const char *name, const char *other)
{
   int x, y;
   {
      TFile file(other, "recreate");
      TTree tree("other", "");
      tree.Branch("y", &y);
      for (y = 0; y < 50; ++y)
         tree.Fill();
      file.Write();
   }
   TFile file(name, "recreate");
   TTree tree("data", "");
   tree.Branch("x", &x);
   for (x = 0; x < 50; ++x)
      tree.Fill();
   tree.AddFriend("other", other);
   file.Write();
}
void write_leaves(const char *name)
{
   TFile file(name, "recreate");
   TTree tree("data", "");
   struct { double y; float x; int n; float v[3]; } leaves;
   float renamed[3], grid[2][3];
   tree.Branch("leaves", &leaves, "y/D:x/F:n/I:v[3]/F");
   for (int i = 0; i < 300; ++i) {
      leaves = {1. * i, i + 0.25f, 3 * i, {1.f * i, 2.f * i, 3.f * i}};
      tree.Fill();
      if (i == 99)
         tree.FlushBaskets();
   }
   TTree arrays("arrays", "");
   arrays.Branch("w[3]", renamed, "w[3]/F");
   arrays.Branch("grid", grid, "grid[2][3]/F");
   for (int i = 0; i < 300; ++i) {
      for (int j = 0; j < 6; ++j)
         renamed[j % 3] = grid[j / 3][j % 3] = i + j;
      arrays.Fill();
   }
   file.Write();
}
void write_late_fields(const char *name, const char *empty)
{
   auto model = ROOT::RNTupleModel::Create();
   auto point = model->MakeField<std::array<float, 3>>("point");
   auto writer = ROOT::RNTupleWriter::Recreate(std::move(model), "data", name);
   std::shared_ptr<int> late;
   for (int i = 0; i < 300; ++i) {
      if (i == 150) {
         auto update = writer->CreateModelUpdater();
         update->BeginUpdate();
         late = update->MakeField<int>("late");
         update->MakeField<std::vector<float>>("lists");
         update->CommitUpdate();
      }
      *point = {1.f * i, 2.f * i, 3.f * i};
      if (late)
         *late = i;
      writer->Fill();
      if (i % 100 == 99)
         writer->CommitCluster();
   }
   writer.reset();
   auto none = ROOT::RNTupleModel::Create();
   none->MakeField<float>("x");
   ROOT::RNTupleWriter::Recreate(std::move(none), "data", empty);
}
void write_short_numbers(const char *name)
{
   TFile file(name, "recreate");
   TTree tree("data", "");
   Double32_t d;
   Float16_t f;
   tree.Branch("d", &d, "d/d");
   tree.Branch("f", &f, "f/f");
   for (int i = 0; i < 100; ++i) {
      d = f = i;
      tree.Fill();
   }
   file.Write();
}
"""


COMPRESSIONS = (0, 101, 207, 301, 404, 505)
"""100 times ROOT's number of the algorithm (3: that of before 2005), and the level."""


def written_by_root(shared_folder: Path, compression: int = 101) -> tuple[Path, Path]:
    """A file with a TTree and one with an RNTuple, of one of `COMPRESSIONS`.

    ROOT writes all of them once in a test run, in a process of its own: tests only read them.
    """
    folder = shared_folder / "by-root"
    with (shared_folder / "by-root.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            unfinished = folder.with_suffix(".new")
            unfinished.mkdir(exist_ok=True)
            _write_by_root(unfinished)
            unfinished.rename(folder)
    return folder / f"tree-{compression}.root", folder / f"ntuple-{compression}.root"


def records_by_root(shared_folder: Path) -> Path:
    """A file whose RNTuple has records, lists of records, arrays and strings, in three clusters."""
    return written_by_root(shared_folder)[0].with_name("records.root")


def tuples_by_root(shared_folder: Path) -> Path:
    """A file with a TNtuple, `single`, and a TNtupleD, `twice`, of 200 events."""
    return written_by_root(shared_folder)[0].with_name("tuples.root")


def bits_by_root(shared_folder: Path) -> Path:
    """A file whose RNTuple has a std::bitset, which RDataFrame cannot open."""
    return written_by_root(shared_folder)[0].with_name("bits.root")


def friends_by_root(shared_folder: Path) -> Path:
    """A file whose TTree has a friend, in a file that is found from its own folder only."""
    return written_by_root(shared_folder)[0].with_name("friends.root")


def short_numbers_by_root(shared_folder: Path) -> Path:
    """A file whose TTree has a Double32_t `d` and a Float16_t `f`."""
    return written_by_root(shared_folder)[0].with_name("short.root")


def leaves_by_root(shared_folder: Path) -> Path:
    """A file whose tree `data` has one branch, with leaves; its tree `arrays` has odd arrays."""
    return written_by_root(shared_folder)[0].with_name("leaves.root")


def late_fields_by_root(shared_folder: Path) -> tuple[Path, Path]:
    """A file whose RNTuple got fields after half of its events, and one without events."""
    tree = written_by_root(shared_folder)[0]
    return tree.with_name("late.root"), tree.with_name("empty.root")


def unflushed_by_root(shared_folder: Path) -> Path:
    """A file whose TTree has its baskets in its own metadata."""
    return written_by_root(shared_folder)[0].with_name("unflushed.root")


def _write_by_root(folder: Path) -> None:
    (folder / "write.hpp").write_text(_BY_ROOT)
    code = (
        "import ROOT, sys; ROOT.gInterpreter.Declare('#include \"write.hpp\"')\n"
        "for each in sys.argv[1:]: "
        "ROOT.write(f'tree-{each}.root', f'ntuple-{each}.root', int(each))\n"
        "ROOT.write_unflushed('unflushed.root')\n"
        "ROOT.write_records('records.root', 'bits.root')\n"
        "ROOT.write_short_numbers('short.root')\n"
        "ROOT.write_tuples('tuples.root')\n"
        "ROOT.write_leaves('leaves.root')\n"
        "ROOT.write_late_fields('late.root', 'empty.root')\n"
        "ROOT.write_friends('friends.root', 'other.root')"
    )
    command = [sys.executable, "-P", "-c", code, *map(str, COMPRESSIONS)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


def identities(files: list[Path]) -> list[tuple[Any, ...]]:
    """Everything of files that must stay: bytes, times, inodes, permissions, links."""
    found: list[tuple[Any, ...]] = []
    for file in files:
        status = file.stat()
        kept = (
            status.st_ino,
            status.st_mtime_ns,
            status.st_ctime_ns,
            status.st_mode,
            status.st_nlink,
        )
        found.append((file.read_bytes(), *kept))
    return found


def all_done(results: Path) -> list[dict[str, Any]]:
    """The records of a results folder, every one of a trial that succeeded."""
    found = [json.loads(file.read_text()) for file in sorted(results.glob("trials/*/trial.json"))]
    assert [(each["status"], each["cause"]) for each in found] == [("done", None)] * len(found)
    return found


def done_trials(results: Path) -> dict[str, dict[str, Any]]:
    """The records of a results folder by workload, every one of a trial that succeeded."""
    return {each["workload"]["name"]: each for each in all_done(results)}
