// SPDX-License-Identifier: Apache-2.0
#include "tir/passes/kernel_body.h"

#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tir/passes/pass_util.h"
#include "tir/passes/split_host_device.h"
#include "treadle/ir/structural.h"

namespace treadle::tir {
namespace {

bool IsVirtual(const ForNode* loop) { return loop->thread_binding->thread_tag.rfind("vthread", 0) == 0; }

template <typename Predicate>
bool AnyNode(const ObjectRef& node, Predicate&& predicate) {
  bool found = false;
  PostOrderVisit(node, [&](const ObjectRef& n) { found = found || predicate(n); });
  return found;
}

}  // namespace

size_t AxisOf(const ForNode* loop) {
  const std::string& tag = loop->thread_binding->thread_tag;
  for (size_t a = 0; a < kThreadAxes.size(); ++a) {
    if (tag == kThreadAxes[a]) return a;
  }
  throw TargetError(StrCat("loop ", loop->loop_var->name_hint, " is bound to ", tag,
                           ", which isn't an axis of a grid; those are blockIdx.x to .z and threadIdx.x to .z"));
}

bool IsThreadLoop(const ObjectRef& node) {
  const auto* loop = node.as<ForNode>();
  return loop != nullptr && loop->kind == ForKind::kThreadBinding && !IsVirtual(loop);
}
bool HasThreads(const Stmt& stmt) { return AnyNode(stmt, IsThreadLoop); }
bool ReadsMemory(const PrimExpr& e) {
  return AnyNode(e, [](const ObjectRef& n) { return n.as<BufferLoadNode>() != nullptr; });
}

/// Bytes of a buffer of constant size, or -1.
int64_t ConstantBytes(const Buffer& buffer) {
  int64_t bytes = int64_t{std::max(1, buffer->dtype.bytes())} * buffer->dtype.lanes();
  for (const PrimExpr& extent : buffer->shape) {
    const int64_t* n = AsConstInt(extent);
    if (n == nullptr || __builtin_mul_overflow(bytes, *n, &bytes)) return -1;
  }
  return bytes;
}

namespace {

Stmt Barrier() { return Evaluate(CallIntrin(DataType::Int(32), "tir.tvm_storage_sync", {StringImm("shared")})); }

/// Turns a nest with thread-bound loops into the body of a kernel.
class KernelBodyBuilder : public StmtExprMutator {
 public:
  struct Axis : KernelAxis {
    bool active = false;
  };

  KernelBody Run(const Stmt& nest) {
    PostOrderVisit(nest, [this](const ObjectRef& node) {
      if (IsThreadLoop(node)) AddLoop(node.as<ForNode>());
    });
    Stmt body = VisitStmt(nest);
    for (size_t i = shared_.size(); i-- > 0;) {
      body = Allocate(shared_[i], body, {{String(kSharedByBlock), IntImm(DataType::Int(32), 1)}});
    }
    for (size_t a = kThreadAxes.size(); a-- > 0;) {
      if (!axes_[a].used) continue;
      IterVar axis(Range::FromMinExtent(make_zero(axes_[a].var.dtype()), axes_[a].extent), axes_[a].var,
                   IterVarType::kThreadIndex, kThreadAxes[a]);
      body = AttrStmt(axis, attr::kThreadExtent, axes_[a].extent, body);
    }
    KernelBody result{SyncThreads(body), {}};
    for (size_t a = 0; a < kThreadAxes.size(); ++a) result.axes[a] = axes_[a];
    return result;
  }

 protected:
  using StmtExprMutator::VisitStmt_;

  Stmt VisitStmt_(const ForNode* op) override {
    if (op->kind != ForKind::kThreadBinding || IsVirtual(op)) {
      if (!HasThreads(op->body)) return Leaf(SerialLoops(GetRef<Stmt>(op)));
      const bool divergent =
          ReadsMemory(op->min) || ReadsMemory(op->extent) || UsesThreads(op->min) || UsesThreads(op->extent);
      divergent_ += divergent;
      Stmt body = VisitStmt(op->body);
      // The next iteration may overwrite what other threads still read.
      if (NeedsBarriers()) body = SeqStmt::Flatten({body, BarrierHere()});
      divergent_ -= divergent;
      return For(op->loop_var, op->min, op->extent, ForKind::kSerial, body);
    }
    const size_t a = AxisOf(op);
    Axis& axis = axes_[a];
    const bool again = axis.active;
    if (again && (a < kFirstThread || !Covers(active_extents_[a], op->extent))) {
      throw TargetError(StrCat("loop ", op->loop_var->name_hint, " is bound to ", kThreadAxes[a],
                               " within another loop that is bound to it", a < kFirstThread ? "" : ", but is longer"));
    }
    Map<Var, PrimExpr> replaced;
    PrimExpr value = axis.var;
    if (axis.var.dtype() != op->loop_var.dtype()) value = Cast(op->loop_var.dtype(), value);
    replaced.Set(op->loop_var, is_zero(op->min) ? value : op->min + value);
    const bool partial = !StructuralEqual(op->extent, again ? active_extents_[a] : axis.extent);
    const PrimExpr outer_extent = std::exchange(active_extents_[a], op->extent);
    axis.active = true;
    divergent_ += partial && a >= kFirstThread;
    Stmt body = VisitStmt(Substitute(op->body, replaced));
    divergent_ -= partial && a >= kFirstThread;
    axis.active = again;
    active_extents_[a] = outer_extent;
    return partial ? IfThenElse(axis.var < cast(axis.var.dtype(), op->extent), body) : body;
  }
  Stmt VisitStmt_(const SeqStmtNode* op) override {
    if (!HasThreads(GetRef<Stmt>(op))) return Leaf(SerialLoops(GetRef<Stmt>(op)));
    CheckBlocksDoNotWait(op);
    Array<Stmt> seq;
    for (size_t i = 0; i < op->seq.size(); ++i) {
      if (i > 0 && NeedsBarriers()) seq.push_back(BarrierHere());
      seq.push_back(VisitStmt(op->seq[i]));
    }
    return SeqStmt::Flatten(seq);
  }
  Stmt VisitStmt_(const IfThenElseNode* op) override {
    if (!HasThreads(GetRef<Stmt>(op))) return Leaf(SerialLoops(GetRef<Stmt>(op)));
    const bool divergent = ReadsMemory(op->condition) || UsesThreads(op->condition);
    divergent_ += divergent;
    Stmt result = StmtExprMutator::VisitStmt_(op);
    divergent_ -= divergent;
    return result;
  }
  Stmt VisitStmt_(const BufferStoreNode* op) override { return Leaf(GetRef<Stmt>(op)); }
  Stmt VisitStmt_(const EvaluateNode* op) override { return Leaf(GetRef<Stmt>(op)); }
  Stmt VisitStmt_(const WhileNode* op) override {
    if (HasThreads(op->body)) throw TargetError("a while loop of a block can't hold loops bound to threads");
    return Leaf(SerialLoops(GetRef<Stmt>(op)));
  }
  Stmt VisitStmt_(const AllocateNode* op) override {
    const bool asked = op->buffer.scope().rfind("shared", 0) == 0;
    bool any_thread = false, thread_active = false;
    for (size_t a = kFirstThread; a < kThreadAxes.size(); ++a) {
      any_thread |= axes_[a].used;
      thread_active |= axes_[a].active;
    }
    // Within loops bound to threads, ShareAmongThreads knows.
    const bool shared =
        thread_active ? op->annotations.contains(kSharedByBlock) : asked || (any_thread && HasThreads(op->body));
    if (!shared) return Allocate(op->buffer, VisitStmt(op->body), op->annotations);
    if (ConstantBytes(op->buffer) < 0) {
      throw TargetError(StrCat("buffer ", op->buffer->name, " is shared by the threads of a block, so that its size ",
                               "must be a constant"));
    }
    // Copies of a statement have their buffers in common.
    const bool known =
        std::any_of(shared_.begin(), shared_.end(), [&](const Buffer& b) { return b->data.same_as(op->buffer->data); });
    if (!known) shared_.push_back(op->buffer);
    return VisitStmt(op->body);
  }

 private:
  void AddLoop(const ForNode* loop) {
    const size_t a = AxisOf(loop);
    Axis& axis = axes_[a];
    if (!axis.used) {
      axis.used = true;
      axis.extent = loop->extent;
      axis.var = Var(kThreadAxes[a], loop->loop_var.dtype());
    } else if (!StructuralEqual(axis.extent, loop->extent)) {
      axis.extent = max(axis.extent, cast(axis.extent.dtype(), loop->extent));
    }
  }
  /// Whether `inner` iterations aren't more than `outer` ones.
  static bool Covers(const PrimExpr& outer, const PrimExpr& inner) {
    const int64_t *a = AsConstInt(outer), *b = AsConstInt(inner);
    return (a != nullptr && b != nullptr && *b <= *a) || StructuralEqual(outer, inner);
  }
  bool UsesThreads(const PrimExpr& e) const {
    std::unordered_set<const Object*> vars;
    for (size_t a = kFirstThread; a < kThreadAxes.size(); ++a) vars.insert(axes_[a].var.get());
    return UsesAnyVar(e, vars);
  }
  /// Whether statements here are run by all threads of a block together.
  bool NeedsBarriers() const {
    bool inactive = false;
    for (size_t a = kFirstThread; a < kThreadAxes.size(); ++a) inactive |= axes_[a].used && !axes_[a].active;
    return inactive;
  }
  Stmt BarrierHere() const {
    if (divergent_ > 0) {
      throw TargetError(
          "threads of a block would have to wait for each other within a condition that not all meet, or "
          "a loop that not all run equally often");
    }
    return Barrier();
  }
  void CheckBlocksDoNotWait(const SeqStmtNode* op) const {
    for (size_t a = 0; a < kFirstThread; ++a) {
      if (!axes_[a].used || axes_[a].active) continue;
      throw TargetError(StrCat("statements outside of the loops bound to ", kThreadAxes[a],
                               " would make blocks wait for each other; bind that axis outside of ", op->seq.size(),
                               " statements in a row"));
    }
  }
  /// What no thread axis tells apart is run by the first thread (and block) only.
  Stmt Leaf(Stmt stmt) const {
    PrimExpr first;
    for (const Axis& axis : axes_) {
      if (!axis.used || axis.active) continue;
      PrimExpr is_first = equal(axis.var, make_zero(axis.var.dtype()));
      first = first.defined() ? first && is_first : is_first;
    }
    return first.defined() ? IfThenElse(first, stmt) : stmt;
  }
  /// Loops of a thread are serial, whatever they were to a processor.
  static Stmt SerialLoops(const Stmt& stmt) {
    class Serial : public StmtExprMutator {
     protected:
      using StmtExprMutator::VisitStmt_;
      Stmt VisitStmt_(const ForNode* op) override {
        Stmt body = VisitStmt(op->body);
        return For(op->loop_var, op->min, op->extent, ForKind::kSerial, body);
      }
    };
    return Serial()(stmt);
  }

  std::array<Axis, 6> axes_;
  std::array<PrimExpr, 6> active_extents_;  ///< of the innermost loop bound to the axis
  std::vector<Buffer> shared_;
  int divergent_ = 0;
};

}  // namespace

KernelBody MakeKernelBody(const Stmt& nest) { return KernelBodyBuilder().Run(ShareAmongThreads(nest)); }

}  // namespace treadle::tir
