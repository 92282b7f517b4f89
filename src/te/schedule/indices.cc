// SPDX-License-Identifier: Apache-2.0
#include "te/schedule/indices.h"

#include "treadle/arith/analyzer.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::te {

using tir::ScheduleError;

StageIndices IndicesOf(const StageNode* stage, const Array<IterVar>& axes, bool reduced, const char* primitive) {
  StageIndices result;
  arith::Analyzer analyzer;
  for (const IterVar& iv : axes) result.values.Set(iv->var, iv->var);
  auto substitute = [&](const Map<Var, PrimExpr>& step) {
    Map<Var, PrimExpr> next;
    for (const auto& [var, value] : result.values) next.Set(var, tir::Substitute(value, step));
    result.values = next;
    result.condition = tir::Substitute(result.condition, step);
  };
  for (const StageStep& step : stage->steps) {
    if (!reduced && step.kind == StageStep::Kind::kReorder) continue;
    size_t own = 0;
    for (const IterVar& iv : step.inputs) own += IsReduce(iv) == reduced;
    if (own == 0) {
      result.other_steps.push_back(step);
      continue;
    }
    if (own < step.inputs.size() || step.kind == StageStep::Kind::kReorder) {
      throw ScheduleError(StrCat(primitive, ": reduction axes of stage '", stage->op->name,
                                 "' were already reordered, or fused with data axes; call it before"));
    }
    Map<Var, PrimExpr> map;
    if (step.kind == StageStep::Kind::kSplit) {
      const IterVar parent = step.inputs[0], outer = step.outputs[0], inner = step.outputs[1];
      analyzer.Bind(outer->var, outer->dom);
      analyzer.Bind(inner->var, inner->dom);
      PrimExpr index = outer->var * inner->dom->extent + inner->var;
      map.Set(parent->var, parent->dom->min + index);
      substitute(map);
      PrimExpr inside = index < parent->dom->extent;
      if (!analyzer.CanProve(inside)) result.condition = result.condition && inside;
    } else {
      PrimExpr rest = step.outputs[0]->var;
      for (size_t i = step.inputs.size(); i-- > 0;) {
        const IterVar& iv = step.inputs[i];
        PrimExpr index = i > 0 ? tir::floormod(rest, iv->dom->extent) : rest;
        map.Set(iv->var, iv->dom->min + index);
        rest = tir::floordiv(rest, iv->dom->extent);
      }
      substitute(map);
    }
  }
  return result;
}

Map<Var, PrimExpr> PositionsOf(const StageNode* stage, const Array<IterVar>& axes) {
  Map<Var, PrimExpr> at;
  for (const IterVar& iv : axes) at.Set(iv->var, iv->var - iv->dom->min);
  for (const StageStep& step : stage->steps) {
    if (step.kind == StageStep::Kind::kReorder || (!step.inputs.empty() && IsReduce(step.inputs[0]))) continue;
    if (step.kind == StageStep::Kind::kSplit) {
      const PrimExpr index = at.at(step.inputs[0]->var);
      const PrimExpr width = step.outputs[1]->dom->extent;
      at.Set(step.outputs[0]->var, tir::floordiv(index, width));
      at.Set(step.outputs[1]->var, tir::floormod(index, width));
    } else {
      PrimExpr index = tir::make_zero(step.outputs[0]->var.dtype());
      for (const IterVar& iv : step.inputs) index = index * iv->dom->extent + at.at(iv->var);
      at.Set(step.outputs[0]->var, index);
    }
  }
  return at;
}

}  // namespace treadle::te
