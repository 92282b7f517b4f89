// SPDX-License-Identifier: Apache-2.0
// Blockize: what a loop holds becomes a block of its own, to be scheduled (or replaced by an intrinsic) as a unit.
#include <utility>

#include "tir/block_access.h"
#include "tir/schedule/primitives.h"

namespace treadle::tir::primitive {

namespace {

const char* const kName = "blockize";

/// The binding of an axis as outer + inner, of loops outside and inside.
struct Binding {
  PrimExpr outer, inner;
};

Binding SplitBinding(const PrimExpr& value, const std::vector<For>& outside, const std::vector<For>& inside,
                     const std::string& block, const std::string& axis, arith::Analyzer& analyzer) {
  Map<Var, PrimExpr> no_outer, no_inner;
  for (const For& loop : outside) no_outer.Set(loop->loop_var, make_zero(loop->loop_var.dtype()));
  for (const For& loop : inside) no_inner.Set(loop->loop_var, make_zero(loop->loop_var.dtype()));
  Binding result{analyzer.Simplify(Substitute(value, no_inner)), PrimExpr(ObjectPtr<Object>())};
  PrimExpr at_zero = analyzer.Simplify(Substitute(result.outer, no_outer));
  result.inner = analyzer.Simplify(Substitute(value, no_outer) - at_zero);
  if (!analyzer.CanProveEqual(result.outer + result.inner, value)) {
    throw ScheduleError(StrCat(kName, ": axis '", axis, "' of block '", block,
                               "' isn't the sum of a part of the loops outside and a part of those inside"));
  }
  return result;
}

/// The one perfect nest inside the loop, the loop first.
std::vector<For> NestInside(const Stmt& loop) {
  std::vector<For> nest;
  Stmt at = loop;
  while (at.as<ForNode>()) {
    nest.push_back(Downcast<For>(at));
    at = nest.back()->body;
  }
  const auto* realize = at.as<BlockRealizeNode>();
  if (realize == nullptr) {
    throw ScheduleError(
        StrCat(kName, ": loop ", LoopName(nest[0]->loop_var), " must hold one perfect nest around one block"));
  }
  for (const For& inner : nest) {
    if (inner->kind == ForKind::kThreadBinding || inner->kind == ForKind::kParallel) {
      throw ScheduleError(
          StrCat(kName, ": loop ", LoopName(inner->loop_var), " is parallel or bound; blockize before"));
    }
  }
  if (!is_const_int(realize->predicate, 1)) {
    throw ScheduleError(StrCat(kName, ": block '", realize->block->name_hint,
                               "' has a condition, as its loops were split imperfectly"));
  }
  return nest;
}

void RequireRangesApart(const std::vector<For>& outside, const std::vector<For>& inside) {
  for (const For& loop : inside) {
    for (const For& other : outside) {
      if (!UsesLoopVar(loop->extent, other->loop_var) && !UsesLoopVar(loop->min, other->loop_var)) continue;
      throw ScheduleError(StrCat(kName, ": the range of loop ", LoopName(loop->loop_var), " depends on loop ",
                                 LoopName(other->loop_var), " outside"));
    }
  }
}

/// The axes of both blocks: those outside count in units of what the loops inside cover.
struct CutAxes {
  Array<IterVar> outer_axes;
  Array<PrimExpr> outer_values, inner_values;
  bool reduction_outside = false;
};

CutAxes CutAxesOf(const BlockRealizeNode* realize, const std::vector<For>& outside, const std::vector<For>& inside,
                  arith::Analyzer& analyzer) {
  const std::string& name = realize->block->name_hint;
  auto inner_domain = [&](const Var& var) -> std::optional<arith::IntSet> {
    for (const For& loop : inside) {
      if (loop->loop_var.same_as(var)) return arith::IntSet::FromRange(Range::FromMinExtent(loop->min, loop->extent));
    }
    return std::nullopt;
  };
  CutAxes result;
  for (size_t i = 0; i < realize->iter_values.size(); ++i) {
    const IterVar& iv = realize->block->iter_vars[i];
    const DataType dtype = iv->var.dtype();
    Binding binding = SplitBinding(realize->iter_values[i], outside, inside, name, iv->var->name_hint, analyzer);
    arith::IntSet set = analyzer.EvalSet(binding.inner, inner_domain);
    PrimExpr unit = set.is_bounded() ? analyzer.Simplify(set.max - set.min + 1) : PrimExpr(ObjectPtr<Object>());
    // The loops inside may cover an axis of dynamic extent as a whole.
    if (unit.defined() && !is_const_int(unit) && is_zero(binding.outer) && is_const_int(iv->dom->min, 0) &&
        analyzer.CanProveEqual(iv->dom->extent, unit)) {
      result.outer_axes.push_back(IterVar(Range::FromMinExtent(iv->dom->min, make_const(dtype, 1)),
                                          Var(iv->var->name_hint + "o", dtype), iv->iter_type));
      result.outer_values.push_back(make_zero(dtype));
      result.inner_values.push_back(binding.inner);
      continue;
    }
    const bool divides = unit.defined() && is_const_int(unit) && is_const_int(iv->dom->min, 0) &&
                         analyzer.CanProveEqual(floormod(binding.outer, unit), make_zero(dtype)) &&
                         analyzer.CanProveEqual(floormod(iv->dom->extent, unit), make_zero(dtype));
    if (!divides) {
      throw ScheduleError(StrCat(kName, ": axis '", iv->var->name_hint, "' of block '", name,
                                 "' isn't cut into equal parts by the loops inside"));
    }
    PrimExpr value = analyzer.Simplify(floordiv(binding.outer, unit));
    PrimExpr extent = analyzer.Simplify(floordiv(iv->dom->extent, unit));
    // A loop without iterations is one that init mustn't stand in, too.
    const bool runs_outside = !is_const_int(value) || is_const_int(iv->dom->extent, 0);
    if (iv->iter_type == IterVarType::kCommReduce && runs_outside) result.reduction_outside = true;
    Var outer(iv->var->name_hint + "o", dtype);
    result.outer_axes.push_back(IterVar(Range::FromMinExtent(iv->dom->min, extent), outer, iv->iter_type));
    result.outer_values.push_back(value);
    result.inner_values.push_back(analyzer.Simplify(outer * cast(dtype, unit) + binding.inner));
  }
  return result;
}

/// The init of the block for all elements that the loops inside cover, as a nest of its own.
Stmt InitNest(const BlockNode* block, const std::vector<For>& inside, const Array<PrimExpr>& inner_values,
              const std::string& name) {
  Map<Var, PrimExpr> loop_map, axis_map;
  std::vector<For> kept;
  for (const For& loop : inside) {
    loop_map.Set(loop->loop_var, Var(loop->loop_var->name_hint + "_init", loop->loop_var.dtype()));
    bool data = false;
    for (size_t i = 0; i < block->iter_vars.size(); ++i) {
      data |=
          block->iter_vars[i]->iter_type != IterVarType::kCommReduce && UsesLoopVar(inner_values[i], loop->loop_var);
    }
    if (data) kept.push_back(loop);
  }
  Array<IterVar> axes;
  Array<PrimExpr> values;
  for (size_t i = 0; i < block->iter_vars.size(); ++i) {
    const IterVar& iv = block->iter_vars[i];
    if (iv->iter_type == IterVarType::kCommReduce) continue;
    Var fresh(iv->var->name_hint, iv->var.dtype());
    axes.push_back(IterVar(iv->dom, fresh, iv->iter_type));
    axis_map.Set(iv->var, fresh);
    values.push_back(Substitute(inner_values[i], loop_map));
  }
  Stmt body = Substitute(block->init, axis_map);
  BlockAccess access = DetectBlockAccess(body, Stmt());
  Stmt nest = BlockRealize(values, make_bool(true), Block(axes, access.reads, access.writes, name, body));
  for (size_t i = kept.size(); i-- > 0;) {
    nest = For(Downcast<Var>(loop_map.at(kept[i]->loop_var)), kept[i]->min, kept[i]->extent, ForKind::kSerial, nest);
  }
  return nest;
}

}  // namespace

std::string Blockize(ScheduleState& state, const Var& loop_var) {
  Path path = state.FindLoop(loop_var, kName);
  const std::vector<For> inside = NestInside(path.back());
  const auto* realize = inside.back()->body.as<BlockRealizeNode>();
  const Block block = realize->block;
  PlacedBlock placed = state.FindBlock(block->name_hint);
  std::vector<For> outside;
  for (const For& loop : placed.Loops()) {
    if (loop.same_as(inside[0])) break;
    outside.push_back(loop);
  }
  RequireRangesApart(outside, inside);
  arith::Analyzer analyzer;
  state.BindContext(analyzer, placed.path);
  const CutAxes cut = CutAxesOf(realize, outside, inside, analyzer);

  Block inner = block;
  Stmt outer_init;
  if (block->init.defined() && cut.reduction_outside) {
    // The init runs at the first step of the loops outside, for all elements of the block.
    outer_init = InitNest(block.get(), inside, cut.inner_values, state.UniqueBlockName(block->name_hint + "_init"));
    inner.CopyOnWrite()->init = Stmt();
    inner = WithDetectedAccess(inner);
  }
  Stmt nest = BlockRealize(cut.inner_values, make_bool(true), inner);
  for (size_t i = inside.size(); i-- > 0;) {
    For loop = inside[i];
    loop.CopyOnWrite()->body = nest;
    nest = loop;
  }
  std::string outer_name = state.UniqueBlockName(block->name_hint + "_o");
  Block outer = WithDetectedAccess(Block(cut.outer_axes, {}, {}, outer_name, nest, outer_init));
  state.Replace(path, BlockRealize(cut.outer_values, make_bool(true), outer));
  return outer_name;
}

}  // namespace treadle::tir::primitive
