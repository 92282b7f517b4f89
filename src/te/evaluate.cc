// SPDX-License-Identifier: Apache-2.0
#include "treadle/te/evaluate.h"

#include <cmath>
#include <string>
#include <unordered_map>

#include "ir/prim_fold.h"
#include "treadle/ir/prim_functor.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/tir/node_count.h"

namespace treadle::te {
namespace {

/// Thrown where an element isn't known.
struct Unknown {};

/// Symbolic reductions are written out up to this many steps.
constexpr int64_t kMaxSymbolicSteps = 64;

/// Elements whose expressions grow beyond so many nodes are left to run time.
constexpr int64_t kMaxNodes = 2000;

using UnaryFn = PrimExpr (*)(PrimExpr);
using BinaryFn = PrimExpr (*)(PrimExpr, PrimExpr);

/// Functions of numbers whose results are the same on every machine.
const std::unordered_map<std::string, UnaryFn>& ExactUnary() {
  static const std::unordered_map<std::string, UnaryFn> table = {
      {"tir.floor", tir::floor}, {"tir.ceil", tir::ceil},   {"tir.trunc", tir::trunc},
      {"tir.round", tir::round}, {"tir.sqrt", tir::sqrt},   {"tir.nearbyint", tir::nearbyint},
      {"tir.fabs", tir::abs},    {"tir.isnan", tir::isnan}, {"tir.bitwise_not", tir::bitwise_not}};
  return table;
}
const std::unordered_map<std::string, BinaryFn>& ExactBinary() {
  static const std::unordered_map<std::string, BinaryFn> table = {
      {"tir.fmod", tir::fmod},
      {"tir.bitwise_and", tir::bitwise_and},
      {"tir.bitwise_or", tir::bitwise_or},
      {"tir.bitwise_xor", tir::bitwise_xor},
      {"tir.shift_left", [](PrimExpr a, PrimExpr b) { return tir::left_shift(std::move(a), std::move(b)); }},
      {"tir.shift_right", [](PrimExpr a, PrimExpr b) { return tir::right_shift(std::move(a), std::move(b)); }}};
  return table;
}

/// A number, held apart from expressions: most elements are, and there may be thousands.
struct Value {
  enum Kind : uint8_t { kInt, kReal, kExpr };
  DataType dtype;
  Kind kind = kInt;
  int64_t integer = 0;
  double real = 0;
  PrimExpr expr = PrimExpr(ObjectPtr<Object>());

  static Value Int(DataType dtype, int64_t value) { return {dtype, kInt, value}; }
  static Value Bool(bool value) { return Int(DataType::Bool(), value ? 1 : 0); }
  static Value Real(DataType dtype, double value) { return {dtype, kReal, 0, value}; }
  static Value Of(const PrimExpr& e) {
    if (const auto* imm = e.as<IntImmNode>()) return Int(e.dtype(), imm->value);
    if (const auto* imm = e.as<FloatImmNode>()) return Real(e.dtype(), imm->value);
    // A float that isn't a number would have to be computed when the program runs.
    if (!e.dtype().is_integral()) throw Unknown();
    return {e.dtype(), kExpr, 0, 0, e};
  }
  PrimExpr ToExpr() const {
    if (kind == kInt) return IntImm(dtype, integer);
    if (kind == kReal) return FloatImm(dtype, real);
    return expr;
  }
};

template <typename Node>
Value FoldNumbers(const Value& a, const Value& b) {
  if (a.kind != b.kind || a.dtype != b.dtype) throw Unknown();
  bool truth = false;
  if (a.kind == Value::kReal) {
    if (tir::detail::FoldCompare<Node>(a.real, b.real, &truth)) return Value::Bool(truth);
    double value = 0;
    if (!tir::detail::FoldFloats<Node>(a.real, b.real, &value)) throw Unknown();
    return Value::Real(a.dtype, tir::RoundToDType(a.dtype, value));
  }
  const bool wide_unsigned = a.dtype.is_uint() && a.dtype.bits() == 64;
  if (wide_unsigned
          ? tir::detail::FoldCompare<Node>(static_cast<uint64_t>(a.integer), static_cast<uint64_t>(b.integer), &truth)
          : tir::detail::FoldCompare<Node>(a.integer, b.integer, &truth)) {
    return Value::Bool(truth);
  }
  int64_t value = 0;
  if (!tir::detail::FoldInts<Node>(a.dtype, a.integer, b.integer, &value)) throw Unknown();
  return Value::Int(a.dtype, value);
}

}  // namespace

class ElementEvaluator::Impl : public tir::ExprFunctor<Value(const PrimExpr&)> {
 public:
  Impl(const Array<Tensor>& inputs, std::function<PrimExpr(size_t, int64_t)> input, const EvaluateOptions& options)
      : input_(std::move(input)),
        analyzer_(options.analyzer != nullptr ? options.analyzer : &own_analyzer_),
        sizes_(options.sizes),
        steps_(options.max_steps) {
    for (size_t i = 0; i < inputs.size(); ++i) inputs_[inputs[i]->op.get()] = i;
  }

  /// After an element that isn't known: variables of what was under way are forgotten.
  void Reset() { vars_.clear(); }

  Value Element(const Tensor& tensor, const std::vector<int64_t>& index) {
    int64_t flat = 0;
    for (size_t d = 0; d < index.size(); ++d) {
      const int64_t* extent = AsConstInt(tensor->shape[d]);
      if (extent == nullptr || index[d] < 0 || index[d] >= *extent) throw Unknown();
      flat = flat * *extent + index[d];
    }
    if (auto input = inputs_.find(tensor->op.get()); input != inputs_.end()) {
      return Input(input->second, flat, tensor->dtype);
    }
    auto& known = memo_[tensor->op.get()];
    const int64_t key = flat * 16 + tensor->value_index;
    if (auto it = known.find(key); it != known.end()) return it->second;
    const auto* op = tensor->op.as<ComputeOpNode>();
    if (op == nullptr || --steps_ < 0) throw Unknown();
    Vars outer;
    outer.swap(vars_);
    for (size_t d = 0; d < index.size(); ++d) {
      const Var& var = op->axis[d]->var;
      vars_[var.get()] = Value::Int(var.dtype(), index[d]);
    }
    const PrimExpr& body = op->body[static_cast<size_t>(tensor->value_index)];
    const auto* reduce = body.as<tir::ReduceNode>();
    const Value value = reduce != nullptr ? Reduced(reduce) : VisitExpr(body);
    outer.swap(vars_);
    known[key] = value;
    return value;
  }

 protected:
  using tir::ExprFunctor<Value(const PrimExpr&)>::VisitExpr_;

  Value VisitExprDefault_(const Object*) override { throw Unknown(); }
  Value VisitExpr_(const IntImmNode* op) override { return Value::Int(op->dtype, op->value); }
  Value VisitExpr_(const FloatImmNode* op) override { return Value::Real(op->dtype, op->value); }
  Value VisitExpr_(const tir::VarNode* op) override {
    auto it = vars_.find(op);
    return it == vars_.end() ? Value::Of(GetRef<PrimExpr>(op)) : it->second;
  }
  Value VisitExpr_(const tir::IterVarNode* op) override { return VisitExpr(op->var); }
  Value VisitExpr_(const tir::LetNode* op) override {
    vars_[op->var.get()] = VisitExpr(op->value);
    return VisitExpr(op->body);
  }
  Value VisitExpr_(const tir::ProducerLoadNode* op) override {
    std::vector<int64_t> index;
    for (const PrimExpr& i : op->indices) {
      const Value at = VisitExpr(i);
      if (at.kind != Value::kInt) throw Unknown();
      index.push_back(at.integer);
    }
    return Element(Downcast<Tensor>(op->producer), index);
  }

#define TREADLE_EVALUATE_BINARY(Node, make) \
  Value VisitExpr_(const tir::Node* op) override { return Binary(op, make); }
  TREADLE_EVALUATE_BINARY(AddNode, tir::add)
  TREADLE_EVALUATE_BINARY(SubNode, tir::sub)
  TREADLE_EVALUATE_BINARY(MulNode, tir::mul)
  TREADLE_EVALUATE_BINARY(DivNode, tir::div)
  TREADLE_EVALUATE_BINARY(ModNode, tir::truncmod)
  TREADLE_EVALUATE_BINARY(FloorDivNode, tir::floordiv)
  TREADLE_EVALUATE_BINARY(FloorModNode, tir::floormod)
  TREADLE_EVALUATE_BINARY(MinNode, tir::min)
  TREADLE_EVALUATE_BINARY(MaxNode, tir::max)
  TREADLE_EVALUATE_BINARY(EQNode, tir::equal)
  TREADLE_EVALUATE_BINARY(NENode, tir::not_equal)
  TREADLE_EVALUATE_BINARY(LTNode, tir::less)
  TREADLE_EVALUATE_BINARY(LENode, tir::less_equal)
  TREADLE_EVALUATE_BINARY(GTNode, tir::greater)
  TREADLE_EVALUATE_BINARY(GENode, tir::greater_equal)
#undef TREADLE_EVALUATE_BINARY

  Value VisitExpr_(const tir::AndNode* op) override { return Logical(op->a, op->b, false); }
  Value VisitExpr_(const tir::OrNode* op) override { return Logical(op->a, op->b, true); }
  Value VisitExpr_(const tir::NotNode* op) override {
    const Value value = VisitExpr(op->a);
    if (value.kind == Value::kInt) return Value::Bool(value.integer == 0);
    return Simplified(tir::logical_not(value.ToExpr()));
  }
  Value VisitExpr_(const tir::CastNode* op) override { return Cast(op->dtype, VisitExpr(op->value)); }
  Value VisitExpr_(const tir::SelectNode* op) override {
    return Choose(op->condition, op->true_value, op->false_value);
  }
  Value VisitExpr_(const tir::CallNode* op) override {
    const auto* callee = op->op.as<OpNode>();
    if (callee == nullptr) throw Unknown();
    if (callee->name == "tir.if_then_else") return Choose(op->args[0], op->args[1], op->args[2]);
    if (callee->name == "tir.likely") return VisitExpr(op->args[0]);
    PrimExpr result(ObjectPtr<Object>{});
    if (auto unary = ExactUnary().find(callee->name); unary != ExactUnary().end()) {
      result = unary->second(NumberOf(op->args[0]));
    } else if (auto binary = ExactBinary().find(callee->name); binary != ExactBinary().end()) {
      result = binary->second(NumberOf(op->args[0]), NumberOf(op->args[1]));
    }
    if (!result.defined() || (!result.as<IntImmNode>() && !result.as<FloatImmNode>())) throw Unknown();
    return Value::Of(result);
  }

 private:
  using Vars = std::unordered_map<const Object*, Value>;

  Value Simplified(const PrimExpr& e) {
    if (tir::CountNodes(e, kMaxNodes) > kMaxNodes) throw Unknown();
    return Value::Of(analyzer_->Simplify(e));
  }
  PrimExpr NumberOf(const PrimExpr& e) {
    const Value value = VisitExpr(e);
    if (value.kind == Value::kExpr) throw Unknown();
    return value.ToExpr();
  }

  Value Input(size_t i, int64_t flat, DataType dtype) {
    const PrimExpr element = input_(i, flat);
    if (!element.defined()) throw Unknown();
    return Cast(dtype, Value::Of(element));
  }

  Value Cast(DataType dtype, const Value& value) {
    if (value.dtype == dtype) return value;
    if (value.kind == Value::kExpr) {
      const bool size = sizes_ && dtype.is_integral() && dtype.bits() >= 32 && !value.dtype.is_bool();
      return size ? value : Simplified(tir::cast(dtype, value.expr));
    }
    if (value.kind == Value::kInt && dtype.is_integral()) return Value::Int(dtype, tir::WrapInt(dtype, value.integer));
    const PrimExpr number = tir::FoldCast(dtype, value.ToExpr());
    if (!number.defined()) throw Unknown();
    return Value::Of(number);
  }

  template <typename Node, typename Make>
  Value Binary(const Node* op, Make make) {
    const Value a = VisitExpr(op->a), b = VisitExpr(op->b);
    if (a.kind != Value::kExpr && b.kind != Value::kExpr) return FoldNumbers<Node>(a, b);
    return Simplified(make(a.ToExpr(), b.ToExpr()));
  }

  /// Where one side decides (false of `and`, true of `or`), the other needn't be known.
  Value Logical(const PrimExpr& x, const PrimExpr& y, bool decides) {
    const Value a = VisitExpr(x);
    if (a.kind == Value::kInt) return (a.integer != 0) == decides ? Value::Bool(decides) : VisitExpr(y);
    const Value b = VisitExpr(y);
    return Simplified(decides ? tir::logical_or(a.ToExpr(), b.ToExpr()) : tir::logical_and(a.ToExpr(), b.ToExpr()));
  }

  /// Only the side that is taken has to be known.
  Value Choose(const PrimExpr& condition, const PrimExpr& yes, const PrimExpr& no) {
    const Value test = VisitExpr(condition);
    if (test.kind == Value::kInt) return VisitExpr(test.integer != 0 ? yes : no);
    const Value a = VisitExpr(yes), b = VisitExpr(no);
    return Simplified(tir::select(test.ToExpr(), a.ToExpr(), b.ToExpr()));
  }

  Value Reduced(const tir::ReduceNode* op) {
    std::vector<int64_t> extents;
    for (const IterVar& axis : op->axis) {
      const Value extent = VisitExpr(axis->dom->extent), begin = VisitExpr(axis->dom->min);
      if (extent.kind != Value::kInt || begin.kind != Value::kInt || begin.integer != 0) throw Unknown();
      extents.push_back(extent.integer);
    }
    std::vector<Value> totals;
    for (size_t k = 0; k < op->source.size(); ++k) {
      totals.push_back(VisitExpr(op->init.empty() ? op->combiner->identity_element[k] : op->init[k]));
    }
    std::vector<int64_t> at(extents.size(), 0);
    for (int64_t extent : extents) {
      if (extent <= 0) return totals[static_cast<size_t>(op->value_index)];
    }
    for (int64_t step = 0;; ++step) {
      Step(op, at, step, &totals);
      size_t d = at.size();
      while (d-- > 0) {
        if (++at[d] < extents[d]) break;
        at[d] = 0;
      }
      if (d == static_cast<size_t>(-1)) return totals[static_cast<size_t>(op->value_index)];
    }
  }

  void Step(const tir::ReduceNode* op, const std::vector<int64_t>& at, int64_t step, std::vector<Value>* totals) {
    if (--steps_ < 0) throw Unknown();
    for (size_t d = 0; d < at.size(); ++d) {
      const Var& var = op->axis[d]->var;
      vars_[var.get()] = Value::Int(var.dtype(), at[d]);
    }
    if (op->condition.defined()) {
      const Value condition = VisitExpr(op->condition);
      if (condition.kind != Value::kInt) throw Unknown();
      if (condition.integer == 0) return;
    }
    for (size_t k = 0; k < totals->size(); ++k) {
      const Value source = VisitExpr(op->source[k]);
      if ((*totals)[k].kind == Value::kExpr && step >= kMaxSymbolicSteps) throw Unknown();
      vars_[op->combiner->lhs[k].get()] = (*totals)[k];
      vars_[op->combiner->rhs[k].get()] = source;
    }
    for (size_t k = 0; k < totals->size(); ++k) (*totals)[k] = VisitExpr(op->combiner->result[k]);
  }

  std::function<PrimExpr(size_t, int64_t)> input_;
  arith::Analyzer own_analyzer_;
  arith::Analyzer* analyzer_;
  bool sizes_;
  int64_t steps_;
  std::unordered_map<const Object*, size_t> inputs_;
  Vars vars_;
  std::unordered_map<const Object*, std::unordered_map<int64_t, Value>> memo_;
};

ElementEvaluator::ElementEvaluator(const Array<Tensor>& inputs, std::function<PrimExpr(size_t, int64_t)> input,
                                   EvaluateOptions options)
    : impl_(std::make_unique<Impl>(inputs, std::move(input), options)) {}

ElementEvaluator::~ElementEvaluator() = default;

PrimExpr ElementEvaluator::Element(const Tensor& tensor, const std::vector<int64_t>& index) {
  try {
    return impl_->Element(tensor, index).ToExpr();
  } catch (const Unknown&) {
    impl_->Reset();
    return PrimExpr(ObjectPtr<Object>());
  }
}

}  // namespace treadle::te
