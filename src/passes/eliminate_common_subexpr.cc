// SPDX-License-Identifier: Apache-2.0
// EliminateCommonSubexpr: merges calls of one operator with equal attributes and the same arguments, and equal
// projections. Constants of rank 0 are the same argument when their values are. A branch's calls are merged with those
// within and before it only: merged with another branch's, they would be computed where neither is taken, which wastes
// time, and fails where the call checks its operands.
#include <cstring>

#include "passes/pass_util.h"
#include "treadle/ir/structural.h"

namespace treadle::relay {
namespace {

size_t Mix(size_t seed, size_t value) { return seed ^ (value + 0x9e3779b97f4a7c15ULL + (seed << 6) + (seed >> 2)); }

class Merger : public MixedModeMutator {
 public:
  explicit Merger(std::function<bool(const Expr&)> skip) : skip_(std::move(skip)) {}

  using MixedModeMutator::VisitExpr_;
  Expr VisitExpr_(const IfNode* op) override {
    Mutate(op->cond);  // known in both branches
    for (const Expr& branch : {op->true_branch, op->false_branch}) {
      const size_t before = order_.size();
      Mutate(branch);
      for (; order_.size() > before; order_.pop_back()) known_[order_.back()].pop_back();
    }
    return MixedModeMutator::VisitExpr_(op);
  }

 private:
  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    if (!IsPureOp(pre) || (skip_ && skip_(GetRef<Expr>(pre)))) return post;
    const auto* call = static_cast<const CallNode*>(post.get());
    size_t hash = std::hash<const Object*>()(call->op.get());
    if (call->attrs.defined()) hash = Mix(hash, StructuralHash(call->attrs));
    for (const Expr& arg : call->args) hash = Mix(hash, HashArg(arg));
    auto& bucket = known_[hash];
    for (const Expr& other : bucket) {
      if (other.as<CallNode>() != nullptr && SameCall(call, other.as<CallNode>())) return other;
    }
    bucket.push_back(post);
    order_.push_back(hash);
    return post;
  }

  Expr Rewrite_(const TupleGetItemNode*, const Expr& post) override {
    const auto* item = static_cast<const TupleGetItemNode*>(post.get());
    const size_t hash = Mix(std::hash<const Object*>()(item->tuple.get()), static_cast<size_t>(item->index));
    auto& bucket = known_[hash];
    for (const Expr& other : bucket) {
      const auto* o = other.as<TupleGetItemNode>();
      if (o != nullptr && o->tuple.same_as(item->tuple) && o->index == item->index) return other;
    }
    bucket.push_back(post);
    order_.push_back(hash);
    return post;
  }

  static bool IsScalar(const ConstantNode* constant) { return constant != nullptr && constant->is_scalar(); }
  static size_t HashArg(const Expr& arg) {
    const auto* constant = arg.as<ConstantNode>();
    if (IsScalar(constant)) {
      uint64_t bits = 0;
      std::memcpy(&bits, constant->data.data_ptr(), std::min<size_t>(8, static_cast<size_t>(constant->data.nbytes())));
      return std::hash<uint64_t>()(bits);
    }
    if (const auto* tuple = arg.as<TupleNode>()) {
      size_t hash = 17;
      for (const Expr& field : tuple->fields) hash = Mix(hash, HashArg(field));
      return hash;
    }
    return std::hash<const Object*>()(arg.get());
  }
  static bool SameArg(const Expr& a, const Expr& b) {
    if (a.same_as(b)) return true;
    const auto* x = a.as<ConstantNode>();
    const auto* y = b.as<ConstantNode>();
    if (IsScalar(x) && IsScalar(y)) {
      return x->data.dtype() == y->data.dtype() &&
             std::memcmp(x->data.data_ptr(), y->data.data_ptr(), static_cast<size_t>(x->data.nbytes())) == 0;
    }
    const auto* s = a.as<TupleNode>();
    const auto* t = b.as<TupleNode>();
    if (s == nullptr || t == nullptr || s->fields.size() != t->fields.size()) return false;
    for (size_t i = 0; i < s->fields.size(); ++i) {
      if (!SameArg(s->fields[i], t->fields[i])) return false;
    }
    return true;
  }
  static bool SameCall(const CallNode* a, const CallNode* b) {
    if (!a->op.same_as(b->op) || a->args.size() != b->args.size()) return false;
    for (size_t i = 0; i < a->args.size(); ++i) {
      if (!SameArg(a->args[i], b->args[i])) return false;
    }
    return StructuralEqual(a->attrs, b->attrs);
  }

  std::function<bool(const Expr&)> skip_;
  std::unordered_map<size_t, std::vector<Expr>> known_;
  std::vector<size_t> order_;  ///< the hashes in `known_`, as they came
};

}  // namespace

namespace transform {

Pass EliminateCommonSubexpr(std::function<bool(const Expr&)> skip) {
  return CreateFunctionPass([skip](const Function& func, const IRModule&,
                                   const PassContext&) { return Downcast<Function>(Merger(skip).Mutate(func)); },
                            {"EliminateCommonSubexpr", 3, {"InferType"}, "Computes equal calls once"});
}

}  // namespace transform
}  // namespace treadle::relay
