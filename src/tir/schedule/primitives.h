// SPDX-License-Identifier: Apache-2.0
// The primitives on the state of a schedule, without handles and traces. One .cc file per family.
#pragma once

#include <string>
#include <vector>

#include "tir/schedule/tree.h"

namespace treadle::tir::primitive {

// loop_transform.cc
std::vector<Var> Split(ScheduleState& state, const Var& loop, std::vector<PrimExpr> factors,
                       const std::vector<std::string>& names);
Var Fuse(ScheduleState& state, const std::vector<Var>& loops, const std::string& name);
void Reorder(ScheduleState& state, const std::vector<Var>& loops);
Var AddUnitLoop(ScheduleState& state, const std::string& block);

// for_kind.cc
void SetKind(ScheduleState& state, const Var& loop, ForKind kind, const char* primitive,
             const std::string& thread = "");

// inline.cc
void ComputeInline(ScheduleState& state, const std::string& block);
// reverse_inline.cc
void ReverseComputeInline(ScheduleState& state, const std::string& block);

// compute_at.cc
void ComputeAt(ScheduleState& state, const std::string& block, const Var& loop, bool keep_unit_loops);
// reverse_compute_at.cc
void ReverseComputeAt(ScheduleState& state, const std::string& block, const Var& loop, bool keep_unit_loops);

// cache.cc
std::string CacheRead(ScheduleState& state, const std::string& block, int read_index, const std::string& scope,
                      const std::vector<std::string>& consumers);
std::string CacheWrite(ScheduleState& state, const std::string& block, int write_index, const std::string& scope);

// storage.cc
void SetScope(ScheduleState& state, const std::string& block, int write_index, const std::string& scope);
void StorageAlign(ScheduleState& state, const std::string& block, int write_index, int axis, int factor, int offset);
void DoubleBuffer(ScheduleState& state, const std::string& block, int write_index);
void Prefetch(ScheduleState& state, const std::string& block, int read_index, const Var& loop, const PrimExpr& offset);
void PrefetchNext(ScheduleState& state, const std::string& block, int read_index, const Var& around, const Var& at,
                  int64_t within);

// transform_layout.cc
void TransformLayout(ScheduleState& state, const std::string& block, bool is_write, int index,
                     const std::vector<Var>& vars, const std::vector<PrimExpr>& indices);
// blockize.cc
std::string Blockize(ScheduleState& state, const Var& loop);
// tensorize.cc
void Tensorize(ScheduleState& state, const Var& loop, const TensorIntrin& intrin);
// pad_einsum.cc
void PadEinsum(ScheduleState& state, const std::string& block, const std::vector<int64_t>& padding);

// reduction.cc
std::string DecomposeReduction(ScheduleState& state, const std::string& block, const Var& loop);
// rfactor.cc
std::string RFactor(ScheduleState& state, const Var& loop, int factor_axis);

// annotate.cc
void AnnotateLoop(ScheduleState& state, const Var& loop, const std::string& key, const ObjectRef& value);
void AnnotateBlock(ScheduleState& state, const std::string& block, const std::string& key, const ObjectRef& value);

// ---- Shared by several ----

/// The single buffer store that makes up the block's body; throws where it isn't one.
const BufferStoreNode* OnlyStore(const BlockNode* block, const char* primitive);
/// The buffer that the block reads or writes at `index`; throws naming the block where there is none.
Buffer BufferAt(const BlockNode* block, bool is_write, int index, const char* primitive);
/// Throws where the block stands inside another one, each run of which does a part of the work only.
void RequireTopLevel(const PlacedBlock& placed, const char* primitive);
/// Throws unless the loop is serial and free of annotations that would be lost.
void RequirePlainLoop(const ForNode* loop, const char* primitive);
/// Block with each expression of its body and init mapped, shared values bound, reads and writes detected anew.
Block MapBlockValues(const Block& block, const std::function<PrimExpr(const PrimExpr&)>& map);
/// Blocks of the scope, other than `except`, that read / write the buffer.
std::vector<PlacedBlock> ReadersOf(const std::vector<PlacedBlock>& scope, const Buffer& buffer,
                                   const std::string& except = "");
std::vector<PlacedBlock> WritersOf(const std::vector<PlacedBlock>& scope, const Buffer& buffer,
                                   const std::string& except = "");
/// `new_stmt` put before (or after) `at`, a statement on a path of the function.
void InsertNextTo(ScheduleState& state, const Path& path, size_t at, const Stmt& new_stmt, bool before);

}  // namespace treadle::tir::primitive
