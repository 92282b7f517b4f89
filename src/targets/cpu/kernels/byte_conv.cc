// SPDX-License-Identifier: Apache-2.0
// qnn.contrib_conv2d: 8-bit convolutions on channel-blocked activations (NCHW16c), direct and depthwise, uint8 by int8
// in int32. A word of four neighbouring channels, or of two that were widened to int16, takes the place of a float
// (words.h), so that the computations and their schedules are those of float32 (direct_conv.cc, depthwise_conv.cc).
#include <algorithm>
#include <vector>

#include "ops/infer.h"
#include "ops/qnn.h"
#include "ops/te_util.h"
#include "targets/cpu/kernels/conv_compute.h"
#include "targets/cpu/kernels/conv_layout.h"
#include "targets/cpu/kernels/problems.h"
#include "targets/cpu/kernels/word_conv.h"
#include "targets/cpu/kernels/words.h"
#include "treadle/base/int_math.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/make.h"
#include "treadle/relay/mac_count.h"

namespace treadle::ops::cpu {
namespace {

using relay::CallNode;
using relay::ConstantNode;
using relay::Expr;
using relay::LaidOutCall;
using relay::LayoutArgs;
using te::Var;

constexpr int64_t kBytes = 4;
const DataType kSum = DataType::Int(32), kShort = DataType::Int(16);

/// Data are uint8, or int16 where they were widened.
DataType DataTypeOf(const InferContext& context) {
  return context.Tensor(0, "data")->dtype == kShort ? kShort : DataType::UInt(8);
}

/// What pads hold is read as one of the data.
void CheckPadValue(const InferContext& context) {
  const auto* value = context.Tensor(2, "pad_value");
  CheckRank(value, 0, "pad_value");
  CheckSameDType(context.Tensor(0, "data"), value);
}

Type ByteConvInfer(const InferContext& context) {
  CheckPadValue(context);
  const DataType dtype = DataTypeOf(context);
  return WordConvInfer(context, dtype, PerWord(dtype), kSum);
}

/// data (N, IC/ib, H, W, ib); weight (OC/ob, IC/groups/ib, KH, KW, ib/4 or ib/2, ob) words of input channels; what
/// pads hold. Result: (N, OC/ob, OH, OW, ob) int32.
Array<Tensor> ByteConvCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<Conv2DAttrs>();
  const TensorTypeNode* type = OutTensor(out_type);
  const Tensor& kernel = inputs[1];
  Tensor data = PadSpatial(inputs[0], NormalizePadding(a->padding, 2), kDirectConv, inputs[2](Array<PrimExpr>{}));
  const Problem problem = WordConvProblem(a, inputs[0], kernel, type);
  const ConvReduceAxes axes(a, kernel);
  auto term = [&](const Tensor& from, const PrimExpr& n, const PrimExpr& oc, const PrimExpr& row,
                  const PrimExpr& column, const PrimExpr& lane) {
    const DataType dtype = from->dtype;
    const PrimExpr word = MakeWord(dtype, [&](int64_t i) {
      return from(n, axes.InputBlock(oc), row, column, PrimExpr(axes.ii->var) * Index(PerWord(dtype)) + Index(i));
    });
    return DotOfWords(dtype, word, axes.Weight(kernel, oc, lane));
  };
  return DirectConvSums(problem, a, data, kernel, type, axes, term);
}

/// Of padded data the words of rows 2 i and 2 i + 1, in int16. (N, C/b, rows, W + pads, b) int32.
Tensor PairRows(const Tensor& data, const PrimExpr& rows, const std::vector<int64_t>& pads, const PrimExpr& pad) {
  const PrimExpr height = data->shape[2], width = data->shape[3];
  auto half = [&](const Array<Var>& i, int64_t below) {
    const PrimExpr y = PrimExpr(i[2]) * Index(2) + (below - pads[0]), x = PrimExpr(i[3]) - pads[1];
    PrimExpr inside = y < height;
    if (pads[0] > 0) inside = y >= 0 && inside;
    if (pads[1] + pads[3] > 0) inside = inside && x >= 0 && x < width;
    return tir::cast(kShort, tir::if_then_else(inside, data(i[0], i[1], y, x, i[4]), pad));
  };
  return te::Compute(
      {data->shape[0], data->shape[1], rows, width + (pads[1] + pads[3]), data->shape[4]},
      [&](const Array<Var>& i) { return tir::pack_shorts(half(i, 0), half(i, 1)); }, "pad", tag::kPad,
      StageAttrs(kDepthwiseConv, "pad"));
}

/// Whether weights of windows of `kh` rows are words of two rows.
bool IsOfRows(const Array<PrimExpr>& kernel, int64_t kh) {
  return DimValue(kernel[1]) != 1 || DimValue(kernel[2]) != kh;
}

Type ByteDepthwiseInfer(const InferContext& context) {
  constexpr size_t kRank = 5;
  CheckPadValue(context);
  const auto* weight = context.Tensor(1, "weight");
  CheckRank(weight, kRank, "weight");
  const DataType dtype = DataTypeOf(context);
  Type result = PackedConvInfer(context, dtype, kSum);
  const auto* a = context.attrs<Conv2DAttrs>();
  const Array<PrimExpr>&data = context.Tensor(0, "data")->shape, &out = result.as<TensorTypeNode>()->shape;
  const bool blocked = data.size() == kRank && out.size() == kRank && DimValue(data[1]) == DimValue(out[1]) &&
                       DimValue(data[4]) == DimValue(out[4]) && DimValue(data[1]) > 0;
  if (!blocked || DimValue(data[1]) * DimValue(data[4]) != a->groups) {
    throw ShapeError(StrCat("data and result must have the same blocks of known channels, one in each group, not ",
                            ShapeText(data), " and ", ShapeText(out), " in ", a->groups, " groups"));
  }
  const int64_t kh = (*a->kernel_size)[0], kw = (*a->kernel_size)[1];
  if (!IsOfRows(weight->shape, kh)) {
    if (dtype == kShort) throw DTypeError("words of columns are of uint8, not of int16");
    CheckWords(weight->shape, weight->dtype, {out[1], Index(1), Index(kh), Index(CeilDiv(kw, kBytes)), out[4]});
    return result;
  }
  const int64_t starts = a->strides[0] % 2 == 0 ? 1 : 2;
  if (a->dilation[0] != 1) throw ShapeError("words of two rows need windows of neighbouring rows");
  CheckWords(weight->shape, weight->dtype,
             {out[1], Index(starts), Index(CeilDiv(kh + starts - 1, 2)), Index(kw), out[4]});
  return result;
}

/// data (N, C/b, H, W, b) uint8; weight (C/b, 1, KH, ceil(KW / 4), b) words of four taps along W, 0 beyond KW, or
/// (C/b, P, ceil((KH + P - 1) / 2), KW, b) of two int16 along H; what pads hold. Result: (N, C/b, OH, OW, b) int32. One
/// element of four neighbouring columns, which lie next to each other in memory, makes a word of each channel. Words of
/// rows are made with the padding, of an even row and the next: there are weights for windows that begin in even rows
/// and, P = 2, for those that begin in odd ones.
Array<Tensor> ByteDepthwiseCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<Conv2DAttrs>();
  const Tensor& kernel = inputs[1];
  const TensorTypeNode* type = OutTensor(out_type);
  std::vector<int64_t> pads = NormalizePadding(a->padding, 2);
  const PrimExpr pad = inputs[2](Array<PrimExpr>{});
  const bool of_rows = IsOfRows(kernel->shape, (*a->kernel_size)[0]);
  // Columns that the last word of a row reads beyond the window.
  if (!of_rows) pads[3] += (DimValue(kernel->shape[3]) * kBytes - (*a->kernel_size)[1]) * a->dilation[1];
  auto pair_of = [&](const PrimExpr& oh) { return tir::floordiv(oh * a->strides[0], Index(2)); };
  const Tensor data = of_rows ? PairRows(inputs[0], pair_of(type->shape[2] - 1) + kernel->shape[2], pads, pad)
                              : PadSpatial(inputs[0], pads, kDepthwiseConv, pad);
  const Problem problem = WordConvProblem(a, inputs[0], kernel, type);
  te::IterVar kh = te::ReduceAxis(tir::Range(kernel->shape[2]), "kh");
  te::IterVar kw = te::ReduceAxis(tir::Range(kernel->shape[3]), "kw");
  const bool starts_differ = DimValue(kernel->shape[1]) > 1;
  return {te::Compute(type->shape,
                      [&](const Array<Var>& i) {
                        auto element = [&](const PrimExpr& row, const PrimExpr& column) {
                          return data(i[0], i[1], row, PrimExpr(i[3]) * a->strides[1] + column * a->dilation[1], i[4]);
                        };
                        if (of_rows) {
                          const PrimExpr start = starts_differ ? tir::floormod(i[2], Index(2)) : Index(0);
                          return te::Sum(tir::dot_shorts(element(pair_of(i[2]) + kh->var, kw->var),
                                                         kernel(i[1], start, kh->var, kw->var, i[4])),
                                         {kh, kw});
                        }
                        const PrimExpr row = PrimExpr(i[2]) * a->strides[0] + PrimExpr(kh->var) * a->dilation[0];
                        const PrimExpr word = MakeWord(DataType::UInt(8), [&](int64_t tap) {
                          return element(row, PrimExpr(kw->var) * Index(kBytes) + Index(tap));
                        });
                        return te::Sum(tir::dot_bytes(word, kernel(i[1], Index(0), kh->var, kw->var, i[4])), {kh, kw});
                      },
                      "depthwise_conv2d_NCHWc", "depthwise_conv2d_NCHWc", AnchorAttrs(kDepthwiseConv, "sum", problem),
                      {"n", "c", "oh", "ow", "ci"})};
}

// ---- Weights in words ----

runtime::NDArray PackedWeight(const runtime::NDArray& weight, int64_t in_block, int64_t out_block, int64_t groups,
                              int64_t merged) {
  return weight.dtype().bits() == 8 ? PackedConvWords<int8_t>(weight, in_block, out_block, groups, merged)
                                    : PackedConvWords<int16_t>(weight, in_block, out_block, groups, merged);
}

LaidOutCall Blocked(const char* op, const CallNode* call, const Expr& data, const runtime::NDArray& weight,
                    const Attrs& attrs, LayoutArgs& args, const ChannelLayout& out) {
  Array<Expr> operands{data, relay::Constant(weight), args.Plain(2)};
  return LaidOutCall{relay::Call(Op::Get(op), operands, attrs, {}, call->span), out};
}

/// Taps of one channel in words of two rows, for windows that begin in even rows and, where `starts` is 2, in odd ones.
runtime::NDArray RowPairs(const runtime::NDArray& weight, int64_t block, int64_t padded, int64_t starts) {
  const int64_t channels = weight.shape()[0], rows = weight.shape()[2], columns = weight.shape()[3];
  const int64_t high = (rows + starts) / 2;
  runtime::NDArray packed = runtime::NDArray::Empty({padded / block, starts, high, columns, block}, DataType::Int(32));
  std::fill_n(packed.Data<int32_t>(), packed.size(), 0);
  auto* to = packed.Data<int16_t>();
  for (int64_t start = 0; start < starts; ++start) {
    const auto* from = weight.Data<int8_t>();
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t tap = 0; tap < rows * columns; ++tap) {
        const int64_t row = start + tap / columns;
        const int64_t word = ((c / block * starts + start) * high + row / 2) * columns + tap % columns;
        to[(word * block + c % block) * 2 + row % 2] = *from++;
      }
    }
  }
  return packed;
}

/// Taps of one channel in words of four columns.
runtime::NDArray ColumnQuads(const runtime::NDArray& weight, int64_t block, int64_t padded) {
  const int64_t channels = weight.shape()[0], rows = weight.shape()[2], columns = weight.shape()[3];
  const int64_t wide = CeilDiv(columns, kBytes);
  runtime::NDArray packed = runtime::NDArray::Empty({padded / block, 1, rows, wide, block}, DataType::Int(32));
  std::fill_n(packed.Data<int32_t>(), packed.size(), 0);
  auto* to = packed.Data<int8_t>();
  const auto* from = weight.Data<int8_t>();
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t tap = 0; tap < rows * columns; ++tap) {
      const int64_t column = tap % columns;
      const int64_t word = (c / block * rows + tap / columns) * wide + column / kBytes;
      to[(word * block + c % block) * kBytes + column % kBytes] = *from++;
    }
  }
  return packed;
}

LaidOutCall DepthwiseConv(const CallNode* call, const Conv2DAttrs* a, LayoutArgs& args, const runtime::NDArray& weight,
                          const ChannelLayout& layout, bool of_rows) {
  const int64_t padded = layout.PaddedChannels(weight.shape()[0]);
  const runtime::NDArray packed = of_rows ? RowPairs(weight, layout.block, padded, a->strides[0] % 2 == 0 ? 1 : 2)
                                          : ColumnQuads(weight, layout.block, padded);
  return Blocked("qnn.contrib_depthwise_conv2d_NCHWc", call, args.Get(0, layout), packed,
                 WordConvAttrs(a, weight, layout, layout, padded, padded, kSum), args, layout);
}

// ---- Kernels ----

std::string WhyNotWords(const CallNode* call, const LayoutArgs& args) {
  const auto* a = call->attrs.as<Conv2DAttrs>();
  const auto *data = args.Type(0), *kernel = args.Type(1);
  const auto* constant = call->args[1].as<ConstantNode>();
  if (a == nullptr || !a->IsIn("NCHW", "OIHW") || data->shape.size() != 4) return "the layouts aren't NCHW and OIHW";
  if (constant == nullptr || !constant->data.IsCompact()) return "the weight isn't constant";
  if (DimValue(data->shape[1]) < 1) return "the number of channels is dynamic";
  if (!HasWords(data->dtype, kernel->dtype)) {
    return StrCat("no words of ", data->dtype, " data and ", kernel->dtype, " weights");
  }
  return "";
}

/// Whether int16 `e` were uint8.
bool IsWidened(const Expr& e) {
  const auto* cast = e.as<CallNode>();
  const auto* op = cast == nullptr ? nullptr : cast->op.as<OpNode>();
  if (op == nullptr || op->name != "cast") return false;
  const auto* from = cast->args[0]->type_as<TensorTypeNode>();
  return from != nullptr && from->dtype == DataType::UInt(8);
}

/// Bytes whose windows are of one channel; wider integers take the way of groups.
bool IsByteDepthwise(const ConvProblemNode& p) { return p.is_depthwise() && p.dtype == DataType::UInt(8); }

std::string WhyNotConv(const Problem& problem, const Machine& machine) {
  const auto& p = *problem.as<ConvProblemNode>();
  if (!p.not_blocked.empty()) return p.not_blocked;
  if (IsByteDepthwise(p)) return "one channel in each group";
  return WhyNotGroups(p, machine);
}

std::string WhyNotDepthwise(const Problem& problem, const Machine&) {
  const auto& p = *problem.as<ConvProblemNode>();
  if (!p.not_blocked.empty()) return p.not_blocked;
  if (!p.is_depthwise()) return "not one channel in each group";
  return IsByteDepthwise(p) ? "" : StrCat("the data are ", p.dtype, ", not uint8");
}

std::vector<Plan> ConvSpace(const Problem& problem, const Machine& machine) {
  const auto& p = *problem.as<ConvProblemNode>();
  return WordConvSpace(p, kBytes, machine);
}

std::vector<Plan> DepthwiseSpace(const Problem& problem, const Machine& machine) {
  const auto& p = *problem.as<ConvProblemNode>();
  std::vector<Plan> plans;
  // Without products of bytes words of two rows are made with the padding, for all windows that read them.
  const bool of_rows = !machine.vnni && p.kh > 1 && p.dilation_h == 1;
  for (const int64_t block : BlocksOf(p.oc)) plans.push_back(MakeWordConvPlan(1, block, block, of_rows));
  const int64_t usual =
      p.in_layout.is_blocked() ? p.in_layout.block : BlockedLayout(p.oc, machine.vector_lanes(32)).block;
  return WithUsual(MakeWordConvPlan(1, usual, usual, of_rows), std::move(plans));
}

std::string WhyNotConvPlan(const Problem& problem, const Machine&, const Plan& chosen) {
  return WhyNotWordConvPlan(*problem.as<ConvProblemNode>(), kBytes, chosen);
}

std::string WhyNotDepthwisePlan(const Problem& problem, const Machine&, const Plan& chosen) {
  const auto& plan = *chosen.as<WordConvPlanNode>();
  const auto& p = *problem.as<ConvProblemNode>();
  if (plan.of_rows && p.kh < 2) return "the window has one row";
  if (plan.of_rows && p.dilation_h > 1) return "taps aren't in neighbouring rows";
  const bool fits = plan.merged == 1 && plan.ic_block == plan.oc_block && (plan.oc_block == 8 || plan.oc_block == 16);
  return fits ? "" : "the blocks of the input are those of the result, of 8 or 16 channels";
}

std::optional<LaidOutCall> RewriteConv(const LayoutRequest& request, const Problem& problem, const Plan& chosen) {
  const auto& p = *problem.as<ConvProblemNode>();
  const auto& plan = *chosen.as<WordConvPlanNode>();
  const auto* call = request.call;
  const runtime::NDArray& weight = call->args[1].as<ConstantNode>()->data;
  const ChannelLayout in{plan.ic_block}, out{plan.oc_block};
  const int64_t groups = p.groups / plan.merged;
  const Expr data = in.block < kLeastBlocked ? ChannelsAsWords(request.args.Plain(0), p.ic, in.block, p.dtype)
                                             : request.args.Get(0, in);
  const Attrs attrs =
      WordConvAttrs(call->attrs.as<Conv2DAttrs>(), weight, in, out, out.PaddedChannels(p.oc), groups, kSum);
  return Blocked("qnn.contrib_conv2d_NCHWc", call, data, PackedWeight(weight, in.block, out.block, groups, plan.merged),
                 attrs, request.args, out);
}

std::optional<LaidOutCall> RewriteDepthwise(const LayoutRequest& request, const Problem&, const Plan& chosen) {
  const auto* call = request.call;
  const auto& plan = *chosen.as<WordConvPlanNode>();
  return DepthwiseConv(call, call->attrs.as<Conv2DAttrs>(), request.args, call->args[1].as<ConstantNode>()->data,
                       ChannelLayout{plan.oc_block}, plan.of_rows);
}

void RegisterKernelsOfBytes() {
  Kernel conv = WordConvKernel("qnn_conv2d.direct", "qnn.contrib_conv2d", kDirectConv);
  conv.why_not = WhyNotConv;
  conv.space = ConvSpace;
  conv.why_not_plan = WhyNotConvPlan;
  conv.rewrite = RewriteConv;
  schedule::RegisterKernel(std::move(conv));
  Kernel depthwise = WordConvKernel("qnn_conv2d.depthwise", "qnn.contrib_conv2d", kDepthwiseConv);
  depthwise.graph_fields.push_back("of_rows");
  depthwise.why_not = WhyNotDepthwise;
  depthwise.space = DepthwiseSpace;
  depthwise.why_not_plan = WhyNotDepthwisePlan;
  depthwise.rewrite = RewriteDepthwise;
  schedule::RegisterKernel(std::move(depthwise));
  Kernel plain;
  plain.name = "qnn_conv2d.plain";  // stays as the operator computes it
  plain.op = "qnn.contrib_conv2d";
  plain.target = "cpu";
  plain.level = schedule::kPlainLevel;
  schedule::RegisterKernel(std::move(plain));
}

template <Type (*kInfer)(const InferContext&)>
void RegisterByteOp(const char* name, const char* doc, const char* weight, FTECompute compute) {
  OpRegistration(name)
      .Describe(doc)
      .Arguments({{"data", "Tensor", "uint8 or int16, in data_layout"},
                  {"weight", "Tensor", weight},
                  {"pad_value", "Tensor", "Scalar of the data's type"}})
      .AttrsType<Conv2DAttrs>()
      .SupportLevel(11)
      .Relation(Rule<kInfer>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable)
      .Set(relay::kMacCount, relay::FMacCount(PackedConvMacs))
      .Set(kCompute, std::move(compute));
}

}  // namespace

Problem ByteConvProblem(const CallNode* call, const LayoutArgs& args) {
  return Make<Problem, ConvProblemNode>([&](auto& p) {
    p.not_blocked = WhyNotWords(call, args);
    SetCallSizes(call, args, &p);
    p.in_layout = args.LayoutOf(0);
    if (!p.in_layout.is_in_order()) p.in_layout = {};
    p.of_bytes = IsWidened(call->args[0]);
    if (p.not_blocked.empty()) p.weight = call->args[1].as<ConstantNode>()->data;
  });
}

void RegisterByteConv() {
  RegisterByteOp<ByteConvInfer>(
      "qnn.contrib_conv2d_NCHWc", "Convolution of channel-blocked bytes, in int32.",
      "(OC/ob, IC/groups/ib, KH, KW, ib/4, ob) words of four int8, or twice as many of two int16",
      FTECompute(ByteConvCompute));
  RegisterByteOp<ByteDepthwiseInfer>(
      "qnn.contrib_depthwise_conv2d_NCHWc", "Convolution of each channel of blocked bytes, in int32.",
      "(C/b, 1, KH, ceil(KW / 4), b) words of four int8 or (C/b, P, ceil((KH + P - 1) / 2), KW, b) of two "
      "int16 for windows that begin in even and, P = 2, in odd rows",
      FTECompute(ByteDepthwiseCompute));
  RegisterKernelsOfBytes();
}

}  // namespace treadle::ops::cpu
