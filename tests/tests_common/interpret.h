// SPDX-License-Identifier: Apache-2.0
// A direct interpreter of schedulable functions, for tests. Values are doubles (integers below 2^53 are exact).
// Parallel and vectorized loops run backwards, so that what depends on their order shows.
#pragma once

#include <cmath>
#include <map>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "treadle/ir/prim_ops.h"
#include "treadle/tir/stmt_functor.h"
#include "treadle/tir/verify.h"

namespace treadle::testing_util {

using namespace tir;  // NOLINT(google-build-using-namespace)

class Interpreter : public StmtFunctor<void(const Stmt&)>, public ExprFunctor<double(const PrimExpr&)> {
 public:
  std::unordered_map<const BufferNode*, std::vector<double>> memory;
  std::unordered_map<const VarNode*, double> env;

  /// Runs the function on `inputs` by buffer name; parameters not given are filled with NaN. Returns all parameters.
  static std::map<std::string, std::vector<double>> Run(const PrimFunc& func,
                                                        const std::map<std::string, std::vector<double>>& inputs,
                                                        const std::map<const VarNode*, int64_t>& sizes = {}) {
    Interpreter in;
    for (const auto& [var, size] : sizes) in.env[var] = static_cast<double>(size);
    for (const auto& [param, buffer] : func->buffer_map) {
      auto it = inputs.find(buffer->name);
      in.memory[buffer.get()] = it != inputs.end() ? it->second : std::vector<double>(in.SizeOf(buffer), NAN);
    }
    in.VisitStmt(func->body);
    std::map<std::string, std::vector<double>> result;
    for (const auto& [param, buffer] : func->buffer_map) result[buffer->name] = in.memory[buffer.get()];
    return result;
  }

  size_t SizeOf(const Buffer& buffer) {
    size_t n = 1;
    for (const PrimExpr& d : buffer->shape) n *= static_cast<size_t>(VisitExpr(d));
    return n;
  }

 protected:
  using ExprFunctor::VisitExpr;
  using StmtFunctor::VisitStmt;

  size_t Offset(const Buffer& buffer, const Array<PrimExpr>& indices) {
    size_t offset = 0;
    for (size_t i = 0; i < indices.size(); ++i) {
      double index = VisitExpr(indices[i]), extent = VisitExpr(buffer->shape[i]);
      if (index < 0 || index >= extent) {
        throw RuntimeError(
            StrCat("index ", index, " of dimension ", i, " of buffer ", buffer->name, " of extent ", extent));
      }
      offset = offset * static_cast<size_t>(extent) + static_cast<size_t>(index);
    }
    return offset;
  }
  std::vector<double>& Memory(const Buffer& buffer) {
    auto it = memory.find(buffer.get());
    if (it == memory.end()) throw RuntimeError(StrCat("buffer ", buffer->name, " isn't allocated"));
    return it->second;
  }

  void VisitStmt_(const BlockRealizeNode* op) override {
    const BlockNode* block = op->block.get();
    std::vector<double> values;
    for (const PrimExpr& v : op->iter_values) values.push_back(VisitExpr(v));
    if (VisitExpr(op->predicate) == 0) return;
    bool first = true;
    for (size_t i = 0; i < values.size(); ++i) {
      const IterVar iv = block->iter_vars[i];
      env[iv->var.get()] = values[i];
      double low = VisitExpr(iv->dom->min), extent = VisitExpr(iv->dom->extent);
      if (values[i] < low || values[i] >= low + extent) {
        throw RuntimeError(StrCat("axis ", iv->var->name_hint, " of block ", block->name_hint, " is ", values[i]));
      }
      if (iv->iter_type == IterVarType::kCommReduce && values[i] != low) first = false;
    }
    for (const Buffer& b : block->alloc_buffers) memory[b.get()] = std::vector<double>(SizeOf(b), NAN);
    if (first && block->init.defined()) VisitStmt(block->init);
    VisitStmt(block->body);
  }
  void VisitStmt_(const BlockNode*) override { throw RuntimeError("block without realize"); }
  void VisitStmt_(const ForNode* op) override {
    auto min = static_cast<int64_t>(VisitExpr(op->min)), extent = static_cast<int64_t>(VisitExpr(op->extent));
    bool backwards = op->kind == ForKind::kParallel || op->kind == ForKind::kVectorized;
    for (int64_t i = 0; i < extent; ++i) {
      env[op->loop_var.get()] = static_cast<double>(min + (backwards ? extent - 1 - i : i));
      VisitStmt(op->body);
    }
  }
  void VisitStmt_(const SeqStmtNode* op) override {
    for (const Stmt& s : op->seq) VisitStmt(s);
  }
  void VisitStmt_(const IfThenElseNode* op) override {
    if (VisitExpr(op->condition) != 0)
      VisitStmt(op->then_case);
    else if (op->else_case.defined())
      VisitStmt(op->else_case);
  }
  void VisitStmt_(const LetStmtNode* op) override {
    env[op->var.get()] = VisitExpr(op->value);
    VisitStmt(op->body);
  }
  void VisitStmt_(const AttrStmtNode* op) override { VisitStmt(op->body); }
  void VisitStmt_(const EvaluateNode*) override {}
  void VisitStmt_(const WhileNode* op) override {
    while (VisitExpr(op->condition) != 0) VisitStmt(op->body);
  }
  void VisitStmt_(const BufferStoreNode* op) override {
    double value = VisitExpr(op->value);
    Memory(op->buffer)[Offset(op->buffer, op->indices)] = value;
  }

  double VisitExpr_(const VarNode* op) override {
    auto it = env.find(op);
    if (it == env.end()) throw RuntimeError(StrCat("variable ", op->name_hint, " isn't defined"));
    return it->second;
  }
  double VisitExpr_(const IntImmNode* op) override { return static_cast<double>(op->value); }
  double VisitExpr_(const FloatImmNode* op) override { return op->value; }
  double VisitExpr_(const StringImmNode*) override { return 0; }
  double VisitExpr_(const CastNode* op) override {
    double v = VisitExpr(op->value);
    return op->dtype.is_integral() ? std::trunc(v) : RoundToDType(op->dtype, v);
  }
  double VisitExpr_(const LetNode* op) override {
    env[op->var.get()] = VisitExpr(op->value);
    return VisitExpr(op->body);
  }
  double VisitExpr_(const SelectNode* op) override {
    double c = VisitExpr(op->condition), t = VisitExpr(op->true_value), f = VisitExpr(op->false_value);
    return c != 0 ? t : f;
  }
  double VisitExpr_(const NotNode* op) override { return VisitExpr(op->a) == 0; }
  double VisitExpr_(const BufferLoadNode* op) override { return Memory(op->buffer)[Offset(op->buffer, op->indices)]; }
#define TREADLE_INTERPRET(Name, expression)               \
  double VisitExpr_(const tir::Name##Node* op) override { \
    double a = VisitExpr(op->a), b = VisitExpr(op->b);    \
    return expression;                                    \
  }
  TREADLE_INTERPRET(Add, Round(op, a + b))
  TREADLE_INTERPRET(Sub, Round(op, a - b))
  TREADLE_INTERPRET(Mul, Round(op, a* b))
  TREADLE_INTERPRET(Div, op->dtype.is_integral() ? std::trunc(a / b) : Round(op, a / b))
  TREADLE_INTERPRET(Mod, std::fmod(a, b))
  TREADLE_INTERPRET(FloorDiv, std::floor(a / b))
  TREADLE_INTERPRET(FloorMod, a - std::floor(a / b) * b)
  TREADLE_INTERPRET(Min, a < b ? a : b)
  TREADLE_INTERPRET(Max, a > b ? a : b)
  TREADLE_INTERPRET(EQ, a == b)
  TREADLE_INTERPRET(NE, a != b)
  TREADLE_INTERPRET(LT, a < b)
  TREADLE_INTERPRET(LE, a <= b)
  TREADLE_INTERPRET(GT, a > b)
  TREADLE_INTERPRET(GE, a >= b)
#undef TREADLE_INTERPRET
  double VisitExpr_(const AndNode* op) override { return VisitExpr(op->a) != 0 && VisitExpr(op->b) != 0; }
  double VisitExpr_(const OrNode* op) override { return VisitExpr(op->a) != 0 || VisitExpr(op->b) != 0; }
  double VisitExpr_(const CallNode* op) override {
    if (IsCallTo(op, "tir.if_then_else"))
      return VisitExpr(op->args[0]) != 0 ? VisitExpr(op->args[1]) : VisitExpr(op->args[2]);
    if (IsCallTo(op, "tir.likely")) return VisitExpr(op->args[0]);
    double x = VisitExpr(op->args[0]);
    if (IsCallTo(op, "tir.tanh")) return Round(op, std::tanh(x));
    if (IsCallTo(op, "tir.exp")) return Round(op, std::exp(x));
    if (IsCallTo(op, "tir.sigmoid")) return Round(op, 1 / (1 + std::exp(-x)));
    throw RuntimeError("call isn't interpreted");
  }

 private:
  static double Round(const PrimExprNode* op, double v) {
    return op->dtype.is_floating() ? RoundToDType(op->dtype, v) : v;
  }
};

/// Small integers as floats: sums come out exactly, in any order.
inline std::vector<double> RandomInts(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<double> values(n);
  for (double& v : values) v = static_cast<double>(static_cast<int>(random() % 9) - 4);
  return values;
}

/// Inputs for all parameters of static shape but those in `outputs`.
inline std::map<std::string, std::vector<double>> RandomInputs(const PrimFunc& func, unsigned seed = 1) {
  std::map<std::string, std::vector<double>> inputs;
  Interpreter in;
  for (const auto& [param, buffer] : func->buffer_map) inputs[buffer->name] = RandomInts(in.SizeOf(buffer), seed++);
  return inputs;
}

/// Whether both functions leave the same in all parameters.
inline bool SameResults(const PrimFunc& a, const PrimFunc& b, unsigned seed = 1) {
  VerifyWellFormed(b, "scheduling");
  auto inputs = RandomInputs(a, seed);
  auto x = Interpreter::Run(a, inputs), y = Interpreter::Run(b, inputs);
  for (const auto& [name, values] : x) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] != y[name][i] && !(std::isnan(values[i]) && std::isnan(y[name][i]))) return false;
    }
  }
  return true;
}

}  // namespace treadle::testing_util
