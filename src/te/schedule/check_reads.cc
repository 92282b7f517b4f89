// SPDX-License-Identifier: Apache-2.0
// Reads outside of tensors, found before anything is scheduled.
#include "te/schedule/check_reads.h"

#include <map>
#include <set>

#include "treadle/arith/analyzer.h"
#include "treadle/ir/prim_functor.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/te/scan.h"
#include "treadle/tir/schedule.h"
#include "treadle/tir/text.h"

namespace treadle::te {
namespace {

class ReadChecker : public tir::ExprVisitor {
 public:
  /// steps: of a scan, if defined; where the first dimension is that of all steps, only these are computed.
  ReadChecker(const ComputeOpNode* op, const std::set<const Object*>& unchecked, const tir::Range& steps)
      : op_(op), unchecked_(unchecked) {
    for (const IterVar& axis : op->axis) AddAxis(axis);
    const bool of_scan = steps.defined() && !ranges_.empty() && tir::is_zero(ranges_[0]->min) &&
                         analyzer_.CanProveEqual(ranges_[0]->extent, steps->min + steps->extent);
    if (of_scan) ranges_[0] = steps;
  }

 private:
  using ExprVisitor::VisitExpr_;

  void AddAxis(const IterVar& axis) {
    if (!axis->dom.defined()) return;
    vars_.push_back(axis->var);
    ranges_.push_back(axis->dom);
  }

  // What stands behind a condition is read where that holds, which isn't looked into.
  void VisitExpr_(const tir::SelectNode* select) override { VisitExpr(select->condition); }
  void VisitExpr_(const tir::AndNode* both) override { VisitExpr(both->a); }
  void VisitExpr_(const tir::OrNode* either) override { VisitExpr(either->a); }
  void VisitExpr_(const tir::CallNode* call) override {
    if (tir::IsCallTo(call, "tir.if_then_else")) return VisitExpr(call->args[0]);
    ExprVisitor::VisitExpr_(call);
  }
  void VisitExpr_(const tir::ReduceNode* reduce) override {
    for (const IterVar& axis : reduce->axis) AddAxis(axis);
    if (analyzer_.CanProve(reduce->condition)) {
      for (const PrimExpr& source : reduce->source) VisitExpr(source);
    }
  }
  void VisitExpr_(const tir::ProducerLoadNode* load) override {
    ExprVisitor::VisitExpr_(load);
    const auto* tensor = load->producer.as<TensorNode>();
    if (tensor == nullptr || unchecked_.count(tensor->op.get()) != 0) return;
    const Array<PrimExpr> shape = load->producer->GetShape();
    for (size_t d = 0; d < shape.size(); ++d) CheckIndex(load, d, shape[d]);
  }

  /// As messages show it: types of variables are of no interest.
  static std::string Text(const PrimExpr& e) {
    std::string text = tir::AsText(e);
    for (const char* type : {": int32", ": int64"}) {
      for (size_t at = text.find(type); at != std::string::npos; at = text.find(type)) text.erase(at, 7);
    }
    return text;
  }

  void CheckIndex(const tir::ProducerLoadNode* load, size_t d, const PrimExpr& extent) {
    const std::vector<PrimExpr> linear = analyzer_.DetectLinear(load->indices[d], vars_);
    if (linear.empty()) return;
    PrimExpr low = linear.back(), high = linear.back();
    for (size_t i = 0; i < vars_.size(); ++i) {
      const auto* coefficient = linear[i].as<IntImmNode>();
      if (coefficient == nullptr) return;
      if (coefficient->value == 0) continue;
      const PrimExpr first = linear[i] * ranges_[i]->min, last = linear[i] * (ranges_[i]->min + ranges_[i]->extent - 1);
      low = low + (coefficient->value > 0 ? first : last);
      high = high + (coefficient->value > 0 ? last : first);
    }
    low = analyzer_.Simplify(low), high = analyzer_.Simplify(high);
    if (!analyzer_.CanProve(low < 0) && !analyzer_.CanProve(high >= extent)) return;
    throw tir::ScheduleError(StrCat("stage '", op_->name, "' reads ", load->producer->GetNameHint(),
                                    " outside of it: ", "index ", Text(load->indices[d]), " of dimension ", d, " is ",
                                    Text(low), " to ", Text(high), " where 0 to ", Text(analyzer_.Simplify(extent - 1)),
                                    " is there; te.if_then_else(condition, value, other) reads under a condition"));
  }

  const ComputeOpNode* op_;
  const std::set<const Object*>& unchecked_;
  arith::Analyzer analyzer_;
  std::vector<tir::Var> vars_;
  std::vector<tir::Range> ranges_;
};

/// What only updates of scans read, directly or through others, and the steps of these updates.
std::map<const Object*, tir::Range> StepsOfScans(const std::vector<Operation>& operations,
                                                 const Array<Operation>& outputs) {
  std::map<const Object*, tir::Range> steps;
  std::set<const Object*> whole;
  for (const Operation& op : outputs) whole.insert(op.get());
  for (size_t i = operations.size(); i-- > 0;) {
    const Operation& op = operations[i];
    const auto own = steps.find(op.get());
    const bool partly = own != steps.end() && whole.count(op.get()) == 0;
    std::set<const Object*> updates;
    if (const auto* scan = op.as<ScanOpNode>()) {
      for (const Tensor& update : scan->update) {
        updates.insert(update->op.get());
        steps[update->op.get()] = scan->scan_axis->dom;
      }
    }
    for (const Tensor& input : InputTensors(op)) {
      if (updates.count(input->op.get()) != 0) continue;
      if (partly) {
        steps[input->op.get()] = own->second;
      } else {
        whole.insert(input->op.get());
      }
    }
  }
  for (const Object* op : whole) steps.erase(op);
  return steps;
}

}  // namespace

void CheckReads(const std::vector<Operation>& operations, const Array<Operation>& outputs) {
  // The first steps of a scan are given, so that its updates don't read the states before the first one.
  std::set<const Object*> states;
  for (const Operation& op : operations) {
    const auto* scan = op.as<ScanOpNode>();
    if (scan == nullptr) continue;
    for (const Tensor& state : scan->state_placeholder) states.insert(state->op.get());
  }
  const std::map<const Object*, tir::Range> steps = StepsOfScans(operations, outputs);
  for (const Operation& op : operations) {
    const auto* compute = op.as<ComputeOpNode>();
    if (compute == nullptr) continue;
    auto own = steps.find(op.get());
    for (const PrimExpr& value : compute->body) {
      ReadChecker(compute, states, own == steps.end() ? tir::Range(ObjectPtr<Object>(nullptr)) : own->second)(value);
    }
  }
}

}  // namespace treadle::te
