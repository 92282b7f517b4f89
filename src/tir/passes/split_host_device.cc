// SPDX-License-Identifier: Apache-2.0
#include "tir/passes/split_host_device.h"

#include <algorithm>
#include <array>

#include "tir/passes/pass_util.h"
#include "tir/thread_axis.h"
#include "treadle/ir/structural.h"

namespace treadle::tir {
namespace {

constexpr std::array<const char*, 6> kAxes = {"blockIdx.x",  "blockIdx.y",  "blockIdx.z",
                                              "threadIdx.x", "threadIdx.y", "threadIdx.z"};
constexpr size_t kFirstThread = 3;
/// Constant buffers of a kernel of one thread that are larger live in the device's memory.
constexpr int64_t kMaxPrivateBytes = 16 << 10;

size_t AxisOf(const ForNode* loop) {
  const std::string& tag = loop->thread_binding->thread_tag;
  for (size_t a = 0; a < kAxes.size(); ++a) {
    if (tag == kAxes[a]) return a;
  }
  throw TargetError(StrCat("loop ", loop->loop_var->name_hint, " is bound to ", tag,
                           ", which isn't an axis of a grid; those are blockIdx.x to .z and threadIdx.x to .z"));
}
bool IsVirtual(const ForNode* loop) { return loop->thread_binding->thread_tag.rfind("vthread", 0) == 0; }

template <typename Predicate>
bool AnyNode(const ObjectRef& node, Predicate&& predicate) {
  bool found = false;
  PostOrderVisit(node, [&](const ObjectRef& n) { found = found || predicate(n); });
  return found;
}
bool IsThreadLoop(const ObjectRef& node) {
  const auto* loop = node.as<ForNode>();
  return loop != nullptr && loop->kind == ForKind::kThreadBinding && !IsVirtual(loop);
}
bool HasThreads(const Stmt& stmt) { return AnyNode(stmt, IsThreadLoop); }
bool HasParallel(const Stmt& stmt) {
  return AnyNode(stmt, [](const ObjectRef& n) {
    return n.as<ForNode>() != nullptr && n.as<ForNode>()->kind == ForKind::kParallel;
  });
}
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

/// Variables that a kernel's body uses but doesn't define, in order of appearance: data pointers, then scalars.
class FreeVariables : public StmtExprVisitor {
 public:
  std::vector<Var> pointers, scalars;

 protected:
  using StmtExprVisitor::VisitExpr_;
  using StmtExprVisitor::VisitStmt_;
  void Use(const Var& v) {
    if (defined_.count(v.get()) != 0 || !seen_.insert(v.get()).second) return;
    (v.dtype().is_handle() ? pointers : scalars).push_back(v);
  }
  void VisitExpr_(const VarNode* op) override { Use(GetRef<Var>(op)); }
  void VisitExpr_(const LetNode* op) override {
    VisitExpr(op->value);
    defined_.insert(op->var.get());
    VisitExpr(op->body);
  }
  void VisitExpr_(const BufferLoadNode* op) override {
    Use(op->buffer->data);
    StmtExprVisitor::VisitExpr_(op);
  }
  void VisitStmt_(const BufferStoreNode* op) override {
    Use(op->buffer->data);
    StmtExprVisitor::VisitStmt_(op);
  }
  void VisitStmt_(const LetStmtNode* op) override {
    VisitExpr(op->value);
    defined_.insert(op->var.get());
    VisitStmt(op->body);
  }
  void VisitStmt_(const ForNode* op) override {
    defined_.insert(op->loop_var.get());
    StmtExprVisitor::VisitStmt_(op);
  }
  void VisitStmt_(const AllocateNode* op) override {
    defined_.insert(op->buffer->data.get());
    StmtExprVisitor::VisitStmt_(op);
  }
  void VisitStmt_(const AttrStmtNode* op) override {
    if (const auto* axis = op->node.as<IterVarNode>()) defined_.insert(axis->var.get());
    StmtExprVisitor::VisitStmt_(op);
  }

 private:
  std::unordered_set<const Object*> defined_, seen_;
};

Stmt Barrier() { return Evaluate(CallIntrin(DataType::Int(32), "tir.tvm_storage_sync", {StringImm("shared")})); }

/// Turns a nest with thread-bound loops into the body of a kernel.
class KernelBody : public StmtExprMutator {
 public:
  struct Axis {
    PrimExpr extent;  ///< of the grid: the largest of the loops'
    Var var{"", DataType::Int(32)};
    bool used = false, active = false;
  };

  Stmt Run(const Stmt& nest) {
    PostOrderVisit(nest, [this](const ObjectRef& node) {
      if (IsThreadLoop(node)) AddLoop(node.as<ForNode>());
    });
    Stmt body = VisitStmt(nest);
    for (size_t i = shared_.size(); i-- > 0;) {
      body = Allocate(shared_[i], body, {{String(kSharedByBlock), IntImm(DataType::Int(32), 1)}});
    }
    for (size_t a = kAxes.size(); a-- > 0;) {
      if (!axes_[a].used) continue;
      IterVar axis(Range::FromMinExtent(make_zero(axes_[a].var.dtype()), axes_[a].extent), axes_[a].var,
                   IterVarType::kThreadIndex, kAxes[a]);
      body = AttrStmt(axis, attr::kThreadExtent, axes_[a].extent, body);
    }
    return body;
  }
  const std::array<Axis, 6>& axes() const { return axes_; }

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
    if (axis.active) {
      throw TargetError(StrCat("loop ", op->loop_var->name_hint, " is bound to ", kAxes[a],
                               " within another loop that is bound to it"));
    }
    Map<Var, PrimExpr> replaced;
    PrimExpr value = axis.var;
    if (axis.var.dtype() != op->loop_var.dtype()) value = Cast(op->loop_var.dtype(), value);
    replaced.Set(op->loop_var, is_zero(op->min) ? value : op->min + value);
    const bool partial = !StructuralEqual(op->extent, axis.extent);
    axis.active = true;
    divergent_ += partial && a >= kFirstThread;
    Stmt body = VisitStmt(Substitute(op->body, replaced));
    divergent_ -= partial && a >= kFirstThread;
    axis.active = false;
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
    const std::string scope = op->buffer.scope();
    bool any_thread = false, thread_active = false;
    for (size_t a = kFirstThread; a < kAxes.size(); ++a) {
      any_thread |= axes_[a].used;
      thread_active |= axes_[a].active;
    }
    const bool asked = scope.rfind("shared", 0) == 0;
    const bool spread = HasThreads(op->body);  // over threads that aren't told apart here
    if (!asked && !(any_thread && spread)) return Allocate(op->buffer, VisitStmt(op->body), op->annotations);
    if (thread_active) {
      throw TargetError(StrCat("buffer ", op->buffer->name,
                               " is shared by the threads of a block but allocated within a loop bound to threads"));
    }
    if (ConstantBytes(op->buffer) < 0) {
      throw TargetError(StrCat("buffer ", op->buffer->name, " is shared by the threads of a block, so that its size ",
                               "must be a constant"));
    }
    shared_.push_back(op->buffer);
    return VisitStmt(op->body);
  }

 private:
  void AddLoop(const ForNode* loop) {
    const size_t a = AxisOf(loop);
    Axis& axis = axes_[a];
    if (!axis.used) {
      axis.used = true;
      axis.extent = loop->extent;
      axis.var = Var(kAxes[a], loop->loop_var.dtype());
    } else if (!StructuralEqual(axis.extent, loop->extent)) {
      axis.extent = max(axis.extent, cast(axis.extent.dtype(), loop->extent));
    }
  }
  bool UsesThreads(const PrimExpr& e) const {
    std::unordered_set<const Object*> vars;
    for (size_t a = kFirstThread; a < kAxes.size(); ++a) vars.insert(axes_[a].var.get());
    return UsesAnyVar(e, vars);
  }
  /// Whether statements here are run by all threads of a block together.
  bool NeedsBarriers() const {
    bool inactive = false;
    for (size_t a = kFirstThread; a < kAxes.size(); ++a) inactive |= axes_[a].used && !axes_[a].active;
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
      throw TargetError(StrCat("statements outside of the loops bound to ", kAxes[a],
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
  std::vector<Buffer> shared_;
  int divergent_ = 0;
};

/// Takes large buffers out of a statement that one thread runs.
class LargeBuffers : public StmtExprMutator {
 public:
  std::vector<Buffer> found;

 protected:
  using StmtExprMutator::VisitStmt_;
  Stmt VisitStmt_(const AllocateNode* op) override {
    Stmt body = VisitStmt(op->body);
    if (ConstantBytes(op->buffer) <= kMaxPrivateBytes && ConstantBytes(op->buffer) >= 0) {
      return Allocate(op->buffer, body, op->annotations);
    }
    if (ConstantBytes(op->buffer) < 0) {
      throw TargetError(StrCat("buffer ", op->buffer->name, " has no constant size and is allocated within a kernel"));
    }
    found.push_back(op->buffer);
    return body;
  }
};

class Splitter {
 public:
  Splitter(std::string name, int device_type) : name_(std::move(name)), device_type_(device_type) {}

  Stmt Host(const Stmt& stmt) {
    if (const auto* op = stmt.as<SeqStmtNode>()) return Sequence(op);
    if (const auto* op = stmt.as<AllocateNode>()) return DeviceMemory(op->buffer, Host(op->body));
    if (const auto* op = stmt.as<AttrStmtNode>()) return AttrStmt(op->node, op->attr_key, op->value, Host(op->body));
    if (const auto* op = stmt.as<AssertStmtNode>(); op != nullptr && !ReadsMemory(op->condition)) {
      return AssertStmt(op->condition, op->message, Host(op->body));
    }
    if (const auto* op = stmt.as<LetStmtNode>(); op != nullptr && !ReadsMemory(op->value)) {
      return LetStmt(op->var, op->value, Host(op->body));
    }
    if (IsNoOp(stmt)) return stmt;
    if (const auto* op = stmt.as<ForNode>()) {
      if (IsThreadLoop(stmt)) return Launch(stmt);
      if (op->kind == ForKind::kParallel && !HasThreads(op->body)) return Launch(AsBlocks(op));
      if (HasThreads(stmt) || HasParallel(stmt)) {
        return For(op->loop_var, op->min, op->extent, ForKind::kSerial, Host(op->body));
      }
    }
    if (const auto* op = stmt.as<IfThenElseNode>(); op != nullptr && !ReadsMemory(op->condition)) {
      return IfThenElse(op->condition, Host(op->then_case),
                        op->else_case.defined() ? Host(op->else_case) : op->else_case);
    }
    if (HasThreads(stmt)) {
      throw TargetError(StrCat("function ", name_, ": a loop bound to threads depends on values in device memory"));
    }
    return OneThread(stmt);
  }

  std::vector<PrimFunc> kernels;

 private:
  Stmt Sequence(const SeqStmtNode* op) {
    Array<Stmt> seq, single;
    auto flush = [&] {
      if (!single.empty()) seq.push_back(OneThread(SeqStmt::Flatten(single)));
      single = {};
    };
    for (const Stmt& s : op->seq) {
      const bool plain = !HasThreads(s) && !HasParallel(s) && s.as<AllocateNode>() == nullptr;
      if (plain) {
        single.push_back(s);
        continue;
      }
      flush();
      seq.push_back(Host(s));
    }
    flush();
    return SeqStmt::Flatten(seq);
  }
  Stmt DeviceMemory(const Buffer& buffer, const Stmt& body) const {
    return Allocate(buffer, body, {{String(kDeviceType), IntImm(DataType::Int(32), device_type_)}});
  }
  Stmt OneThread(const Stmt& stmt) {
    LargeBuffers large;
    Stmt body = Launch(large(stmt));
    for (const Buffer& buffer : large.found) body = DeviceMemory(buffer, body);
    return body;
  }
  /// The iterations of a parallel loop as blocks of one thread.
  static Stmt AsBlocks(const ForNode* op) {
    return For(op->loop_var, op->min, op->extent, ForKind::kThreadBinding, op->body,
               ThreadAxis(kAxes[0], op->loop_var.dtype()));
  }
  Stmt Launch(const Stmt& nest) {
    KernelBody builder;
    Stmt body = builder.Run(nest);
    FreeVariables free;
    free(body);
    Array<Var> params;
    Array<PrimExpr> args;
    for (const auto* list : {&free.pointers, &free.scalars}) {
      for (const Var& v : *list) {
        params.push_back(v);
        args.push_back(v);
      }
    }
    for (const KernelBody::Axis& axis : builder.axes()) {
      if (axis.used) args.push_back(cast(DataType::Int(64), axis.extent));
    }
    const std::string symbol = StrCat(name_, "_kernel", kernels.size());
    kernels.push_back(
        WithAttr(PrimFunc(params, body, PrimType(DataType::Int(32))), treadle::attr::kGlobalSymbol, String(symbol)));
    return Evaluate(CallPacked(DataType::Handle(), symbol, args));
  }

  std::string name_;
  int device_type_;
};

}  // namespace

HostDevice SplitHostDevice(const PrimFunc& func, int device_type) {
  auto name = func->GetAttr<String>(treadle::attr::kGlobalSymbol);
  if (!name) throw Error("a function that is to be compiled needs the attribute global_symbol, its name");
  Splitter splitter(name->str(), device_type);
  HostDevice result{WithBody(func, splitter.Host(func->body)), {}};
  result.host = WithAttr(result.host, kDeviceType, IntImm(DataType::Int(32), device_type));
  result.kernels = std::move(splitter.kernels);
  return result;
}

}  // namespace treadle::tir
