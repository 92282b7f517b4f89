// SPDX-License-Identifier: Apache-2.0
#include "tir/schedule/tree.h"

#include <algorithm>
#include <set>
#include <utility>

#include "tir/block_access.h"

namespace treadle::tir {

std::vector<Stmt> ChildrenOf(const Stmt& stmt) {
  if (const auto* op = stmt.as<ForNode>()) return {op->body};
  if (const auto* op = stmt.as<SeqStmtNode>()) return op->seq.ToVector();
  if (const auto* op = stmt.as<BlockRealizeNode>()) return {op->block};
  if (const auto* op = stmt.as<BlockNode>()) return {op->body};
  if (const auto* op = stmt.as<IfThenElseNode>()) {
    if (op->else_case.defined()) return {op->then_case, op->else_case};
    return {op->then_case};
  }
  if (const auto* op = stmt.as<LetStmtNode>()) return {op->body};
  if (const auto* op = stmt.as<AttrStmtNode>()) return {op->body};
  if (const auto* op = stmt.as<AssertStmtNode>()) return {op->body};
  if (const auto* op = stmt.as<AllocateNode>()) return {op->body};
  if (const auto* op = stmt.as<WhileNode>()) return {op->body};
  return {};
}

Stmt WithChild(const Stmt& parent, const Stmt& child, const Stmt& replacement) {
  if (const auto* op = parent.as<SeqStmtNode>()) {
    Array<Stmt> seq;
    for (const Stmt& s : op->seq) {
      if (!s.same_as(child))
        seq.push_back(s);
      else if (replacement.defined())
        seq.push_back(replacement);
    }
    return seq.empty() ? Stmt() : SeqStmt::Flatten(seq);
  }
  if (const auto* op = parent.as<IfThenElseNode>()) {
    Stmt then_case = op->then_case, else_case = op->else_case;
    if (then_case.same_as(child))
      then_case = replacement;
    else
      else_case = replacement;
    if (!then_case.defined() && !else_case.defined()) return Stmt();
    if (!then_case.defined()) return IfThenElse(logical_not(op->condition), else_case);
    return IfThenElse(op->condition, then_case, else_case, op->span);
  }
  if (const auto* op = parent.as<BlockNode>()) {
    // A block around blocks goes with them; the root stays.
    if (!replacement.defined() && !op->iter_vars.empty() && !op->init.defined()) return Stmt();
    Block block = GetRef<Block>(op);
    block.CopyOnWrite()->body = replacement.defined() ? replacement : Evaluate(PrimExpr(0));
    return block;
  }
  if (!replacement.defined()) return Stmt();
  if (parent.as<ForNode>()) {
    For loop = Downcast<For>(parent);
    loop.CopyOnWrite()->body = replacement;
    return loop;
  }
  if (const auto* op = parent.as<BlockRealizeNode>()) {
    return BlockRealize(op->iter_values, op->predicate, Downcast<Block>(replacement), op->span);
  }
  if (const auto* op = parent.as<LetStmtNode>()) return LetStmt(op->var, op->value, replacement, op->span);
  if (const auto* op = parent.as<AttrStmtNode>())
    return AttrStmt(op->node, op->attr_key, op->value, replacement, op->span);
  if (const auto* op = parent.as<AssertStmtNode>())
    return AssertStmt(op->condition, op->message, replacement, op->span);
  if (const auto* op = parent.as<AllocateNode>()) return Allocate(op->buffer, replacement, op->annotations, op->span);
  if (const auto* op = parent.as<WhileNode>()) return While(op->condition, replacement, op->span);
  throw InternalError(StrCat("internal error: statement ", parent->type_key(), " has no children"));
}

std::vector<For> PlacedBlock::Loops() const {
  std::vector<For> loops;
  for (size_t i = path.size() - 1; i-- > 0;) {
    if (path[i].as<BlockNode>()) break;
    if (path[i].as<ForNode>()) loops.push_back(Downcast<For>(path[i]));
  }
  std::reverse(loops.begin(), loops.end());
  return loops;
}

size_t PlacedBlock::ScopeIndex() const {
  for (size_t i = path.size() - 1; i-- > 0;) {
    if (path[i].as<BlockNode>()) return i;
  }
  return std::string::npos;
}

namespace {

void CollectBlocks(const Stmt& stmt, Path& path, bool into_blocks, std::vector<PlacedBlock>& out) {
  WithEnoughStack([&] {
    path.push_back(stmt);
    if (stmt.as<BlockRealizeNode>()) {
      out.push_back({Downcast<BlockRealize>(stmt), path});
      if (into_blocks) {
        for (const Stmt& child : ChildrenOf(stmt)) CollectBlocks(child, path, into_blocks, out);
      }
    } else {
      for (const Stmt& child : ChildrenOf(stmt)) CollectBlocks(child, path, into_blocks, out);
    }
    path.pop_back();
  });
}

bool FindPath(const Stmt& stmt, const std::function<bool(const Stmt&)>& wanted, Path& path) {
  return WithEnoughStack([&] {
    path.push_back(stmt);
    if (wanted(stmt)) return true;
    for (const Stmt& child : ChildrenOf(stmt)) {
      if (FindPath(child, wanted, path)) return true;
    }
    path.pop_back();
    return false;
  });
}

}  // namespace

ScheduleState::ScheduleState(PrimFunc func) : func_(std::move(func)) {
  const auto* realize = func_->body.as<BlockRealizeNode>();
  if (realize == nullptr) {
    throw ScheduleError("a schedulable function has one root block as its body; this one is in low-level form");
  }
  // Handles go by name, so names are made unique.
  std::set<std::string> names;
  std::vector<PlacedBlock> blocks = AllBlocks();
  bool clash = false;
  for (const PlacedBlock& b : blocks) clash |= !names.insert(b.name()).second;
  if (!clash) return;
  class Renamer : public StmtMutator {
   public:
    std::set<std::string> used;

   protected:
    Stmt VisitStmt_(const BlockNode* op) override {
      std::string name = op->name_hint;
      for (int i = 1; !used.insert(name).second; ++i) name = StrCat(op->name_hint, "_", i);
      Block block = Downcast<Block>(StmtMutator::VisitStmt_(op));
      if (name != block->name_hint) block.CopyOnWrite()->name_hint = name;
      return block;
    }
  } renamer;
  SetBody(renamer(func_->body));
}

void ScheduleState::SetBody(Stmt body) {
  PrimFunc func = func_;
  func.CopyOnWrite()->body = std::move(body);
  func_ = func;
}

std::vector<PlacedBlock> ScheduleState::AllBlocks() const {
  std::vector<PlacedBlock> blocks;
  Path path;
  CollectBlocks(func_->body, path, true, blocks);
  return blocks;
}

std::vector<PlacedBlock> ScheduleState::ScopeOf(const PlacedBlock& block) const {
  size_t scope = block.ScopeIndex();
  TREADLE_ICHECK(scope != std::string::npos) << "the root block has no enclosing block";
  Path prefix(block.path.begin(), block.path.begin() + static_cast<std::ptrdiff_t>(scope) + 1);
  std::vector<PlacedBlock> inside;
  Path path = prefix;
  for (const Stmt& child : ChildrenOf(prefix.back())) CollectBlocks(child, path, false, inside);
  return inside;
}

PlacedBlock ScheduleState::FindBlock(const std::string& name) const {
  Path path;
  bool found = FindPath(
      func_->body,
      [&](const Stmt& s) {
        const auto* realize = s.as<BlockRealizeNode>();
        return realize && realize->block->name_hint == name;
      },
      path);
  if (!found) {
    std::string known;
    for (const PlacedBlock& b : AllBlocks()) known += (known.empty() ? "" : ", ") + b.name();
    throw ScheduleError(StrCat("there is no block '", name, "'; the function has: ", known));
  }
  return {Downcast<BlockRealize>(path.back()), path};
}

bool ScheduleState::HasBlock(const std::string& name) const {
  Path path;
  return FindPath(
      func_->body,
      [&](const Stmt& s) {
        const auto* realize = s.as<BlockRealizeNode>();
        return realize && realize->block->name_hint == name;
      },
      path);
}

Path ScheduleState::FindLoop(const Var& var, const char* primitive) const {
  Path path;
  bool found = FindPath(
      func_->body,
      [&](const Stmt& s) {
        const auto* loop = s.as<ForNode>();
        return loop && loop->loop_var.same_as(var);
      },
      path);
  if (!found) {
    throw ScheduleError(StrCat(primitive, ": loop '", var->name_hint,
                               "' is no longer part of the function: it was "
                               "split, fused, or its block moved; get the loops of the block again"));
  }
  return path;
}

void ScheduleState::Replace(const Path& path, const Stmt& replacement) {
  Stmt current = replacement;
  for (size_t i = path.size() - 1; i-- > 0;) current = WithChild(path[i], path[i + 1], current);
  SetBody(current);
}

void ScheduleState::ReplaceMany(const std::unordered_map<const Object*, Stmt>& replacements) {
  std::function<Stmt(const Stmt&)> rewrite = [&](const Stmt& stmt) -> Stmt {
    auto it = replacements.find(stmt.get());
    if (it != replacements.end()) return it->second;
    return WithEnoughStack([&] {
      // A SeqStmt that shrank to one statement has no children by identity any more: rebuilt in one go.
      if (const auto* op = stmt.as<SeqStmtNode>()) {
        Array<Stmt> seq;
        bool same = true;
        for (const Stmt& s : op->seq) {
          Stmt rewritten = rewrite(s);
          same = same && rewritten.same_as(s);
          if (rewritten.defined()) seq.push_back(rewritten);
        }
        if (same) return stmt;
        return seq.empty() ? Stmt() : SeqStmt::Flatten(seq);
      }
      Stmt result = stmt;
      for (const Stmt& child : ChildrenOf(stmt)) {
        Stmt rewritten = rewrite(child);
        if (rewritten.same_as(child)) continue;
        if (!result.defined()) break;
        result = WithChild(result, child, rewritten);
      }
      return result;
    });
  };
  SetBody(rewrite(func_->body));
}

std::string ScheduleState::UniqueBlockName(const std::string& hint) const {
  std::set<std::string> used;
  for (const PlacedBlock& b : AllBlocks()) used.insert(b.name());
  std::string name = hint;
  for (int i = 1; used.count(name); ++i) name = StrCat(hint, "_", i);
  return name;
}

std::string ScheduleState::UniqueBufferName(const std::string& hint) const {
  std::set<std::string> used;
  for (const auto& [param, buffer] : func_->buffer_map) used.insert(buffer->name);
  for (const PlacedBlock& b : AllBlocks()) {
    for (const Buffer& buffer : b.block()->alloc_buffers) used.insert(buffer->name);
  }
  std::string name = hint;
  for (int i = 1; used.count(name); ++i) name = StrCat(hint, "_", i);
  return name;
}

bool ScheduleState::IsParameter(const Buffer& buffer) const {
  for (const auto& [param, known] : func_->buffer_map) {
    if (known.same_as(buffer)) return true;
  }
  return false;
}

void ScheduleState::AddAlloc(const Buffer& buffer) {
  const auto* realize = func_->body.as<BlockRealizeNode>();
  Block root = realize->block;
  root.CopyOnWrite()->alloc_buffers.push_back(buffer);
  SetBody(BlockRealize(realize->iter_values, realize->predicate, root));
}

void ScheduleState::RemoveAlloc(const Buffer& buffer) {
  class Remover : public StmtMutator {
   public:
    explicit Remover(const Buffer& buffer) : buffer_(buffer) {}

   protected:
    Stmt VisitStmt_(const BlockNode* op) override {
      Block block = GetRef<Block>(op);
      for (size_t i = 0; i < op->alloc_buffers.size(); ++i) {
        if (!op->alloc_buffers[i].same_as(buffer_)) continue;
        block.CopyOnWrite()->alloc_buffers.erase(i);
        break;
      }
      Stmt body = VisitStmt(op->body);
      if (!body.same_as(op->body)) block.CopyOnWrite()->body = body;
      return block;
    }
    // A prefetch of the removed buffer has no target left.
    Stmt VisitStmt_(const EvaluateNode* op) override {
      const auto* call = op->value.as<CallNode>();
      if (call == nullptr || !IsCallTo(call, "tir.prefetch")) return GetRef<Stmt>(op);
      bool uses = false;
      PostOrderVisit(op->value, [&](const ObjectRef& node) {
        const auto* load = node.as<BufferLoadNode>();
        uses = uses || (load != nullptr && load->buffer.same_as(buffer_));
      });
      return uses ? Stmt(Evaluate(PrimExpr(0))) : GetRef<Stmt>(op);
    }
    Stmt VisitStmt_(const SeqStmtNode* op) override {
      Array<Stmt> seq = op->seq.Map([this](const Stmt& s) { return VisitStmt(s); });
      return seq.same_as(op->seq) ? GetRef<Stmt>(op) : SeqStmt::Flatten(seq);
    }

   private:
    const Buffer& buffer_;
  };
  SetBody(Remover(buffer)(func_->body));
}

void ScheduleState::UpdateEnclosingRegions() {
  class Refresher : public StmtMutator {
   protected:
    using StmtMutator::VisitStmt_;
    Stmt VisitStmt_(const BlockNode* op) override {
      Block block = Downcast<Block>(StmtMutator::VisitStmt_(op));
      // The root has no regions, tensorised blocks those of their intrinsic.
      const bool inferred = !op->iter_vars.empty() && op->match_buffers.empty();
      return inferred && !BlocksIn(block->body).empty() ? WithDetectedAccess(block) : block;
    }
  };
  bool nested = false;
  for (const PlacedBlock& b : AllBlocks()) nested |= b.path.size() > 1 && !BlocksIn(b.block()->body).empty();
  if (nested) SetBody(Refresher()(func_->body));
}

void ScheduleState::BindContext(arith::Analyzer& analyzer, const Path& path) const {
  for (const auto& [param, buffer] : func_->buffer_map) {
    for (const PrimExpr& dim : buffer->shape) {
      if (const auto* var = dim.as<VarNode>()) {
        analyzer.Bind(GetRef<Var>(var), arith::ConstIntBound{0, arith::ConstIntBound::kPosInf});
      }
    }
  }
  for (const Stmt& stmt : path) {
    if (const auto* loop = stmt.as<ForNode>()) {
      analyzer.Bind(loop->loop_var, Range::FromMinExtent(loop->min, loop->extent));
    } else if (const auto* block = stmt.as<BlockNode>()) {
      for (const IterVar& iv : block->iter_vars) analyzer.Bind(iv->var, iv->dom);
    }
  }
}

namespace {

class LoopVarSubstituter : public StmtExprMutator {
 public:
  LoopVarSubstituter(const Map<Var, PrimExpr>& vmap, arith::Analyzer& analyzer) : vmap_(vmap), analyzer_(analyzer) {}
  Stmt Run(const Stmt& s) { return VisitStmt(s); }

 protected:
  using StmtExprMutator::VisitExpr_;
  using StmtExprMutator::VisitStmt_;
  PrimExpr VisitExpr(const PrimExpr& e) override {
    bool uses = arith::UsesVar(e, [&](const VarNode* v) { return vmap_.contains(GetRef<Var>(v)); });
    if (!uses) return e;
    return analyzer_.Simplify(Substitute(e, vmap_));
  }
  Stmt VisitStmt_(const ForNode* op) override {
    PrimExpr min = VisitExpr(op->min), extent = VisitExpr(op->extent);
    analyzer_.Bind(op->loop_var, Range::FromMinExtent(min, extent));
    Stmt body = VisitStmt(op->body);
    if (min.same_as(op->min) && extent.same_as(op->extent) && body.same_as(op->body)) return GetRef<Stmt>(op);
    For loop = GetRef<For>(op);
    ForNode* node = loop.CopyOnWrite();
    node->min = min;
    node->extent = extent;
    node->body = body;
    return loop;
  }
  Stmt VisitStmt_(const BlockNode* op) override { return GetRef<Stmt>(op); }

 private:
  const Map<Var, PrimExpr>& vmap_;
  arith::Analyzer& analyzer_;
};

class PredicateAdder : public StmtMutator {
 public:
  explicit PredicateAdder(const PrimExpr& predicate) : predicate_(predicate) {}

 protected:
  Stmt VisitStmt_(const BlockRealizeNode* op) override {
    return BlockRealize(op->iter_values, op->predicate && predicate_, op->block, op->span);
  }

 private:
  const PrimExpr& predicate_;
};

}  // namespace

Stmt SubstituteLoopVars(const Stmt& stmt, const Map<Var, PrimExpr>& vmap, arith::Analyzer& analyzer) {
  return LoopVarSubstituter(vmap, analyzer).Run(stmt);
}

Stmt AddPredicate(const Stmt& stmt, const PrimExpr& predicate) { return PredicateAdder(predicate)(stmt); }

std::vector<PlacedBlock> BlocksIn(const Stmt& stmt) {
  std::vector<PlacedBlock> blocks;
  Path path;
  CollectBlocks(stmt, path, false, blocks);
  return blocks;
}

bool Contains(const Stmt& stmt, const Object* what) {
  Path path;
  return FindPath(stmt, [&](const Stmt& s) { return s.get() == what; }, path);
}

bool UsesLoopVar(const PrimExpr& e, const Var& var) {
  return arith::UsesVar(e, [&](const VarNode* v) { return v == var.get(); });
}

IterKinds IterKindsBoundTo(const PlacedBlock& placed, const Var& loop) {
  IterKinds driven;
  for (size_t i = 0; i < placed.block()->iter_vars.size(); ++i) {
    if (!UsesLoopVar(placed.realize->iter_values[i], loop)) continue;
    const bool reduced = placed.block()->iter_vars[i]->iter_type == IterVarType::kCommReduce;
    (reduced ? driven.reduction : driven.data) = true;
  }
  return driven;
}

bool ReadsBuffer(const BlockNode* block, const Buffer& buffer) {
  for (const BufferRegion& r : block->reads) {
    if (r->buffer.same_as(buffer)) return true;
  }
  return false;
}

bool WritesBuffer(const BlockNode* block, const Buffer& buffer) {
  for (const BufferRegion& r : block->writes) {
    if (r->buffer.same_as(buffer)) return true;
  }
  return false;
}

bool IsReduction(const BlockNode* block) {
  for (const IterVar& iv : block->iter_vars) {
    if (iv->iter_type == IterVarType::kCommReduce) return true;
  }
  return false;
}

std::string LoopName(const Var& var) { return StrCat("'", var->name_hint, "'"); }

std::vector<arith::IntSet> TouchedRegion(const Stmt& stmt, const Buffer& buffer, bool is_write,
                                         arith::Analyzer& analyzer) {
  std::vector<arith::IntSet> total;
  for (const PlacedBlock& placed : BlocksIn(stmt)) {
    std::unordered_map<const VarNode*, arith::IntSet> relaxed;
    auto domain = [&](const Var& var) -> std::optional<arith::IntSet> {
      auto it = relaxed.find(var.get());
      if (it == relaxed.end()) return std::nullopt;
      return it->second;
    };
    for (const Stmt& s : placed.path) {
      const auto* loop = s.as<ForNode>();
      if (loop == nullptr) continue;
      Range range = Range::FromMinExtent(loop->min, loop->extent);
      analyzer.Bind(loop->loop_var, range);
      arith::IntSet set = arith::IntSet::FromRange(range);
      relaxed[loop->loop_var.get()] = {analyzer.EvalSet(set.min, domain).min, analyzer.EvalSet(set.max, domain).max};
    }
    Map<Var, PrimExpr> bindings;
    for (size_t i = 0; i < placed.realize->iter_values.size(); ++i) {
      bindings.Set(placed.block()->iter_vars[i]->var, placed.realize->iter_values[i]);
    }
    for (const BufferRegion& region : is_write ? placed.block()->writes : placed.block()->reads) {
      if (!region->buffer.same_as(buffer)) continue;
      bool first = total.empty() && buffer->shape.size() > 0;
      if (first) total.resize(buffer->shape.size());
      for (size_t d = 0; d < region->region.size(); ++d) {
        const Range range = region->region[d];
        arith::IntSet low = analyzer.EvalSet(Substitute(range->min, bindings), domain);
        arith::IntSet high = is_const_int(range->extent, 1)
                                 ? low
                                 : analyzer.EvalSet(Substitute(range->min + range->extent - 1, bindings), domain);
        arith::IntSet set{low.min, high.max};
        if (first) {
          total[d] = set;
          continue;
        }
        auto end = [&](const PrimExpr& a, const PrimExpr& b, bool lower) {
          if (!a.defined() || !b.defined()) return PrimExpr(ObjectPtr<Object>());
          return analyzer.Simplify(lower ? min(a, b) : max(a, b));
        };
        total[d] = {end(total[d].min, set.min, true), end(total[d].max, set.max, false)};
      }
    }
  }
  return total;
}

}  // namespace treadle::tir
