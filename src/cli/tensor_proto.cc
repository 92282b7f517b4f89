// SPDX-License-Identifier: Apache-2.0
// One ONNX TensorProto. The compiler's importer reads those inside models; this one serves a process without it.
#include <cstring>
#include <protozero/pbf_reader.hpp>

#include "cli/tensor_file.h"
#include "treadle/base/checked_math.h"
#include "treadle/base/error.h"
#include "treadle/base/varint.h"

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

/// Reads a message field by field. protozero leaves to its caller whether a field has the wire type that is read, and
/// drops the bits of numbers that don't fit.
class FieldReader {
 public:
  explicit FieldReader(const std::string& bytes) : reader_(bytes) {}
  bool Next() {
    const char* begin = Position();
    if (!reader_.next()) return false;
    Check(begin, Position(), 32);
    return true;
  }
  uint32_t tag() const { return reader_.tag(); }
  int64_t Varint() {
    Expect(Wire::varint);
    const char* begin = Position();
    const int64_t value = reader_.get_int64();
    Check(begin, Position(), 64);
    return value;
  }
  protozero::data_view Bytes() {
    Expect(Wire::length_delimited);
    const char* begin = Position();
    const protozero::data_view view = reader_.get_view();
    Check(begin, view.data(), 32);
    return view;
  }
  /// Calls `add` with each number, packed or one by one.
  template <typename Add>
  void Varints(Add&& add) {
    if (reader_.wire_type() != Wire::length_delimited) return add(Varint());
    const protozero::data_view view = Bytes();
    const char* end = view.data() + view.size();
    for (const char* at = view.data(); at != end;) {
      const char* begin = at;
      const uint64_t value = protozero::decode_varint(&at, end);
      Check(begin, at, 64);
      add(static_cast<int64_t>(value));
    }
  }
  template <typename T, typename Add>
  void Fixed(Add&& add) {
    protozero::data_view view;
    if (reader_.wire_type() == Wire::length_delimited) {
      view = Bytes();
    } else {
      Expect(sizeof(T) == 4 ? Wire::fixed32 : Wire::fixed64);
      const char* begin = Position();
      reader_.skip();
      view = {begin, sizeof(T)};
    }
    if (view.size() % sizeof(T) != 0) throw protozero::invalid_length_exception();
    for (size_t at = 0; at < view.size(); at += sizeof(T)) {
      T value;
      std::memcpy(&value, view.data() + at, sizeof(T));
      add(value);
    }
  }
  void Skip() {
    if (reader_.wire_type() == Wire::varint) {
      Varint();
    } else if (reader_.wire_type() == Wire::length_delimited) {
      Bytes();
    } else {
      reader_.skip();
    }
  }

 private:
  const char* Position() const { return reader_.data().data(); }
  void Expect(Wire type) const {
    if (reader_.wire_type() != type) throw protozero::invalid_tag_exception();
  }
  static void Check(const char* begin, const char* end, int bits) {
    if (!VarintFits(begin, end, bits)) throw protozero::varint_too_long_exception();
  }
  protozero::pbf_reader reader_;
};

struct Fields {
  std::vector<int64_t> dims;
  int type = 0;
  std::string name, raw;
  bool has_raw = false, external = false;
};

Fields ReadHeader(const std::string& bytes) {
  Fields fields;
  for (FieldReader reader(bytes); reader.Next();) {
    switch (reader.tag()) {
      case 1:
        reader.Varints([&](int64_t dim) { fields.dims.push_back(dim); });
        break;
      case 2:
        fields.type = static_cast<int>(reader.Varint());
        break;
      case 8:
        fields.name = static_cast<std::string>(reader.Bytes());
        break;
      case 9:
        fields.raw = static_cast<std::string>(reader.Bytes());
        fields.has_raw = true;
        break;
      case 14:
        fields.external = reader.Varint() == 1;
        break;
      default:
        reader.Skip();
    }
  }
  return fields;
}

Values ReadValues(const std::string& bytes, DataType dtype) {
  Values values;
  values.width = static_cast<size_t>(dtype.bytes());
  const auto add = [&](auto value) { values.Add(value); };
  for (FieldReader reader(bytes); reader.Next();) {
    switch (reader.tag()) {
      case 4:
        reader.Fixed<float>(add);
        break;
      case 5:
        reader.Varints([&](int64_t value) { values.Add(static_cast<int32_t>(value)); });
        break;
      case 7:
      case 11:
        reader.Varints(add);
        break;
      case 10:
        reader.Fixed<double>(add);
        break;
      default:
        reader.Skip();
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
