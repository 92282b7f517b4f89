// SPDX-License-Identifier: Apache-2.0
#include "tir/passes/split_host_device.h"

#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "tir/buffer_replacer.h"
#include "tir/passes/kernel_body.h"
#include "tir/passes/pass_util.h"
#include "tir/thread_axis.h"

namespace treadle::tir {
namespace {

/// Constant buffers of a kernel of one thread that are larger live in the device's memory.
constexpr int64_t kMaxPrivateBytes = 16 << 10;

bool HasParallel(const Stmt& stmt) {
  bool found = false;
  PostOrderVisit(stmt, [&](const ObjectRef& n) {
    found = found || (n.as<ForNode>() != nullptr && n.as<ForNode>()->kind == ForKind::kParallel);
  });
  return found;
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

/// Whether the statement stops the function or calls others: kernels can't.
bool NeedsHost(const Stmt& stmt) {
  bool found = false;
  PostOrderVisit(stmt, [&](const ObjectRef& n) {
    const auto* call = n.as<CallNode>();
    found = found || n.as<AssertStmtNode>() != nullptr || (call != nullptr && IsCallTo(call, "tir.tvm_call_packed"));
  });
  return found;
}

/// A statement that only the host can run, on copies of what it uses of the device's memory.
class HostCopies : public StmtExprVisitor {
 public:
  explicit HostCopies(int device_type) : device_type_(device_type) {}

  /// `body` of the host's copy of a buffer.
  Stmt With(const Buffer& buffer, const std::function<Stmt(const Buffer&)>& body) {
    Use(buffer);
    const Buffer copy = InHostMemory(buffer);
    return Allocate(copy, SeqStmt::Flatten({Copy("runtime.CopyFromDevice", buffer), body(copy)}));
  }

  Stmt Run(const Stmt& stmt) {
    VisitStmt(stmt);
    Array<Stmt> steps;
    Map<Buffer, Buffer> replacement;
    for (const Buffer& buffer : used_) replacement.Set(buffer, InHostMemory(buffer));
    for (const Buffer& storage : storages_) steps.push_back(Copy("runtime.CopyFromDevice", storage));
    steps.push_back(ReplaceBuffers(stmt, replacement));
    for (const Buffer& storage : storages_) {
      if (stored_.count(storage->data.get()) != 0) steps.push_back(Copy("runtime.CopyToDevice", storage));
    }
    Stmt body = SeqStmt::Flatten(steps);
    for (const Buffer& storage : storages_) body = Allocate(InHostMemory(storage), body);
    return body;
  }

 protected:
  using StmtExprVisitor::VisitExpr_;
  using StmtExprVisitor::VisitStmt_;
  void VisitExpr_(const BufferLoadNode* op) override {
    Use(op->buffer);
    StmtExprVisitor::VisitExpr_(op);
  }
  void VisitStmt_(const BufferStoreNode* op) override {
    Use(op->buffer);
    stored_.insert(op->buffer->data.get());
    StmtExprVisitor::VisitStmt_(op);
  }
  void VisitStmt_(const AllocateNode* op) override {
    own_.insert(op->buffer->data.get());
    StmtExprVisitor::VisitStmt_(op);
  }

 private:
  void Use(const Buffer& buffer) {
    if (own_.count(buffer->data.get()) != 0 || !seen_.insert(buffer.get()).second) return;
    used_.push_back(buffer);
    if (host_.emplace(buffer->data.get(), Var(buffer->data->name_hint + "_host", buffer->data->type_annotation))
            .second) {
      storages_.push_back(buffer);
    }
  }
  Buffer InHostMemory(const Buffer& buffer) const {
    Buffer copy = buffer;
    copy.CopyOnWrite()->data = host_.at(buffer->data.get());
    return copy;
  }
  Stmt Copy(const char* function, const Buffer& storage) const {
    Array<PrimExpr> tensor{host_.at(storage->data.get()), make_zero(storage->dtype)};
    for (const PrimExpr& extent : storage->shape) tensor.push_back(extent);
    return Evaluate(CallPacked(DataType::Int(32), function,
                               {CallIntrin(DataType::Handle(), "tir.tvm_stack_make_array", tensor),
                                IntImm(DataType::Int(32), device_type_), storage->data}));
  }

  int device_type_;
  std::vector<Buffer> used_, storages_;
  std::unordered_map<const Object*, Var> host_;
  std::unordered_set<const Object*> own_, seen_, stored_;
};

class Splitter {
 public:
  Splitter(std::string name, int device_type) : name_(std::move(name)), device_type_(device_type) {}

  Stmt Host(const Stmt& stmt) {
    const bool grids = HasThreads(stmt) || HasParallel(stmt);
    if (const auto* op = stmt.as<AssertStmtNode>(); op != nullptr && (grids || !ReadsMemory(op->condition))) {
      return OnHost(op->condition, [&](const PrimExpr& e) { return AssertStmt(e, op->message, Host(op->body)); });
    }
    if (NeedsHost(stmt) && !grids) return HostCopies(device_type_).Run(stmt);
    if (const auto* op = stmt.as<SeqStmtNode>()) return Sequence(op);
    if (const auto* op = stmt.as<AllocateNode>()) return DeviceMemory(op->buffer, Host(op->body));
    if (const auto* op = stmt.as<AttrStmtNode>()) return AttrStmt(op->node, op->attr_key, op->value, Host(op->body));
    if (const auto* op = stmt.as<LetStmtNode>(); op != nullptr && (grids || !ReadsMemory(op->value))) {
      return OnHost(op->value, [&](const PrimExpr& e) { return LetStmt(op->var, e, Host(op->body)); });
    }
    if (IsNoOp(stmt)) return stmt;
    if (const auto* op = stmt.as<ForNode>()) {
      if (grids && (ReadsMemory(op->min) || ReadsMemory(op->extent))) {
        return OnHost(op->min, [&](const PrimExpr& min) {
          return OnHost(op->extent, [&](const PrimExpr& extent) {
            return Host(For(op->loop_var, min, extent, op->kind, op->body, op->thread_binding, op->annotations));
          });
        });
      }
      if (IsThreadLoop(stmt)) return Launch(stmt);
      if (op->kind == ForKind::kParallel && !HasThreads(op->body)) return Launch(AsBlocks(op));
      if (grids) return For(op->loop_var, op->min, op->extent, ForKind::kSerial, Host(op->body));
    }
    if (const auto* op = stmt.as<IfThenElseNode>(); op != nullptr && (grids || !ReadsMemory(op->condition))) {
      return OnHost(op->condition, [&](const PrimExpr& e) {
        return IfThenElse(e, Host(op->then_case), op->else_case.defined() ? Host(op->else_case) : op->else_case);
      });
    }
    if (HasThreads(stmt)) {
      throw TargetError(StrCat("function ", name_,
                               ": a loop bound to threads stands in a statement that only a device ",
                               "can run, such as a while loop; expected it outside"));
    }
    return OneThread(stmt);
  }

  std::vector<PrimFunc> kernels;

 private:
  /// `body` of a value that the host uses; one of the device's memory is computed there and fetched.
  Stmt OnHost(const PrimExpr& value, const std::function<Stmt(const PrimExpr&)>& body) {
    if (!ReadsMemory(value)) return body(value);
    const Array<PrimExpr> first{make_zero(DataType::Int(32))};
    const Buffer fetched = DeclBuffer({make_const(DataType::Int(32), 1)}, value.dtype(), "fetched");
    const Stmt compute = OneThread(BufferStore(fetched, value, first));
    const Var known("fetched", value.dtype());
    const Stmt rest = HostCopies(device_type_).With(fetched, [&](const Buffer& copy) {
      return LetStmt(known, BufferLoad(copy, first), body(known));
    });
    return DeviceMemory(fetched, SeqStmt::Flatten({compute, rest}));
  }
  Stmt Sequence(const SeqStmtNode* op) {
    Array<Stmt> seq, single;
    auto flush = [&] {
      if (!single.empty()) seq.push_back(OneThread(SeqStmt::Flatten(single)));
      single = {};
    };
    for (const Stmt& s : op->seq) {
      const bool plain = !HasThreads(s) && !HasParallel(s) && s.as<AllocateNode>() == nullptr && !NeedsHost(s);
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
               ThreadAxis(kThreadAxes[0], op->loop_var.dtype()));
  }
  Stmt Launch(const Stmt& nest) {
    const KernelBody kernel = MakeKernelBody(nest);
    FreeVariables free;
    free(kernel.body);
    Array<Var> params;
    Array<PrimExpr> args;
    for (const auto* list : {&free.pointers, &free.scalars}) {
      for (const Var& v : *list) {
        params.push_back(v);
        args.push_back(v);
      }
    }
    for (const KernelAxis& axis : kernel.axes) {
      if (axis.used && ReadsMemory(axis.extent)) {
        throw TargetError(StrCat("function ", name_, ": the extent of ", axis.var->name_hint,
                                 " depends on values in device memory; expected a let statement around the loops"));
      }
      if (axis.used) args.push_back(cast(DataType::Int(64), axis.extent));
    }
    const std::string symbol = StrCat(name_, "_kernel", kernels.size());
    kernels.push_back(WithAttr(PrimFunc(params, kernel.body, PrimType(DataType::Int(32))), treadle::attr::kGlobalSymbol,
                               String(symbol)));
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
