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

}  // namespace

std::string Blockize(ScheduleState& state, const Var& loop_var) {
  Path path = state.FindLoop(loop_var, kName);
  std::vector<For> inside;
  Stmt at = path.back();
  while (at.as<ForNode>()) {
    inside.push_back(Downcast<For>(at));
    at = inside.back()->body;
  }
  const auto* realize = at.as<BlockRealizeNode>();
  if (realize == nullptr) {
    throw ScheduleError(StrCat(kName, ": loop ", LoopName(loop_var), " must hold one perfect nest around one block"));
  }
  const Block block = realize->block;
  const std::string& name = block->name_hint;
  for (const For& loop : inside) {
    if (loop->kind == ForKind::kThreadBinding || loop->kind == ForKind::kParallel) {
      throw ScheduleError(StrCat(kName, ": loop ", LoopName(loop->loop_var), " is parallel or bound; blockize before"));
    }
  }
  if (!is_const_int(realize->predicate, 1)) {
    throw ScheduleError(StrCat(kName, ": block '", name, "' has a condition, as its loops were split imperfectly"));
  }
  PlacedBlock placed = state.FindBlock(name);
  std::vector<For> outside;
  for (const For& loop : placed.Loops()) {
    if (loop.same_as(inside[0])) break;
    outside.push_back(loop);
  }
  arith::Analyzer analyzer;
  state.BindContext(analyzer, placed.path);
  auto inner_domain = [&](const Var& var) -> std::optional<arith::IntSet> {
    for (const For& loop : inside) {
      if (loop->loop_var.same_as(var)) return arith::IntSet::FromRange(Range::FromMinExtent(loop->min, loop->extent));
    }
    return std::nullopt;
  };
  for (const For& loop : inside) {
    for (const For& other : outside) {
      if (!UsesLoopVar(loop->extent, other->loop_var) && !UsesLoopVar(loop->min, other->loop_var)) continue;
      throw ScheduleError(StrCat(kName, ": the range of loop ", LoopName(loop->loop_var), " depends on loop ",
                                 LoopName(other->loop_var), " outside"));
    }
  }

  Array<IterVar> outer_axes;
  Array<PrimExpr> outer_values, inner_values;
  bool reduction_outside = false;
  for (size_t i = 0; i < block->iter_vars.size(); ++i) {
    const IterVar& iv = block->iter_vars[i];
    const DataType dtype = iv->var.dtype();
    Binding binding = SplitBinding(realize->iter_values[i], outside, inside, name, iv->var->name_hint, analyzer);
    // In units of the part inside, where that divides what is outside.
    arith::IntSet set = analyzer.EvalSet(binding.inner, inner_domain);
    PrimExpr unit = set.is_bounded() ? analyzer.Simplify(set.max - set.min + 1) : PrimExpr(ObjectPtr<Object>());
    PrimExpr value = binding.outer, extent = iv->dom->extent, min = iv->dom->min;
    const bool divides = unit.defined() && is_const_int(unit) && is_const_int(min, 0) &&
                         analyzer.CanProveEqual(floormod(binding.outer, unit), make_zero(dtype)) &&
                         analyzer.CanProveEqual(floormod(extent, unit), make_zero(dtype));
    if (!divides) {
      throw ScheduleError(StrCat(kName, ": axis '", iv->var->name_hint, "' of block '", name,
                                 "' isn't cut into equal parts by the loops inside"));
    }
    value = analyzer.Simplify(floordiv(binding.outer, unit));
    extent = analyzer.Simplify(floordiv(extent, unit));
    // A loop without iterations is one that init mustn't stand in, too.
    const bool runs_outside = !is_const_int(value) || is_const_int(iv->dom->extent, 0);
    if (iv->iter_type == IterVarType::kCommReduce && runs_outside) reduction_outside = true;
    Var outer(iv->var->name_hint + "o", dtype);
    outer_axes.push_back(IterVar(Range::FromMinExtent(min, extent), outer, iv->iter_type));
    outer_values.push_back(value);
    inner_values.push_back(analyzer.Simplify(outer * cast(dtype, unit) + binding.inner));
  }

  Block inner = block;
  Stmt outer_init;
  if (block->init.defined() && reduction_outside) {
    // The init runs at the first step of the loops outside, for all elements of the block.
    Map<Var, PrimExpr> loop_map, axis_map;
    for (const For& loop : inside)
      loop_map.Set(loop->loop_var, Var(loop->loop_var->name_hint + "_init", loop->loop_var.dtype()));
    Array<IterVar> axes;
    Array<PrimExpr> values;
    std::vector<For> kept;
    for (const For& loop : inside) {
      bool data = false;
      for (size_t i = 0; i < block->iter_vars.size(); ++i) {
        data |=
            block->iter_vars[i]->iter_type != IterVarType::kCommReduce && UsesLoopVar(inner_values[i], loop->loop_var);
      }
      if (data) kept.push_back(loop);
    }
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
    outer_init = BlockRealize(values, make_bool(true),
                              Block(axes, access.reads, access.writes, state.UniqueBlockName(name + "_init"), body));
    for (size_t i = kept.size(); i-- > 0;) {
      const For& loop = kept[i];
      outer_init =
          For(Downcast<Var>(loop_map.at(loop->loop_var)), loop->min, loop->extent, ForKind::kSerial, outer_init);
    }
    inner.CopyOnWrite()->init = Stmt();
    inner = WithDetectedAccess(inner);
  }
  Stmt nest = BlockRealize(inner_values, make_bool(true), inner);
  for (size_t i = inside.size(); i-- > 0;) {
    For loop = inside[i];
    loop.CopyOnWrite()->body = nest;
    nest = loop;
  }
  std::string outer_name = state.UniqueBlockName(name + "_o");
  Block outer(outer_axes, {}, {}, outer_name, nest, outer_init);
  outer = WithDetectedAccess(outer);
  state.Replace(path, BlockRealize(outer_values, make_bool(true), outer));
  return outer_name;
}

}  // namespace treadle::tir::primitive
