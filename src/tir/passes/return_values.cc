// SPDX-License-Identifier: Apache-2.0
#include "tir/passes/return_values.h"

#include "tir/passes/pass_util.h"
#include "treadle/base/error.h"
#include "treadle/runtime/c_types.h"

namespace treadle::tir {
namespace {

const CallNode* AsReturn(const EvaluateNode* op) {
  const auto* call = op->value.as<CallNode>();
  return call != nullptr && IsCallTo(call, "tir.ret") ? call : nullptr;
}

class Finder : public StmtVisitor {
 public:
  using StmtVisitor::VisitStmt;
  bool found = false;

 private:
  using StmtVisitor::VisitStmt_;
  void VisitStmt_(const EvaluateNode* op) override { found |= AsReturn(op) != nullptr; }
};

class Writer : public StmtMutator {
 public:
  Writer(const Var& value, const Var& code)
      : value_(value, DataType::Int(64), {IntImm(DataType::Int(32), 1)}, {}, PrimExpr(), "ret_value"),
        code_(code, DataType::Int(32), {IntImm(DataType::Int(32), 1)}, {}, PrimExpr(), "ret_code") {}
  Stmt Run(const Stmt& body) { return VisitStmt(body); }

 private:
  using StmtMutator::VisitStmt_;
  Stmt VisitStmt_(const EvaluateNode* op) override {
    const CallNode* call = AsReturn(op);
    if (call == nullptr) return GetRef<Stmt>(op);
    const PrimExpr& result = call->args[0];
    const DataType dtype = result.dtype();
    if (!dtype.is_scalar() || dtype.is_handle()) {
      throw DTypeError(StrCat("a function can't return a value of type ", dtype, "; it returns numbers"));
    }
    const bool is_float = dtype.is_floating();
    const DataType stored = is_float ? DataType::Float(64) : DataType::Int(64);
    PrimExpr value = cast(stored, result);
    if (is_float) value = reinterpret(DataType::Int(64), value);
    const IntImm zero(DataType::Int(32), 0);
    return SeqStmt(
        Array<Stmt>{BufferStore(value_, value, {zero}),
                    BufferStore(code_, IntImm(DataType::Int(32), is_float ? kTreadleFloat : kTreadleInt), {zero}),
                    Evaluate(ReturnValue(zero))});
  }

  Buffer value_, code_;
};

}  // namespace

bool ReturnsValue(const PrimFunc& func) {
  Finder finder;
  finder.VisitStmt(func->body);
  return finder.found;
}

Stmt StoreReturnValues(const Stmt& body, const Var& value, const Var& code) { return Writer(value, code).Run(body); }

}  // namespace treadle::tir
