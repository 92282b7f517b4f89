// SPDX-License-Identifier: Apache-2.0
#include "treadle/ops/evaluate.h"

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "treadle/base/checked_math.h"
#include "treadle/base/stack_guard.h"
#include "treadle/ir/prim_functor.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ops/compute.h"
#include "treadle/runtime/scalar.h"
#include "treadle/te/evaluate.h"

namespace treadle::ops {
namespace {

using relay::CallNode;
using relay::ConstantNode;
using relay::Expr;
using ElementList = std::vector<PrimExpr>;

PrimExpr Null() { return PrimExpr(ObjectPtr<Object>()); }

/// Element `i` of a constant as an IntImm or FloatImm.
PrimExpr ElementOf(const ConstantNode* constant, int64_t i) {
  const NDArray& data = constant->data;
  if (data.dtype().is_integral()) return IntImm(data.dtype(), runtime::ElementAsInt64(data, i));
  return FloatImm(data.dtype(), runtime::ElementAsDouble(data, i));
}

bool IsReadable(const ConstantNode* constant) {
  return constant->data.IsCompact() && constant->data.device().device_type == runtime::Cpu().device_type &&
         runtime::IsNumber(constant->data.dtype());
}

/// Tuples' fields in their place.
void Flatten(const Array<Expr>& args, std::vector<Expr>* out) {
  for (const Expr& arg : args) {
    if (const auto* tuple = arg.as<relay::TupleNode>()) {
      Flatten(tuple->fields, out);
    } else {
      out->push_back(arg);
    }
  }
}

bool IsEvaluable(const Op& op) {
  return op.GetAttr(kCompute) != nullptr && !op.GetAttr(kOpIsStateful, false) &&
         !op.GetAttr(kNonComputational, false) &&
         op.GetAttr(kOpPattern, OpPatternKind::kOpaque) != OpPatternKind::kOutEWiseFusable;
}

/// All elements of the (only) result; null ones where they aren't known.
ElementList EvaluateElements(const Op& op, const Attrs& attrs, const std::vector<const TensorTypeNode*>& operands,
                             const std::function<PrimExpr(size_t, int64_t)>& element, const Type& type,
                             const te::EvaluateOptions& options) {
  Array<te::Tensor> inputs;
  for (const TensorTypeNode* operand : operands) inputs.push_back(te::Placeholder(operand->shape, operand->dtype));
  const Array<te::Tensor> results = (*op.GetAttr(kCompute))(attrs, inputs, type);
  TREADLE_ICHECK(results.size() == 1) << op->name << " computes " << results.size() << " tensors";
  const std::vector<int64_t> shape = StaticShape(type.as<TensorTypeNode>(), op->name);
  te::ElementEvaluator evaluator(inputs, element, options);
  ElementList elements;
  std::vector<int64_t> index(shape.size(), 0);
  for (int64_t i = 0, count = NumElements(shape); i < count; ++i) {
    elements.push_back(evaluator.Element(results[0], index));
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
  return elements;
}

/// Number of elements of a static type; -1 where that isn't known or above `most`.
int64_t SizeOf(const TensorTypeNode* type, int64_t most) {
  if (type == nullptr || !IsStatic(type)) return -1;
  int64_t count = 1;
  for (const PrimExpr& dim : type->shape) {
    if (__builtin_mul_overflow(count, *AsConstInt(dim), &count) || count > most) return -1;
  }
  return count;
}

}  // namespace

std::optional<NDArray> EvaluateCall(const Op& op, const Array<Expr>& args, const Attrs& attrs, const Type& type) {
  const auto* tensor = type.as<TensorTypeNode>();
  if (args.empty() || !IsEvaluable(op) || SizeOf(tensor, kMaxEvaluatedElements) < 0) return std::nullopt;
  std::vector<Expr> flat;
  Flatten(args, &flat);
  std::vector<const ConstantNode*> constants;
  std::vector<NDArray> arrays;
  for (const Expr& arg : flat) {
    constants.push_back(arg.as<ConstantNode>());
    if (constants.back() == nullptr || !IsReadable(constants.back())) return std::nullopt;
    arrays.push_back(constants.back()->data);
    if (arrays.back().size() > kMaxEvaluatedElements) return std::nullopt;
  }
  if (flat.size() == args.size()) {
    if (auto moved = EvaluateInBulk(op, arrays, attrs, tensor)) return moved;
  }
  std::vector<const TensorTypeNode*> types;
  std::vector<TensorType> kept;
  for (const NDArray& array : arrays) {
    if (array.dtype().is_float8()) return std::nullopt;
    kept.emplace_back(array.shape(), array.dtype());
    types.push_back(kept.back().get());
  }
  if (tensor->dtype.is_float8() || !runtime::IsNumber(tensor->dtype)) return std::nullopt;
  auto element = [&](size_t i, int64_t k) { return ElementOf(constants[i], k); };
  const ElementList elements = EvaluateElements(op, attrs, types, element, type, {});
  NDArray result = NDArray::Empty(StaticShape(tensor, op->name), tensor->dtype);
  for (size_t i = 0; i < elements.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    if (!elements[i].defined()) return std::nullopt;
    if (const auto* integer = elements[i].as<IntImmNode>()) {
      runtime::StoreInt64(tensor->dtype, result.data_ptr(), at, integer->value);
    } else if (const auto* real = elements[i].as<FloatImmNode>()) {
      runtime::StoreDouble(tensor->dtype, result.data_ptr(), at, real->value);
    } else {
      return std::nullopt;
    }
  }
  return result;
}

namespace {

constexpr int64_t kMaxKnownElements = 64;
constexpr int kMaxNodes = 100;

bool IsShapeOf(const OpNode* op) {
  return op->name == "shape_of" || op->name == "vm.shape_of" || op->name == "ndarray_size";
}

/// Whether the expression may stand for a dimension: sums, products and floor divisions of dimensions.
class IsSize : public tir::ExprVisitor {
 public:
  static bool Check(const PrimExpr& e) {
    IsSize visitor;
    visitor(e);
    return visitor.ok_;
  }

 private:
  using tir::ExprVisitor::VisitExpr_;
  void VisitExpr(const PrimExpr& e) override {
    const bool allowed = e.as<IntImmNode>() || e.as<tir::VarNode>() || e.as<tir::AddNode>() || e.as<tir::SubNode>() ||
                         e.as<tir::MulNode>() || e.as<tir::FloorDivNode>();
    ok_ = ok_ && allowed && e.dtype() == DataType::Int(64) && ++nodes_ <= kMaxNodes && !IsAnyDim(e);
    if (ok_) tir::ExprVisitor::VisitExpr(e);
  }
  bool ok_ = true;
  int nodes_ = 0;
};

/// Whether nothing but variables, constants and shapes is behind `root`. A result without elements is known whatever
/// its operands are, whose sizes may have to be compared in a run.
bool IsOfKnown(const Expr& root) {
  std::vector<Expr> stack = {root};
  std::unordered_set<const Object*> met;
  while (!stack.empty()) {
    const Expr expr = stack.back();
    stack.pop_back();
    if (expr.as<ConstantNode>() != nullptr || !met.insert(expr.get()).second) continue;
    if (SizeOf(expr->checked_type_.as<TensorTypeNode>(), INT64_MAX) >= 0 && expr.as<relay::VarNode>() != nullptr)
      continue;
    const auto* tuple = expr.as<relay::TupleNode>();
    const auto* call = expr.as<CallNode>();
    const auto* op = call == nullptr ? nullptr : call->op.as<OpNode>();
    if (tuple == nullptr && op == nullptr) return false;
    if (op != nullptr && IsShapeOf(op)) continue;
    for (const Expr& part : tuple != nullptr ? tuple->fields : call->args) stack.push_back(part);
  }
  return true;
}

/// Declares variables of dimensions to be at least 0.
class NonNegativeVars : public tir::ExprVisitor {
 public:
  explicit NonNegativeVars(arith::Analyzer* analyzer) : analyzer_(analyzer) {}

 private:
  using tir::ExprVisitor::VisitExpr_;
  void VisitExpr_(const tir::VarNode* op) override {
    analyzer_->Bind(GetRef<tir::Var>(op), arith::ConstIntBound{0, arith::ConstIntBound::kPosInf});
  }
  arith::Analyzer* analyzer_;
};

}  // namespace

class KnownValues::Impl {
 public:
  /// ElementList of a tensor of any element type, numbers in that type, sizes as int64; nothing where they are too
  /// many.
  const ElementList* Find(const Expr& e) {
    const auto* type = e->checked_type_.as<TensorTypeNode>();
    const int64_t size = SizeOf(type, kMaxKnownElements);
    if (size < 0) return nullptr;
    auto [it, inserted] = memo_.emplace(e, ElementList());
    ElementList* elements = &it->second;  // stays where it is when the table grows
    if (!inserted) {
      if (elements->empty()) elements->assign(static_cast<size_t>(size), Null());
      return elements;
    }
    ElementList found = WithEnoughStack([&] { return Compute(e, type); });
    for (PrimExpr& element : found) {
      if (!element.defined() || element.as<IntImmNode>() || element.as<FloatImmNode>()) continue;
      if (!IsSize::Check(element)) element = Null();
    }
    found.resize(static_cast<size_t>(size), Null());
    return &(memo_[e] = std::move(found));
  }

 private:
  ElementList Compute(const Expr& e, const TensorTypeNode* type) {
    if (const auto* constant = e.as<ConstantNode>()) {
      ElementList elements;
      if (!IsReadable(constant)) return elements;
      for (int64_t i = 0; i < constant->data.size(); ++i) elements.push_back(ElementOf(constant, i));
      return elements;
    }
    const auto* call = e.as<CallNode>();
    const auto* callee = call == nullptr ? nullptr : call->op.as<OpNode>();
    if (callee == nullptr) return {};
    const Op op = GetRef<Op>(callee);
    if (IsShapeOf(callee)) {
      return OfShape(call, type);
    }
    // Whether a shape that only the run knows is that of the elements, the run is asked.
    if (callee->name == "dyn.reshape" && !AllKnown(Find(call->args[1]))) return {};
    if (op.GetAttr(kReshapeOp, false) || callee->name == "dyn.forget_shape" || callee->name == "copy") {
      const ElementList* same = Find(call->args[0]);
      const auto* from = call->args[0]->checked_type_.as<TensorTypeNode>();
      return same != nullptr && from->dtype == type->dtype ? *same : ElementList();
    }
    return OfCall(call, op);
  }

  static bool AllKnown(const ElementList* elements) {
    return elements != nullptr && std::all_of(elements->begin(), elements->end(),
                                              [](const PrimExpr& e) { return e.defined() && AsConstInt(e); });
  }

  /// Dimensions are known from the type.
  ElementList OfShape(const CallNode* call, const TensorTypeNode* result) {
    const auto* type = call->args[0]->checked_type_.as<TensorTypeNode>();
    if (type == nullptr) return {};
    ElementList dims;
    PrimExpr product = IntImm(DataType::Int(64), 1);
    for (const PrimExpr& dim : type->shape) {
      if (IsAnyDim(dim)) {
        dims.push_back(Null());
        product = Null();
        continue;
      }
      if (const int64_t* value = AsConstInt(dim)) {
        dims.push_back(IntImm(DataType::Int(64), *value));
      } else {
        non_negative_(dim);
        dims.push_back(dim);
      }
      if (product.defined()) product = analyzer_.Simplify(product * dims.back());
    }
    const bool size = call->op.as<OpNode>()->name == "ndarray_size";
    ElementList elements = size ? ElementList{product} : dims;
    for (PrimExpr& element : elements) {
      const int64_t* value = element.defined() ? AsConstInt(element) : nullptr;
      if (value == nullptr) continue;
      element = tir::cast(result->dtype, PrimExpr(*value));
      if (*AsConstInt(element) != *value) element = Null();  // doesn't fit
    }
    return elements;
  }

  ElementList OfCall(const CallNode* call, const Op& op) {
    if (!IsEvaluable(op) || call->args.empty()) return {};
    std::vector<Expr> flat;
    Flatten(call->args, &flat);
    std::vector<const TensorTypeNode*> types;
    std::vector<const ElementList*> known;
    size_t some_known = 0;
    for (const Expr& arg : flat) {
      types.push_back(arg->checked_type_.as<TensorTypeNode>());
      if (types.back() == nullptr || !IsStatic(types.back())) return {};
      known.push_back(arg.as<ConstantNode>() == nullptr ? Find(arg) : nullptr);
      some_known += known.back() == nullptr ? arg.as<ConstantNode>() != nullptr
                                            : std::any_of(known.back()->begin(), known.back()->end(),
                                                          [](const PrimExpr& e) { return e.defined(); });
    }
    // Each element of such results needs one of every operand; `where` picks.
    const bool needs_all =
        op.GetAttr(kOpPattern, OpPatternKind::kOpaque) <= OpPatternKind::kBroadcast && op->name != "where";
    if (some_known < (needs_all ? flat.size() : 1)) return {};
    auto element = [&](size_t i, int64_t k) -> PrimExpr {
      if (known[i] != nullptr) return (*known[i])[static_cast<size_t>(k)];
      const auto* constant = flat[i].as<ConstantNode>();
      return constant != nullptr && IsReadable(constant) ? ElementOf(constant, k) : Null();
    };
    te::EvaluateOptions options;
    options.analyzer = &analyzer_;
    options.sizes = true;
    return EvaluateElements(op, call->attrs, types, element, call->checked_type_, options);
  }

  arith::Analyzer analyzer_;
  NonNegativeVars non_negative_{&analyzer_};
  std::unordered_map<Expr, ElementList, ObjectPtrHash, ObjectPtrEqual> memo_;
};

KnownValues::KnownValues() : impl_(std::make_unique<Impl>()) {}
KnownValues::~KnownValues() = default;

std::optional<std::vector<PrimExpr>> KnownValues::Elements(const Expr& expr) {
  const auto* type = expr->checked_type_.as<TensorTypeNode>();
  if (type == nullptr || !type->dtype.is_integral()) return std::nullopt;
  const auto* elements = impl_->Find(expr);
  if (elements == nullptr || (elements->empty() && !IsOfKnown(expr))) return std::nullopt;
  std::vector<PrimExpr> result;
  for (const PrimExpr& element : *elements) {
    const int64_t* value = element.defined() ? AsConstInt(element) : nullptr;
    result.push_back(value != nullptr ? PrimExpr(*value) : element);
  }
  return result;
}

std::optional<std::vector<int64_t>> KnownValues::Integers(const Expr& expr) {
  auto elements = Elements(expr);
  if (!elements) return std::nullopt;
  std::vector<int64_t> values;
  for (const PrimExpr& element : *elements) {
    if (!element.defined() || AsConstInt(element) == nullptr) return std::nullopt;
    values.push_back(*AsConstInt(element));
  }
  return values;
}

}  // namespace treadle::ops
