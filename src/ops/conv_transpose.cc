// SPDX-License-Identifier: Apache-2.0
// Transposed convolutions. Semantics: ONNX ConvTranspose-1 to ConvTranspose-22.
#include <algorithm>

#include "ops/conv.h"
#include "ops/families.h"
#include "ops/infer.h"
#include "ops/layout.h"
#include "ops/macs.h"
#include "ops/te_util.h"
#include "treadle/base/checked_math.h"
#include "treadle/base/int_math.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/ops/compute.h"
#include "treadle/relay/rewrite_rules.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(ConvTransposeAttrs);
TREADLE_DEFINE_NODE(Conv1DTransposeAttrs);
TREADLE_DEFINE_NODE(Conv2DTransposeAttrs);
TREADLE_DEFINE_NODE(Conv3DTransposeAttrs);

Layout ConvTransposeAttrs::ParsedKernelLayout() const {
  const Layout layout(kernel_layout);
  if (layout.ndim() < 2 || layout[0].name != 'O' || layout[1].name != 'I') return layout;
  return Layout("IO" + layout.str().substr(2));
}

namespace {

struct TransposeSizes {
  Array<PrimExpr> data, weight, out;  ///< N C spatial; I O spatial
  std::vector<int64_t> kernel, padding, output_padding;
  bool resolved = false;
};

TransposeSizes Resolve(const ConvTransposeAttrs* attrs, size_t rank, const Array<PrimExpr>& data,
                       const Array<PrimExpr>* weight) {
  TransposeSizes sizes;
  std::string spatial = SpatialNames(rank);
  CheckSpatial(attrs->strides, rank, 1, "strides");
  CheckSpatial(attrs->dilation, rank, 1, "dilation");
  sizes.output_padding = attrs->output_padding;
  if (sizes.output_padding.size() == 1) sizes.output_padding.resize(rank, sizes.output_padding[0]);
  CheckSpatial(sizes.output_padding, rank, 0, "output_padding");
  if (attrs->groups < 1) throw ShapeError(StrCat("groups must be at least 1, is ", attrs->groups));
  sizes.padding = NormalizePadding(attrs->padding, rank, true);
  const Layout data_layout = attrs->ParsedDataLayout();
  for (char name : spatial) {
    if (data_layout.BlockOf(name) == 1) continue;
    throw ShapeError(StrCat("transposed convolution in layout ", data_layout.str(), " isn't implemented"));
  }
  sizes.data = LogicalShape(data_layout, data, "NC" + spatial, "data");
  if (weight != nullptr) sizes.weight = LogicalShape(attrs->ParsedKernelLayout(), *weight, "IO" + spatial, "weight");
  if (weight == nullptr && !(attrs->channels.has_value() && attrs->kernel_size.has_value())) return sizes;

  PrimExpr in_channels = sizes.data[1];
  int64_t groups = attrs->groups;
  if (DimValue(in_channels) >= 0 && DimValue(in_channels) % groups != 0) {
    throw ShapeError(StrCat("groups ", groups, " doesn't divide the input's ", DimValue(in_channels), " channels"));
  }
  PrimExpr channels = attrs->channels.has_value() ? Dim(*attrs->channels) : DimMul(sizes.weight[1], Dim(groups));
  if (AsConstInt(channels) != nullptr && (DimValue(channels) < 0 || DimValue(channels) % groups != 0)) {
    throw ShapeError(StrCat("groups ", groups, " doesn't divide the ", DimValue(channels), " output channels"));
  }
  for (size_t i = 0; i < rank; ++i) {
    if (attrs->kernel_size.has_value()) CheckSpatial(*attrs->kernel_size, rank, 1, "kernel_size");
    int64_t k = attrs->kernel_size.has_value() ? (*attrs->kernel_size)[i] : DimValue(sizes.weight[2 + i]);
    if (k < 1) throw ShapeError("the weight's window must be of constant, positive size");
    sizes.kernel.push_back(k);
  }
  sizes.weight = {in_channels, DimFloorDiv(channels, Dim(groups))};
  sizes.out = {sizes.data[0], channels};
  for (size_t i = 0; i < rank; ++i) {
    sizes.weight.push_back(Dim(sizes.kernel[i]));
    if (sizes.output_padding[i] >= std::max(attrs->strides[i], attrs->dilation[i])) {
      throw ShapeError(StrCat("output_padding ", sizes.output_padding[i], " must be less than the stride or dilation"));
    }
    int64_t span = CheckedAdd<int64_t>(CheckedMul(sizes.kernel[i] - 1, attrs->dilation[i], "dilated kernel"), 1);
    int64_t pad = CheckedAdd(sizes.padding[i], sizes.padding[rank + i], "padding");
    // (in - 1) * stride + span + output_padding - pad
    int64_t offset = span + sizes.output_padding[i] - pad - attrs->strides[i];
    PrimExpr out = DimAdd(DimMul(sizes.data[2 + i], Dim(attrs->strides[i])), Dim(offset));
    if (AsConstInt(out) != nullptr && DimValue(out) < 0) {
      throw ShapeError(StrCat("padding ", pad, " removes more than all of spatial dimension ", i));
    }
    sizes.out.push_back(out);
  }
  sizes.resolved = true;
  return sizes;
}

template <size_t kRank>
Type ConvTransposeInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<ConvTransposeAttrs>();
  bool known = IsKnown(context.type(1));
  const auto* weight = known ? context.Tensor(1, "weight") : nullptr;
  TransposeSizes sizes = Resolve(attrs, kRank, data->shape, known ? &weight->shape : nullptr);
  if (!sizes.resolved) return Type();
  if (known) CheckSameDType(data, weight);
  for (size_t i = 0; i < kRank; ++i) RequireAtLeast(context, sizes.out[2 + i], Dim(0));
  std::string spatial = SpatialNames(kRank);
  context.Expect(1, TensorType(PhysicalShape(attrs->ParsedKernelLayout(), sizes.weight, "IO" + spatial), data->dtype));
  return TensorType(PhysicalShape(attrs->ParsedOutLayout(), sizes.out, "NC" + spatial),
                    ConvOutDType(data->dtype, attrs->out_dtype));
}

/// One spatial dimension. Output y = stride * q + phase - pad, q from `first` on, sums over `taps` elements of the
/// input, of which element q - t meets tap phase + stride * t of the kernel, where both exist.
struct Phase {
  int64_t stride, taps, first, before, after, pad, kernel, dilation;

  Phase(const ConvTransposeAttrs* attrs, const TransposeSizes& sizes, size_t rank, size_t i)
      : stride(attrs->strides[i]), pad(sizes.padding[i]), kernel(sizes.kernel[i]), dilation(attrs->dilation[i]) {
    int64_t span = (kernel - 1) * dilation + 1;
    taps = CeilDiv(span, stride);
    first = FloorDivInt(pad, stride);
    before = taps - 1 - first;
    after = FloorDivInt(span + sizes.output_padding[i] - sizes.padding[rank + i] - 1, stride);
  }
  bool exact() const { return dilation == 1 && taps * stride == kernel; }
  /// Whether tap t of a phase is one of the kernel.
  PrimExpr IsTap(const PrimExpr& phase, const PrimExpr& t) const {
    const PrimExpr at = phase + t * stride;
    const PrimExpr inside = at < (kernel - 1) * dilation + 1;
    return dilation == 1 ? inside : inside && tir::equal(tir::floormod(at, Index(dilation)), 0);
  }
};

PrimExpr AllOf(const PrimExpr& conditions, const PrimExpr& more) {
  return conditions.defined() ? conditions && more : more;
}

/// The weight (I, O / groups, phases, taps), with zeros where a phase has fewer taps than the others.
Tensor PhaseWeight(const Tensor& weight, const Layout& layout, const std::string& names,
                   const std::vector<Phase>& phases) {
  Array<PrimExpr> logical = LogicalShape(layout, weight->shape, names, "weight");
  size_t rank = phases.size();
  Array<PrimExpr> shape = {logical[0], logical[1]};
  for (const Phase& p : phases) shape.push_back(Dim(p.stride));
  for (const Phase& p : phases) shape.push_back(Dim(p.taps));
  return Compute(
      shape,
      [&](const Array<PrimExpr>& i) {
        Array<PrimExpr> at = {i[0], i[1]};
        PrimExpr valid;
        for (size_t d = 0; d < rank; ++d) {
          PrimExpr tap = i[2 + d] + i[2 + rank + d] * phases[d].stride;
          if (!phases[d].exact()) valid = AllOf(valid, phases[d].IsTap(i[2 + d], i[2 + rank + d]));
          at.push_back(phases[d].dilation == 1 ? tap : tir::floordiv(tap, Index(phases[d].dilation)));
        }
        PrimExpr value = weight(PhysicalIndex(layout, at, names));
        return valid.defined() ? tir::if_then_else(valid, value, tir::make_zero(weight->dtype)) : value;
      },
      "phase_weight", tag::kInjective);
}

/// The output, from sums (N, C, phases, steps).
Tensor Interleave(const Tensor& sum, const TensorTypeNode* out, const Layout& layout, const std::string& names,
                  const std::vector<Phase>& phases) {
  return Compute(
      out->shape,
      [&](const Array<PrimExpr>& index) {
        Array<PrimExpr> i = LogicalIndex(layout, index, names);
        Array<PrimExpr> at = {i[0], i[1]};
        Array<PrimExpr> step;
        for (size_t d = 0; d < phases.size(); ++d) {
          PrimExpr y = phases[d].pad == 0 ? i[2 + d] : i[2 + d] + phases[d].pad;
          bool strided = phases[d].stride > 1;
          at.push_back(strided ? tir::floormod(y, Index(phases[d].stride)) : Index(0));
          PrimExpr q = strided ? tir::floordiv(y, Index(phases[d].stride)) : y;
          step.push_back(phases[d].first == 0 ? q : q - phases[d].first);
        }
        for (const PrimExpr& q : step) at.push_back(q);
        return tir::cast(out->dtype, sum(at));
      },
      StrCat("conv", phases.size(), "d_transpose_interleave"), tag::kInjective);
}

/// Each phase of the stride is a convolution with part of the kernel's taps; the result interleaves them. No product
/// with the zeros that a dilated input would have is computed.
template <size_t kRank>
Array<Tensor> ConvTransposeCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<ConvTransposeAttrs>();
  const TensorTypeNode* out = OutTensor(out_type);
  TransposeSizes sizes = Resolve(a, kRank, inputs[0]->shape, &inputs[1]->shape);
  std::string names = "NC" + SpatialNames(kRank);
  const Layout data_layout = a->ParsedDataLayout(), out_layout = a->ParsedOutLayout();
  std::vector<Phase> phases;
  std::vector<int64_t> before(data_layout.ndim(), 0), after(data_layout.ndim(), 0), taps;
  Array<PrimExpr> shape = {sizes.out[0], sizes.out[1]};
  Array<PrimExpr> steps;
  for (size_t i = 0; i < kRank; ++i) {
    Phase p(a, sizes, kRank, i);
    auto at = static_cast<size_t>(data_layout.IndexOf(names[2 + i]));
    before[at] = p.before;
    after[at] = p.after;
    taps.push_back(p.taps);
    shape.push_back(Dim(p.stride));
    steps.push_back(DimAdd(sizes.data[2 + i], Dim(p.after - p.first)));
    phases.push_back(p);
  }
  for (const PrimExpr& step : steps) shape.push_back(step);
  Tensor data = Pad(inputs[0], before, after, tir::make_zero(inputs[0]->dtype));
  Tensor weight = PhaseWeight(inputs[1], a->ParsedKernelLayout(), "IO" + SpatialNames(kRank), phases);

  DataType dtype = AccumulatorDType(out->dtype);
  PrimExpr in_per_group = DimFloorDiv(sizes.data[1], Dim(a->groups));
  PrimExpr out_per_group = sizes.weight[1];
  te::IterVar ic = te::ReduceAxis(tir::Range(in_per_group), "ic");
  Array<te::IterVar> tap_axes = ReduceAxes(taps, "t");
  Array<te::IterVar> axes = {ic};
  for (const te::IterVar& axis : tap_axes) axes.push_back(axis);
  Tensor sum = Compute(
      shape,
      [&](const Array<PrimExpr>& i) {
        PrimExpr channel = ic->var;
        PrimExpr filter = i[1];
        if (a->groups > 1) {
          channel = tir::floordiv(i[1], out_per_group) * in_per_group + channel;
          filter = tir::floormod(i[1], out_per_group);
        }
        Array<PrimExpr> from = {i[0], channel};
        Array<PrimExpr> with = {channel, filter};
        for (size_t d = 0; d < kRank; ++d) {
          with.push_back(i[2 + d]);
          from.push_back(i[2 + kRank + d] - tap_axes[d]->var + (taps[d] - 1));
        }
        for (const te::IterVar& axis : tap_axes) with.push_back(axis->var);
        PrimExpr x = data(PhysicalIndex(data_layout, from, names));
        PrimExpr product = tir::cast(dtype, x) * tir::cast(dtype, weight(with));
        // Zeros in place of taps and elements that don't exist would make NaN of what isn't finite.
        if (dtype.is_floating()) {
          PrimExpr exists;
          for (size_t d = 0; d < kRank; ++d) {
            const Phase& p = phases[d];
            if (!p.exact()) exists = AllOf(exists, p.IsTap(i[2 + d], tap_axes[d]->var));
            const PrimExpr element = from[2 + d] - p.before;
            if (p.before > 0) exists = AllOf(exists, element >= 0);
            if (p.after > 0) exists = AllOf(exists, element < sizes.data[2 + d]);
          }
          if (exists.defined()) product = tir::select(exists, product, tir::make_zero(dtype));
        }
        return te::Sum(product, axes);
      },
      StrCat("conv", kRank, "d_transpose"), tag::kConvTranspose);
  return {Interleave(sum, out, out_layout, names, phases)};
}

/// Each element of the input meets the window of each output channel of its group.
template <size_t kRank>
double ConvTransposeMacs(const Attrs& attrs, const Array<Type>& arguments, const Type&) {
  TransposeSizes sizes = Resolve(attrs.as<ConvTransposeAttrs>(), kRank, ShapeOf(arguments[0]), &ShapeOf(arguments[1]));
  double per_input = static_cast<double>(DimValue(sizes.weight[1]));
  for (int64_t taps : sizes.kernel) per_input *= static_cast<double>(taps);
  return Elements(ShapeOf(arguments[0])) * per_input;
}

template <typename AttrsT, size_t kRank>
OpRegistration RegisterConvTranspose(const char* name) {
  return OpRegistration(name)
      .Describe("Transposed convolution: the gradient of a convolution with respect to its input.")
      .Arguments(
          {{"data", "Tensor", "The input, in data_layout."}, {"weight", "Tensor", "The kernel, in kernel_layout."}})
      .AttrsType<AttrsT>()
      .SupportLevel(2)
      .Relation(Rule<ConvTransposeInfer<kRank>, 1>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable)
      .Set(relay::kMacCount, relay::FMacCount(ConvTransposeMacs<kRank>))
      .Set(kCompute, FTECompute(ConvTransposeCompute<kRank>));
}

}  // namespace

void RegisterConvTransposeOps() {
  RegisterConvTranspose<Conv1DTransposeAttrs, 1>("nn.conv1d_transpose");
  RegisterConvTranspose<Conv2DTransposeAttrs, 2>("nn.conv2d_transpose")
      .Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kAlways);
  RegisterConvTranspose<Conv3DTransposeAttrs, 3>("nn.conv3d_transpose");
}

}  // namespace treadle::ops
