// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/declared_types.h"

#include <algorithm>

#include "frontend/onnx/tensor_data.h"
#include "treadle/base/error.h"
#include "treadle/ir/type.h"
#include "treadle/runtime/limits.h"

namespace treadle::onnx {
namespace {

std::string ShapeText(const std::vector<Dimension>& dims) {
  std::string text;
  for (const Dimension& dim : dims) {
    text += text.empty() ? "" : ", ";
    text += dim.value ? StrCat(*dim.value) : dim.HasName() ? QuoteName(dim.symbol) : "?";
  }
  return StrCat("[", text, "]");
}

std::string ShapeText(const Array<PrimExpr>& shape) {
  std::string text;
  for (const PrimExpr& dim : shape) {
    const int64_t* size = AsConstInt(dim);
    text += StrCat(text.empty() ? "" : ", ", size != nullptr ? StrCat(*size) : "?");
  }
  return StrCat("[", text, "]");
}

/// Whether a value of `dtype` may be one of the declared type. Types of less than a byte and 8-bit floats are kept in
/// several forms within the compiler.
bool SameElements(ElemType declared, std::optional<DataType> dtype) {
  if (!IsKnownElemType(declared)) return true;
  if (!dtype || declared == ElemType::kString) return !dtype && declared == ElemType::kString;
  const auto expected = ToDataType(declared);
  if (ElemTypeBits(declared) < 8 || (expected && expected->is_float8())) return dtype->bits() <= 8 && !dtype->is_bool();
  return !expected || *expected == *dtype;
}

bool HasOpenSize(const std::vector<Dimension>& dims) {
  return std::any_of(dims.begin(), dims.end(), [](const Dimension& dim) { return !dim.value; });
}

bool SameSizes(const std::vector<Dimension>& declared, const Array<PrimExpr>& shape, bool compare) {
  if (declared.empty()) return true;  // what exporters write for a shape that they don't know
  if (declared.size() != shape.size()) {
    // PyTorch's exporter writes the axes that a script calls dynamic without looking at the value's rank.
    return HasOpenSize(declared);
  }
  for (size_t i = 0; compare && i < shape.size(); ++i) {
    const int64_t* size = AsConstInt(shape[i]);
    // Exporters write -1 for what they don't know.
    if (size != nullptr && declared[i].value && *declared[i].value >= 0 && *declared[i].value != *size) return false;
  }
  return true;
}

}  // namespace

DeclaredTypes::DeclaredTypes(const Model& model, const ImportOptions& options) : source_(model.source) {
  for (const ValueInfo& input : model.graph.inputs) {
    auto given = options.shapes.find(input.name);
    if (given == options.shapes.end() || !input.type.shape) continue;
    const std::vector<Dimension>& dims = *input.type.shape;
    for (size_t i = 0; i < dims.size() && i < given->second.size(); ++i) {
      if (dims[i].value && given->second[i] >= 0 && *dims[i].value != given->second[i]) same_sizes_ = false;
    }
  }
}

int64_t DeclaredTypes::SizeOf(const ValueInfo& declared, size_t axis,
                              const std::map<std::string, int64_t>& dims) const {
  const TypeProto& type = declared.type;
  if (!same_sizes_ || type.kind != TypeProto::Kind::kTensor || !type.shape || axis >= type.shape->size()) return -1;
  const Dimension& dim = (*type.shape)[axis];
  if (dim.value) return std::max<int64_t>(-1, *dim.value);
  const auto given = dims.find(dim.symbol);
  return given == dims.end() ? -1 : given->second;
}

void DeclaredTypes::CheckTensor(const ValueInfo& declared, std::optional<DataType> dtype, const Array<PrimExpr>& shape,
                                bool compare_sizes, const std::string& where) const {
  const TypeProto& type = declared.type;
  const std::string name = QuoteName(declared.name);
  if (type.kind == TypeProto::Kind::kSequence || type.kind == TypeProto::Kind::kMap) {
    throw ModelFormatError(StrCat(source_, ": ", where, ": ", name, " is declared as a ",
                                  type.kind == TypeProto::Kind::kMap ? "map" : "sequence", ", but is a tensor"));
  }
  if (type.kind != TypeProto::Kind::kTensor || type.elem_type == ElemType::kUndefined) return;
  if (!SameElements(type.elem_type, dtype)) {
    throw ModelFormatError(StrCat(source_, ": ", where, ": ", name, " is declared as ", ElemTypeName(type.elem_type),
                                  ", but is ", dtype ? dtype->str() : "string"));
  }
  if (!type.shape || SameSizes(*type.shape, shape, compare_sizes)) return;
  throw ModelFormatError(StrCat(source_, ": ", where, ": ", name, " is declared with shape ", ShapeText(*type.shape),
                                ", but has ", ShapeText(shape)));
}

void DeclaredTypes::Check(const ValueInfo& declared, const relay::Expr& value, bool text,
                          const std::string& where) const {
  const auto* type = value->checked_type_.as<TensorTypeNode>();
  if (type == nullptr) return;
  CheckTensor(declared, text ? std::nullopt : std::optional(type->dtype), type->shape, same_sizes_, where);
}

void DeclaredTypes::CheckResult(const ValueInfo& declared, const relay::Expr& value, bool text,
                                const std::string& where) const {
  const auto* type = value->checked_type_.as<TensorTypeNode>();
  if (type == nullptr) return;
  const bool compare = same_sizes_ && !(declared.type.shape && HasOpenSize(*declared.type.shape));
  CheckTensor(declared, text ? std::nullopt : std::optional(type->dtype), type->shape, compare, where);
}

void DeclaredTypes::CheckInitializers(const Graph& graph) const {
  std::unordered_map<std::string_view, const Tensor*> tensors;
  for (const auto& tensor : graph.initializers) tensors[tensor->name] = tensor.get();
  if (tensors.empty()) return;
  for (const auto* list : {&graph.inputs, &graph.value_info}) {
    for (const ValueInfo& declared : *list) {
      auto it = tensors.find(declared.name);
      const auto dtype = it == tensors.end() ? std::nullopt : ToDataType(it->second->data_type);
      if (!dtype) continue;
      Array<PrimExpr> shape;
      for (int64_t dim : it->second->dims) shape.push_back(PrimExpr(dim));
      CheckTensor(declared, dtype, shape, same_sizes_, "initializer");
    }
  }
}

void DeclaredTypes::CheckSize(const relay::Expr& value, const Node& node) const {
  const auto* type = value->checked_type_.as<TensorTypeNode>();
  if (type == nullptr) return;
  int64_t bits = type->dtype.bits();
  for (const PrimExpr& dim : type->shape) {
    const int64_t* size = AsConstInt(dim);
    if (size == nullptr) continue;  // what is known is too large beside any size but 0
    if (*size == 0) return;
    if (__builtin_mul_overflow(bits, *size, &bits)) bits = INT64_MAX;
  }
  if (bits / 8 <= runtime::MaxTensorBytes()) return;
  throw ShapeError(StrCat("node ", QuoteName(node.DisplayName()), " (", node.op_type, "): the result ",
                          ShapeText(type->shape), " takes ", bits / 8, " bytes", IsStatic(type) ? "" : " or more",
                          "; the limit is ", runtime::MaxTensorBytes(), " (--max-tensor-bytes)"));
}

const ValueInfo* DeclaredTypes::Find(const Graph& graph, const std::string& name) {
  if (graph.value_info.empty()) return nullptr;
  auto [known, inserted] = by_graph_.try_emplace(&graph);
  if (inserted) {
    for (const ValueInfo& declared : graph.value_info) known->second.emplace(declared.name, &declared);
  }
  auto it = known->second.find(name);
  return it == known->second.end() ? nullptr : it->second;
}

}  // namespace treadle::onnx
