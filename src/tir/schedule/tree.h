// SPDX-License-Identifier: Apache-2.0
// Finding and replacing parts of a schedulable function.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "treadle/arith/analyzer.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/tir/schedule.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::tir {

/// Statements from the function's body to the target, both included. A block is preceded by its BlockRealize.
using Path = std::vector<Stmt>;

/// The statements directly inside (init of a block not included).
std::vector<Stmt> ChildrenOf(const Stmt& stmt);
/// `parent` with one child replaced; null takes it out (a parent left without content gives null).
Stmt WithChild(const Stmt& parent, const Stmt& child, const Stmt& replacement);

/// A block with where it stands.
struct PlacedBlock {
  BlockRealize realize;
  Path path;  ///< ends with the BlockRealize
  const BlockNode* block() const { return realize->block.get(); }
  const std::string& name() const { return realize->block->name_hint; }
  /// Loops around it within the enclosing block, outermost first.
  std::vector<For> Loops() const;
  /// Index in `path` of the enclosing block; npos for the root.
  size_t ScopeIndex() const;
};

/// State of a schedule: the function, and ways to rewrite it.
class ScheduleState {
 public:
  explicit ScheduleState(PrimFunc func);
  const PrimFunc& func() const { return func_; }
  void SetFunc(PrimFunc func) { func_ = std::move(func); }
  void SetBody(Stmt body);

  /// All blocks, outer before inner, in order of execution.
  std::vector<PlacedBlock> AllBlocks() const;
  /// Blocks whose enclosing block is the one that encloses `block` (in order).
  std::vector<PlacedBlock> ScopeOf(const PlacedBlock& block) const;
  PlacedBlock FindBlock(const std::string& name) const;
  bool HasBlock(const std::string& name) const;
  /// Path to the loop, which is last. Throws ScheduleError where it is gone.
  Path FindLoop(const Var& var, const char* primitive) const;

  /// Replaces the last statement of the path; null removes it together with loops left empty. Returns nothing; the
  /// function is updated.
  void Replace(const Path& path, const Stmt& replacement);
  /// Several replacements at once, each given by the statement's identity.
  void ReplaceMany(const std::unordered_map<const Object*, Stmt>& replacements);
  std::string UniqueBlockName(const std::string& hint) const;
  std::string UniqueBufferName(const std::string& hint) const;
  bool IsParameter(const Buffer& buffer) const;
  /// Adds the buffers to the alloc_buffers of the root block.
  void AddAlloc(const Buffer& buffer);
  void RemoveAlloc(const Buffer& buffer);
  /// Recomputes the regions that enclosing blocks read and write, after blocks inside changed; the root and tensorised
  /// blocks keep theirs.
  void UpdateEnclosingRegions();
  /// Binds in the analyzer the loops on the path and non-negative shape variables.
  void BindContext(arith::Analyzer& analyzer, const Path& path) const;

 private:
  PrimFunc func_;
};

/// Substitutes loop variables in everything but the insides of blocks; bindings, predicates and extents are simplified.
Stmt SubstituteLoopVars(const Stmt& stmt, const Map<Var, PrimExpr>& vmap, arith::Analyzer& analyzer);
/// Adds a predicate to all blocks in `stmt` that aren't inside another block of it.
Stmt AddPredicate(const Stmt& stmt, const PrimExpr& predicate);
/// Blocks inside `stmt`, not those inside of them. Paths start at `stmt`.
std::vector<PlacedBlock> BlocksIn(const Stmt& stmt);
bool Contains(const Stmt& stmt, const Object* what);
bool UsesLoopVar(const PrimExpr& e, const Var& var);
/// Kinds of a block's axes whose bindings use a loop.
struct IterKinds {
  bool data = false;  ///< one that isn't reduced
  bool reduction = false;
};
IterKinds IterKindsBoundTo(const PlacedBlock& placed, const Var& loop);
bool ReadsBuffer(const BlockNode* block, const Buffer& buffer);
bool WritesBuffer(const BlockNode* block, const Buffer& buffer);
bool IsReduction(const BlockNode* block);
std::string LoopName(const Var& var);

/// The region of `buffer` that the blocks in `stmt` read (or write), in terms of variables free in `stmt`; null where
/// it isn't touched. Not clipped to the shape.
std::vector<arith::IntSet> TouchedRegion(const Stmt& stmt, const Buffer& buffer, bool is_write,
                                         arith::Analyzer& analyzer);

}  // namespace treadle::tir
