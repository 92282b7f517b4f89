// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/conv_any_weights.h"

#include <algorithm>

#include "frontend/onnx/checked_values.h"
#include "frontend/onnx/columns.h"
#include "frontend/onnx/matmul.h"
#include "frontend/onnx/window.h"

namespace treadle::onnx {
namespace {

using Ints = std::vector<int64_t>;

constexpr const char *kChannels = "number of channels by 'group'", *kOutputs = "number of weights by 'group'";

/// What the node says of its window; sizes are int64 scalars.
struct AnyWindow {
  size_t spatial = 0;
  int64_t groups = 1;
  Ints strides, dilations;
  std::vector<Term> kernel, extent;
  std::vector<Term> before, after;  ///< padding
};

Term Product(NodeImport& n, const std::vector<Term>& factors) {
  Term product = IntNum(n, 1);
  for (const Term& factor : factors) product = product * factor;
  return product;
}

/// `total` at begin and end, one more at the end where `upper`.
void AddPadding(AnyWindow& w, const Term& total, bool upper) {
  const Term less = FloorDiv(total, 2), more = total - less;
  w.before.push_back(upper ? less : more);
  w.after.push_back(upper ? more : less);
}

/// All but the padding of auto_pad SAME, for which `before` and `after` stay empty.
AnyWindow ReadAnyWindow(NodeImport& n, const Term& x, const Term& weights) {
  if (weights.rank() != x.rank()) {
    n.Invalid(StrCat("the weights have rank ", weights.rank(), ", the operand ", x.rank()));
  }
  if (x.rank() < 3 || x.rank() > 5)
    n.Unsupported(StrCat("operands of rank ", x.rank(), " aren't implemented (3 to 5 are)"));
  AnyWindow w;
  w.spatial = static_cast<size_t>(x.rank()) - 2;
  w.groups = n.Int("group", 1);
  if (w.groups < 1) n.Invalid(StrCat("'group' is ", w.groups));
  w.strides = WindowSizes(n, "strides", w.spatial, 1);
  w.dilations = WindowSizes(n, "dilations", w.spatial, 1);
  Ints given;
  if (n.HasAttr("kernel_shape")) given = WindowSizes(n, "kernel_shape", w.spatial, 1);
  for (size_t i = 0; i < w.spatial; ++i) {
    const int axis = static_cast<int>(i) + 2;
    Term size = AtLeast(DimOf(weights, axis), 1, "size of the weights");
    if (!given.empty()) {
      const int64_t* known = AsConstInt(weights.shape()[i + 2]);
      if (known != nullptr && *known != given[i]) n.Invalid("'kernel_shape' differs from the weights' shape");
      if (known == nullptr) size = EqualTo(size, IntNum(n, given[i]), "size of the weights");
    }
    w.kernel.push_back(size);
    w.extent.push_back((size - 1) * static_cast<double>(w.dilations[i]) + 1);
  }
  const std::string auto_pad = n.Str("auto_pad", "NOTSET");
  if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
    n.Ignore({"pads"});
    return w;
  }
  Ints pads(2 * w.spatial, 0);
  if (auto_pad == "VALID") {
    n.Ignore({"pads"});
  } else if (auto_pad == "NOTSET" || auto_pad.empty()) {
    pads = WindowSizes(n, "pads", 2 * w.spatial, 0);
  } else {
    n.Invalid(StrCat("'auto_pad' is ", QuoteName(auto_pad)));
  }
  for (size_t i = 0; i < w.spatial; ++i) {
    w.before.push_back(IntNum(n, pads[i]));
    w.after.push_back(IntNum(n, pads[w.spatial + i]));
  }
  return w;
}

/// `x` with zeros around its spatial dimensions.
Term Padded(NodeImport& n, const Term& x, const std::vector<Term>& before, const std::vector<Term>& after) {
  Ints known_before(2, 0), known_after(2, 0);
  std::vector<Term> widths(4, IntNum(n, 0));
  bool known = true, none = true;
  for (size_t i = 0; i < before.size(); ++i) {
    const auto begin = n.KnownElements(before[i]), end = n.KnownElements(after[i]);
    known = known && begin && end;
    known_before.push_back(begin ? begin->front() : 0);
    known_after.push_back(end ? end->front() : 0);
    none = none && known && known_before.back() == 0 && known_after.back() == 0;
    widths.push_back(before[i]);
    widths.push_back(after[i]);
  }
  if (none) return x;
  if (known) return {n, n.Pad(x, known_before, known_after, x.Number(0), "constant")};
  return {n, n.Call("dyn.nn.pad", {x, Stack(widths).Reshape({x.rank(), 2}), x.Number(0)},
                    {{"pad_mode", std::string("constant")}})};
}

/// x [N, C, spatial..] (padded) as [N, C, kernel.., places..]: what the window sees at each place.
Term Windows(Term x, const AnyWindow& w, std::vector<Term>* places) {
  Ints order{0, 1};
  for (size_t i = 0; i < w.spatial; ++i) {
    const int axis = static_cast<int>(2 * i) + 2;
    const Term room = DimOf(x, axis) - w.extent[i];
    const auto stride = static_cast<double>(w.strides[i]), dilation = static_cast<double>(w.dilations[i]);
    const Term count = FloorDiv(AtLeast(room, 0, "size of the operand less that of the window"), stride) + 1;
    const Term seen = (Iota(w.kernel[i]) * dilation).Expand(1) + (Iota(count) * stride).Expand(0);
    x = x.Op("take", seen, {{"axis", int64_t{axis}}, {"mode", std::string("clip")}});
    places->push_back(count);
    order.push_back(axis);
  }
  for (size_t i = 0; i < w.spatial; ++i) order.push_back(static_cast<int64_t>(2 * i) + 3);
  return x.Permute(order);
}

}  // namespace

bool HasUnknownDim(const relay::Expr& weights) {
  const Array<PrimExpr>& shape = TypeOf(weights)->shape;
  return std::any_of(shape.begin(), shape.end(), [](const PrimExpr& dim) { return AsConstInt(dim) == nullptr; });
}

Term ConvOfAnyWeights(NodeImport& n, const Term& x, const Term& weights) {
  AnyWindow w = ReadAnyWindow(n, x, weights);
  if (w.before.empty()) {
    const bool upper = n.Str("auto_pad") == "SAME_UPPER";
    for (size_t i = 0; i < w.spatial; ++i) {
      const Term size = DimOf(x, static_cast<int>(i) + 2);
      const auto stride = static_cast<double>(w.strides[i]);
      AddPadding(w, Max((FloorDiv(size + (stride - 1), stride) - 1) * stride + w.extent[i] - size, 0), upper);
    }
  }
  std::vector<Term> places;
  const Term seen = Windows(Padded(n, x, w.before, w.after), w, &places);
  const Term batch = DimOf(x, 0), taps = Product(n, w.kernel), outputs = DimOf(weights, 0), count = IntNum(n, w.groups);
  const Term columns =
      ReshapeTo(seen, {batch, count, DividedBy(DimOf(x, 1), w.groups, kChannels) * taps, Product(n, places)});
  const Term rows = ReshapeTo(weights, {count, DividedBy(outputs, w.groups, kOutputs), DimOf(weights, 1) * taps});
  std::vector<Term> dims{batch, outputs};
  dims.insert(dims.end(), places.begin(), places.end());
  return ReshapeTo({n, MatMulAnyRank(n, rows, columns)}, dims);
}

Term ConvTransposeOfAnyWeights(NodeImport& n, const Term& x, const Term& weights) {
  AnyWindow w = ReadAnyWindow(n, x, weights);
  const Ints added = WindowSizes(n, "output_padding", w.spatial, 0);
  const auto shape = n.OptInts("output_shape");
  const bool same = w.before.empty(), upper = same && n.Str("auto_pad") == "SAME_UPPER";
  if (shape && shape->size() != w.spatial && shape->size() != w.spatial + 2) {
    n.Invalid("'output_shape' has the wrong number of entries");
  }
  if (same || shape) w.before.clear(), w.after.clear();
  BlockPlaces at;
  std::vector<Term> zeros;  // behind the image: where output_padding reaches beyond the last window
  for (size_t i = 0; i < w.spatial; ++i) {
    const auto stride = static_cast<double>(w.strides[i]);
    const Term all = (DimOf(x, static_cast<int>(i) + 2) - 1) * stride + w.extent[i];  // without padding
    Term more = IntNum(n, added[i]);
    if (same || shape) {
      Term total = w.extent[i] + (static_cast<double>(added[i]) - stride);
      if (shape) total = all + static_cast<double>(added[i] - (*shape)[shape->size() - w.spatial + i]);
      more = more + Max(total * -1.0, 0);
      AddPadding(w, Max(total, 0), upper);
    }
    const Term cut = Min(more, w.after[i]);
    at.before.push_back(w.before[i]);
    at.after.push_back(w.after[i] - cut);
    at.image.push_back(AtLeast(all - at.before[i] - at.after[i], 0, "size of the result"));
    zeros.push_back(more - cut);
  }
  at.block = w.kernel;
  at.strides = w.strides;
  at.dilations = w.dilations;
  const Term batch = DimOf(x, 0), taps = Product(n, w.kernel), inputs = DimOf(x, 1), count = IntNum(n, w.groups);
  std::vector<Term> sizes;
  for (int i = 2; i < x.rank(); ++i) sizes.push_back(DimOf(x, i));
  const Term pixels = ReshapeTo(x, {batch, count, DividedBy(inputs, w.groups, kChannels), Product(n, sizes)});
  const Term per_group = DimOf(weights, 1) * taps;
  const Term columns =
      ReshapeTo(weights, {count, DividedBy(DimOf(weights, 0), w.groups, kOutputs), per_group}).Permute({0, 2, 1});
  const Term product(n, MatMulAnyRank(n, columns, pixels));  // [N, groups, O / groups * taps, pixels]
  const Term image = ColumnsToImage(n, ReshapeTo(product, {batch, count * per_group, Product(n, sizes)}), at);
  return Padded(n, image, std::vector<Term>(w.spatial, IntNum(n, 0)), zeros);
}

}  // namespace treadle::onnx
