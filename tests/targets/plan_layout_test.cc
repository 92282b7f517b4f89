// SPDX-License-Identifier: Apache-2.0
// Blocks of channels that are chosen together: text in, the layouts of what the pass makes of it out.
#include "../passes/pass_test.h"
#include "targets/cpu/graph/passes.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/ops/attrs/pool.h"
#include "treadle/ops/attrs/transform.h"
#include "treadle/targets/target_spec.h"

namespace treadle::targets {
namespace {

using testing::Parse;
using testing::PassContext;

/// Parameters named w.. become constants: of weights layouts are free.
IRModule WithWeights(const std::string& text) {
  IRModule module = Parse(text);
  auto main = Downcast<relay::Function>(module->Lookup("main"));
  Map<relay::Var, relay::Expr> weights;
  Array<relay::Var> params;
  for (const relay::Var& param : main->params) {
    if (param->vid->name_hint[0] != 'w') {
      params.push_back(param);
      continue;
    }
    const auto* type = param->checked_type().as<TensorTypeNode>();
    std::vector<int64_t> shape;
    for (const PrimExpr& dim : type->shape) shape.push_back(*AsConstInt(dim));
    runtime::NDArray zeros = runtime::NDArray::Empty(shape, type->dtype);
    std::fill(zeros.Data<float>(), zeros.Data<float>() + zeros.size(), 0.0F);
    weights.Set(param, relay::Constant(zeros));
  }
  return relay::InferTypes(
      IRModule::FromExpr(relay::Function(params, relay::Bind(main->body, weights), main->ret_type, {})));
}

/// What the pass makes of it.
relay::Expr Planned(const std::string& text, bool joint, const std::string& cpu = "znver4") {
  PassContext context = PassContext::Create();
  context.CopyOnWrite()->config.Set(relay::kJointLayouts, IntImm(DataType::Bool(), joint ? 1 : 0));
  PassContext::Scope scope(context);
  const Target target(StrCat("llvm -mtriple=x86_64-unknown-linux-gnu -num-cores=1 -mcpu=", cpu));
  const IRModule module =
      relay::InferTypes(relay::transform::PlanLayout(ops::cpu::MachineOf(target), target)(WithWeights(text)));
  return Downcast<relay::Function>(module->Lookup("main"))->body;
}

/// "NCHW16c > NCHW8c" of each convolution, "to NCHW8c" of activations that are transformed, in the order of execution.
std::string Layouts(const std::string& text, bool joint, const std::string& cpu = "znver4") {
  std::string result;
  relay::PostOrderVisit(Planned(text, joint, cpu), [&](const relay::Expr& e) {
    const auto* call = e.as<relay::CallNode>();
    if (call == nullptr) return;
    if (const auto* pool = call->attrs.as<ops::MaxPool2DAttrs>()) {
      result += StrCat("pool ", pool->layout, "; ");
    } else if (const auto* conv = call->attrs.as<ops::Conv2DAttrs>()) {
      result += StrCat(conv->data_layout, " > ", conv->out_layout, "; ");
    } else if (const auto* change = call->attrs.as<ops::LayoutTransformAttrs>();
               change != nullptr && call->args[0].as<relay::ConstantNode>() == nullptr) {
      result += StrCat("to ", change->dst_layout, "; ");
    }
  });
  return result;
}

const char* kNarrow = R"(
fn (%x: Tensor[(1, 96, 56, 56), float32], %w0: Tensor[(24, 96, 1, 1), float32],
    %w1: Tensor[(144, 24, 1, 1), float32], %w2: Tensor[(144, 24, 1, 1), float32]) {
  %0 = nn.conv2d(%x, %w0);
  add(nn.conv2d(%0, %w1), nn.conv2d(%0, %w2))
})";

// 24 channels are 32 in whole blocks of 16: good for the convolution that makes them, not for those that read them.
TEST(JointLayouts, AValueIsChangedOnceForAllThatReadIt) {
  const std::string first = "to NCHW16c; NCHW16c > NCHW16c; ";
  EXPECT_EQ(Layouts(kNarrow, false), first + "NCHW16c > NCHW16c; NCHW16c > NCHW16c; to NCHW; ");
  EXPECT_EQ(Layouts(kNarrow, true), first + "to NCHW8c; NCHW8c > NCHW16c; NCHW8c > NCHW16c; to NCHW; ");
}

TEST(JointLayouts, VectorsOfEightHaveNoReasonToPad) {
  const std::string all = "to NCHW16c; NCHW16c > NCHW8c; NCHW8c > NCHW16c; NCHW8c > NCHW16c; to NCHW; ";
  EXPECT_EQ(Layouts(kNarrow, false, "haswell"), all);
  EXPECT_EQ(Layouts(kNarrow, true, "haswell"), all);
}

TEST(JointLayouts, BlocksChangeWhereTensorsAreSmall) {
  // After the pool, not before it.
  const char* text = R"(
fn (%x: Tensor[(1, 16, 56, 56), float32], %w0: Tensor[(24, 16, 1, 1), float32],
    %w1: Tensor[(24, 16, 1, 1), float32], %w2: Tensor[(384, 24, 1, 1), float32],
    %w3: Tensor[(384, 24, 1, 1), float32]) {
  %0 = nn.relu(add(nn.conv2d(%x, %w0), nn.conv2d(%x, %w1)));
  %1 = nn.max_pool2d(%0, pool_size=[2, 2], strides=[2, 2]);
  add(nn.conv2d(%1, %w2), nn.conv2d(%1, %w3))
})";
  const std::string sum = "to NCHW16c; NCHW16c > NCHW16c; NCHW16c > NCHW16c; ";
  EXPECT_EQ(Layouts(text, false), sum + "pool NCHW16c; NCHW16c > NCHW16c; NCHW16c > NCHW16c; to NCHW; ");
  EXPECT_EQ(Layouts(text, true), sum + "pool NCHW16c; to NCHW8c; NCHW8c > NCHW16c; NCHW8c > NCHW16c; to NCHW; ");
}

// The mean of all channels, rows and columns is that of blocks where none is padded.
TEST(PlanLayout, MeansOfAllChannelsReadBlocks) {
  const auto between = [](const char* channels) {
    const std::string c = channels;
    return Layouts(StrCat("fn (%x: Tensor[(1, 32, 14, 14), float32], %w0: Tensor[(", c, ", 32, 3, 3), float32],",
                          " %w1: Tensor[(32, ", c, ", 3, 3), float32]) {",
                          " %0 = nn.conv2d(%x, %w0, padding=[1, 1]); %1 = mean(%0, axis=[1, 2, 3], keepdims=True);",
                          " nn.conv2d(subtract(%0, %1), %w1, padding=[1, 1]) }"),
                   false);
  };
  EXPECT_EQ(between("64").find("to NCHW;"), between("64").rfind("to NCHW;")) << between("64");  // the result's
  EXPECT_NE(between("20").find("to NCHW;"), between("20").rfind("to NCHW;")) << between("20");
}

/// Calls of an operator.
int Count(const std::string& text, const std::string& op, const std::string& cpu = "znver4") {
  int count = 0;
  relay::PostOrderVisit(Planned(text, false, cpu), [&](const relay::Expr& e) {
    const auto* call = e.as<relay::CallNode>();
    const auto* callee = call == nullptr ? nullptr : call->op.as<OpNode>();
    count += callee != nullptr && callee->name == op;
  });
  return count;
}

/// A convolution whose 20 channels are padded, `between` of its result %0, and a convolution of %1, with 3 x 3 weights.
std::string Padded(const std::string& between, int64_t groups = 1) {
  const std::string g = std::to_string(groups), each = std::to_string(20 / groups);
  return StrCat("fn (%x: Tensor[(1, 32, 56, 56), float32], %w0: Tensor[(20, 32, 1, 1), float32],",
                " %wd: Tensor[(20, 1, 3, 3), float32], %w1: Tensor[(20, ", each, ", 3, 3), float32]) {",
                " %0 = nn.conv2d(%x, %w0);", between, " nn.conv2d(%1, %w1, padding=[1, 1], groups=", g, ") }");
}

const char* kApart = "%1 = nn.relu(nn.max_pool2d(nn.conv2d(%0, %wd, padding=[1, 1], groups=20), pool_size=[2, 2]));";

// 0 times NaN is NaN: Winograd's method sums up all channels of a block.
TEST(FinitePadding, IsMadeWhereChannelsAreMixed) {
  EXPECT_EQ(Count(Padded("%1 = nn.relu(%0);"), "nn.contrib_conv2d_winograd_NCHWc"), 1);
  EXPECT_EQ(Count(Padded("%1 = nn.relu(%0);"), "where"), 1);
  EXPECT_EQ(Count(Padded(kApart), "nn.contrib_conv2d_winograd_NCHWc"), 1);
  EXPECT_EQ(Count(Padded(kApart), "where"), 1) << "through operators that take channels apart, too";
}

TEST(FinitePadding, IsNotMadeForReadersThatTakeChannelsApart) {
  EXPECT_EQ(Count(Padded("%1 = nn.relu(%0);", 20), "where"), 0);
  EXPECT_EQ(Count(Padded(kApart, 20), "where"), 0);
  EXPECT_EQ(Count("fn (%x: Tensor[(1, 32, 56, 56), float32], %w0: Tensor[(20, 32, 1, 1), float32]) {"
                  " nn.relu(nn.conv2d(%x, %w0)) }",
                  "where"),
            0);
}

TEST(FinitePadding, IsNotMadeForReadersThatSkipIt) {
  EXPECT_EQ(Count(kNarrow, "nn.contrib_conv2d_select_NCHWc"), 2);
  EXPECT_EQ(Count(kNarrow, "where"), 0);
}

TEST(JointLayouts, WholeBlocksStayAsTheyAre) {
  const char* text = R"(
fn (%x: Tensor[(1, 64, 28, 28), float32], %w0: Tensor[(32, 64, 1, 1), float32],
    %w1: Tensor[(144, 32, 3, 3), float32]) { nn.conv2d(nn.relu(nn.conv2d(%x, %w0)), %w1) })";
  EXPECT_EQ(Layouts(text, true), Layouts(text, false));
}

}  // namespace
}  // namespace treadle::targets
