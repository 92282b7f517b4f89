// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/columns.h"

#include <algorithm>

#include "frontend/onnx/run_time_axes.h"

namespace treadle::onnx {
namespace {

using IntList = std::vector<int64_t>;

/// Sums of more terms take code for each.
constexpr int64_t kMaxShifts = 64;

/// By the operator for sizes of any kind, which DynamicToStatic replaces where they are known.
Term SummedColumns(NodeImport& n, const Term& x, const BlockPlaces& at, const std::vector<Term>& places) {
  Term taps = IntNum(n, 1);
  for (const Term& size : at.block) taps = taps * size;
  std::vector<Term> dims{DimOf(x, 0), FloorDiv(DimOf(x, 1), taps)};
  dims.insert(dims.end(), at.block.begin(), at.block.end());
  dims.insert(dims.end(), places.begin(), places.end());
  const Term columns = ReshapeTo(x, dims);
  return {n, n.Call("dyn.nn.contrib_columns_to_image", {columns, Stack(at.image), Stack(at.before)},
                    {{"strides", at.strides}, {"dilation", at.dilations}})};
}

/// One dimension whose sizes are known: a block of `shifts` times `phases` elements, of which number i * phases + r is
/// added at i * step of phase r.
struct ShiftedBlock {
  int64_t size, shifts, phases, step;
  int64_t places, before, image;
  int64_t reach() const { return (shifts - 1) * step; }
  int64_t sums() const { return places + reach(); }
};

/// Nothing where sizes aren't known, or are many: the operator takes any.
std::vector<ShiftedBlock> ShiftsOf(NodeImport& n, const BlockPlaces& at, const std::vector<Term>& places) {
  std::vector<ShiftedBlock> blocks;
  int64_t shifts = 1;
  for (size_t d = 0; d < at.block.size(); ++d) {
    const auto size = n.KnownElements(at.block[d]), count = n.KnownElements(places[d]);
    const auto before = n.KnownElements(at.before[d]), image = n.KnownElements(at.image[d]);
    const int64_t stride = at.strides[d], dilation = at.dilations[d];
    if (!size || !count || !before || !image || (*before)[0] < 0 || (stride > 1 && dilation > 1)) return {};
    const int64_t each = stride > 1 ? ((*size)[0] + stride - 1) / stride : (*size)[0];
    if (each > kMaxShifts) return {};
    shifts *= each;
    if (shifts > kMaxShifts) return {};
    blocks.push_back({(*size)[0], each, stride, stride > 1 ? 1 : dilation, (*count)[0], (*before)[0], (*image)[0]});
  }
  return blocks;
}

/// Columns of the same element of the block are images, which are added up, each moved by its place in the block. With
/// strides, elements of different phases stand at different pixels: they become neighbours afterwards.
Term ShiftedColumns(NodeImport& n, const Term& x, const std::vector<ShiftedBlock>& blocks) {
  const size_t rank = blocks.size();
  int64_t taps = 1;
  for (const ShiftedBlock& block : blocks) taps *= block.size;
  const Term batch = DimOf(x, 0), channels = FloorDiv(DimOf(x, 1), static_cast<double>(taps));
  // (N, C, block.., places..), filled up with zeros: blocks to whole shifts, places by what a shift reaches.
  std::vector<Term> dims{batch, channels};
  IntList before(2 + 2 * rank, 0), after = before;
  for (size_t d = 0; d < rank; ++d) {
    dims.push_back(IntNum(n, blocks[d].size));
    after[2 + d] = blocks[d].shifts * blocks[d].phases - blocks[d].size;
  }
  for (const ShiftedBlock& block : blocks) dims.push_back(IntNum(n, block.places));
  Term filled = ReshapeTo(x, dims);
  if (std::any_of(after.begin(), after.end(), [](int64_t width) { return width != 0; })) {
    filled = Term(n, n.Pad(filled, before, after, x.Number(0), "constant"));
  }
  std::fill(after.begin(), after.end(), 0);
  std::optional<Term> sum;
  IntList shift(rank, 0);
  for (bool more = true; more;) {
    Term part = filled;
    for (size_t d = 0; d < rank; ++d) {
      const ShiftedBlock& block = blocks[d];
      part = part.Slice(static_cast<int>(2 + d), shift[d] * block.phases, (shift[d] + 1) * block.phases);
      before[2 + rank + d] = shift[d] * block.step;
      after[2 + rank + d] = block.reach() - before[2 + rank + d];
    }
    part = Term(n, n.Pad(part, before, after, x.Number(0), "constant"));
    sum = sum ? *sum + part : part;
    more = false;
    for (size_t d = rank; d-- > 0 && !more;) {
      more = ++shift[d] < blocks[d].shifts;
      if (!more) shift[d] = 0;
    }
  }
  IntList order{0, 1};  // (N, C, phases.., sums..) to each phase behind its sums
  dims = {batch, channels};
  for (size_t d = 0; d < rank; ++d) {
    order.push_back(static_cast<int64_t>(2 + rank + d));
    order.push_back(static_cast<int64_t>(2 + d));
    dims.push_back(IntNum(n, blocks[d].sums() * blocks[d].phases));
  }
  Term y = ReshapeTo(sum->Permute(order), dims);
  for (size_t d = 0; d < rank; ++d) y = CutOrFilled(y, static_cast<int>(2 + d), blocks[d].before, blocks[d].image);
  return y;
}

}  // namespace

Term ColumnsToImage(NodeImport& n, const Term& x, const BlockPlaces& at) {
  std::vector<Term> places;
  for (size_t d = 0; d < at.image.size(); ++d) {
    Term extent = (at.block[d] - 1) * static_cast<double>(at.dilations[d]) + 1;
    Term room = at.image[d] + at.before[d] + at.after[d] - extent;
    places.push_back(Max(FloorDiv(room, static_cast<double>(at.strides[d])) + 1, 0));
  }
  const std::vector<ShiftedBlock> blocks = ShiftsOf(n, at, places);
  return blocks.empty() ? SummedColumns(n, x, at, places) : ShiftedColumns(n, x, blocks);
}

}  // namespace treadle::onnx
