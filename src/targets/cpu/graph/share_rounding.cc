// SPDX-License-Identifier: Apache-2.0
// ShareRounding: activations that ComputePrecision rounds to bfloat16 for a product are kept in that form alone.
//
//   y = pair_cast(x), z = add(x, ..)        becomes   y = pair_cast(x), z = add(cast(y, float32), ..)
//   y = pair_cast(max_pool2d(x))            becomes   y = max_pool2d(pair_cast(x))
//
// The first where y is read by convolutions, and all other readers of x are element-wise operators of float32: the
// shortcuts of residual networks. They would read x in float32, which would have to be stored beside y. Transformers
// keep theirs: rounded, they cost RoBERTa 17 dB, and next to products of matrices they hardly take time. The second
// doesn't change the result: rounding keeps the order of numbers.
#include <algorithm>
#include <unordered_map>
#include <vector>

#include "passes/pass_util.h"
#include "targets/cpu/graph/passes.h"
#include "treadle/ops/make.h"
#include "treadle/relay/expr_functor.h"

namespace treadle::relay {
namespace {

const DataType kWide = DataType::Float(32);
constexpr const char* kRounding = "nn.contrib_pair_cast";
constexpr const char* kMaxPool = "nn.max_pool2d";
constexpr const char* kConvolution = "nn.conv2d";

bool IsElementwise(const CallNode* call) {
  const auto* op = call->op.as<OpNode>();
  return op != nullptr && GetRef<Op>(op).GetAttr(kOpPattern, OpPatternKind::kOpaque) <= OpPatternKind::kBroadcast &&
         AsCallOf(GetRef<Expr>(call), kRounding) == nullptr;
}

class RoundingSharer : public MixedModeMutator {
 public:
  explicit RoundingSharer(const Function& func) : uses_(CountUses(func)) {
    PostOrderVisit(func, [this](const Expr& e) {
      const auto* call = e.as<CallNode>();
      if (call == nullptr) return;
      for (const Expr& arg : call->args) {
        if (arg.as<CallNode>() == nullptr) continue;
        Readers& readers = readers_[arg.get()];
        if (AsCallOf(e, kRounding) != nullptr) readers.rounding = e;
        readers.others += AsCallOf(e, kConvolution) == nullptr ? 1 : 0;
        readers.elementwise += IsElementwise(call) ? 1 : 0;
      }
    });
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

  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const auto* call = post.as<CallNode>();
    if (call == nullptr) return post;
    if (AsCallOf(GetRef<Expr>(pre), kRounding) != nullptr) return Rounded(pre, call, post);
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

  /// The rounding of a pooling before it, where nothing else reads the pooling.
  Expr Rounded(const CallNode* pre, const CallNode* call, const Expr& post) const {
    const auto* pool = AsCallOf(call->args[0], kMaxPool);
    if (pool == nullptr) return post;
    const bool alone = uses_.at(pre->args[0].get()) == 1 || SharedRounding(pre->args[0]).defined();
    if (!alone) return post;
    return Call(pool->op, {ops::CallOp(kRounding, {pool->args[0]})}, pool->attrs, {}, pool->span);
  }

  const std::unordered_map<const Object*, int> uses_;
  std::unordered_map<const Object*, Readers> readers_;
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
