// SPDX-License-Identifier: Apache-2.0
// Matrix products of bytes with a packed right operand. A word of four bytes along k takes the place of a float: the
// right operand is packed as (n / 16, k / 4, 16) words, rows of the left one are read as words, and the product has the
// form, and the schedule, of a packed product of floats (packed_matmul.cc).
#include "ops/infer.h"
#include "ops/macs.h"
#include "ops/qnn.h"
#include "ops/te_util.h"
#include "targets/cpu/kernels/packing.h"
#include "targets/cpu/kernels/rooms.h"
#include "treadle/base/checked_math.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/make.h"
#include "treadle/relay/layout.h"
#include "treadle/tir/byte_ops.h"

namespace treadle::ops::cpu {
namespace {

using relay::CallNode;
using relay::ConstantNode;
using relay::Expr;
using relay::LaidOutCall;
using relay::LayoutArgs;

constexpr int64_t kBlock = kPackedColumns, kBytes = 4;
const DataType kWord = DataType::Int(32);

PrimExpr Words(const PrimExpr& bytes) {
  const int64_t* known = AsConstInt(bytes);
  return known != nullptr ? Index((*known + kBytes - 1) / kBytes) : tir::floordiv(bytes + (kBytes - 1), Index(kBytes));
}

/// The word of bytes element(4 * word) and the three that follow; 0 where they are beyond `extent`.
template <typename F>
PrimExpr WordOf(const PrimExpr& word, const PrimExpr& extent, DataType dtype, F element) {
  const int64_t* known = AsConstInt(extent);
  const bool whole = known != nullptr && *known % kBytes == 0;
  PrimExpr bytes[kBytes];
  for (int64_t i = 0; i < kBytes; ++i) {
    const PrimExpr at = word * Index(kBytes) + Index(i);
    bytes[i] = whole ? element(at) : tir::if_then_else(at < extent, element(at), tir::make_zero(dtype));
  }
  return tir::pack_bytes(bytes[0], bytes[1], bytes[2], bytes[3]);
}

/// data (batch.., m.., k) uint8, weight (batch.., ceil(units / 16), ceil(k / 4), 16) int32: (batch.., m.., units)
/// int32.
Type ByteDenseInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* weight = context.Tensor(1, "weight");
  const auto* attrs = context.attrs<DenseAttrs>();
  const size_t rank = weight->shape.size();
  if (rank < 3 || data->shape.empty() || !attrs->units.has_value() || data->dtype != DataType::UInt(8) ||
      weight->dtype != kWord) {
    throw ShapeError("needs uint8 data of rank 1 and more, int32 weights of rank 3 and more, and units");
  }
  if (rank > 3 && data->shape.size() != rank - 1) throw ShapeError("data and weight must have the same batch");
  Array<PrimExpr> out = data->shape;
  out.Set(out.size() - 1, Dim(*attrs->units));
  return TensorType(out, kWord);
}

Array<Tensor> ByteDenseCompute(const Attrs&, const Array<Tensor>& inputs, const Type& out_type) {
  const TensorTypeNode* type = OutTensor(out_type);
  const Tensor &data = inputs[0], &weight = inputs[1];
  const size_t batch = weight.ndim() - 3, last = data.ndim() - 1;
  const PrimExpr k = data->shape[last];
  const int64_t* known = AsConstInt(k);
  auto word = [&](const Array<PrimExpr>& at) {
    return WordOf(at[last], k, data->dtype, [&](const PrimExpr& i) {
      Array<PrimExpr> from = at;
      from.Set(last, i);
      return data(from);
    });
  };
  // Rows that aren't made of whole words are filled up first.
  std::optional<Tensor> words;
  if (known == nullptr || *known % kBytes != 0) {
    Array<PrimExpr> shape = data->shape;
    shape.Set(last, Words(k));
    words = Compute(shape, word, "words", tag::kInjective);
  }
  te::IterVar step = te::ReduceAxis(tir::Range(weight->shape[batch + 1]), "k");
  auto product = [&](const Array<te::Var>& i) {
    Array<PrimExpr> from = Indices(i), at;
    const PrimExpr unit = from.back();
    from.Set(last, step->var);
    for (size_t d = 0; d < batch; ++d) at.push_back(from[d]);
    at.push_back(tir::floordiv(unit, Index(kBlock)));
    at.push_back(step->var);
    at.push_back(tir::floormod(unit, Index(kBlock)));
    return te::Sum(tir::dot_bytes(words ? (*words)(from) : word(from), weight(at)), {step});
  };
  const Map<String, ObjectRef> stage = PackedMatmulStage(words ? *words : data, weight, type);
  const int64_t* units = AsConstInt(type->shape.back());
  if (units != nullptr && *units % kBlock == 0) {
    return {te::Compute(type->shape, product, "packed_dense", "packed_dense", stage)};
  }
  Array<PrimExpr> padded = type->shape;
  padded.Set(last, DimMul(weight->shape[batch], Dim(kBlock)));
  Tensor sum = te::Compute(padded, product, "packed_dense", "packed_dense", stage);
  return {
      Compute(type->shape, [&](const Array<PrimExpr>& i) { return sum(i); }, "packed_dense_result", tag::kInjective)};
}

/// weight (batch.., k, n) or, transpose_b, (batch.., n, k) int8, static: (batch.., ceil(n / 16), ceil(k / 4), 16)
/// int32.
Type PackWordsInfer(const InferContext& context) {
  const auto* weight = context.Tensor(0, "weight");
  const auto* attrs = context.attrs<MatmulAttrs>();
  const size_t rank = weight->shape.size();
  if (rank < 2 || !IsStatic(weight) || weight->dtype.bits() != 8) throw ShapeError("needs bytes of a known shape");
  Array<PrimExpr> out;
  for (size_t i = 0; i + 2 < rank; ++i) out.push_back(weight->shape[i]);
  const int64_t n = DimValue(weight->shape[attrs->transpose_b ? rank - 2 : rank - 1]);
  out.push_back(Dim((n + kBlock - 1) / kBlock));
  out.push_back(Words(weight->shape[attrs->transpose_b ? rank - 1 : rank - 2]));
  out.push_back(Dim(kBlock));
  return TensorType(out, kWord);
}

Array<Tensor> PackWordsCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const Tensor& weight = inputs[0];
  const bool k_first = !attrs.as<MatmulAttrs>()->transpose_b;
  const size_t rank = weight.ndim();
  const PrimExpr k = weight->shape[k_first ? rank - 2 : rank - 1], n = weight->shape[k_first ? rank - 1 : rank - 2];
  return {Compute(
      OutTensor(out_type)->shape,
      [&](const Array<PrimExpr>& i) {
        const PrimExpr unit = i[rank - 2] * Index(kBlock) + i[rank];
        return WordOf(i[rank - 1], k, weight->dtype, [&](const PrimExpr& byte) {
          Array<PrimExpr> at;
          for (size_t d = 0; d + 2 < rank; ++d) at.push_back(i[d]);
          at.push_back(k_first ? byte : unit);
          at.push_back(k_first ? unit : byte);
          if (DimValue(n) % kBlock == 0) return weight(at);
          return tir::if_then_else(unit < n, weight(at), tir::make_zero(weight->dtype));
        });
      },
      "pack_words", tag::kInjective)};
}

/// A constant right operand, packed.
Expr PackedConstant(const runtime::NDArray& weight, bool k_first) {
  std::vector<int64_t> shape = weight.shape();
  const size_t rank = shape.size();
  const int64_t n = shape[k_first ? rank - 1 : rank - 2], k = shape[k_first ? rank - 2 : rank - 1];
  const int64_t blocks = (n + kBlock - 1) / kBlock, words = (k + kBytes - 1) / kBytes;
  shape.resize(rank - 2);
  const int64_t batch = NumElements(shape);
  shape.insert(shape.end(), {blocks, words, kBlock});
  runtime::NDArray packed = runtime::NDArray::Empty(shape, kWord);
  auto* to = packed.Data<int8_t>();
  std::fill(to, to + packed.size() * kBytes, int8_t{0});
  const auto* from = weight.Data<int8_t>();
  const int64_t step_n = k_first ? 1 : k, step_k = k_first ? n : 1;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < n; ++i) {
      int8_t* column = to + ((b * blocks + i / kBlock) * words * kBlock + i % kBlock) * kBytes;
      const int8_t* source = from + b * n * k + i * step_n;
      for (int64_t j = 0; j < k; ++j) column[j / kBytes * kBlock * kBytes + j % kBytes] = source[j * step_k];
    }
  }
  return relay::Constant(packed);
}

bool IsBytes(const TensorTypeNode* type, DataType dtype) { return type != nullptr && type->dtype == dtype; }

std::optional<LaidOutCall> ByteProduct(const CallNode* call, LayoutArgs& args, bool k_first) {
  const auto* weight = args.Type(1);
  const size_t rank = weight->shape.size();
  const auto* constant = call->args[1].as<ConstantNode>();
  Expr packed;
  if (constant != nullptr && constant->data.IsCompact()) {
    packed = PackedConstant(constant->data, k_first);
  } else {
    packed =
        CallWith<MatmulAttrs>("qnn.contrib_pack_words", {args.Plain(1)}, [&](auto& a) { a.transpose_b = !k_first; });
  }
  Expr product = CallWith<DenseAttrs>("qnn.contrib_packed_dense", {args.Plain(0), packed}, [&](auto& a) {
    a.units = DimValue(weight->shape[k_first ? rank - 1 : rank - 2]);
    a.out_dtype = kWord;
  });
  const auto* made = product.as<CallNode>();
  return LaidOutCall{relay::Call(made->op, made->args, made->attrs, {}, call->span), {}};
}

/// Whether operands are bytes of which a product can be packed: the right one of known shape, batches equal.
bool CanPack(LayoutArgs& args) {
  const auto *data = args.Type(0), *weight = args.Type(1);
  if (!IsBytes(data, DataType::UInt(8)) || !IsBytes(weight, DataType::Int(8)) || !IsStatic(weight)) return false;
  if (NumElements(StaticShape(weight, "packing")) == 0) return false;
  const size_t rank = weight->shape.size();
  if (rank == 2) return true;
  if (data->shape.size() != rank || rank > 8) return false;
  for (size_t i = 0; i + 2 < rank; ++i) {
    if (!SameDim(data->shape[i], weight->shape[i])) return false;
  }
  return true;
}

template <typename AttrsT>
bool IsTransposed(const AttrsT* attrs) {
  if constexpr (std::is_same_v<AttrsT, DenseAttrs>) {
    return false;
  } else {
    return attrs->transpose_a;
  }
}

/// The rule of a product of floats, with that for bytes before it.
template <typename AttrsT, int kIndex>
void AddByteRule(const char* name) {
  static relay::FLayoutRule of_floats = nullptr;
  const auto* own = Op::Get(name).GetAttr(relay::kLayoutRule);
  of_floats = own == nullptr ? nullptr : *own;
  auto rule = [](const CallNode* call, LayoutArgs& args) -> std::optional<LaidOutCall> {
    const auto* attrs = call->attrs.as<AttrsT>();
    if (attrs != nullptr && attrs->out_dtype == kWord && !IsTransposed(attrs) && CanPack(args)) {
      bool k_first = false;
      if constexpr (!std::is_same_v<AttrsT, DenseAttrs>) k_first = !attrs->transpose_b;
      return ByteProduct(call, args, k_first);
    }
    return of_floats == nullptr ? std::nullopt : of_floats(call, args);
  };
  OpRegistration(name).Set(relay::kLayoutRule, relay::FLayoutRule(+rule));
}

double ByteDenseMacs(const Attrs&, const Array<Type>& arguments, const Type& result) {
  return Elements(ShapeOf(result)) * DimOf(arguments[0], -1);
}

}  // namespace

void RegisterByteMatmul() {
  OpRegistration("qnn.contrib_packed_dense")
      .Describe("Matrix product of bytes with a packed right operand, in int32.")
      .Arguments({{"data", "Tensor", "(batch.., m.., k) uint8"},
                  {"weight", "Tensor", "(batch.., ceil(units / 16), ceil(k / 4), 16) words of four int8"}})
      .AttrsType<DenseAttrs>()
      .SupportLevel(11)
      .Relation(Rule<ByteDenseInfer>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable)
      .Set(relay::kMacCount, relay::FMacCount(ByteDenseMacs))
      .Set(kCompute, FTECompute(ByteDenseCompute));
  OpRegistration("qnn.contrib_pack_words")
      .Describe("The right operand of a matrix product, packed in words of four bytes along k.")
      .Arguments({{"weight", "Tensor", "(batch.., k, n) bytes"}})
      .AttrsType<MatmulAttrs>()
      .SupportLevel(11)
      .Relation(Rule<PackWordsInfer>)
      .Set(kOpPattern, OpPatternKind::kInjective)
      .Set(kCompute, FTECompute(PackWordsCompute));
  AddByteRule<DenseAttrs, 0>("nn.dense");
  AddByteRule<MatmulAttrs, 1>("nn.matmul");
  AddByteRule<BatchMatmulAttrs, 2>("nn.batch_matmul");
}

}  // namespace treadle::ops::cpu
