// SPDX-License-Identifier: Apache-2.0
// Loops marked unrolled are written out; so are small serial ones where a pragma or the configuration asks for it.
#include <limits>

#include "tir/passes/pass_util.h"
#include "treadle/tir/loop_hints.h"

namespace treadle::tir {
namespace {

/// Replaces one variable by a constant.
class ConstantBinder : public FoldingMutator {
 public:
  ConstantBinder(const Object* var, PrimExpr value) : var_(var), value_(std::move(value)) {}

 protected:
  using FoldingMutator::VisitExpr_;
  PrimExpr VisitExpr_(const VarNode* op) override { return op == var_ ? value_ : GetRef<PrimExpr>(op); }

 private:
  const Object* var_;
  PrimExpr value_;
};

class LoopUnroller : public StmtExprMutator {
 public:
  explicit LoopUnroller(const LowerConfig& config)
      : max_step_(config.unroll_max_step), max_depth_(config.unroll_max_depth), max_extent_(config.unroll_max_extent) {}
  Stmt Run(const Stmt& body) { return VisitStmt(body); }

 protected:
  using StmtExprMutator::VisitStmt_;
  PrimExpr VisitExpr(const PrimExpr& e) override { return e; }

  Stmt VisitStmt_(const AttrStmtNode* op) override {
    int64_t* option = op->attr_key == attr::kAutoUnrollMaxStep ? &max_step_ : nullptr;
    if (option == nullptr && op->attr_key != attr::kUnrollExplicit) return StmtExprMutator::VisitStmt_(op);
    if (option == nullptr) return VisitStmt(op->body);
    const int64_t outer = std::exchange(*option, as_int(op->value, attr::kAutoUnrollMaxStep));
    Stmt body = VisitStmt(op->body);
    *option = outer;
    return body;
  }

  Stmt VisitStmt_(const BufferStoreNode* op) override {
    ++steps_;
    return GetRef<Stmt>(op);
  }
  Stmt VisitStmt_(const EvaluateNode* op) override {
    ++steps_;
    return GetRef<Stmt>(op);
  }

  Stmt VisitStmt_(const ForNode* op) override {
    const int64_t outer_steps = std::exchange(steps_, 0);
    const int outer_depth = std::exchange(depth_, 0);
    // A pragma holds for the loop and all inside.
    const int64_t outer_max_step = max_step_;
    if (auto value = op->annotations.Get(attr::kAutoUnrollMaxStep); value && (*value)->IsInstance<PrimExprNode>()) {
      if (const int64_t* step = AsConstInt(Downcast<PrimExpr>(*value))) max_step_ = *step;
    }
    Stmt stmt = Unrolled(op, outer_steps, outer_depth);
    max_step_ = outer_max_step;
    return stmt;
  }

 private:
  Stmt Unrolled(const ForNode* op, int64_t outer_steps, int outer_depth) {
    Stmt stmt = StmtExprMutator::VisitStmt_(op);
    const auto* loop = stmt.as<ForNode>();
    const int64_t* extent = AsConstInt(loop->extent);
    const int64_t body_steps = steps_;
    steps_ = outer_steps;
    bool unroll = extent != nullptr && loop->kind == ForKind::kUnrolled;
    if (extent != nullptr && loop->kind == ForKind::kSerial && !loop->annotations.contains(attr::kNoUnroll)) {
      const bool few_steps =
          max_step_ > 0 && *extent <= max_step_ && Times(body_steps, *extent) <= max_step_ && depth_ < max_depth_;
      unroll = few_steps || *extent <= max_extent_;
      unroll = unroll || *extent == 1;
    }
    if (!unroll) {
      steps_ = Plus(steps_, Times(body_steps, extent != nullptr ? *extent : 16));
      depth_ = std::max(outer_depth, depth_ + 1);
      if (loop->kind != ForKind::kUnrolled) return stmt;
      // Part of a loop that was partitioned at a dynamic bound: it stays a loop.
      For serial = GetRef<For>(loop);
      serial.CopyOnWrite()->kind = ForKind::kSerial;
      return serial;
    }
    steps_ = Plus(steps_, Times(body_steps, *extent));
    depth_ = std::max(outer_depth, depth_);
    if (*extent > kMaxCopies) {
      throw Error(StrCat("loop ", loop->loop_var->name_hint, " of extent ", *extent, " is too long to be unrolled (",
                         kMaxCopies, " at most)"));
    }
    Array<Stmt> copies;
    for (int64_t i = 0; i < *extent; ++i) {
      PrimExpr value = loop->min + make_const(loop->loop_var.dtype(), i);
      copies.push_back(ConstantBinder(loop->loop_var.get(), value).Rewrite(loop->body));
    }
    return copies.empty() ? NoOp() : SeqStmt::Flatten(copies);
  }

  // Counts of steps end at the largest number: a nest may have more.
  static int64_t Times(int64_t a, int64_t b) {
    int64_t result = 0;
    return __builtin_mul_overflow(a, b, &result) ? std::numeric_limits<int64_t>::max() : result;
  }
  static int64_t Plus(int64_t a, int64_t b) {
    int64_t result = 0;
    return __builtin_add_overflow(a, b, &result) ? std::numeric_limits<int64_t>::max() : result;
  }

  static constexpr int64_t kMaxCopies = 4096;
  int64_t max_step_;
  int max_depth_;
  int64_t max_extent_;
  int64_t steps_ = 0;
  int depth_ = 0;
};

}  // namespace

PrimFunc UnrollLoop(PrimFunc func, const LowerConfig& config) {
  Stmt body = LoopUnroller(config).Run(func->body);
  return WithBody(std::move(func), body);
}

}  // namespace treadle::tir
