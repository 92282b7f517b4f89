// SPDX-License-Identifier: Apache-2.0
// An ONNX model as plain structs: what proto_reader.h reads and importer.h imports.
//
// Field names are those of onnx.proto (IR version 14). Bytes of tensors aren't copied: they are views into the
// model's file, which `Model::owners` keeps mapped.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace treadle::onnx {

/// TensorProto.DataType.
enum class ElemType : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kUInt8 = 2,
  kInt8 = 3,
  kUInt16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUInt32 = 12,
  kUInt64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBFloat16 = 16,
  kFloat8E4M3FN = 17,
  kFloat8E4M3FNUZ = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2FNUZ = 20,
  kUInt4 = 21,
  kInt4 = 22,
  kFloat4E2M1 = 23,
  kFloat8E8M0 = 24,
  kUInt2 = 25,
  kInt2 = 26,
  kFloat6E2M3 = 27,
  kFloat6E3M2 = 28,
};

/// "float16" and so on, as the ONNX documents write types; "type 99" for unknown numbers.
std::string ElemTypeName(ElemType type);
/// Whether the number is one of the types above other than kUndefined.
bool IsKnownElemType(ElemType type);
/// Bits of one element (2 to 128); 0 for strings and unknown types.
int ElemTypeBits(ElemType type);

/// A name for an error message: quoted, on one line, at most 200 characters of it.
std::string QuoteName(std::string_view name);

/// A tensor's data: either `raw` (little-endian bytes in the file, or in an external file) or one of the vectors.
struct Tensor {
  std::string name;
  ElemType data_type = ElemType::kUndefined;
  std::vector<int64_t> dims;
  std::optional<std::string_view> raw;
  std::vector<float> float_data;
  std::vector<int32_t> int32_data;
  std::vector<int64_t> int64_data;
  std::vector<double> double_data;
  std::vector<uint64_t> uint64_data;
  std::vector<std::string_view> string_data;
  bool external = false;
  std::vector<std::pair<std::string, std::string>> external_data;
  std::shared_ptr<const void> owner;  ///< keeps the bytes of `raw` and `string_data` alive
  bool views = true;                  ///< arrays may be views of `raw`

  /// Number of elements. The reader has checked that it doesn't overflow.
  int64_t NumElements() const;
};

/// Values at given positions of a tensor that is zero elsewhere. `indices` is [NNZ] (linear) or [NNZ, rank].
struct SparseTensor {
  Tensor values;
  Tensor indices;
  std::vector<int64_t> dims;
};

/// A dimension of a declared shape: a number, a symbol, or neither (unknown).
struct Dimension {
  std::optional<int64_t> value;
  std::string symbol;
  bool known() const { return value.has_value(); }
  /// "?" is what some exporters call every dimension that they don't know: no name.
  bool HasName() const { return !symbol.empty() && symbol != "?"; }
};

struct TypeProto {
  enum class Kind { kNone, kTensor, kSequence, kMap, kOptional, kSparseTensor, kOpaque };
  Kind kind = Kind::kNone;
  ElemType elem_type = ElemType::kUndefined;    ///< of tensors; of a map: type of the keys
  std::optional<std::vector<Dimension>> shape;  ///< of tensors; absent when the rank isn't known
  std::shared_ptr<const TypeProto> element;     ///< of sequences, optionals and maps (the values)
};

struct ValueInfo {
  std::string name;
  TypeProto type;
};

struct Graph;

struct Attribute {
  /// AttributeProto.AttributeType.
  enum class Type : int32_t {
    kUndefined = 0,
    kFloat = 1,
    kInt = 2,
    kString = 3,
    kTensor = 4,
    kGraph = 5,
    kFloats = 6,
    kInts = 7,
    kStrings = 8,
    kTensors = 9,
    kGraphs = 10,
    kSparseTensor = 11,
    kSparseTensors = 12,
    kTypeProto = 13,
    kTypeProtos = 14,
  };
  std::string name;
  std::string ref_attr_name;  ///< in a function's body: the function's attribute that gives the value
  Type type = Type::kUndefined;
  float f = 0;
  int64_t i = 0;
  std::string s;
  std::shared_ptr<const Tensor> t;
  std::shared_ptr<const Graph> g;
  std::shared_ptr<const SparseTensor> sparse_tensor;
  std::shared_ptr<const TypeProto> tp;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string> strings;
  std::vector<std::shared_ptr<const Tensor>> tensors;
  std::vector<std::shared_ptr<const Graph>> graphs;
  std::vector<std::shared_ptr<const SparseTensor>> sparse_tensors;
  std::vector<std::shared_ptr<const TypeProto>> type_protos;
};

/// "INT", "TENSOR" and so on, as onnx.proto names it.
const char* AttributeTypeName(Attribute::Type type);

struct Node {
  std::string name;
  std::string op_type;
  std::string domain;  ///< "" is ai.onnx ("ai.onnx" is read as "")
  std::string overload;
  std::vector<std::string> inputs;   ///< "" is an absent optional input
  std::vector<std::string> outputs;  ///< "" is an output that nobody asks for
  std::vector<Attribute> attributes;
  int64_t index = 0;   ///< position in the file's graph
  bool needed = true;  ///< whether an output of its graph depends on it (CheckGraph)

  /// The node's name, or "Conv#12" where it has none: operator and position in the graph.
  std::string DisplayName() const;
  const Attribute* FindAttribute(std::string_view attribute_name) const;
};

struct Graph {
  std::string name;
  std::string doc_string;
  std::vector<Node> nodes;  ///< in an order in which every node comes after those whose outputs it reads
  std::vector<std::shared_ptr<const Tensor>> initializers;
  std::vector<std::shared_ptr<const SparseTensor>> sparse_initializers;
  std::vector<ValueInfo> inputs;
  std::vector<ValueInfo> outputs;
  std::vector<ValueInfo> value_info;
};

/// An operator that the model defines by a graph of others.
struct Function {
  std::string name;
  std::string domain;
  std::string overload;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<std::string> attributes;  ///< without a default
  std::vector<Attribute> attributes_with_default;
  std::vector<Node> nodes;
  std::map<std::string, int64_t> opset_imports;  ///< domain to version
};

struct Model {
  std::string source;  ///< the file's path, or what the caller called the bytes
  int64_t ir_version = 0;
  std::map<std::string, int64_t> opset_imports;  ///< domain ("" for ai.onnx) to version
  std::string producer_name;
  std::string producer_version;
  std::string domain;                                           ///< reverse DNS name of its maker
  int64_t model_version = std::numeric_limits<int64_t>::max();  ///< the maximum, as in ONNX Runtime: none is given
  std::string doc_string;
  std::map<std::string, std::string> metadata;
  Graph graph;
  std::vector<Function> functions;
  std::vector<std::shared_ptr<const void>> owners;  ///< keep the mapped files alive
};

}  // namespace treadle::onnx
