// SPDX-License-Identifier: Apache-2.0
// One ONNX TensorProto. The compiler's importer reads those inside models; this one serves a process without it.
#include <cstring>
#include <protozero/pbf_reader.hpp>

#include "cli/tensor_file.h"
#include "treadle/base/checked_math.h"
#include "treadle/base/error.h"

namespace treadle::cli {
namespace {

/// TensorProto.DataType to ours; void where there is none.
DataType TypeOf(int onnx_type) {
  switch (onnx_type) {
    case 1:
      return DataType::Float(32);
    case 2:
      return DataType::UInt(8);
    case 3:
      return DataType::Int(8);
    case 4:
      return DataType::UInt(16);
    case 5:
      return DataType::Int(16);
    case 6:
      return DataType::Int(32);
    case 7:
      return DataType::Int(64);
    case 9:
      return DataType::Bool();
    case 10:
      return DataType::Float(16);
    case 11:
      return DataType::Float(64);
    case 12:
      return DataType::UInt(32);
    case 13:
      return DataType::UInt(64);
    case 16:
      return DataType::BFloat();
    default:
      return DataType::Void();
  }
}

/// The elements in typed fields, each as the little-endian bytes of its low `bytes` bytes.
struct Values {
  std::string bytes;
  size_t width = 0;
  template <typename T>
  void Add(T value) {
    bytes.append(reinterpret_cast<const char*>(&value), std::min(width, sizeof(T)));
  }
};

using Wire = protozero::pbf_wire_type;

/// protozero leaves the wire type of a field to the caller to check.
void Expect(const protozero::pbf_reader& reader, Wire type) {
  if (reader.wire_type() != type) throw protozero::invalid_tag_exception();
}

struct Fields {
  std::vector<int64_t> dims;
  int type = 0;
  std::string name, raw;
  bool has_raw = false, external = false;
};

Fields ReadHeader(const std::string& bytes) {
  Fields fields;
  protozero::pbf_reader reader(bytes);
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        if (reader.wire_type() == Wire::length_delimited) {
          for (int64_t dim : reader.get_packed_int64()) fields.dims.push_back(dim);
        } else {
          Expect(reader, Wire::varint);
          fields.dims.push_back(reader.get_int64());
        }
        break;
      case 2:
        Expect(reader, Wire::varint);
        fields.type = reader.get_int32();
        break;
      case 8:
        Expect(reader, Wire::length_delimited);
        fields.name = reader.get_string();
        break;
      case 9:
        Expect(reader, Wire::length_delimited);
        fields.raw = reader.get_bytes();
        fields.has_raw = true;
        break;
      case 14:
        Expect(reader, Wire::varint);
        fields.external = reader.get_int32() == 1;
        break;
      default:
        reader.skip();
    }
  }
  return fields;
}

Values ReadValues(const std::string& bytes, DataType dtype) {
  Values values;
  values.width = static_cast<size_t>(dtype.bytes());
  protozero::pbf_reader reader(bytes);
  while (reader.next()) {
    const bool packed = reader.wire_type() == Wire::length_delimited;
    const auto add = [&](auto range) {
      for (auto value : range) values.Add(value);
    };
    const auto unpacked = [&](Wire type) {
      if (!packed) Expect(reader, type);
      return !packed;
    };
    switch (reader.tag()) {
      case 4:
        unpacked(Wire::fixed32) ? values.Add(reader.get_float()) : add(reader.get_packed_float());
        break;
      case 5:
        unpacked(Wire::varint) ? values.Add(reader.get_int32()) : add(reader.get_packed_int32());
        break;
      case 7:
        unpacked(Wire::varint) ? values.Add(reader.get_int64()) : add(reader.get_packed_int64());
        break;
      case 10:
        unpacked(Wire::fixed64) ? values.Add(reader.get_double()) : add(reader.get_packed_double());
        break;
      case 11:
        unpacked(Wire::varint) ? values.Add(reader.get_uint64()) : add(reader.get_packed_uint64());
        break;
      default:
        reader.skip();
    }
  }
  return values;
}

}  // namespace

std::pair<std::string, NDArray> ParseTensorProto(const std::string& bytes, const std::string& what) {
  try {
    Fields fields = ReadHeader(bytes);
    const DataType dtype = TypeOf(fields.type);
    if (dtype.is_void()) {
      throw DTypeError(StrCat(what, ": tensors of ONNX type ", fields.type, " can't be read (or it isn't a tensor)"));
    }
    if (fields.external)
      throw ModelFormatError(StrCat(what, ": its data lies in another file, which isn't supported here"));
    const std::string data = fields.has_raw ? std::move(fields.raw) : ReadValues(bytes, dtype).bytes;
    const int64_t expected = runtime::TensorBytes(fields.dims, dtype);
    if (static_cast<int64_t>(data.size()) != expected) {
      throw ModelFormatError(
          StrCat(what, ": holds ", data.size(), " bytes of data; its shape and type need ", expected));
    }
    return {fields.name, NDArray::FromBytes(data.data(), fields.dims, dtype)};
  } catch (const protozero::exception& error) {
    throw ModelFormatError(StrCat(what, ": not a serialised ONNX tensor: ", error.what()));
  }
}

}  // namespace treadle::cli
