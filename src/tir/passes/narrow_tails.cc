// SPDX-License-Identifier: Apache-2.0
// Incomplete register tiles of dynamic length: where the end of a row cuts off most of an unrolled tile, a narrower
// tile does. The loop's body gets forms for some widths, chosen when it runs.
#include <algorithm>
#include <optional>

#include "tir/passes/pass_util.h"
#include "treadle/arith/analyzer.h"

namespace treadle::tir {
namespace {

/// Tiles up to this width aren't worth more forms; wider ones get forms of the widths below, as far as these spare
/// more than kSpared. A form is for the widths above the one before: the few of its elements that may lie beyond the
/// end need addresses of their own, of which a processor has registers for some.
constexpr int64_t kNarrow = 5, kSpared = 2;
constexpr int64_t kWidths[] = {2, 5, 8, 11};

/// A condition on an unrolled loop's variable r: r + rest <= 0, or r < -rest + 1.
struct Tail {
  int64_t extent = 0;
  PrimExpr rest;
};

std::optional<PrimExpr> RestOf(const PrimExpr& condition, const Var& var, arith::Analyzer* analyzer) {
  PrimExpr difference;  // <= 0
  if (const auto* lt = condition.as<LTNode>()) difference = lt->a - lt->b + 1;
  if (const auto* le = condition.as<LENode>()) difference = le->a - le->b;
  if (!difference.defined() || !difference.dtype().is_int() || !difference.dtype().is_scalar()) return std::nullopt;
  if (arith::ReadsData(difference)) return std::nullopt;
  std::vector<PrimExpr> linear = analyzer->DetectLinear(difference, {var});
  if (linear.size() != 2) return std::nullopt;
  const PrimExpr slope = analyzer->Simplify(linear[0]);
  const int64_t* coefficient = AsConstInt(slope);
  if (coefficient == nullptr || *coefficient != 1) return std::nullopt;
  PrimExpr rest = analyzer->Simplify(linear[1]);
  return AsConstInt(rest) == nullptr ? std::optional(rest) : std::nullopt;
}

/// The tail of an unrolled loop that stores nothing beyond some dynamic end; nothing where it's another loop.
class TailOfLoop : public StmtVisitor {
 public:
  static std::optional<Tail> Find(const ForNode* loop, arith::Analyzer* analyzer) {
    const int64_t* extent = AsConstInt(loop->extent);
    if (loop->kind != ForKind::kUnrolled || !is_zero(loop->min) || extent == nullptr || *extent <= kNarrow) return {};
    TailOfLoop finder(loop->loop_var, analyzer);
    finder(loop->body);
    if (!finder.guarded_ || !finder.rest_.defined()) return {};
    return Tail{*extent, finder.rest_};
  }

 protected:
  using StmtVisitor::VisitStmt_;
  void VisitStmt_(const IfThenElseNode* op) override {
    if (!op->else_case.defined()) {
      for (const PrimExpr& part : SplitConjunction(op->condition)) {
        std::optional<PrimExpr> rest = RestOf(part, var_, analyzer_);
        if (!rest) continue;
        guarded_ = guarded_ && (!rest_.defined() || analyzer_->CanProveEqual(rest_, *rest));
        rest_ = *rest;
        return;
      }
    }
    StmtVisitor::VisitStmt_(op);
  }
  void VisitStmt_(const BufferStoreNode*) override { guarded_ = false; }
  void VisitStmt_(const EvaluateNode*) override { guarded_ = false; }
  void VisitStmt_(const AssertStmtNode*) override { guarded_ = false; }
  void VisitStmt_(const WhileNode*) override { guarded_ = false; }

 private:
  TailOfLoop(const Var& var, arith::Analyzer* analyzer) : var_(var), analyzer_(analyzer) {}
  const Var& var_;
  arith::Analyzer* analyzer_;
  PrimExpr rest_;
  bool guarded_ = true;  ///< every store so far is below one condition
};

/// The unrolled loops with the same tail in a body, where some of them are repeated by a serial loop (the steps of a
/// sum): of others narrower forms gain little. Tails that depend on what is bound in the body don't count.
class TailFinder : public StmtVisitor {
 public:
  /// `done`: loops that have their forms.
  TailFinder(const std::unordered_set<const Object*>& done, arith::Analyzer* analyzer)
      : done_(done), analyzer_(analyzer) {}
  std::unordered_set<const Object*> loops;
  Tail tail;
  bool repeated = false;

 protected:
  using StmtVisitor::VisitStmt_;
  void VisitStmt_(const ForNode* op) override {
    if (done_.count(op) != 0) return;
    if (std::optional<Tail> found = TailOfLoop::Find(op, analyzer_)) {
      if (!UsesAnyVar(found->rest, bound_)) return Take(op, *found);
    }
    bound_.insert(op->loop_var.get());
    const bool steps = op->kind == ForKind::kSerial && !is_one(op->extent);
    serial_ += steps;
    StmtVisitor::VisitStmt_(op);
    serial_ -= steps;
  }
  void VisitStmt_(const LetStmtNode* op) override {
    bound_.insert(op->var.get());
    StmtVisitor::VisitStmt_(op);
  }

 private:
  void Take(const ForNode* op, const Tail& found) {
    if (!loops.empty() && (tail.extent != found.extent || !analyzer_->CanProveEqual(tail.rest, found.rest))) return;
    tail = found;
    loops.insert(op);
    repeated |= serial_ > 0;
  }
  const std::unordered_set<const Object*>& done_;
  arith::Analyzer* analyzer_;
  std::unordered_set<const Object*> bound_;
  int serial_ = 0;
};

class Narrower : public StmtMutator {
 public:
  Narrower(const std::unordered_set<const Object*>& loops, int64_t extent) : loops_(loops), extent_(extent) {}
  std::vector<Stmt> narrowed;

 protected:
  using StmtMutator::VisitStmt_;
  Stmt VisitStmt_(const ForNode* op) override {
    if (loops_.count(op) == 0) return StmtMutator::VisitStmt_(op);
    narrowed.push_back(For(op->loop_var, op->min, make_const(op->extent.dtype(), extent_), op->kind, op->body,
                           op->thread_binding, op->annotations, op->span));
    return narrowed.back();
  }

 private:
  const std::unordered_set<const Object*>& loops_;
  int64_t extent_;
};

class TailNarrower : public StmtMutator {
 public:
  /// Forms of a statement for some widths of its tiles.
  Stmt WithForms(const Stmt& body) {
    TailFinder finder(done_, &analyzer_);
    finder(body);
    if (!finder.repeated) return body;
    done_.insert(finder.loops.begin(), finder.loops.end());
    Stmt result = body;
    for (size_t i = std::size(kWidths); i-- > 0;) {
      const int64_t width = kWidths[i];
      if (width + kSpared >= finder.tail.extent) continue;
      const PrimExpr& rest = finder.tail.rest;
      PrimExpr few = analyzer_.Simplify(rest + make_const(rest.dtype(), width) > make_zero(rest.dtype()));
      Narrower narrower(finder.loops, width);
      result = IfThenElse(few, narrower(body), result);
      for (const Stmt& loop : narrower.narrowed) done_.insert(loop.get());
    }
    return result;
  }

 protected:
  using StmtMutator::VisitStmt_;
  /// Where the tile lives: sums, their steps and what stores them get one form together.
  Stmt VisitStmt_(const AllocateNode* op) override {
    Stmt result = StmtMutator::VisitStmt_(op);
    return op->buffer.scope() == "local" ? WithForms(result) : result;
  }

 private:
  arith::Analyzer analyzer_;
  std::unordered_set<const Object*> done_;
};

}  // namespace

int64_t NarrowedWidth(int64_t rest, int64_t extent) {
  if (extent <= kNarrow) return extent;
  for (const int64_t width : kWidths) {
    if (rest <= width && width + kSpared < extent) return width;
  }
  return extent;
}

PrimFunc NarrowTails(PrimFunc func, const LowerConfig& config) {
  if (config.simple_mode) return func;
  TailNarrower narrower;
  Stmt body = narrower(func->body);
  return WithBody(std::move(func), body);
}

}  // namespace treadle::tir
