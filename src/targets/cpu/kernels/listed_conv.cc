// SPDX-License-Identifier: Apache-2.0
// 8-bit convolutions by constant weights on AVX2, which has no dot product of bytes: uint8 by int8, exact in int32.
// Each block of 8 output channels has a list of the words of a window that its weights are multiplied by, two words at
// a time (byte_lists.h). With several groups, lists contain only words of their own group.
//
// The image is copied so that the channels of a pixel are contiguous, followed by its complement (listed_window.h). A
// register tile of neighbouring outputs and 8 channels is accumulated over a list, then the tile of the next 8
// channels.
#include <algorithm>

#include "ops/conv.h"
#include "ops/infer.h"
#include "ops/layout.h"
#include "ops/macs.h"
#include "ops/te_util.h"
#include "targets/cpu/kernels/conv_compute.h"
#include "targets/cpu/kernels/conv_layout.h"
#include "targets/cpu/kernels/kernels.h"
#include "targets/cpu/kernels/listed_sums.h"
#include "targets/cpu/kernels/listed_window.h"
#include "targets/cpu/kernels/word_conv.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/make.h"
#include "treadle/relay/constant_operands.h"
#include "treadle/relay/mac_count.h"

namespace treadle::ops::cpu {
namespace {

using te::Tensor;
using te::Var;

constexpr const char* kName = "listed_conv";
constexpr const char* kOp = "qnn.contrib_listed_conv2d_NCHWc";
const DataType kWord = DataType::Int(32), kByte = DataType::UInt(8);

/// The sizes of a call, whose data are plain or in blocks, and whose results are in blocks.
ConvProblemNode SizesOf(const Conv2DAttrs* a, const Array<PrimExpr>& data, const Array<PrimExpr>& out) {
  ConvProblemNode p;
  SetBlockedSizes(a, data, out, &p);
  p.kh = (*a->kernel_size)[0];
  p.kw = (*a->kernel_size)[1];
  return p;
}

ListedWindow WindowOf(const Conv2DAttrs* a, const Array<PrimExpr>& data, const Array<PrimExpr>& out) {
  const ConvProblemNode p = SizesOf(a, data, out);
  return {p, p.ic};
}

/// data (N, IC/ib, H, W, ib) uint8, or plain; weight (blocks, entries, 2, 8) int32; words (blocks, entries + 1, 2)
/// int32, the last of which are the list's length; correction (blocks * 8) int32; what pads hold. Of OC channels there
/// are at least OC / 8 blocks. Result: (N, OC/ob, OH, OW, ob) int32.
Type Infer(const InferContext& context) {
  const auto *weight = context.Tensor(1, "weight"), *words = context.Tensor(2, "words");
  const auto* correction = context.Tensor(3, "correction");
  CheckRank(weight, 4, "weight");
  CheckRank(words, 3, "words");
  CheckRank(correction, 1, "correction");
  if (weight->dtype != kWord || words->dtype != kWord || correction->dtype != kWord) {
    throw DTypeError("needs int32 weights, words and corrections");
  }
  Type result = PackedConvInfer(context, kByte, kWord);
  const Array<PrimExpr>& out = ShapeOf(result);
  const Array<PrimExpr>& data = ShapeOf(context.type(0));
  const int64_t blocks = DimValue(weight->shape[0]);
  const bool blocked = out.size() == 5 && DimValue(out[4]) % kListBlock == 0;
  if (!blocked || DimValue(out[1]) * DimValue(out[4]) > blocks * kListBlock || DimValue(words->shape[0]) != blocks ||
      DimValue(words->shape[1]) != DimValue(weight->shape[1]) + 1 || DimValue(weight->shape[2]) != kListWords ||
      DimValue(words->shape[2]) != kListWords || DimValue(weight->shape[3]) != kListBlock ||
      DimValue(correction->shape[0]) != blocks * kListBlock) {
    throw ShapeError("results, weights, words and corrections don't fit");
  }
  if (!SizesOf(context.attrs<Conv2DAttrs>(), data, out).is_static()) throw ShapeError("the image's size is dynamic");
  return result;
}

/// The copy of the image: (N, bytes of all forms).
Tensor CopyImage(const ListedWindow& w, const Tensor& data, const PrimExpr& pad) {
  return te::ComputeStage(
      {data->shape[0], Index(w.forms() * w.image())},
      [&](const Array<PrimExpr>& i) {
        const PrimExpr at = tir::floormod(i[1], Index(w.image())), form = tir::floordiv(i[1], Index(w.image()));
        const PrimExpr channel = tir::floormod(at, Index(w.channels)), pixel = tir::floordiv(at, Index(w.channels));
        const PrimExpr y = tir::floordiv(pixel, Index(w.wide)) * Index(w.picked_h) - w.pad_t;
        const PrimExpr x = tir::floormod(pixel, Index(w.wide)) * Index(w.picked_w) - w.pad_l;
        const bool plain = data.ndim() == 4;
        const PrimExpr height = data->shape[2], width = data->shape[3];
        PrimExpr byte;
        if (plain) {
          byte = data(i[0], channel, y, x);
        } else {
          const PrimExpr block = data->shape[4];
          byte = data(i[0], tir::floordiv(channel, block), y, x, tir::floormod(channel, block));
        }
        if (!w.pointwise) {
          byte = tir::if_then_else(y >= 0 && y < height && x >= 0 && x < width, byte, pad);
        }
        const PrimExpr turned = tir::cast(kByte, form * tir::floormod(at, Index(2)) * Index(255));
        return tir::bitwise_xor(byte, turned);
      },
      "rows", StageAttrs(kName, "rows"));
}

class ListedConvProblemNode : public schedule::ProblemNode {
 public:
  int64_t batch = 1, rows = 0, width = 0, n = 0, entries = 0, oc_block = 8, groups = 1, bytes = 0;
  int64_t forms = 1, image_rows = 1, image_columns = 1, channels = 1, ic_block = 0;
  TREADLE_NODE(ListedConvProblemNode, schedule::ProblemNode, "schedule.ListedConvProblem")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("batch", &ListedConvProblemNode::batch).Doc("-1: dynamic");
    r.Field("rows", &ListedConvProblemNode::rows).Doc("of results; 1 where all pixels are one");
    r.Field("width", &ListedConvProblemNode::width).Doc("results of a row");
    r.Field("n", &ListedConvProblemNode::n).Doc("channels of the result, with those that fill blocks");
    r.Field("entries", &ListedConvProblemNode::entries).Doc("of a list, two words each");
    r.Field("oc_block", &ListedConvProblemNode::oc_block).Doc("channels of a block of the result");
    r.Field("groups", &ListedConvProblemNode::groups);
    r.Field("bytes", &ListedConvProblemNode::bytes).Doc("that a list reads for a result, in rows of its window");
    r.Field("forms", &ListedConvProblemNode::forms).Doc("of the image's copy: 2 with complements");
    r.Field("image_rows", &ListedConvProblemNode::image_rows).Doc("of the copy");
    r.Field("image_columns", &ListedConvProblemNode::image_columns).Doc("of the copy");
    r.Field("channels", &ListedConvProblemNode::channels).Doc("bytes of a pixel of the copy");
    r.Field("ic_block", &ListedConvProblemNode::ic_block).Doc("channels of a block of the data; 0: plain");
  }
};

Problem ProblemOf(const ConvProblemNode& p, const ListedWindow& w, const Tensor& weight) {
  return Make<Problem, ListedConvProblemNode>([&](auto& problem) {
    problem.batch = p.batch;
    problem.rows = w.pointwise ? 1 : w.oh;
    problem.width = w.pointwise ? w.oh * w.ow : w.ow;
    problem.n = p.oc;
    problem.entries = DimValue(weight->shape[1]);
    problem.oc_block = p.oc_block;
    problem.groups = p.groups;
    problem.bytes = w.forms() * w.channels / p.groups * w.kh * w.stride_w;
    problem.forms = w.forms();
    problem.image_rows = w.high;
    problem.image_columns = w.wide;
    problem.channels = w.channels;
    problem.ic_block = p.ic_block;
  });
}

Array<Tensor> Compute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<Conv2DAttrs>();
  const TensorTypeNode* type = OutTensor(out_type);
  const Tensor &weight = inputs[1], &words = inputs[2], &correction = inputs[3];
  const ConvProblemNode p = SizesOf(a, inputs[0]->shape, type->shape);
  const ListedWindow w(p, p.ic);
  const Tensor image = CopyImage(w, inputs[0], inputs[4](Array<PrimExpr>{}));
  te::IterVar entry = te::ReduceAxis(tir::Range(weight->shape[1]), "entry");
  auto sum = [&](const PrimExpr& n, const PrimExpr& oc, const PrimExpr& start, const PrimExpr& lane) {
    const PrimExpr block = oc * Index(p.oc_block / kListBlock) + tir::floordiv(lane, Index(kListBlock));
    auto byte = [&](const PrimExpr& offset) { return image(n, start + offset); };
    const ListedOperands operands{weight, words, 1, entry, start.dtype()};
    return te::Sum(ListedTerm(operands, block, tir::floormod(lane, Index(kListBlock)), byte), {entry});
  };
  const Map<String, ObjectRef> anchor = AnchorAttrs(kName, "sum", ProblemOf(p, w, weight));
  auto corrected = [&](const PrimExpr& value, const Array<Var>& i) {
    return value + correction(PrimExpr(i[1]) * Index(p.oc_block) + i[4]);
  };
  const PrimExpr width = type->shape[3];
  const Array<PrimExpr>& shape = type->shape;
  if (!w.pointwise) {
    const Tensor sums =
        te::Compute(shape, [&](const Array<Var>& i) { return sum(i[0], i[1], w.Start(i[2], i[3]), i[4]); },
                    "listed_conv", "listed_conv", anchor, {"n", "oc", "oh", "ow", "oci"});
    return {te::Compute(shape, [&](const Array<Var>& i) { return corrected(sums(Indices(i)), i); },
                        "listed_conv_result", tag::kInjective, {}, {"n", "oc", "oh", "ow", "oci"})};
  }
  const Tensor flat =
      te::Compute({shape[0], shape[1], shape[2] * width, shape[4]},
                  [&](const Array<Var>& i) { return sum(i[0], i[1], PrimExpr(i[2]) * Index(w.channels), i[3]); },
                  "listed_conv", "listed_conv", anchor, {"n", "oc", "pixel", "oci"});
  return {te::Compute(shape,
                      [&](const Array<Var>& i) {
                        return corrected(flat(Array<PrimExpr>{i[0], i[1], PrimExpr(i[2]) * width + i[3], i[4]}), i);
                      },
                      "listed_conv_result", tag::kInjective, {}, {"n", "oc", "oh", "ow", "oci"})};
}

/// Of each block the bytes of a window at which words begin, then how many entries there are, twice.
void CheckLists(const relay::CallNode* call) {
  const ListedWindow w =
      WindowOf(call->attrs_as<Conv2DAttrs>(), ShapeOf(call->args[0]->checked_type_), ShapeOf(call->checked_type_));
  const int64_t entries = DimValue(ShapeOf(call->args[1]->checked_type_)[1]), list = (entries + 1) * kListWords;
  const int64_t last = ((w.oh - 1) * w.stride_h * w.wide + (w.ow - 1) * w.stride_w) * w.channels;
  const int64_t starts = w.forms() * w.image() - last - kListBytes + 1;
  relay::CheckConstantOperand(call, 2, "words",
                              [=](int64_t i) { return i % list >= entries * kListWords ? entries + 1 : starts; });
}

ListedSizes SizesOf(const Problem& problem) {
  const auto& p = *problem.as<ListedConvProblemNode>();
  return {std::max<int64_t>(1, p.batch) * p.rows, p.width, p.n, p.entries, p.bytes};
}

// ---- The schedule ----

/// The copy, a block of a pixel at a time.
void CopyRows(Schedule& sch, const BlockRV& copy, const ListedConvProblemNode& p) {
  const double work = Work(sch, copy);
  std::vector<LoopRV> loops = sch.GetLoops(copy);
  const int64_t vector = std::max<int64_t>(1, p.ic_block);
  std::vector<LoopRV> parts =
      sch.Split(loops.back(), {PrimExpr(p.forms), PrimExpr(p.image_rows), PrimExpr(p.image_columns),
                               PrimExpr(p.channels / vector), PrimExpr(vector)});
  if (p.ic_block > 0) {
    // Of a row of pixels block by block, as they lie in the data; both forms of what is loaded once.
    sch.Reorder({parts[1], parts[3], parts[2], parts[0], parts[4]});
    sch.Vectorize(parts[4]);
    sch.Unroll(parts[0]);
  }
  std::vector<LoopRV> outer(loops.begin(), loops.end() - 1);
  outer.push_back(p.ic_block > 0 ? parts[1] : parts[0]);
  if (p.ic_block > 0) outer.push_back(parts[3]);
  FuseParallel(sch, outer, work);
}

void Apply(Schedule& sch, Stages& stages, const Problem& problem, const Machine&, const Plan& chosen) {
  const auto& p = *problem.as<ListedConvProblemNode>();
  const auto& plan = *chosen.as<ListedPlanNode>();
  const BlockRV& product = stages.anchor();
  const double work = Work(sch, product) * static_cast<double>(kListBytes * kListWords);
  CopyRows(sch, stages.At("rows"), p);
  std::vector<LoopRV> out = sch.GetLoops(OutputOf(sch, stages, true));
  TREADLE_ICHECK(out.size() == 5) << "blocked outputs have five loops";
  const size_t rank = sch.Get(product)->writes[0]->buffer->shape.size();
  const LoopRV row = rank == 4 ? sch.Fuse({out[2], out[3]}) : out[3];
  std::vector<LoopRV> rows = sch.Split(row, {kRest, PrimExpr(plan.mc_tiles), PrimExpr(plan.mr)});
  // Lists pass rows that stay in the L1 cache. Those of a group read little of the image: rows pass them.
  std::vector<LoopRV> outer{out[0]};
  if (p.groups > 1) outer.push_back(out[1]);
  if (rank != 4) outer.push_back(out[2]);
  outer.push_back(rows[0]);
  if (p.groups == 1) outer.push_back(out[1]);
  std::vector<LoopRV> order = outer;
  order.insert(order.end(), {rows[1], rows[2], out[4]});
  sch.Reorder(order);
  if (p.oc_block == kListBlock || !ComputeLists(sch, product, rows[1], rows[2], rank)) {
    ComputeTileOfRows(sch, product, rows[1], rows[2], {static_cast<int>(rank) - 2}, static_cast<int>(rank) - 1);
  }
  MarkLists(sch, product, p.entries);
  sch.Vectorize(out[4]);
  FuseParallel(sch, outer, work);
}

// ---- The graph ----

std::string WhyNot(const Problem& problem, const Machine& machine) {
  const auto& p = *problem.as<ConvProblemNode>();
  if (!p.not_blocked.empty()) return p.not_blocked;
  if (p.dtype != kByte || p.weight_dtype != DataType::Int(8)) return "operands aren't uint8 and int8";
  if (!HasByteLists(machine) || machine.byte_tile_cycles > 0) return "the machine has other products of bytes";
  return ListsOfConv(p, p.weight, machine.vector_lanes(32)) != nullptr
             ? ""
             : "too few of the weights fit sums of 16 bits together";
}

std::optional<relay::LaidOutCall> Rewrite(const LayoutRequest& request, const Problem& problem, const Plan&) {
  const auto& p = *problem.as<ConvProblemNode>();
  const auto* call = request.call;
  const int lanes = request.args.lanes();
  const std::shared_ptr<const ByteLists> lists = ListsOfConv(p, p.weight, lanes);
  if (lists == nullptr) return std::nullopt;
  ChannelLayout in;
  if (!HasContiguousWindow(p)) in = p.in_layout.is_blocked() ? p.in_layout : BlockedLayout(p.ic, lanes);
  const ChannelLayout out = BlockedLayout(p.oc, lanes);
  const ListedWindow window(p, in.is_blocked() ? in.PaddedChannels(p.ic) : p.ic);
  runtime::NDArray words = runtime::NDArray::Empty(lists->words.shape(), kWord);
  const auto* from = lists->words.Data<int32_t>();
  auto* to = words.Data<int32_t>();
  const int64_t list = (lists->entries() + 1) * kListWords;
  for (int64_t i = 0; i < words.size(); ++i) {
    const bool length = i % list >= lists->entries() * kListWords;
    const int64_t form = from[i] / lists->quads, word = from[i] % lists->quads;
    to[i] = length ? from[i] : static_cast<int32_t>(window.Offset(word) + form * window.image());
  }
  const Attrs attrs =
      WordConvAttrs(call->attrs.as<Conv2DAttrs>(), p.weight, in, out, out.PaddedChannels(p.oc), p.groups, kWord);
  const Array<relay::Expr> operands{request.args.Get(0, in), relay::Constant(lists->weight), relay::Constant(words),
                                    relay::Constant(lists->correction), request.args.Plain(2)};
  return relay::LaidOutCall{relay::Call(Op::Get(kOp), operands, attrs, {}, call->span), out};
}

}  // namespace

void RegisterListedConv() {
  OpRegistration(kOp)
      .Describe("Convolution of bytes with lists of the words of a window that weights meet, in int32.")
      .Arguments({{"data", "Tensor", "uint8, in data_layout"},
                  {"weight", "Tensor", "(OC / 8, entries, 2, 8) words of four int8"},
                  {"words", "Tensor",
                   "(OC / 8, entries + 1, 2) int32: the bytes of a window's copy at which words begin; the list's "
                   "length"},
                  {"correction", "Tensor", "int32 that are added to the sums"},
                  {"pad_value", "Tensor", "uint8 scalar"}})
      .AttrsType<Conv2DAttrs>()
      .SupportLevel(11)
      .Relation(Rule<Infer>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable)
      .Set(relay::kMacCount, relay::FMacCount(PackedConvMacs))
      .Set(relay::kCheckConstants, relay::FCheckConstants(CheckLists))
      .Set(kCompute, FTECompute(Compute));
  ListedConvProblemNode::StaticTypeInfo();
  RegisterListedLoops(kName, kOp, SizesOf, Apply);
  Kernel kernel;
  kernel.name = "qnn_conv2d.listed";
  kernel.op = "qnn.contrib_conv2d";
  kernel.target = "cpu";
  kernel.level = schedule::kDefaultLevel + 1;
  kernel.why_not = WhyNot;
  kernel.rewrite = Rewrite;
  schedule::RegisterKernel(std::move(kernel));
}

}  // namespace treadle::ops::cpu
