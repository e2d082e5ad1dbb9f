"""ROOT files with odd branches and odd trees, written by ROOT."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

_BY_ROOT = """
void write_branches(const char *name)
{
   TFile file(name, "recreate");
   TTree tree("data", "");
   struct { signed char a1[4], a2[4]; } arr;
   struct { float p[3], q[3]; } pair;
   struct { float p[2][2]; int n; } mixed;
   struct { char s[8]; int k; } text;
   int x, n;
   float vm[5][3], late;
   tree.Branch("arr", &arr, "a1[4]/B:a2[4]/B");
   tree.Branch("pair", &pair, "p[3]/F:q[3]/F");
   tree.Branch("mixed", &mixed, "p[2][2]/F:n/I");
   tree.Branch("text", &text, "s[8]/C:k/I");
   tree.Branch("x", &x, "x/I");
   tree.Branch("n", &n, "n/I");
   tree.Branch("vm", vm, "vm[n][3]/F");
   for (int i = 0; i < 100; ++i) {
      x = i;
      n = i % 5;
      for (int j = 0; j < 4; ++j) {
         arr.a1[j] = i;
         arr.a2[j] = j;
         mixed.p[j / 2][j % 2] = 10 * i + j;
      }
      for (int j = 0; j < 3; ++j) {
         pair.p[j] = i;
         pair.q[j] = i + j;
      }
      mixed.n = i;
      snprintf(text.s, sizeof text.s, "%d", i);
      text.k = i;
      for (int j = 0; j < n; ++j)
         for (int k = 0; k < 3; ++k)
            vm[j][k] = 1.37f * i + j * k;
      tree.Fill();
   }
   auto *branch = tree.Branch("late", &late, "late/F");
   for (int i = 0; i < 40; ++i) {
      late = i;
      branch->Fill();
   }
   file.Write();
}
void write_offsetless(const char *name)
{
   TFile file(name, "recreate");
   TTree tree("data", "");
   ROOT::TIOFeatures features;
   features.Set(ROOT::Experimental::EIOFeatures::kGenerateOffsetMap);
   tree.SetIOFeatures(features);
   tree.SetAutoFlush(0);
   int n;
   float x[6], pairs[6][2];
   tree.Branch("n", &n, "n/I", 600); // sizes of baskets that end at different events
   tree.Branch("x", x, "x[n]/F", 1500);
   tree.Branch("pairs", pairs, "pairs[n][2]/F", 4000);
   TRandom3 random(1);
   for (int i = 0; i < 2000; ++i) {
      n = std::max(0, int(random.Integer(8)) - 2);
      for (int j = 0; j < n; ++j) {
         x[j] = i + 0.25;
         pairs[j][0] = pairs[j][1] = i + 0.25;
      }
      tree.Fill();
   }
   file.Write();
}
class OddTrack : public TObject {
public:
   double energy = 500;
   TBits bits;
   OddTrack(int size = 8) : bits(size) { bits.SetBitNumber(size); }
   ClassDefOverride(OddTrack, 1)
};
void write_pointed(const char *name)
{
   TFile file(name, "recreate");
   TTree tree("data", "");
   TBits bits;
   TClonesArray many("TBits"), tracks("OddTrack");
   double x;
   tree.Branch("bits.", &bits);
   tree.Branch("many", &many);
   tree.Branch("tracks", &tracks);
   tree.Branch("x", &x);
   for (int i = 0; i < 100; ++i) {
      x = i;
      bits.ResetAllBits();
      for (int j = 0; j < i % 20; ++j)
         bits.SetBitNumber(3 * j);
      many.Clear();
      for (int j = 0; j < i % 3; ++j)
         new (many[j]) TBits(8 * i);
      tracks.Clear();
      for (int j = 0; j < 2; ++j)
         new (tracks[j]) OddTrack(i);
      tree.Fill();
   }
   file.Write();
}
void write_objects(const char *name)
{
   TFile file(name, "recreate");
   TTree tree("data", "");
   TLorentzVector vector;
   std::vector<std::vector<double>> nested;
   std::string text;
   tree.Branch("vector", &vector, 4000, 0);
   tree.Branch("nested", &nested);
   tree.Branch("text", &text);
   for (int i = 0; i < 500; ++i) {
      vector.SetPxPyPzE(i, 1, 2, 2 * i);
      nested.assign(i % 3, std::vector<double>(i % 4, i));
      text = std::string(i % 7, 'a');
      tree.Fill();
   }
   file.Write();
}
void write_slowly(const char *name, const char *at_first, const char *in_between)
{
   auto copy = [name](const char *to) { gSystem->CopyFile(name, to, true); };
   TFile file(name, "recreate");
   copy(at_first);
   TTree tree("data", "");
   TRandom3 random(1);
   float x;
   tree.Branch("x", &x, "x/F", 4000);
   auto fill = [&] {
      for (int i = 0; i < 20'000; ++i) {
         x = random.Rndm();
         tree.Fill();
      }
   };
   fill();
   tree.AutoSave("SaveSelf");
   for (int i = 0; i < 3; ++i) {
      fill();
      tree.AutoSave();
   }
   fill();
   file.Flush();
   copy(in_between);
   file.Write();
}
"""


def branches_by_root(shared_folder: Path) -> Path:
    """A file whose TTree has branches that uproot or RDataFrame takes for others."""
    return _folder(shared_folder) / "branches.root"


def offsetless_by_root(shared_folder: Path) -> Path:
    """A file whose TTree has lists without stored offsets, as ROOT writes them on request."""
    return _folder(shared_folder) / "offsetless.root"


def pointed_by_root(shared_folder: Path) -> Path:
    """A file whose TTree has arrays to which members point, of objects and in a collection."""
    return _folder(shared_folder) / "pointed.root"


def objects_by_root(shared_folder: Path) -> Path:
    """A file whose TTree has objects only: no column of numbers."""
    return _folder(shared_folder) / "objects.root"


def copied_while_written_by_root(shared_folder: Path) -> tuple[Path, Path]:
    """Copies of a file that ROOT had just begun, and of one whose tree it had moved meanwhile."""
    folder = _folder(shared_folder)
    return folder / "at-first.root", folder / "in-between.root"


def _folder(shared_folder: Path) -> Path:
    """Return the folder of the files, which ROOT writes once in a test run, in its own process."""
    folder = shared_folder / "odd-by-root"
    with (shared_folder / "odd-by-root.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            unfinished = folder.with_suffix(".new")
            unfinished.mkdir(exist_ok=True)
            _write(unfinished)
            unfinished.rename(folder)
    return folder


def _write(folder: Path) -> None:
    (folder / "write.hpp").write_text(_BY_ROOT)
    code = (
        "import ROOT; ROOT.gInterpreter.Declare('#include \"write.hpp\"')\n"
        "ROOT.write_branches('branches.root')\n"
        "ROOT.write_offsetless('offsetless.root')\n"
        "ROOT.write_objects('objects.root')\n"
        "ROOT.write_pointed('pointed.root')\n"
        "ROOT.write_slowly('slow.root', 'at-first.root', 'in-between.root')"
    )
    command = [sys.executable, "-P", "-c", code]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


_WITH_A_MAP = """
void write_map(const char *name)
{
   TFile file(name, "recreate");
   TTree tree("data", "");
   std::map<int, double> map;
   int x;
   tree.Branch("map", &map);
   tree.Branch("x", &x);
   for (x = 0; x < 50; ++x) {
      map.clear();
      for (int j = 0; j < x % 4; ++j)
         map[x + j] = x;
      tree.Fill();
   }
   file.Write();
}
"""


def map_by_root(folder: Path) -> Path:
    """A file whose TTree has a split std::map, for which ROOT compiles a dictionary first."""
    code = (
        "import ROOT; ROOT.gInterpreter.GenerateDictionary('std::map<int,double>', 'map')\n"
        f"ROOT.gInterpreter.Declare('''{_WITH_A_MAP}''')\n"
        "ROOT.write_map('map.root')"
    )
    command = [sys.executable, "-P", "-c", code]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "map.root"
