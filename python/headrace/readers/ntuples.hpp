// An event loop over an RNTuple. Not in kernel.hpp: ROOT's interpreter takes twice as long for these
// templates as for all of kernel.hpp, and most readers do not need them.

#pragma once

#include "kernel.hpp"

namespace headrace {

struct View {
   virtual ~View() = default;
   virtual void load(std::uint64_t entry, Column &column) = 0;
};

template <class T>
struct ValueView : View {
   ROOT::RNTupleView<T> view;
   explicit ValueView(ROOT::RNTupleView<T> &&of) : view(std::move(of)) {}
   void load(std::uint64_t entry, Column &column) override { column.data = &view(entry); }
};

template <class T>
struct VectorView : View {
   ROOT::RNTupleView<ROOT::RVec<T>> view;
   explicit VectorView(ROOT::RNTupleView<ROOT::RVec<T>> &&of) : view(std::move(of)) {}
   void load(std::uint64_t entry, Column &column) override
   {
      const auto &values = view(entry);
      column.data = values.data();
      column.count = values.size();
   }
};

template <class T>
std::unique_ptr<View> view_as(ROOT::RNTupleReader &reader, Column &column)
{
   column.size = sizeof(T);
   column.letter = letter_of<T>();
   if (column.jagged)
      return std::make_unique<VectorView<T>>(reader.GetView<ROOT::RVec<T>>(column.name));
   return std::make_unique<ValueView<T>>(reader.GetView<T>(column.name));
}

inline std::unique_ptr<View> view_of(ROOT::RNTupleReader &reader, Column &column)
{
   const auto &descriptor = reader.GetDescriptor();
   const auto id = descriptor.FindFieldId(column.name);
   if (id == ROOT::kInvalidDescriptorId)
      throw std::runtime_error("no column " + column.name);
   std::string type = descriptor.GetFieldDescriptor(id).GetTypeName();
   column.jagged = type.rfind("std::vector<", 0) == 0;
   column.count = 1;
   if (column.jagged)
      type = type.substr(12, type.size() - 13);
   if (type == "float") return view_as<float>(reader, column);
   if (type == "double") return view_as<double>(reader, column);
   if (type == "bool") return view_as<bool>(reader, column);
   if (type == "std::int8_t" || type == "char") return view_as<std::int8_t>(reader, column);
   if (type == "std::int16_t") return view_as<std::int16_t>(reader, column);
   if (type == "std::uint16_t") return view_as<std::uint16_t>(reader, column);
   if (type == "std::int64_t") return view_as<std::int64_t>(reader, column);
   if (type == "std::uint8_t") return view_as<std::uint8_t>(reader, column);
   if (type == "std::int32_t") return view_as<std::int32_t>(reader, column);
   if (type == "std::uint32_t") return view_as<std::uint32_t>(reader, column);
   if (type == "std::uint64_t") return view_as<std::uint64_t>(reader, column);
   throw std::runtime_error("column " + column.name + " is of a type that is not read here: " + type);
}

// The loop of kernel.hpp over an RNTuple.
inline long long loop_ntuple(const std::string &file, const std::string &name, Columns &columns, long long first, long long count, Work &work)
{
   const auto reader = ROOT::RNTupleReader::Open(name, file);
   const long long total = reader->GetNEntries();
   const long long stop = count < 0 ? total : first + count;
   if (stop > total)
      throw std::runtime_error("has only " + std::to_string(total) + " events");
   std::vector<std::unique_ptr<View>> views;
   for (auto &column : columns.all)
      views.push_back(view_of(*reader, column));
   for (long long entry = first; entry < stop; ++entry) {
      for (std::size_t index = 0; index < views.size(); ++index)
         views[index]->load(entry, columns.all[index]);
      columns.count(8);
      work.event();
   }
   return stop - first;
}

} // namespace headrace
