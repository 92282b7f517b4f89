// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/columns.h"

#include <algorithm>

#include "frontend/onnx/run_time_axes.h"

namespace treadle::onnx {
namespace {

using IntList = std::vector<int64_t>;

/// Sums of more terms are scattered.
constexpr int64_t kMaxShifts = 64;

Term Product(const std::vector<Term>& factors, NodeImport& n) {
  Term product = IntNum(n, 1);
  for (const Term& factor : factors) product = product * factor;
  return product;
}

/// Of a block of any size: where each column's elements belong is computed when the model runs.
Term ScatteredColumns(NodeImport& n, const Term& x, const BlockPlaces& at, const std::vector<Term>& places) {
  const Term size = Product(at.image, n), taps = Product(at.block, n);
  // Of each tap (rows) and each place of the block (columns): where it stands in the flattened image, or behind it.
  Term tap = Iota(taps), place = Iota(Product(places, n)), position = IntNum(n, 0).Expand(0, 2);
  Term inside = position == position, after_tap = IntNum(n, 1), after_place = IntNum(n, 1), after = IntNum(n, 1);
  for (size_t d = at.image.size(); d-- > 0;) {
    Term k = FloorDiv(tap, Max(after_tap, 1)).Op("floor_mod", Max(at.block[d], 1));
    Term p = FloorDiv(place, Max(after_place, 1)).Op("floor_mod", Max(places[d], 1));
    Term on = (k * static_cast<double>(at.dilations[d])).Expand(1) +
              (p * static_cast<double>(at.strides[d])).Expand(0) - at.before[d];
    inside = inside && on >= IntNum(n, 0) && on < at.image[d];
    position = position + on * after;
    after_tap = after_tap * at.block[d];
    after_place = after_place * places[d];
    after = after * at.image[d];
  }
  Term target = inside.Select(position, size);
  Term batch = DimOf(x, 0), rows = batch * FloorDiv(DimOf(x, 1), Max(taps, 1)), columns = taps * Product(places, n);
  Term flat = ReshapeTo(x, {rows, columns});
  Term index = BroadcastTo(ReshapeTo(target, Stack({columns})).Expand(0), Stack({rows, columns}));
  Term zeros = Full(x.Number(0), Stack({rows, size + 1}));
  Term sums(n, n.Call("scatter", {zeros, index, flat}, {{"axis", int64_t{1}}, {"reduction", std::string("add")}}));
  std::vector<Term> dims{batch, FloorDiv(DimOf(x, 1), Max(taps, 1))};
  dims.insert(dims.end(), at.image.begin(), at.image.end());
  return ReshapeTo(SliceAxis(sums, 1, IntNum(n, 0), size), dims);
}

/// One dimension whose sizes are known: a block of `shifts` times `phases` elements, of which number i * phases + r is
/// added at i * step of phase r.
struct ShiftedBlock {
  int64_t size, shifts, phases, step;
  int64_t places, before, image;
  int64_t reach() const { return (shifts - 1) * step; }
  int64_t sums() const { return places + reach(); }
};

/// Nothing where sizes aren't known: sums of tensors of unknown sizes would be broadcast, each of them.
std::vector<ShiftedBlock> ShiftsOf(NodeImport& n, const BlockPlaces& at, const std::vector<Term>& places) {
  std::vector<ShiftedBlock> blocks;
  int64_t shifts = 1;
  for (size_t d = 0; d < at.block.size(); ++d) {
    const auto size = n.KnownElements(at.block[d]), count = n.KnownElements(places[d]);
    const auto before = n.KnownElements(at.before[d]), image = n.KnownElements(at.image[d]);
    const int64_t stride = at.strides[d], dilation = at.dilations[d];
    if (!size || !count || !before || !image || (*before)[0] < 0 || (stride > 1 && dilation > 1)) return {};
    const int64_t each = stride > 1 ? ((*size)[0] + stride - 1) / stride : (*size)[0];
    if (each > kMaxShifts || (shifts *= each) > kMaxShifts) return {};
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
  return blocks.empty() ? ScatteredColumns(n, x, at, places) : ShiftedColumns(n, x, blocks);
}

}  // namespace treadle::onnx
