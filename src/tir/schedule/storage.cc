// SPDX-License-Identifier: Apache-2.0
// Where and how buffers lie in memory: scope, alignment of strides, double buffering, prefetching.
#include <algorithm>

#include "tir/buffer_replacer.h"
#include "tir/schedule/primitives.h"
#include "treadle/base/int_math.h"

namespace treadle::tir::primitive {

namespace {

Buffer IntermediateAt(const ScheduleState& state, const BlockNode* block, int write_index, const char* primitive) {
  Buffer buffer = BufferAt(block, true, write_index, primitive);
  if (state.IsParameter(buffer)) {
    throw ScheduleError(StrCat(primitive, ": buffer '", buffer->name, "' of block '", block->name_hint,
                               "' is a parameter of the function, whose memory is the caller's"));
  }
  return buffer;
}

}  // namespace

void SetScope(ScheduleState& state, const std::string& name, int write_index, const std::string& scope) {
  PlacedBlock placed = state.FindBlock(name);
  Buffer buffer = IntermediateAt(state, placed.block(), write_index, "set_scope");
  if (buffer.scope() == scope) return;
  Buffer changed = DeclBuffer(buffer->shape, buffer->dtype, buffer->name, scope);
  Map<Buffer, Buffer> replacement;
  replacement.Set(buffer, changed);
  state.SetBody(ReplaceBuffers(state.func()->body, replacement));
}

void StorageAlign(ScheduleState& state, const std::string& name, int write_index, int axis, int factor, int offset) {
  PlacedBlock placed = state.FindBlock(name);
  Buffer buffer = IntermediateAt(state, placed.block(), write_index, "storage_align");
  auto rank = static_cast<int>(buffer->shape.size());
  if (axis < -rank || axis >= rank) {
    throw ScheduleError(
        StrCat("storage_align: buffer '", buffer->name, "' has ", rank, " dimensions; there is no axis ", axis));
  }
  if (factor <= 0) throw ScheduleError(StrCat("storage_align: factor ", factor, " isn't positive"));
  if (offset < 0 || offset >= factor) {
    throw ScheduleError(StrCat("storage_align: offset ", offset, " isn't in [0, factor ", factor, ")"));
  }
  // One entry: (buffer number, axis, factor, offset); entries of other buffers and axes are kept.
  Array<ObjectRef> entries;
  if (auto known = placed.block()->annotations.Get(tir::attr::kStorageAlignment)) {
    for (const ObjectRef& entry : Downcast<Array<ObjectRef>>(*known)) {
      auto values = Downcast<Array<PrimExpr>>(entry);
      if (!is_const_int(values[0], write_index) || !is_const_int(values[1], (axis + rank) % rank))
        entries.push_back(entry);
    }
  }
  entries.push_back(
      Array<PrimExpr>{PrimExpr(write_index), PrimExpr((axis + rank) % rank), PrimExpr(factor), PrimExpr(offset)});
  AnnotateBlock(state, name, tir::attr::kStorageAlignment, entries);
}

void DoubleBuffer(ScheduleState& state, const std::string& name, int write_index) {
  PlacedBlock placed = state.FindBlock(name);
  IntermediateAt(state, placed.block(), write_index, "double_buffer");
  if (placed.Loops().empty()) {
    throw ScheduleError(StrCat("double_buffer: block '", name, "' isn't inside a loop, so it fills its buffer once"));
  }
  AnnotateBlock(state, name, tir::attr::kDoubleBufferScope, PrimExpr(write_index));
}

void Prefetch(ScheduleState& state, const std::string& name, int read_index, const Var& loop_var,
              const PrimExpr& offset) {
  PlacedBlock placed = state.FindBlock(name);
  Path path = state.FindLoop(loop_var, "prefetch");
  const auto* loop = path.back().as<ForNode>();
  Buffer buffer = BufferAt(placed.block(), false, read_index, "prefetch");
  if (!Contains(path.back(), placed.realize.get())) {
    throw ScheduleError(StrCat("prefetch: loop ", LoopName(loop_var), " isn't around block '", name, "'"));
  }
  arith::Analyzer analyzer;
  state.BindContext(analyzer, path);
  std::vector<arith::IntSet> region = TouchedRegion(loop->body, buffer, false, analyzer);
  // The first element of what the later iteration reads, kept inside the buffer: a hint needs no more.
  Map<Var, PrimExpr> ahead;
  ahead.Set(loop_var, loop_var + cast(loop_var.dtype(), offset));
  Array<PrimExpr> indices;
  Array<BufferRegion> reads;
  for (size_t d = 0; d < region.size(); ++d) {
    PrimExpr last = buffer->shape[d] - 1;
    PrimExpr first = region[d].min.defined() ? Substitute(region[d].min, ahead) : make_zero(last.dtype());
    indices.push_back(analyzer.Simplify(max(min(cast(last.dtype(), first), last), make_zero(last.dtype()))));
  }
  Stmt hint = Evaluate(CallIntrin(DataType::Int(32), "tir.prefetch",
                                  {AddressOf(BufferLoad(buffer, indices)), PrimExpr(0), PrimExpr(3), PrimExpr(1)}));
  For changed = GetRef<For>(loop);
  changed.CopyOnWrite()->body = SeqStmt::Flatten({hint, loop->body});
  state.Replace(path, changed);
}

namespace {

/// What a loop reads of a buffer: `extents` elements per dimension from `first`, which depends on loops around it.
struct BufferBox {
  Array<PrimExpr> first;
  std::vector<int64_t> extents;
};

BufferBox BoxRead(const Stmt& loop, const Buffer& buffer, arith::Analyzer& analyzer) {
  BufferBox box;
  for (const arith::IntSet& set : TouchedRegion(loop, buffer, false, analyzer)) {
    const size_t d = box.extents.size();
    const int64_t* size = AsConstInt(buffer->shape[d]);
    PrimExpr extent = set.min.defined() && set.max.defined() ? analyzer.Simplify(set.max - set.min + 1) : PrimExpr(0);
    const int64_t* known = AsConstInt(extent);
    if (size == nullptr || known == nullptr || *known <= 0 || *known > *size) {
      throw ScheduleError(StrCat("prefetch_next: how much of buffer '", buffer->name, "' is read isn't constant"));
    }
    box.first.push_back(set.min);
    box.extents.push_back(*known);
  }
  return box;
}

bool Uses(const Array<PrimExpr>& exprs, const Var& var) {
  return std::any_of(exprs.begin(), exprs.end(), [&](const PrimExpr& e) { return UsesLoopVar(e, var); });
}

/// Values that the variables of `loops`, outermost first, have after the next step; after the last, the first.
Map<Var, PrimExpr> NextStep(const std::vector<const ForNode*>& loops) {
  Map<Var, PrimExpr> next;
  PrimExpr carry;
  for (size_t i = loops.size(); i-- > 0;) {
    const Var& v = loops[i]->loop_var;
    PrimExpr at_end = v + 1 >= loops[i]->min + loops[i]->extent;
    PrimExpr step = Select(at_end, loops[i]->min, v + 1);
    next.Set(v, carry.defined() ? Select(carry, step, v) : step);
    carry = carry.defined() ? carry && at_end : at_end;
  }
  return next;
}

}  // namespace

void PrefetchNext(ScheduleState& state, const std::string& name, int read_index, const Var& around, const Var& at,
                  int64_t within) {
  constexpr int64_t kLine = 64;
  constexpr int kSecondLevel = 2;
  PlacedBlock placed = state.FindBlock(name);
  Path path = state.FindLoop(at, "prefetch_next");
  Buffer buffer = BufferAt(placed.block(), false, read_index, "prefetch_next");
  std::vector<const ForNode*> loops;
  size_t inside = 0;
  for (const Stmt& s : path) {
    const auto* loop = s.as<ForNode>();
    if (loop == nullptr) continue;
    if (loop->loop_var.same_as(around)) inside = loops.size() + 1;
    loops.push_back(loop);
  }
  if (inside == 0 || !Contains(path.back(), placed.realize.get())) {
    throw ScheduleError(StrCat("prefetch_next: loop ", LoopName(at), " must be around block '", name,
                               "' and inside of loop ", LoopName(around)));
  }
  arith::Analyzer analyzer;
  state.BindContext(analyzer, state.FindLoop(around, "prefetch_next"));
  BufferBox box = BoxRead(GetRef<For>(loops[inside - 1]), buffer, analyzer);
  // Loops around that read the same again share the work with those inside; the others lead to what is read next.
  const bool known = AsConstInt(loops[inside - 1]->extent) != nullptr;
  size_t same = inside - 1;
  while ((within == 0 || !known) && same > 0 && loops[same - 1]->kind != ForKind::kParallel &&
         !Uses(box.first, loops[same - 1]->loop_var))
    --same;
  std::vector<const ForNode*> leading;
  for (size_t i = 0; i < same; ++i) {
    if (Uses(box.first, loops[i]->loop_var)) leading.push_back(loops[i]);
  }
  if (leading.empty()) return;
  PrimExpr position(0);
  int64_t positions = known ? 1 : within;
  for (size_t i = same; i < loops.size(); ++i) {
    const int64_t* extent = AsConstInt(loops[i]->extent);
    if (extent == nullptr && (known || within == 0)) {
      throw ScheduleError("prefetch_next: the loops' extents must be constant");
    }
    position = position * loops[i]->extent + (loops[i]->loop_var - loops[i]->min);
    if (extent == nullptr || (!known && i < inside)) continue;
    positions *= known && within > 0 && i + 1 == inside ? std::min(*extent, within) : *extent;
  }
  // Dimensions after the last one that isn't read in full lie next to each other.
  size_t run_dim = box.extents.size() - 1;
  while (run_dim > 0 && box.extents[run_dim] == *AsConstInt(buffer->shape[run_dim])) --run_dim;
  int64_t run = 1, runs = 1;
  for (size_t d = 0; d < box.extents.size(); ++d) (d < run_dim ? runs : run) *= box.extents[d];
  const int64_t line = std::max<int64_t>(1, kLine / buffer->dtype.bytes());
  const int64_t run_lines = CeilDiv(run, line), lines = run_lines * runs;
  const int64_t each = CeilDiv(lines, positions);
  Map<Var, PrimExpr> next = NextStep(leading);
  Var step("line", DataType::Int(32));
  PrimExpr number = min(position * PrimExpr(each) + step, PrimExpr(lines - 1));
  PrimExpr which = floordiv(number, PrimExpr(run_lines));
  Array<PrimExpr> indices;
  for (size_t d = 0; d < box.extents.size(); ++d) {
    PrimExpr index = Substitute(box.first[d], next);
    if (d < run_dim) {
      int64_t inner = 1;
      for (size_t e = d + 1; e < run_dim; ++e) inner *= box.extents[e];
      index = index + floormod(floordiv(which, PrimExpr(inner)), PrimExpr(box.extents[d]));
    }
    indices.push_back(index);
  }
  // Element of the run: what is past the last dimension's end is the next row.
  PrimExpr last = min(floormod(number, PrimExpr(run_lines)) * PrimExpr(line), PrimExpr(run - 1));
  indices.Set(indices.size() - 1, indices.back() + last);
  Stmt hint =
      Evaluate(CallIntrin(DataType::Int(32), "tir.prefetch",
                          {AddressOf(BufferLoad(buffer, indices)), PrimExpr(0), PrimExpr(kSecondLevel), PrimExpr(1)}));
  hint = For(step, PrimExpr(0), PrimExpr(each), ForKind::kSerial, hint);
  For changed = GetRef<For>(path.back().as<ForNode>());
  changed.CopyOnWrite()->body = SeqStmt::Flatten({hint, changed->body});
  state.Replace(path, changed);
}

}  // namespace treadle::tir::primitive
