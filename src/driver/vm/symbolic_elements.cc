// SPDX-License-Identifier: Apache-2.0
// Small integer results of kernels as expressions: what programs compute shapes with needs no kernel.
#include <unordered_map>

#include "driver/lower/lower_te.h"
#include "driver/vm/symbolic_kernel.h"
#include "treadle/arith/analyzer.h"
#include "treadle/base/checked_math.h"
#include "treadle/ir/prim_functor.h"
#include "treadle/ir/prim_ops.h"

namespace treadle::driver {
namespace {

/// Thrown where an element isn't known.
struct Unknown {};

constexpr int64_t kMaxReduced = 64;

class ElementEvaluator : public tir::ExprMutator {
 public:
  ElementEvaluator(const TensorFunction& tensors, const std::function<PrimExpr(size_t, int64_t)>& param)
      : param_(param) {
    for (size_t i = 0; i < tensors.inputs.size(); ++i) inputs_[tensors.inputs[i]->op.get()] = i;
  }

  /// Element of `tensor` at constant indices.
  PrimExpr Element(const te::Tensor& tensor, const std::vector<int64_t>& index) {
    int64_t flat = 0;
    for (size_t d = 0; d < index.size(); ++d) {
      const int64_t* extent = AsConstInt(tensor->shape[d]);
      if (extent == nullptr || index[d] < 0 || index[d] >= *extent) throw Unknown();
      flat = flat * *extent + index[d];
    }
    auto input = inputs_.find(tensor->op.get());
    if (input != inputs_.end()) {
      PrimExpr value = param_(input->second, flat);
      if (!value.defined()) throw Unknown();
      return tir::cast(tensor->dtype, value);
    }
    auto& known = memo_[tensor->op.get()];
    int64_t key = flat * 16 + tensor->value_index;
    auto it = known.find(key);
    if (it != known.end()) return it->second;
    const auto* op = tensor->op.as<te::ComputeOpNode>();
    if (op == nullptr || --budget_ < 0) throw Unknown();
    std::unordered_map<const Object*, PrimExpr> outer;
    outer.swap(vars_);
    for (size_t d = 0; d < index.size(); ++d)
      vars_[op->axis[d]->var.get()] = IntImm(op->axis[d]->var.dtype(), index[d]);
    const PrimExpr body = op->body[static_cast<size_t>(tensor->value_index)];
    PrimExpr value = body.as<tir::ReduceNode>() ? Reduced(body.as<tir::ReduceNode>()) : Simple(body);
    outer.swap(vars_);
    known[key] = value;
    return value;
  }

 protected:
  PrimExpr VisitExpr_(const tir::VarNode* op) override {
    auto it = vars_.find(op);
    return it == vars_.end() ? GetRef<PrimExpr>(op) : it->second;
  }
  PrimExpr VisitExpr_(const tir::ProducerLoadNode* op) override {
    std::vector<int64_t> index;
    for (const PrimExpr& i : op->indices) {
      const PrimExpr at = Simple(i);
      const int64_t* value = AsConstInt(at);
      if (value == nullptr) throw Unknown();
      index.push_back(*value);
    }
    return Element(Downcast<te::Tensor>(op->producer), index);
  }
  /// Only the side that is taken has to be known.
  PrimExpr VisitExpr_(const tir::SelectNode* op) override {
    return Choose(op->condition, op->true_value, op->false_value);
  }
  PrimExpr VisitExpr_(const tir::CallNode* op) override {
    const auto* callee = op->op.as<OpNode>();
    if (callee != nullptr && callee->name == "tir.if_then_else") return Choose(op->args[0], op->args[1], op->args[2]);
    throw Unknown();
  }
  PrimExpr VisitExpr_(const tir::BufferLoadNode*) override { throw Unknown(); }
  PrimExpr VisitExpr_(const tir::ReduceNode*) override { throw Unknown(); }
  using tir::ExprMutator::VisitExpr_;

 private:
  PrimExpr Simple(const PrimExpr& e) { return analyzer_.Simplify(VisitExpr(e)); }

  PrimExpr Choose(const PrimExpr& condition, const PrimExpr& yes, const PrimExpr& no) {
    PrimExpr test = Simple(condition);
    if (const int64_t* known = AsConstInt(test)) return VisitExpr(*known != 0 ? yes : no);
    return tir::select(test, VisitExpr(yes), VisitExpr(no));
  }

  PrimExpr Reduced(const tir::ReduceNode* op) {
    if (op->source.size() != 1 || !tir::is_const_int(op->condition, 1)) throw Unknown();
    std::vector<int64_t> extents;
    int64_t count = 1;
    for (const te::IterVar& axis : op->axis) {
      const PrimExpr extent = Simple(axis->dom->extent);
      if (AsConstInt(extent) == nullptr) throw Unknown();
      extents.push_back(*AsConstInt(extent));
      if (extents.back() > kMaxReduced || (count *= extents.back()) > kMaxReduced) throw Unknown();
    }
    PrimExpr total = op->init.empty() ? op->combiner->identity_element[0] : Simple(op->init[0]);
    for (int64_t i = 0; i < count; ++i) {
      int64_t rest = i;
      for (size_t d = extents.size(); d-- > 0; rest /= extents[d]) {
        vars_[op->axis[d]->var.get()] = IntImm(op->axis[d]->var.dtype(), rest % extents[d]);
      }
      PrimExpr source = Simple(op->source[0]);
      vars_[op->combiner->lhs[0].get()] = total;
      vars_[op->combiner->rhs[0].get()] = source;
      total = Simple(op->combiner->result[0]);
    }
    return total;
  }

  const std::function<PrimExpr(size_t, int64_t)>& param_;
  std::unordered_map<const Object*, size_t> inputs_;
  std::unordered_map<const Object*, PrimExpr> vars_;
  std::unordered_map<const Object*, std::unordered_map<int64_t, PrimExpr>> memo_;
  arith::Analyzer analyzer_;
  int budget_ = 20000;
};

/// Whether the integer registers of the VM can compute the expression.
class OnlyIntegers : public tir::ExprVisitor {
 public:
  bool ok = true;
  int nodes = 0;
  void VisitExpr(const PrimExpr& e) override {
    ok = ok && e.dtype().is_integral() && e.dtype().is_scalar() && ++nodes < 200;
    if (ok) tir::ExprVisitor::VisitExpr(e);
  }
  using tir::ExprVisitor::VisitExpr_;
  void VisitExpr_(const tir::CallNode*) override { ok = false; }
};

}  // namespace

std::optional<std::vector<std::vector<PrimExpr>>> SymbolicElements(
    const SymbolicKernel& kernel, const std::function<PrimExpr(size_t, int64_t)>& param, int64_t max_elements) {
  std::vector<std::vector<int64_t>> shapes;
  int64_t total = 0;
  for (const TensorType& type : kernel.results) {
    if (!type->dtype.is_integral() || !IsStatic(type.get())) return std::nullopt;
    shapes.push_back(StaticShape(type.get(), "result"));
    total += NumElements(shapes.back());
    if (total > max_elements) return std::nullopt;
  }
  std::vector<std::vector<PrimExpr>> elements;
  try {
    TensorFunction tensors = LowerToTensors(kernel.func);
    ElementEvaluator evaluator(tensors, param);
    for (size_t r = 0; r < shapes.size(); ++r) {
      elements.emplace_back();
      for (int64_t flat = 0, n = NumElements(shapes[r]); flat < n; ++flat) {
        std::vector<int64_t> index(shapes[r].size());
        int64_t rest = flat;
        for (size_t d = index.size(); d-- > 0; rest /= shapes[r][d]) index[d] = rest % shapes[r][d];
        PrimExpr value = evaluator.Element(tensors.outputs[r], index);
        OnlyIntegers check;
        check(value);
        if (!check.ok) return std::nullopt;
        elements.back().push_back(value);
      }
    }
  } catch (const Unknown&) {
    return std::nullopt;
  } catch (const UnsupportedOpError&) {
    return std::nullopt;
  }
  return elements;
}

}  // namespace treadle::driver
