// SPDX-License-Identifier: Apache-2.0
// A visitor and a mutator of one's own, outside of Treadle's tree.
#include <iostream>
#include <map>

#include "treadle/ops/compute.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/relay/text.h"
#include "treadle/relay/type_infer.h"

namespace relay = treadle::relay;

/// Counts the calls of each operator.
class OpCounter : public relay::ExprVisitor {
 public:
  std::map<std::string, int> count;

  void VisitExpr_(const relay::CallNode* call) override {
    if (const auto* op = call->op.as<treadle::OpNode>()) ++count[op->name];
    relay::ExprVisitor::VisitExpr_(call);  // goes on into the operands
  }
};

/// relu(relu(x)) -> relu(x). Without such a pair the result is the identical object.
class ReluOnce : public relay::MixedModeMutator {
 public:
  relay::Expr Rewrite_(const relay::CallNode*, const relay::Expr& post) override {
    const treadle::Op& relu = treadle::Op::Get("nn.relu");
    if (!relay::IsCallOf(post, relu)) return post;
    relay::Expr operand = static_cast<const relay::CallNode*>(post.get())->args[0];
    return relay::IsCallOf(operand, relu) ? operand : post;
  }
};

int main() {
  try {
    treadle::ops::RegisterAllOps();
    treadle::IRModule module = relay::ParseModule(
        "def @main(%x: Tensor[(2, 3), float32]) {\n"
        "  add(nn.relu(nn.relu(nn.relu(%x))), 1f)\n"
        "}\n");
    treadle::BaseFunc main = module->Lookup("main");

    OpCounter counter;
    counter.VisitExpr(main);
    for (const auto& [name, count] : counter.count) std::cout << name << ": " << count << "\n";

    relay::Expr rewritten = relay::InferType(ReluOnce().Mutate(main));
    std::cout << relay::PrettyPrint(rewritten) << "\n";
  } catch (const treadle::Error& error) {
    std::cerr << error.what() << "\n";
    return static_cast<int>(error.code());
  }
  return 0;
}
