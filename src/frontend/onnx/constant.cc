// SPDX-License-Identifier: Apache-2.0
// Constants and tensors made from numbers.
#include <algorithm>
#include <cmath>
#include <limits>

#include "frontend/onnx/checked_values.h"
#include "frontend/onnx/dynamic_rules.h"
#include "frontend/onnx/forks.h"
#include "frontend/onnx/narrow_types.h"
#include "frontend/onnx/rules.h"
#include "frontend/onnx/symbolic_dims.h"
#include "frontend/onnx/tensor_data.h"
#include "frontend/onnx/values.h"

namespace treadle::onnx {
namespace {

using relay::Expr;
using Ints = std::vector<int64_t>;

/// Larger ones are computed when the model runs instead of being stored in it.
constexpr int64_t kMaxStoredBytes = int64_t{64} << 20;

/// Exactly one attribute gives the value.
Expr ImportConstant(NodeImport& n) {
  if (n.node().attributes.size() != 1) n.Invalid("there has to be exactly one value");
  const std::string& name = n.node().attributes[0].name;
  std::string where = StrCat("node ", QuoteName(n.node().DisplayName()));
  if (name == "value") {
    const Attribute* value = n.Find("value");
    if (value->type != Attribute::Type::kTensor) n.Invalid("'value' isn't a tensor");
    if (value->t->data_type == ElemType::kString) {
      n.MarkText();
      return TextConstant(n, *value->t);
    }
    const ElemType type = value->t->data_type;
    const bool narrow =
        type == ElemType::kInt4 || type == ElemType::kUInt4 || type == ElemType::kInt2 || type == ElemType::kUInt2;
    if (narrow) return ConvertTo(n, n.Const(ToNDArray(*value->t, where)), StoredType(type, where));
    n.ToType(type);
    return n.Const(ToNDArray(*value->t, where));
  }
  if (name == "sparse_value") {
    const Attribute* value = n.Find("sparse_value");
    if (value->type != Attribute::Type::kSparseTensor) n.Invalid("'sparse_value' isn't a sparse tensor");
    n.ToType(value->sparse_tensor->values.data_type);
    return n.Const(ToNDArray(*value->sparse_tensor, where));
  }
  if (name == "value_float") return n.Scalar(DataType::Float(32), n.Float("value_float"));
  if (name == "value_int") return n.Const(ArrayOf(Ints{n.Int("value_int")}, Ints{}, DataType::Int(64)));
  if (name == "value_ints") return n.IntVector(n.Ints("value_ints"));
  if (name == "value_floats") {
    std::vector<double> values = n.Floats("value_floats");
    return n.Const(ArrayOf(values, {static_cast<int64_t>(values.size())}, DataType::Float(32)));
  }
  if (name == "value_string") {
    n.MarkText();
    return TextConstant(n, {}, {n.Str("value_string")});
  }
  if (name == "value_strings") {
    n.MarkText();
    const Attribute* strings = n.Find("value_strings");
    if (strings->type != Attribute::Type::kStrings) n.Invalid("'value_strings' isn't a list of strings");
    return TextVector(n, strings->strings);
  }
  n.Unsupported(StrCat("attribute ", QuoteName(name), " isn't implemented"));
}

Expr ImportConstantOfShape(NodeImport& n) {
  const bool known = n.IsKnown(0);
  Ints shape = known ? n.ConstantInts(0, "input") : Ints();
  NDArray value = ArrayOf(std::vector<double>{0}, Ints{}, DataType::Float(32));
  if (const Attribute* attribute = n.Find("value")) {
    if (attribute->type != Attribute::Type::kTensor) n.Invalid("'value' isn't a tensor");
    n.ToType(attribute->t->data_type);
    value = ToNDArray(*attribute->t, StrCat("node ", QuoteName(n.node().DisplayName())));
    if (value.size() != 1) n.Invalid(StrCat("'value' has ", value.size(), " elements, expected one"));
    value = value.CreateView({}, value.dtype());
  }
  if (!known) {
    Expr sizes = n.In(0);
    const int64_t rank = n.DeclaredRank();
    if (n.Rank(0) == 1 && AsConstInt(TypeOf(sizes)->shape[0]) == nullptr && rank > 0) {
      sizes = n.Reshape(sizes, {rank});  // checked when it runs
    }
    if (n.Rank(0) == 1 && AsConstInt(TypeOf(sizes)->shape[0]) == nullptr) throw UnknownLength{0, "input"};
    Expr filled = n.Call("dyn.full", {n.Const(value), sizes}, {{"dtype", value.dtype()}});
    return WithDims(n, filled, SizeHints(n.ShapeElements(sizes), RankOf(filled)));
  }
  for (int64_t dim : shape) {
    if (dim < 0) n.Invalid(StrCat("the shape has a dimension of ", dim));
  }
  int64_t bytes = runtime::TensorBytes(shape, value.dtype());
  if (bytes > kMaxStoredBytes) return n.Call("full", {n.Const(value)}, {{"shape", shape}, {"dtype", value.dtype()}});
  NDArray array = NDArray::Empty(shape, value.dtype());
  int64_t element = runtime::ElementBytes(value.dtype());
  const char* from = value.Data<char>();
  for (char *to = array.Data<char>(), *end = to + bytes; to < end; to += element) std::copy(from, from + element, to);
  return n.Const(array);
}

/// Integers from `start` up or down to `limit`; they may be as far apart as their type allows.
Term CountOfSteps(const Term& start, const Term& limit, const Term& delta) {
  const DataType wide = DataType::UInt(64);
  auto bits = [&](const Term& x) { return x.As(DataType::Int(64)).As(wide); };
  const Term up = delta > 0, from = bits(start), to = bits(limit), step = bits(delta);
  const Term span = up.Select(to - from, from - to), size = up.Select(step, step.Number(0) - step);
  const Term count = (span - 1) / size + 1;
  const Term any = up.Select(start < limit, limit < start);
  return any.Select(count.Op("minimum", count.Number(0x1p62)), 0).As(DataType::Int(64));
}

Expr ImportRunTimeRange(NodeImport& n) {
  DataType dtype = n.DType(0);
  Expr start = n.Reshape(n.In(0), Ints{}), limit = n.Reshape(n.In(1), Ints{}), delta = n.Reshape(n.In(2), Ints{});
  Expr count;
  auto step = dtype.is_integral() ? n.KnownElements(delta) : std::nullopt;
  if (step && (*step)[0] == 0) n.Invalid("'delta' is 0");
  if (dtype.is_integral() && !step) delta = CheckedValues(n, delta, "not_zero", IntNum(n, 0), "delta");
  if (step && (*step)[0] == 1) {
    count = n.Call("subtract", {n.Cast(limit, DataType::Int(64)), n.Cast(start, DataType::Int(64))});
  } else if (dtype.is_integral()) {
    count = CountOfSteps({n, start}, {n, limit}, {n, delta});
  } else {
    Expr span = n.Call("subtract", {limit, start});
    Expr ratio = n.Call("divide", {n.Cast(span, DataType::Float(64)), n.Cast(delta, DataType::Float(64))});
    constexpr int64_t kMost = int64_t{1} << 62, kNotFinite = std::numeric_limits<int64_t>::max();
    const Expr steps = n.Call("maximum", {n.Cast(n.Call("ceil", {ratio}), DataType::Int(64)), IntNum(n, 0)});
    count = n.Call("where", {n.Call("isfinite", {ratio}), steps, IntNum(n, kNotFinite)});
    count = CheckedValues(n, count, "at_most", IntNum(n, kMost), "number of elements");
  }
  Expr numbers = n.Cast(Iota(n, count), dtype);
  return n.Call("add", {start, n.Call("multiply", {numbers, delta})});
}

/// Numbers from `start` on; nothing when `limit` is on the other side.
Expr ImportRange(NodeImport& n) {
  DataType dtype = n.DType(0);
  if (n.Int("stash_type", 1) != 1) n.Unsupported("'stash_type' other than float isn't implemented");
  if (!n.IsKnown(0) || !n.IsKnown(1) || !n.IsKnown(2)) return ImportRunTimeRange(n);
  auto scalar = [&](size_t i, const char* name) {
    NDArray value = n.Constant(i, name);
    if (value.size() != 1) n.Invalid(StrCat("'", name, "' isn't a scalar"));
    return value;
  };
  NDArray start = scalar(0, "start"), limit = scalar(1, "limit"), delta = scalar(2, "delta");
  double step = DoublesOf(delta)[0];
  if (step == 0 || std::isnan(step)) n.Invalid("'delta' is 0");
  double count = std::ceil((DoublesOf(limit)[0] - DoublesOf(start)[0]) / step);
  if (!std::isfinite(count)) n.Invalid("the number of elements isn't finite");
  count = std::max(count, 0.0);
  constexpr int64_t kMostElements = kMaxStoredBytes / 8;
  if (count > static_cast<double>(kMostElements)) n.Unsupported("a range of so many elements isn't implemented");
  auto size = static_cast<size_t>(count);
  if (dtype.is_integral()) {
    // Exact: doubles would miss a step of numbers beyond 2^53.
    const __int128 end = IntsOf(limit)[0], d = IntsOf(delta)[0];
    Ints values;
    for (__int128 i = IntsOf(start)[0]; d > 0 ? i < end : i > end; i += d) values.push_back(static_cast<int64_t>(i));
    return n.Const(ArrayOf(values, {static_cast<int64_t>(values.size())}, dtype));
  }
  std::vector<double> values(size);
  for (size_t i = 0; i < size; ++i) values[i] = DoublesOf(start)[0] + static_cast<double>(i) * step;
  return n.Const(ArrayOf(values, {static_cast<int64_t>(size)}, dtype));
}

Expr ImportEyeLike(NodeImport& n) {
  if (n.Rank(0) == 2 && !IsStatic(TypeOf(n.In(0)))) return ImportDynamicEyeLike(n);
  Ints shape = n.StaticShape(0);
  if (shape.size() != 2) n.Invalid(StrCat("the operand has rank ", shape.size(), ", expected 2"));
  DataType dtype = n.HasAttr("dtype") ? n.TypeAttr("dtype") : n.DType(0);
  int64_t k = n.Int("k", 0);
  if (runtime::TensorBytes(shape, dtype) > kMaxStoredBytes) n.Unsupported("a matrix of that size isn't implemented");
  Ints values(static_cast<size_t>(shape[0] * shape[1]), 0);
  for (int64_t i = 0; i < shape[0]; ++i) {
    for (int64_t j = 0; j < shape[1]; ++j) {
      if (j - i == k) values[static_cast<size_t>(i * shape[1] + j)] = 1;
    }
  }
  return n.Const(ArrayOf(values, shape, dtype));
}

}  // namespace

void RegisterConstantRules(RuleTable& table) {
  table.Add1("Constant", {1, 9, 11, 12, 13, 19, 21, 23, 24, 25}, ImportConstant);
  table.Add1("ConstantOfShape", {9, 20, 21, 23, 24, 25}, ImportConstantOfShape);
  table.Add1("Range", {11, 27}, ImportRange);
  table.Add1("EyeLike", {9, 22}, ImportEyeLike);
}

}  // namespace treadle::onnx
