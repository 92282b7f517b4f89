// SPDX-License-Identifier: Apache-2.0
#include "treadle/te/scan.h"

#include <unordered_set>
#include <utility>

#include "treadle/arith/analyzer.h"
#include "treadle/ir/prim_functor.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::te {

TREADLE_DEFINE_NODE(ScanOpNode);

Array<Tensor> Scan(const Array<Tensor>& init, const Array<Tensor>& update, const Array<Tensor>& state_placeholder,
                   const Array<Tensor>& inputs, std::string name, std::string tag, Map<String, ObjectRef> attrs) {
  if (update.empty() || init.size() != update.size() || state_placeholder.size() != update.size()) {
    throw Error(StrCat("scan ", name, ": ", init.size(), " inits, ", update.size(), " updates and ",
                       state_placeholder.size(), " states; there must be one of each per output"));
  }
  arith::Analyzer analyzer;
  for (size_t i = 0; i < update.size(); ++i) {
    const Tensor from = init[i], to = update[i], state = state_placeholder[i];
    if (from->dtype != to->dtype || state->dtype != to->dtype) {
      throw DTypeError(StrCat("scan ", name, ": state ", i, " has dtype ", state->dtype, ", its init ", from->dtype,
                              " and its update ", to->dtype, "; they must be equal"));
    }
    if (!state->op.as<PlaceholderOpNode>()) {
      throw Error(StrCat("scan ", name, ": state ", i, " must be a placeholder"));
    }
    if (!to->op.as<ComputeOpNode>()) throw Error(StrCat("scan ", name, ": update ", i, " must be a computation"));
    if (from.ndim() != to.ndim() || state.ndim() != to.ndim() || to.ndim() == 0) {
      throw ShapeError(StrCat("scan ", name, ": state ", i, " has ", state.ndim(), " dimensions, its init ",
                              from.ndim(), " and its update ", to.ndim(), "; they must be equal and at least 1"));
    }
    for (size_t d = 0; d < to.ndim(); ++d) {
      const bool state_fits = analyzer.CanProveEqual(state->shape[d], to->shape[d]);
      if (!state_fits || (d > 0 && !analyzer.CanProveEqual(from->shape[d], to->shape[d]))) {
        throw ShapeError(StrCat("scan ", name, ": dimension ", d, " of state ", i,
                                " differs between state, init and update; only the number of rows of init may differ"));
      }
    }
    if (!analyzer.CanProveEqual(to->shape[0], update[0]->shape[0]) ||
        !analyzer.CanProveEqual(from->shape[0], init[0]->shape[0])) {
      throw ShapeError(StrCat("scan ", name, ": state ", i, " has another number of steps than state 0"));
    }
  }
  auto node = MakeObject<ScanOpNode>();
  node->name = std::move(name);
  node->tag = std::move(tag);
  node->attrs = std::move(attrs);
  node->init = init;
  node->update = update;
  node->state_placeholder = state_placeholder;
  node->inputs = inputs;
  PrimExpr first = init[0]->shape[0], end = update[0]->shape[0];
  first = tir::cast(end.dtype(), first);
  node->scan_axis = IterVar(Range::FromMinExtent(first, analyzer.Simplify(end - first)),
                            Var(node->name + ".idx", end.dtype()), tir::IterVarType::kOrdered);
  Operation op{ObjectPtr<Object>(node)};
  ScanBody(op.as<ScanOpNode>());
  Array<Tensor> outputs;
  for (int i = 0; i < op->num_outputs(); ++i) {
    outputs.push_back(Tensor(op->output_shape(i), op->output_dtype(i), op, i));
  }
  return outputs;
}

namespace {

/// Where a body operation reads tensors of the step, and states.
class StepChecker : public tir::ExprVisitor {
 public:
  StepChecker(const ScanOpNode* scan, const ComputeOpNode* op, const std::unordered_set<const Object*>& inside)
      : scan_(scan), op_(op), inside_(inside) {}
  void Run() {
    analyzer_.Bind(op_->axis[0]->var, scan_->scan_axis->dom);
    for (const PrimExpr& body : op_->body) VisitExpr(body);
  }

 protected:
  void VisitExpr(const PrimExpr& e) override {
    if (seen_.insert(e.get()).second) ExprVisitor::VisitExpr(e);
  }
  void VisitExpr_(const tir::ProducerLoadNode* load) override {
    Tensor tensor = Downcast<Tensor>(load->producer);
    const Var& time = op_->axis[0]->var;
    bool state = false;
    for (const Tensor& s : scan_->state_placeholder) state |= s == tensor;
    if (state) {
      std::optional<int64_t> shift = analyzer_.ConstDifference(load->indices[0], time);
      if (!shift || *shift > -1) {
        throw Error(StrCat("scan ", scan_->name, ": operation ", op_->name, " reads state ", tensor->GetNameHint(),
                           " at a row that isn't a constant number of steps before its axis '", time->name_hint,
                           "'; only earlier rows are known"));
      }
      if (!analyzer_.CanProveNonNegative(load->indices[0])) {
        throw Error(StrCat("scan ", scan_->name, ": operation ", op_->name, " reads state ", tensor->GetNameHint(), " ",
                           -*shift, " rows back, before the first row; init must have that many rows"));
      }
    } else if (inside_.count(tensor->op.get()) != 0 && !load->indices[0].same_as(time)) {
      throw Error(StrCat("scan ", scan_->name, ": operation ", op_->name, " reads ", tensor->GetNameHint(),
                         ", which each step computes, at a row other than its own axis '", time->name_hint, "'"));
    }
    ExprVisitor::VisitExpr_(load);
  }

 private:
  const ScanOpNode* scan_;
  const ComputeOpNode* op_;
  const std::unordered_set<const Object*>& inside_;
  arith::Analyzer analyzer_;
  std::unordered_set<const Object*> seen_;
};

}  // namespace

std::vector<Operation> ScanBody(const ScanOpNode* scan) {
  std::unordered_set<const Object*> inside;
  for (const Tensor& state : scan->state_placeholder) inside.insert(state->op.get());
  std::vector<Operation> body;
  for (const Operation& op : PostOrder(scan->update)) {
    bool depends = false;
    for (const Tensor& input : InputTensors(op)) depends |= inside.count(input->op.get()) != 0;
    for (const Tensor& update : scan->update) depends |= update->op.same_as(op);
    if (!depends || inside.count(op.get()) != 0) continue;
    inside.insert(op.get());
    body.push_back(op);
  }
  arith::Analyzer analyzer;
  for (const Operation& op : body) {
    const auto* compute = op.as<ComputeOpNode>();
    if (compute == nullptr) {
      throw Error(StrCat("scan ", scan->name, ": operation ", op->name, " within a step is of kind ", op->type_key(),
                         "; only computations can be repeated"));
    }
    if (compute->axis.empty() || !analyzer.CanProveEqual(compute->axis[0]->dom->extent, scan->update[0]->shape[0])) {
      throw ShapeError(StrCat("scan ", scan->name, ": the first axis of operation ", op->name,
                              " must be the steps of the scan, as it reads a state"));
    }
    StepChecker(scan, compute, inside).Run();
  }
  return body;
}

}  // namespace treadle::te
