// SPDX-License-Identifier: Apache-2.0
// Rfactor: partial results of a reduction along one of its loops, then their combination.
#include <utility>

#include "tir/block_access.h"
#include "tir/buffer_replacer.h"
#include "tir/conjunction.h"
#include "tir/schedule/primitives.h"

namespace treadle::tir::primitive {

namespace {

const char* const kName = "rfactor";

using Combine = PrimExpr (*)(PrimExpr, PrimExpr);

/// The combiner of `C[..] = C[..] op value`; throws where it is another form.
Combine CombinerOf(const BlockNode* block, const BufferStoreNode* store) {
  PrimExpr value = store->value;
  while (const auto* let = value.as<LetNode>()) value = let->body;
  auto is_result = [&](const PrimExpr& e) {
    const auto* load = e.as<BufferLoadNode>();
    if (load == nullptr || !load->buffer.same_as(store->buffer)) return false;
    for (size_t i = 0; i < load->indices.size(); ++i) {
      if (!arith::ExprDeepEqual(load->indices[i], store->indices[i])) return false;
    }
    return true;
  };
  auto matches = [&](const PrimExpr& a, const PrimExpr& b) { return is_result(a) || is_result(b); };
  if (const auto* op = value.as<AddNode>(); op && matches(op->a, op->b)) return add;
  if (const auto* op = value.as<MulNode>(); op && matches(op->a, op->b)) return mul;
  if (const auto* op = value.as<MinNode>(); op && matches(op->a, op->b)) return min;
  if (const auto* op = value.as<MaxNode>(); op && matches(op->a, op->b)) return max;
  throw ScheduleError(
      StrCat(kName, ": the reduction of block '", block->name_hint, "' isn't a sum, product, minimum or maximum"));
}

struct Pieces {
  PlacedBlock placed;
  const ForNode* loop;
  const BufferStoreNode* store;
  const BufferStoreNode* init;
  Combine combine;
};

Pieces Check(const ScheduleState& state, const Path& path) {
  const auto* loop = path.back().as<ForNode>();
  std::vector<PlacedBlock> inside = BlocksIn(path.back());
  if (inside.size() != 1) {
    throw ScheduleError(
        StrCat(kName, ": loop ", LoopName(loop->loop_var), " must hold one block, not ", inside.size()));
  }
  Pieces p{state.FindBlock(inside[0].name()), loop, nullptr, nullptr, nullptr};
  const BlockNode* block = p.placed.block();
  const std::string& name = p.placed.name();
  if (!block->init.defined()) throw ScheduleError(StrCat(kName, ": block '", name, "' isn't a reduction with init"));
  p.store = block->body.as<BufferStoreNode>();
  p.init = block->init.as<BufferStoreNode>();
  if (p.store == nullptr || p.init == nullptr) {
    throw ScheduleError(StrCat(kName, ": block '", name, "' must have one result and no condition"));
  }
  bool drives = false;
  for (size_t i = 0; i < block->iter_vars.size(); ++i) {
    if (!UsesLoopVar(p.placed.realize->iter_values[i], loop->loop_var)) continue;
    if (block->iter_vars[i]->iter_type != IterVarType::kCommReduce) {
      throw ScheduleError(StrCat(kName, ": loop ", LoopName(loop->loop_var), " drives axis '",
                                 block->iter_vars[i]->var->name_hint, "' of block '", name, "', which isn't reduced"));
    }
    drives = true;
  }
  if (!drives) {
    throw ScheduleError(
        StrCat(kName, ": loop ", LoopName(loop->loop_var), " drives no reduction axis of block '", name, "'"));
  }
  if (!is_const_int(loop->min, 0))
    throw ScheduleError(StrCat(kName, ": loop ", LoopName(loop->loop_var), " must start at 0"));
  p.combine = CombinerOf(block, p.store);
  return p;
}

Array<PrimExpr> Inserted(const Array<PrimExpr>& list, size_t at, const PrimExpr& e) {
  Array<PrimExpr> result = list;
  result.insert(at, e);
  return result;
}

/// The block of partial results, in place of the original.
Stmt PartialBlock(const Pieces& p, const Buffer& partial, size_t axis, const std::string& name) {
  const BlockNode* block = p.placed.block();
  Array<IterVar> axes;
  Array<PrimExpr> bindings;
  Map<Var, PrimExpr> vmap;
  for (size_t i = 0; i < block->iter_vars.size(); ++i) {
    const IterVar iv = block->iter_vars[i];
    if (iv->iter_type == IterVarType::kCommReduce) continue;
    Var fresh(iv->var->name_hint, iv->var.dtype());
    vmap.Set(iv->var, fresh);
    axes.push_back(IterVar(iv->dom, fresh, iv->iter_type));
    bindings.push_back(p.placed.realize->iter_values[i]);
  }
  Var factor("v" + p.loop->loop_var->name_hint, p.loop->loop_var.dtype());
  axes.push_back(IterVar(Range(p.loop->extent), factor, IterVarType::kDataPar));
  bindings.push_back(p.loop->loop_var);
  // Each other loop that drives a reduction becomes an axis of its own.
  Map<Var, PrimExpr> loop_map;
  loop_map.Set(p.loop->loop_var, factor);
  for (const For& loop : p.placed.Loops()) {
    if (loop->loop_var.same_as(p.loop->loop_var)) continue;
    bool reduces = false;
    for (size_t i = 0; i < block->iter_vars.size(); ++i) {
      reduces |= block->iter_vars[i]->iter_type == IterVarType::kCommReduce &&
                 UsesLoopVar(p.placed.realize->iter_values[i], loop->loop_var);
    }
    if (!reduces) continue;
    for (size_t i = 0; i < block->iter_vars.size(); ++i) {
      if (block->iter_vars[i]->iter_type == IterVarType::kCommReduce ||
          !UsesLoopVar(p.placed.realize->iter_values[i], loop->loop_var)) {
        continue;
      }
      throw ScheduleError(StrCat(kName, ": loop ", LoopName(loop->loop_var), " drives both data and reduction axes of ",
                                 "block '", block->name_hint, "'"));
    }
    Var fresh("v" + loop->loop_var->name_hint, loop->loop_var.dtype());
    axes.push_back(IterVar(Range::FromMinExtent(loop->min, loop->extent), fresh, IterVarType::kCommReduce));
    bindings.push_back(loop->loop_var);
    loop_map.Set(loop->loop_var, fresh);
  }
  for (size_t i = 0; i < block->iter_vars.size(); ++i) {
    const IterVar iv = block->iter_vars[i];
    if (iv->iter_type == IterVarType::kCommReduce)
      vmap.Set(iv->var, Substitute(p.placed.realize->iter_values[i], loop_map));
  }
  // Conditions with reduced loops say what is added; init must happen all the same.
  PrimExpr where = make_bool(true), added = make_bool(true);
  for (const PrimExpr& e : SplitConjunction(p.placed.realize->predicate)) {
    bool reduced = arith::UsesVar(e, [&](const VarNode* v) { return loop_map.contains(GetRef<Var>(v)); });
    if (!reduced) {
      where = where && e;
      continue;
    }
    for (const For& loop : p.placed.Loops()) {
      if (UsesLoopVar(e, loop->loop_var) && !loop_map.contains(loop->loop_var)) {
        throw ScheduleError(StrCat(kName, ": a condition of block '", block->name_hint, "' mixes loop ",
                                   LoopName(loop->loop_var), " with reduced loops"));
      }
    }
    added = added && Substitute(e, loop_map);
  }
  class ToPartial : public ExprMutator {
   public:
    ToPartial(const Buffer& from, const Buffer& to, size_t axis, const Var& factor)
        : from_(from), to_(to), axis_(axis), factor_(factor) {}

   protected:
    PrimExpr VisitExpr_(const BufferLoadNode* op) override {
      PrimExpr load = ExprMutator::VisitExpr_(op);
      if (!op->buffer.same_as(from_)) return load;
      return BufferLoad(to_, Inserted(load.as<BufferLoadNode>()->indices, axis_, factor_));
    }

   private:
    const Buffer &from_, &to_;
    size_t axis_;
    const Var& factor_;
  } to_partial(p.store->buffer, partial, axis, factor);
  auto indices = [&](const BufferStoreNode* store) {
    return Inserted(store->indices.Map([&](const PrimExpr& e) { return Substitute(e, vmap); }), axis, factor);
  };
  Stmt init = BufferStore(partial, Substitute(p.init->value, vmap), indices(p.init));
  Stmt body = BufferStore(partial, to_partial(Substitute(p.store->value, vmap)), indices(p.store));
  if (!is_const_int(added, 1)) body = IfThenElse(added, body);
  BlockAccess access = DetectBlockAccess(body, init);
  return BlockRealize(bindings, where, Block(axes, access.reads, access.writes, name, body, init));
}

/// Loops and the block that combine the partial results; it keeps the name of the original.
Stmt FinalNest(const Pieces& p, const Buffer& partial, size_t axis) {
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
  Array<PrimExpr> indices = p.store->indices.Map([&](const PrimExpr& e) { return Substitute(e, vmap); });
  PrimExpr value =
      p.combine(BufferLoad(p.store->buffer, indices), BufferLoad(partial, Inserted(indices, axis, factor)));
  Stmt body = BufferStore(p.store->buffer, value, indices);
  Stmt init = BufferStore(p.init->buffer, Substitute(p.init->value, vmap),
                          p.init->indices.Map([&](const PrimExpr& e) { return Substitute(e, vmap); }));
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
  Pieces p = Check(state, path);
  RequireTopLevel(p.placed, kName);
  auto rank = static_cast<int>(p.store->buffer->shape.size());
  if (factor_axis < -(rank + 1) || factor_axis > rank) {
    throw ScheduleError(StrCat(kName, ": buffer '", p.store->buffer->name, "' has ", rank, " dimensions; factor_axis ",
                               factor_axis, " is outside"));
  }
  auto axis = static_cast<size_t>(factor_axis < 0 ? factor_axis + rank + 1 : factor_axis);
  // The whole nest of the block is followed by the combination.
  size_t top = p.placed.ScopeIndex() + 1;
  if (p.placed.path[top].as<SeqStmtNode>()) ++top;
  for (const PlacedBlock& other : BlocksIn(p.placed.path[top])) {
    if (other.name() != p.placed.name() && ReadsBuffer(other.block(), p.store->buffer)) {
      throw ScheduleError(StrCat(kName, ": block '", other.name(), "' reads the result of block '", p.placed.name(),
                                 "' inside the same loops"));
    }
  }
  Buffer partial = DeclBuffer(Inserted(p.store->buffer->shape, axis, p.loop->extent), p.store->buffer->dtype,
                              state.UniqueBufferName(p.store->buffer->name + ".rf"));
  std::string name = state.UniqueBlockName(p.placed.name() + ".rf");
  Stmt current = PartialBlock(p, partial, axis, name);
  for (size_t i = p.placed.path.size() - 1; i-- > top;) {
    current = WithChild(p.placed.path[i], p.placed.path[i + 1], current);
  }
  Path prefix(p.placed.path.begin(), p.placed.path.begin() + static_cast<std::ptrdiff_t>(top) + 1);
  state.Replace(prefix, SeqStmt::Flatten({current, FinalNest(p, partial, axis)}));
  state.AddAlloc(partial);
  return name;
}

}  // namespace treadle::tir::primitive
