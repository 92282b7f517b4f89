// SPDX-License-Identifier: Apache-2.0
#include "driver/evaluate/constant_evaluator.h"

#include <gtest/gtest.h>

#include "treadle/ops/compute.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/relay/text.h"
#include "treadle/relay/type_infer.h"

namespace treadle::driver {
namespace {

using relay::Expr;

/// `call` on %w, which is a constant whose elements nobody wrote yet.
Expr Evaluate(const std::string& parameter, const std::string& call) {
  ops::RegisterAllOps();
  const IRModule module =
      relay::ParseModule("#[version = \"0.0.5\"]\ndef @main(%w: " + parameter + ") { " + call + " }");
  const auto main = Downcast<relay::Function>(module->Lookup("main"));
  const auto* type = main->params[0]->checked_type().as<TensorTypeNode>();
  Map<relay::Var, Expr> weight;
  weight.Set(main->params[0], relay::Constant(runtime::NDArray::Empty(StaticShape(type, "w"), type->dtype)));
  const Expr bound = relay::Bind(main->body, weight);
  return EvaluateConstant(relay::InferType(bound, module));
}

TEST(ConstantEvaluator, LargeResultsOfLargeOperandsOnly) {
  // Packing the last weight of a decoder (151,936 words, 896 channels: 519 MiB) adds little to the weight.
  EXPECT_TRUE(Evaluate("Tensor[(151936, 896), float32]", "reshape(%w, newshape=[9496, 16, 896])").defined());
  EXPECT_FALSE(Evaluate("Tensor[(1), float32]", "broadcast_to(%w, shape=[151936, 896])").defined());
}

}  // namespace
}  // namespace treadle::driver
