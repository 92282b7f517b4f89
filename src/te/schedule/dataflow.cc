// SPDX-License-Identifier: Apache-2.0
// Schedules over the graph of operations: stages, and caches, which change the graph.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "te/schedule/dataflow.h"

#include "te/schedule/check_reads.h"
#include "te/schedule/indices.h"
#include "treadle/arith/analyzer.h"
#include "treadle/ir/prim_functor.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/te/scan.h"
#include "treadle/te/schedule.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::te {

using tir::ScheduleError;

Stage MakeStage(const Operation& op, bool is_output) {
  auto node = MakeObject<StageNode>();
  node->op = op;
  node->origin_op = op;
  node->is_output = is_output;
  if (const auto* compute = op.as<ComputeOpNode>()) {
    for (const IterVar& iv : compute->axis) node->leaf_iter_vars.push_back(iv);
    for (const IterVar& iv : compute->reduce_axis) node->leaf_iter_vars.push_back(iv);
  }
  if (const auto* scan = op.as<ScanOpNode>()) node->leaf_iter_vars.push_back(scan->scan_axis);
  return Stage(ObjectPtr<Object>(node));
}

namespace {

/// Replaces tensors (by operation and output) in a body.
class TensorReplacer : public tir::ExprMutator {
 public:
  explicit TensorReplacer(const std::function<Tensor(const Tensor&)>& map) : map_(map) {}

 protected:
  PrimExpr VisitExpr(const PrimExpr& e) override {
    auto it = memo_.find(e.get());
    if (it != memo_.end()) return it->second;
    PrimExpr result = ExprMutator::VisitExpr(e);
    memo_.emplace(e.get(), result);
    return result;
  }
  PrimExpr VisitExpr_(const tir::ProducerLoadNode* op) override {
    PrimExpr load = ExprMutator::VisitExpr_(op);
    Tensor from = Downcast<Tensor>(op->producer), to = map_(from);
    if (to == from) return load;
    return tir::ProducerLoad(to, load.as<tir::ProducerLoadNode>()->indices);
  }

 private:
  const std::function<Tensor(const Tensor&)>& map_;
  std::unordered_map<const Object*, PrimExpr> memo_;
};

}  // namespace

Operation WithReplacedInputs(const Operation& op, const std::function<Tensor(const Tensor&)>& map) {
  if (const auto* compute = op.as<ComputeOpNode>()) {
    TensorReplacer replacer(map);
    Array<PrimExpr> body = compute->body.Map([&](const PrimExpr& e) { return replacer(e); });
    if (body.same_as(compute->body)) return op;
    auto node = ObjectPtr<ComputeOpNode>(NewObject<ComputeOpNode>(*compute));
    node->body = body;
    return Operation(ObjectPtr<Object>(node));
  }
  if (const auto* external = op.as<ExternOpNode>()) {
    Array<Tensor> inputs = external->inputs.Map([&](const Tensor& t) { return map(t); });
    if (inputs.same_as(external->inputs)) return op;
    auto node = ObjectPtr<ExternOpNode>(NewObject<ExternOpNode>(*external));
    node->inputs = inputs;
    return Operation(ObjectPtr<Object>(node));
  }
  if (const auto* scan = op.as<ScanOpNode>()) {
    Array<Tensor> init = scan->init.Map([&](const Tensor& t) { return map(t); });
    Array<Tensor> update = scan->update.Map([&](const Tensor& t) { return map(t); });
    if (init.same_as(scan->init) && update.same_as(scan->update)) return op;
    auto node = ObjectPtr<ScanOpNode>(NewObject<ScanOpNode>(*scan));
    node->init = init;
    node->update = update;
    return Operation(ObjectPtr<Object>(node));
  }
  return op;
}

TeSchedule CreateSchedule(const Array<Operation>& outputs) {
  Array<Tensor> tensors;
  for (const Operation& op : outputs) tensors.push_back(Tensor(op->output_shape(0), op->output_dtype(0), op, 0));
  auto node = MakeObject<TeScheduleNode>();
  node->outputs = outputs;
  const auto operations = PostOrder(tensors);
  CheckReads({operations.begin(), operations.end()}, outputs);
  for (const Operation& op : operations) {
    bool is_output = false;
    for (const Operation& out : outputs) is_output |= out.same_as(op);
    node->stages.push_back(MakeStage(op, is_output));
  }
  return TeSchedule(ObjectPtr<Object>(node));
}

Stage TeSchedule::operator[](const Operation& op) const {
  for (const Stage& stage : get()->stages) {
    if (stage->op.same_as(op) || stage->origin_op.same_as(op)) return stage;
  }
  throw ScheduleError(StrCat("operation '", op->name, "' isn't part of the schedule"));
}

void Propagate(TeScheduleNode* schedule,
               const std::function<Tensor(const Tensor&, const Operation& reader)>& redirect) {
  std::unordered_map<const Object*, Operation> current;  // old operation -> new one
  for (const Stage& stage : schedule->stages) {
    auto* node = const_cast<StageNode*>(stage.get());
    Operation before = node->op;
    node->op = WithReplacedInputs(before, [&](const Tensor& t) -> Tensor {
      Tensor to = redirect(t, before);
      auto it = current.find(to->op.get());
      return it == current.end() ? to : Tensor(to->shape, to->dtype, it->second, to->value_index);
    });
    if (!node->op.same_as(before)) current[before.get()] = node->op;
  }
}

void InsertStage(TeScheduleNode* schedule, const Stage& stage, const Stage& next_to, bool after) {
  Array<Stage> stages;
  for (const Stage& s : schedule->stages) {
    if (s.same_as(next_to) && !after) stages.push_back(stage);
    stages.push_back(s);
    if (s.same_as(next_to) && after) stages.push_back(stage);
  }
  schedule->stages = stages;
}

std::string UniqueName(const TeScheduleNode* schedule, const std::string& hint) {
  std::string name = hint;
  for (bool clash = true; clash;) {
    clash = false;
    for (const Stage& s : schedule->stages) clash |= s->op->name == name;
    if (clash) name += ".d";
  }
  return name;
}

Tensor TeSchedule::CacheRead(const Tensor& tensor, const std::string& scope, const Array<Operation>& readers) {
  Stage source = (*this)[tensor];
  Tensor current(tensor->shape, tensor->dtype, source->op, tensor->value_index);
  Tensor copy = Compute(
      tensor->shape,
      [&](const Array<Var>& i) {
        Array<PrimExpr> indices;
        for (const Var& v : i) indices.push_back(v);
        return current(indices);
      },
      UniqueName(get(), StrCat(tensor->GetNameHint(), ".", scope)), "", {},
      [&] {
        std::vector<std::string> names;
        for (size_t i = 0; i < tensor->shape.size(); ++i) names.push_back(StrCat("ax", i));
        return names;
      }());
  std::vector<Operation> reading;
  for (const Operation& reader : readers) {
    Stage stage = (*this)[reader];
    bool reads = false;
    for (const Tensor& input : InputTensors(stage->op)) reads |= input == current;
    if (!reads) {
      throw ScheduleError(
          StrCat("cache_read: operation '", reader->name, "' doesn't read tensor '", tensor->GetNameHint(), "'"));
    }
    reading.push_back(stage->op);
  }
  Stage stage = MakeStage(copy->op, false);
  const_cast<StageNode*>(stage.get())->scope = scope;
  InsertStage(node(), stage, source, true);
  Propagate(node(), [&](const Tensor& t, const Operation& reader) -> Tensor {
    if (!(t == current)) return t;
    for (const Operation& r : reading) {
      if (r.same_as(reader)) return copy;
    }
    return t;
  });
  return copy;
}

namespace {

/// The axes that steps made go with the computation, so nothing may refer to them at its old stage.
void CheckNothingHangsOn(const TeScheduleNode* schedule, const Stage& stage) {
  if (stage->steps.empty()) return;
  if (!stage->marks.empty()) {
    throw ScheduleError(StrCat("cache_write: axes of stage '", stage->op->name,
                               "' were split, fused or reordered and "
                               "then annotated ('",
                               stage->marks[0].key, "'); annotate the stages after it"));
  }
  for (const Stage& other : schedule->stages) {
    if (other->attach_stage == stage.get()) {
      throw ScheduleError(StrCat("cache_write: stage '", other->op->name, "' is computed at an axis of stage '",
                                 stage->op->name, "', whose axes were split, fused or reordered; place it after"));
    }
  }
}

/// The computation with axes of its own, and where the stage's elements are in its results. Where axes of the stage
/// were split, fused or reordered, the results have a dimension for each that came of it, in their order: another
/// layout.
std::pair<Operation, Array<PrimExpr>> CachedComputation(const StageNode* stage, const ComputeOpNode* compute,
                                                        const std::string& name) {
  auto cached = MakeObject<ComputeOpNode>();
  cached->name = name;
  cached->tag = compute->tag;
  cached->attrs = compute->attrs;
  const StageIndices leaves = IndicesOf(stage, compute->axis, false, "cache_write");
  if (!leaves.other_steps.empty() && !leaves.other_steps[0].inputs.empty()) {
    throw ScheduleError(StrCat("cache_write: reduction axis '", leaves.other_steps[0].inputs[0]->var->name_hint,
                               "' of stage '", stage->op->name,
                               "' was already split or fused; do that in the cached stage"));
  }
  const Map<Var, PrimExpr> positions = PositionsOf(stage, compute->axis);
  Map<Var, PrimExpr> fresh_axes;
  Array<PrimExpr> indices;
  arith::Analyzer analyzer;
  for (const IterVar& leaf : stage->leaf_iter_vars) {
    if (IsReduce(leaf)) continue;
    IterVar fresh(leaf->dom, Var(leaf->var->name_hint + ".c", leaf->var.dtype()), leaf->iter_type);
    cached->axis.push_back(fresh);
    fresh_axes.Set(leaf->var, fresh->var);
    indices.push_back(stage->steps.empty() ? PrimExpr(leaf->var) : analyzer.Simplify(positions.at(leaf->var)));
  }
  auto move = [&](const PrimExpr& e) { return tir::Substitute(tir::Substitute(e, leaves.values), fresh_axes); };
  const PrimExpr inside = tir::Substitute(leaves.condition, fresh_axes);
  cached->reduce_axis = compute->reduce_axis;
  cached->body = compute->body.Map([&](const PrimExpr& e) {
    PrimExpr moved = move(e);
    if (tir::is_const_int(inside, 1)) return moved;
    if (const auto* reduce = moved.as<tir::ReduceNode>()) {
      return PrimExpr(tir::Reduce(reduce->combiner, reduce->source, reduce->axis, inside && reduce->condition,
                                  reduce->value_index, reduce->init));
    }
    return tir::if_then_else(inside, moved, tir::make_zero(moved.dtype()));
  });
  return {Operation{ObjectPtr<Object>(cached)}, indices};
}

}  // namespace

Array<Tensor> TeSchedule::CacheWrite(const Array<Tensor>& tensors, const std::string& scope) {
  if (tensors.empty()) throw ScheduleError("cache_write: no tensors given");
  Stage stage = (*this)[tensors[0]];
  const std::string& name = stage->op->name;
  const auto* compute = stage->op.as<ComputeOpNode>();
  if (compute == nullptr) {
    throw ScheduleError(StrCat("cache_write: stage '", name, "' must be a computation, not ", stage->op->type_key()));
  }
  std::vector<bool> given(compute->body.size(), false);
  for (const Tensor& t : tensors) {
    if (!(*this)[t].same_as(stage)) {
      throw ScheduleError(StrCat("cache_write: tensors '", tensors[0]->GetNameHint(), "' and '", t->GetNameHint(),
                                 "' are of different stages"));
    }
    given.at(static_cast<size_t>(t->value_index)) = true;
  }
  if (std::find(given.begin(), given.end(), false) != given.end()) {
    throw ScheduleError(StrCat("cache_write: stage '", name, "' has ", compute->body.size(),
                               " outputs, which are cached together; expected a list of all of them"));
  }
  CheckNothingHangsOn(get(), stage);
  const auto [cached_op, indices] =
      CachedComputation(stage.get(), compute, UniqueName(get(), StrCat(name, ".", scope)));
  // The stage has the axes of the operation and copies.
  auto copy = MakeObject<ComputeOpNode>();
  copy->name = compute->name;
  copy->attrs = compute->attrs;
  copy->axis = compute->axis;
  Array<Tensor> all, result;
  for (int i = 0; i < cached_op->num_outputs(); ++i) {
    all.push_back(Tensor(cached_op->output_shape(i), cached_op->output_dtype(i), cached_op, i));
    copy->body.push_back(all.back()(indices));
  }
  for (const Tensor& t : tensors) result.push_back(all[static_cast<size_t>(t->value_index)]);
  Operation copy_op{ObjectPtr<Object>(copy)};

  Stage cache_stage = MakeStage(cached_op, false);
  const_cast<StageNode*>(cache_stage.get())->scope = scope;
  Operation before = stage->op;
  auto* stage_node = const_cast<StageNode*>(stage.get());
  stage_node->op = copy_op;
  stage_node->leaf_iter_vars = copy->axis;
  stage_node->steps.clear();
  InsertStage(node(), cache_stage, stage, false);
  Propagate(node(), [&](const Tensor& t, const Operation&) -> Tensor {
    if (t->op.same_as(before)) return Tensor(t->shape, t->dtype, copy_op, t->value_index);
    return t;
  });
  return result;
}

Tensor TeSchedule::CacheWrite(const Tensor& tensor, const std::string& scope) {
  return CacheWrite(Array<Tensor>{tensor}, scope)[0];
}

}  // namespace treadle::te
