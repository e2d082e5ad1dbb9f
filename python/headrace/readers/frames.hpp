// The user's own files with RDataFrame. Not in kernel.hpp: ROOT's interpreter takes three times as
// long for these templates as for all of kernel.hpp, and most readers do not need them.

#pragma once

#include "kernel.hpp"

namespace headrace {

// One of the user's own files in RDataFrame: its columns, and the types that RDataFrame gives them.
struct OwnFrame {
   std::unique_ptr<OwnTree> tree;
   std::unique_ptr<ROOT::RDataFrame> frame;
   std::vector<std::string> paths; // those of OwnTree or, of an RNTuple, of fields_of
   std::vector<std::string> names; // RDataFrame's; empty when it has no such column
   std::vector<std::string> types;
   std::vector<std::string> known; // every name that RDataFrame has
   std::map<std::string, Offsetless> offsetless; // by RDataFrame's name
   long long events = 0;
   int compression = 0; // of the file's header

   OwnFrame(const std::string &file, const std::string &name, bool is_ntuple)
   {
      std::vector<std::vector<std::string>> candidates;
      if (is_ntuple) {
         // RDataFrame silently reads a recovered file, or one that bypasses its server.
         compression = opened(file)->GetCompressionSettings();
         const auto reader = ROOT::RNTupleReader::Open(name, file);
         events = reader->GetNEntries();
         for (const auto &[path, type] : fields_of(reader->GetDescriptor())) {
            paths.push_back(path);
            candidates.push_back({path});
         }
         try {
            frame = std::make_unique<ROOT::RDataFrame>(name, file);
         } catch (const std::out_of_range &) { // ROOT: of a std::bitset, whichever columns are read
            throw std::runtime_error("RDataFrame cannot take a field of the RNTuple apart, such as a std::bitset; "
                                     "reader = \"event-loop\" and reader = \"uproot\" can");
         }
      } else {
         tree = std::make_unique<OwnTree>(file, name);
         compression = tree->file->GetCompressionSettings();
         events = tree->tree->GetEntries();
         paths = tree->paths;
         tree->looped = true;
         frame = std::make_unique<ROOT::RDataFrame>(*tree->tree);
         for (std::size_t i = 0; i < paths.size(); ++i)
            candidates.push_back(names_of(tree->branches[i], tree->leaves[i], paths[i]));
      }
      choose(candidates);
      for (std::size_t i = 0; tree && i < names.size(); ++i)
         if (Offsetless::is(tree->branches[i]))
            offsetless.insert({names[i], Offsetless{tree->branches[i]}});
   }

   OwnFrame(const OwnFrame &) = delete;

   ~OwnFrame() { frame.reset(); } // before its tree

   static std::vector<std::string> names_of(TBranch *branch, TLeaf *leaf, const std::string &path)
   {
      // The baskets of a branch with branches of its own hold the length of a collection, and
      // RDataFrame takes them for the collection.
      if (branch->GetListOfBranches()->GetEntriesFast() > 0)
         return {};
      if (is_nested(branch))
         return {};
      const std::string name = branch->GetName(), of_leaf = name + "." + leaf->GetName();
      std::string dotted = path;
      std::replace(dotted.begin(), dotted.end(), '/', '.');
      if (OwnTree::has_leaves(branch))
         return {dotted, of_leaf};
      // ROOT: "cannot be represented as a C++ type", of the array of a branch with another name.
      const bool is_array = leaf->GetLeafCount() || leaf->GetLenStatic() > 1;
      if (branch->IsA() == TBranch::Class() && is_array && name != leaf->GetName())
         return {};
      return {branch->GetFullName().Data(), dotted, name, of_leaf};
   }

   // Whether it is a member of an object in the objects of a TClonesArray: RDataFrame takes its values
   // from other places in these.
   static bool is_nested(TBranch *branch)
   {
      auto *element = dynamic_cast<TBranchElement *>(branch);
      if (!element || element->GetType() != 31 || !element->GetBranchCount())
         return false;
      const std::string name = element->GetName(), above = std::string(element->GetBranchCount()->GetName()) + ".";
      return name.rfind(above, 0) == 0 && name.find('.', above.size()) != std::string::npos;
   }

   // Whether an event has a list of values of the branch: of members of a collection, or a list itself.
   static bool is_listed(TBranch *branch)
   {
      auto *element = dynamic_cast<TBranchElement *>(branch);
      return element && element->GetBranchCount();
   }

   void choose(const std::vector<std::vector<std::string>> &candidates)
   {
      known = frame->GetColumnNames();
      const std::set<std::string> all(known.begin(), known.end());
      for (std::size_t i = 0; i < candidates.size(); ++i) {
         const auto &some = candidates[i];
         const auto name = std::find_if(some.begin(), some.end(), [&](const auto &each) { return all.count(each); });
         names.push_back(name == some.end() ? "" : *name);
         types.emplace_back();
         try {
            if (name != some.end())
               types.back() = frame->GetColumnType(*name);
            // RDataFrame takes lists of each member of a collection for one number, and fails then.
            if (tree && is_listed(tree->branches[i]) && types.back().find('<') == std::string::npos)
               types.back().clear();
         } catch (const std::exception &) { // a type that RDataFrame cannot name
         }
      }
      forget_error();
   }
};

// A step of RDataFrame for the column at an index of all lanes; with a name, for a copy of it.
using Step = ROOT::RDF::RNode (*)(ROOT::RDF::RNode, Lanes &, std::size_t, const std::string &);

inline const std::string &name_of(const Lanes &lanes, std::size_t index) { return lanes.columns[0]->all[index].name; }

// The compiled steps by the type of the column: `float`, `list of float`.
struct Steps {
   std::map<std::string, Step> taking, copying;
};

inline Steps &steps()
{
   static Steps all;
   return all;
}

// A step that takes one column. RDataFrame would compile a call for all columns of a file in every
// job; these calls are compiled before the jobs, one for each type that the files have.
template <class T>
ROOT::RDF::RNode taking(ROOT::RDF::RNode node, Lanes &lanes, std::size_t index, const std::string &)
{
   auto step = [&lanes, index](unsigned slot, const T &value) {
      if (has_error())
         throw std::runtime_error(first_error());
      take(lanes.columns[slot]->all[index], value);
      return true;
   };
   return node.Filter(step, {"rdfslot_", name_of(lanes, index)});
}

// A step that defines a column with the values of another. Snapshot copies other columns with the
// classes and counters of their branches, for which ROOT may have no code; it may crash then.
template <class T>
ROOT::RDF::RNode copying(ROOT::RDF::RNode node, Lanes &lanes, std::size_t index, const std::string &name)
{
   auto copy = [](const T &value) { return value; };
   const std::string &column = name_of(lanes, index);
   return name == column ? node.Redefine(name, copy, {column}) : node.Define(name, copy, {column});
}

inline ROOT::RDF::RNode step_of_type(const std::map<std::string, Step> &compiled, ROOT::RDF::RNode node, Lanes &lanes,
                                     std::size_t index, const std::string &type, const std::string &copy = "")
{
   const auto found = compiled.find(type);
   if (found == compiled.end())
      throw std::runtime_error("column " + name_of(lanes, index) + " is of a type that is not read here: " + type);
   return found->second(node, lanes, index, copy);
}

// The events [first, stop) of the user's own file, every column taken and then worked on.
inline ROOT::RDF::RNode taking_all(OwnFrame &own, Lanes &lanes, const std::vector<std::string> &types, long long first,
                                   long long stop, std::size_t offset_bytes)
{
   ROOT::RDF::RNode node = *own.frame;
   if (first > 0 || stop >= 0)
      node = node.Range(first, stop);
   std::vector<Offsetless *> prepared;
   for (std::size_t i = 0; i < types.size(); ++i)
      if (const auto found = own.offsetless.find(name_of(lanes, i)); found != own.offsetless.end()) {
         found->second.begin = found->second.end = 0;
         prepared.push_back(&found->second);
      }
   if (!prepared.empty())
      node = node.Filter(
         [prepared](ULong64_t event) {
            for (auto *each : prepared)
               each->prepare(event);
            return true;
         },
         {"rdfentry_"});
   for (std::size_t i = 0; i < types.size(); ++i)
      node = step_of_type(steps().taking, node, lanes, i, types[i]);
   auto work = [&lanes, offset_bytes](unsigned slot) {
      lanes.event(slot, offset_bytes);
      return true;
   };
   return node.Filter(work, {"rdfslot_"});
}

// RDataFrame's loop over the user's own files; a negative stop means to the end.
inline long long loop_frame(OwnFrame &own, Lanes &lanes, const std::vector<std::string> &types, long long first, long long stop,
                            std::size_t offset_bytes)
{
   if (own.events == 0) // RDataFrame crashes on an RNTuple without events
      return 0;
   return *taking_all(own, lanes, types, first, stop, offset_bytes).Count();
}

// The same, and a copy of an evenly spaced share `keep` of the events, with columns of these names.
// Returns the numbers of events read and kept. The rule is that of `survives` in own_skim.py.
inline std::pair<long long, long long> skim_frame(OwnFrame &own, Lanes &lanes, const std::vector<std::string> &types,
                                                  const std::vector<std::string> &names, long long first, long long stop,
                                                  std::size_t offset_bytes, double keep, const std::string &name,
                                                  const std::string &copy, const ROOT::RDF::RSnapshotOptions &options)
{
   if (own.events == 0)
      return {0, 0};
   auto read = taking_all(own, lanes, types, first, stop, offset_bytes);
   ROOT::RDF::RNode kept = read.Filter(
      [keep](ULong64_t event) { return std::floor((event + 1.0) * keep) > std::floor(event * keep); }, {"rdfentry_"});
   auto events = read.Count(), survivors = kept.Count();
   for (std::size_t i = 0; i < names.size(); ++i)
      kept = step_of_type(steps().copying, kept, lanes, i, types[i], names[i]);
   kept.Snapshot(name, copy, names, options);
   return {*events, *survivors};
}

} // namespace headrace
