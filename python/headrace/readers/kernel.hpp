// The search of selection.py in C++, functions that feed it events of a TTree or of RDataFrame, and
// an event loop over the user's own files. ROOT's interpreter compiles it when a workload is warmed.
// Cuts, order and precision are those of selection.py, so that both fill the same bins; a test
// checks this.

#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <ROOT/RDataFrame.hxx>
#include <ROOT/RNTupleReader.hxx>
#include <ROOT/RNTupleView.hxx>
#include <ROOT/RVec.hxx>
#include <TBranchElement.h>
#include <TClass.h>
#include <TError.h>
#include <TFile.h>
#include <TKey.h>
#include <TLeaf.h>
#include <TMath.h>
#include <TROOT.h>
#include <TTree.h>
#include <TTreeFormula.h>

namespace headrace {

// One column of the current event: `count` values of `size` bytes each at `data`.
struct Column {
   std::string name;
   bool jagged = false;
   // Type of the values: f, d, c, s, i, l (signed, 8 to 64 bits), b, S, u, L (unsigned), ? (bool).
   char letter = 0;
   std::size_t size = 0;
   const void *data = nullptr;
   std::size_t count = 1;

   template <class T>
   T at(std::size_t index) const { return static_cast<const T *>(data)[index]; }
};

template <class T>
constexpr char letter_of()
{
   if (std::is_same<T, bool>::value)
      return '?';
   if (std::is_floating_point<T>::value)
      return sizeof(T) == 4 ? 'f' : 'd';
   if (!std::is_integral<T>::value)
      return 0;
   constexpr char letters[2][4] = {{'b', 'S', 'u', 'L'}, {'c', 's', 'i', 'l'}};
   return letters[std::is_signed<T>::value][sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3];
}

struct Columns {
   std::vector<Column> all;
   long long bytes = 0;

   explicit Columns(const std::vector<std::string> &names)
   {
      for (const auto &name : names) {
         all.emplace_back();
         all.back().name = name;
      }
   }

   const Column &named(const std::string &name) const
   {
      for (const auto &column : all)
         if (column.name == name)
            return column;
      throw std::runtime_error("no column " + name);
   }

   // Event data of the current event: values, and an offset for each column of a collection.
   void count(std::size_t offset_bytes)
   {
      for (const auto &column : all)
         bytes += column.count * column.size + (column.jagged ? offset_bytes : 0);
   }
};

struct Histogram {
   double low = 0, high = 1;
   std::vector<long long> counts;

   Histogram(int bins, double from, double to) : low(from), high(to), counts(bins + 2) {}

   void fill(double value)
   {
      const int bins = counts.size() - 2;
      const double position = (value - low) / (high - low);
      if (position < 0)
         ++counts[0];
      else if (position < 1)
         ++counts[1 + static_cast<int>(position * bins)];
      else
         ++counts[bins + 1]; // NaN too
   }
};

// The work on each event.
struct Work {
   std::map<std::string, Histogram> histograms;
   long long found = 0;

   virtual ~Work() = default;
   virtual void event() = 0;
   void add(const std::string &name, int bins, double low, double high) { histograms.emplace(name, Histogram(bins, low, high)); }
};

// Only counts events.
struct Nothing : Work {
   void event() override {}
};

// The workload `scan`: fills one histogram with the first column.
struct Scan : Work {
   const Column &column;
   char type;

   // `letter` is the type of a TTree's column, which does not state it; 0 means the column's own
   // type.
   Scan(const Columns &columns, char letter) : column(columns.all.at(0)), type(letter) {}

   double value(char letter, std::size_t index) const
   {
      switch (letter) {
      case 'f': return column.at<float>(index);
      case 'd': return column.at<double>(index);
      case 'c': return column.at<std::int8_t>(index);
      case 's': return column.at<std::int16_t>(index);
      case 'i': return column.at<std::int32_t>(index);
      case 'l': return column.at<std::int64_t>(index);
      case 'b': return column.at<std::uint8_t>(index);
      case 'S': return column.at<std::uint16_t>(index);
      case 'u': return column.at<std::uint32_t>(index);
      case 'L': return column.at<std::uint64_t>(index);
      case '?': return column.at<bool>(index);
      default: throw std::runtime_error("column " + column.name + " holds no numbers");
      }
   }

   void event() override
   {
      auto &histogram = histograms.begin()->second;
      const char letter = type ? type : column.letter;
      for (std::size_t index = 0; index < column.count; ++index)
         histogram.fill(value(letter, index));
   }
};

struct Momentum {
   double px = 0, py = 0, pz = 0, energy = 0;

   Momentum operator+(const Momentum &other) const
   {
      return {px + other.px, py + other.py, pz + other.pz, energy + other.energy};
   }
   double mass() const
   {
      const double squared = energy * energy - px * px - py * py - pz * pz;
      return std::copysign(std::sqrt(std::abs(squared)), squared);
   }
   double pt() const { return std::hypot(px, py); }
};

inline Momentum momentum(double pt, double eta, double phi, double mass)
{
   const double pz = pt * std::sinh(eta);
   return {pt * std::cos(phi), pt * std::sin(phi), pz, std::sqrt(mass * mass + pt * pt + pz * pz)};
}

struct Lepton {
   double pt, eta, phi;
   int charge;
   Momentum momentum;
};

struct Pair {
   Momentum momentum;
   std::size_t first, second;
   int flavour;
   double high, low, mass;
};

// The columns of a collection that the search reads.
struct LeptonColumns {
   const Column &pt, &eta, &phi, &mass, &charge, &loose, &isolation, &dxy, &dz;

   LeptonColumns(const Columns &of, const std::string &name, const std::string &cone)
      : pt(of.named(name + "_pt")), eta(of.named(name + "_eta")), phi(of.named(name + "_phi")),
        mass(of.named(name + "_mass")), charge(of.named(name + "_charge")), loose(of.named(name + "_looseId")),
        isolation(of.named(name + "_pfRelIso" + cone + "_all")), dxy(of.named(name + "_dxy")), dz(of.named(name + "_dz"))
   {
   }

   std::vector<Lepton> good(double lowest_pt, double highest_eta) const
   {
      std::vector<Lepton> found;
      for (std::size_t i = 0; i < pt.count; ++i) {
         const double pt_i = pt.at<float>(i), eta_i = eta.at<float>(i), phi_i = phi.at<float>(i);
         if (loose.at<bool>(i) && pt_i > lowest_pt && std::abs(eta_i) < highest_eta && isolation.at<float>(i) < 0.35f &&
             std::abs(dxy.at<float>(i)) < 0.5f && std::abs(dz.at<float>(i)) < 1.0f)
            found.push_back({pt_i, eta_i, phi_i, charge.at<std::int32_t>(i), momentum(pt_i, eta_i, phi_i, mass.at<float>(i))});
      }
      return found;
   }
};

inline double distance(double eta, double phi, double other_eta, double other_phi)
{
   const double delta = std::remainder(phi - other_phi, 2 * M_PI);
   return std::hypot(eta - other_eta, delta);
}

struct Search : Work {
   const LeptonColumns electrons, muons;
   const Column &jet_pt, &jet_eta, &jet_phi, &jet_mass, &jet_id;
   const Column &track_pt, &track_eta, &track_phi, &track_pure, &track_hits, &track_chi2, &missing_pt;

   explicit Search(const Columns &of)
      : electrons(of, "Electron", "03"), muons(of, "Muon", "04"), jet_pt(of.named("Jet_pt")), jet_eta(of.named("Jet_eta")),
        jet_phi(of.named("Jet_phi")), jet_mass(of.named("Jet_mass")), jet_id(of.named("Jet_jetId")),
        track_pt(of.named("Track_pt")), track_eta(of.named("Track_eta")), track_phi(of.named("Track_phi")),
        track_pure(of.named("Track_isHighPurity")), track_hits(of.named("Track_nHits")),
        track_chi2(of.named("Track_chi2")), missing_pt(of.named("MET_pt"))
   {
   }

   void fill(const char *name, double value) { histograms.at(name).fill(value); }

   static void pairs(const std::vector<Lepton> &leptons, int flavour, std::vector<Pair> &found)
   {
      for (std::size_t i = 0; i < leptons.size(); ++i)
         for (std::size_t j = i + 1; j < leptons.size(); ++j)
            if (leptons[i].charge + leptons[j].charge == 0) {
               const Momentum total = leptons[i].momentum + leptons[j].momentum;
               found.push_back({total, i, j, flavour, std::max(leptons[i].pt, leptons[j].pt),
                                std::min(leptons[i].pt, leptons[j].pt), total.mass()});
            }
   }

   void isolation(const std::vector<Lepton> &leptons, const std::vector<std::size_t> &tracks, const char *name)
   {
      for (const auto &lepton : leptons) {
         double sum = 0;
         for (const auto track : tracks) {
            const double apart = distance(lepton.eta, lepton.phi, track_eta.at<float>(track), track_phi.at<float>(track));
            if (apart < 0.3 && apart > 0.01)
               sum += track_pt.at<float>(track);
         }
         fill(name, sum / lepton.pt);
      }
   }

   void four_leptons(const std::vector<Pair> &both)
   {
      constexpr double z_mass = 91.1876;
      const Pair *best_a = nullptr, *best_b = nullptr;
      double best_rank = 0, best_nearer = 0, best_other = 0;
      for (std::size_t i = 0; i < both.size(); ++i)
         for (std::size_t j = i + 1; j < both.size(); ++j) {
            const Pair &a = both[i], &b = both[j];
            if (a.flavour == b.flavour &&
                (a.first == b.first || a.first == b.second || a.second == b.first || a.second == b.second))
               continue;
            const bool first_is_nearer = std::abs(a.mass - z_mass) <= std::abs(b.mass - z_mass);
            const double nearer = first_is_nearer ? a.mass : b.mass, other = first_is_nearer ? b.mass : a.mass;
            const double leading = std::max(a.high, b.high);
            const double next = std::max(std::min(a.high, b.high), a.high > b.high ? a.low : b.low);
            if (!(nearer > 40 && nearer < 120 && other > 12 && other < 120 && leading > 20 && next > 10))
               continue;
            const double rank = std::abs(nearer - z_mass) - 1e-6 * other;
            if (!best_a || rank < best_rank) {
               best_a = &a, best_b = &b;
               best_rank = rank, best_nearer = nearer, best_other = other;
            }
         }
      if (!best_a)
         return;
      ++found;
      const Momentum total = best_a->momentum + best_b->momentum;
      const int electron_pairs = (best_a->flavour == 11) + (best_b->flavour == 11);
      fill("four_lepton_mass", total.mass());
      fill(electron_pairs == 2 ? "four_electron_mass" : electron_pairs == 1 ? "two_electron_two_muon_mass" : "four_muon_mass",
           total.mass());
      fill("four_lepton_pt", total.pt());
      fill("heavier_z_mass", best_nearer);
      fill("lighter_z_mass", best_other);
   }

   void event() override
   {
      const auto good_electrons = electrons.good(7, 2.5), good_muons = muons.good(5, 2.4);
      std::vector<std::size_t> tracks;
      for (std::size_t i = 0; i < track_pt.count; ++i)
         if (track_pure.at<bool>(i) && double(track_pt.at<float>(i)) > 0.7 && track_hits.at<std::int32_t>(i) >= 7 &&
             track_chi2.at<float>(i) < 3)
            tracks.push_back(i);
      fill("good_tracks", tracks.size());
      isolation(good_muons, tracks, "muon_track_isolation");
      isolation(good_electrons, tracks, "electron_track_isolation");

      std::vector<Momentum> jets;
      double sum = 0;
      for (std::size_t i = 0; i < jet_pt.count; ++i) {
         const double pt = jet_pt.at<float>(i), eta = jet_eta.at<float>(i);
         if (pt > 30 && std::abs(eta) < 4.7 && jet_id.at<std::int32_t>(i) >= 2) {
            if (jets.empty())
               fill("leading_jet_pt", pt);
            sum += pt;
            jets.push_back(momentum(pt, eta, jet_phi.at<float>(i), jet_mass.at<float>(i)));
         }
      }
      fill("jets", jets.size());
      fill("jet_pt_sum", sum);
      for (std::size_t i = 0; i < jets.size(); ++i)
         for (std::size_t j = i + 1; j < jets.size(); ++j)
            fill("dijet_mass", (jets[i] + jets[j]).mass());
      fill("missing_pt", missing_pt.at<float>(0));

      std::vector<Pair> both;
      pairs(good_electrons, 11, both);
      for (const auto &pair : both)
         fill("dielectron_mass", pair.mass);
      const auto electron_pairs = both.size();
      pairs(good_muons, 13, both);
      for (auto i = electron_pairs; i < both.size(); ++i)
         fill("dimuon_mass", both[i].mass);
      if (both.size() >= 2)
         four_leptons(both);
   }
};

// The first error that ROOT has reported since the last reset; ROOT prints errors and continues.
// Any thread of a job may report one.
struct KeptError {
   std::mutex lock;
   std::string text;
   std::atomic<bool> any{false};
};

inline KeptError &kept_error()
{
   static KeptError error;
   return error;
}

inline bool has_error() { return kept_error().any.load(std::memory_order_relaxed); }

inline std::string first_error()
{
   std::lock_guard<std::mutex> guard(kept_error().lock);
   return kept_error().text;
}

inline void keep_error(int level, Bool_t, const char *where, const char *message)
{
   if (level < kError)
      return;
   std::lock_guard<std::mutex> guard(kept_error().lock);
   if (kept_error().text.empty())
      kept_error().text = std::string(where) + ": " + message;
   kept_error().any = true;
}

inline void forget_error()
{
   std::lock_guard<std::mutex> guard(kept_error().lock);
   kept_error().text.clear();
   kept_error().any = false;
}

inline void keep_errors() { SetErrorHandler(keep_error); }

inline std::unique_ptr<TFile> opened(const std::string &file)
{
   std::unique_ptr<TFile> found(TFile::Open(file.c_str(), "READ"));
   if (!found || found->IsZombie())
      throw std::runtime_error("cannot be opened as a ROOT file");
   if (found->TestBit(TFile::kRecovered))
      throw std::runtime_error("truncated: ROOT had to recover it");
   if (file.rfind("root://", 0) == 0 && std::string(found->ClassName()) != "TNetXNGFile")
      throw std::runtime_error(std::string("is read past its server, by ") + found->ClassName());
   return found;
}

// A classic event loop over the events [first, first + count) of a TTree.
// A negative count means to the end.
inline long long loop_tree(const std::string &file, const std::string &name, Columns &columns, long long first, long long count, Work &work)
{
   const auto source = opened(file);
   TTree *tree = source->Get<TTree>(name.c_str());
   if (!tree)
      throw std::runtime_error("has no tree " + name);
   const long long stop = count < 0 ? tree->GetEntries() : first + count;
   if (stop > tree->GetEntries())
      throw std::runtime_error("has only " + std::to_string(tree->GetEntries()) + " events");
   tree->SetBranchStatus("*", false);
   std::map<std::string, std::vector<char>> buffers;
   std::vector<std::pair<Column *, const std::int32_t *>> jagged;
   auto address = [&](TLeaf *leaf, std::size_t values) -> char * {
      auto &buffer = buffers[leaf->GetName()];
      if (buffer.empty()) {
         buffer.resize(std::max<std::size_t>(1, values) * leaf->GetLenType());
         tree->SetBranchStatus(leaf->GetName(), true);
         tree->SetBranchAddress(leaf->GetName(), static_cast<void *>(buffer.data()));
      }
      return buffer.data();
   };
   for (auto &column : columns.all) {
      TLeaf *leaf = tree->GetLeaf(column.name.c_str());
      if (!leaf)
         throw std::runtime_error("no column " + column.name);
      TLeaf *counter = leaf->GetLeafCount();
      column.jagged = counter != nullptr;
      column.size = leaf->GetLenType();
      column.count = 1;
      if (counter)
         jagged.emplace_back(&column, reinterpret_cast<const std::int32_t *>(address(counter, 1)));
      column.data = address(leaf, counter ? counter->GetMaximum() : 1);
   }
   for (long long entry = first; entry < stop; ++entry) {
      if (tree->GetEntry(entry) <= 0)
         throw std::runtime_error("event " + std::to_string(entry) + " cannot be read");
      for (auto &[column, number] : jagged)
         column->count = *number;
      columns.count(4);
      work.event();
   }
   return stop - first;
}

// RDataFrame calls this for each event with its columns, in the order of `columns`.
template <class T>
void take(Column &column, const T &value)
{
   column.jagged = false;
   column.letter = letter_of<T>();
   column.size = sizeof(T);
   column.data = &value;
   column.count = 1;
}

template <class T>
void take(Column &column, const ROOT::RVec<T> &values)
{
   column.jagged = true;
   column.letter = letter_of<T>();
   column.size = sizeof(T);
   column.data = values.data();
   column.count = values.size();
}

// The columns and the work of each thread of a job: those of RDataFrame's slot n at index n.
struct Lanes {
   std::vector<Columns *> columns;
   std::vector<Work *> works;

   void add(Columns &of, Work &work)
   {
      columns.push_back(&of);
      works.push_back(&work);
   }
   void event(unsigned slot, std::size_t offset_bytes)
   {
      columns[slot]->count(offset_bytes);
      works[slot]->event();
   }
};

inline Lanes *fed_lanes = nullptr;
inline std::size_t fed_offset_bytes = 4;

template <class... T>
bool feed(unsigned slot, const T &...values)
{
   // After an error, RDataFrame still calls this, with columns that point to nothing.
   if (has_error())
      throw std::runtime_error(first_error());
   auto &columns = fed_lanes->columns[slot]->all;
   std::size_t index = 0;
   (take(columns[index++], values), ...);
   fed_lanes->event(slot, fed_offset_bytes);
   return true;
}

// A branch of lists whose baskets store no offsets (kGenerateOffsetMap). ROOT derives those of a
// basket from the counter, beginning with the event at which it first reads the basket: they are
// right only if that is the basket's first event. RDataFrame does not read lists without values.
struct Offsetless {
   TBranch *branch;
   Long64_t begin = 0, end = 0; // events of the basket that was last read

   static bool is(TBranch *branch)
   {
      const auto *leaves = branch->GetListOfLeaves();
      return branch->IsA() == TBranch::Class() && leaves->GetEntriesFast() == 1 &&
             static_cast<TLeaf *>(leaves->At(0))->GetLeafCount() &&
             branch->GetIOFeatures().Test(ROOT::Experimental::EIOFeatures::kGenerateOffsetMap);
   }

   // Read the first event of the basket that this event is in.
   void prepare(Long64_t event)
   {
      if (event >= begin && event < end)
         return;
      const Long64_t last = branch->GetWriteBasket();
      const auto *starts = branch->GetBasketEntry();
      const auto number = TMath::BinarySearch(last + 1, starts, event);
      begin = starts[number];
      end = number < last ? starts[number + 1] : branch->GetEntries();
      branch->GetEntry(begin, 1);
   }
};

// Any TTree: its branches with data by their paths, read with ROOT's (possibly emulated) classes.
struct OwnTree {
   std::unique_ptr<TFile> file;
   TTree *tree = nullptr;
   // The columns, by the rule of branch_columns.py: each leaf of a branch that has several.
   std::vector<TBranch *> branches;
   std::vector<TLeaf *> leaves;
   std::vector<std::string> paths;
   std::map<TBranch *, TBranch *> parents;
   std::vector<Offsetless> offsetless; // of the chosen branches
   bool emulated = false, looped = false;
   long long bytes = 0;

   OwnTree(const std::string &name, const std::string &tree_name) : file(opened(name))
   {
      tree = file->Get<TTree>(tree_name.c_str());
      if (!tree)
         throw std::runtime_error("has no tree " + tree_name);
      // A friend's file need not lie where the jobs run: ROOT then fails, and RDataFrame crashes.
      if (auto *friends = tree->GetListOfFriends())
         friends->Delete();
      // ROOT reports, and reads nevertheless, leaves whose size it finds wrong.
      forget_error();
      collect(tree->GetListOfBranches(), nullptr, "");
   }

   OwnTree(const OwnTree &) = delete;

   ~OwnTree()
   {
      // ROOT may crash when it frees objects of classes without code, built from the file's
      // description.
      if (emulated && looped) {
         gROOT->GetListOfFiles()->Remove(file.get());
         file.release();
      }
   }

   void collect(TObjArray *list, TBranch *parent, const std::string &prefix)
   {
      for (int i = 0; i <= list->GetLast(); ++i) {
         auto *branch = static_cast<TBranch *>(list->At(i));
         const std::string path = prefix + branch->GetName();
         parents[branch] = parent;
         if (branch->GetListOfBaskets()->GetEntries() || branch->GetWriteBasket() > 0)
            add_columns(branch, path);
         if (branch->InheritsFrom("TBranchElement")) {
            auto *type = TClass::GetClass(static_cast<TBranchElement *>(branch)->GetClassName(), true, true);
            emulated = emulated || !type || !type->IsLoaded();
         }
         collect(branch->GetListOfBranches(), branch, path + "/");
      }
   }

   static bool has_leaves(TBranch *branch)
   {
      return branch->IsA() == TBranch::Class() && branch->GetListOfLeaves()->GetEntriesFast() > 1;
   }

   void add_columns(TBranch *branch, const std::string &path)
   {
      const int count = has_leaves(branch) ? branch->GetListOfLeaves()->GetEntriesFast() : 1;
      for (int i = 0; i < count; ++i) {
         auto *leaf = static_cast<TLeaf *>(branch->GetListOfLeaves()->At(i));
         branches.push_back(branch);
         leaves.push_back(leaf);
         paths.push_back(has_leaves(branch) ? path + "." + leaf->GetName() : path);
      }
   }

   void enable(TBranch *branch)
   {
      for (; branch; branch = parents[branch]) {
         branch->ResetBit(kDoNotProcess);
         if (branch->InheritsFrom("TBranchElement")) {
            auto *element = static_cast<TBranchElement *>(branch);
            for (auto *counter : {element->GetBranchCount(), element->GetBranchCount2()})
               if (counter)
                  counter->ResetBit(kDoNotProcess);
         }
         for (int i = 0; i <= branch->GetListOfLeaves()->GetLast(); ++i)
            if (auto *counter = static_cast<TLeaf *>(branch->GetListOfLeaves()->At(i))->GetLeafCount())
               counter->GetBranch()->ResetBit(kDoNotProcess);
      }
   }

   void choose(const std::vector<std::size_t> &numbers)
   {
      for (const auto &[branch, parent] : parents)
         branch->SetBit(kDoNotProcess);
      offsetless.clear();
      for (const auto number : numbers) {
         enable(branches.at(number));
         if (Offsetless::is(branches.at(number)))
            offsetless.push_back({branches.at(number)});
      }
   }

   // A classic event loop over [first, first + count) that fills the histogram with one column's
   // values; a negative variable fills nothing.
   // A negative count means to the end.
   long long loop(long long variable, long long first, long long count, Histogram &histogram)
   {
      looped = true;
      const long long stop = count < 0 ? tree->GetEntries() : first + count;
      if (stop > tree->GetEntries())
         throw std::runtime_error("has only " + std::to_string(tree->GetEntries()) + " events");
      auto *leaf = variable < 0 ? nullptr : leaves.at(variable);
      // A leaf does not know the number of values of an unsplit collection, such as a std::vector.
      std::unique_ptr<TTreeFormula> values;
      auto *element = variable < 0 ? nullptr : dynamic_cast<TBranchElement *>(branches.at(variable));
      // The baskets of a collection with branches of its own hold the number of its members.
      const bool has_members = element && element->GetListOfBranches()->GetEntriesFast() > 0;
      if (element && !has_members && element->GetBranchCount() == nullptr) {
         values = std::make_unique<TTreeFormula>("values", element->GetFullName().Data(), tree);
         if (values->GetNdim() == 0)
            values.reset();
         forget_error();
      }
      for (long long entry = first; entry < stop; ++entry) {
         if (entry == first && !offsetless.empty()) {
            tree->LoadTree(entry);
            for (auto &each : offsetless)
               each.prepare(entry);
         }
         const auto got = tree->GetEntry(entry);
         if (got < 0 || has_error())
            throw std::runtime_error("event " + std::to_string(entry) + " cannot be read");
         bytes += got;
         if (!leaf)
            continue;
         if (has_members) {
            histogram.fill(element->GetNdata());
            continue;
         }
         // The length is negative for an array to which a member points (`UChar_t *bits; //[n]`).
         const int count_here = values ? values->GetNdata() : std::abs(leaf->GetLen());
         for (int i = 0; i < count_here; ++i)
            histogram.fill(values ? values->EvalInstance(i) : leaf->GetValue(i));
      }
      return stop - first;
   }
};

// The columns of a field of an RNTuple, by the rule of ntuple_columns.py: the field itself or, of a
// record and of a list of records, each member. The type is empty for what is not one number, or one
// list of numbers, per event; `lists`: the lists above the field, 2 for any other form.
inline void fields_below(const ROOT::RNTupleDescriptor &descriptor, const ROOT::RFieldDescriptor &field, const std::string &name,
                         int lists, std::vector<std::pair<std::string, std::string>> &found)
{
   using Structure = ROOT::ENTupleStructure;
   const auto structure = field.GetStructure();
   const std::string &type = field.GetTypeName();
   const bool repeated = field.GetNRepetitions() > 0;
   if (structure == Structure::kVariant) {
      found.emplace_back(name, "");
      return;
   }
   if (field.GetLinkIds().empty()) {
      const bool plain = structure == Structure::kPlain && !repeated && lists < 2;
      found.emplace_back(name, !plain ? "" : lists == 0 ? type : "std::vector<" + type + ">");
      return;
   }
   if (structure == Structure::kCollection) {
      const bool vector = type.empty() || type.rfind("std::vector<", 0) == 0 || type.rfind("ROOT::VecOps::RVec<", 0) == 0;
      lists += vector ? 1 : 2;
   } else if (structure != Structure::kRecord || repeated) {
      lists = 2;
   }
   for (const auto &below : descriptor.GetFieldIterable(field))
      fields_below(descriptor, below, structure == Structure::kRecord ? name + "." + below.GetFieldName() : name, lists, found);
}

// Names and types of the columns of an RNTuple.
inline std::vector<std::pair<std::string, std::string>> fields_of(const ROOT::RNTupleDescriptor &descriptor)
{
   std::vector<std::pair<std::string, std::string>> found;
   for (const auto &field : descriptor.GetTopLevelFields())
      fields_below(descriptor, field, field.GetFieldName(), 0, found);
   return found;
}

inline std::vector<std::pair<std::string, std::string>> ntuple_fields(const std::string &file, const std::string &name)
{
   return fields_of(ROOT::RNTupleReader::Open(name, file)->GetDescriptor());
}

// Every tree of a file in its last cycle, with its directory and class.
inline void trees_below(TDirectory &directory, const std::string &prefix, std::vector<std::pair<std::string, std::string>> &found)
{
   std::map<std::string, std::pair<int, TKey *>> last;
   std::vector<std::string> order;
   for (auto *object : *directory.GetListOfKeys()) {
      auto *key = static_cast<TKey *>(object);
      auto &known = last[key->GetName()];
      if (!known.second)
         order.push_back(key->GetName());
      if (!known.second || key->GetCycle() > known.first)
         known = {key->GetCycle(), key};
   }
   for (const auto &name : order) {
      auto *key = last[name].second;
      const std::string type = key->GetClassName();
      if (type == "TTree" || type == "TNtuple" || type == "TNtupleD" || type.find("RNTuple") != std::string::npos)
         found.emplace_back(prefix + name, type);
      else if (type.rfind("TDirectory", 0) == 0)
         if (auto *inner = directory.GetDirectory(name.c_str()))
            trees_below(*inner, prefix + name + "/", found);
   }
}

inline std::vector<std::pair<std::string, std::string>> trees_of(const std::string &file)
{
   const auto source = opened(file);
   std::vector<std::pair<std::string, std::string>> found;
   trees_below(*source, "", found);
   return found;
}

// The events of each of some TTrees and RNTuples of a file.
inline std::vector<long long> events_of(const std::string &file, const std::vector<std::string> &names)
{
   const auto source = opened(file);
   std::vector<long long> found;
   for (const auto &name : names) {
      if (auto *tree = source->Get<TTree>(name.c_str()))
         found.push_back(tree->GetEntries());
      else
         found.push_back(ROOT::RNTupleReader::Open(name, file)->GetNEntries());
   }
   forget_error();
   return found;
}

} // namespace headrace
