// SPDX-License-Identifier: Apache-2.0
// Elements put or read at computed places: Col2Im, MaxUnpool, AffineGrid, DeformConv.
#include <numeric>

#include "frontend/onnx/checked_values.h"
#include "frontend/onnx/columns.h"
#include "frontend/onnx/composed.h"
#include "frontend/onnx/forks.h"
#include "frontend/onnx/matmul.h"
#include "frontend/onnx/run_time_axes.h"
#include "frontend/onnx/window.h"

namespace treadle::onnx {
namespace {

using relay::Expr;
using IntList = std::vector<int64_t>;

const DataType kInt64 = DataType::Int(64);

/// A list as scalars, none below `least`. `count`: how many entries it has to have, -1: any number.
std::vector<Term> Listed(NodeImport& n, size_t i, const char* name, int64_t least, int64_t count = -1) {
  Term list = In(n, i).As(kInt64);
  if (list.rank() != 1) n.Invalid(StrCat("'", name, "' isn't a vector"));
  if (AsConstInt(list.shape()[0]) == nullptr) {
    if (count < 0) throw UnknownLength{i, name};
    list = OfLength(list, count);
  }
  list = AtLeast(list, least, name);
  std::vector<Term> entries;
  for (int64_t k = 0; k < *AsConstInt(list.shape()[0]); ++k) entries.push_back(list.Element(k));
  return entries;
}

/// Columns, one for each place of a block, added up in an image: input, image_shape, block_shape.
Expr ImportCol2Im(NodeImport& n) {
  BlockPlaces at;
  at.image = Listed(n, 1, "image_shape", 0);
  const size_t rank = at.image.size();
  at.block = Listed(n, 2, "block_shape", 1, static_cast<int64_t>(rank));
  if (rank < 1 || at.block.size() != rank || n.Rank(0) != 3) n.Invalid("the operands' ranks don't fit");
  const IntList ones(rank, 1), pads = n.Ints("pads", IntList(2 * rank, 0));
  at.dilations = n.Ints("dilations", ones);
  at.strides = n.Ints("strides", ones);
  if (at.dilations.size() != rank || at.strides.size() != rank || pads.size() != 2 * rank)
    n.Invalid("attributes don't fit the rank");
  for (size_t d = 0; d < rank; ++d) {
    if (at.strides[d] < 1 || at.dilations[d] < 1) n.Invalid("a stride or dilation isn't positive");
    at.before.push_back(IntNum(n, pads[d]));
    at.after.push_back(IntNum(n, pads[rank + d]));
  }
  return ColumnsToImage(n, In(n, 0), at);
}

/// Elements back where a MaxPool took them from; the rest is 0. A given shape adds zeros at the ends.
Expr ImportMaxUnpool(NodeImport& n) {
  Term x = In(n, 0), indices = In(n, 1).As(kInt64);
  const int rank = x.rank();
  const IntList kernel = n.Ints("kernel_shape");
  const size_t spatial = kernel.size();
  if (rank != static_cast<int>(spatial) + 2) n.Invalid("'kernel_shape' doesn't fit the operand's rank");
  const IntList strides = n.Ints("strides", IntList(spatial, 1)), pads = n.Ints("pads", IntList(2 * spatial, 0));
  if (strides.size() != spatial || pads.size() != 2 * spatial) n.Invalid("attributes don't fit the rank");
  std::vector<Term> dims{DimOf(x, 0), DimOf(x, 1)};
  for (size_t d = 0; d < spatial; ++d) {
    Term reach = (DimOf(x, static_cast<int>(d) + 2) - 1) * static_cast<double>(strides[d]);
    dims.push_back(Max(reach + static_cast<double>(kernel[d] - pads[d] - pads[spatial + d]), 0));
  }
  Term size = IntNum(n, 1);
  for (const Term& dim : dims) size = size * dim;
  Term zeros = Full(x.Number(0), Stack({size}));
  // Not counted from the end, as those of Scatter are.
  indices = AtLeast(indices, 0, "index");
  Term y = ReshapeTo(Term(n, n.Call("scatter", {zeros, indices.Reshape({-1}), x.Reshape({-1})},
                                    {{"axis", int64_t{0}}, {"reduction", std::string("update")}})),
                     dims);
  if (!n.Has(2)) return y;
  std::vector<Term> wanted = Listed(n, 2, "output_shape", 0, rank), widths;
  if (wanted.size() != dims.size()) n.Invalid("'output_shape' has another rank");
  for (size_t d = 0; d < dims.size(); ++d) {
    widths.push_back(IntNum(n, 0));
    widths.push_back(wanted[d] - dims[d]);
  }
  return n.Call("dyn.nn.pad", {y, Stack(widths).Reshape({rank, 2}), x.Number(0)},
                {{"pad_mode", std::string("constant")}});
}

/// theta (N, d, d + 1), size (N, C, spatial) -> (N, spatial, d): where an affine map puts each point of a grid.
Expr ImportAffineGrid(NodeImport& n) {
  std::vector<Term> size = Listed(n, 1, "size", 0);
  if (size.size() < 4 || size.size() > 5) n.Invalid("'size' has to have 4 or 5 entries");
  if (n.Rank(0) != 3) n.Invalid(StrCat("'theta' has rank ", n.Rank(0), ", expected 3"));
  const size_t spatial = size.size() - 2;
  const auto d = static_cast<int64_t>(spatial);
  Term theta = WithSizes(In(n, 0), {-1, d, d + 1}, "theta");
  const auto wanted = n.KnownElements(size[0]);
  if (const int64_t* batch = AsConstInt(theta.shape()[0]); batch == nullptr || !wanted) {
    const Term checked = EqualTo(DimOf(theta, 0), size[0].Reshape({}), "number of transforms");
    theta = ReshapeTo(theta, {checked, IntNum(n, d), IntNum(n, d + 1)});
  } else if (wanted->front() != *batch) {
    n.Invalid(StrCat(*batch, " transforms for a batch of ", wanted->front()));
  }
  const bool align = n.Flag("align_corners", false);
  const DataType dtype = theta.dtype();
  std::optional<Term> grid;
  auto column = [&](size_t c) {  // (N, 1 .., d)
    const auto at = static_cast<int64_t>(c);
    return theta.Slice(2, at, at + 1).Squeeze({2}).Expand(1, static_cast<int>(spatial));
  };
  for (size_t axis = 0; axis < spatial; ++axis) {
    const Term count = size[axis + 2];
    Term i = Iota(count).As(dtype);
    Term points = align ? i * 2.0 / Max(count - 1, 1).As(dtype) - 1.0 : (i * 2.0 + 1.0) / Max(count, 1).As(dtype) - 1.0;
    // (1, .., points, .., 1)
    Term placed = points.Expand(1, static_cast<int>(spatial - axis)).Expand(0, static_cast<int>(axis) + 1);
    // The last dimension's coordinate is the first.
    Term term = placed * column(spatial - 1 - axis);
    grid = grid ? *grid + term : term;
  }
  return *grid + column(spatial);
}

/// Weights whose last dimensions are those of the kernel; the run checks those that only it knows.
Term WithKernel(const Term& weights, const IntList& kernel) {
  std::vector<Term> sizes;
  bool known = true;
  for (int i = 0; i < weights.rank(); ++i) {
    sizes.push_back(DimOf(weights, i));
    if (i < 2 || AsConstInt(weights.shape()[static_cast<size_t>(i)]) != nullptr) continue;
    known = false;
    sizes.back() =
        EqualTo(sizes.back(), IntNum(weights.node(), kernel[static_cast<size_t>(i) - 2]), "size of the weights");
  }
  return known ? weights : Term(weights.node(), ReshapeTo(weights, Stack(sizes)));
}

/// A convolution that reads at places that another one computed: X, W, offset, B, mask.
Expr ImportDeformConv(NodeImport& n) {
  if (n.Rank(0) != 4) n.Unsupported("deformable convolutions of other than two dimensions aren't implemented");
  if (n.Rank(1) != 4) n.Invalid(StrCat("the weights have rank ", n.Rank(1), ", expected 4"));
  Window w =
      ReadWindow(n, n.HasAttr("kernel_shape") ? IntList() : IntList{n.StaticDim(n.In(1), 2), n.StaticDim(n.In(1), 3)});
  RequireKnownPadding(n, w);
  const int64_t group = n.Int("group", 1), offset_group = n.Int("offset_group", 1), taps = w.kernel[0] * w.kernel[1];
  const int64_t* channels = AsConstInt(TypeOf(n.In(0))->shape[1]);
  auto divides = [](int64_t by, const int64_t* size) { return size == nullptr || *size % by == 0; };
  const int64_t *outputs = AsConstInt(TypeOf(n.In(1))->shape[0]), *inputs = AsConstInt(TypeOf(n.In(1))->shape[1]);
  if (group < 1 || offset_group < 1 || !divides(group, channels) || !divides(group, outputs) ||
      !divides(offset_group, channels) || (channels != nullptr && inputs != nullptr && *channels / group != *inputs)) {
    n.Invalid("the channels don't fit the groups");
  }
  for (size_t i = 0; i < 2; ++i) {
    const int64_t* size = AsConstInt(TypeOf(n.In(1))->shape[2 + i]);
    if (size != nullptr && *size != w.kernel[i]) n.Invalid("'kernel_shape' differs from the weights' shape");
  }
  for (size_t i = 0; i < 2; ++i) {
    const int64_t* size = AsConstInt(TypeOf(n.In(0))->shape[2 + i]);
    const int64_t* given = n.Rank(2) == 4 ? AsConstInt(TypeOf(n.In(2))->shape[2 + i]) : nullptr;
    if (size == nullptr || given == nullptr) continue;
    const int64_t expected = (*size + w.pads[i] + w.pads[2 + i] - w.Extent(i)) / w.strides[i] + 1;
    if (*given != expected) n.Invalid(StrCat("the offsets are for ", *given, " windows, the operand has ", expected));
  }
  Term mask = n.Has(4) ? In(n, 4) : Term(n, n.Scalar(n.DType(0), 1));
  Term columns(n, n.Call("nn.deformable_columns", {n.In(0), n.In(2), mask},
                         {{"kernel", w.kernel},
                          {"strides", w.strides},
                          {"dilations", w.dilations},
                          {"padding", w.pads},
                          {"groups", offset_group}}));  // (N, channels * taps, OH, OW)
  const auto window = static_cast<double>(taps);
  const Term weights = WithKernel(In(n, 1), w.kernel), count = DimOf(weights, 0);
  Term per_group = DimOf(weights, 1);
  if (channels == nullptr || inputs == nullptr) {
    const auto groups = static_cast<double>(group);
    per_group = FloorDiv(EqualTo(DimOf(In(n, 0), 1), per_group * groups, "number of channels"), groups);
  }
  const Term each = per_group * window;
  const Term places = DimOf(columns, 2) * DimOf(columns, 3);
  Term x = ReshapeTo(columns, {DimOf(columns, 0), IntNum(n, group), each, places});
  Term kernel = ReshapeTo(
      weights, {IntNum(n, 1), IntNum(n, group), DividedBy(count, group, "number of weights by 'group'"), each});
  Term y(n, MatMulAnyRank(n, kernel, x));  // (N, group, outputs, OH OW)
  y = ReshapeTo(y, {DimOf(columns, 0), count, DimOf(columns, 2), DimOf(columns, 3)});
  return n.Has(3) ? y + In(n, 3).Expand(1, 2) : y;
}

}  // namespace

void RegisterSamplingRules(RuleTable& table) {
  table.Add1("Col2Im", {18}, ImportCol2Im);
  table.Add1("MaxUnpool", {9, 11, 22}, ImportMaxUnpool);
  table.Add1("AffineGrid", {20}, ImportAffineGrid);
  table.Add1("DeformConv", {19, 22}, ImportDeformConv);
}

}  // namespace treadle::onnx
