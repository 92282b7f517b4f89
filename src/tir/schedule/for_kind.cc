// SPDX-License-Identifier: Apache-2.0
// Parallel, vectorize, unroll, bind.
#include "tir/schedule/primitives.h"
#include "tir/schedule/rfactor.h"
#include "tir/thread_axis.h"
#include "treadle/tir/text.h"

namespace treadle::tir::primitive {

namespace {

/// Lowering unrolls no loop of more iterations.
constexpr int64_t kMaxUnrolledIterations = 4096;

/// Whether all that reads or writes the buffer stands inside `loop`: lowering then gives each iteration its own.
bool IsPrivateTo(const ScheduleState& state, const ForNode* loop, const Buffer& buffer) {
  if (state.IsParameter(buffer)) return false;
  for (const PlacedBlock& b : state.AllBlocks()) {
    if (b.path.size() == 1) continue;
    bool inside = false;
    for (const Stmt& s : b.path) inside |= s.get() == loop;
    if (!inside && (ReadsBuffer(b.block(), buffer) || WritesBuffer(b.block(), buffer))) {
      // An enclosing block declares what its inner blocks do.
      bool encloses = Contains(b.realize, loop);
      if (!encloses) return false;
    }
  }
  return true;
}

/// Iterations of the loop may run at once when each writes its own elements.
/// `threads`: they are threads of a block, which can add up what each of them computes.
void CheckIndependent(const ScheduleState& state, const ForNode* loop, const char* primitive, bool threads) {
  for (const PlacedBlock& b : BlocksIn(loop->body)) {
    bool drives_data_axis = false, reduced_by_threads = false;
    for (size_t i = 0; i < b.realize->iter_values.size(); ++i) {
      if (!UsesLoopVar(b.realize->iter_values[i], loop->loop_var)) continue;
      const IterVar axis = b.block()->iter_vars[i];
      if (axis->iter_type == IterVarType::kDataPar) {
        drives_data_axis = true;
        continue;
      }
      if (threads && axis->iter_type == IterVarType::kCommReduce && b.block()->init.defined()) {
        ReductionOver(state.FindBlock(b.name()), loop, primitive);
        if (!is_const_int(loop->extent)) {
          throw ScheduleError(StrCat(primitive, ": loop ", LoopName(loop->loop_var),
                                     " iterates over the reduction axis '", axis->var->name_hint, "' of block '",
                                     b.name(), "'; for threads to reduce it, its ",
                                     "extent must be a constant. Split it by one"));
        }
        reduced_by_threads = true;
        continue;
      }
      bool is_private = true;
      for (const BufferRegion& w : b.block()->writes) is_private &= IsPrivateTo(state, loop, w->buffer);
      if (is_private && axis->iter_type == IterVarType::kCommReduce) {
        throw ScheduleError(StrCat(primitive, ": loop ", LoopName(loop->loop_var),
                                   " iterates over the reduction axis '", axis->var->name_hint, "' of block '",
                                   b.name(), "'; use rfactor on it first"));
      }
      throw ScheduleError(StrCat(primitive, ": loop ", LoopName(loop->loop_var), " iterates over axis '",
                                 axis->var->name_hint, "' of block '", b.name(), "', which is ",
                                 axis->iter_type == IterVarType::kCommReduce ? "a reduction axis" : "not data-parallel",
                                 "; only data-parallel axes can run at once"));
    }
    if (drives_data_axis || reduced_by_threads) continue;
    for (const BufferRegion& w : b.block()->writes) {
      if (IsPrivateTo(state, loop, w->buffer)) continue;
      if (is_const_int(loop->extent, 1)) continue;
      throw ScheduleError(StrCat(primitive, ": iterations of loop ", LoopName(loop->loop_var),
                                 " would all write the same elements of buffer '", w->buffer->name, "' in block '",
                                 b.name(), "'"));
    }
  }
}

/// Lanes do each statement together, on memory that they share: sums of which several lanes compute the same element
/// (for a consumer that reads neighbours) would be added up several times.
void CheckLanes(const ScheduleState& state, const Path& path) {
  const auto* loop = path.back().as<ForNode>();
  if (is_const_int(loop->extent, 1)) return;
  for (const PlacedBlock& b : BlocksIn(loop->body)) {
    if (!IsReduction(b.block())) continue;
    for (const BufferRegion& w : b.block()->writes) {
      arith::Analyzer analyzer;
      state.BindContext(analyzer, path);
      Map<Var, PrimExpr> next;
      next.Set(loop->loop_var, loop->loop_var + make_const(loop->loop_var.dtype(), 1));
      if (state.IsParameter(w->buffer)) continue;
      bool apart = false, moves = false, wide = false;
      for (const arith::IntSet& set : TouchedRegion(loop->body, w->buffer, true, analyzer)) {
        moves |= !set.is_bounded() || UsesLoopVar(set.min, loop->loop_var) || UsesLoopVar(set.max, loop->loop_var);
        wide |= !set.is_bounded() || !analyzer.CanProveEqual(set.min, set.max);
        apart |= set.is_bounded() && analyzer.CanProveLess(set.max, Substitute(set.min, next));
      }
      // Lanes that a condition leaves out can't do the statement together with the others.
      const bool guarded = UsesLoopVar(b.realize->predicate, loop->loop_var);
      if (apart || ((!moves || !wide) && !guarded)) continue;
      throw ScheduleError(StrCat("vectorize: iterations of loop ", LoopName(loop->loop_var), " sum up elements of '",
                                 w->buffer->name, "' in block '", b.name(),
                                 "' that belong to several of them; compute the block outside of that loop"));
    }
  }
}

void CheckThreadAxis(const Var& var, const char* primitive, const std::string& thread) {
  const bool is_virtual = thread.rfind("vthread", 0) == 0 || thread.rfind("cthread", 0) == 0;
  bool known = is_virtual;
  for (const char* axis : {"blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z"}) {
    known |= thread == axis;
  }
  if (known) return;
  throw ScheduleError(StrCat(primitive, ": loop ", LoopName(var), " can't be bound to '", thread,
                             "'; thread axes are blockIdx.x to .z, threadIdx.x to .z and vthread"));
}

}  // namespace

void SetKind(ScheduleState& state, const Var& var, ForKind kind, const char* primitive, const std::string& thread) {
  Path path = state.FindLoop(var, primitive);
  const auto* loop = path.back().as<ForNode>();
  if (loop->kind == kind && kind != ForKind::kThreadBinding) return;
  const bool threads = thread.rfind("threadIdx", 0) == 0;
  if (kind == ForKind::kThreadBinding && loop->kind == kind && loop->thread_binding->thread_tag == thread) {
    return CheckIndependent(state, loop, primitive, threads);
  }
  if (kind == ForKind::kThreadBinding) CheckThreadAxis(var, primitive, thread);
  if (kind != ForKind::kUnrolled) CheckIndependent(state, loop, primitive, threads);
  if (kind == ForKind::kVectorized) CheckLanes(state, path);
  if (kind == ForKind::kVectorized && !is_const_int(loop->extent)) {
    throw ScheduleError(StrCat(primitive, ": the extent of loop ", LoopName(var), ", ", AsText(loop->extent, false),
                               ", must be a constant; split it by the vector length first"));
  }
  if (kind == ForKind::kUnrolled && !is_const_int(loop->extent)) {
    throw ScheduleError(StrCat(primitive, ": the extent of loop ", LoopName(var), ", ", AsText(loop->extent, false),
                               ", must be a constant; split it by a constant factor first"));
  }
  if (kind == ForKind::kUnrolled && *AsConstInt(loop->extent) > kMaxUnrolledIterations) {
    throw ScheduleError(StrCat(primitive, ": loop ", LoopName(var), " has ", *AsConstInt(loop->extent),
                               " iterations; expected at most ", kMaxUnrolledIterations,
                               ". Split it and unroll the inner part"));
  }
  For changed = GetRef<For>(loop);
  ForNode* node = changed.CopyOnWrite();
  node->kind = kind;
  node->thread_binding = kind == ForKind::kThreadBinding ? ThreadAxis(thread, var.dtype()) : IterVar();
  state.Replace(path, changed);
}

}  // namespace treadle::tir::primitive
