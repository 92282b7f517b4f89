// SPDX-License-Identifier: Apache-2.0
// Products of quantised tensors: exact sums in int32 of (data - data zero point) * (weight - weight zero point).
//
// Written with plain operators they multiply bytes as they are, uint8 data by int8 weights, which is what processors
// have instructions for; what zero points contribute is added to the sums:
//   sum((x - zx)(w - zw)) = sum(x w) - zx sum(w) - zw sum(x - zx).
// Sums of weights are known when compiling, and weights mostly have zero point 0. int8 data get 128 added, uint8
// weights subtracted, and their zero points as well.
#include <algorithm>
#include <numeric>

#include "ops/conv.h"
#include "ops/families.h"
#include "ops/infer.h"
#include "ops/macs.h"
#include "ops/qnn.h"
#include "ops/te_util.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/compute.h"

namespace treadle::ops {
namespace qnn {
namespace {

using relay::Expr;
using Ints = std::vector<int64_t>;

const DataType kInt32 = DataType::Int(32);

/// What the operator of plain tensors infers for the first two operands, with sums in int32.
template <typename AttrsT>
bool ProductRelation(const char* plain, const Array<Type>& types, const Attrs& attrs, TypeReporter& reporter) {
  const auto* own = attrs.as<AttrsT>();
  if (own == nullptr || types.size() < 7) {
    reporter.Error(StrCat("needs attributes of class ", AttrsT::kTypeKey, " and six operands"));
    return true;
  }
  for (size_t i = 0; i < 2; ++i) {
    if (!IsKnown(types[i])) return false;
    const auto* tensor = types[i].as<TensorTypeNode>();
    if (tensor == nullptr || !tensor->dtype.is_integral() || tensor->dtype.bits() != 8) {
      reporter.Error(StrCat("operand ", i, " must be a tensor of int8 or uint8"));
      return true;
    }
  }
  auto sums = MakeObject<AttrsT>(*own);
  sums->out_dtype = kInt32;
  return Op::Get(plain)->type_relation({types[0], types[1], types[types.size() - 1]}, 2, Attrs(ObjectPtr<Object>(sums)),
                                       reporter);
}

bool DenseRelation(const Array<Type>& types, int, const Attrs& attrs, TypeReporter& reporter) {
  return ProductRelation<DenseAttrs>("nn.dense", types, attrs, reporter);
}
bool MatmulRelation(const Array<Type>& types, int, const Attrs& attrs, TypeReporter& reporter) {
  return ProductRelation<MatmulAttrs>("nn.matmul", types, attrs, reporter);
}
bool BatchMatmulRelation(const Array<Type>& types, int, const Attrs& attrs, TypeReporter& reporter) {
  return ProductRelation<BatchMatmulAttrs>("nn.batch_matmul", types, attrs, reporter);
}
bool Conv2dRelation(const Array<Type>& types, int, const Attrs& attrs, TypeReporter& reporter) {
  return ProductRelation<Conv2DAttrs>("nn.conv2d", types, attrs, reporter);
}

/// `x` (8 bits) of the other signedness, `by` added to each element: 128 or -128.
Expr Shift(const Expr& x, int64_t by) {
  const DataType to = by > 0 ? DataType::UInt(8) : DataType::Int(8);
  if (const auto* constant = x.as<relay::ConstantNode>(); constant != nullptr && constant->data.IsCompact()) {
    runtime::NDArray shifted = runtime::NDArray::Empty(constant->data.shape(), to);
    const auto* from = constant->data.Data<uint8_t>();
    std::transform(from, from + constant->data.size(), shifted.Data<uint8_t>(),
                   [](uint8_t v) { return static_cast<uint8_t>(v ^ 0x80); });
    return relay::Constant(shifted, x->span);
  }
  Expr wide = Add(MakeCast(x, DataType::Int(32)), ScalarConstant(kInt32, by));
  return MakeCast(wide, to);
}

/// The operands of a product in the form that is computed: uint8 data and int8 weights, zero points in int32.
struct Operands {
  Expr data, weight, data_zero, weight_zero;

  Operands(const Array<Expr>& args, const Array<Type>& types)
      : data(args[0]), weight(args[1]), data_zero(Zero(args[2])), weight_zero(Zero(args[3])) {
    if (DTypeOf(types[0]).is_int()) {
      data = Shift(data, 128);
      data_zero = Moved(data_zero, 128);
    }
    if (DTypeOf(types[1]).is_uint()) {
      weight = Shift(weight, -128);
      weight_zero = Moved(weight_zero, -128);
    }
  }

  static Expr Moved(const Expr& zero, int64_t by) {
    const auto* constant = zero.as<relay::ConstantNode>();
    if (constant == nullptr || !constant->data.IsCompact()) return Add(zero, ScalarConstant(kInt32, by));
    runtime::NDArray moved = runtime::NDArray::Empty(constant->data.shape(), kInt32);
    const auto* from = constant->data.Data<int32_t>();
    std::transform(from, from + constant->data.size(), moved.Data<int32_t>(),
                   [by](int32_t v) { return v + static_cast<int32_t>(by); });
    return relay::Constant(moved, zero->span);
  }

  /// In int32; the value where it is known, so that 0 is recognised.
  static Expr Zero(const Expr& zero) {
    const auto* constant = zero.as<relay::ConstantNode>();
    const bool bytes = constant != nullptr && constant->data.IsCompact() && constant->data.dtype().bits() == 8;
    if (!bytes) return MakeCast(zero, kInt32);
    const bool is_signed = constant->data.dtype().is_int();
    runtime::NDArray wide = runtime::NDArray::Empty(constant->data.shape(), kInt32);
    const auto* from = constant->data.Data<uint8_t>();
    std::transform(from, from + constant->data.size(), wide.Data<int32_t>(), [is_signed](uint8_t v) {
      return is_signed ? static_cast<int32_t>(static_cast<int8_t>(v)) : static_cast<int32_t>(v);
    });
    return relay::Constant(wide, zero->span);
  }
};

/// Sums of int8 weights over `axes`, in int32.
Expr WeightSums(const Expr& weight, const Ints& axes) {
  const auto* constant = weight.as<relay::ConstantNode>();
  if (constant == nullptr || !constant->data.IsCompact()) {
    return MakeReduce("sum", MakeCast(weight, kInt32), axes);
  }
  const std::vector<int64_t> shape = constant->data.shape();
  Ints kept, stride(shape.size(), 0);
  int64_t size = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end()) continue;
    stride[i] = size;
    size *= shape[i];
    kept.insert(kept.begin(), shape[i]);
  }
  runtime::NDArray sums = runtime::NDArray::Empty(kept, kInt32);
  auto* to = sums.Data<int32_t>();
  std::fill(to, to + size, 0);
  const auto* from = constant->data.Data<int8_t>();
  Ints index(shape.size(), 0);
  // Along the last dimension in one go: into one sum, or into neighbouring ones.
  const int64_t run = shape.back();
  for (int64_t n = 0, place = 0; n < constant->data.size(); n += run) {
    if (stride.back() == 0) {
      to[place] += std::accumulate(from + n, from + n + run, 0);
    } else {
      for (int64_t i = 0; i < run; ++i) to[place + i] += from[n + i];
    }
    for (size_t i = shape.size() - 1; i-- > 0;) {
      place += stride[i];
      if (++index[i] < shape[i]) break;
      place -= stride[i] * shape[i];
      index[i] = 0;
    }
  }
  return relay::Constant(sums, weight->span);
}

/// `product` of bytes with what zero points contribute. `weight_sums` lines up with the product. The sum of the data
/// runs over dimension `inner`.
Expr Corrected(Expr product, const Operands& o, const Expr& weight_sums, int inner) {
  if (!IsZero(o.data_zero)) product = Sub(product, Mul(weight_sums, o.data_zero));
  if (IsZero(o.weight_zero)) return product;
  Expr centred = MakeCast(o.data, kInt32);
  if (!IsZero(o.data_zero)) centred = Sub(centred, o.data_zero);
  return Sub(product, Mul(MakeReduce("sum", centred, Ints{inner}, /*keepdims=*/true), o.weight_zero));
}

template <typename AttrsT>
Expr Product(const char* plain, const AttrsT* attrs, const Operands& o) {
  auto sums = MakeObject<AttrsT>(*attrs);
  sums->out_dtype = kInt32;
  return CallOp(plain, {o.data, o.weight}, Attrs(ObjectPtr<Object>(sums)));
}

Expr DenseRule(const Attrs& attrs, const Array<Expr>& args, const Array<Type>& types) {
  const Operands o(args, types);
  return Corrected(Product("nn.dense", attrs.as<DenseAttrs>(), o), o, WeightSums(o.weight, {1}), -1);
}

Expr MatmulRule(const Attrs& attrs, const Array<Expr>& args, const Array<Type>& types) {
  const auto* a = attrs.as<MatmulAttrs>();
  Operands o(args, types);
  if (a->transpose_a) return Expr();  // refused where it is lowered: nothing writes it
  return Corrected(Product("nn.matmul", a, o), o, WeightSums(o.weight, {a->transpose_b ? 1 : 0}), -1);
}

Expr BatchMatmulRule(const Attrs& attrs, const Array<Expr>& args, const Array<Type>& types) {
  const auto* a = attrs.as<BatchMatmulAttrs>();
  Operands o(args, types);
  const auto rank = static_cast<int64_t>(types[1].as<TensorTypeNode>()->shape.size());
  Expr sums = MakeExpandDims(WeightSums(o.weight, {a->transpose_b ? rank - 1 : rank - 2}), -2);
  if (a->transpose_a) {
    const auto data_rank = static_cast<int64_t>(types[0].as<TensorTypeNode>()->shape.size());
    Ints axes(static_cast<size_t>(data_rank));
    std::iota(axes.begin(), axes.end(), int64_t{0});
    std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
    o.data = MakeTranspose(o.data, axes);
    auto plain = MakeObject<BatchMatmulAttrs>(*a);
    plain->transpose_a = false;
    return Corrected(Product("nn.batch_matmul", plain.get(), o), o, sums, -1);
  }
  return Corrected(Product("nn.batch_matmul", a, o), o, sums, -1);
}

/// Any layouts and zero points: bytes widened to int32, zero points subtracted before the convolution.
Expr WidenedConv2d(const Conv2DAttrs* a, const Array<Expr>& args, const Array<Type>& types) {
  auto centred = [&](size_t i, const Layout& layout, char axis) {
    Expr x = MakeCast(args[i], kInt32);
    if (IsZero(args[i + 2])) return x;
    const int at = layout.IndexOf(axis);
    return Sub(x, MakeCast(AlongAxis(args[i + 2], types[i + 2], at, layout.ndim()), kInt32));
  };
  auto sums = MakeObject<Conv2DAttrs>(*a);
  sums->out_dtype = kInt32;
  return CallOp("nn.conv2d", {centred(0, a->ParsedDataLayout(), 'C'), centred(1, a->ParsedKernelLayout(), 'O')},
                Attrs(ObjectPtr<Object>(sums)));
}

/// A convolution of bytes whose padding holds `pad`.
Expr ByteConv2d(const Conv2DAttrs* a, const Expr& data, const Expr& weight, const Expr& pad) {
  auto sums = MakeObject<Conv2DAttrs>(*a);
  sums->out_dtype = kInt32;
  return CallOp("qnn.contrib_conv2d", {data, weight, pad}, Attrs(ObjectPtr<Object>(sums)));
}

Expr Conv2dRule(const Attrs& attrs, const Array<Expr>& args, const Array<Type>& types) {
  const auto* a = attrs.as<Conv2DAttrs>();
  const auto* zero_type = types[2].as<TensorTypeNode>();
  const bool plain = a->IsIn("NCHW", "OIHW") && zero_type->shape.empty();
  const Operands o(args, types);
  const auto* weight = types[1].as<TensorTypeNode>();
  const bool symmetric = IsZero(o.weight_zero);
  if (!plain || !IsStatic(weight) || (!symmetric && a->groups > 1)) return WidenedConv2d(a, args, types);
  const Expr pad = MakeCast(o.data_zero, DataType::UInt(8));
  Expr result = ByteConv2d(a, o.data, o.weight, pad);
  if (!IsZero(o.data_zero)) {
    Expr sums = MakeExpandDims(WeightSums(o.weight, {1, 2, 3}), 1, 2);
    result = Sub(result, Mul(sums, o.data_zero));
  }
  if (symmetric) return result;
  // Sums of the data under the window: a convolution with weights of 1.
  Ints shape = StaticShape(weight, "weight");
  shape[0] = 1;
  runtime::NDArray ones = runtime::NDArray::Empty(shape, DataType::Int(8));
  std::fill(ones.Data<int8_t>(), ones.Data<int8_t>() + ones.size(), int8_t{1});
  auto one = MakeObject<Conv2DAttrs>(*a);
  one->channels = 1;
  Expr under = ByteConv2d(one.get(), o.data, relay::Constant(ones), pad);
  if (!IsZero(o.data_zero)) {
    under = Sub(under, Mul(o.data_zero, ScalarConstant(kInt32, shape[1] * shape[2] * shape[3])));
  }
  return Sub(result, Mul(under, AlongAxis(o.weight_zero, types[3], 1, 4)));
}

/// data (N, C, H, W) uint8, weight int8 (OIHW), pad_value a scalar.
bool ByteConv2dRelation(const Array<Type>& types, int, const Attrs& attrs, TypeReporter& reporter) {
  if (!IsKnown(types[0]) || !IsKnown(types[1])) return false;
  return Op::Get("nn.conv2d")->type_relation({types[0], types[1], types[types.size() - 1]}, 2, attrs, reporter);
}

Array<Tensor> ByteConv2dCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<Conv2DAttrs>();
  const Ints pads = NormalizePadding(a->padding, 2);
  Tensor data = Pad(inputs[0], {0, 0, pads[0], pads[1]}, {0, 0, pads[2], pads[3]}, inputs[2](Array<PrimExpr>{}));
  auto valid = MakeObject<Conv2DAttrs>(*a);
  valid->padding = {0, 0, 0, 0};
  return (*Op::Get("nn.conv2d").GetAttr(kCompute))(Attrs(ObjectPtr<Object>(valid)), {data, inputs[1]}, out_type);
}

double ByteConv2dMacs(const Attrs&, const Array<Type>& arguments, const Type& result) {
  const Array<PrimExpr>& weight = ShapeOf(arguments[1]);
  return Elements(ShapeOf(result)) * Elements(weight) / static_cast<double>(std::max<int64_t>(1, DimValue(weight[0])));
}

std::vector<OpArgument> Arguments(const char* data, const char* weight) {
  return {{"data", "Tensor", data},
          {"weight", "Tensor", weight},
          {"input_zero_point", "Tensor", "Scalar"},
          {"kernel_zero_point", "Tensor", "Scalar, or one for each column"},
          {"input_scale", "Tensor", "Not needed for the sums"},
          {"kernel_scale", "Tensor", "Not needed for the sums"}};
}

template <typename AttrsT>
void RegisterProduct(const char* name, const char* doc, const char* data, const char* weight, TypeRelationFn relation,
                     relay::FLegalize rule) {
  OpRegistration(name)
      .Describe(doc)
      .Arguments(Arguments(data, weight))
      .AttrsType<AttrsT>()
      .SupportLevel(11)
      .Relation(relation)
      .Set(relay::kQnnCanonicalize, std::move(rule));
}

}  // namespace
}  // namespace qnn

void RegisterQnnProductOps() {
  using namespace qnn;  // NOLINT(google-build-using-namespace)
  RegisterProduct<DenseAttrs>("qnn.dense", "Quantised data times the transposed weight, in int32.", "(.., k)",
                              "(units, k)", DenseRelation, DenseRule);
  RegisterProduct<MatmulAttrs>("qnn.matmul", "Quantised matrix product, in int32.", "(.., m, k)", "(k, n)",
                               MatmulRelation, MatmulRule);
  RegisterProduct<BatchMatmulAttrs>("qnn.batch_matmul", "Quantised matrix product of each batch, in int32.",
                                    "(.., m, k)", "(.., n, k)", BatchMatmulRelation, BatchMatmulRule);
  RegisterProduct<Conv2DAttrs>("qnn.conv2d", "Quantised convolution, in int32; padding holds the real number 0.",
                               "In data_layout", "In kernel_layout", Conv2dRelation, Conv2dRule);
  OpRegistration("qnn.contrib_conv2d")
      .Describe("Convolution of bytes as they are, in int32. Padding holds pad_value.")
      .Arguments({{"data", "Tensor", "uint8"}, {"weight", "Tensor", "int8"}, {"pad_value", "Tensor", "uint8 scalar"}})
      .AttrsType<Conv2DAttrs>()
      .SupportLevel(11)
      .Relation(ByteConv2dRelation)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable)
      .Set(relay::kMacCount, relay::FMacCount(ByteConv2dMacs))
      .Set(kCompute, FTECompute(ByteConv2dCompute));
}

}  // namespace treadle::ops
