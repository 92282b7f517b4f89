// SPDX-License-Identifier: Apache-2.0
// Matrix products whose right operand is packed in the order in which it is read: blocks of columns fill a vector, so
// that one element of the left operand meets a vector of columns. Constants are packed at compile time; what packs
// an activation fuses with what computes it. Where nothing does (a model's input), the product packs some columns just
// before it uses them, so that they are read from a cache near by.
#include "ops/change_layout.h"
#include "ops/families.h"
#include "ops/infer.h"
#include "ops/macs.h"
#include "ops/packed.h"
#include "ops/te_util.h"
#include "treadle/base/checked_math.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/make.h"
#include "treadle/relay/layout.h"

namespace treadle::ops {
namespace {

using relay::CallNode;
using relay::ConstantNode;
using relay::Expr;
using relay::LaidOutCall;
using relay::LayoutArgs;

constexpr int64_t kBlock = kPackedColumns;

/// With so many rows, packing the right operand first takes less time than it saves; it takes longer where the operand
/// has to be transposed.
constexpr int64_t kLeastRows = 4, kLeastRowsTransposed = 8;

/// data (batch.., m.., k), weight (batch.., ceil(units / 16), k, 16): (batch.., m.., units). Attribute units must be
/// given.
Type PackedDenseInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* weight = context.Tensor(1, "weight");
  const auto* attrs = context.attrs<DenseAttrs>();
  size_t rank = weight->shape.size();
  if (rank < 3 || data->shape.empty() || !attrs->units.has_value()) {
    throw ShapeError("needs data of rank 1 and more, a weight of rank 3 and more, and units");
  }
  size_t batch = rank - 3;
  if (batch != 0 && data->shape.size() != batch + 2) throw ShapeError("data and weight must have the same batch");
  for (size_t i = 0; i < batch; ++i) {
    if (!SameDim(data->shape[i], weight->shape[i]) && !context.Equal(data->shape[i], weight->shape[i])) {
      throw ShapeError("the batches of data and weight differ");
    }
  }
  if (!SameDim(data->shape.back(), weight->shape[rank - 2]) &&
      !context.Equal(data->shape.back(), weight->shape[rank - 2])) {
    throw ShapeError("the inner dimensions of data and weight differ");
  }
  Array<PrimExpr> out = data->shape;
  out.Set(out.size() - 1, Dim(*attrs->units));
  return TensorType(out, attrs->out_dtype.is_void() ? data->dtype : attrs->out_dtype);
}

Array<te::Tensor> PackedSum(const te::Tensor& data, const te::Tensor& weight, const TensorTypeNode* type) {
  size_t batch = weight.ndim() - 3;
  te::IterVar k = te::ReduceAxis(tir::Range(weight->shape[batch + 1]), "k");
  DataType dtype = type->dtype;
  auto product = [&](const Array<te::Var>& i) {
    Array<PrimExpr> from = Indices(i);
    PrimExpr unit = from.back();
    from.Set(from.size() - 1, k->var);
    Array<PrimExpr> at;
    for (size_t d = 0; d < batch; ++d) at.push_back(from[d]);
    at.push_back(tir::floordiv(unit, Index(kBlock)));
    at.push_back(k->var);
    at.push_back(tir::floormod(unit, Index(kBlock)));
    return te::Sum(tir::cast(dtype, data(from)) * tir::cast(dtype, weight(at)), {k});
  };
  const int64_t* units = AsConstInt(type->shape.back());
  if (units != nullptr && *units % kBlock == 0) {
    return {te::Compute(type->shape, product, "packed_dense", "packed_dense")};
  }
  // Whole blocks are summed; those columns that only fill the last one are left behind.
  Array<PrimExpr> padded = type->shape;
  padded.Set(padded.size() - 1, DimMul(weight->shape[batch], Dim(kBlock)));
  te::Tensor sum = te::Compute(padded, product, "packed_dense", "packed_dense");
  return {te::Compute(
      type->shape, [&](const Array<te::Var>& i) { return sum(Indices(i)); }, "packed_dense_result", tag::kInjective)};
}

Array<te::Tensor> PackedDenseCompute(const Attrs&, const Array<te::Tensor>& inputs, const Type& out_type) {
  return PackedSum(inputs[0], inputs[1], OutTensor(out_type));
}

/// data (batch.., m.., k), weight (batch.., k, n) or, transpose_b, (batch.., n, k), static: (batch.., m.., n).
Type PackingMatmulInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* weight = context.Tensor(1, "weight");
  const auto* attrs = context.attrs<MatmulAttrs>();
  const size_t rank = weight->shape.size();
  if (rank < 2 || data->shape.empty() || attrs->transpose_a || !IsStatic(weight)) {
    throw ShapeError("needs data of rank 1 and more that isn't transposed, and a weight of known shape");
  }
  if (rank > 2 && data->shape.size() != rank) throw ShapeError("data and weight must have the same batch");
  for (size_t i = 0; i + 2 < rank; ++i) {
    if (!SameDim(data->shape[i], weight->shape[i])) throw ShapeError("the batches of data and weight differ");
  }
  if (!SameDim(data->shape.back(), weight->shape[attrs->transpose_b ? rank - 1 : rank - 2])) {
    throw ShapeError("the inner dimensions of data and weight differ");
  }
  Array<PrimExpr> out = data->shape;
  out.Set(out.size() - 1, weight->shape[attrs->transpose_b ? rank - 2 : rank - 1]);
  return TensorType(out, attrs->out_dtype.is_void() ? data->dtype : attrs->out_dtype);
}

Array<te::Tensor> PackingMatmulCompute(const Attrs& attrs, const Array<te::Tensor>& inputs, const Type& out_type) {
  const te::Tensor& weight = inputs[1];
  const bool k_first = !attrs.as<MatmulAttrs>()->transpose_b;
  const size_t rank = weight.ndim();
  const PrimExpr k = weight->shape[k_first ? rank - 2 : rank - 1], n = weight->shape[k_first ? rank - 1 : rank - 2];
  const int64_t columns = *AsConstInt(n);
  Array<PrimExpr> shape;
  for (size_t d = 0; d + 2 < rank; ++d) shape.push_back(weight->shape[d]);
  shape.push_back(Index((columns + kBlock - 1) / kBlock));
  shape.push_back(k);
  shape.push_back(Index(kBlock));
  te::Tensor packed = Compute(
      shape,
      [&](const Array<PrimExpr>& i) {
        const PrimExpr unit = i[rank - 2] * Index(kBlock) + i[rank];
        Array<PrimExpr> at;
        for (size_t d = 0; d + 2 < rank; ++d) at.push_back(i[d]);
        at.push_back(k_first ? i[rank - 1] : unit);
        at.push_back(k_first ? unit : i[rank - 1]);
        if (columns % kBlock == 0) return weight(at);
        return tir::if_then_else(unit < n, weight(at), tir::make_zero(weight->dtype));
      },
      "packed_columns", "packed_columns");
  return PackedSum(inputs[0], packed, OutTensor(out_type));
}

/// Whether a product packs its right operand itself: one that nothing computes, of enough columns for threads to share.
bool PacksAsItGoes(const CallNode* call, const TensorTypeNode* weight, int64_t units) {
  constexpr int64_t kLeastBlocks = 4;
  if (call->args[1].as<relay::VarNode>() == nullptr) return false;
  int64_t blocks = (units + kBlock - 1) / kBlock;
  for (size_t i = 0; i + 2 < weight->shape.size(); ++i) blocks *= *AsConstInt(weight->shape[i]);
  return blocks >= kLeastBlocks;
}

/// data times the packed form of `weight`, which has layout (batch.., units, k) or, `k_first`, (batch.., k, units).
LaidOutCall PackedProduct(const CallNode* call, LayoutArgs& args, bool k_first, DataType out_dtype) {
  const auto* type = args.Type(1);
  size_t rank = type->shape.size();
  int64_t units = *AsConstInt(type->shape[k_first ? rank - 1 : rank - 2]);
  if (PacksAsItGoes(call, type, units)) {
    Expr product = CallWith<MatmulAttrs>("nn.packing_matmul", {args.Get(0, ""), args.Get(1, "")}, [&](auto& a) {
      a.units = units;
      a.out_dtype = out_dtype;
      a.transpose_b = !k_first;
    });
    const auto* made = product.as<CallNode>();
    return LaidOutCall{relay::Call(made->op, made->args, made->attrs, {}, call->span), ""};
  }
  Expr packed = PackColumns(args.Get(1, ""), type, k_first);
  Expr dense = CallWith<DenseAttrs>("nn.packed_dense", {args.Get(0, ""), packed}, [&](auto& a) {
    a.units = units;
    a.out_dtype = out_dtype;
  });
  const auto* made = dense.as<CallNode>();
  return LaidOutCall{relay::Call(made->op, made->args, made->attrs, {}, call->span), ""};
}

/// Whether packing pays: always for a constant, for enough rows and columns otherwise.
bool IsWorthPacking(const CallNode* call, LayoutArgs& args, int64_t rows, bool k_first) {
  const auto* data = args.Type(0);
  const auto* weight = args.Type(1);
  if (data == nullptr || weight == nullptr || !IsStatic(weight)) return false;
  if (weight->dtype != DataType::Float(32) || data->dtype != DataType::Float(32)) return false;
  if (NumElements(StaticShape(weight, "packing")) == 0) return false;
  if (call->args[1].as<ConstantNode>() != nullptr) return true;
  if (!IsStatic(data)) return false;
  size_t rank = weight->shape.size();
  return rows >= (k_first ? kLeastRows : kLeastRowsTransposed) &&
         *AsConstInt(weight->shape[k_first ? rank - 1 : rank - 2]) >= kBlock / 2;
}

int64_t Rows(const TensorTypeNode* data) {
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < data->shape.size(); ++i)
    rows *= AsConstInt(data->shape[i]) ? *AsConstInt(data->shape[i]) : 1;
  return rows;
}

std::optional<LaidOutCall> DenseLayoutRule(const CallNode* call, LayoutArgs& args) {
  const auto* attrs = call->attrs.as<DenseAttrs>();
  if (attrs == nullptr || !IsWorthPacking(call, args, Rows(args.Type(0)), false)) return std::nullopt;
  return PackedProduct(call, args, false, attrs->out_dtype);
}

std::optional<LaidOutCall> MatmulLayoutRule(const CallNode* call, LayoutArgs& args) {
  const auto* attrs = call->attrs.as<MatmulAttrs>();
  if (attrs == nullptr || attrs->transpose_a || !IsWorthPacking(call, args, Rows(args.Type(0)), !attrs->transpose_b)) {
    return std::nullopt;
  }
  return PackedProduct(call, args, !attrs->transpose_b, attrs->out_dtype);
}

/// Of operands with the same batch.
std::optional<LaidOutCall> BatchMatmulLayoutRule(const CallNode* call, LayoutArgs& args) {
  const auto* attrs = call->attrs.as<BatchMatmulAttrs>();
  const auto* a = args.Type(0);
  const auto* b = args.Type(1);
  if (attrs == nullptr || attrs->transpose_a || a == nullptr || b == nullptr) return std::nullopt;
  size_t rank = a->shape.size();
  if (b->shape.size() != rank || rank > 8) return std::nullopt;
  for (size_t i = 0; i + 2 < rank; ++i) {
    if (!SameDim(a->shape[i], b->shape[i])) return std::nullopt;
  }
  const int64_t* rows = AsConstInt(a->shape[rank - 2]);
  if (rows == nullptr || !IsWorthPacking(call, args, *rows, !attrs->transpose_b)) return std::nullopt;
  return PackedProduct(call, args, !attrs->transpose_b, attrs->out_dtype);
}

double PackedDenseMacs(const Attrs&, const Array<Type>& arguments, const Type& result) {
  return Elements(ShapeOf(result)) * DimOf(arguments[0], -1);
}

}  // namespace

Expr PackColumns(Expr operand, const TensorTypeNode* type, bool k_first) {
  size_t rank = type->shape.size();
  int64_t columns = *AsConstInt(type->shape[k_first ? rank - 1 : rank - 2]);
  int64_t missing = (kBlock - columns % kBlock) % kBlock;
  if (missing != 0) {
    std::vector<std::pair<int64_t, int64_t>> widths(rank, {0, 0});
    widths[k_first ? rank - 1 : rank - 2] = {0, missing};
    operand = CallWith<PadAttrs>("nn.pad", {operand, ScalarConstant(type->dtype, 0.0)},
                                 [&](auto& a) { a.pad_width = IntPairs(widths); });
  }
  std::string batch = std::string("ABDEFGHIJKLM").substr(0, rank - 2);
  return LayoutTransform(operand, batch + (k_first ? "CN" : "NC"), batch + "NC" + std::to_string(kBlock) + "n");
}

void RegisterPackedDenseOp() {
  OpRegistration("nn.packed_dense")
      .Describe("Matrix product with a packed right operand.")
      .Arguments({{"data", "Tensor", "(batch.., m.., k)"}, {"weight", "Tensor", "(batch.., ceil(units / 16), k, 16)"}})
      .AttrsType<DenseAttrs>()
      .SupportLevel(10)
      .Relation(Rule<PackedDenseInfer, 2>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable)
      .Set(relay::kMacCount, relay::FMacCount(PackedDenseMacs))
      .Set(kCompute, FTECompute(PackedDenseCompute));
  OpRegistration("nn.packing_matmul")
      .Describe("Matrix product that packs its right operand as it goes.")
      .Arguments({{"data", "Tensor", "(batch.., m.., k)"}, {"weight", "Tensor", "(batch.., k, n)"}})
      .AttrsType<MatmulAttrs>()
      .SupportLevel(10)
      .Relation(Rule<PackingMatmulInfer, 2>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable)
      .Set(relay::kMacCount, relay::FMacCount(PackedDenseMacs))
      .Set(kCompute, FTECompute(PackingMatmulCompute));
  OpRegistration("nn.dense").Set(relay::kLayoutRule, relay::FLayoutRule(DenseLayoutRule));
  OpRegistration("nn.matmul").Set(relay::kLayoutRule, relay::FLayoutRule(MatmulLayoutRule));
  OpRegistration("nn.batch_matmul").Set(relay::kLayoutRule, relay::FLayoutRule(BatchMatmulLayoutRule));
}

}  // namespace treadle::ops
