// SPDX-License-Identifier: Apache-2.0
// Inputs and outputs that aren't tensors of numbers, as bytes: how they pass where a model takes and gives tensors.
//
// A value is a u8 kind and, little-endian:
//   0 nothing
//   1 tensor: u8 type code, u8 bits (DLPack's), u32 rank, i64 dimensions, elements
//   2 strings: u32 rank, i64 dimensions, for each element u64 length and bytes
//   3 sequence: u64 count, values
//   4 map: two values, keys and values
//   5 sequence of maps with the same keys: two values, the keys and a tensor (n, keys) of values
#include <cstring>

#include "runtime/vm/host/host.h"
#include "treadle/runtime/byte_stream.h"

namespace treadle::runtime::vm {
namespace {

enum class Kind : uint8_t { kNothing, kTensor, kStrings, kSequence, kMap, kMaps };
constexpr int kMaxDepth = 16;
constexpr uint32_t kMaxRank = 64;

class Decoder {
 public:
  Decoder(HostRun& run, std::string_view bytes) : run_(run), in_(bytes, "input value") {}

  ObjectRef Run() {
    ObjectRef value = Value(0);
    in_.ExpectEnd();
    return value;
  }

 private:
  std::vector<int64_t> Shape() {
    const auto rank = in_.Read<uint32_t>();
    if (rank > kMaxRank) in_.Fail(StrCat("rank ", rank));
    std::vector<int64_t> shape(rank);
    for (int64_t& dim : shape) dim = in_.Read<int64_t>();
    TensorBytes(shape, DataType::Int(64));  // refuses what can't be one
    return shape;
  }

  NDArray Tensor() {
    const int code = in_.Read<uint8_t>(), bits = in_.Read<uint8_t>();
    const DataType dtype(code, bits);
    if (bits < 1 || bits > 64 || code == DataType::kHandle) in_.Fail(StrCat("elements of ", bits, " bits"));
    const std::vector<int64_t> shape = Shape();
    const int64_t bytes = TensorBytes(shape, dtype);
    std::string_view data = in_.Take(static_cast<uint64_t>(bytes));
    NDArray tensor = run_.alloc(shape, dtype);
    if (bytes > 0) std::memcpy(tensor.data_ptr(), data.data(), data.size());
    return tensor;
  }

  NDArray Strings() {
    const std::vector<int64_t> shape = Shape();
    int64_t count = 1;
    for (int64_t dim : shape) count *= dim;
    if (static_cast<uint64_t>(count) > in_.remaining() / 8) in_.Fail(StrCat(count, " strings"));
    std::vector<int64_t> numbers;
    for (int64_t i = 0; i < count; ++i) numbers.push_back(run_.strings.Intern(in_.ReadString()));
    return MakeInts(run_, shape, numbers);
  }

  ObjectRef Value(int depth) {
    if (depth > kMaxDepth) in_.Fail("values are nested too deep");
    const auto kind = static_cast<Kind>(in_.Read<uint8_t>());
    switch (kind) {
      case Kind::kNothing:
        return AdtValue(kNoneTag, {});
      case Kind::kTensor:
        return Tensor();
      case Kind::kStrings:
        return Strings();
      case Kind::kSequence: {
        std::vector<ObjectRef> elements;
        for (uint64_t n = in_.ReadCount(1); n > 0; --n) elements.push_back(Value(depth + 1));
        return AdtValue(kSequenceTag, std::move(elements));
      }
      case Kind::kMap: {
        const bool text = in_.remaining() > 0 && Peek() == Kind::kStrings;
        ObjectRef keys = Value(depth + 1), values = Value(depth + 1);
        const auto *k = keys.as<NDArrayNode>(), *v = values.as<NDArrayNode>();
        if (k == nullptr || v == nullptr || k->shape.size() != 1 || k->shape != v->shape) in_.Fail("malformed map");
        return AdtValue(text ? kTextMapTag : kMapTag, {keys, values});
      }
      case Kind::kMaps: {
        const bool text = in_.remaining() > 0 && Peek() == Kind::kStrings;
        ObjectRef keys = Value(depth + 1), rows = Value(depth + 1);
        const auto *k = keys.as<NDArrayNode>(), *v = rows.as<NDArrayNode>();
        if (k == nullptr || v == nullptr || k->shape.size() != 1 || v->shape.size() != 2 ||
            v->shape[1] != k->shape[0]) {
          in_.Fail("malformed maps");
        }
        return AdtValue(text ? kTextMapsTag : kMapsTag, {keys, rows});
      }
    }
    in_.Fail(StrCat("kind ", static_cast<int>(kind), " of value"));
  }

  Kind Peek() {
    ByteReader copy = in_;
    return static_cast<Kind>(copy.Read<uint8_t>());
  }

  HostRun& run_;
  ByteReader in_;
};

class Encoder {
 public:
  explicit Encoder(HostRun& run) : run_(run) {}

  void Value(const ObjectRef& value, bool strings) {
    if (const auto* tensor = value.as<NDArrayNode>()) return strings ? Strings(tensor) : Tensor(tensor);
    const auto* data = value.as<AdtValueNode>();
    if (data == nullptr) throw RuntimeError("a result isn't a tensor, a sequence, an optional or a map");
    switch (data->tag) {
      case kSequenceTag:
        Put(Kind::kSequence);
        out_.Write<uint64_t>(data->fields.size());
        for (const ObjectRef& field : data->fields) Value(field, strings);
        return;
      case kSomeTag:
        return Value(data->fields.at(0), strings);
      case kMapTag:
      case kTextMapTag:
        Put(Kind::kMap);
        Value(data->fields.at(0), data->tag == kTextMapTag);
        return Value(data->fields.at(1), strings);
      case kMapsTag:
      case kTextMapsTag:
        Put(Kind::kMaps);
        Value(data->fields.at(0), data->tag == kTextMapsTag);
        return Value(data->fields.at(1), strings);
      default:
        return Put(Kind::kNothing);
    }
  }

  NDArray Bytes() {
    const std::string& bytes = out_.bytes();
    NDArray tensor = run_.alloc({static_cast<int64_t>(bytes.size())}, DataType::UInt(8));
    std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
    return tensor;
  }

 private:
  void Put(Kind kind) { out_.Write(static_cast<uint8_t>(kind)); }
  void Shape(const NDArrayNode* tensor) {
    out_.Write(static_cast<uint32_t>(tensor->shape.size()));
    for (int64_t dim : tensor->shape) out_.Write(dim);
  }
  void Tensor(const NDArrayNode* tensor) {
    Put(Kind::kTensor);
    out_.Write(tensor->tensor.dtype.code);
    out_.Write(tensor->tensor.dtype.bits);
    Shape(tensor);
    const NDArray whole = GetRef<NDArray>(tensor);
    if (!whole.IsCompact()) throw RuntimeError("a result isn't contiguous");
    out_.WriteRaw(whole.data_ptr(), static_cast<size_t>(whole.nbytes()));
  }
  void Strings(const NDArrayNode* tensor) {
    Put(Kind::kStrings);
    Shape(tensor);
    for (std::string_view text : TextsArg(run_, {GetRef<NDArray>(tensor)}, 0)) out_.WriteString(text);
  }

  HostRun& run_;
  ByteWriter out_;
};

ObjectRef Decode(HostRun& run, const HostArgs& args) { return Decoder(run, BytesArg(args, 0)).Run(); }

/// As Decode, of what has to be a tensor: (bytes, its type code, bits, rank).
/// `dims`: one for each dimension, -1 where any size will do.
void CheckDims(const NDArray& dims, const std::vector<int64_t>& shape) {
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t wanted = i < static_cast<size_t>(dims.size()) ? dims.Data<int64_t>()[i] : -1;
    if (wanted >= 0 && wanted != shape[i]) {
      throw ShapeError(StrCat("an input has the shape ", ShapeString(shape), "; the model is compiled for ", wanted,
                              " at dimension ", i));
    }
  }
}

/// (bytes, type[, dimensions])
ObjectRef DecodeTensor(HostRun& run, const HostArgs& args) {
  ObjectRef value = Decode(run, args);
  const auto* tensor = value.as<NDArrayNode>();
  if (tensor == nullptr) throw RuntimeError("an input isn't a tensor");
  NDArray wanted = TensorArg(args, 1, DataType::Int(64));
  if (wanted.size() != 3) throw RuntimeError("a malformed type");
  const int64_t* type = wanted.Data<int64_t>();
  if (tensor->tensor.dtype.code != type[0] || tensor->tensor.dtype.bits != type[1]) {
    throw DTypeError(StrCat("an input or element has the type ", DataType(tensor->tensor.dtype), ", the model takes ",
                            DataType(static_cast<int>(type[0]), static_cast<int>(type[1]))));
  }
  if (static_cast<int64_t>(tensor->shape.size()) != type[2]) {
    throw ShapeError(StrCat("an input or element has the shape ", ShapeString(tensor->shape),
                            "; the model is compiled for rank ", type[2]));
  }
  if (args.size() > 2) CheckDims(TensorArg(args, 2, DataType::Int(64)), tensor->shape);
  return value;
}

/// As Decode, of what may be absent.
ObjectRef DecodeOptional(HostRun& run, const HostArgs& args) {
  ObjectRef value = Decode(run, args);
  const auto* data = value.as<AdtValueNode>();
  return data != nullptr && data->tag == kNoneTag ? value : AdtValue(kSomeTag, {value});
}

ObjectRef DecodeSequence(HostRun& run, const HostArgs& args) {
  ObjectRef value = Decode(run, args);
  SequenceArg(run, {value}, 0);
  return value;
}

ObjectRef DecodeMap(HostRun& run, const HostArgs& args) {
  ObjectRef value = Decode(run, args);
  const auto* data = value.as<AdtValueNode>();
  if (data == nullptr || (data->tag != kMapTag && data->tag != kTextMapTag)) throw RuntimeError("an input isn't a map");
  return value;
}

ObjectRef Same(HostRun&, const HostArgs& args) { return args.at(0); }

template <bool kStrings>
ObjectRef Encode(HostRun& run, const HostArgs& args) {
  Encoder encoder(run);
  encoder.Value(args.at(0), kStrings);
  return encoder.Bytes();
}

}  // namespace

void AddValueFunctions(HostTable* table) {
  (*table)["value.decode_tensor"] = DecodeTensor;
  (*table)["value.decode_optional"] = DecodeOptional;
  (*table)["value.decode_sequence"] = DecodeSequence;
  (*table)["value.decode_map"] = DecodeMap;
  (*table)["value.same"] = Same;
  (*table)["value.encode"] = Encode<false>;
  (*table)["value.encode_strings"] = Encode<true>;
}

}  // namespace treadle::runtime::vm
