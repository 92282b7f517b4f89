// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/values.h"

#include <algorithm>

#include "frontend/onnx/narrow_types.h"
#include "treadle/ir/structural.h"
#include "treadle/ops/attrs/host.h"
#include "treadle/runtime/byte_stream.h"

namespace treadle::onnx {

using relay::Expr;

namespace {

const DataType kInt64 = DataType::Int(64);

/// Element type of a sequence of no elements: fits any other.
Type NoType() { return TupleType(Array<Type>{}); }
bool IsNoType(const Type& type) {
  const auto* tuple = type.as<TupleTypeNode>();
  return tuple != nullptr && tuple->fields.empty();
}

/// The type of host calls that give a value of `type`.
HostType HostTypeOf(const Type& type) {
  if (const auto* tensor = type.as<TensorTypeNode>()) {
    return {"tensor", tensor->dtype, static_cast<int64_t>(tensor->shape.size())};
  }
  if (const auto* prim = type.as<PrimTypeNode>()) return {"tensor", prim->dtype, -1};
  if (IsNoType(type)) return {"tensor", DataType::Bool(), -2};
  if (Type element = ops::ElementOfSequence(type); element.defined()) {
    HostType result = HostTypeOf(element);
    result.kind = "sequence";
    return result;
  }
  if (Type value = ops::ValueOfOptional(type); value.defined()) {
    HostType result = HostTypeOf(value);
    result.kind = result.kind == "sequence" ? "optional_sequence" : "optional";
    return result;
  }
  return {"map", DataType(), -1};
}

}  // namespace

bool SameDim(const PrimExpr& a, const PrimExpr& b) {
  const int64_t *x = AsConstInt(a), *y = AsConstInt(b);
  if (x != nullptr || y != nullptr) return x != nullptr && y != nullptr && *x == *y;
  return !IsAnyDim(a) && !IsAnyDim(b) && StructuralEqual(a, b);
}

namespace {

/// Of elements: their rank where it is the same.
Type CommonElement(const Type& a, const Type& b) {
  if (IsNoType(a)) return b;
  if (IsNoType(b)) return a;
  const HostType x = HostTypeOf(a), y = HostTypeOf(b);
  if (x.dtype != y.dtype) throw UnsupportedNode(StrCat("a sequence of ", x.dtype, " and ", y.dtype));
  return ops::TensorOfRank(x.dtype, x.rank == y.rank ? x.rank : -1);
}

TensorType CommonTensor(const TensorTypeNode* a, const TensorTypeNode* b, const std::string& what) {
  if (a->dtype != b->dtype) throw ModelFormatError(StrCat(what, " is ", a->dtype, " and ", b->dtype));
  if (a->shape.size() != b->shape.size()) throw UnsupportedNode(StrCat(what, " has more than one rank"));
  Array<PrimExpr> shape;
  for (size_t i = 0; i < a->shape.size(); ++i) {
    const bool keep = SameDim(a->shape[i], b->shape[i]) || IsAnyDim(a->shape[i]);
    shape.push_back(keep ? a->shape[i] : AnyDim());
  }
  return TensorType(shape, a->dtype);
}

/// Tuples of tensors as the type of the sequence.
Type SequenceTypeOf(const Type& type) {
  const auto* tuple = type.as<TupleTypeNode>();
  if (tuple == nullptr) return type;
  Type element = NoType();
  for (const Type& field : tuple->fields) element = CommonElement(element, field);
  const HostType known = HostTypeOf(element);
  return ops::SequenceOf(IsNoType(element) ? element : ops::TensorOfRank(known.dtype, known.rank));
}

std::string TextBytes(const std::vector<int64_t>& shape, const std::vector<std::string>& texts) {
  runtime::ByteWriter out;
  out.Write<uint8_t>(2);
  out.Write(static_cast<uint32_t>(shape.size()));
  for (int64_t dim : shape) out.Write(dim);
  for (const std::string& text : texts) out.WriteString(text);
  return std::move(out.bytes());
}

}  // namespace

Expr HostCall(ExprBuilder& n, const char* function, const Array<Expr>& args, const HostType& type) {
  return n.Call("vm.host_call", args,
                {{"function", std::string(function)}, {"kind", type.kind}, {"dtype", type.dtype}, {"rank", type.rank}});
}

Expr HostTensor(ExprBuilder& n, const char* function, Array<Expr> args, DataType dtype, int64_t rank) {
  args.push_back(n.IntVector({dtype.code(), dtype.bits(), rank}));
  return HostCall(n, function, args, {"tensor", dtype, rank});
}

Expr BytesConstant(ExprBuilder& n, const std::string& bytes) {
  return n.Const(NDArray::FromBytes(bytes.data(), {static_cast<int64_t>(bytes.size())}, DataType::UInt(8)));
}

// ---- Strings.

Expr TextConstant(ExprBuilder& n, const std::vector<int64_t>& shape, const std::vector<std::string>& texts) {
  Expr numbers = HostTensor(n, "value.decode_tensor", {BytesConstant(n, TextBytes(shape, texts))}, kInt64,
                            static_cast<int64_t>(shape.size()));
  return n.Reshape(numbers, shape);
}

Expr TextConstant(ExprBuilder& n, const Tensor& tensor) {
  std::vector<std::string> texts(tensor.string_data.begin(), tensor.string_data.end());
  if (static_cast<int64_t>(texts.size()) != tensor.NumElements()) {
    throw ModelFormatError(StrCat("tensor ", QuoteName(tensor.name), " has ", texts.size(), " strings, its shape has ",
                                  tensor.NumElements()));
  }
  return TextConstant(n, tensor.dims, texts);
}

Expr ToText(NodeImport& n, const Expr& x) {
  Expr value = x;
  const DataType dtype = TypeOf(x)->dtype;
  const bool plain =
      dtype.is_bool() || (dtype.is_integral() && dtype.bits() >= 8) || (dtype.is_float() && dtype.bits() >= 32);
  if (!plain) value = ConvertTo(n, x, dtype.is_integral() ? DataType::Int(32) : DataType::Float(32));
  return HostCall(n, "string.from_number", {value}, {"tensor", kInt64, RankOf(x)});
}

Expr FromText(NodeImport& n, const Expr& x, DataType dtype) {
  const bool integer = dtype.is_integral() && !dtype.is_bool();
  const DataType wide = integer ? kInt64 : DataType::Float(64);
  Expr value = HostCall(n, integer ? "string.to_int" : "string.to_float", {x}, {"tensor", wide, RankOf(x)});
  return ConvertTo(n, value, dtype);
}

bool HasText(const TypeProto& type) {
  if (type.kind == TypeProto::Kind::kTensor) return type.elem_type == ElemType::kString;
  return type.element != nullptr && HasText(*type.element);  // of a map, its values
}

// ---- Sequences.

bool IsSequence(const Expr& e) {
  return e->type_as<TupleTypeNode>() != nullptr || ops::ElementOfSequence(e->checked_type()).defined();
}

Expr AsSequence(ExprBuilder& n, const Expr& e) {
  const auto* tuple = e->type_as<TupleTypeNode>();
  if (tuple == nullptr) return e;
  Array<Expr> fields;
  for (size_t i = 0; i < tuple->fields.size(); ++i) fields.push_back(n.Item(e, static_cast<int>(i)));
  return HostCall(n, "sequence.make", fields, HostTypeOf(SequenceTypeOf(e->checked_type())));
}

Type CarriedType(const Expr& value) { return SequenceTypeOf(value->checked_type()); }

Type CommonType(const Type& first, const Type& second, const std::string& what) {
  const Type a = SequenceTypeOf(first), b = SequenceTypeOf(second);
  const auto *x = a.as<TensorTypeNode>(), *y = b.as<TensorTypeNode>();
  if (x != nullptr && y != nullptr) return CommonTensor(x, y, what);
  const Type value_a = ops::ValueOfOptional(a), value_b = ops::ValueOfOptional(b);
  if (value_a.defined() || value_b.defined()) {
    const Type inner_a = value_a.defined() ? value_a : a, inner_b = value_b.defined() ? value_b : b;
    const bool tensors = !ops::ElementOfSequence(inner_a).defined() && !ops::ElementOfSequence(inner_b).defined();
    return ops::OptionalOf(tensors ? CommonElement(inner_a, inner_b) : CommonType(inner_a, inner_b, what));
  }
  const Type element_a = ops::ElementOfSequence(a), element_b = ops::ElementOfSequence(b);
  if (!element_a.defined() || !element_b.defined()) throw UnsupportedNode(StrCat(what, " has more than one type"));
  return ops::SequenceOf(CommonElement(element_a, element_b));
}

Expr AsType(ExprBuilder& n, const Expr& value, const Type& type) {
  if (const auto* tensor = type.as<TensorTypeNode>()) {
    std::vector<int64_t> forget;
    for (size_t i = 0; i < tensor->shape.size(); ++i) {
      if (!SameDim(tensor->shape[i], TypeOf(value)->shape[i])) forget.push_back(static_cast<int64_t>(i));
    }
    return forget.empty() ? value : n.Call("dyn.forget_shape", {value}, {{"axes", forget}});
  }
  const bool to_optional = ops::ValueOfOptional(type).defined();
  if (to_optional && !ops::ValueOfOptional(value->checked_type()).defined()) {
    return HostCall(n, "optional.some", {AsSequence(n, value)}, HostTypeOf(type));
  }
  Expr sequence = AsSequence(n, value);
  if (StructuralEqual(sequence->checked_type(), type)) return sequence;
  return HostCall(n, "value.same", {sequence}, HostTypeOf(type));
}

Expr HostSequence(ExprBuilder& n, const char* function, const Array<Expr>& args, const Type& type) {
  return HostCall(n, function, args, HostTypeOf(type));
}

Expr SequenceElement(NodeImport& n, const Expr& sequence, const Expr& position) {
  Expr value = AsSequence(n, sequence);
  const HostType type = HostTypeOf(ops::ElementOfSequence(value->checked_type()));
  if (type.rank < 0) n.Unsupported("the rank of the sequence's elements isn't known when compiling");
  return HostTensor(n, "sequence.at", {value, n.Cast(position, kInt64)}, type.dtype, type.rank);
}

// ---- Inputs and outputs of a model.

bool PassesAsBytes(const TypeProto& type) {
  switch (type.kind) {
    case TypeProto::Kind::kTensor:
      return type.elem_type == ElemType::kString;
    case TypeProto::Kind::kSequence:
    case TypeProto::Kind::kOptional:
    case TypeProto::Kind::kMap:
      return true;
    default:
      return false;
  }
}

std::string TypeText(const TypeProto& type) {
  auto element = [&] { return type.element != nullptr ? TypeText(*type.element) : std::string("?"); };
  switch (type.kind) {
    case TypeProto::Kind::kSequence:
      return StrCat("seq(", element(), ")");
    case TypeProto::Kind::kOptional:
      return StrCat("optional(", element(), ")");
    case TypeProto::Kind::kMap:
      return StrCat("map(", ElemTypeName(type.elem_type), ",", element(), ")");
    default:
      return StrCat("tensor(", ElemTypeName(type.elem_type), ")");
  }
}

namespace {

HostType DeclaredType(const TypeProto& type, const std::string& where) {
  switch (type.kind) {
    case TypeProto::Kind::kTensor: {
      const bool text = type.elem_type == ElemType::kString;
      return {"tensor", text ? kInt64 : StoredType(type.elem_type, where),
              type.shape ? static_cast<int64_t>(type.shape->size()) : -1};
    }
    case TypeProto::Kind::kSequence:
    case TypeProto::Kind::kOptional:
      if (type.element != nullptr) {
        HostType inner = DeclaredType(*type.element, where);
        if (inner.kind == "tensor") {
          inner.kind = type.kind == TypeProto::Kind::kSequence ? "sequence" : "optional";
          return inner;
        }
        if (inner.kind == "sequence" && type.kind == TypeProto::Kind::kOptional) {
          inner.kind = "optional_sequence";
          return inner;
        }
      }
      break;
    case TypeProto::Kind::kMap:
      return {"map", DataType(), -1};
    default:
      break;
  }
  const std::string message = StrCat(where, " is a ", TypeText(type), ", which isn't implemented");
  throw UnsupportedOpError(message, {message});
}

}  // namespace

Expr DecodeInput(ExprBuilder& n, const ValueInfo& input, const Expr& bytes) {
  const std::string where = StrCat("input ", QuoteName(input.name));
  const HostType type = DeclaredType(input.type, where);
  if (type.kind == "tensor") {
    if (type.rank < 0) throw ShapeError(StrCat(where, " has no declared shape"));
    std::vector<int64_t> dims;
    for (const Dimension& dim : *input.type.shape) dims.push_back(dim.value.value_or(-1));
    const bool known = std::find(dims.begin(), dims.end(), -1) == dims.end();
    Expr decoded = HostCall(n, "value.decode_tensor",
                            {bytes, n.IntVector({type.dtype.code(), type.dtype.bits(), type.rank}), n.IntVector(dims)},
                            {"tensor", type.dtype, type.rank});
    return known ? n.Reshape(decoded, dims) : decoded;
  }
  if (type.kind == "map") return HostCall(n, "value.decode_map", {bytes}, type);
  return HostCall(n, type.kind == "sequence" ? "value.decode_sequence" : "value.decode_optional", {bytes}, type);
}

Expr EncodeOutput(ExprBuilder& n, const Expr& value, bool text) {
  return HostCall(n, text ? "value.encode_strings" : "value.encode", {AsSequence(n, value)},
                  {"tensor", DataType::UInt(8), 1});
}

Expr ImportOptionalNone(NodeImport& n, const TypeProto& type) {
  HostType host = DeclaredType(type, "'type'");
  host.kind = host.kind == "sequence" ? "optional_sequence" : "optional";
  return HostCall(n, "optional.none", {}, host);
}

}  // namespace treadle::onnx
