// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/input_types.h"

#include <set>

#include "frontend/onnx/narrow_types.h"
#include "treadle/base/error.h"
#include "treadle/base/suggest.h"
#include "treadle/ir/prim_expr.h"

namespace treadle::onnx {
namespace {

constexpr int64_t kMaxDim = int64_t{1} << 48;  // as in manifests of compiled models

template <typename Names>
std::string List(const Names& names) {
  std::string text;
  for (const std::string& name : names) text += StrCat(text.empty() ? "" : ", ", QuoteName(name));
  return text.empty() ? "none" : text;
}

std::string InputText(const ValueInfo& input) { return StrCat("input ", QuoteName(input.name)); }

DataType DTypeOf(const ValueInfo& input) { return StoredType(input.type.elem_type, InputText(input)); }

}  // namespace

InputTypes::InputTypes(const std::vector<const ValueInfo*>& inputs, const ImportOptions& options) : options_(options) {
  std::set<std::string> names, symbols;
  for (const ValueInfo* input : inputs) {
    names.insert(input->name);
    if (!input->type.shape) continue;
    for (const Dimension& dim : *input->type.shape) {
      if (dim.HasName()) symbols.insert(dim.symbol);
    }
  }
  for (const auto& [name, shape] : options.shapes) {
    if (!names.count(name)) {
      throw Error(StrCat("the model has no input ", QuoteName(name), "; its inputs are: ", List(names),
                         DidYouMean(name, {names.begin(), names.end()})));
    }
  }
  for (const auto& [name, value] : options.constants) {
    if (!names.count(name)) {
      throw Error(StrCat("the model has no input ", QuoteName(name), "; its inputs are: ", List(names),
                         DidYouMean(name, {names.begin(), names.end()})));
    }
  }
  auto check_symbol = [&](const std::string& symbol) {
    if (symbols.count(symbol)) return;
    if (symbols.empty()) {
      throw Error(
          StrCat("no input has a dimension called ", QuoteName(symbol),
                 "; none has a name\nhelp: shapes by input (--input-shapes, `shapes` in Python) say other sizes"));
    }
    throw Error(StrCat("no input has a dimension called ", QuoteName(symbol), "; there are: ", List(symbols),
                       DidYouMean(symbol, {symbols.begin(), symbols.end()})));
  };
  for (const auto& [symbol, value] : options.dims) {
    check_symbol(symbol);
    if (value < 0) throw ShapeError(StrCat("dimension ", QuoteName(symbol), " can't be ", value));
    SetSymbol(symbol, value, StrCat("dimension ", QuoteName(symbol)));
  }
  for (const std::string& symbol : options.open_dims) check_symbol(symbol);
  for (const ValueInfo* input : inputs) {
    auto shape = options.shapes.find(input->name);
    if (shape != options.shapes.end()) BindShape(*input, shape->second);
  }
}

void InputTypes::SetSymbol(const std::string& symbol, int64_t value, const std::string& where) {
  auto [it, inserted] = values_.emplace(symbol, value);
  if (!inserted && it->second != value) {
    throw ShapeError(
        StrCat(where, ": dimension ", QuoteName(symbol), " is ", value, " here and ", it->second, " elsewhere"));
  }
}

void InputTypes::BindShape(const ValueInfo& input, const std::vector<int64_t>& shape) {
  for (int64_t dim : shape) {
    if (dim < kUnknownDim) throw ShapeError(StrCat(InputText(input), " can't have a dimension of ", dim));
  }
  if (!input.type.shape) return;
  const std::vector<Dimension>& declared = *input.type.shape;
  if (declared.size() != shape.size()) {
    throw ShapeError(
        StrCat(InputText(input), " has rank ", declared.size(), ", the given shape has rank ", shape.size()));
  }
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] >= 0 && declared[i].HasName()) SetSymbol(declared[i].symbol, shape[i], InputText(input));
  }
}

PrimExpr InputTypes::DimOf(const Dimension& dim) const {
  if (dim.value) return PrimExpr(*dim.value);
  if (!dim.HasName()) return AnyDim();
  auto value = values_.find(dim.symbol);
  if (value != values_.end()) return PrimExpr(value->second);
  auto symbol = symbols_.find(dim.symbol);
  if (symbol == symbols_.end()) {
    symbol = symbols_.emplace(dim.symbol, tir::Var(dim.symbol, DataType::Int(64))).first;
  }
  return symbol->second;
}

TensorType InputTypes::TypeOf(const ValueInfo& input) const {
  if (input.type.kind != TypeProto::Kind::kTensor) {
    std::string message = StrCat(InputText(input), " isn't a tensor: such inputs aren't supported");
    throw UnsupportedOpError(message, {message});
  }
  DataType dtype = DTypeOf(input);
  auto given = options_.shapes.find(input.name);
  if (!input.type.shape && given == options_.shapes.end()) {
    throw ShapeError(StrCat(InputText(input), " has no declared shape: give it with --input-shapes"));
  }
  size_t rank = input.type.shape ? input.type.shape->size() : given->second.size();
  Array<PrimExpr> shape;
  for (size_t i = 0; i < rank; ++i) {
    const int64_t wanted = given != options_.shapes.end() ? given->second[i] : -1;
    if (wanted == kUnknownDim) {
      shape.push_back(AnyDim());
      continue;
    }
    if (wanted >= 0) {
      shape.push_back(PrimExpr(wanted));
    } else {
      shape.push_back(input.type.shape ? DimOf((*input.type.shape)[i]) : AnyDim());
    }
    const int64_t* size = AsConstInt(shape[i]);
    if (size != nullptr && *size > kMaxDim) {
      throw ShapeError(StrCat(InputText(input), " can't have a dimension of ", *size, " (the limit is 2^48)"));
    }
  }
  return TensorType(shape, dtype);
}

void InputTypes::CheckValue(const ValueInfo& input, const NDArray& value) {
  DataType dtype = DTypeOf(input);
  if (value.dtype() != dtype) throw DTypeError(StrCat(InputText(input), " is ", dtype, ", the value ", value.dtype()));
  if (!input.type.shape) return;
  bool fits = input.type.shape->size() == value.shape().size();
  for (size_t i = 0; fits && i < value.shape().size(); ++i) {
    fits = (*input.type.shape)[i].value.value_or(value.shape()[i]) == value.shape()[i];
  }
  if (!fits) {
    throw ShapeError(
        StrCat(InputText(input), " has another shape than the value's ", runtime::ShapeString(value.shape())));
  }
}

}  // namespace treadle::onnx
