// SPDX-License-Identifier: Apache-2.0
// ShareRounding: activations that ComputePrecision rounds to bfloat16 for a product are kept in that form alone.
//
//   y = pair_cast(x), z = add(x, ..)        becomes   y = pair_cast(x), z = add(cast(y, float32), ..)
//   y = pair_cast(max_pool2d(x))            becomes   y = max_pool2d(pair_cast(x)), and so for reshape, transpose, ..
//   y = pair_cast(concatenate((a, b)))      becomes   y = concatenate((pair_cast(a), pair_cast(b)))
//   y = pair_cast(split(x).0), z = ..       becomes   s = split(pair_cast(x)), y = s.0, z = ..
//
// The first where y is read by convolutions, and all other readers of x are element-wise operators of float32: the
// shortcuts of residual networks. They would read x in float32, which would have to be stored beside y. Transformers
// keep theirs: rounded, they cost RoBERTa 17 dB, and next to products of matrices they hardly take time.
//
// The others don't change the result: rounding keeps the order of numbers. But for maxima over windows they apply to
// what is computed and needed in no other form, so that the kernel that computes it stores half as much.
#include <algorithm>
#include <unordered_map>
#include <vector>

#include "passes/pass_util.h"
#include "targets/cpu/graph/passes.h"
#include "treadle/ops/attrs/transform.h"
#include "treadle/ops/make.h"
#include "treadle/relay/expr_functor.h"

namespace treadle::relay {
namespace {

const DataType kWide = DataType::Float(32);
constexpr const char* kRounding = "nn.contrib_pair_cast";
constexpr const char* kMaxPool = "nn.max_pool2d";
constexpr const char* kConcatenate = "concatenate";
constexpr const char* kSplit = "split";
constexpr const char* kConvolution = "nn.conv2d";

bool IsElementwise(const CallNode* call) {
  const auto* op = call->op.as<OpNode>();
  return op != nullptr && GetRef<Op>(op).GetAttr(kOpPattern, OpPatternKind::kOpaque) <= OpPatternKind::kBroadcast &&
         AsCallOf(GetRef<Expr>(call), kRounding) == nullptr;
}

/// A call that picks elements of its only operand or moves whole rows of them; null for others, such as a transposition
/// that changes the last dimension: of 32 bits that takes no longer, and includes rounding.
const CallNode* AsMove(const Expr& e) {
  for (const char* name : {kMaxPool, "reshape", "squeeze", "expand_dims", "strided_slice", kSplit}) {
    if (const CallNode* call = AsCallOf(e, name); call != nullptr && call->args.size() == 1) return call;
  }
  const CallNode* transpose = AsCallOf(e, "transpose");
  if (transpose == nullptr) return nullptr;
  const auto& axes = transpose->attrs_as<ops::TransposeAttrs>()->axes;
  const bool keeps_rows =
      axes && !axes->empty() &&
      PositiveAxis(static_cast<int>(axes->back()), axes->size()) + 1 == static_cast<int>(axes->size());
  return keeps_rows ? transpose : nullptr;
}

/// A part of what is split; else null.
const TupleGetItemNode* AsPart(const Expr& e) {
  const auto* item = e.as<TupleGetItemNode>();
  return item != nullptr && AsCallOf(item->tuple, kSplit) != nullptr ? item : nullptr;
}

/// Whether `e` is the result of a kernel that stores what it rounds, possibly moved: it is neither a parameter or
/// constant nor such a transposition.
bool IsComputed(const Expr& e) {
  constexpr int kMostMoves = 64;
  Expr from = e;
  for (int i = 0; i < kMostMoves; ++i) {
    if (const auto* part = AsPart(from)) from = part->tuple;
    const CallNode* move = AsMove(from);
    if (move == nullptr) return from.as<CallNode>() != nullptr && AsCallOf(from, "transpose") == nullptr;
    from = move->args[0];
  }
  return false;
}

class RoundingSharer : public MixedModeMutator {
 public:
  explicit RoundingSharer(const Function& func) : uses_(CountUses(func)) {
    std::vector<Expr> order;
    PostOrderVisit(func, [&](const Expr& e) {
      order.push_back(e);
      const auto* call = e.as<CallNode>();
      if (call == nullptr) return;
      for (const Expr& arg : call->args) {
        if (arg.as<CallNode>() == nullptr && AsPart(arg) == nullptr) continue;
        Readers& readers = readers_[arg.get()];
        if (AsCallOf(e, kRounding) != nullptr) readers.rounding = e;
        readers.others += AsCallOf(e, kConvolution) == nullptr ? 1 : 0;
        readers.elementwise += IsElementwise(call) ? 1 : 0;
      }
    });
    for (size_t i = order.size(); i-- > 0;) CountRounded(order[i]);
  }

 private:
  using MixedModeMutator::Rewrite_;

  /// Of a call's result.
  struct Readers {
    Expr rounding;
    int elementwise = 0;
    int others = 0;  ///< than convolutions
  };

  /// The rounded form of `e`, if nothing else of it is needed; else null.
  Expr SharedRounding(const Expr& e) const {
    const auto it = readers_.find(e.get());
    if (it == readers_.end() || !it->second.rounding.defined() || it->second.elementwise == 0) return Expr();
    const auto rounded = readers_.find(it->second.rounding.get());
    if (rounded == readers_.end() || rounded->second.others > 0) return Expr();
    return uses_.at(e.get()) == it->second.elementwise + 1 ? it->second.rounding : Expr();
  }

  /// Of readers before what they read: uses that need no more than the rounded form.
  void CountRounded(const Expr& e) {
    if (const CallNode* rounding = AsCallOf(e, kRounding)) ++rounded_uses_[rounding->args[0].get()];
    if (!NeedsNoMore(e)) return;
    if (const CallNode* move = AsMove(e)) ++rounded_uses_[move->args[0].get()];
    if (const auto* part = AsPart(e)) ++rounded_uses_[part->tuple.get()];
    const CallNode* joined = AsCallOf(e, kConcatenate);
    const auto* parts = joined == nullptr ? nullptr : joined->args[0].as<TupleNode>();
    if (parts == nullptr || uses_.at(parts) != 1) return;
    for (const Expr& part : parts->fields) ++rounded_uses_[part.get()];
  }
  bool IsOnlyRounded(const Expr& e) const {
    const auto it = rounded_uses_.find(e.get());
    return it != rounded_uses_.end() && it->second == uses_.at(e.get());
  }

  /// Whether the rounded form of `e` is all that is read, or will be.
  bool NeedsNoMore(const Expr& e) const { return IsOnlyRounded(e) || SharedRounding(e).defined(); }

  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const auto* call = post.as<CallNode>();
    if (call == nullptr) return post;
    if (AsCallOf(GetRef<Expr>(pre), kRounding) != nullptr) return Rounded(pre->args[0], call->args[0], post, 0);
    if (!IsElementwise(pre)) return post;
    Array<Expr> args = call->args;
    bool changed = false;
    for (size_t i = 0; i < args.size(); ++i) {
      const Expr rounding = SharedRounding(pre->args[i]);
      if (!rounding.defined()) continue;
      args.Set(i, ops::MakeCast(Mutate(rounding), kWide));
      changed = true;
    }
    return changed ? Call(call->op, args, call->attrs, call->type_args, call->span) : post;
  }

  /// Whether numbers are rounded before `e` moves them; before maxima over windows also those that others read.
  bool MovesRounded(const Expr& e) const {
    const bool alone = NeedsNoMore(e);
    if (!alone || AsCallOf(e, kMaxPool) != nullptr) return alone;
    if (const auto* part = AsPart(e)) return MovesRounded(part->tuple);
    return IsComputed(e) && NeedsNoMore(e.as<CallNode>()->args[0]);
  }

  /// The rounding of `post`, which was `pre`: that of what is moved, and of the parts of a concatenation, where
  /// nothing else reads these. `rounding`: the call that there is, else null.
  Expr Rounded(const Expr& pre, const Expr& post, const Expr& rounding, int depth) {
    constexpr int kMostDepth = 64;
    if (auto it = rounded_.find(pre.get()); it != rounded_.end()) return it->second;
    const auto *move = AsMove(post), *joined = AsCallOf(post, kConcatenate);
    const auto* part = AsPart(post);
    Expr result = rounding;
    if (depth == kMostDepth) {
      move = joined = nullptr;
      part = nullptr;
    }
    if (part != nullptr && MovesRounded(pre)) {
      const Expr parts = Rounded(pre.as<TupleGetItemNode>()->tuple, part->tuple, Expr(), depth + 1);
      result = TupleGetItem(parts, part->index, part->span);
    } else if (move != nullptr && MovesRounded(pre)) {
      const Expr data = Rounded(pre.as<CallNode>()->args[0], move->args[0], Expr(), depth + 1);
      result = Call(move->op, {data}, move->attrs, {}, move->span);
    } else if (joined != nullptr && NeedsNoMore(pre)) {
      const Array<Expr> parts = RoundedParts(pre.as<CallNode>()->args[0], joined->args[0], depth + 1);
      if (!parts.empty()) result = Call(joined->op, {Tuple(parts)}, joined->attrs, {}, joined->span);
    }
    if (!result.defined()) result = ops::CallOp(kRounding, {post});
    return rounded_[pre.get()] = result;
  }
  /// Nothing where one of them is needed as it is, too.
  Array<Expr> RoundedParts(const Expr& pre, const Expr& post, int depth) {
    const auto *before = pre.as<TupleNode>(), *after = post.as<TupleNode>();
    if (before == nullptr || after == nullptr) return {};
    for (const Expr& part : before->fields) {
      if (!NeedsNoMore(part) || !IsComputed(part)) return {};
    }
    Array<Expr> parts;
    for (size_t i = 0; i < before->fields.size(); ++i) {
      parts.push_back(Rounded(before->fields[i], after->fields[i], Expr(), depth));
    }
    return parts;
  }

  const std::unordered_map<const Object*, int> uses_;
  std::unordered_map<const Object*, Readers> readers_;
  std::unordered_map<const Object*, int> rounded_uses_;
  std::unordered_map<const Object*, Expr> rounded_;
};

}  // namespace

namespace transform {

Pass ShareRounding() {
  return CreateFunctionPass(
      [](const Function& func, const IRModule&, const PassContext&) {
        return Downcast<Function>(RoundingSharer(func).Mutate(func));
      },
      {"ShareRounding", 0, {"InferType"}, "keeps activations in bfloat16 alone where a product rounds them"});
}

}  // namespace transform
}  // namespace treadle::relay
