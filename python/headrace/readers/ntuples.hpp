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

// A member of the records in a list. ROOT has a view of one record's member: the values are copied.
template <class T>
struct MemberView : View {
   ROOT::RNTupleCollectionView list;
   ROOT::RNTupleView<T> member;
   ROOT::RVec<T> values;
   MemberView(ROOT::RNTupleCollectionView &&of, const std::string &name) : list(std::move(of)), member(list.GetView<T>("_0." + name)) {}
   void load(std::uint64_t entry, Column &column) override
   {
      values.clear();
      for (const auto index : list.GetCollectionRange(entry))
         values.push_back(member(index));
      column.data = values.data();
      column.count = values.size();
   }
};

// The length of the name of the list of records that a column is a member of; npos without one.
inline std::size_t list_above(const ROOT::RNTupleDescriptor &descriptor, const std::string &name)
{
   for (auto dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
      const auto id = descriptor.FindFieldId(name.substr(0, dot));
      if (id != ROOT::kInvalidDescriptorId && descriptor.GetFieldDescriptor(id).GetStructure() == ROOT::ENTupleStructure::kCollection)
         return dot;
   }
   return std::string::npos;
}

template <class T>
std::unique_ptr<View> view_as(ROOT::RNTupleReader &reader, Column &column)
{
   column.size = sizeof(T);
   column.letter = letter_of<T>();
   const auto dot = list_above(reader.GetDescriptor(), column.name);
   if (dot != std::string::npos)
      return std::make_unique<MemberView<T>>(reader.GetCollectionView(column.name.substr(0, dot)), column.name.substr(dot + 1));
   if (column.jagged)
      return std::make_unique<VectorView<T>>(reader.GetView<ROOT::RVec<T>>(column.name));
   return std::make_unique<ValueView<T>>(reader.GetView<T>(column.name));
}

// `type`: that of the column by `fields_of`.
inline std::unique_ptr<View> view_of(ROOT::RNTupleReader &reader, Column &column, std::string type)
{
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
   std::map<std::string, std::string> types;
   for (const auto &[column, type] : fields_of(reader->GetDescriptor()))
      types.emplace(column, type);
   for (auto &column : columns.all) {
      const auto type = types.find(column.name);
      if (type == types.end())
         throw std::runtime_error("no column " + column.name);
      views.push_back(view_of(*reader, column, type->second));
   }
   for (long long entry = first; entry < stop; ++entry) {
      for (std::size_t index = 0; index < views.size(); ++index)
         views[index]->load(entry, columns.all[index]);
      columns.count(8);
      work.event();
   }
   return stop - first;
}

} // namespace headrace
