// SPDX-License-Identifier: Apache-2.0
// FastMath: exp, erf, tanh and softmax become their polynomial approximations. Changes results within the error of
// these; so it only runs at a level, or when asked for.
#include <map>

#include "passes/pass_util.h"

namespace treadle::relay {
namespace {

class FastMathMutator : public MixedModeMutator {
  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    static const std::map<std::string, std::string> kFast = {
        {"exp", "fast_exp"}, {"erf", "fast_erf"}, {"tanh", "fast_tanh"}, {"nn.softmax", "nn.fast_softmax"}};
    auto it = kFast.find(OpName(pre));
    if (it == kFast.end()) return post;
    Op fast = Op::Find(it->second);
    if (!fast.defined()) return post;
    const auto* call = static_cast<const CallNode*>(post.get());
    return Call(fast, call->args, call->attrs, call->type_args, call->span);
  }
};

}  // namespace

namespace transform {

Pass FastMath() {
  return CreateFunctionPass([](const Function& func, const IRModule&,
                               const PassContext&) { return Downcast<Function>(FastMathMutator().Mutate(func)); },
                            {"FastMath", 4, {"InferType"}, "Uses fast approximations of exp, erf, tanh and softmax"});
}

}  // namespace transform
}  // namespace treadle::relay
