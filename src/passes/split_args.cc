// SPDX-License-Identifier: Apache-2.0
// SplitArgs: a concatenation of many tensors becomes a tree of concatenations of few.
#include "passes/split_args.h"

#include <algorithm>

#include "passes/pass_util.h"
#include "treadle/base/error.h"

namespace treadle::relay {
namespace {

class ArgSplitter : public MixedModeMutator {
 public:
  explicit ArgSplitter(size_t limit) : limit_(limit) {}

 private:
  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const auto* call = AsCallOf(post, "concatenate");
    const auto* tuple = call == nullptr ? nullptr : call->args[0].as<TupleNode>();
    if (tuple == nullptr || tuple->fields.size() <= limit_) return post;
    Array<Expr> parts = tuple->fields;
    while (parts.size() > limit_) parts = Joined(parts, call);
    return Call(call->op, {Tuple(parts)}, call->attrs, call->type_args, pre->span);
  }

  Array<Expr> Joined(const Array<Expr>& parts, const CallNode* like) const {
    Array<Expr> joined;
    for (size_t begin = 0; begin < parts.size(); begin += limit_) {
      Array<Expr> some(parts.begin() + static_cast<ptrdiff_t>(begin),
                       parts.begin() + static_cast<ptrdiff_t>(std::min(begin + limit_, parts.size())));
      if (some.size() == 1) {
        joined.push_back(some[0]);
        continue;
      }
      Call call(like->op, {Tuple(some)}, like->attrs, like->type_args, like->span);
      joined.push_back(ops::CallOp("annotation.stop_fusion", {call}, Attrs(), like->span));
    }
    return joined;
  }

  size_t limit_;
};

}  // namespace

namespace transform {

Pass SplitArgs(int max_function_args) {
  if (max_function_args < 2) throw Error(StrCat("SplitArgs needs a limit of at least 2, not ", max_function_args));
  return CreateFunctionPass(
      [limit = static_cast<size_t>(max_function_args)](const Function& func, const IRModule&, const PassContext&) {
        return Downcast<Function>(ArgSplitter(limit).Mutate(func));
      },
      {"SplitArgs", 1, {"InferType"}, "Makes concatenations of many tensors several of few"});
}

}  // namespace transform
}  // namespace treadle::relay
