// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/kernels/conv_compute.h"

#include <algorithm>

#include "ops/conv.h"
#include "ops/layout.h"
#include "ops/macs.h"
#include "ops/te_util.h"
#include "targets/cpu/kernels/conv_layout.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ops/compute.h"

namespace treadle::ops::cpu {

using te::Tensor;
using te::Var;

void SetConvProblem(const Conv2DAttrs* attrs, const Tensor& data, const Tensor& kernel, const TensorTypeNode* type,
                    ConvProblemNode* problem) {
  SetBlockedSizes(attrs, data->shape, type->shape, problem);
  problem->kh = DimValue(kernel->shape[2]);
  problem->kw = DimValue(kernel->shape[3]);
  problem->dtype = data->dtype;
  problem->weight_dtype = kernel->dtype;
  problem->out_dtype = type->dtype;
}

Type PackedConvInfer(const InferContext& context, DataType dtype, DataType sum) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<Conv2DAttrs>();
  if (data->dtype != dtype) throw DTypeError(StrCat("data must be ", dtype, ", not ", data->dtype));
  if (!attrs->out_dtype.is_void() && attrs->out_dtype != sum) {
    throw DTypeError(StrCat("out_dtype must be ", sum, ", that of the sums, not ", attrs->out_dtype));
  }
  if (!attrs->channels || !attrs->kernel_size) throw ShapeError("channels and kernel_size must be given");
  const ConvSizes sizes = ResolveConv(attrs, 2, data->shape, data->dtype, nullptr);
  RequireSizes(context, sizes, attrs);
  return TensorType(PhysicalShape(attrs->ParsedOutLayout(), sizes.out, "NCHW"), sum);
}

void CheckWords(const Array<PrimExpr>& shape, DataType dtype, const Array<PrimExpr>& wanted) {
  bool same = dtype == DataType::Int(32) && shape.size() == wanted.size();
  for (size_t d = 0; same && d < wanted.size(); ++d) same = DimValue(shape[d]) == DimValue(wanted[d]);
  if (same) return;
  throw ShapeError(StrCat("weight must be int32 of ", ShapeText(wanted), ", not ", dtype, " of ", ShapeText(shape)));
}

Type WordConvInfer(const InferContext& context, DataType dtype, int64_t each, DataType sum) {
  constexpr size_t kBlockedRank = 5;
  const auto* weight = context.Tensor(1, "weight");
  Type result = PackedConvInfer(context, dtype, sum);
  const auto* a = context.attrs<Conv2DAttrs>();
  const Array<PrimExpr>&data = context.Tensor(0, "data")->shape, &out = result.as<TensorTypeNode>()->shape;
  if (data.size() != kBlockedRank || out.size() != kBlockedRank) {
    throw ShapeError("data and result must have blocks of channels");
  }
  const int64_t inputs = DimValue(data[1]), block = DimValue(data[4]), outputs = DimValue(out[1]);
  if (inputs < 1 || inputs % a->groups != 0 || outputs % a->groups != 0 || block % each != 0) {
    throw ShapeError(StrCat("groups must be of whole blocks of known channels, and blocks of the ", each,
                            " channels of a word: ", a->groups, " for data ", ShapeText(data), " and result ",
                            ShapeText(out)));
  }
  CheckWords(weight->shape, weight->dtype,
             {out[1], Index(inputs / a->groups), Index((*a->kernel_size)[0]), Index((*a->kernel_size)[1]),
              Index(block / each), out[4]});
  return result;
}

double PackedConvMacs(const Attrs& attrs, const Array<Type>& arguments, const Type& result) {
  const auto* a = attrs.as<Conv2DAttrs>();
  const Array<PrimExpr> data = LogicalShape(a->ParsedDataLayout(), ShapeOf(arguments[0]), "NCHW", "data");
  double macs = Elements(ShapeOf(result)) * static_cast<double>(std::max<int64_t>(1, DimValue(data[1]) / a->groups));
  for (int64_t taps : *a->kernel_size) macs *= static_cast<double>(taps);
  return macs;
}

void CheckBlocked(const Tensor& data, const Tensor& kernel, const TensorTypeNode* type, bool one_block) {
  const bool plain = !one_block && data.ndim() == 4;
  const size_t rank = plain || one_block ? 5 : 6;
  auto differ = [](const PrimExpr& a, const PrimExpr& b) { return DimValue(a) != DimValue(b); };
  bool fits = (plain || data.ndim() == 5) && kernel.ndim() == rank && type->shape.size() == 5;
  fits = fits && !differ(kernel->shape[rank - 1], type->shape[4]);
  fits = fits && (plain || !differ(kernel->shape[4], data->shape[4]));
  if (!fits) {
    throw ShapeError(StrCat("the layouts of data ", ShapeText(data->shape), ", weight ", ShapeText(kernel->shape),
                            " and result ", ShapeText(type->shape), " aren't those of one block of channels"));
  }
}

Tensor Widened(const Tensor& data, DataType dtype) {
  if (data->dtype == dtype) return data;
  return Compute(
      data->shape, [&](const Array<PrimExpr>& i) { return tir::cast(dtype, data(i)); }, "widened", tag::kInjective);
}

Tensor PadSpatial(const Tensor& data, const std::vector<int64_t>& pads, const std::string& kernel,
                  const PrimExpr& value, size_t rows) {
  if (pads[0] + pads[1] + pads[2] + pads[3] == 0) return data;
  const size_t columns = rows + 1;
  Array<PrimExpr> shape = data->shape;
  const PrimExpr height = shape[rows], width = shape[columns];
  shape.Set(rows, height + (pads[0] + pads[2]));
  shape.Set(columns, width + (pads[1] + pads[3]));
  return te::Compute(
      shape,
      [&](const Array<Var>& i) {
        Array<PrimExpr> at(i.begin(), i.end());
        const PrimExpr h = at[rows] - pads[0], w = at[columns] - pads[1];
        const PrimExpr inside = at[rows] >= pads[0] && h < height && at[columns] >= pads[1] && w < width;
        at.Set(rows, h);
        at.Set(columns, w);
        return tir::if_then_else(inside, data(at), value.defined() ? value : tir::make_zero(data->dtype));
      },
      "pad", tag::kPad, StageAttrs(kernel, "pad"));
}

ConvReduceAxes::ConvReduceAxes(const Conv2DAttrs* attrs, const Tensor& kernel)
    : ic(te::ReduceAxis(tir::Range(kernel->shape[1]), "ic")),
      kh(te::ReduceAxis(tir::Range(kernel->shape[2]), "kh")),
      kw(te::ReduceAxis(tir::Range(kernel->shape[3]), "kw")),
      ii(te::ReduceAxis(tir::Range(kernel->shape[4]), "ici")),
      outputs(tir::floordiv(kernel->shape[0], PrimExpr(int64_t{attrs->groups}))),
      inputs(kernel->shape[1]),
      grouped(attrs->groups > 1) {}

namespace {

/// The elements that a strided window of one element meets, next to each other.
Tensor PackStrided(const Conv2DAttrs* a, const Tensor& data, const TensorTypeNode* type) {
  return te::Compute(
      {data->shape[0], data->shape[1], type->shape[2], type->shape[3], data->shape[4]},
      [&](const Array<Var>& i) {
        return data(Array<PrimExpr>{i[0], i[1], PrimExpr(i[2]) * a->strides[0], PrimExpr(i[3]) * a->strides[1], i[4]});
      },
      "pack_strided", tag::kPad, StageAttrs(kDirectConv, "pad"), {"n", "cb", "h", "w", "ci"});
}

}  // namespace

Array<Tensor> DirectConvSums(const Problem& problem, const Conv2DAttrs* attrs, const Tensor& data, const Tensor& kernel,
                             const TensorTypeNode* type, const ConvReduceAxes& axes, const ConvTerm& term) {
  std::vector<int64_t> strides = attrs->strides;
  Tensor from = data;
  auto sum = [&](const PrimExpr& n, const PrimExpr& oc, const PrimExpr& oh, const PrimExpr& ow, const PrimExpr& lane) {
    const PrimExpr row = oh * strides[0] + PrimExpr(axes.kh->var) * attrs->dilation[0];
    const PrimExpr column = ow * strides[1] + PrimExpr(axes.kw->var) * attrs->dilation[1];
    return te::Sum(term(from, n, oc, row, column, lane), axes.Axes());
  };
  if (!FusesSpatial(*problem.as<ConvProblemNode>())) {
    return {te::Compute(type->shape, [&](const Array<Var>& i) { return sum(i[0], i[1], i[2], i[3], i[4]); },
                        "conv2d_NCHWc", "conv2d_NCHWc", AnchorAttrs(kDirectConv, "sum", problem),
                        {"n", "oc", "oh", "ow", "oci"})};
  }
  const PrimExpr width = type->shape[3];
  if (tir::is_one(kernel->shape[2]) && tir::is_one(kernel->shape[3]) && strides != std::vector<int64_t>{1, 1}) {
    from = PackStrided(attrs, data, type);
    strides = {1, 1};
  }
  const Tensor flat = te::Compute(
      {type->shape[0], type->shape[1], type->shape[2] * width, type->shape[4]},
      [&](const Array<Var>& i) {
        return sum(i[0], i[1], tir::floordiv(i[2], width), tir::floormod(i[2], width), i[3]);
      },
      "conv2d_NCHWc", "conv2d_NCHWc_flat", AnchorAttrs(kDirectConv, "sum", problem), {"n", "oc", "pixel", "oci"});
  return {te::Compute(
      type->shape,
      [&](const Array<Var>& i) { return flat(Array<PrimExpr>{i[0], i[1], PrimExpr(i[2]) * width + i[3], i[4]}); },
      "conv2d_NCHWc_output", tag::kInjective, {}, {"n", "oc", "oh", "ow", "oci"})};
}

}  // namespace treadle::ops::cpu
