// SPDX-License-Identifier: Apache-2.0
// Rfactor: partial results of a reduction along one of its loops, then their combination.
#include <optional>
#include <utility>

#include "tir/block_access.h"
#include "tir/conjunction.h"
#include "tir/schedule/primitives.h"
#include "tir/schedule/rfactor.h"

namespace treadle::tir::primitive {

namespace {

const char* const kName = "rfactor";

/// The stores of init, in the order of the results.
std::vector<const BufferStoreNode*> InitsOf(const BlockNode* block, const Reducer& reducer, const char* primitive) {
  std::vector<const BufferStoreNode*> result;
  for (const BufferStoreNode* store : reducer.stores) {
    for (const BufferStoreNode* init : StoresOf(block->init)) {
      if (init->buffer.same_as(store->buffer)) result.push_back(init);
    }
  }
  if (result.size() != reducer.stores.size() || result.size() != StoresOf(block->init).size()) {
    throw ScheduleError(StrCat(primitive, ": init of block '", block->name_hint, "' must store each of its ",
                               reducer.stores.size(), " results once"));
  }
  return result;
}

Array<PrimExpr> Inserted(const Array<PrimExpr>& list, size_t at, const PrimExpr& e) {
  Array<PrimExpr> result = list;
  result.insert(at, e);
  return result;
}

/// The axes of the block of partial results, their bindings, and what the axes of the original are in terms of them.
struct PartialAxes {
  Array<IterVar> axes;
  Array<PrimExpr> bindings;
  Map<Var, PrimExpr> vmap;
  Map<Var, PrimExpr> loop_map;  ///< loops that the block reduces over, to its axes
  Var factor;
};

PartialAxes AxesOf(const Reduction& p) {
  const BlockNode* block = p.placed.block();
  const Array<PrimExpr>& values = p.placed.realize->iter_values;
  PartialAxes result{{}, {}, {}, {}, Var("v" + p.loop->loop_var->name_hint, p.loop->loop_var.dtype())};
  for (size_t i = 0; i < block->iter_vars.size(); ++i) {
    const IterVar iv = block->iter_vars[i];
    if (iv->iter_type == IterVarType::kCommReduce) continue;
    Var fresh(iv->var->name_hint, iv->var.dtype());
    result.vmap.Set(iv->var, fresh);
    result.axes.push_back(IterVar(iv->dom, fresh, iv->iter_type));
    result.bindings.push_back(values[i]);
  }
  result.axes.push_back(IterVar(Range(p.loop->extent), result.factor, IterVarType::kDataPar));
  result.bindings.push_back(p.loop->loop_var);
  result.loop_map.Set(p.loop->loop_var, result.factor);
  // Each other loop that drives a reduction becomes an axis of its own.
  for (const For& loop : p.placed.Loops()) {
    const IterKinds driven = IterKindsBoundTo(p.placed, loop->loop_var);
    if (loop->loop_var.same_as(p.loop->loop_var) || !driven.reduction) continue;
    if (driven.data) {
      throw ScheduleError(StrCat(kName, ": loop ", LoopName(loop->loop_var),
                                 " iterates over both data-parallel and reduction axes of ", "block '",
                                 block->name_hint, "'"));
    }
    Var fresh("v" + loop->loop_var->name_hint, loop->loop_var.dtype());
    result.axes.push_back(IterVar(Range::FromMinExtent(loop->min, loop->extent), fresh, IterVarType::kCommReduce));
    result.bindings.push_back(loop->loop_var);
    result.loop_map.Set(loop->loop_var, fresh);
  }
  for (size_t i = 0; i < block->iter_vars.size(); ++i) {
    const IterVar iv = block->iter_vars[i];
    if (iv->iter_type == IterVarType::kCommReduce) result.vmap.Set(iv->var, Substitute(values[i], result.loop_map));
  }
  return result;
}

/// Conditions of the block with reduced loops say what is added (`added`, in terms of the axes); init must happen all
/// the same, where the others hold.
struct Conditions {
  PrimExpr where = make_bool(true), added = make_bool(true);
};

Conditions SplitConditions(const Reduction& p, const Map<Var, PrimExpr>& loop_map) {
  Conditions result;
  for (const PrimExpr& e : SplitConjunction(p.placed.realize->predicate)) {
    if (!arith::UsesVar(e, [&](const VarNode* v) { return loop_map.contains(GetRef<Var>(v)); })) {
      result.where = result.where && e;
      continue;
    }
    for (const For& loop : p.placed.Loops()) {
      if (UsesLoopVar(e, loop->loop_var) && !loop_map.contains(loop->loop_var)) {
        throw ScheduleError(StrCat(kName, ": a condition of block '", p.placed.name(), "' mixes loop ",
                                   LoopName(loop->loop_var), " with reduced loops"));
      }
    }
    result.added = result.added && Substitute(e, loop_map);
  }
  return result;
}

/// Results become their partial ones, at a further index.
class ToPartial : public StmtExprMutator {
 public:
  ToPartial(const Map<Buffer, Buffer>& partial, size_t axis, const Var& factor)
      : partial_(partial), axis_(axis), factor_(factor) {}

 protected:
  using StmtExprMutator::VisitExpr_;
  using StmtExprMutator::VisitStmt_;
  PrimExpr VisitExpr_(const BufferLoadNode* op) override {
    PrimExpr load = StmtExprMutator::VisitExpr_(op);
    std::optional<Buffer> partial = partial_.Get(op->buffer);
    if (!partial.has_value()) return load;
    return BufferLoad(*partial, Inserted(load.as<BufferLoadNode>()->indices, axis_, factor_));
  }
  Stmt VisitStmt_(const BufferStoreNode* op) override {
    Stmt stmt = StmtExprMutator::VisitStmt_(op);
    std::optional<Buffer> partial = partial_.Get(op->buffer);
    if (!partial.has_value()) return stmt;
    const auto* store = stmt.as<BufferStoreNode>();
    return BufferStore(*partial, store->value, Inserted(store->indices, axis_, factor_));
  }

 private:
  const Map<Buffer, Buffer>& partial_;
  size_t axis_;
  const Var& factor_;
};

}  // namespace

Reduction ReductionOver(const PlacedBlock& placed, const ForNode* loop, const char* primitive) {
  const BlockNode* block = placed.block();
  const std::string& name = placed.name();
  if (!block->init.defined()) {
    throw ScheduleError(StrCat(primitive, ": block '", name, "' isn't a reduction with init"));
  }
  bool drives = false;
  for (size_t i = 0; i < block->iter_vars.size(); ++i) {
    if (!UsesLoopVar(placed.realize->iter_values[i], loop->loop_var)) continue;
    if (block->iter_vars[i]->iter_type != IterVarType::kCommReduce) {
      throw ScheduleError(StrCat(primitive, ": loop ", LoopName(loop->loop_var), " iterates over axis '",
                                 block->iter_vars[i]->var->name_hint, "' of block '", name, "', which isn't reduced"));
    }
    drives = true;
  }
  if (!drives) {
    throw ScheduleError(StrCat(primitive, ": loop ", LoopName(loop->loop_var),
                               " iterates over no reduction axis of block '", name, "'"));
  }
  if (!is_const_int(loop->min, 0)) {
    throw ScheduleError(StrCat(primitive, ": loop ", LoopName(loop->loop_var), " must start at 0"));
  }
  Reduction p{placed, loop, MatchReducer(block, primitive), {}};
  p.inits = InitsOf(block, p.reducer, primitive);
  return p;
}

BlockRealize PartialBlock(const Reduction& p, const Map<Buffer, Buffer>& partial, size_t axis,
                          const std::string& name) {
  const PartialAxes a = AxesOf(p);
  const Conditions conditions = SplitConditions(p, a.loop_map);
  ToPartial to_partial(partial, axis, a.factor);
  Array<Stmt> inits;
  for (size_t i = 0; i < p.inits.size(); ++i) {
    const PrimExpr& identity = p.reducer.identities[i];
    Stmt store =
        BufferStore(p.inits[i]->buffer, identity.defined() ? identity : p.inits[i]->value, p.inits[i]->indices);
    inits.push_back(to_partial(Substitute(store, a.vmap)));
  }
  Stmt init = SeqStmt::Flatten(inits);
  Stmt body = to_partial(Substitute(p.placed.block()->body, a.vmap));
  if (!is_const_int(conditions.added, 1)) body = IfThenElse(conditions.added, body);
  BlockAccess access = DetectBlockAccess(body, init);
  return BlockRealize(a.bindings, conditions.where, Block(a.axes, access.reads, access.writes, name, body, init));
}

namespace {

/// The results combined with one partial one each.
Stmt Combination(const Reduction& p, const Map<Buffer, Buffer>& partial, size_t axis, const Map<Var, PrimExpr>& vmap,
                 const Var& factor) {
  Array<PrimExpr> earlier, later;
  Array<Array<PrimExpr>> indices;
  for (const BufferStoreNode* store : p.reducer.stores) {
    indices.push_back(store->indices.Map([&](const PrimExpr& e) { return Substitute(e, vmap); }));
    earlier.push_back(BufferLoad(store->buffer, indices.back()));
    later.push_back(BufferLoad(partial.at(store->buffer), Inserted(indices.back(), axis, factor)));
  }
  Array<PrimExpr> values = p.reducer.combine(earlier, later);
  Array<Stmt> stores;
  std::vector<std::pair<Var, PrimExpr>> lets;
  for (size_t i = 0; i < values.size(); ++i) {
    const Buffer& buffer = p.reducer.stores[i]->buffer;
    PrimExpr value = values[i];
    if (values.size() > 1) {
      // No store may happen before all values are computed.
      lets.emplace_back(Var(StrCat("r", i), buffer->dtype), value);
      value = lets.back().first;
    }
    stores.push_back(BufferStore(buffer, value, indices[i]));
  }
  Stmt body = SeqStmt::Flatten(stores);
  for (size_t i = lets.size(); i-- > 0;) body = LetStmt(lets[i].first, lets[i].second, body);
  return body;
}

/// Loops and the block that combine the partial results; it keeps the name of the original.
Stmt FinalNest(const Reduction& p, const Map<Buffer, Buffer>& partial, size_t axis) {
  const BlockNode* block = p.placed.block();
  Array<IterVar> axes;
  Array<PrimExpr> bindings;
  Map<Var, PrimExpr> vmap;
  std::vector<std::pair<Var, Range>> loops;
  auto declare = [&](const Var& like, const Range& dom, IterVarType type) {
    Var axis_var(like->name_hint, like.dtype());
    std::string base = like->name_hint;
    Var loop(base.size() > 1 && base[0] == 'v' ? base.substr(1) : base, like.dtype());
    axes.push_back(IterVar(dom, axis_var, type));
    bindings.push_back(loop);
    loops.emplace_back(loop, dom);
    return axis_var;
  };
  for (const IterVar& iv : block->iter_vars) {
    if (iv->iter_type != IterVarType::kCommReduce) vmap.Set(iv->var, declare(iv->var, iv->dom, iv->iter_type));
  }
  Var factor = declare(Var("v" + p.loop->loop_var->name_hint, p.loop->loop_var.dtype()), Range(p.loop->extent),
                       IterVarType::kCommReduce);
  Stmt body = Combination(p, partial, axis, vmap, factor);
  Stmt init = Substitute(block->init, vmap);
  BlockAccess access = DetectBlockAccess(body, init);
  Stmt nest =
      BlockRealize(bindings, make_bool(true),
                   Block(axes, access.reads, access.writes, block->name_hint, body, init, {}, {}, block->annotations));
  for (size_t i = loops.size(); i-- > 0;) {
    nest = For(loops[i].first, loops[i].second->min, loops[i].second->extent, ForKind::kSerial, nest);
  }
  return nest;
}

}  // namespace

std::string RFactor(ScheduleState& state, const Var& loop_var, int factor_axis) {
  Path path = state.FindLoop(loop_var, kName);
  std::vector<PlacedBlock> inside = BlocksIn(path.back());
  if (inside.size() != 1) {
    throw ScheduleError(StrCat(kName, ": loop ", LoopName(loop_var), " must hold one block, not ", inside.size()));
  }
  const Reduction p = ReductionOver(state.FindBlock(inside[0].name()), path.back().as<ForNode>(), kName);
  RequireTopLevel(p.placed, kName);
  const Buffer& first = p.reducer.stores[0]->buffer;
  auto rank = static_cast<int>(first->shape.size());
  for (const BufferStoreNode* store : p.reducer.stores) {
    if (store->buffer->shape.size() == first->shape.size()) continue;
    throw ScheduleError(StrCat(kName, ": results '", first->name, "' and '", store->buffer->name, "' of block '",
                               p.placed.name(), "' have different ranks"));
  }
  if (factor_axis < -(rank + 1) || factor_axis > rank) {
    throw ScheduleError(StrCat(kName, ": buffer '", first->name, "' has ", rank, " dimensions; factor_axis ",
                               factor_axis, " is outside"));
  }
  auto axis = static_cast<size_t>(factor_axis < 0 ? factor_axis + rank + 1 : factor_axis);
  // The whole nest of the block is followed by the combination.
  size_t top = p.placed.ScopeIndex() + 1;
  if (p.placed.path[top].as<SeqStmtNode>()) ++top;
  for (const PlacedBlock& other : BlocksIn(p.placed.path[top])) {
    if (other.name() == p.placed.name()) continue;
    for (const BufferStoreNode* store : p.reducer.stores) {
      if (!ReadsBuffer(other.block(), store->buffer)) continue;
      throw ScheduleError(StrCat(kName, ": block '", other.name(), "' reads the result of block '", p.placed.name(),
                                 "' inside the same loops"));
    }
  }
  Map<Buffer, Buffer> partial;
  for (const BufferStoreNode* store : p.reducer.stores) {
    const Buffer& buffer = store->buffer;
    partial.Set(buffer, DeclBuffer(Inserted(buffer->shape, axis, p.loop->extent), buffer->dtype,
                                   state.UniqueBufferName(buffer->name + ".rf")));
  }
  std::string name = state.UniqueBlockName(p.placed.name() + ".rf");
  Stmt current = PartialBlock(p, partial, axis, name);
  for (size_t i = p.placed.path.size() - 1; i-- > top;) {
    current = WithChild(p.placed.path[i], p.placed.path[i + 1], current);
  }
  Path prefix(p.placed.path.begin(), p.placed.path.begin() + static_cast<std::ptrdiff_t>(top) + 1);
  state.Replace(prefix, SeqStmt::Flatten({current, FinalNest(p, partial, axis)}));
  for (const BufferStoreNode* store : p.reducer.stores) state.AddAlloc(partial.at(store->buffer));
  return name;
}

}  // namespace treadle::tir::primitive
