// SPDX-License-Identifier: Apache-2.0
// What convolution kernels share: problems, channel layouts, and weights in those layouts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "targets/cpu/kernels/kernels.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/te/tensor.h"

namespace treadle::ops::cpu {

using relay::ChannelLayout;

/// The problem of a call of nn.conv2d, with the layouts that activations would have. `out`: the layout of its result,
/// where that isn't left to rules of thumb (plain).
Problem ConvProblem(const relay::CallNode* call, const relay::LayoutArgs& args, const Machine& machine,
                    const ChannelLayout& out = {});

/// What a call of a convolution in NCHW says itself: sizes and dtypes. Left as they are for other ranks.
void SetCallSizes(const relay::CallNode* call, const relay::LayoutArgs& args, ConvProblemNode* problem);
void SetCallSizes(const relay::CallNode* call, const TensorTypeNode* data, const TensorTypeNode* kernel,
                  ConvProblemNode* problem);

/// Sizes of a convolution on blocked data (N, IC/ib, H, W, ib), or plain data, with results (N, OC/ob, OH, OW, ob); all
/// but the kernel's.
void SetBlockedSizes(const Conv2DAttrs* attrs, const Array<PrimExpr>& data, const Array<PrimExpr>& out,
                     ConvProblemNode* problem);

/// Whether OH and OW are fused into one axis: rows are short, or neighbours in one are as far apart as at its end.
bool FusesSpatial(const ConvProblemNode& p);

/// What costs are computed for where a side of the image is dynamic: networks have 56 x 56 pixels of 64 channels, 7 x 7
/// of 512.
int64_t SizeOrUsual(int64_t size, int64_t channels);
/// The convolution of an image whose sides are known, or usual ones for its channels.
ConvProblemNode OfUsualSize(const ConvProblemNode& p);

/// Why a convolution can't run on blocked activations at all; "" where it can.
std::string WhyNotBlocked(const ConvProblemNode& p);

/// The layout of weights in blocks of input (0: not blocked) and output channels, innermost: "OIHW8i16o".
std::string BlockedKernelLayout(int64_t ic_block, int64_t oc_block);
/// The attributes of a convolution with other layouts.
Attrs BlockedAttrs(const Conv2DAttrs* attrs, const ChannelLayout& data, const std::string& kernel,
                   const ChannelLayout& out);

/// The weight (OIHW) with entry i of dimension `axis` at index[i] of `extent`, zeros elsewhere.
runtime::NDArray ScatterChannels(const runtime::NDArray& weight, size_t axis, const std::vector<int64_t>& index,
                                 int64_t extent);
/// The weight with the output channels of `layout`, those that pad blocks zero.
runtime::NDArray PadOutputChannels(const runtime::NDArray& weight, const ChannelLayout& layout);

/// A blocked layout for `channels`, whatever share of the last block only pads.
ChannelLayout BlockedLayout(int64_t channels, int lanes);
/// The layout for `channels` of a convolution whose result has `pixels` (-1: dynamic).
ChannelLayout ConvLayout(int64_t channels, int64_t pixels, int lanes);

/// The layout of the result that a record states for a problem with the usual one (conv_block.cc); nothing without.
std::optional<ChannelLayout> RecordedConvLayout(const Problem& problem, const Machine& machine);

/// Cycles of giving the input another layout: it is loaded and stored. Of static sizes.
double LayoutChangeCycles(const ConvProblemNode& p, const Machine& machine);

/// Cycles of making the padded input of a strip of `rows` rows of outputs, of `channels` channels with elements of
/// `element_bytes` bytes, and of keeping it until it is read. Of static sizes.
double StripCycles(const ConvProblemNode& p, int64_t rows, int64_t channels, int64_t element_bytes,
                   const Machine& machine);
/// Whether a convolution has padding at all.
bool HasPadding(const ConvProblemNode& p);

/// The convolution of an argument in layout `in`. `weight`: OIHW, with the channels that pad blocks.
relay::LaidOutCall BlockedConv(const LayoutRequest& request, const runtime::NDArray& weight, const ChannelLayout& in,
                               const ChannelLayout& out, int64_t groups);
relay::LaidOutCall BlockedConv(const LayoutRequest& request, const relay::Expr& weight, const ChannelLayout& in,
                               const ChannelLayout& out, int64_t groups);
/// The same for channels that aren't in the order of the weight's, or where many only pad blocks. Only outputs of
/// `weight` are padded.
relay::LaidOutCall IndexedConv(const LayoutRequest& request, const runtime::NDArray& weight, const ChannelLayout& in,
                               const ChannelLayout& out, int64_t groups);
/// A pointwise convolution on plain data with all pixels in one row, so that vectors are full; nothing where that
/// doesn't pay.
std::optional<relay::LaidOutCall> FlatPointwiseConv(const LayoutRequest& request);
/// Why FlatPointwiseConv gives nothing, or "".
std::string WhyNotFlatPointwise(const ConvProblemNode& p);

}  // namespace treadle::ops::cpu
