// SPDX-License-Identifier: Apache-2.0
// How operators state their type rules: a function from the types of the operands to the type of the result, which
// throws ShapeError or DTypeError; Rule<> makes a type relation of it.
#pragma once

#include <string>
#include <vector>

#include "treadle/ir/prim_ops.h"
#include "treadle/ir/type.h"

namespace treadle::ops {

/// The operands of a call whose type is being inferred.
class InferContext {
 public:
  InferContext(const Array<Type>& types, int num_inputs, const Attrs& attrs, TypeReporter& reporter)
      : types_(types), num_inputs_(num_inputs), attrs_(attrs), reporter_(reporter) {}
  int num_inputs() const { return num_inputs_; }
  Type type(int i) const { return types_[static_cast<size_t>(i)]; }
  /// Operand i; DTypeError unless it is a tensor. `name` is the operand's, for the message.
  const TensorTypeNode* Tensor(int i, const char* name = "operand") const;
  /// The fields of operand i; DTypeError unless it is a tuple of tensors.
  std::vector<const TensorTypeNode*> Tuple(int i, const char* name = "operand") const;
  /// The attributes; DTypeError where they are of another class.
  template <typename T>
  const T* attrs() const {
    const T* result = attrs_.as<T>();
    if (result == nullptr) ThrowWrongAttrs(T::kTypeKey);
    return result;
  }
  /// States that operand i has this type: infers it, or reports a mismatch.
  void Expect(int i, const Type& type) const { reporter_.Assign(types_[static_cast<size_t>(i)], type); }
  /// Whether the dimensions are equal, as far as can be known.
  bool Equal(const PrimExpr& a, const PrimExpr& b) const { return reporter_.AssertEqual(a, b); }

 private:
  [[noreturn]] void ThrowWrongAttrs(const char* expected) const;
  const Array<Type>& types_;
  int num_inputs_;
  const Attrs& attrs_;
  TypeReporter& reporter_;
};

using InferFn = Type (*)(const InferContext&);

/// Whether the type has no holes at the top, nor in the fields of a tuple.
bool IsKnown(const Type& type);

/// Waits until the first `known` operands (-1: all) have types, then infers. Errors go to the reporter. A rule may
/// return null where it needs to know more.
bool RunInfer(InferFn infer, int known, const Array<Type>& types, int num_inputs, const Attrs& attrs,
              TypeReporter& reporter);

/// A type relation of a rule; operands from number kKnown on may be without type when the rule runs.
template <InferFn kInfer, int kKnown = -1>
bool Rule(const Array<Type>& types, int num_inputs, const Attrs& attrs, TypeReporter& reporter) {
  return RunInfer(kInfer, kKnown, types, num_inputs, attrs, reporter);
}

/// Attributes of the class T with default values stand in where a call has none.
template <typename T>
const T* AttrsOrDefault(const Attrs& attrs) {
  static const T* defaults = NewObject<T>();
  const T* result = attrs.as<T>();
  return result != nullptr ? result : defaults;
}

/// "(1, 3, n)"
std::string ShapeText(const Array<PrimExpr>& shape);
/// "Tensor[(1, 3), float32]"
std::string TypeText(const TensorTypeNode* type);

/// axis + rank if negative. ShapeError unless in [-rank, rank); `what` names the attribute.
int NormalizeAxis(int64_t axis, size_t rank, const char* what = "axis");
/// Sorted, distinct dimensions of a list that may have negative entries.
std::vector<int> NormalizeAxes(const std::vector<int64_t>& axes, size_t rank, const char* what = "axis");

/// Whether two dimensions are the same constant or the same expression.
bool SameDim(const PrimExpr& a, const PrimExpr& b);
/// Constant value of a dimension, or -1.
inline int64_t DimValue(const PrimExpr& dim) {
  const int64_t* value = AsConstInt(dim);
  return value != nullptr ? *value : -1;
}
/// Arithmetic of dimensions: AnyDim where an operand is; ShapeError on overflow.
PrimExpr DimAdd(const PrimExpr& a, const PrimExpr& b);
PrimExpr DimSub(const PrimExpr& a, const PrimExpr& b);
PrimExpr DimMul(const PrimExpr& a, const PrimExpr& b);
PrimExpr DimFloorDiv(const PrimExpr& a, const PrimExpr& b);
/// Number of windows of `span` elements at steps of `stride` in `size` + `padding` elements; ShapeError where none
/// fits.
PrimExpr WindowDim(const PrimExpr& size, int64_t padding, int64_t span, int64_t stride);
/// States that a window of `span` elements fits into `size` + `padding`, for sizes that only a run knows: WindowDim
/// gives 0 for those that are less than a stride too small.
void RequireWindow(const InferContext& context, const PrimExpr& size, int64_t padding, int64_t span);
/// States that a size is at least another, where only a run knows.
void RequireAtLeast(const InferContext& context, const PrimExpr& size, const PrimExpr& least);
/// States that dimension `i` isn't empty, for operators that read its nearest element; ShapeError where it is known to
/// be.
void RequireNonEmpty(const InferContext& context, const TensorTypeNode* type, size_t i);
/// States that a dimension is 1 or that of the shape it is broadcast to, where only a run knows.
void RequireBroadcast(const InferContext& context, const PrimExpr& dim, const PrimExpr& to);
/// States that a size that only a run knows is a multiple of `of`.
void RequireMultiple(const InferContext& context, const PrimExpr& size, int64_t of);
/// Product of dimensions; 1 of none.
PrimExpr DimProduct(const Array<PrimExpr>& shape, size_t begin, size_t end);
inline PrimExpr Dim(int64_t value) { return PrimExpr(value); }
Array<PrimExpr> MakeDims(const std::vector<int64_t>& dims);

/// NumPy broadcasting of two shapes, aligned at the last dimension.
Array<PrimExpr> BroadcastShape(const InferContext& context, const Array<PrimExpr>& a, const Array<PrimExpr>& b);
/// DTypeError unless equal.
void CheckSameDType(const TensorTypeNode* a, const TensorTypeNode* b);
void CheckRank(const TensorTypeNode* type, size_t rank, const char* name);
void CheckIntegral(const TensorTypeNode* type, const char* name);
/// States that dimension `i` of operand `name` is that size, one of operand `other`: ShapeError where it can't be.
void CheckDim(const InferContext& context, const TensorTypeNode* type, size_t i, const char* name, const PrimExpr& size,
              const char* other);

/// Padding attributes as begins then ends, for `rank` spatial dimensions; ShapeError where the list has another
/// number of entries than 1, rank or 2 * rank, or (unless `allow_negative`) a negative one.
std::vector<int64_t> NormalizePadding(const std::vector<int64_t>& padding, size_t rank, bool allow_negative = false);
/// ShapeError unless `values` has `rank` entries of at least `least`.
void CheckSpatial(const std::vector<int64_t>& values, size_t rank, int64_t least, const char* name);

// Rules that many operators share.
/// The type of operand 0.
Type IdentityInfer(const InferContext& context);
/// Broadcast of operands 0 and 1, of one dtype.
Type BroadcastInfer(const InferContext& context);
/// As BroadcastInfer, giving bool.
Type CompareInfer(const InferContext& context);

}  // namespace treadle::ops
