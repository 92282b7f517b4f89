// SPDX-License-Identifier: Apache-2.0
// Loops over the entries of lists of different lengths, which are as long as the longest, end where their list does.
// The length is behind the list: where the buffer that says which elements an entry is of would have one entry more.
// Entries of one word have a loop of their own, behind those of two.
#include "tir/passes/pass_util.h"
#include "treadle/arith/analyzer.h"
#include "treadle/tir/byte_ops.h"
#include "treadle/tir/loop_hints.h"

namespace treadle::tir {
namespace {

/// Products of two words become those of the first.
class FirstWords : public StmtExprMutator {
 protected:
  using StmtExprMutator::VisitExpr_;
  PrimExpr VisitExpr_(const CallNode* op) override {
    if (!IsCallTo(op, "tir.dot_two_words")) return StmtExprMutator::VisitExpr_(op);
    const PrimExpr none = make_zero(op->args[2].dtype());
    return dot_two_words(VisitExpr(op->args[0]), VisitExpr(op->args[1]), none, none);
  }
};

class ListTrimmer : public StmtMutator {
 protected:
  using StmtMutator::VisitStmt_;
  Stmt VisitStmt_(const ForNode* op) override {
    Stmt result = StmtMutator::VisitStmt_(op);
    const auto* loop = result.as<ForNode>();
    if (loop == nullptr || !loop->annotations.contains(attr::kListLength) || !is_zero(loop->min)) return result;
    const std::vector<PrimExpr> behind = BehindLast(loop);
    if (behind.empty()) return result;
    const DataType dtype = loop->extent.dtype();
    const PrimExpr length = cast(dtype, behind[0]);
    if (!loop->annotations.contains(attr::kListPairs) || behind.size() < 2) {
      return Loop(loop, loop->loop_var, length, loop->body);
    }
    const Var pairs("pairs", dtype);
    const Var single(loop->loop_var->name_hint, dtype);
    const Stmt singles = FirstWords()(Substitute(loop->body, Map<Var, PrimExpr>{{loop->loop_var, pairs + single}}));
    return LetStmt(
        pairs, cast(dtype, behind[1]),
        SeqStmt({Loop(loop, loop->loop_var, pairs, loop->body), Loop(loop, single, length - pairs, singles)}));
  }

 private:
  static Stmt Loop(const ForNode* like, const Var& var, const PrimExpr& extent, const Stmt& body) {
    return For(var, like->min, extent, like->kind, body, like->thread_binding, like->annotations, like->span);
  }

  /// What the first int32 that is read of each entry would be behind the last one, and the int32 beside it where that
  /// is read, too.
  static std::vector<PrimExpr> BehindLast(const ForNode* loop) {
    const std::unordered_set<const Object*> own{loop->loop_var.get()};
    const BufferLoadNode* first = nullptr;
    std::vector<PrimExpr> result;
    auto add = [&](const BufferLoadNode* load) {
      result.push_back(Substitute(GetRef<PrimExpr>(load), Map<Var, PrimExpr>{{loop->loop_var, loop->extent}}));
    };
    PostOrderVisit(loop->body, [&](const ObjectRef& node) {
      const auto* load = node.as<BufferLoadNode>();
      if (result.size() > 1 || load == nullptr || load->dtype != DataType::Int(32)) return;
      bool of_entry = false;
      for (const PrimExpr& index : load->indices) of_entry = of_entry || UsesAnyVar(index, own);
      if (!of_entry || (first != nullptr && !IsBeside(load, first))) return;
      if (first == nullptr) first = load;
      add(load);
    });
    // They are read before the loop: of what loops inside it count there is nothing yet.
    bool fixed = true;
    PostOrderVisit(loop->body, [&](const ObjectRef& node) {
      const auto* inner = node.as<ForNode>();
      for (const PrimExpr& number : result) {
        if (inner != nullptr && UsesAnyVar(number, {inner->loop_var.get()})) fixed = false;
      }
    });
    return fixed ? result : std::vector<PrimExpr>{};
  }

  static bool IsBeside(const BufferLoadNode* load, const BufferLoadNode* first) {
    if (!load->buffer.same_as(first->buffer) || load->indices.size() != 1) return false;
    return is_const_int(arith::Analyzer().Simplify(load->indices[0] - first->indices[0]), 1);
  }
};

}  // namespace

PrimFunc TrimLists(PrimFunc func, const LowerConfig&) {
  Stmt body = ListTrimmer()(func->body);
  return WithBody(std::move(func), body);
}

}  // namespace treadle::tir
