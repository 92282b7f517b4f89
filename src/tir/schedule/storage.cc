// SPDX-License-Identifier: Apache-2.0
// Where and how buffers lie in memory: scope, alignment of strides, double buffering, prefetching.
#include "tir/buffer_replacer.h"
#include "tir/schedule/primitives.h"

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

}  // namespace treadle::tir::primitive
