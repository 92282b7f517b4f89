// SPDX-License-Identifier: Apache-2.0
// Split, fuse, reorder.
#include <algorithm>
#include <utility>

#include "tir/schedule/primitives.h"
#include "treadle/tir/text.h"

namespace treadle::tir::primitive {

namespace {

void RequireUnboundLoop(const ForNode* loop, const char* primitive) {
  if (loop->kind == ForKind::kSerial) return;
  throw ScheduleError(StrCat(primitive, ": loop ", LoopName(loop->loop_var),
                             " is already parallel, vectorized, unrolled or bound; ", primitive, " it before"));
}

/// The factors with the null one computed, so that all iterations are covered; checks them. Whether there was one.
bool CompleteFactors(const ForNode* loop, std::vector<PrimExpr>& factors, arith::Analyzer& analyzer) {
  int missing = -1;
  DataType dtype = loop->loop_var.dtype();
  PrimExpr product = make_const(dtype, 1);
  for (size_t i = 0; i < factors.size(); ++i) {
    if (!factors[i].defined()) {
      if (missing >= 0) {
        throw ScheduleError(StrCat("split: loop ", LoopName(loop->loop_var), ": at most one factor may be left open"));
      }
      missing = static_cast<int>(i);
      continue;
    }
    if (const int64_t* value = AsConstInt(factors[i]); value && *value <= 0) {
      throw ScheduleError(StrCat("split: loop ", LoopName(loop->loop_var), ": factor ", *value, " isn't positive"));
    }
    factors[i] = cast(dtype, factors[i]);
    product = product * factors[i];
  }
  if (missing >= 0) factors[missing] = analyzer.Simplify(ceildiv(loop->extent, product));
  return missing >= 0;
}

}  // namespace

std::vector<Var> Split(ScheduleState& state, const Var& var, std::vector<PrimExpr> factors,
                       const std::vector<std::string>& names) {
  if (factors.empty()) throw ScheduleError("split needs at least one factor");
  Path path = state.FindLoop(var, "split");
  const auto* loop = path.back().as<ForNode>();
  RequireUnboundLoop(loop, "split");
  arith::Analyzer analyzer;
  state.BindContext(analyzer, Path(path.begin(), path.end() - 1));
  const bool covered = CompleteFactors(loop, factors, analyzer);

  DataType dtype = var.dtype();
  std::vector<Var> vars;
  PrimExpr index = make_const(dtype, 0), product = make_const(dtype, 1);
  for (size_t i = 0; i < factors.size(); ++i) {
    Var part(i < names.size() ? names[i] : StrCat(var->name_hint, "_", i), dtype);
    vars.push_back(part);
    analyzer.Bind(part, Range(factors[i]));
    index = index * factors[i] + part;
    product = product * factors[i];
  }
  index = analyzer.Simplify(index);
  if (!covered && !analyzer.CanProveLessEqual(loop->extent, product)) {
    throw ScheduleError(StrCat("split: the factors of loop ", LoopName(var), " cover ", tir::AsText(product, false),
                               " iterations, its extent is ", tir::AsText(loop->extent, false)));
  }
  bool exact = analyzer.CanProve(index < loop->extent);
  Map<Var, PrimExpr> vmap;
  vmap.Set(var, analyzer.Simplify(loop->min + index));
  Stmt body = SubstituteLoopVars(loop->body, vmap, analyzer);
  if (!exact) body = AddPredicate(body, index < loop->extent);
  for (size_t i = factors.size(); i-- > 0;) {
    body = For(vars[i], make_const(dtype, 0), factors[i], ForKind::kSerial, body, IterVar(),
               i == 0 ? loop->annotations : Map<String, ObjectRef>());
  }
  state.Replace(path, body);
  return vars;
}

namespace {

/// Where loops of a reduction are fused with others, init runs with the first element: there must be one.
void CheckHasFirstElement(const std::vector<const ForNode*>& nest, arith::Analyzer& analyzer) {
  for (const PlacedBlock& b : BlocksIn(nest.back()->body)) {
    if (!b.block()->init.defined()) continue;
    bool drives_data = false;
    const ForNode* empty = nullptr;
    for (const ForNode* loop : nest) {
      for (size_t i = 0; i < b.realize->iter_values.size(); ++i) {
        if (!UsesLoopVar(b.realize->iter_values[i], loop->loop_var)) continue;
        const bool reduces = b.block()->iter_vars[i]->iter_type == IterVarType::kCommReduce;
        drives_data |= !reduces;
        if (reduces && !analyzer.CanProveLess(make_zero(loop->extent.dtype()), loop->extent)) empty = loop;
      }
    }
    if (!drives_data || empty == nullptr) continue;
    throw ScheduleError(StrCat("fuse: reduction loop ", LoopName(empty->loop_var), " of block '", b.name(),
                               "' may have no iterations, and then the fused loop wouldn't initialise the result; "
                               "use decompose_reduction first"));
  }
}

}  // namespace

Var Fuse(ScheduleState& state, const std::vector<Var>& loops, const std::string& name) {
  if (loops.empty()) throw ScheduleError("fuse needs at least one loop");
  Path path = state.FindLoop(loops[0], "fuse");
  arith::Analyzer analyzer;
  state.BindContext(analyzer, Path(path.begin(), path.end() - 1));
  std::vector<const ForNode*> nest{path.back().as<ForNode>()};
  for (size_t i = 1; i < loops.size(); ++i) {
    const auto* inner = nest.back()->body.as<ForNode>();
    if (inner == nullptr || !inner->loop_var.same_as(loops[i])) {
      throw ScheduleError(StrCat("fuse: loop ", LoopName(loops[i]), " isn't the only content of loop ",
                                 LoopName(loops[i - 1]), "; only directly nested loops can be fused"));
    }
    nest.push_back(inner);
  }
  DataType dtype = loops[0].dtype();
  for (const ForNode* loop : nest) {
    RequireUnboundLoop(loop, "fuse");
    if (loop->loop_var.dtype().bits() > dtype.bits()) dtype = loop->loop_var.dtype();
    for (const ForNode* outer : nest) {
      if (UsesLoopVar(loop->extent, outer->loop_var) || UsesLoopVar(loop->min, outer->loop_var)) {
        throw ScheduleError(StrCat("fuse: the range of loop ", LoopName(loop->loop_var), " depends on loop ",
                                   LoopName(outer->loop_var)));
      }
    }
  }
  CheckHasFirstElement(nest, analyzer);
  std::string fused_name = name;
  PrimExpr total = make_const(dtype, 1);
  for (const ForNode* loop : nest) {
    if (name.empty()) fused_name += loop->loop_var->name_hint + "_";
    total = total * cast(dtype, loop->extent);
  }
  Var fused(name.empty() ? fused_name + "fused" : fused_name, dtype);
  total = analyzer.Simplify(total);
  analyzer.Bind(fused, Range(total));
  Map<Var, PrimExpr> vmap;
  // Divided extent by extent, so that what puts the indices together again finds the quotients where extents are
  // dynamic.
  PrimExpr rest = fused;
  for (size_t i = nest.size(); i-- > 0;) {
    PrimExpr extent = cast(dtype, nest[i]->extent);
    // Loops without iterations have no positions; nothing may be divided by their extent.
    if (is_const_int(extent, 0)) extent = make_const(dtype, 1);
    const PrimExpr index = i > 0 ? floormod(rest, extent) : rest;
    vmap.Set(loops[i], analyzer.Simplify(cast(loops[i].dtype(), index) + nest[i]->min));
    rest = analyzer.Simplify(floordiv(rest, extent));
  }
  Stmt body = SubstituteLoopVars(nest.back()->body, vmap, analyzer);
  state.Replace(path, For(fused, make_const(dtype, 0), total, ForKind::kSerial, body));
  return fused;
}

namespace {

/// The perfect nest from the outermost of the loops to the innermost; throws where other statements stand between.
std::vector<const ForNode*> NestOf(const Path& path, const std::vector<Var>& loops) {
  std::vector<const ForNode*> nest;
  auto in_nest = [&](const Var& var) {
    return std::any_of(nest.begin(), nest.end(), [&](const ForNode* l) { return l->loop_var.same_as(var); });
  };
  for (const auto* loop = path.back().as<ForNode>(); loop != nullptr; loop = loop->body.as<ForNode>()) {
    nest.push_back(loop);
    if (std::all_of(loops.begin(), loops.end(), in_nest)) return nest;
  }
  const Var& missing = *std::find_if_not(loops.begin(), loops.end(), in_nest);
  throw ScheduleError(StrCat("reorder: loop ", LoopName(missing), " isn't in one perfect nest with loop ",
                             LoopName(nest[0]->loop_var), "; other statements stand between them"));
}

/// The nest with the listed loops in their order, at the places that they have together.
std::vector<const ForNode*> Reordered(const std::vector<const ForNode*>& nest, const std::vector<Var>& loops) {
  std::vector<const ForNode*> order;
  size_t next = 0;
  for (const ForNode* loop : nest) {
    if (std::any_of(loops.begin(), loops.end(), [&](const Var& v) { return v.same_as(loop->loop_var); })) {
      const Var& wanted = loops[next++];
      loop = *std::find_if(nest.begin(), nest.end(), [&](const ForNode* l) { return l->loop_var.same_as(wanted); });
    }
    order.push_back(loop);
  }
  for (size_t i = 0; i < order.size(); ++i) {
    for (size_t j = i; j < order.size(); ++j) {
      if (!UsesLoopVar(order[i]->extent, order[j]->loop_var) && !UsesLoopVar(order[i]->min, order[j]->loop_var)) {
        continue;
      }
      throw ScheduleError(StrCat("reorder: the range of loop ", LoopName(order[i]->loop_var), " depends on loop ",
                                 LoopName(order[j]->loop_var), ", which would move inside it"));
    }
  }
  return order;
}

/// Whether each element that the block writes depends, of what it writes, on earlier steps of `axis` of itself alone,
/// and one loop alone drives that axis: then the steps keep their order wherever that loop stands.
bool StepsByItself(const PlacedBlock& b, size_t axis) {
  if (b.realize->iter_values[axis].as<VarNode>() == nullptr) return false;
  const Var step = b.block()->iter_vars[axis]->var;
  std::vector<const BufferStoreNode*> stores;
  std::vector<const BufferLoadNode*> loads;
  PostOrderVisit(b.block()->body, [&](const ObjectRef& e) {
    if (const auto* store = e.as<BufferStoreNode>()) stores.push_back(store);
    const auto* load = e.as<BufferLoadNode>();
    if (load != nullptr && WritesBuffer(b.block(), load->buffer)) loads.push_back(load);
  });
  // Along the dimension of the steps others are read, at a place that nothing else decides; elsewhere the same.
  const auto is_earlier_step = [&](const BufferStoreNode* store, const BufferLoadNode* load) {
    bool fits = load->buffer.same_as(store->buffer);
    for (size_t d = 0; fits && d < load->indices.size(); ++d) {
      const bool is_step = store->indices[d].same_as(step);
      const auto other = [&](const VarNode* var) { return var != step.get(); };
      fits = is_step
                 ? !arith::UsesVar(load->indices[d], other)
                 : arith::ExprDeepEqual(load->indices[d], store->indices[d]) && !UsesLoopVar(load->indices[d], step);
    }
    return fits;
  };
  return stores.size() == 1 && std::all_of(loads.begin(), loads.end(), [&](const BufferLoadNode* load) {
           return is_earlier_step(stores[0], load);
         });
}

/// Throws where the block's results depend on the order of the loops.
void RequireAnyOrder(const PlacedBlock& b, const std::vector<Var>& loops) {
  for (size_t i = 0; i < b.realize->iter_values.size(); ++i) {
    const IterVar& axis = b.block()->iter_vars[i];
    if (axis->iter_type == IterVarType::kDataPar || axis->iter_type == IterVarType::kCommReduce) continue;
    if (StepsByItself(b, i)) continue;
    for (const Var& var : loops) {
      if (!UsesLoopVar(b.realize->iter_values[i], var)) continue;
      throw ScheduleError(StrCat("reorder: axis '", axis->var->name_hint, "' of block '", b.name(),
                                 "' must run in order, and loop ", LoopName(var), " iterates over it"));
    }
  }
  // A reduction is initialised at its first iteration. Where one loop drives both where and what is added, another
  // order of the loops could come to that iteration late.
  if (!b.block()->init.defined()) return;
  for (const Var& var : loops) {
    const auto [data, reduction] = IterKindsBoundTo(b, var);
    if (!data || !reduction) continue;
    throw ScheduleError(StrCat("reorder: loop ", LoopName(var),
                               " iterates over both data-parallel and reduction axes of block '", b.name(),
                               "'; decompose the reduction or don't fuse them"));
  }
}

}  // namespace

void Reorder(ScheduleState& state, const std::vector<Var>& loops) {
  for (size_t i = 0; i < loops.size(); ++i) {
    for (size_t j = i + 1; j < loops.size(); ++j) {
      if (loops[i].same_as(loops[j]))
        throw ScheduleError(StrCat("reorder: loop ", LoopName(loops[i]), " is listed twice"));
    }
  }
  if (loops.size() < 2) {
    if (!loops.empty()) state.FindLoop(loops[0], "reorder");
    return;
  }
  // The outermost of them has the shortest path.
  Path path = state.FindLoop(loops[0], "reorder");
  for (const Var& var : loops) {
    Path other = state.FindLoop(var, "reorder");
    if (other.size() < path.size()) path = other;
  }
  const std::vector<const ForNode*> nest = NestOf(path, loops), order = Reordered(nest, loops);
  Stmt body = nest.back()->body;
  for (const PlacedBlock& b : BlocksIn(body)) RequireAnyOrder(b, loops);
  for (size_t i = order.size(); i-- > 0;) {
    For loop = GetRef<For>(order[i]);
    loop.CopyOnWrite()->body = body;
    body = loop;
  }
  state.Replace(path, body);
}

Var AddUnitLoop(ScheduleState& state, const std::string& block) {
  PlacedBlock placed = state.FindBlock(block);
  if (placed.path.size() == 1) throw ScheduleError("add_unit_loop: the root block can't be inside a loop");
  Var var("u", DataType::Int(32));
  state.Replace(placed.path, For(var, PrimExpr(0), PrimExpr(1), ForKind::kSerial, placed.realize));
  return var;
}

}  // namespace treadle::tir::primitive
