// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/wire.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "frontend/onnx/utf8.h"
#include "treadle/base/error.h"
#include "treadle/base/varint.h"

namespace treadle::onnx {
namespace {

const char* WireTypeName(protozero::pbf_wire_type type) {
  switch (type) {
    case protozero::pbf_wire_type::varint:
      return "a varint";
    case protozero::pbf_wire_type::fixed64:
      return "8 bytes";
    case protozero::pbf_wire_type::length_delimited:
      return "a length-delimited value";
    case protozero::pbf_wire_type::fixed32:
      return "4 bytes";
    default:
      return "an unknown wire type";
  }
}

/// Runs a read of protozero's and gives its exceptions a place.
template <typename F>
auto Guard(ReadContext& context, F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const protozero::end_of_buffer_exception&) {
    context.Fail("the data ends in the middle of a field: the file is truncated or corrupt");
  } catch (const protozero::exception& e) {
    context.Fail(StrCat("not a valid protocol buffer message (", e.what(), "): the file is corrupt"));
  }
}

}  // namespace

std::string ReadContext::Where() const {
  std::string result = source;
  const char* separator = ": ";
  for (const Level& level : path) {
    result += separator;
    result += level.field;
    if (level.index >= 0) result += StrCat("[", level.index, "]");
    if (level.name != nullptr && !level.name->empty()) result += StrCat(" ", QuoteName(*level.name));
    separator = ".";
  }
  return result;
}

void ReadContext::Fail(const std::string& message) const { throw ModelFormatError(StrCat(Where(), ": ", message)); }

void ReadContext::FailMemory() const {
  Fail(StrCat("the parts of the model take more than ", max_memory, " bytes of memory, out of a file of ", bytes.size(),
              " bytes; where that is meant, raise the limit (--max-model-memory)"));
}

void MessageReader::CheckVarint(const char* begin, const char* end, int bits) const {
  if (!VarintFits(begin, end, bits)) {
    context_.Fail(StrCat("a number that doesn't fit into ", bits, " bits: the file is corrupt"));
  }
}

bool MessageReader::Next() {
  const char* begin = reader_.data().data();
  if (!Guard(context_, [&] { return reader_.next(); })) return false;
  CheckVarint(begin, reader_.data().data(), 32);
  return true;
}

void MessageReader::Skip() {
  switch (reader_.wire_type()) {
    case protozero::pbf_wire_type::varint:
      Int64();
      return;
    case protozero::pbf_wire_type::length_delimited:
      Bytes();
      return;
    default:
      Guard(context_, [&] { reader_.skip(); });
  }
}

void MessageReader::Expect(protozero::pbf_wire_type type, const char* expected) {
  if (reader_.wire_type() != type) {
    context_.Fail(StrCat("field ", reader_.tag(), " is ", WireTypeName(reader_.wire_type()), ", expected ", expected,
                         ": not an ONNX file, or corrupt"));
  }
}

int64_t MessageReader::Int64() {
  Expect(protozero::pbf_wire_type::varint, "a varint");
  const char* begin = reader_.data().data();
  const int64_t value = Guard(context_, [&] { return reader_.get_int64(); });
  CheckVarint(begin, reader_.data().data(), 64);
  return value;
}

float MessageReader::Float() {
  Expect(protozero::pbf_wire_type::fixed32, "4 bytes");
  return Guard(context_, [&] { return reader_.get_float(); });
}

std::string_view MessageReader::Bytes() {
  Expect(protozero::pbf_wire_type::length_delimited, "a length-delimited value");
  const char* begin = reader_.data().data();
  protozero::data_view view = Guard(context_, [&] { return reader_.get_view(); });
  CheckVarint(begin, view.data(), 32);
  return {view.data(), view.size()};
}

std::string MessageReader::Name() {
  std::string_view bytes = Bytes();
  if (static_cast<int64_t>(bytes.size()) > context_.limits.max_name_bytes) {
    context_.Fail(StrCat("a name of ", bytes.size(), " bytes; the limit is ", context_.limits.max_name_bytes));
  }
  if (bytes.find('\0') != std::string_view::npos) context_.Fail(StrCat("the name ", QuoteName(bytes), " holds a NUL"));
  if (!IsUtf8(bytes)) context_.Fail(StrCat("the name ", QuoteName(bytes), " isn't UTF-8"));
  return Copied(bytes);
}

template <typename T>
void MessageReader::AppendVarints(std::vector<T>& out) {
  if (reader_.wire_type() == protozero::pbf_wire_type::varint) {
    context_.ChargeElement<T>();
    out.push_back(static_cast<T>(Int64()));
    return;
  }
  std::string_view bytes = Bytes();
  // The last byte of each number has its high bit clear.
  const auto count = std::count_if(bytes.begin(), bytes.end(), [](char c) { return c >= 0; });
  context_.Charge(static_cast<int64_t>(sizeof(T)) * count);
  if (out.empty()) out.reserve(static_cast<size_t>(count));
  const char* position = bytes.data();
  const char* end = position + bytes.size();
  Guard(context_, [&] {
    while (position != end) {
      const char* begin = position;
      out.push_back(static_cast<T>(protozero::decode_varint(&position, end)));
      CheckVarint(begin, position, 64);
    }
  });
}

template <typename T>
void MessageReader::AppendFixed(std::vector<T>& out, protozero::pbf_wire_type single) {
  if (reader_.wire_type() == single) {
    context_.ChargeElement<T>();
    if constexpr (std::is_same_v<T, float>) {
      out.push_back(Guard(context_, [&] { return reader_.get_float(); }));
    } else {
      out.push_back(Guard(context_, [&] { return reader_.get_double(); }));
    }
    return;
  }
  std::string_view bytes = Bytes();
  if (bytes.size() % sizeof(T) != 0) {
    context_.Fail(StrCat("packed numbers of ", sizeof(T), " bytes each, in ", bytes.size(), " bytes"));
  }
  context_.Charge(static_cast<int64_t>(bytes.size()));
  size_t old_size = out.size();
  out.resize(old_size + bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(out.data() + old_size, bytes.data(), bytes.size());
}

void MessageReader::AppendInts(std::vector<int64_t>& out) { AppendVarints(out); }
void MessageReader::AppendInts(std::vector<int32_t>& out) { AppendVarints(out); }
void MessageReader::AppendInts(std::vector<uint64_t>& out) { AppendVarints(out); }
void MessageReader::AppendFloats(std::vector<float>& out) { AppendFixed(out, protozero::pbf_wire_type::fixed32); }
void MessageReader::AppendDoubles(std::vector<double>& out) { AppendFixed(out, protozero::pbf_wire_type::fixed64); }

}  // namespace treadle::onnx
