// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/fold.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <unordered_map>

#include "frontend/onnx/expr_builder.h"
#include "treadle/base/checked_math.h"
#include "treadle/base/error.h"

namespace treadle::onnx {
namespace {

using relay::Expr;
using Shape = std::vector<int64_t>;

/// A small tensor as numbers: `ints` of integer and bool types, else `reals`.
struct Numbers {
  Shape shape;
  DataType dtype;
  std::vector<int64_t> ints;
  std::vector<double> reals;

  bool is_real() const { return dtype.is_floating(); }
  size_t size() const { return is_real() ? reals.size() : ints.size(); }
  double Real(size_t i) const { return is_real() ? reals[i] : static_cast<double>(ints[i]); }
  void Resize(size_t n) { is_real() ? reals.resize(n) : ints.resize(n); }
  void Copy(size_t to, const Numbers& from, size_t i) {
    is_real() ? void(reals[to] = from.reals[i]) : void(ints[to] = from.ints[i]);
  }
};

Numbers Load(const NDArray& array) {
  Numbers n{array.shape(), array.dtype(), {}, {}};
  if (n.is_real()) {
    n.reals = DoublesOf(array);
  } else {
    n.ints = IntsOf(array);
  }
  return n;
}

NDArray Store(const Numbers& n) {
  return n.is_real() ? ArrayOf(n.reals, n.shape, n.dtype) : ArrayOf(n.ints, n.shape, n.dtype);
}

// ---- Attributes, whatever the class that holds them.

const FieldInfo* FindField(const Attrs& attrs, const char* name) {
  if (!attrs.defined()) return nullptr;
  for (const FieldInfo& field : attrs->type_info()->fields) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

std::optional<int64_t> IntField(const Attrs& attrs, const char* name) {
  const FieldInfo* field = FindField(attrs, name);
  if (field == nullptr) return std::nullopt;
  switch (field->kind) {
    case FieldKind::kBool:
      return field->Get<bool>(attrs.get());
    case FieldKind::kInt32:
      return field->Get<int>(attrs.get());
    case FieldKind::kInt64:
      return field->Get<int64_t>(attrs.get());
    case FieldKind::kOptInt64:
      return field->Get<std::optional<int64_t>>(attrs.get());
    case FieldKind::kObject: {
      const auto* imm = field->Get<ObjectRef>(attrs.get()).as<IntImmNode>();
      if (imm != nullptr) return imm->value;
      return std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

std::optional<Shape> IntsField(const Attrs& attrs, const char* name) {
  const FieldInfo* field = FindField(attrs, name);
  if (field == nullptr) return std::nullopt;
  if (field->kind == FieldKind::kInt64s) return field->Get<Shape>(attrs.get());
  if (field->kind == FieldKind::kOptInt64s) return field->Get<std::optional<Shape>>(attrs.get());
  return std::nullopt;
}

// ---- Indices.

Shape StridesOf(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

/// Calls `f(position, index)` for every element of a tensor in row-major order.
template <typename F>
void ForEachIndex(const Shape& shape, F&& f) {
  int64_t count = NumElements(shape);
  Shape index(shape.size(), 0);
  for (int64_t n = 0; n < count; ++n) {
    f(static_cast<size_t>(n), index);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

size_t BroadcastPosition(const Shape& index, const Shape& shape) {
  int64_t position = 0;
  size_t skip = index.size() - shape.size();
  for (size_t d = 0; d < shape.size(); ++d) position = position * shape[d] + (shape[d] == 1 ? 0 : index[skip + d]);
  return static_cast<size_t>(position);
}

// ---- Operators. Each returns false where it doesn't know the result.

struct Folding {
  const std::string& op;
  const std::vector<Numbers>& in;
  const Attrs& attrs;
  Numbers& out;  ///< shape and dtype are set, elements allocated
};

int64_t Truncated(double value, DataType dtype) {
  if (dtype.is_bool()) return value != 0 ? 1 : 0;
  if (std::isnan(value)) return 0;
  constexpr double kLimit = 9223372036854775808.0;
  if (value >= kLimit) return std::numeric_limits<int64_t>::max();
  if (value < -kLimit) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(value);
}

int64_t WrapTo(int64_t value, DataType dtype) {
  if (dtype.is_bool()) return value != 0 ? 1 : 0;
  int unused = 64 - dtype.bits();
  if (unused <= 0) return value;
  auto shifted = static_cast<uint64_t>(value) << unused;
  return dtype.is_uint() ? static_cast<int64_t>(shifted >> unused) : static_cast<int64_t>(shifted) >> unused;
}

bool FoldCast(Folding& f) {
  const Numbers& x = f.in[0];
  for (size_t i = 0; i < x.size(); ++i) {
    if (f.out.is_real()) {
      f.out.reals[i] = x.Real(i);
    } else {
      f.out.ints[i] = WrapTo(x.is_real() ? Truncated(x.reals[i], f.out.dtype) : x.ints[i], f.out.dtype);
    }
  }
  return true;
}

double RoundHalfEven(double x) { return std::nearbyint(x); }

bool FoldUnary(Folding& f) {
  static const std::unordered_map<std::string, double (*)(double)> kReal = {
      {"negative", [](double x) { return -x; }},
      {"abs", [](double x) { return std::fabs(x); }},
      {"floor", [](double x) { return std::floor(x); }},
      {"ceil", [](double x) { return std::ceil(x); }},
      {"round", RoundHalfEven},
      {"sqrt", [](double x) { return std::sqrt(x); }}};
  const Numbers& x = f.in[0];
  if (f.op == "logical_not") {
    for (size_t i = 0; i < x.size(); ++i) f.out.ints[i] = x.ints[i] == 0 ? 1 : 0;
    return true;
  }
  auto it = kReal.find(f.op);
  if (it == kReal.end()) return false;
  if (x.is_real()) {
    for (size_t i = 0; i < x.size(); ++i) f.out.reals[i] = it->second(x.reals[i]);
    return true;
  }
  if (f.op != "negative" && f.op != "abs") return false;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x.ints[i] == std::numeric_limits<int64_t>::min()) return false;
    f.out.ints[i] = WrapTo(f.op == "negative" || x.ints[i] < 0 ? -x.ints[i] : x.ints[i], f.out.dtype);
  }
  return true;
}

/// Nothing on overflow and on division by zero.
std::optional<int64_t> IntBinary(const std::string& op, int64_t a, int64_t b) {
  int64_t r = 0;
  bool division = op == "divide" || op == "floor_divide" || op == "mod" || op == "floor_mod";
  if (division && (b == 0 || b == -1)) {
    if (b == 0 || a == std::numeric_limits<int64_t>::min()) return std::nullopt;
    return op == "divide" || op == "floor_divide" ? -a : 0;
  }
  if (op == "add") return __builtin_add_overflow(a, b, &r) ? std::nullopt : std::optional(r);
  if (op == "subtract") return __builtin_sub_overflow(a, b, &r) ? std::nullopt : std::optional(r);
  if (op == "multiply") return __builtin_mul_overflow(a, b, &r) ? std::nullopt : std::optional(r);
  if (op == "divide") return a / b;
  if (op == "mod") return a % b;
  bool adjust = division && a % b != 0 && (a < 0) != (b < 0);
  if (op == "floor_divide") return a / b - (adjust ? 1 : 0);
  if (op == "floor_mod") return a % b + (adjust ? b : 0);
  if (op == "maximum") return std::max(a, b);
  if (op == "minimum") return std::min(a, b);
  if (op == "logical_and" || op == "bitwise_and") return a & b;
  if (op == "logical_or" || op == "bitwise_or") return a | b;
  if (op == "logical_xor" || op == "bitwise_xor") return a ^ b;
  return std::nullopt;
}

std::optional<double> RealBinary(const std::string& op, double a, double b) {
  if (op == "add") return a + b;
  if (op == "subtract") return a - b;
  if (op == "multiply") return a * b;
  if (op == "divide") return a / b;
  if (std::isnan(a) || std::isnan(b)) return std::nullopt;
  if (op == "maximum") return std::max(a, b);
  if (op == "minimum") return std::min(a, b);
  return std::nullopt;
}

template <typename T>
std::optional<bool> Compare(const std::string& op, T a, T b) {
  if (op == "equal") return a == b;
  if (op == "not_equal") return a != b;
  if (op == "less") return a < b;
  if (op == "less_equal") return a <= b;
  if (op == "greater") return a > b;
  if (op == "greater_equal") return a >= b;
  return std::nullopt;
}

bool FoldBinary(Folding& f) {
  const Numbers& a = f.in[0];
  const Numbers& b = f.in[1];
  if (a.dtype != b.dtype) return false;
  // Values of uint64 are kept as int64 bits: too large ones would be taken for negative ones.
  auto too_large = [](int64_t v) { return v < 0; };
  if (a.dtype == DataType::UInt(64) &&
      (std::any_of(a.ints.begin(), a.ints.end(), too_large) || std::any_of(b.ints.begin(), b.ints.end(), too_large))) {
    return false;
  }
  bool ok = true;
  ForEachIndex(f.out.shape, [&](size_t n, const Shape& index) {
    size_t i = BroadcastPosition(index, a.shape);
    size_t j = BroadcastPosition(index, b.shape);
    std::optional<bool> compared =
        a.is_real() ? Compare(f.op, a.reals[i], b.reals[j]) : Compare(f.op, a.ints[i], b.ints[j]);
    if (compared) {
      f.out.ints[n] = *compared ? 1 : 0;
    } else if (a.is_real()) {
      auto value = RealBinary(f.op, a.reals[i], b.reals[j]);
      ok &= value.has_value();
      f.out.reals[n] = value.value_or(0);
    } else {
      auto value = IntBinary(f.op, a.ints[i], b.ints[j]);
      ok &= value.has_value() && WrapTo(value.value_or(0), f.out.dtype) == *value;
      f.out.ints[n] = value.value_or(0);
    }
  });
  return ok;
}

bool FoldWhere(Folding& f) {
  ForEachIndex(f.out.shape, [&](size_t n, const Shape& index) {
    const Numbers& x = f.in[0].ints[BroadcastPosition(index, f.in[0].shape)] != 0 ? f.in[1] : f.in[2];
    f.out.Copy(n, x, BroadcastPosition(index, x.shape));
  });
  return true;
}

bool FoldSameElements(Folding& f) {
  if (f.in[0].size() != f.out.size()) return false;
  for (size_t i = 0; i < f.out.size(); ++i) f.out.Copy(i, f.in[0], i);
  return true;
}

bool FoldBroadcastTo(Folding& f) {
  ForEachIndex(f.out.shape,
               [&](size_t n, const Shape& index) { f.out.Copy(n, f.in[0], BroadcastPosition(index, f.in[0].shape)); });
  return true;
}

bool FoldTranspose(Folding& f) {
  const Numbers& x = f.in[0];
  size_t rank = x.shape.size();
  Shape axes = IntsField(f.attrs, "axes").value_or(Shape());
  if (axes.empty()) {
    for (size_t d = rank; d-- > 0;) axes.push_back(static_cast<int64_t>(d));
  }
  Shape strides = StridesOf(x.shape);
  ForEachIndex(f.out.shape, [&](size_t n, const Shape& index) {
    int64_t position = 0;
    for (size_t d = 0; d < rank; ++d) position += index[d] * strides[static_cast<size_t>(axes[d])];
    f.out.Copy(n, x, static_cast<size_t>(position));
  });
  return true;
}

bool FoldConcatenate(Folding& f) {
  auto rank = static_cast<int64_t>(f.out.shape.size());
  int64_t axis = IntField(f.attrs, "axis").value_or(0);
  if (axis < 0) axis += rank;
  auto d = static_cast<size_t>(axis);
  ForEachIndex(f.out.shape, [&](size_t n, const Shape& index) {
    Shape inner = index;
    for (const Numbers& part : f.in) {
      if (inner[d] < part.shape[d]) return f.out.Copy(n, part, BroadcastPosition(inner, part.shape));
      inner[d] -= part.shape[d];
    }
  });
  return true;
}

/// strided_slice with the extents that type inference has found: only where each slice begins matters.
bool FoldStridedSlice(Folding& f) {
  const Numbers& x = f.in[0];
  auto begin = IntsField(f.attrs, "begin");
  auto strides = IntsField(f.attrs, "strides");
  auto axes = IntsField(f.attrs, "axes");
  if (!begin || f.in.size() != 1) return false;
  Shape first(x.shape.size(), 0), step(x.shape.size(), 1);
  for (size_t i = 0; i < begin->size(); ++i) {
    int64_t axis = axes && !axes->empty() ? (*axes)[i] : static_cast<int64_t>(i);
    if (axis < 0) axis += static_cast<int64_t>(x.shape.size());
    auto d = static_cast<size_t>(axis);
    step[d] = strides && i < strides->size() ? (*strides)[i] : 1;
    int64_t start = (*begin)[i] < 0 ? (*begin)[i] + x.shape[d] : (*begin)[i];
    first[d] = step[d] > 0 ? std::clamp<int64_t>(start, 0, x.shape[d]) : std::clamp<int64_t>(start, -1, x.shape[d] - 1);
  }
  Shape x_strides = StridesOf(x.shape);
  bool ok = true;
  ForEachIndex(f.out.shape, [&](size_t n, const Shape& index) {
    int64_t position = 0;
    for (size_t d = 0; d < index.size(); ++d) {
      int64_t i = first[d] + index[d] * step[d];
      ok &= i >= 0 && i < x.shape[d];
      position += i * x_strides[d];
    }
    if (ok) f.out.Copy(n, x, static_cast<size_t>(position));
  });
  return ok;
}

/// take along one axis; indices count from the end when negative, and have to be in range.
bool FoldTake(Folding& f) {
  const Numbers& x = f.in[0];
  const Numbers& indices = f.in[1];
  auto axis = IntField(f.attrs, "axis");
  if (!axis || IntField(f.attrs, "batch_dims").value_or(0) != 0) return false;
  if (*axis < 0) *axis += static_cast<int64_t>(x.shape.size());
  auto d = static_cast<size_t>(*axis);
  size_t indices_rank = indices.shape.size();
  bool ok = true;
  ForEachIndex(f.out.shape, [&](size_t n, const Shape& index) {
    Shape at(index.begin() + static_cast<std::ptrdiff_t>(d),
             index.begin() + static_cast<std::ptrdiff_t>(d + indices_rank));
    int64_t i = indices.ints[BroadcastPosition(at, indices.shape)];
    if (i < 0) i += x.shape[d];
    ok &= i >= 0 && i < x.shape[d];
    if (!ok) return;
    Shape from(index.begin(), index.begin() + static_cast<std::ptrdiff_t>(d));
    from.push_back(i);
    from.insert(from.end(), index.begin() + static_cast<std::ptrdiff_t>(d + indices_rank), index.end());
    int64_t position = 0;
    for (size_t k = 0; k < from.size(); ++k) position = position * x.shape[k] + from[k];
    f.out.Copy(n, x, static_cast<size_t>(position));
  });
  return ok;
}

bool FoldTile(Folding& f) {
  const Numbers& x = f.in[0];
  size_t skip = f.out.shape.size() - x.shape.size();
  ForEachIndex(f.out.shape, [&](size_t n, const Shape& index) {
    int64_t position = 0;
    for (size_t d = 0; d < x.shape.size(); ++d) position = position * x.shape[d] + index[skip + d] % x.shape[d];
    f.out.Copy(n, x, static_cast<size_t>(position));
  });
  return true;
}

/// Reductions of integers over all elements or over a vector.
bool FoldReduce(Folding& f) {
  const Numbers& x = f.in[0];
  if (x.is_real() || f.out.size() != 1 || x.size() == 0 || IntField(f.attrs, "exclude").value_or(0) != 0) return false;
  int64_t result = x.ints[0];
  for (size_t i = 1; i < x.size(); ++i) {
    const char* op = f.op == "sum" ? "add" : f.op == "prod" ? "multiply" : f.op == "max" ? "maximum" : "minimum";
    auto next = IntBinary(op, result, x.ints[i]);
    if (!next) return false;
    result = *next;
  }
  f.out.ints[0] = result;
  return WrapTo(result, f.out.dtype) == result;
}

bool FoldArange(Folding& f) {
  if (f.in.size() != 3) return false;
  for (size_t i = 0; i < f.out.size(); ++i) {
    if (f.out.is_real()) {
      f.out.reals[i] = f.in[0].Real(0) + static_cast<double>(i) * f.in[2].Real(0);
    } else {
      f.out.ints[i] = f.in[0].ints[0] + static_cast<int64_t>(i) * f.in[2].ints[0];
    }
  }
  return true;
}

using FoldFn = bool (*)(Folding&);
const std::unordered_map<std::string, FoldFn>& FoldTable() {
  static const auto* table = new std::unordered_map<std::string, FoldFn>{
      {"cast", FoldCast},
      {"negative", FoldUnary},
      {"abs", FoldUnary},
      {"floor", FoldUnary},
      {"ceil", FoldUnary},
      {"round", FoldUnary},
      {"sqrt", FoldUnary},
      {"logical_not", FoldUnary},
      {"add", FoldBinary},
      {"subtract", FoldBinary},
      {"multiply", FoldBinary},
      {"divide", FoldBinary},
      {"floor_divide", FoldBinary},
      {"mod", FoldBinary},
      {"floor_mod", FoldBinary},
      {"maximum", FoldBinary},
      {"minimum", FoldBinary},
      {"logical_and", FoldBinary},
      {"logical_or", FoldBinary},
      {"logical_xor", FoldBinary},
      {"equal", FoldBinary},
      {"not_equal", FoldBinary},
      {"less", FoldBinary},
      {"less_equal", FoldBinary},
      {"greater", FoldBinary},
      {"greater_equal", FoldBinary},
      {"where", FoldWhere},
      {"reshape", FoldSameElements},
      {"expand_dims", FoldSameElements},
      {"squeeze", FoldSameElements},
      {"broadcast_to", FoldBroadcastTo},
      {"full", FoldBroadcastTo},
      {"transpose", FoldTranspose},
      {"concatenate", FoldConcatenate},
      {"strided_slice", FoldStridedSlice},
      {"take", FoldTake},
      {"tile", FoldTile},
      {"sum", FoldReduce},
      {"prod", FoldReduce},
      {"max", FoldReduce},
      {"min", FoldReduce},
      {"arange", FoldArange},
  };
  return *table;
}

/// Collects constants, those of tuples in their order; false when something isn't known or too large.
bool CollectNumbers(const Array<Expr>& args, std::vector<Numbers>& out) {
  for (const Expr& arg : args) {
    if (const auto* tuple = arg.as<relay::TupleNode>()) {
      if (!CollectNumbers(tuple->fields, out)) return false;
      continue;
    }
    const auto* constant = arg.as<relay::ConstantNode>();
    if (constant == nullptr || constant->data.size() > kMaxFoldedElements || constant->data.dtype().is_float8()) {
      return false;
    }
    out.push_back(Load(constant->data));
  }
  return true;
}

std::optional<NDArray> FoldShapeOf(const Expr& arg, DataType dtype) {
  const auto* type = arg->type_as<TensorTypeNode>();
  if (type == nullptr || !IsStatic(type)) return std::nullopt;
  Shape shape;
  for (const PrimExpr& dim : type->shape) shape.push_back(*AsConstInt(dim));
  return ArrayOf(shape, {static_cast<int64_t>(shape.size())}, dtype);
}

}  // namespace

std::optional<NDArray> FoldCall(const Op& op, const Array<Expr>& args, const Attrs& attrs, const Type& type) {
  const auto* tensor = type.as<TensorTypeNode>();
  if (tensor == nullptr || tensor->dtype.is_float8()) return std::nullopt;
  if (op->name == "shape_of") return FoldShapeOf(args[0], tensor->dtype);
  auto fold = FoldTable().find(op->name);
  if (fold == FoldTable().end() || !IsStatic(tensor)) return std::nullopt;
  Numbers out{{}, tensor->dtype, {}, {}};
  int64_t count = 1;
  for (const PrimExpr& dim : tensor->shape) {
    out.shape.push_back(*AsConstInt(dim));
    if (__builtin_mul_overflow(count, out.shape.back(), &count) || count > kMaxFoldedElements) return std::nullopt;
  }
  std::vector<Numbers> in;
  if (!CollectNumbers(args, in)) return std::nullopt;
  out.Resize(static_cast<size_t>(count));
  Folding folding{op->name, in, attrs, out};
  if (!fold->second(folding)) return std::nullopt;
  return Store(out);
}

}  // namespace treadle::onnx
