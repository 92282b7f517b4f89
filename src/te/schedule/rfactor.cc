// SPDX-License-Identifier: Apache-2.0
// Factoring of a reduction into partial results and their combination, on the graph of operations.
#include <utility>

#include "te/schedule/dataflow.h"
#include "te/schedule/indices.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/te/schedule.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::te {

using tir::IterVarType;
using tir::ReduceNode;
using tir::ScheduleError;

namespace {

IterVar Fresh(const IterVar& iv, IterVarType type, Map<Var, PrimExpr>* vmap) {
  Var var(iv->var->name_hint, iv->var.dtype());
  vmap->Set(iv->var, type == iv->iter_type ? PrimExpr(var) : iv->dom->min + var);
  return IterVar(type == iv->iter_type ? iv->dom : Range(iv->dom->extent), var, type);
}

}  // namespace

Array<Tensor> TeSchedule::RFactor(const Tensor& tensor, const IterVar& axis, int factor_axis) {
  Stage stage = (*this)[tensor];
  const auto* op = stage->op.as<ComputeOpNode>();
  const auto* reduce = op == nullptr ? nullptr : op->body[0].as<ReduceNode>();
  if (reduce == nullptr) throw ScheduleError(StrCat("rfactor: stage '", stage->op->name, "' isn't a reduction"));
  IterVar factor;
  for (const IterVar& leaf : stage->leaf_iter_vars) {
    if (leaf->var.same_as(axis->var)) factor = leaf;
  }
  if (!factor.defined() || !IsReduce(factor)) {
    throw ScheduleError(
        StrCat("rfactor: '", axis->var->name_hint, "' isn't a reduction axis of stage '", stage->op->name, "'"));
  }
  const auto rank = static_cast<int>(op->axis.size());
  if (factor_axis < -(rank + 1) || factor_axis > rank) {
    throw ScheduleError(StrCat("rfactor: factor_axis ", factor_axis, " of stage '", stage->op->name, "' isn't in [",
                               -(rank + 1), ", ", rank, "]"));
  }
  const auto position = static_cast<size_t>(factor_axis < 0 ? factor_axis + rank + 1 : factor_axis);
  StageIndices indices = IndicesOf(stage.get(), op->reduce_axis, true, "rfactor");

  // Partial results.
  Map<Var, PrimExpr> vmap;
  Array<IterVar> axes, reduce_axes;
  for (const IterVar& iv : op->axis) axes.push_back(Fresh(iv, IterVarType::kDataPar, &vmap));
  IterVar factor_data = Fresh(factor, IterVarType::kDataPar, &vmap);
  std::vector<IterVar> all = axes.ToVector();
  all.insert(all.begin() + static_cast<std::ptrdiff_t>(position), factor_data);
  for (const IterVar& leaf : stage->leaf_iter_vars) {
    if (IsReduce(leaf) && !leaf.same_as(factor)) reduce_axes.push_back(Fresh(leaf, IterVarType::kCommReduce, &vmap));
  }
  auto rewrite = [&](const PrimExpr& e) { return tir::Substitute(tir::Substitute(e, indices.values), vmap); };
  Array<PrimExpr> sources = reduce->source.Map(rewrite), body;
  PrimExpr condition = tir::Substitute(indices.condition, vmap) && rewrite(reduce->condition);
  if (reduce_axes.empty()) {
    for (size_t i = 0; i < sources.size(); ++i) {
      const PrimExpr& neutral = reduce->combiner->identity_element[i];
      body.push_back(tir::is_const_int(condition, 1) ? sources[i] : tir::if_then_else(condition, sources[i], neutral));
    }
  } else {
    body = CommReduce(reduce->combiner, sources, reduce_axes, condition);
  }
  Operation partial = MakeComputeOp(UniqueName(get(), stage->op->name + ".rf"), op->tag, op->attrs, all, body);
  Array<Tensor> partials;
  for (int i = 0; i < partial->num_outputs(); ++i) {
    partials.push_back(Tensor(partial->output_shape(i), partial->output_dtype(i), partial, i));
  }

  // Their combination, by the stage.
  IterVar over(Range(factor->dom->extent), Var(factor->var->name_hint, factor->var.dtype()), IterVarType::kCommReduce);
  std::vector<PrimExpr> at;
  for (const IterVar& iv : op->axis) at.push_back(iv->var);
  at.insert(at.begin() + static_cast<std::ptrdiff_t>(position), over->var);
  Array<PrimExpr> loads;
  for (const Tensor& t : partials) loads.push_back(t(Array<PrimExpr>(at)));
  Operation combined =
      MakeComputeOp(op->name, op->tag, op->attrs, op->axis,
                    CommReduce(reduce->combiner, loads, {over}, PrimExpr(ObjectPtr<Object>()), reduce->init));
  Operation before = stage->op;
  auto* stage_node = const_cast<StageNode*>(stage.get());
  Array<IterVar> leaves;
  for (const IterVar& leaf : stage->leaf_iter_vars) {
    if (!IsReduce(leaf)) leaves.push_back(leaf);
  }
  leaves.push_back(over);
  stage_node->op = combined;
  stage_node->leaf_iter_vars = leaves;
  stage_node->steps = indices.other_steps;
  InsertStage(node(), MakeStage(partial, false), stage, false);
  Propagate(node(), [&](const Tensor& t, const Operation&) -> Tensor {
    if (t->op.same_as(before)) return Tensor(t->shape, t->dtype, combined, t->value_index);
    return t;
  });
  return partials;
}

}  // namespace treadle::te
