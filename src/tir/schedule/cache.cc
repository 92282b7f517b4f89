// SPDX-License-Identifier: Apache-2.0
// Copies of buffers in other memory: cache read and cache write.
#include <algorithm>
#include <utility>

#include "tir/block_access.h"
#include "tir/buffer_replacer.h"
#include "tir/schedule/primitives.h"

namespace treadle::tir::primitive {

namespace {

/// Loops and a block that copy all of `from` to `to`.
Stmt CopyNest(const Buffer& from, const Buffer& to, const std::string& name) {
  Array<IterVar> axes;
  Array<PrimExpr> indices, bindings;
  std::vector<std::pair<Var, PrimExpr>> loops;
  for (size_t i = 0; i < from->shape.size(); ++i) {
    DataType dtype = from->shape[i].dtype();
    Var loop(StrCat("ax", i), dtype), axis(StrCat("v", i), dtype);
    axes.push_back(IterVar(Range(from->shape[i]), axis, IterVarType::kDataPar));
    indices.push_back(axis);
    bindings.push_back(loop);
    loops.emplace_back(loop, from->shape[i]);
  }
  Stmt body = BufferStore(to, BufferLoad(from, indices), indices);
  BlockAccess access = DetectBlockAccess(body, Stmt());
  Stmt nest = BlockRealize(bindings, make_bool(true), Block(axes, access.reads, access.writes, name, body));
  for (size_t i = loops.size(); i-- > 0;) {
    nest = For(loops[i].first, make_zero(loops[i].first.dtype()), loops[i].second, ForKind::kSerial, nest);
  }
  return nest;
}

Buffer InScope(const ScheduleState& state, const Buffer& buffer, const std::string& scope) {
  return DeclBuffer(buffer->shape, buffer->dtype, state.UniqueBufferName(StrCat(buffer->name, ".", scope)), scope);
}

/// Index on the path of the child of the enclosing block's body (its statement, or one of its sequence).
size_t TopStatement(const PlacedBlock& placed) {
  size_t at = placed.ScopeIndex() + 1;
  if (placed.path[at].as<SeqStmtNode>()) ++at;
  return at;
}

Stmt WithReplacedBuffer(const PlacedBlock& placed, const Buffer& from, const Buffer& to) {
  Map<Buffer, Buffer> replacement;
  replacement.Set(from, to);
  return ReplaceBuffers(placed.realize, replacement);
}

}  // namespace

std::string CacheRead(ScheduleState& state, const std::string& name, int read_index, const std::string& scope,
                      const std::vector<std::string>& consumers) {
  PlacedBlock placed = state.FindBlock(name);
  if (placed.path.size() == 1) throw ScheduleError("cache_read: the root block has no reads of its own");
  Buffer buffer = BufferAt(placed.block(), false, read_index, "cache_read");
  std::vector<std::string> readers = consumers;
  if (readers.empty()) readers.push_back(name);
  const std::vector<PlacedBlock> scope_blocks = state.ScopeOf(placed);
  for (const std::string& reader : readers) {
    const bool beside =
        std::any_of(scope_blocks.begin(), scope_blocks.end(), [&](const PlacedBlock& b) { return b.name() == reader; });
    if (beside) continue;
    throw ScheduleError(StrCat("cache_read: block '", reader, "' isn't directly inside the same block as '", name,
                               "'; expected readers of '", buffer->name, "' there"));
  }

  // Before the first statement of the scope that has a reader; after all writers.
  size_t scope_at = placed.ScopeIndex();
  const auto* scope_block = placed.path[scope_at].as<BlockNode>();
  std::vector<Stmt> top = scope_block->body.as<SeqStmtNode>() ? scope_block->body.as<SeqStmtNode>()->seq.ToVector()
                                                              : std::vector<Stmt>{scope_block->body};
  size_t first_reader = top.size(), after_writer = 0;
  for (size_t i = 0; i < top.size(); ++i) {
    for (const PlacedBlock& b : BlocksIn(top[i])) {
      if (WritesBuffer(b.block(), buffer)) after_writer = i + 1;
      if (std::find(readers.begin(), readers.end(), b.name()) == readers.end()) continue;
      if (!ReadsBuffer(b.block(), buffer)) {
        throw ScheduleError(StrCat("cache_read: block '", b.name(), "' doesn't read buffer '", buffer->name, "'"));
      }
      first_reader = std::min(first_reader, i);
    }
  }
  if (after_writer > first_reader) {
    throw ScheduleError(StrCat("cache_read: buffer '", buffer->name, "' is written and read by block '", name,
                               "' inside the same loops; cache it before moving blocks together"));
  }
  for (const PlacedBlock& b : state.AllBlocks()) {
    for (const MatchBufferRegion& match : b.block()->match_buffers) {
      if (!match->buffer.same_as(buffer)) continue;
      throw ScheduleError(StrCat("cache_read: buffer '", buffer->name, "' is the view that the intrinsic of block '",
                                 b.name(), "' has of '", match->source->buffer->name, "'; cache before tensorize"));
    }
  }
  Buffer cached = InScope(state, buffer, scope);
  std::string copy_name = state.UniqueBlockName(cached->name);
  std::unordered_map<const Object*, Stmt> replacements;
  for (const std::string& reader : readers) {
    PlacedBlock b = state.FindBlock(reader);
    for (const BufferRegion& w : b.block()->writes) {
      if (w->buffer.same_as(buffer)) {
        throw ScheduleError(StrCat("cache_read: block '", reader, "' also writes buffer '", buffer->name, "'"));
      }
    }
    replacements[b.realize.get()] = WithReplacedBuffer(b, buffer, cached);
  }
  ScheduleState before = state;
  try {
    // Insert first: its path is of the old tree.
    Path prefix(placed.path.begin(), placed.path.begin() + static_cast<std::ptrdiff_t>(scope_at) + 1);
    std::vector<Stmt> children = top;
    children.insert(children.begin() + static_cast<std::ptrdiff_t>(first_reader), CopyNest(buffer, cached, copy_name));
    Block changed = GetRef<Block>(scope_block);
    changed.CopyOnWrite()->body = SeqStmt::Flatten(children);
    state.Replace(prefix, changed);
    state.ReplaceMany(replacements);
    state.AddAlloc(cached);
  } catch (...) {
    state = before;
    throw;
  }
  return copy_name;
}

std::string CacheWrite(ScheduleState& state, const std::string& name, int write_index, const std::string& scope) {
  PlacedBlock placed = state.FindBlock(name);
  if (placed.path.size() == 1) throw ScheduleError("cache_write: the root block has no writes of its own");
  Buffer buffer = BufferAt(placed.block(), true, write_index, "cache_write");
  std::vector<PlacedBlock> writers = WritersOf(state.ScopeOf(placed), buffer);
  size_t at = TopStatement(placed);
  RequireTopLevel(placed, "cache_write");
  for (const PlacedBlock& w : writers) {
    if (!Contains(placed.path[at], w.realize.get())) {
      throw ScheduleError(StrCat("cache_write: block '", w.name(), "' writes buffer '", buffer->name,
                                 "' too, in another nest of loops than block '", name, "'"));
    }
  }
  for (const PlacedBlock& reader : ReadersOf(state.ScopeOf(placed), buffer)) {
    bool writes = WritesBuffer(reader.block(), buffer);
    if (!writes && Contains(placed.path[at], reader.realize.get())) {
      throw ScheduleError(StrCat("cache_write: block '", reader.name(), "' reads buffer '", buffer->name,
                                 "' inside the loops of block '", name, "'; cache it before moving blocks together"));
    }
  }
  Buffer cached = InScope(state, buffer, scope);
  std::string copy_name = state.UniqueBlockName(cached->name);
  Stmt nest = CopyNest(cached, buffer, copy_name);
  Map<Buffer, Buffer> replacement;
  replacement.Set(buffer, cached);
  Path prefix(placed.path.begin(), placed.path.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  Stmt computed = ReplaceBuffers(placed.path[at], replacement);
  state.Replace(prefix, SeqStmt::Flatten({computed, nest}));
  state.AddAlloc(cached);
  return copy_name;
}

}  // namespace treadle::tir::primitive
