// SPDX-License-Identifier: Apache-2.0
// Convolutions of channel-blocked activations on AMX tile registers: uint8 by int8 in int32, bfloat16 in float32.
//
// The input of a strip of output rows is first copied and padded, as (lines, pixels, 64 bytes): a line has 64 bytes of
// a pixel's channels, the k of a tile, and the rows of a tile are neighbouring pixels. With stride 1 a tap of the
// kernel multiplies the same lines from a later pixel on, so nothing is copied twice: outputs are computed as if rows
// were as wide as those of the padded input, and the outputs between rows are dropped. With other strides, and if a
// pixel's channels fill too little of a line, lines contain the elements of all taps of a window (im2col); with few
// channels (first layers), of the taps of one kernel row, whose pixels are contiguous. Of long rows these aren't
// copied: the rows of a tile are read from the padded input, each from a pixel further on, so that they overlap.
//
// As many groups become one as have the fewest products of tiles; weights between the channels of different ones are
// zeros. Where groups still don't end with blocks of channels, a line has channels of one alone, and each has panels of
// its own, the last of which isn't full: the results of several groups, the last of which ends with a block, are
// joined. Of groups of 24 bfloat16, in blocks of 16 (pieces of 8 channels are what a block and a group have in common):
//
//   blocks of the input  [ 0 .. 15 ][16 .. 31 ][32 .. 47 ]
//   lines                [ 0 .. 23, 8 zeros ][24 .. 47, 8 zeros ]
//   panels               [ 0 .. 15 ][16 .. 23, -][24 .. 39 ][40 .. 47, -]
//   blocks of the result [ 0 .. 15 ][16 .. 31 ][32 .. 47 ]     of two joined groups
//
// Of images whose size only the run knows, strips have lines of their own, in which taps along H lie, too, so that
// nothing but the number of pixels depends on the size. A strip's pixels are computed in chunks, the last of which has
// the rows that are left.
#include <algorithm>
#include <functional>
#include <numeric>

#include "ops/infer.h"
#include "ops/te_util.h"
#include "targets/cpu/kernels/conv_compute.h"
#include "targets/cpu/kernels/conv_layout.h"
#include "targets/cpu/kernels/kernels.h"
#include "targets/cpu/kernels/packing.h"
#include "targets/cpu/kernels/tile_intrin.h"
#include "targets/cpu/kernels/word_conv.h"
#include "targets/cpu/kernels/words.h"
#include "treadle/base/int_math.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/ops/compute.h"
#include "treadle/relay/mac_count.h"

namespace treadle::ops::cpu {
namespace {

using relay::LaidOutCall;
using te::Tensor;
using te::Var;

/// Of bytes and of bfloat16.
struct Kind {
  const char *kernel, *op;
};
constexpr Kind kBytes{"qnn_conv2d.tiles", "qnn.contrib_tile_conv2d"};
constexpr Kind kPairs{"conv2d.pair_tiles", "nn.contrib_tile_conv2d_pairs"};
const Kind& KindOf(DataType dtype) { return dtype.is_bfloat16() ? kPairs : kBytes; }

constexpr int64_t kTile = tir::kTileRows, kColumns = kPackedColumns, kLineBytes = 64, kLineWords = kLineBytes / 4;
constexpr int64_t kCopiedBytes = 16;  // at a time, of neighbouring pixels with few channels
static_assert(kTile == kColumns && kTile == kLineWords, "a line is a row of a tile, a panel a tile of sums");

/// Of a convolution on channel-blocked activations. Its groups needn't divide the channels with those that pad blocks,
/// which is why they aren't those of Conv2DAttrs.
class TileConv2DAttrs : public Conv2DAttrs {
 public:
  int64_t tile_groups = 1, group_inputs = 0, group_outputs = 0;
  TREADLE_NODE(TileConv2DAttrs, Conv2DAttrs, "relay.attrs.TileConv2DAttrs")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("tile_groups", &TileConv2DAttrs::tile_groups).Doc("Groups of channels, once some are merged").AtLeast(1);
    r.Field("group_inputs", &TileConv2DAttrs::group_inputs).Doc("Input channels of each; 0: all").AtLeast(0);
    r.Field("group_outputs", &TileConv2DAttrs::group_outputs).Doc("Output channels of each; 0: all").AtLeast(0);
  }
};

int64_t MergedGroups(const ConvProblemNode& p) {
  return GroupsOfTiles(p.groups, p.ic / p.groups, p.oc / p.groups, p.dtype.bytes());
}

/// Of images whose size only the run knows: rows of a strip, pixels that are a product's.
constexpr int64_t kOpenStrip = 8, kOpenRows = 128;

/// How a convolution becomes products of tiles.
struct Form {
  DataType dtype;
  bool is_static;           ///< else strips have kOpenStrip rows, in chunks of kOpenRows pixels at most
  int64_t groups;           ///< once they are merged
  int64_t batch, block;     ///< block: channels of a block of the data
  int64_t piece, pieces;    ///< channels of a block that are one group's; so many are a group
  int64_t outputs, joined;  ///< channels of a group; groups whose results are joined
  int64_t kh, kw, pitch;    ///< the kernel; pixels from one row of outputs to the next
  int64_t stride_h, stride_w, dilation_h, dilation_w;
  int64_t unit;                      ///< elements that are copied at a time
  int64_t row_taps = 0;              ///< of few channels: pixels in lines for a row of the kernel, some beyond it
  bool in_place = false;             ///< of these, lines are read from padded rows
  bool windows;                      ///< lines hold all taps of a window
  bool spread;                       ///< taps along H have lines of their own
  int64_t elements;                  ///< of a line
  int64_t lines, taps_h, taps_w;     ///< of a pixel and group; taps that are pixels further on
  int64_t strip_rows, strips, rows;  ///< rows of outputs in a strip; rows of its product
  int64_t panels;                    ///< blocks of a group's output channels

  /// Of a problem with blocks of channels.
  Form(const ConvProblemNode& p, int64_t ic_block)
      : dtype(p.dtype),
        is_static(p.is_static()),
        groups(p.groups / std::max<int64_t>(1, MergedGroups(p))),
        batch(std::max<int64_t>(1, p.batch)),
        block(ic_block),
        piece(groups > 1 ? std::gcd(p.ic / groups, block) : block),
        pieces(CeilDiv(p.ic / groups, piece)),
        outputs(p.oc / groups),
        joined(JoinedGroups(groups, outputs)),
        kh(p.kh),
        kw(p.kw),
        stride_h(p.stride_h),
        stride_w(p.stride_w),
        dilation_h(p.dilation_h),
        dilation_w(p.dilation_w),
        unit(piece),
        elements(kLineBytes / dtype.bytes()),
        panels(CeilDiv(outputs, kColumns)) {
    if (groups == 1 && pieces == 1 && block * dtype.bytes() < kCopiedBytes &&
        kCopiedBytes % (block * dtype.bytes()) == 0 && dilation_w == 1) {
      unit = kCopiedBytes / dtype.bytes();
      in_place = is_static && p.ow >= kLeastInPlace;
      row_taps = RoundUp(kw * block, in_place ? elements : unit) / block;
    }
    const int64_t of_pixel = CeilDiv(pieces * piece, elements);
    const int64_t of_window = CeilDiv(pieces * piece * kh * (row_taps > 0 ? row_taps : kw), elements);
    // Few outputs use a group's lines: to put them together of small pieces takes longer than more products.
    const bool copied = groups == 1 || piece * dtype.bytes() >= kCopiedBytes;
    windows = (row_taps > 0 && !in_place) || stride_h != 1 || stride_w != 1 ||
              (copied && of_pixel * kh * kw * 2 > of_window * 3);
    windows = windows && !in_place;
    spread = !is_static && !windows;
    lines = windows ? of_window : in_place ? row_taps * block / elements : spread ? of_pixel * kh : of_pixel;
    taps_h = windows || spread ? 1 : kh;
    taps_w = windows || in_place ? 1 : kw;
    const int64_t oh = p.oh >= 0 ? p.oh : kOpenExtent, ow = p.ow >= 0 ? p.ow : kOpenExtent;
    pitch = ow + Between();
    strip_rows = in_place ? 1 : is_static ? oh : kOpenStrip;
    while (is_static && strip_rows > 1 && (oh % strip_rows != 0 || strip_rows * pitch > kMostRows)) --strip_rows;
    strips = CeilDiv(oh, strip_rows);
    rows = (strip_rows - 1) * pitch + ow;
  }
  /// Pixels between the rows of outputs.
  int64_t Between() const { return taps_w == 1 ? 0 : (kw - 1) * dilation_w; }
  /// Runs of 16 words of k.
  int64_t Runs() const { return lines * taps_h * taps_w; }
  /// Rows of a call's product; of narrow images of known width, those of a strip.
  int64_t Chunk() const { return is_static ? rows : std::min(kOpenRows, rows); }
  /// Pixels that a strip reads after the first of a product's rows.
  int64_t Beyond() const { return (taps_h - 1) * dilation_h * pitch + (taps_w - 1) * dilation_w; }
  /// Pixels of an image as it is copied.
  int64_t Pixels() const { return (strips - 1) * strip_rows * pitch + rows + Beyond(); }
  double CopiedBytes() const {
    if (in_place) return static_cast<double>(batch * strips * stride_h * rows * stride_w * block * dtype.bytes());
    return static_cast<double>(batch * groups * strips * lines * (rows + Beyond()) * kLineBytes);
  }
  /// Whether a block of outputs is of one group.
  bool WholePanels() const { return groups == 1 || outputs % kColumns == 0; }
  /// Whether windows consist of pieces, not too many, of few bytes.
  bool SmallPieces() const {
    constexpr int64_t kMost = 64;
    return windows && piece * dtype.bytes() < kCopiedBytes && unit == piece && lines * elements / piece <= kMost;
  }
  /// Channels of a block of outputs that are one group's.
  int64_t OutputPiece() const { return WholePanels() ? kColumns : std::gcd(outputs, kColumns); }
  double WeightBytes() const { return static_cast<double>(groups * panels * Runs() * kTile * kLineBytes); }

 private:
  static int64_t JoinedGroups(int64_t groups, int64_t outputs) {
    const int64_t fewest = kColumns / std::gcd(outputs, kColumns);
    return groups % fewest == 0 ? fewest : groups;
  }
  /// Rows of a product: their sums of some panels stay in the L2 cache.
  static constexpr int64_t kMostRows = 512;
  /// Of images whose size only the run knows: the extent for which costs are computed.
  static constexpr int64_t kOpenExtent = 28;
  /// Outputs of a row, of which two tiles are full.
  static constexpr int64_t kLeastInPlace = 32;
};

// ---- The computation ----

Problem ProblemOf(const TileConv2DAttrs* a, const Tensor& data, const Tensor& kernel, const TensorTypeNode* type) {
  return Make<Problem, ConvProblemNode>([&](auto& p) {
    SetConvProblem(a, data, kernel, type, &p);
    p.kh = (*a->kernel_size)[0];
    p.kw = (*a->kernel_size)[1];
    if (a->tile_groups == 1) return;
    p.groups = a->tile_groups;
    p.ic = a->group_inputs * p.groups;
    p.oc = a->group_outputs * p.groups;
  });
}

/// The sizes of a computation that only the run may know.
struct Extents {
  PrimExpr oh, ow, pitch;
  PrimExpr strips, strip;  ///< strip: pixels of one
  Extents(const Form& form, const TensorTypeNode* type)
      : oh(type->shape[2]),
        ow(type->shape[3]),
        pitch(ow + Index(form.Between())),
        strips(form.is_static ? Index(form.strips) : tir::ceildiv(oh, Index(form.strip_rows))),
        strip(Index(form.strip_rows) * pitch) {}
};

/// (N, H, W * channels): few channels of padded data, with pixels that lines hold beyond the last window. A stage that
/// isn't made where it is read, so that lines are copies of its parts.
Tensor PaddedRows(const Form& form, const ConvProblemNode& p, const Extents& extents, const Tensor& data,
                  const PrimExpr& value) {
  // Lines end beyond the last row of the kernel, where weights are zeros.
  const int64_t last_tap =
      form.in_place ? form.kh - 1 : (form.lines * form.elements - 1) / (form.row_taps * form.block);
  const PrimExpr rows_out = form.is_static ? extents.oh : extents.strips * Index(form.strip_rows);
  const PrimExpr rows = (rows_out - Index(1)) * Index(p.stride_h) + Index(last_tap * p.dilation_h + 1);
  const PrimExpr columns = (extents.ow - Index(1)) * Index(p.stride_w) + Index(form.row_taps);
  auto element = [&](const Array<Var>& i) {
    const PrimExpr h = PrimExpr(i[1]) - Index(p.pad_t);
    const PrimExpr w = tir::floordiv(PrimExpr(i[2]), Index(form.block)) - Index(p.pad_l);
    const PrimExpr inside = h >= Index(0) && h < data->shape[2] && w >= Index(0) && w < data->shape[3];
    return tir::if_then_else(inside, data(i[0], Index(0), h, w, tir::floormod(PrimExpr(i[2]), Index(form.block))),
                             value);
  };
  return te::Compute({data->shape[0], rows, columns * Index(form.block)}, element, "padded_rows", "",
                     StageAttrs(KindOf(p.dtype).kernel, "pad"), {"n", "h", "w"});
}

/// The element at `at` of the line of a pixel at `row`, `column`, of such rows.
PrimExpr ElementOfRow(const Form& form, const Tensor& rows, const PrimExpr& n, const PrimExpr& row,
                      const PrimExpr& column, const PrimExpr& at) {
  const PrimExpr taps = Index(form.row_taps * form.block);
  const PrimExpr h = row * Index(form.stride_h) + tir::floordiv(at, taps) * Index(form.dilation_h);
  return rows(n, h, column * Index(form.stride_w * form.block) + tir::floormod(at, taps));
}

/// (N, lines, pixels, elements of a line): what windows read; of open sizes (N, strips, lines, pixels of a strip,
/// elements). `value`: what pads hold.
Tensor LinesOf(const Form& form, const ConvProblemNode& p, const Extents& extents, const Tensor& data,
               const PrimExpr& value) {
  const size_t at_strip = 1, at_line = form.is_static ? 1 : 2;
  auto element = [&](const Array<Var>& i) {
    const PrimExpr pixel = i[at_line + 1], column = tir::floormod(pixel, extents.pitch);
    PrimExpr row = tir::floordiv(pixel, extents.pitch);
    if (!form.is_static) row = PrimExpr(i[at_strip]) * Index(form.strip_rows) + row;
    const PrimExpr line = tir::floormod(PrimExpr(i[at_line]), Index(form.lines));
    const PrimExpr at = (form.spread ? tir::floordiv(line, Index(form.kh)) : line) * Index(form.elements) + i.back();
    if (form.row_taps > 0) return ElementOfRow(form, data, i[0], row, column, at);
    const PrimExpr height = data->shape[2], width = data->shape[3];
    PrimExpr unit = tir::floordiv(at, Index(form.piece)), tap_row = Index(0), tap_column = Index(0);
    PrimExpr lane = tir::floormod(at, Index(form.piece));
    if (form.spread) tap_row = tir::floormod(line, Index(form.kh)) * Index(form.dilation_h);
    if (form.windows) {
      tap_column = tir::floormod(unit, Index(form.kw)) * Index(form.dilation_w);
      unit = tir::floordiv(unit, Index(form.kw));
      tap_row = tir::floormod(unit, Index(form.kh)) * Index(form.dilation_h);
      unit = tir::floordiv(unit, Index(form.kh));
    }
    const PrimExpr h = row * Index(form.stride_h) + tap_row - Index(p.pad_t);
    const PrimExpr w = column * Index(form.stride_w) + tap_column - Index(p.pad_l);
    const PrimExpr inside = unit < Index(form.pieces) && h >= Index(0) && h < height && w >= Index(0) && w < width;
    unit = tir::floordiv(PrimExpr(i[at_line]), Index(form.lines)) * Index(form.pieces) + unit;
    if (const int64_t of_block = form.block / form.piece; of_block > 1) {
      lane = tir::floormod(unit, Index(of_block)) * Index(form.piece) + lane;
      unit = tir::floordiv(unit, Index(of_block));
    }
    return tir::if_then_else(inside, data(i[0], unit, h, w, lane), value);
  };
  Array<PrimExpr> shape{data->shape[0], Index(form.groups * form.lines), Index(form.Pixels()), Index(form.elements)};
  std::vector<std::string> axes{"n", "line", "pixel", "e"};
  if (!form.is_static) {
    shape = {shape[0], extents.strips, shape[1], extents.strip + Index(form.Beyond()), shape[3]};
    axes = {"n", "strip", "line", "pixel", "e"};
  }
  return te::Compute(shape, element, "lines", tag::kPad, StageAttrs(KindOf(p.dtype).kernel, "lines"), axes);
}

/// Channel `lane` of block `block` of `channels`, where groups share blocks: a few channels at a time are one group's.
PrimExpr OfJoined(const Form& form, int64_t channels, const PrimExpr& block, const PrimExpr& lane,
                  const std::function<PrimExpr(PrimExpr group, PrimExpr panel, PrimExpr lane)>& at) {
  const int64_t few = form.OutputPiece(), of_block = kColumns / few, of_group = form.outputs / few;
  const PrimExpr piece = block * Index(of_block) + tir::floordiv(lane, Index(few));
  const PrimExpr in_group = tir::floormod(piece, Index(of_group));
  const PrimExpr lanes = tir::floormod(in_group, Index(of_block)) * Index(few) + tir::floormod(lane, Index(few));
  auto value = [&](const PrimExpr& group) { return at(group, tir::floordiv(in_group, Index(of_block)), lanes); };
  const PrimExpr group = tir::floordiv(piece, Index(of_group));
  if (channels % kColumns == 0) return value(group);
  const PrimExpr sum = value(tir::min(group, Index(form.groups - 1)));
  return tir::if_then_else(piece < Index(channels / few), sum, tir::make_zero(sum->dtype));
}

/// Refuses weights of other sizes than the form has: they may be those of a text.
void CheckWeight(const Form& form, const Tensor& kernel) {
  const Array<PrimExpr> wanted{Index(form.groups * form.panels),
                               Index(form.lines),
                               Index(form.taps_h),
                               Index(form.taps_w),
                               Index(kLineWords),
                               Index(kColumns)};
  CheckWords(kernel->shape, kernel->dtype, wanted);
}

/// data (N, IC/ib, H, W, ib); weight (OC/16, lines, taps of the kernel, 16 words, 16); a third operand is what pads
/// hold (else zeros). Result: (N, OC/16, OH, OW, 16).
Array<Tensor> TileConvCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<TileConv2DAttrs>();
  const TensorTypeNode* type = OutTensor(out_type);
  const Tensor &data = inputs[0], &kernel = inputs[1];
  const Problem problem = ProblemOf(a, data, kernel, type);
  const auto& p = *problem.as<ConvProblemNode>();
  const Form form(p, p.ic_block);
  CheckWeight(form, kernel);
  const DataType dtype = data->dtype;
  const PrimExpr pad = inputs.size() > 2 ? inputs[2](Array<PrimExpr>{}) : tir::make_zero(dtype);
  const Extents extents(form, type);
  const Tensor from = form.row_taps > 0 ? PaddedRows(form, p, extents, data, pad) : data;
  const Tensor lines = form.in_place ? from : LinesOf(form, p, extents, from, pad);
  const te::IterVar line = te::ReduceAxis(tir::Range(Index(form.lines)), "line");
  const te::IterVar kh = te::ReduceAxis(tir::Range(Index(form.taps_h)), "kh");
  const te::IterVar kw = te::ReduceAxis(tir::Range(Index(form.taps_w)), "kw");
  const te::IterVar k = te::ReduceAxis(tir::Range(Index(kLineWords)), "k");
  const int64_t chunk = form.Chunk();
  auto product = [&](const Array<Var>& i) {
    const PrimExpr row = PrimExpr(i[3]) * Index(chunk) + i[5];
    const PrimExpr pixel =
        row + PrimExpr(kh->var) * Index(form.dilation_h * form.pitch) + PrimExpr(kw->var) * Index(form.dilation_w);
    const PrimExpr at_line = PrimExpr(i[2]) * Index(form.lines) + line->var;
    const PrimExpr of_data = PrimExpr(i[1]) * Index(form.stride_h) + PrimExpr(kh->var) * Index(form.dilation_h);
    const PrimExpr at = row * Index(form.stride_w * form.block) + PrimExpr(line->var) * Index(form.elements);
    const PrimExpr word = MakeWord(dtype, [&](int64_t e) {
      const PrimExpr element = PrimExpr(k->var) * Index(PerWord(dtype)) + Index(e);
      if (form.in_place) return lines(i[0], of_data, at + element);
      if (form.is_static) return lines(i[0], at_line, PrimExpr(i[1]) * extents.strip + pixel, element);
      return lines(i[0], i[1], at_line, pixel, element);
    });
    const PrimExpr panel = PrimExpr(i[2]) * Index(form.panels) + i[4];
    const PrimExpr dot = DotOfWords(dtype, word, kernel(panel, line->var, kh->var, kw->var, k->var, i[6]));
    return te::Sum(form.is_static ? dot : WhereRow(i[5] < extents.strip - PrimExpr(i[3]) * Index(chunk), dot),
                   {line, kh, kw, k});
  };
  const PrimExpr chunks = form.is_static ? Index(1) : tir::ceildiv(extents.strip, Index(chunk));
  const Tensor sum = te::Compute(
      {type->shape[0], extents.strips, Index(form.groups), chunks, Index(form.panels), Index(chunk), Index(kColumns)},
      product, "conv2d_tiles", "conv2d_NCHWc", AnchorAttrs(KindOf(dtype).kernel, "sum", problem),
      {"n", "strip", "group", "chunk", "panel", "row", "oc"});
  auto output = [&](const Array<Var>& i) {
    const PrimExpr row = tir::floormod(PrimExpr(i[2]), Index(form.strip_rows)) * extents.pitch + i[3];
    auto at = [&](const PrimExpr& group, const PrimExpr& panel, const PrimExpr& lane) {
      return sum(Array<PrimExpr>{i[0], tir::floordiv(PrimExpr(i[2]), Index(form.strip_rows)), group,
                                 tir::floordiv(row, Index(chunk)), panel, tir::floormod(row, Index(chunk)), lane});
    };
    if (form.WholePanels()) {
      const PrimExpr panels = Index(form.panels);
      return at(tir::floordiv(PrimExpr(i[1]), panels), tir::floormod(PrimExpr(i[1]), panels), i[4]);
    }
    return OfJoined(form, p.oc, i[1], i[4], at);
  };
  return {te::Compute(type->shape, output, "conv2d_tiles_output", tag::kInjective, {}, {"n", "oc", "oh", "ow", "oci"})};
}

// ---- Weights ----

/// `weight` (OIHW) of `groups` as (out / 16, lines, taps, 16 words, 16) words.
template <typename T>
runtime::NDArray PackedWeight(const runtime::NDArray& weight, const Form& form, int64_t groups) {
  const std::vector<int64_t>& shape = weight.shape();
  constexpr auto kEach = static_cast<int64_t>(sizeof(int32_t) / sizeof(T));
  runtime::NDArray packed = runtime::NDArray::Empty(
      {form.groups * form.panels, form.lines, form.taps_h, form.taps_w, kLineWords, kColumns}, DataType::Int(32));
  auto* to = packed.Data<T>();
  std::fill(to, to + packed.size() * kEach, T{0});
  const auto* from = weight.Data<T>();
  const int64_t taps = shape[2] * shape[3], of_group = shape[0] / groups, merged = groups / form.groups;
  for (int64_t o = 0; o < shape[0]; ++o) {
    const int64_t first = o / of_group % merged * shape[1];  // of its group's channels in the merged ones
    const int64_t column = o / form.outputs * form.panels * kColumns + o % form.outputs;
    for (int64_t i = 0; i < shape[1]; ++i) {
      const int64_t c = first + i;
      for (int64_t tap = 0; tap < taps; ++tap) {
        int64_t k = form.windows ? (c / form.piece * taps + tap) * form.piece + c % form.piece : c;
        if (form.row_taps > 0) k = (tap / shape[3] * form.row_taps + tap % shape[3]) * form.block + c;
        if (form.in_place) k = tap % shape[3] * form.block + c;
        const int64_t line = k / form.elements, e = k % form.elements;
        const int64_t run = form.windows ? line : form.in_place ? line * shape[2] + tap / shape[3] : line * taps + tap;
        const int64_t word =
            ((column / kColumns * form.Runs() + run) * kLineWords + e / kEach) * kColumns + column % kColumns;
        to[word * kEach + e % kEach] = *from++;
      }
    }
  }
  return packed;
}

// ---- Plans and what they cost ----

class TileConvPlanNode : public PlanNode {
 public:
  int64_t ic_block = 16, nc = 1;
  bool ahead = false;
  TREADLE_NODE(TileConvPlanNode, PlanNode, "schedule.TileConvPlan")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("ic_block", &TileConvPlanNode::ic_block).Doc("channels of a block of the input");
    r.Field("nc", &TileConvPlanNode::nc).Doc("panels of 16 output channels that are computed at a time");
    r.Field("ahead", &TileConvPlanNode::ahead)
        .Doc("all lines are copied before: threads divide panels, too, not only strips");
  }
};

/// Whether the channel blocks are still to be chosen: the graph is being laid out.
bool IsUnassigned(const ConvProblemNode& p) { return p.ic_block == 0; }

int64_t InBlock(const ConvProblemNode& p, const Machine& machine) {
  if (!IsUnassigned(p)) return p.ic_block;
  if (const std::optional<int64_t> few = FewChannels(p, PerWord(p.dtype))) return *few;
  return p.in_layout.is_blocked() ? p.in_layout.block : BlockedLayout(p.ic, machine.vector_lanes(32)).block;
}

std::string WhyNot(const Problem& problem, const Machine& machine) {
  constexpr int64_t kLeastOutputs = 4;
  const auto& p = *problem.as<ConvProblemNode>();
  const bool pairs = p.dtype.is_bfloat16();
  const std::string& words = pairs ? p.not_pairs : p.not_blocked;
  if (!words.empty()) return words;
  if ((pairs ? machine.pair_tile_cycles : machine.byte_tile_cycles) == 0) return "no tile registers";
  if (!pairs && (p.dtype != DataType::UInt(8) || (IsUnassigned(p) && p.weight_dtype != DataType::Int(8)))) {
    return "operands aren't uint8 and int8";
  }
  if (MergedGroups(p) == 0) return StrCat(p.groups, " groups don't fill tiles");
  const bool beside = Form(p, InBlock(p, machine)).row_taps > 0;  // lines hold pixels beside the window, too
  if (p.ic < kLeastBlocked && !beside) return StrCat(p.ic, " channels");
  if ((beside || MergedGroups(p) > 1) && KeepsZerosApart(p.dtype)) return kZerosApart;
  return p.is_static() && p.oh * p.ow < kLeastOutputs ? StrCat(p.oh * p.ow, " outputs") : "";
}

std::string WhyNotPlan(const Problem& problem, const Machine&, const Plan& chosen) {
  const auto& p = *problem.as<ConvProblemNode>();
  const auto& plan = *chosen.as<TileConvPlanNode>();
  const bool few = FewChannels(p, PerWord(p.dtype)) == plan.ic_block;
  const bool is_block =
      IsUnassigned(p) ? plan.ic_block == 8 || plan.ic_block == 16 || few : plan.ic_block == p.ic_block;
  if (!is_block) return StrCat("blocks of ", plan.ic_block, " channels");
  const Form form(p, plan.ic_block);
  if (!form.WholePanels() && plan.nc != form.panels) return StrCat(plan.nc, " panels aren't a group's ", form.panels);
  return plan.nc >= 1 && form.panels % plan.nc == 0 ? "" : StrCat(plan.nc, " panels don't divide ", form.panels);
}

std::vector<Plan> Space(const Problem& problem, const Machine& machine) {
  constexpr int64_t kMostPanels = 16;
  const auto& p = *problem.as<ConvProblemNode>();
  const int64_t block = InBlock(p, machine);
  const Form form(p, block);
  std::vector<Plan> plans;
  for (int64_t nc = std::min(kMostPanels, form.panels); nc >= 1; --nc) {
    if (form.panels % nc != 0 || (!form.WholePanels() && nc != form.panels)) continue;
    for (const bool ahead : {false, true}) {
      plans.push_back(Make<Plan, TileConvPlanNode>([&](auto& plan) {
        plan.ic_block = block;
        plan.nc = nc;
        plan.ahead = ahead;
      }));
    }
  }
  return plans;
}

double Cycles(const Problem& problem, const Machine& machine, const Plan& chosen) {
  const FittedCosts& fitted = Fitted();
  const auto& p = *problem.as<ConvProblemNode>();
  const auto& plan = *chosen.as<TileConvPlanNode>();
  const Form form(p, plan.ic_block);
  const double dot = p.dtype.is_bfloat16() ? machine.pair_tile_cycles : machine.byte_tile_cycles;
  auto block = [&](double height, double width) {
    const double step = std::max(height * width * dot, (height + width) * machine.tile_load_cycles);
    return static_cast<double>(form.Runs()) * step + height * width * fitted.amx_store;
  };
  const int64_t tiles = CeilDiv(form.rows, kTile), twos = tiles / 2, pairs = plan.nc / 2;
  auto panels = [&](double width) {
    return static_cast<double>(twos) * block(2, width) + (tiles % 2 != 0 ? block(1, width) : 0);
  };
  const double call =
      fitted.amx_configure + static_cast<double>(pairs) * panels(2) + (plan.nc % 2 != 0 ? panels(1) : 0);
  const int64_t strips = form.batch * form.strips, groups = form.groups * (form.panels / plan.nc);
  const auto unit = static_cast<double>(form.unit * form.dtype.bytes());
  const double copied = form.CopiedBytes(), weights = form.WeightBytes();
  double work = static_cast<double>(strips * groups) * call + fitted.amx_line * copied / unit;
  const auto l2 = static_cast<double>(machine.l2_bytes) * 3 / 4;
  if (weights > l2) work += weights * static_cast<double>(strips - 1) * machine.beyond_l2_cycles_per_byte;
  const double near = copied / static_cast<double>(plan.ahead ? 1 : strips);
  if (near > l2) work += copied * static_cast<double>(1 + groups) * machine.beyond_l2_cycles_per_byte;
  // Of rows that are longer than a strip should be: they aren't divided.
  const auto sums = static_cast<double>(form.rows * plan.nc * form.joined * kLineBytes);
  const int64_t times = strips * groups / form.joined;
  if (sums > l2) work += 2 * sums * static_cast<double>(times) * machine.beyond_l2_cycles_per_byte;
  const double memory = weights * machine.weight_cycles_per_byte;
  const double alone = std::max(work, memory) + fitted.amx_overlap * std::min(work, memory);
  const int64_t threads = ModelledThreads(machine);
  if (threads == 1) return alone;
  const double imbalance = LoadImbalance(strips, 1, plan.ahead ? groups : 1, 1, threads);
  return alone * (1 + imbalance) / 2 + (plan.ahead ? ForkJoinCycles(machine, threads) : 0);
}

std::optional<LaidOutCall> Rewrite(const LayoutRequest& request, const Problem& problem, const Plan& chosen) {
  const auto& p = *problem.as<ConvProblemNode>();
  const auto* call = request.call;
  const runtime::NDArray& weight = call->args[1].as<relay::ConstantNode>()->data;
  const ChannelLayout in{chosen.as<TileConvPlanNode>()->ic_block}, out{kColumns};
  const Form form(p, in.block);
  auto attrs = MakeObject<TileConv2DAttrs>();
  static_cast<Conv2DAttrs&>(*attrs) = *call->attrs.as<Conv2DAttrs>();
  attrs->channels = out.PaddedChannels(p.oc);
  attrs->groups = 1;
  if (form.groups > 1) {
    attrs->tile_groups = form.groups;
    attrs->group_inputs = p.ic / form.groups;
    attrs->group_outputs = form.outputs;
  }
  attrs->kernel_size = std::vector<int64_t>{form.kh, form.kw};
  attrs->data_layout = in.axes();
  attrs->out_layout = out.axes();
  attrs->out_dtype = p.out_dtype;
  const bool pairs = p.dtype.is_bfloat16();
  const bool few = FewChannels(p, PerWord(p.dtype)) == in.block;
  const relay::Expr data =
      few ? ChannelsAsWords(request.args.Plain(0), p.ic, in.block, p.dtype) : request.args.Get(0, in);
  Array<relay::Expr> operands{data, relay::Constant(pairs ? PackedWeight<uint16_t>(weight, form, p.groups)
                                                          : PackedWeight<int8_t>(weight, form, p.groups))};
  if (!pairs) operands.push_back(request.args.Plain(2));
  return LaidOutCall{
      relay::Call(Op::Get(KindOf(p.dtype).op), operands, Attrs(ObjectPtr<Object>(attrs)), {}, call->span), out};
}

// ---- The schedule ----

/// What a call computes: a strip's rows (of open sizes: a chunk of them) by `panels`.
tir::TensorIntrin StripIntrin(const Form& form, int64_t panels) {
  const int64_t each = PerWord(form.dtype), apart = form.stride_w * form.block;
  const int64_t along = form.dilation_w, rows = form.Chunk();
  const int64_t down = form.in_place ? form.dilation_h : form.dilation_h * form.pitch;
  const Tensor a = te::Placeholder(
      form.in_place
          ? Array<PrimExpr>{Index((form.kh - 1) * down + 1), Index((rows - 1) * apart + form.lines * form.elements)}
          : Array<PrimExpr>{Index(form.lines), Index(rows + form.Beyond()), Index(form.elements)},
      form.dtype, "a");
  const Tensor b = te::Placeholder(
      {Index(panels), Index(form.lines), Index(form.taps_h), Index(form.taps_w), Index(kLineWords), Index(kColumns)},
      DataType::Int(32), "b");
  const te::Var present("present", DataType::Int(64));
  const te::IterVar line = te::ReduceAxis(tir::Range(Index(form.lines)), "line");
  const te::IterVar kh = te::ReduceAxis(tir::Range(Index(form.taps_h)), "kh");
  const te::IterVar kw = te::ReduceAxis(tir::Range(Index(form.taps_w)), "kw");
  const te::IterVar k = te::ReduceAxis(tir::Range(Index(kLineWords)), "k");
  Array<PrimExpr> shape{Index(rows), Index(kColumns)};
  if (panels > 1) shape = {Index(panels), shape[0], shape[1]};  // there is no loop over one
  const Tensor c = te::Compute(
      shape,
      [&](const Array<Var>& i) {
        const PrimExpr panel = panels > 1 ? PrimExpr(i[0]) : Index(0), row = i[i.size() - 2], column = i[i.size() - 1];
        const PrimExpr pixel = row + PrimExpr(kh->var) * Index(down) + PrimExpr(kw->var) * Index(along);
        const PrimExpr at = row * Index(apart) + PrimExpr(line->var) * Index(form.elements);
        const PrimExpr word = MakeWord(form.dtype, [&](int64_t e) {
          const PrimExpr element = PrimExpr(k->var) * Index(each) + Index(e);
          return form.in_place ? a(PrimExpr(kh->var) * Index(down), at + element) : a(line->var, pixel, element);
        });
        const PrimExpr right = b(panel, line->var, kh->var, kw->var, k->var, column);
        const PrimExpr dot = DotOfWords(form.dtype, word, right);
        return te::Sum(form.is_static ? dot : WhereRow(row < present, dot), {line, kh, kw, k});
      },
      "c");
  using At = std::vector<int64_t>;
  TileTensors tensors{a, b, c, form.in_place ? At{0, apart} : At{0, 1, 0}, {}, kLineWords};
  auto step = [&](int64_t extent, const At& next) {
    if (extent > 1) tensors.steps.push_back({extent, next});
  };
  step(form.lines, form.in_place ? At{0, form.elements} : At{1, 0, 0});
  step(form.taps_h, form.in_place ? At{down, 0} : At{0, down, 0});
  step(form.taps_w, {0, along, 0});
  if (!form.is_static) tensors.present = present;
  return TileIntrin(tensors);
}

/// Of open sizes, whose rows are `pitch` pixels apart.
void ScheduleOpenLines(Schedule& sch, const std::vector<LoopRV>& copy, const PrimExpr& pitch, double work) {
  const std::vector<LoopRV> pixels = sch.Split(copy[3], {kRest, pitch});
  if (copy[2].defined()) sch.Reorder({pixels[0], copy[2], pixels[1]});  // row, line, column
  if (work > 0) FuseParallel(sch, {copy[0], copy[1]}, work);
}

/// Writes out a few iterations of a loop over vectors, whose own instructions count where operands are in cache.
void UnrollSome(Schedule& sch, const LoopRV& loop) {
  constexpr int64_t kMost = 4;
  const int64_t extent = loop.defined() ? Extent(sch, loop) : 1;
  for (int64_t count = kMost; count >= 2 && extent >= count; --count) {
    if (extent % count != 0) continue;
    return sch.Unroll(count == extent ? loop : sch.Split(loop, {kRest, PrimExpr(count)})[1]);
  }
}

/// Writes out the pieces of a pixel's lines, where the places of their taps are divisions else. The loop over groups.
LoopRV UnrollPieces(Schedule& sch, const Form& form, const LoopRV& line, const std::vector<LoopRV>& pixels,
                    const LoopRV& piece) {
  const std::vector<LoopRV> lines = sch.Split(line, {kRest, PrimExpr(form.lines)});
  std::vector<LoopRV> order;
  for (const LoopRV& loop : {lines[0], pixels[0], pixels[1], lines[1], piece}) {
    if (loop.defined()) order.push_back(loop);
  }
  sch.Reorder(order);
  for (const LoopRV& loop : {lines[1], piece}) {
    if (loop.defined()) sch.Unroll(loop);
  }
  return lines[0];
}

/// The copy of lines; `work`: of what reads them, 0 where they are copied within its parallel loop.
void ScheduleLines(Schedule& sch, const BlockRV& lines, const Form& form, const PrimExpr& pitch, double work) {
  const std::vector<LoopRV> copy = AxisLoops(sch, lines);  // n, (strip,) line, pixel, element
  const std::vector<LoopRV> units = sch.Split(copy.back(), {kRest, PrimExpr(form.unit)});
  sch.Vectorize(units[1]);
  if (!form.is_static) return ScheduleOpenLines(sch, copy, pitch, work);
  const std::vector<LoopRV> pixels = sch.Split(copy[2], {kRest, pitch});
  LoopRV line = copy[1];
  const bool own_loop = work > 0 || form.joined * form.lines > 1;  // else it is that over groups
  if (form.SmallPieces() && own_loop && line.defined()) {
    line = UnrollPieces(sch, form, line, pixels, units[0]);
  } else {
    UnrollSome(sch, pixels[1]);
  }
  if (work == 0) return;
  std::vector<LoopRV> outer;
  for (const LoopRV& loop : {copy[0], line, pixels[0]}) {
    if (loop.defined()) outer.push_back(loop);
  }
  FuseParallel(sch, outer, work);
}

void Apply(Schedule& sch, Stages& stages, const Problem& problem, const Machine&, const Plan& chosen) {
  const auto& p = *problem.as<ConvProblemNode>();
  const auto& plan = *chosen.as<TileConvPlanNode>();
  const Form form(p, p.ic_block);
  const BlockRV block = stages.anchor();
  const double work = Work(sch, block);
  const std::vector<LoopRV> out = sch.GetLoops(OutputOf(sch, stages, true));
  TREADLE_ICHECK(out.size() == 5) << "blocked outputs have five loops";
  const std::vector<LoopRV> strip = sch.Split(out[2], {kRest, PrimExpr(form.strip_rows)});
  // Of groups that share blocks, the blocks of those that are joined.
  const int64_t blocks = form.WholePanels() ? plan.nc : CeilDiv(form.outputs * form.joined, kColumns);
  const int64_t parts = form.WholePanels() ? form.panels / plan.nc : 1;
  const std::vector<LoopRV> panels =
      sch.Split(out[1], {PrimExpr(form.groups / form.joined), PrimExpr(parts), PrimExpr(blocks)});
  sch.Reorder({strip[0], panels[0], panels[1], panels[2], strip[1], out[3], out[4]});
  sch.ComputeAt(block, panels[1]);
  const std::vector<LoopRV> axes =
      LoopsUnder(sch, block, panels[1]);  // n, strip, group, chunk, panel, row, oc, line, ..
  sch.Tensorize(axes[plan.nc > 1 ? 4 : 5], StripIntrin(form, plan.nc));
  if (const BlockRV pad = stages.Find("pad"); pad.defined()) ScheduleInjective(sch, pad);
  if (const BlockRV lines = stages.Find("lines"); lines.defined()) {
    if (!plan.ahead) sch.ComputeAt(lines, form.groups > 1 ? panels[0] : strip[0]);
    const PrimExpr width = out[3].defined() ? sch.Get(out[3])->extent : PrimExpr(int64_t{1});
    const PrimExpr pitch = form.is_static ? PrimExpr(form.pitch) : width + Index(form.Between());
    ScheduleLines(sch, lines, form, pitch, plan.ahead ? work : 0);
  }
  const std::vector<LoopRV> lanes = sch.Split(out[4], {kRest, PrimExpr(form.OutputPiece())});
  sch.Vectorize(lanes[1]);
  UnrollSome(sch, lanes[0].defined() ? lanes[0] : out[3]);
  std::vector<LoopRV> outer{out[0], strip[0]};
  if (plan.ahead) outer.insert(outer.end(), {panels[0], panels[1]});
  FuseParallel(sch, outer, work);
}

// ---- Registration ----

/// Refuses channels that the groups don't fill but for a rest of the last block: computations read them unchecked.
void CheckGroups(const std::string& what, int64_t groups, int64_t each, int64_t channels, int64_t block) {
  const bool fits = each > 0 && each <= channels / groups && RoundUp(groups * each, block) == channels;
  if (fits) return;
  throw ShapeError(
      StrCat(groups, " groups of ", each, " ", what, " channels don't fill ", channels, " in blocks of ", block));
}

Type TileInfer(const InferContext& context, DataType dtype, DataType sum) {
  constexpr size_t kBlockedRank = 5;
  Type result = PackedConvInfer(context, dtype, sum);
  const auto* a = context.attrs<TileConv2DAttrs>();
  const Array<PrimExpr>&data = context.Tensor(0, "data")->shape, &out = result.as<TensorTypeNode>()->shape;
  CheckRank(context.Tensor(1, "weight"), kBlockedRank + 1, "weight");
  if (data.size() != kBlockedRank || out.size() != kBlockedRank || DimValue(out[4]) != kColumns || a->groups != 1) {
    throw ShapeError("data and result must have blocks of channels, the result's of 16, and groups be 1");
  }
  const int64_t block = DimValue(data[4]);
  if (DimValue(data[1]) < 1 || block < 1) throw ShapeError("the channels of data must be known, and be at least 1");
  if (a->tile_groups == 1) return result;
  CheckGroups("input", a->tile_groups, a->group_inputs, DimValue(data[1]) * block, block);
  CheckGroups("output", a->tile_groups, a->group_outputs, DimValue(out[1]) * kColumns, kColumns);
  return result;
}

Type ByteInfer(const InferContext& context) { return TileInfer(context, DataType::UInt(8), DataType::Int(32)); }

Type PairInfer(const InferContext& context) { return TileInfer(context, DataType::BFloat(16), DataType::Float(32)); }

/// Multiply-adds of the groups once they are merged.
double Macs(const Attrs& attrs, const Array<Type>& arguments, const Type& result) {
  return PackedConvMacs(attrs, arguments, result) / static_cast<double>(attrs.as<TileConv2DAttrs>()->tile_groups);
}

void RegisterOp(const Kind& kind, const std::string& numbers, std::vector<OpArgument> arguments,
                TypeRelationFn relation) {
  OpRegistration(kind.op)
      .Describe(StrCat("Convolution of channel-blocked ", numbers, " by products of tiles."))
      .Arguments(std::move(arguments))
      .AttrsType<TileConv2DAttrs>()
      .SupportLevel(11)
      .Relation(relation)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable)
      .Set(relay::kMacCount, relay::FMacCount(Macs))
      .Set(kCompute, FTECompute(TileConvCompute));
}

void RegisterTiles(const Kind& kind, const char* op) {
  Kernel kernel;
  kernel.name = kind.kernel;
  kernel.op = op;
  kernel.target = "cpu";
  kernel.plan_type = TileConvPlanNode::StaticTypeInfo();
  kernel.graph_fields = {"ic_block"};
  kernel.why_not = WhyNot;
  kernel.space = Space;
  kernel.cycles = Cycles;
  kernel.why_not_plan = WhyNotPlan;
  kernel.rewrite = Rewrite;
  kernel.apply = Apply;
  schedule::RegisterKernel(std::move(kernel));
}

}  // namespace

void RegisterTileConv() {
  const OpArgument weight{"weight", "Tensor", "(OC/16, lines, taps along H and W, 16, 16) words of four int8"};
  const OpArgument pair_weight{"weight", "Tensor", "(OC/16, lines, taps along H and W, 16, 16) words of two bfloat16"};
  RegisterOp(kBytes, "bytes", {{"data", "Tensor", "uint8, in data_layout"}, weight, {"pad_value", "Tensor", "uint8"}},
             Rule<ByteInfer>);
  RegisterOp(kPairs, "bfloat16", {{"data", "Tensor", "bfloat16, in data_layout"}, pair_weight}, Rule<PairInfer>);
  RegisterTiles(kBytes, "qnn.contrib_conv2d");
  RegisterTiles(kPairs, "nn.conv2d");
}

}  // namespace treadle::ops::cpu
