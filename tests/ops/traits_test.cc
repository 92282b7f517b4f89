// SPDX-License-Identifier: Apache-2.0
// What operators state of themselves for passes: all operators are walked, so that a new one isn't forgotten.
#include "treadle/ops/traits.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "treadle/base/error.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/gradient.h"

namespace treadle::ops {
namespace {

/// Operators of the graph IR that compute something; without those on quantised integers where floats are asked about.
std::vector<Op> ComputingOps(bool quantised = true) {
  RegisterAllOps();
  std::vector<Op> ops;
  for (const std::string& name : Op::ListNames()) {
    const Op op = Op::Get(name);
    if (op.GetAttr(kCompute) != nullptr && (quantised || name.compare(0, 4, "qnn.") != 0)) ops.push_back(op);
  }
  return ops;
}

std::string Joined(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
  return text;
}

/// Operators that follow the layout of their operands meet channels that only fill a block.
TEST(Traits, OperatorsThatFollowLayoutsSayWhetherTheyKeepNumbersFinite) {
  std::set<std::string> missing;
  for (const Op& op : ComputingOps()) {
    const OpPatternKind pattern = op.GetAttr(kOpPattern, OpPatternKind::kOpaque);
    const bool follows = pattern <= OpPatternKind::kBroadcast && LayoutRuleOf(op) != nullptr;
    if (follows && op.GetAttr(kFiniteRule) == nullptr) missing.insert(op->name);
  }
  EXPECT_EQ(Joined(missing), "") << "state kFiniteRule where these are registered";
}

TEST(Traits, ElementwiseOperatorsOfOneOperandFollowLayouts) {
  for (const Op& op : ComputingOps()) {
    if (op.GetAttr(kOpPattern, OpPatternKind::kOpaque) != OpPatternKind::kElemWise || op->num_inputs != 1) continue;
    EXPECT_NE(LayoutRuleOf(op), nullptr) << op->name;
  }
}

TEST(Traits, FastFormsStandInForTheirOperators) {
  int count = 0;
  for (const Op& op : ComputingOps()) {
    const auto* name = op.GetAttr(kFastForm);
    if (name == nullptr) continue;
    ++count;
    const Op fast = Op::Get(*name);
    EXPECT_EQ(fast->num_inputs, op->num_inputs) << op->name;
    EXPECT_EQ(fast->attrs_type, op->attrs_type) << op->name;
    EXPECT_EQ(fast.GetAttr(kOpPattern, OpPatternKind::kOpaque), op.GetAttr(kOpPattern, OpPatternKind::kOpaque));
    EXPECT_EQ(FiniteRuleOf(fast), FiniteRuleOf(op)) << op->name;
    EXPECT_EQ(LayoutRuleOf(fast), LayoutRuleOf(op)) << op->name;
    EXPECT_EQ(MixedPrecisionRuleOf(fast), MixedPrecisionRuleOf(op)) << op->name;
  }
  EXPECT_EQ(count, 4);
}

/// Names of `found` that aren't in `expected`, and the other way round.
std::string Difference(const std::set<std::string>& found, const std::set<std::string>& expected) {
  std::set<std::string> missing, surplus;
  for (const std::string& name : found) {
    if (expected.count(name) == 0) missing.insert(name);
  }
  for (const std::string& name : expected) {
    if (found.count(name) == 0) surplus.insert(name);
  }
  if (missing.empty() && surplus.empty()) return "";
  return "no answer: " + Joined(missing) + "; listed here, but have one: " + Joined(surplus);
}

/// Without a rule ToMixedPrecision does as its caller says (missing_op_mode). These give integers, or sort, scatter and
/// search, or are what layouts make of other operators once precision is settled. A new operator states
/// relay::kMixedPrecision, or joins them.
TEST(Traits, OperatorsWithoutARuleForNarrowFloats) {
  const std::set<std::string> expected = {"dyn.resize_axis",
                                          "dyn.transpose",
                                          "linalg.det",
                                          "nn.deformable_columns",
                                          "nn.max_pool_indices",
                                          "random.threefry_generate",
                                          "random.threefry_split",
                                          "random.uniform",
                                          "random.uniform_like",
                                          "all",
                                          "any",
                                          "arange",
                                          "argmax",
                                          "argmin",
                                          "argsort",
                                          "check_values",
                                          "collapse_sum_like",
                                          "collapse_sum_to",
                                          "dyn.iota",
                                          "dyn.topk",
                                          "max",
                                          "min",
                                          "nms_padded",
                                          "nn.attention",
                                          "nn.contrib_conv2d_NCHWc",
                                          "nn.contrib_conv2d_NCHWc_pairs",
                                          "nn.contrib_conv2d_select_NCHWc",
                                          "nn.contrib_conv2d_winograd_NCHWc",
                                          "nn.contrib_dense_pack",
                                          "nn.contrib_depthwise_conv2d_NCHWc",
                                          "nn.contrib_depthwise_conv2d_NHWC",
                                          "nn.contrib_lrn_NCHWc",
                                          "nn.contrib_packed_attention",
                                          "nn.contrib_packing_attention",
                                          "nn.contrib_packing_tile_attention",
                                          "nn.contrib_packed_dense_pairs",
                                          "nn.contrib_tile_attention",
                                          "nn.contrib_tile_conv2d_pairs",
                                          "nn.contrib_tile_dense_pairs",
                                          "nn.conv1d_transpose",
                                          "nn.conv3d_transpose",
                                          "nn.contrib_write_rows",
                                          "nn.cross_entropy",
                                          "nn.cross_entropy_with_logits",
                                          "nn.dropout",
                                          "nn.nll_loss",
                                          "nn.packed_dense",
                                          "nn.packing_matmul",
                                          "nonzero_padded",
                                          "scatter",
                                          "scatter_add",
                                          "scatter_nd",
                                          "searchsorted",
                                          "shape_of",
                                          "sort",
                                          "sparse_to_dense",
                                          "topk",
                                          "vision.keep_boxes",
                                          "vision.roi_align"};
  std::set<std::string> found;
  for (const Op& op : ComputingOps(/*quantised=*/false)) {
    if (!MixedPrecisionRuleOf(op)) found.insert(op->name);
  }
  EXPECT_EQ(Difference(found, expected), "");
}

/// FirstOrderGradient refuses these by name, but for those whose results are integers. A new operator states kGradient,
/// or joins them.
TEST(Traits, OperatorsWithoutAGradient) {
  const std::set<std::string> expected = {"dyn.resize_axis",
                                          "dyn.transpose",
                                          "linalg.det",
                                          "nn.deformable_columns",
                                          "nn.max_pool_indices",
                                          "random.threefry_generate",
                                          "random.threefry_split",
                                          "random.uniform",
                                          "random.uniform_like",
                                          "adv_index",
                                          "all",
                                          "any",
                                          "argmax",
                                          "argmin",
                                          "bitwise_and",
                                          "bitwise_not",
                                          "bitwise_or",
                                          "bitwise_xor",
                                          "cast_like",
                                          "check_values",
                                          "collapse_sum_to",
                                          "contrib_reverse_reshape",
                                          "cumprod",
                                          "cumsum",
                                          "dyn.broadcast_to",
                                          "dyn.full",
                                          "dyn.image.resize2d",
                                          "dyn.iota",
                                          "dyn.nn.contrib_columns_to_image",
                                          "dyn.nn.pad",
                                          "dyn.one_hot",
                                          "dyn.ones",
                                          "dyn.strided_slice",
                                          "dyn.tile",
                                          "dyn.topk",
                                          "dyn.zeros",
                                          "einsum",
                                          "equal",
                                          "fast_erf",
                                          "fast_exp",
                                          "fast_tanh",
                                          "fixed_point_multiply",
                                          "floor_divide",
                                          "floor_mod",
                                          "full",
                                          "gather_nd",
                                          "greater",
                                          "greater_equal",
                                          "image.affine_grid",
                                          "image.grid_sample",
                                          "image.resize1d",
                                          "image.resize2d",
                                          "image.resize3d",
                                          "invert_permutation",
                                          "isfinite",
                                          "isinf",
                                          "isnan",
                                          "layout_transform",
                                          "left_shift",
                                          "less",
                                          "less_equal",
                                          "matrix_set_diag",
                                          "meshgrid",
                                          "mod",
                                          "nms_padded",
                                          "nn.adaptive_avg_pool1d",
                                          "nn.adaptive_avg_pool2d",
                                          "nn.adaptive_avg_pool3d",
                                          "nn.adaptive_max_pool1d",
                                          "nn.adaptive_max_pool2d",
                                          "nn.adaptive_max_pool3d",
                                          "dyn.reshape",
                                          "nn.attention",
                                          "nn.avg_pool1d",
                                          "nn.avg_pool3d",
                                          "nn.batch_to_space_nd",
                                          "nn.contrib_columns_to_image",
                                          "nn.contrib_conv2d_NCHWc",
                                          "nn.contrib_conv2d_NCHWc_pairs",
                                          "nn.contrib_conv2d_select_NCHWc",
                                          "nn.contrib_conv2d_winograd_NCHWc",
                                          "nn.contrib_dense_pack",
                                          "nn.contrib_depthwise_conv2d_NCHWc",
                                          "nn.contrib_depthwise_conv2d_NHWC",
                                          "nn.contrib_lrn_NCHWc",
                                          "nn.contrib_pack_pairs",
                                          "nn.contrib_pack_tile_pairs",
                                          "nn.contrib_packed_attention",
                                          "nn.contrib_packing_attention",
                                          "nn.contrib_packing_tile_attention",
                                          "nn.contrib_packed_dense_pairs",
                                          "nn.contrib_pair_cast",
                                          "nn.contrib_packed_gru",
                                          "nn.contrib_packed_lstm",
                                          "nn.contrib_tile_attention",
                                          "nn.contrib_tile_conv2d_pairs",
                                          "nn.contrib_tile_dense_pairs",
                                          "nn.conv1d",
                                          "nn.conv1d_transpose",
                                          "nn.conv2d_transpose",
                                          "nn.conv3d",
                                          "nn.conv3d_transpose",
                                          "nn.depth_to_space",
                                          "nn.dilate",
                                          "nn.fast_softmax",
                                          "nn.gelu",
                                          "nn.global_avg_pool1d",
                                          "nn.global_avg_pool3d",
                                          "nn.global_max_pool1d",
                                          "nn.global_max_pool3d",
                                          "nn.gru",
                                          "nn.lrn",
                                          "nn.lstm",
                                          "nn.max_pool1d",
                                          "nn.max_pool3d",
                                          "nn.mirror_pad",
                                          "nn.mish",
                                          "nn.nll_loss",
                                          "nn.packed_dense",
                                          "nn.packing_matmul",
                                          "nn.space_to_batch_nd",
                                          "nn.space_to_depth",
                                          "nn.upsampling3d",
                                          "nonzero_padded",
                                          "not_equal",
                                          "prod",
                                          "reinterpret",
                                          "reverse",
                                          "reverse_sequence",
                                          "right_shift",
                                          "nn.contrib_write_rows",
                                          "scatter",
                                          "scatter_add",
                                          "scatter_nd",
                                          "searchsorted",
                                          "sequence_mask",
                                          "slice_like",
                                          "sliding_window",
                                          "sort",
                                          "sparse_to_dense",
                                          "strided_set",
                                          "topk",
                                          "trilu",
                                          "unravel_index",
                                          "vision.keep_boxes",
                                          "vision.roi_align",
                                          "vision.roi_pool"};
  std::set<std::string> found;
  for (const Op& op : ComputingOps(/*quantised=*/false)) {
    if (op.GetAttr(kGradient) == nullptr && op.GetAttr(kInferenceForm) == nullptr) found.insert(op->name);
  }
  EXPECT_EQ(Difference(found, expected), "");
}

}  // namespace
}  // namespace treadle::ops
