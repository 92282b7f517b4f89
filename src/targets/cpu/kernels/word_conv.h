// SPDX-License-Identifier: Apache-2.0
// What convolutions by words (words.h) on channel-blocked activations share, of bytes (byte_conv.cc) and of bfloat16
// (pair_conv.cc): weights in words, blocks of grouped channels, and the plans of what concerns the graph. conv2d.direct
// plans and costs the loops.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "targets/cpu/kernels/conv_layout.h"
#include "targets/cpu/kernels/kernels.h"
#include "treadle/base/int_math.h"

namespace treadle::ops::cpu {

/// Of fewer channels of plain data words are made, not blocks.
inline constexpr int64_t kLeastBlocked = 8;

/// A convolution whose groups, some taken as one, are blocks.
struct GroupsInBlocks {
  int64_t merged, block;  ///< groups of the model that become one; channels of a block
};
/// The usual one first; none where no block has channels of one group only.
std::vector<GroupsInBlocks> BlockGroups(const ConvProblemNode& p, int lanes);
/// Whether zeros of a weight may not meet channels of other groups or pixels beside a window: times infinities they are
/// NaN.
bool KeepsZerosApart(DataType dtype);
inline constexpr const char* kZerosApart =
    "accuracy is strict, and zeros times infinities of other windows or groups would be NaN";

/// The problem of a convolution of channel-blocked data by a weight in words (6 dimensions), or of a depthwise one (5).
Problem WordConvProblem(const Conv2DAttrs* attrs, const te::Tensor& data, const te::Tensor& kernel,
                        const TensorTypeNode* type);

/// Elements of `weight` (OIHW) at their places in (out / ob, in / ib, KH, KW, ib / elements of a word, ob) words. Group
/// g of the `merged` that form one has its inputs from g * I on.
template <typename T>
runtime::NDArray PackedConvWords(const runtime::NDArray& weight, int64_t in_block, int64_t out_block, int64_t groups,
                                 int64_t merged) {
  constexpr auto kEach = static_cast<int64_t>(sizeof(int32_t) / sizeof(T));
  const std::vector<int64_t>& shape = weight.shape();
  const int64_t outputs = shape[0], inputs = shape[1], taps = shape[2] * shape[3];
  const int64_t in_blocks = CeilDiv(inputs * merged, in_block);
  const int64_t out_blocks = CeilDiv(outputs, out_block), each = outputs / groups / merged;
  runtime::NDArray packed = runtime::NDArray::Empty(
      {out_blocks, in_blocks, shape[2], shape[3], in_block / kEach, out_block}, DataType::Int(32));
  auto* to = packed.Data<T>();
  std::fill(to, to + packed.size() * kEach, T{0});
  const auto* from = weight.Data<T>();
  for (int64_t o = 0; o < outputs; ++o) {
    for (int64_t i = 0; i < inputs; ++i) {
      const int64_t c = o / each % merged * inputs + i;
      for (int64_t t = 0; t < taps; ++t) {
        int64_t place = ((o / out_block * in_blocks + c / in_block) * taps + t) * (in_block / kEach);
        place = (place + c % in_block / kEach) * out_block + o % out_block;
        to[place * kEach + c % kEach] = *from++;
      }
    }
  }
  return packed;
}

/// Few channels of plain data in one block of `block`, whole words.
relay::Expr ChannelsAsWords(const relay::Expr& data, int64_t channels, int64_t block, DataType dtype);

/// What the graph decides.
class WordConvPlanNode : public PlanNode {
 public:
  int64_t merged = 1, ic_block = 16, oc_block = 16;
  bool of_rows = false;
  TREADLE_DECLARE_NODE(WordConvPlanNode, PlanNode, "schedule.WordConvPlan");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("merged", &WordConvPlanNode::merged).Doc("groups that become one, with zeros in the weight between them");
    r.Field("ic_block", &WordConvPlanNode::ic_block).Doc("channels of a block of the input; few: plain data as words");
    r.Field("oc_block", &WordConvPlanNode::oc_block).Doc("channels of a block of the result");
    r.Field("of_rows", &WordConvPlanNode::of_rows)
        .Doc("words of one channel are of two neighbouring rows, not of four columns");
  }
};
Plan MakeWordConvPlan(int64_t merged, int64_t ic_block, int64_t oc_block, bool of_rows = false);

/// Channels of a block of plain data whose few channels become words of `each`; nothing where they don't.
std::optional<int64_t> FewChannels(const ConvProblemNode& p, int64_t each);
/// Blocks of channels that aren't half empty.
std::vector<int64_t> BlocksOf(int64_t channels);
/// `usual`, and the others, which no cost model chooses (Kernel::least_gain): they decide about what follows in the
/// graph, too.
std::vector<Plan> WithUsual(const Plan& usual, std::vector<Plan> plans);
/// Plans of a convolution by words of `each` elements.
std::vector<Plan> WordConvSpace(const ConvProblemNode& p, int64_t each, const Machine& machine);
std::string WhyNotWordConvPlan(const ConvProblemNode& p, int64_t each, const Plan& chosen);
/// Why groups don't become blocks; "" where they do.
std::string WhyNotGroups(const ConvProblemNode& p, const Machine& machine);
/// A kernel of `op` that costs as much as the kernel `loops`, which schedules what its plan rewrites the call to. The
/// caller sets why_not, space and rewrite.
Kernel WordConvKernel(const char* name, const char* op, const char* loops);
/// The attributes of a convolution in these layouts, with sums of `sum`.
Attrs WordConvAttrs(const Conv2DAttrs* a, const runtime::NDArray& weight, const ChannelLayout& in,
                    const ChannelLayout& out, int64_t channels, int64_t groups, DataType sum);

}  // namespace treadle::ops::cpu
