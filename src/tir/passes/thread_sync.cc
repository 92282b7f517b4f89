// SPDX-License-Identifier: Apache-2.0
// Barriers between accesses of memory that the threads of a block share.
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "tir/passes/kernel_body.h"
#include "tir/passes/pass_util.h"
#include "tir/passes/split_host_device.h"

namespace treadle::tir {
namespace {

/// Buffers (data pointers) that are read and written.
struct Accesses {
  std::unordered_map<const Object*, bool> written;  ///< false: only read
  void Add(const Object* data, bool write) { written[data] |= write; }
  void Add(const Accesses& other) {
    for (const auto& [data, write] : other.written) Add(data, write);
  }
  /// The buffer that one of them writes and the other uses; null: none.
  const VarNode* Conflict(const Accesses& other) const {
    for (const auto& [data, write] : written) {
      auto it = other.written.find(data);
      if (it != other.written.end() && (write || it->second)) return static_cast<const VarNode*>(data);
    }
    return nullptr;
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
    if (axis != nullptr && axis->thread_tag.rfind("threadIdx", 0) == 0) threads_.insert(axis->var.get());
    return StmtExprMutator::VisitStmt_(op);
  }
  PrimExpr VisitExpr_(const BufferLoadNode* op) override {
    Touch(op->buffer->data.get(), false);
    return StmtExprMutator::VisitExpr_(op);
  }
  PrimExpr VisitExpr_(const VarNode* op) override {
    if (op->dtype.is_handle()) Touch(op, true);
    return GetRef<PrimExpr>(op);
  }
  Stmt VisitStmt_(const BufferStoreNode* op) override {
    Stmt result = StmtExprMutator::VisitStmt_(op);
    Touch(op->buffer->data.get(), true);
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
      if (const VarNode* buffer = now_.tail.Conflict(after.head)) {
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
    if (Differs(op->value)) threads_.insert(op->var.get());
    return StmtExprMutator::VisitStmt_(op);
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
  void Touch(const Object* data, bool write) {
    if (shared_.count(data) == 0) return;
    if (!now_.waits) now_.head.Add(data, write);
    now_.tail.Add(data, write);
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
  /// Whether the value may be another one in each thread of a block.
  bool Differs(const PrimExpr& e) const {
    bool found = UsesAnyVar(e, threads_);
    PostOrderVisit(e, [&](const ObjectRef& node) { found |= node.as<BufferLoadNode>() != nullptr; });
    return found;
  }

  Summary now_;
  std::unordered_set<const Object*> shared_, threads_;
  int divergent_ = 0;
};

}  // namespace

Stmt SyncThreads(const Stmt& kernel) { return Synchronizer()(kernel); }

}  // namespace treadle::tir
