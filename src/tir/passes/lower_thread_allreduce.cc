// SPDX-License-Identifier: Apache-2.0
// Reductions along loops that are bound to threads: each thread adds up its part, then they combine the parts.
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "tir/block_access.h"
#include "tir/passes/pass_util.h"
#include "tir/schedule/rfactor.h"
#include "tir/thread_axis.h"

namespace treadle::tir {
namespace {

constexpr const char* kName = "bind";

bool IsBoundToThreads(const ForNode* loop) {
  return loop->kind == ForKind::kThreadBinding && loop->thread_binding->thread_tag.rfind("threadIdx", 0) == 0;
}
bool DrivesReduction(const BlockRealizeNode* realize, const Var& var) {
  for (size_t i = 0; i < realize->iter_values.size(); ++i) {
    if (realize->block->iter_vars[i]->iter_type == IterVarType::kCommReduce &&
        UsesLoopVar(realize->iter_values[i], var)) {
      return true;
    }
  }
  return false;
}

/// A block with a loop that is bound to threads and drives its reduction.
struct Found {
  PlacedBlock placed;
  const ForNode* loop;
};
std::optional<Found> Find(const ScheduleState& state) {
  for (const PlacedBlock& b : state.AllBlocks()) {
    if (!b.block()->init.defined()) continue;
    for (const For& loop : b.Loops()) {
      if (IsBoundToThreads(loop.get()) && DrivesReduction(b.realize.get(), loop->loop_var)) return Found{b, loop.get()};
    }
  }
  return std::nullopt;
}

/// Without an init there is nothing that each thread could start its part from, and the threads would all update the
/// same element at once.
void CheckThreadsReduceWithInit(const ScheduleState& state) {
  for (const PlacedBlock& b : state.AllBlocks()) {
    if (b.block()->init.defined()) continue;
    for (const For& loop : b.Loops()) {
      if (!IsBoundToThreads(loop.get()) || is_const_int(loop->extent, 1)) continue;
      if (!DrivesReduction(b.realize.get(), loop->loop_var)) continue;
      throw TargetError(StrCat("loop ", LoopName(loop->loop_var), ", along which block '", b.name(),
                               "' is reduced, is bound to ", loop->thread_binding->thread_tag,
                               ", but the block has no init (T.init()) for each thread to start from"));
    }
  }
}

/// Makes the blocks that combine partial results.
class Combination {
 public:
  /// `partial`: for each result; `top`: position of the outermost loop of the reduction; `where`: when the block runs.
  Combination(const primitive::Reduction& p, const std::vector<Buffer>& partial, size_t top, const PrimExpr& where)
      : p_(p), partial_(partial), top_(top), where_(where) {}

  /// Halves the number of partial results until one is left, which the result becomes.
  Stmt Nest(int64_t count) {
    Array<Stmt> seq;
    while (count > 1) {
      int64_t half = 1;
      while (2 * half < count) half *= 2;
      seq.push_back(Halve(half, count));
      count = half;
    }
    seq.push_back(Result());
    Stmt nest = SeqStmt::Flatten(seq);
    for (size_t i = p_.placed.path.size(); i-- > top_;) {
      const auto* loop = p_.placed.path[i].as<ForNode>();
      if (loop == nullptr || DrivesReduction(p_.placed.realize.get(), loop->loop_var)) continue;
      bool used = UsesLoopVar(where_, loop->loop_var);
      for (const PrimExpr& value : p_.placed.realize->iter_values) used |= UsesLoopVar(value, loop->loop_var);
      if (!used) continue;
      const Var var(loop->loop_var->name_hint, loop->loop_var.dtype());
      Map<Var, PrimExpr> vmap;
      vmap.Set(loop->loop_var, var);
      const bool bound = loop->kind == ForKind::kThreadBinding;
      nest = For(var, loop->min, loop->extent, bound ? loop->kind : ForKind::kSerial, Substitute(nest, vmap),
                 FreshThreadAxis(loop->thread_binding));
    }
    return nest;
  }

 private:
  struct Axes {
    Array<IterVar> axes;
    Array<PrimExpr> bindings;
    Map<Var, PrimExpr> vmap;
  };
  Axes DataAxes() const {
    Axes result;
    const BlockNode* block = p_.placed.block();
    for (size_t i = 0; i < block->iter_vars.size(); ++i) {
      const IterVar& iv = block->iter_vars[i];
      if (iv->iter_type == IterVarType::kCommReduce) continue;
      const Var var(iv->var->name_hint, iv->var.dtype());
      result.vmap.Set(iv->var, var);
      result.axes.push_back(IterVar(iv->dom, var, iv->iter_type));
      result.bindings.push_back(p_.placed.realize->iter_values[i]);
    }
    return result;
  }
  static Array<PrimExpr> At(const PrimExpr& part, const Array<PrimExpr>& indices) {
    Array<PrimExpr> result{part};
    for (const PrimExpr& index : indices) result.push_back(index);
    return result;
  }
  Array<PrimExpr> Indices(const Axes& axes, size_t result) const {
    return p_.reducer.stores[result]->indices.Map([&](const PrimExpr& e) { return Substitute(e, axes.vmap); });
  }
  /// Partial results number `part`.
  Array<PrimExpr> Parts(const Axes& axes, const PrimExpr& part) const {
    Array<PrimExpr> loads;
    for (size_t i = 0; i < partial_.size(); ++i) loads.push_back(BufferLoad(partial_[i], At(part, Indices(axes, i))));
    return loads;
  }
  /// Stores that happen after all values are computed.
  static Stmt StoreAll(const Array<PrimExpr>& values, const std::function<Stmt(size_t, const PrimExpr&)>& store) {
    if (values.size() == 1) return store(0, values[0]);
    std::vector<Var> vars;
    Array<Stmt> stores;
    for (size_t i = 0; i < values.size(); ++i) {
      vars.push_back(Var(StrCat("r", i), values[i].dtype()));
      stores.push_back(store(i, vars.back()));
    }
    Stmt body = SeqStmt::Flatten(stores);
    for (size_t i = values.size(); i-- > 0;) body = LetStmt(vars[i], values[i], body);
    return body;
  }
  /// part[t] = part[t] + part[t + half] where that is one of the `count` parts left.
  Stmt Halve(int64_t half, int64_t count) const {
    Axes axes = DataAxes();
    const DataType dtype = p_.loop->loop_var.dtype();
    const Var loop(p_.loop->loop_var->name_hint, dtype), part("v" + p_.loop->loop_var->name_hint, dtype);
    axes.axes.push_back(IterVar(Range(p_.loop->extent), part, IterVarType::kDataPar));
    axes.bindings.push_back(loop);
    const Array<PrimExpr> values = p_.reducer.combine(Parts(axes, part), Parts(axes, part + make_const(dtype, half)));
    Stmt body = StoreAll(values, [&](size_t i, const PrimExpr& value) {
      return BufferStore(partial_[i], value, At(part, Indices(axes, i)));
    });
    BlockAccess access = DetectBlockAccess(body, Stmt());
    const PrimExpr there = loop < make_const(dtype, count - half);
    const std::string name = StrCat(p_.placed.name(), "_combine", half);
    return For(loop, p_.loop->min, p_.loop->extent, ForKind::kThreadBinding,
               BlockRealize(axes.bindings, where_ && there, Block(axes.axes, access.reads, access.writes, name, body)),
               FreshThreadAxis(p_.loop->thread_binding));
  }
  /// The result is the part that is left, added to what the reduction starts from where the parts didn't.
  Stmt Result() const {
    const Axes axes = DataAxes();
    Array<PrimExpr> values = Parts(axes, make_zero(p_.loop->loop_var.dtype())), first;
    bool from_first = false;
    for (size_t i = 0; i < values.size(); ++i) {
      const PrimExpr init = Substitute(p_.inits[i]->value, axes.vmap), &identity = p_.reducer.identities[i];
      first.push_back(init);
      from_first |= identity.defined() && !arith::Analyzer().CanProveEqual(init, identity);
    }
    if (from_first) values = p_.reducer.combine(first, values);
    Stmt body = StoreAll(values, [&](size_t i, const PrimExpr& value) {
      return BufferStore(p_.reducer.stores[i]->buffer, value, Indices(axes, i));
    });
    BlockAccess access = DetectBlockAccess(body, Stmt());
    return BlockRealize(axes.bindings, where_,
                        Block(axes.axes, access.reads, access.writes, p_.placed.name(), body, Stmt(), {}, {},
                              p_.placed.block()->annotations));
  }

  const primitive::Reduction& p_;
  const std::vector<Buffer>& partial_;
  size_t top_;
  PrimExpr where_;
};

void Lower(ScheduleState& state, const Found& found) {
  const PlacedBlock& placed = found.placed;
  const primitive::Reduction p = primitive::ReductionOver(placed, found.loop, kName);
  const int64_t* count = AsConstInt(found.loop->extent);
  if (count == nullptr || *count <= 0) {
    throw ScheduleError(StrCat(kName, ": loop ", LoopName(found.loop->loop_var), ", along which block '", placed.name(),
                               "' is reduced, is bound to ", found.loop->thread_binding->thread_tag,
                               ", so that its extent must be a constant; split it by one"));
  }
  size_t top = placed.ScopeIndex() + 1;
  while (true) {
    const auto* loop = placed.path[top].as<ForNode>();
    if (loop != nullptr && DrivesReduction(placed.realize.get(), loop->loop_var)) break;
    ++top;
  }
  std::vector<Buffer> partial;
  Map<Buffer, Buffer> by_result;
  for (const BufferStoreNode* store : p.reducer.stores) {
    const Buffer& result = store->buffer;
    for (const PlacedBlock& other : BlocksIn(placed.path[top])) {
      if (other.name() == placed.name() || !ReadsBuffer(other.block(), result)) continue;
      throw ScheduleError(StrCat(kName, ": block '", other.name(), "' reads the result of block '", placed.name(),
                                 "' inside the loops of that, which threads reduce"));
    }
    Array<PrimExpr> shape{found.loop->extent};
    for (const PrimExpr& extent : result->shape) shape.push_back(extent);
    partial.push_back(DeclBuffer(shape, result->dtype, state.UniqueBufferName(result->name + ".parts"), "shared"));
    by_result.Set(result, partial.back());
  }
  const BlockRealize part = primitive::PartialBlock(p, by_result, 0, state.UniqueBlockName(placed.name() + ".parts"));
  Stmt nest = part;
  for (size_t i = placed.path.size() - 1; i-- > top;) nest = WithChild(placed.path[i], placed.path[i + 1], nest);
  Stmt combined = Combination(p, partial, top, part->predicate).Nest(*count);
  Path prefix(placed.path.begin(), placed.path.begin() + static_cast<std::ptrdiff_t>(top) + 1);
  state.Replace(prefix, SeqStmt::Flatten({nest, combined}));
  for (const Buffer& buffer : partial) state.AddAlloc(buffer);
}

}  // namespace

PrimFunc LowerThreadAllreduce(PrimFunc func, const LowerConfig& config) {
  if (!config.has_threads || !func->body.as<BlockRealizeNode>()) return func;
  ScheduleState state(func);
  try {
    while (std::optional<Found> found = Find(state)) Lower(state, *found);
    CheckThreadsReduceWithInit(state);
  } catch (const ScheduleError& error) {
    throw TargetError(error.what());
  }
  return state.func();
}

}  // namespace treadle::tir
