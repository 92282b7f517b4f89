// SPDX-License-Identifier: Apache-2.0
// TileBlockProducts: of products with weights that have a scale per block, those that are faster on tile registers
// (kernels/block_tiles.cc) are written as such; QnnCanonicalize sees to the others (kernels/block_dense.cc).
#include "passes/pass_util.h"
#include "targets/cpu/graph/passes.h"
#include "targets/cpu/kernels/block_problem.h"
#include "treadle/schedule/alternatives.h"

namespace treadle::relay {
namespace {

class BlockProductTiler : public MixedModeMutator {
 public:
  explicit BlockProductTiler(const schedule::Machine& machine) : machine_(machine) {}

 private:
  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const auto* call = post.as<CallNode>();
    if (call == nullptr || AsCallOf(post, ops::cpu::kBlockProduct) == nullptr) return post;
    const auto *data = TensorTypeOf(pre->args[0]), *weight = TensorTypeOf(pre->args[1]);
    const auto* attrs = call->attrs_as<ops::BlockProductAttrs>();
    const schedule::Problem problem = ops::cpu::BlockProductProblem(*attrs, data, weight);
    const schedule::Choice choice = schedule::ChooseKernel(ops::cpu::kBlockProduct, "cpu", problem, machine_);
    const schedule::Candidate* best = choice.best();
    const bool tiles = best != nullptr && best->kernel->name == "block_tiles";
    if (schedule::ChoiceLog::IsOn()) {
      const std::string place = call->span.defined() ? StrCat(" (", call->span.str(), ")") : "";
      schedule::ChoiceLog::Note(StrCat("# ", ops::cpu::kBlockProduct, place, "\n", schedule::ToText(choice)));
    }
    schedule::AlternativesLog::Note(ops::cpu::kBlockProduct, problem, machine_, choice);
    return tiles ? ops::cpu::TiledBlockProduct(call) : post;
  }

  const schedule::Machine machine_;
};

}  // namespace

namespace transform {

Pass TileBlockProducts(const schedule::Machine& machine) {
  return CreateFunctionPass(
      [machine](const Function& func, const IRModule&, const treadle::transform::PassContext&) {
        return Downcast<Function>(BlockProductTiler(machine).Mutate(func));
      },
      {"TileBlockProducts", 0, {"InferType"}, "Computes products with weights that have scales per block on tiles"});
}

}  // namespace transform
}  // namespace treadle::relay
