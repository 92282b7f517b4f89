// SPDX-License-Identifier: Apache-2.0
#include "ops/infer.h"

#include <algorithm>

#include "ops/broadcast_size.h"
#include "treadle/arith/analyzer.h"
#include "treadle/base/checked_math.h"
#include "treadle/base/int_math.h"
#include "treadle/ir/structural.h"

namespace treadle::ops {
namespace {

void PrintDim(TextStream& os, const PrimExpr& dim) {
  if (const int64_t* value = AsConstInt(dim)) {
    os << *value;
  } else if (const auto* var = dim.as<tir::VarNode>()) {
    os << var->name_hint;
  } else {
    os << "<expression>";
  }
}

}  // namespace

bool IsKnown(const Type& type) {
  if (!type.defined() || type.as<IncompleteTypeNode>() != nullptr) return false;
  if (const auto* tuple = type.as<TupleTypeNode>()) {
    return std::all_of(tuple->fields.begin(), tuple->fields.end(), [](const Type& field) { return IsKnown(field); });
  }
  return true;
}

const TensorTypeNode* InferContext::Tensor(int i, const char* name) const {
  if (i >= num_inputs_) throw DTypeError(StrCat("operand ", name, " is missing"));
  const auto* tensor = type(i).as<TensorTypeNode>();
  if (tensor == nullptr) throw DTypeError(StrCat(name, " must be a tensor, not ", type(i)->type_key()));
  return tensor;
}

std::vector<const TensorTypeNode*> InferContext::Tuple(int i, const char* name) const {
  const auto* tuple = i < num_inputs_ ? type(i).as<TupleTypeNode>() : nullptr;
  if (tuple == nullptr) throw DTypeError(StrCat(name, " must be a tuple of tensors"));
  std::vector<const TensorTypeNode*> fields;
  for (const Type& field : tuple->fields) {
    const auto* tensor = field.as<TensorTypeNode>();
    if (tensor == nullptr) throw DTypeError(StrCat("field ", fields.size(), " of ", name, " must be a tensor"));
    fields.push_back(tensor);
  }
  return fields;
}

void InferContext::ThrowWrongAttrs(const char* expected) const {
  throw DTypeError(StrCat("needs attributes of class ", expected, ", not ",
                          attrs_.defined() ? attrs_->type_key() : std::string("none")));
}

bool RunInfer(InferFn infer, int known, const Array<Type>& types, int num_inputs, const Attrs& attrs,
              TypeReporter& reporter) {
  int wait_for = known < 0 ? num_inputs : std::min(known, num_inputs);
  for (int i = 0; i < wait_for; ++i) {
    if (!IsKnown(types[static_cast<size_t>(i)])) return false;
  }
  try {
    InferContext context(types, num_inputs, attrs, reporter);
    Type result = infer(context);
    if (!result.defined()) return false;
    reporter.Assign(types[types.size() - 1], result);
  } catch (const InternalError&) {
    throw;
  } catch (const Error& error) {
    reporter.Error(error.what());
  }
  return true;
}

std::string ShapeText(const Array<PrimExpr>& shape) {
  TextStream os;
  os << "(";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i != 0) os << ", ";
    PrintDim(os, shape[i]);
  }
  os << (shape.size() == 1 ? ",)" : ")");
  return os.str();
}

std::string TypeText(const TensorTypeNode* type) {
  return StrCat("Tensor[", ShapeText(type->shape), ", ", type->dtype, "]");
}

int NormalizeAxis(int64_t axis, size_t rank, const char* what) {
  auto n = static_cast<int64_t>(rank);
  if (axis < -n || axis >= n) throw ShapeError(StrCat(what, " ", axis, " is out of range for rank ", rank));
  return static_cast<int>(axis < 0 ? axis + n : axis);
}

std::vector<int> NormalizeAxes(const std::vector<int64_t>& axes, size_t rank, const char* what) {
  std::vector<int> result;
  for (int64_t axis : axes) result.push_back(NormalizeAxis(axis, rank, what));
  std::sort(result.begin(), result.end());
  if (std::adjacent_find(result.begin(), result.end()) != result.end()) {
    throw ShapeError(StrCat(what, " lists a dimension twice"));
  }
  return result;
}

bool SameDim(const PrimExpr& a, const PrimExpr& b) {
  if (a.same_as(b)) return true;
  const int64_t* x = AsConstInt(a);
  const int64_t* y = AsConstInt(b);
  if (x != nullptr || y != nullptr) return x != nullptr && y != nullptr && *x == *y;
  return StructuralEqual(a, b);
}

namespace {

template <typename Checked, typename Symbolic>
PrimExpr DimArith(const PrimExpr& a, const PrimExpr& b, Checked checked, Symbolic symbolic) {
  const int64_t* x = AsConstInt(a);
  const int64_t* y = AsConstInt(b);
  if (x != nullptr && y != nullptr) return Dim(checked(*x, *y));
  if (IsAnyDim(a) || IsAnyDim(b)) return AnyDim();
  return symbolic(a, b);
}

int64_t CheckedSub(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_sub_overflow(a, b, &result)) throw ShapeError(StrCat("dimension overflows: ", a, " - ", b));
  return result;
}

}  // namespace

PrimExpr DimAdd(const PrimExpr& a, const PrimExpr& b) {
  if (DimValue(b) == 0) return a;
  return DimArith(a, b, [](int64_t x, int64_t y) { return CheckedAdd(x, y, "dimension"); }, tir::add);
}
PrimExpr DimSub(const PrimExpr& a, const PrimExpr& b) {
  if (DimValue(b) == 0) return a;
  return DimArith(a, b, CheckedSub, tir::sub);
}
PrimExpr DimMul(const PrimExpr& a, const PrimExpr& b) {
  if (DimValue(b) == 1) return a;
  if (DimValue(a) == 1) return b;
  return DimArith(a, b, [](int64_t x, int64_t y) { return CheckedMul(x, y, "dimension"); }, tir::mul);
}
PrimExpr DimFloorDiv(const PrimExpr& a, const PrimExpr& b) {
  if (DimValue(b) == 1) return a;
  if (DimValue(b) == 0) throw ShapeError("dimension divided by 0");
  const PrimExpr quotient = DimArith(a, b, FloorDivInt, tir::floordiv);
  // One form for sizes behind several strides, as shapes that a model computes have it.
  return quotient.as<tir::FloorDivNode>() == nullptr ? quotient : arith::Analyzer().Simplify(quotient);
}

PrimExpr WindowDim(const PrimExpr& size, int64_t padding, int64_t span, int64_t stride) {
  int64_t spare = CheckedSub(padding, span);
  if (AsConstInt(size) != nullptr && CheckedAdd(DimValue(size), spare, "dimension") < 0) {
    throw ShapeError(StrCat("a window of ", span, " elements doesn't fit into dimension ", DimValue(size),
                            " with padding ", padding));
  }
  // floor(x / s) + 1 == floor((x + s) / s), which keeps symbolic sizes short.
  return DimFloorDiv(DimAdd(size, Dim(CheckedAdd(spare, stride, "dimension"))), Dim(stride));
}

void RequireWindow(const InferContext& context, const PrimExpr& size, int64_t padding, int64_t span) {
  if (AsConstInt(size) == nullptr) RequireAtLeast(context, DimAdd(size, Dim(padding)), Dim(span));
}

void RequireAtLeast(const InferContext& context, const PrimExpr& size, const PrimExpr& least) {
  if (IsAnyDim(size) || IsAnyDim(least) || SameDim(size, least)) return;
  if (AsConstInt(size) == nullptr || AsConstInt(least) == nullptr) {
    context.Equal(tir::min(DimSub(size, least), Dim(0)), Dim(0));
  }
}

void RequireNonEmpty(const InferContext& context, const TensorTypeNode* type, size_t i) {
  const PrimExpr& dim = type->shape[i];
  if (AsConstInt(dim) != nullptr && DimValue(dim) == 0) {
    throw ShapeError(StrCat("dimension ", i, " of ", TypeText(type), " is empty: there is no element to repeat"));
  }
  RequireAtLeast(context, dim, Dim(1));
}

std::optional<PrimExpr> BroadcastSize(const PrimExpr& dim, const PrimExpr& to) {
  if (IsAnyDim(dim) || IsAnyDim(to) || DimValue(dim) == 1) return std::nullopt;
  if (AsConstInt(dim) != nullptr && AsConstInt(to) != nullptr) return std::nullopt;
  if (SameDim(dim, to) || arith::Analyzer().CanProveEqual(dim, to)) return std::nullopt;
  return tir::select(tir::equal(dim, Dim(1)), to, dim);
}

void CheckDim(const InferContext& context, const TensorTypeNode* type, size_t i, const char* name, const PrimExpr& size,
              const char* other) {
  const PrimExpr& dim = type->shape[i];
  const bool known = AsConstInt(size) != nullptr && AsConstInt(dim) != nullptr;
  if (SameDim(size, dim) || (!known && context.Equal(size, dim))) return;
  throw ShapeError(StrCat("dimension ", i, " of ", name, " ", TypeText(type), " has to be that of ", other, ", ",
                          ShapeText({size})));
}

void RequireBroadcast(const InferContext& context, const PrimExpr& dim, const PrimExpr& to) {
  if (const auto size = BroadcastSize(dim, to)) context.Equal(*size, to);
}

void RequireMultiple(const InferContext& context, const PrimExpr& size, int64_t of) {
  if (of > 1 && AsConstInt(size) == nullptr && !IsAnyDim(size)) {
    context.Equal(tir::floormod(size, Dim(of)), Dim(0));
  }
}

PrimExpr DimProduct(const Array<PrimExpr>& shape, size_t begin, size_t end) {
  PrimExpr product = Dim(1);
  for (size_t i = begin; i < end; ++i) product = DimMul(product, shape[i]);
  return product;
}

Array<PrimExpr> MakeDims(const std::vector<int64_t>& dims) {
  Array<PrimExpr> result;
  for (int64_t dim : dims) result.push_back(Dim(dim));
  return result;
}

namespace {

/// Whether `part` is as large as `whole` where both are neither 1 nor different: min(whole, n) with n above 1.
bool IsPartOf(const PrimExpr& part, const PrimExpr& whole) {
  const auto* least = part.as<tir::MinNode>();
  if (least == nullptr) return false;
  const PrimExpr& limit = AsConstInt(least->b) != nullptr ? least->b : least->a;
  return AsConstInt(limit) != nullptr && DimValue(limit) > 1 &&
         SameDim(limit.same_as(least->b) ? least->a : least->b, whole);
}

PrimExpr SymbolicBroadcast(const PrimExpr& x, const PrimExpr& y, const Array<PrimExpr>& a, const Array<PrimExpr>& b) {
  if (IsAnyDim(x) || IsAnyDim(y)) return AnyDim();
  if (IsPartOf(y, x)) return x;
  if (IsPartOf(x, y)) return y;
  arith::Analyzer analyzer;
  auto difference = analyzer.ConstDifference(x, y);
  if (!difference) return AnyDim();
  if (*difference != 0) throw ShapeError(StrCat("Incompatible broadcast type ", ShapeText(a), " and ", ShapeText(b)));
  return x;
}

}  // namespace

Array<PrimExpr> BroadcastShape(const InferContext&, const Array<PrimExpr>& a, const Array<PrimExpr>& b) {
  size_t rank = std::max(a.size(), b.size());
  Array<PrimExpr> result;
  for (size_t i = 0; i < rank; ++i) {
    bool in_a = i + a.size() >= rank;
    bool in_b = i + b.size() >= rank;
    if (!in_a || !in_b) {
      result.push_back(in_a ? a[i + a.size() - rank] : b[i + b.size() - rank]);
      continue;
    }
    PrimExpr x = a[i + a.size() - rank];
    PrimExpr y = b[i + b.size() - rank];
    if (SameDim(x, y) || DimValue(y) == 1) {
      result.push_back(x);
    } else if (DimValue(x) == 1) {
      result.push_back(y);
    } else if (AsConstInt(x) == nullptr || AsConstInt(y) == nullptr) {
      // A symbolic dimension is 1 or that of the other operand, which is known at run time.
      result.push_back(AsConstInt(x) != nullptr ? x : AsConstInt(y) != nullptr ? y : SymbolicBroadcast(x, y, a, b));
    } else {
      throw ShapeError(StrCat("Incompatible broadcast type ", ShapeText(a), " and ", ShapeText(b)));
    }
  }
  return result;
}

void CheckSameDType(const TensorTypeNode* a, const TensorTypeNode* b) {
  if (a->dtype != b->dtype) {
    throw DTypeError(
        StrCat("data types ", a->dtype, " and ", b->dtype, " differ: ", TypeText(a), " and ", TypeText(b)));
  }
}

void CheckRank(const TensorTypeNode* type, size_t rank, const char* name) {
  if (type->shape.size() != rank) {
    throw ShapeError(StrCat(name, " must have ", rank, " dimensions, not ", TypeText(type)));
  }
}

void CheckIntegral(const TensorTypeNode* type, const char* name) {
  if (!type->dtype.is_integral()) throw DTypeError(StrCat(name, " must be of an integer type, not ", type->dtype));
}

std::vector<int64_t> NormalizePadding(const std::vector<int64_t>& padding, size_t rank, bool allow_negative) {
  std::vector<int64_t> result;
  if (padding.size() == 1) {
    result.assign(2 * rank, padding[0]);
  } else if (padding.size() == rank) {
    result = padding;
    result.insert(result.end(), padding.begin(), padding.end());
  } else if (padding.size() == 2 * rank) {
    result = padding;
  } else {
    throw ShapeError(StrCat("padding must have 1, ", rank, " or ", 2 * rank, " entries, not ", padding.size()));
  }
  for (int64_t pad : result) {
    if (pad < 0 && !allow_negative) throw ShapeError(StrCat("padding must not be negative, is ", pad));
  }
  return result;
}

void CheckSpatial(const std::vector<int64_t>& values, size_t rank, int64_t least, const char* name) {
  if (values.size() != rank) throw ShapeError(StrCat(name, " must have ", rank, " entries, not ", values.size()));
  for (int64_t value : values) {
    if (value < least) throw ShapeError(StrCat(name, " must be at least ", least, ", is ", value));
  }
}

Type IdentityInfer(const InferContext& context) {
  context.Tensor(0);
  return context.type(0);
}

Type BroadcastInfer(const InferContext& context) {
  const auto* a = context.Tensor(0, "lhs");
  const auto* b = context.Tensor(1, "rhs");
  CheckSameDType(a, b);
  return TensorType(BroadcastShape(context, a->shape, b->shape), a->dtype);
}

Type CompareInfer(const InferContext& context) {
  const auto* a = context.Tensor(0, "lhs");
  const auto* b = context.Tensor(1, "rhs");
  CheckSameDType(a, b);
  return TensorType(BroadcastShape(context, a->shape, b->shape), DataType::Bool());
}

}  // namespace treadle::ops
