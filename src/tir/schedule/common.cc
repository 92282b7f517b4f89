// SPDX-License-Identifier: Apache-2.0
#include "tir/bind_shared.h"
#include "tir/block_access.h"
#include "tir/schedule/primitives.h"

namespace treadle::tir::primitive {

const BufferStoreNode* OnlyStore(const BlockNode* block, const char* primitive) {
  const auto* store = block->body.as<BufferStoreNode>();
  if (store == nullptr || block->init.defined() || block->writes.size() != 1) {
    throw ScheduleError(StrCat(primitive, ": block '", block->name_hint,
                               "' must consist of one store without reduction; its body is ",
                               block->init.defined() ? "a reduction" : block->body->type_key()));
  }
  return store;
}

Buffer BufferAt(const BlockNode* block, bool is_write, int index, const char* primitive) {
  const Array<BufferRegion>& regions = is_write ? block->writes : block->reads;
  if (index < 0 || static_cast<size_t>(index) >= regions.size()) {
    throw ScheduleError(StrCat(primitive, ": block '", block->name_hint, "' ", is_write ? "writes " : "reads ",
                               regions.size(), " buffers; there is no number ", index));
  }
  return regions[index]->buffer;
}

void RequireTopLevel(const PlacedBlock& placed, const char* primitive) {
  const size_t scope = placed.ScopeIndex();
  const auto* outer = scope == std::string::npos ? nullptr : placed.path[scope].as<BlockNode>();
  if (outer == nullptr || outer->iter_vars.empty()) return;
  throw ScheduleError(StrCat(primitive, ": block '", placed.name(), "' is inside block '", outer->name_hint,
                             "', each run of which computes a part only; do this before blockize"));
}

void RequirePlainLoop(const ForNode* loop, const char* primitive) {
  if (loop->kind == ForKind::kSerial && loop->annotations.empty()) return;
  throw ScheduleError(StrCat(primitive, ": loop ", LoopName(loop->loop_var),
                             " is already parallel, vectorized, unrolled, bound or annotated; do this before"));
}

namespace {

class ValueMapper : public StmtMutator {
 public:
  explicit ValueMapper(const std::function<PrimExpr(const PrimExpr&)>& map) : map_(map) {}
  Stmt Run(const Stmt& stmt) { return stmt.defined() ? VisitStmt(stmt) : stmt; }

 protected:
  PrimExpr VisitExpr(const PrimExpr& e) override {
    PrimExpr mapped = map_(e);
    return mapped.same_as(e) ? e : BindShared(mapped);
  }

 private:
  const std::function<PrimExpr(const PrimExpr&)>& map_;
};

}  // namespace

Block MapBlockValues(const Block& block, const std::function<PrimExpr(const PrimExpr&)>& map) {
  ValueMapper mapper(map);
  Stmt init = mapper.Run(block->init), body = mapper.Run(block->body);
  if (init.same_as(block->init) && body.same_as(block->body)) return block;
  Block result = block;
  BlockNode* node = result.CopyOnWrite();
  node->init = init;
  node->body = body;
  return WithDetectedAccess(result);
}

std::vector<PlacedBlock> ReadersOf(const std::vector<PlacedBlock>& scope, const Buffer& buffer,
                                   const std::string& except) {
  std::vector<PlacedBlock> readers;
  for (const PlacedBlock& b : scope) {
    if (b.name() != except && ReadsBuffer(b.block(), buffer)) readers.push_back(b);
  }
  return readers;
}

std::vector<PlacedBlock> WritersOf(const std::vector<PlacedBlock>& scope, const Buffer& buffer,
                                   const std::string& except) {
  std::vector<PlacedBlock> writers;
  for (const PlacedBlock& b : scope) {
    if (b.name() != except && WritesBuffer(b.block(), buffer)) writers.push_back(b);
  }
  return writers;
}

void InsertNextTo(ScheduleState& state, const Path& path, size_t at, const Stmt& new_stmt, bool before) {
  Path prefix(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  Stmt both = before ? SeqStmt::Flatten({new_stmt, path[at]}) : SeqStmt::Flatten({path[at], new_stmt});
  state.Replace(prefix, both);
}

}  // namespace treadle::tir::primitive
