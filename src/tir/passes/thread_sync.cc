// SPDX-License-Identifier: Apache-2.0
// Barriers between accesses of memory that the threads of a block share.
#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ir/scoped_entry.h"
#include "tir/passes/kernel_body.h"
#include "tir/passes/pass_util.h"
#include "tir/passes/split_host_device.h"
#include "treadle/arith/analyzer.h"

namespace treadle::tir {
namespace {

struct Access {
  bool written = false;
  PrimExpr own{ObjectPtr<Object>()};  ///< the only index, which is another one in each thread; null: not so
};

/// How buffers (data pointers) are used.
struct Accesses {
  std::unordered_map<const Object*, Access> of;
  void Add(const Object* data, const Access& access) {
    auto [it, first] = of.emplace(data, access);
    if (first) return;
    it->second.written |= access.written;
    if (!SameOwn(it->second, access)) it->second.own = PrimExpr(ObjectPtr<Object>());
  }
  void Add(const Accesses& other) {
    for (const auto& [data, access] : other.of) Add(data, access);
  }
  /// The buffer that one of them writes and another thread may use; null: none.
  const VarNode* Conflict(const Accesses& other) const {
    for (const auto& [data, access] : of) {
      auto it = other.of.find(data);
      if (it == other.of.end() || SameOwn(access, it->second)) continue;
      if (access.written || it->second.written) return static_cast<const VarNode*>(data);
    }
    return nullptr;
  }

 private:
  static bool SameOwn(const Access& a, const Access& b) {
    return a.own.defined() && b.own.defined() && arith::ExprDeepEqual(a.own, b.own);
  }
};

/// Of a statement: what happens before its first barrier and after its last one; without a barrier, all is in both.
struct Summary {
  Accesses head, tail;
  bool waits = false;  ///< has a barrier that is reached always
};

class Synchronizer : public StmtExprMutator {
 protected:
  using StmtExprMutator::VisitExpr_;
  using StmtExprMutator::VisitStmt_;

  Stmt VisitStmt_(const AllocateNode* op) override {
    if (op->annotations.contains(kSharedByBlock)) shared_.insert(op->buffer->data.get());
    return StmtExprMutator::VisitStmt_(op);
  }
  Stmt VisitStmt_(const AttrStmtNode* op) override {
    const auto* axis = op->node.as<IterVarNode>();
    if (axis != nullptr && axis->thread_tag.rfind("threadIdx", 0) == 0) {
      threads_.insert(axis->var.get());
      const int64_t* extent = AsConstInt(op->value);
      axes_.push_back(axis->var);
      extents_.push_back(extent == nullptr ? -1 : *extent);
    }
    return StmtExprMutator::VisitStmt_(op);
  }
  PrimExpr VisitExpr_(const BufferLoadNode* op) override {
    Touch(op->buffer->data.get(), {false, Own(op->buffer, op->indices)});
    return StmtExprMutator::VisitExpr_(op);
  }
  PrimExpr VisitExpr_(const VarNode* op) override {
    if (op->dtype.is_handle()) Touch(op, {true, PrimExpr(ObjectPtr<Object>())});
    return GetRef<PrimExpr>(op);
  }
  Stmt VisitStmt_(const BufferStoreNode* op) override {
    Stmt result = StmtExprMutator::VisitStmt_(op);
    Touch(op->buffer->data.get(), {true, Own(op->buffer, op->indices)});
    return result;
  }
  Stmt VisitStmt_(const EvaluateNode* op) override {
    const auto* call = op->value.as<CallNode>();
    if (call == nullptr || !IsCallTo(call, "tir.tvm_storage_sync")) return StmtExprMutator::VisitStmt_(op);
    Wait();
    return GetRef<Stmt>(op);
  }
  Stmt VisitStmt_(const SeqStmtNode* op) override {
    Array<Stmt> seq;
    for (const Stmt& child : op->seq) {
      Summary before = std::exchange(now_, {});
      Stmt result = VisitStmt(child);
      Summary after = std::exchange(now_, std::move(before));
      const VarNode* buffer = at_once_ ? nullptr : now_.tail.Conflict(after.head);
      if (buffer != nullptr) {
        CheckTogether(buffer);
        seq.push_back(Barrier());
        Wait();
      }
      Append(after);
      seq.push_back(result);
    }
    return SeqStmt::Flatten(seq);
  }
  Stmt VisitStmt_(const ForNode* op) override {
    VisitExpr(op->min);
    VisitExpr(op->extent);
    return Loop(GetRef<Stmt>(op), op->body, Differs(op->min) || Differs(op->extent),
                AsConstInt(op->extent) != nullptr && *AsConstInt(op->extent) > 0, [&](const Stmt& body) {
                  return For(op->loop_var, op->min, op->extent, op->kind, body, op->thread_binding, op->annotations,
                             op->span);
                });
  }
  Stmt VisitStmt_(const WhileNode* op) override {
    VisitExpr(op->condition);
    return Loop(GetRef<Stmt>(op), op->body, Differs(op->condition), false,
                [&](const Stmt& body) { return While(op->condition, body, op->span); });
  }
  Stmt VisitStmt_(const IfThenElseNode* op) override {
    VisitExpr(op->condition);
    const bool differs = Differs(op->condition);
    divergent_ += differs;
    Summary before = std::exchange(now_, {});
    Stmt then_case = VisitStmt(op->then_case), else_case;
    Summary both = std::exchange(now_, {});
    if (op->else_case.defined()) else_case = VisitStmt(op->else_case);
    both.head.Add(now_.head);
    both.tail.Add(now_.tail);
    both.waits = false;
    now_ = std::move(before);
    Append(both);
    divergent_ -= differs;
    return IfThenElse(op->condition, then_case, else_case, op->span);
  }
  Stmt VisitStmt_(const LetStmtNode* op) override {
    ScopedEntry differs(differing_lets_, op->var.get(), Differs(op->value));
    ScopedEntry let(lets_, op->var.get(), WithLets(op->value));
    const bool outer = std::exchange(at_once_, at_once_ || OnlyStores(op->body));
    Stmt result = StmtExprMutator::VisitStmt_(op);
    at_once_ = outer;
    return result;
  }

 private:
  template <typename Rebuild>
  Stmt Loop(const Stmt& loop, const Stmt& old_body, bool differs, bool runs, Rebuild&& rebuild) {
    divergent_ += differs;
    Summary before = std::exchange(now_, {});
    Stmt body = VisitStmt(old_body);
    // What the next iteration begins with may meet what this one ends with.
    if (const VarNode* buffer = now_.tail.Conflict(now_.head)) {
      CheckTogether(buffer);
      body = SeqStmt::Flatten({body, Barrier()});
      Wait();
    }
    Summary inside = std::exchange(now_, std::move(before));
    inside.waits = inside.waits && runs;
    Append(inside);
    divergent_ -= differs;
    return body.same_as(old_body) ? loop : Stmt(rebuild(body));
  }
  static Stmt Barrier() {
    return Evaluate(CallIntrin(DataType::Int(32), "tir.tvm_storage_sync", {StringImm("shared")}));
  }
  void CheckTogether(const VarNode* buffer) const {
    if (divergent_ == 0) return;
    throw TargetError(StrCat("the threads of a block would have to wait for each other, because they share buffer ",
                             buffer->name_hint, ", within a condition that not all meet, or a loop that not all run ",
                             "equally often"));
  }
  /// The index where it is another one in each thread of the block, whatever else happens; else null.
  PrimExpr Own(const Buffer& buffer, const Array<PrimExpr>& indices) {
    const PrimExpr none{ObjectPtr<Object>()};
    if (shared_.count(buffer->data.get()) == 0 || indices.size() != 1) return none;
    const PrimExpr index = analyzer_.Simplify(WithLets(indices[0]));
    const std::vector<PrimExpr> linear = analyzer_.DetectLinear(index, axes_);
    if (linear.empty() || !is_const_int(analyzer_.Simplify(linear.back()))) return none;
    std::vector<std::pair<int64_t, int64_t>> steps;  // coefficient, extent
    for (size_t i = 0; i < axes_.size(); ++i) {
      const int64_t* coefficient = AsConstInt(linear[i]);
      if (extents_[i] == 1) continue;
      if (extents_[i] < 0 || coefficient == nullptr || *coefficient <= 0) return none;
      steps.emplace_back(*coefficient, extents_[i]);
    }
    std::sort(steps.begin(), steps.end());
    for (size_t i = 1; i < steps.size(); ++i) {
      if (steps[i].first < steps[i - 1].first * steps[i - 1].second) return none;
    }
    return index;
  }
  void Touch(const Object* data, const Access& access) {
    if (shared_.count(data) == 0) return;
    if (!now_.waits) now_.head.Add(data, access);
    now_.tail.Add(data, access);
  }
  void Wait() {
    now_.waits = true;
    now_.tail = {};
  }
  void Append(const Summary& next) {
    if (!now_.waits) now_.head.Add(next.head);
    if (next.waits) {
      now_.waits = true;
      now_.tail = next.tail;
    } else {
      now_.tail.Add(next.tail);
    }
  }
  /// Whether these are stores of values named before, which together are one step of each thread.
  static bool OnlyStores(const Stmt& stmt) {
    if (const auto* let = stmt.as<LetStmtNode>()) return OnlyStores(let->body);
    const auto* seq = stmt.as<SeqStmtNode>();
    if (seq == nullptr) return stmt.as<BufferStoreNode>() != nullptr;
    return std::all_of(seq->seq.begin(), seq->seq.end(),
                       [](const Stmt& s) { return s.as<BufferStoreNode>() != nullptr; });
  }
  /// Whether the value may be another one in each thread of a block.
  bool Differs(const PrimExpr& e) const {
    bool found = UsesAnyVar(e, threads_);
    PostOrderVisit(e, [&](const ObjectRef& node) {
      auto let = differing_lets_.find(node.get());
      found |= node.as<BufferLoadNode>() != nullptr || (let != differing_lets_.end() && let->second);
    });
    return found;
  }
  /// `e` in terms of variables that statements of the kernel don't name.
  PrimExpr WithLets(const PrimExpr& e) const {
    return Substitute(e, [this](const Var& var) -> std::optional<PrimExpr> {
      auto it = lets_.find(var.get());
      return it == lets_.end() ? std::nullopt : std::optional<PrimExpr>(it->second);
    });
  }

  Summary now_;
  std::vector<Var> axes_;         ///< of threads of the block
  std::vector<int64_t> extents_;  ///< theirs; -1: not constant
  std::unordered_map<const Object*, PrimExpr> lets_;
  std::unordered_map<const Object*, bool> differing_lets_;
  arith::Analyzer analyzer_;
  std::unordered_set<const Object*> shared_, threads_;
  int divergent_ = 0;
  bool at_once_ = false;  ///< within stores of values that are all computed before
};

}  // namespace

Stmt SyncThreads(const Stmt& kernel) { return Synchronizer()(kernel); }

}  // namespace treadle::tir
