// SPDX-License-Identifier: Apache-2.0
// Tensors between convolutions get channels that fill vectors: which ones, and that results stay the same.
#include "relay/passes/fill_channels.h"
#include "relay/passes/pass_test.h"
#include "treadle/ops/make.h"

namespace treadle::relay {
namespace {

using namespace treadle::testing;  // NOLINT(google-build-using-namespace)
using runtime::NDArray;

Expr Number(std::vector<int64_t> shape, int seed) {
  NDArray value = NDArray::Empty(shape, DataType::Float(32));
  auto* at = value.Data<float>();
  for (int64_t i = 0; i < static_cast<int64_t>(value.size()); ++i) {
    at[i] = static_cast<float>((i * 7 + seed * 13) % 23) * 0.1F - 1.1F;
  }
  return Constant(value);
}

Expr Conv(const Expr& data, int64_t in, int64_t out, int64_t kernel, int groups = 1) {
  return ops::CallWith<ops::Conv2DAttrs>(
      "nn.conv2d", {data, Number({out, in / groups, kernel, kernel}, static_cast<int>(out))}, [&](auto& a) {
        a.padding = {kernel / 2, kernel / 2, kernel / 2, kernel / 2};
        a.groups = groups;
        a.channels = out;
      });
}

Var Image() { return Var("x", TensorType(std::vector<int64_t>{1, 3, 6, 5}, DataType::Float(32))); }

IRModule Filled(const Var& x, const Expr& body) {
  ops::RegisterAllOps();
  RegisterPasses();
  IRModule module = InferTypes(IRModule::FromExpr(Function({x}, body)));
  return InferTypes(transform::FillChannels(16)(module));
}

/// Output channels of the convolutions, in order.
std::vector<int64_t> ConvolutionChannels(const IRModule& module) {
  std::vector<int64_t> channels;
  PostOrderVisit(Downcast<Function>(module->Lookup("main")), [&](const Expr& e) {
    const auto* call = e.as<CallNode>();
    const auto* op = call != nullptr ? call->op.as<OpNode>() : nullptr;
    if (op != nullptr && op->name.rfind("nn.conv2d", 0) == 0) {
      channels.push_back(*AsConstInt(e->type_as<TensorTypeNode>()->shape[1]));
    }
  });
  return channels;
}

TEST(FillChannels, ChainsStayFilled) {
  Var x = Image();
  Expr y = ops::CallOp("nn.relu", {ops::CallOp("add", {Conv(x, 3, 24, 3), Number({24, 1, 1}, 1)})});
  y = Conv(Conv(y, 24, 24, 3, 24), 24, 40, 1);
  const IRModule module = Filled(x, y);
  EXPECT_EQ(ConvolutionChannels(module), (std::vector<int64_t>{32, 32, 48}));
  // Only the end takes the model's channels out.
  EXPECT_EQ(Show(module).find("strided_slice"), Show(module).rfind("strided_slice"));
}

TEST(FillChannels, LeavesWhatIsWholeOrWouldGainNothing) {
  for (int64_t channels : {int64_t{32}, int64_t{8}, int64_t{20}}) {
    Var x = Image();
    EXPECT_EQ(ConvolutionChannels(Filled(x, Conv(x, 3, channels, 1))), (std::vector<int64_t>{channels}));
  }
}

TEST(FillChannels, OtherOperatorsGetTheModelsChannels) {
  Var x = Image();
  const IRModule module = Filled(x, ops::CallOp("exp", {Conv(x, 3, 24, 1)}));
  EXPECT_NE(Show(module).find("exp(%1)"), std::string::npos) << Show(module);
  EXPECT_NE(Show(module).find("strided_slice(%0"), std::string::npos) << Show(module);
}

TEST(FillChannels, DivisionsByChannelsDontFollow) {
  Var x = Image();
  const IRModule module = Filled(x, ops::CallOp("divide", {Conv(x, 3, 24, 1), Number({24, 1, 1}, 1)}));
  EXPECT_NE(Show(module).find("divide(%1"), std::string::npos) << Show(module);
}

}  // namespace
}  // namespace treadle::relay
