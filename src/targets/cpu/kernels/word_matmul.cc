// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/kernels/word_matmul.h"

#include <algorithm>

#include "ops/macs.h"
#include "targets/cpu/kernels/kernels.h"
#include "targets/cpu/kernels/packing.h"
#include "targets/cpu/kernels/weight_forms.h"
#include "targets/cpu/kernels/words.h"
#include "treadle/base/checked_math.h"
#include "treadle/base/int_math.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/make.h"

namespace treadle::ops::cpu {
namespace {

using relay::ConstantNode;
using relay::Expr;

constexpr int64_t kBlock = kPackedColumns;

/// A constant right operand, packed, its words of k a multiple of `k_words`.
template <typename T>
runtime::NDArray PackedWords(const runtime::NDArray& weight, bool k_first, int64_t k_words) {
  std::vector<int64_t> shape = weight.shape();
  const size_t rank = shape.size();
  const int64_t n = shape[k_first ? rank - 1 : rank - 2], k = shape[k_first ? rank - 2 : rank - 1];
  constexpr auto kEach = static_cast<int64_t>(sizeof(int32_t) / sizeof(T));
  const int64_t blocks = CeilDiv(n, kBlock), words = RoundUp(CeilDiv(k, kEach), k_words);
  shape.resize(rank - 2);
  const int64_t batch = NumElements(shape);
  shape.insert(shape.end(), {blocks, words, kBlock});
  runtime::NDArray packed = runtime::NDArray::Empty(shape, kWord);
  auto* to = packed.Data<T>();
  std::fill(to, to + packed.size() * kEach, T{0});
  const auto* from = weight.Data<T>();
  const int64_t step_n = k_first ? 1 : k, step_k = k_first ? n : 1;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < n; ++i) {
      T* column = to + ((b * blocks + i / kBlock) * words * kBlock + i % kBlock) * kEach;
      const T* source = from + b * n * k + i * step_n;
      for (int64_t j = 0; j < k; ++j) column[j / kEach * kBlock * kEach + j % kEach] = source[j * step_k];
    }
  }
  return packed;
}

/// The call at a place of the model.
relay::Call At(const Expr& call, const Span& span) {
  const auto* made = call.as<relay::CallNode>();
  return relay::Call(made->op, made->args, made->attrs, {}, span);
}

/// The data of a product, its last dimension being `k`: weights round k up to whole words, so that they can't tell
/// whether a size fits that only a run shows. The dimension is split into 1 and `k`, as an ordinary reshape of no
/// elements is right whatever the sizes are.
Expr WithLength(const Expr& data, const TensorTypeNode* type, int64_t k, const Span& span) {
  const size_t last = type->shape.size() - 1;
  if (AsConstInt(type->shape[last]) != nullptr) return data;
  std::vector<int64_t> split(last, 0), joined(last, 0);
  split.insert(split.end(), {-4, 1, k});
  joined.push_back(-3);
  return At(MakeReshape(At(MakeReshape(data, split), span), joined), span);
}

}  // namespace

Type WordDenseInfer(const InferContext& context, bool (*fits)(DataType), DataType sum, const char* expected) {
  const auto* data = context.Tensor(0, "data");
  const auto* weight = context.Tensor(1, "weight");
  const auto* attrs = context.attrs<DenseAttrs>();
  const size_t rank = weight->shape.size();
  if (rank < 3 || data->shape.empty() || !attrs->units.has_value() || weight->dtype != kWord || !fits(data->dtype)) {
    throw ShapeError(
        StrCat("needs ", expected, " data of rank 1 and more, int32 weights of rank 3 and more, and units"));
  }
  if (rank > 3 && data->shape.size() != rank - 1) throw ShapeError("data and weight must have the same batch");
  for (size_t i = 0; i + 3 < rank; ++i) CheckDim(context, weight, i, "weight", data->shape[i], "data's batch");
  CheckDim(context, weight, rank - 1, "weight", Dim(kBlock), "a block");
  const int64_t blocks = DimValue(weight->shape[rank - 3]), words = DimValue(weight->shape[rank - 2]);
  const int64_t k = DimValue(data->shape.back());
  if ((blocks >= 0 && blocks < CeilDiv(*attrs->units, kBlock)) ||
      (words >= 0 && k >= 0 && words < CeilDiv(k, PerWord(data->dtype)))) {
    throw ShapeError(StrCat("the weight ", TypeText(weight), " is too small for ", *attrs->units, " units of data ",
                            TypeText(data)));
  }
  Array<PrimExpr> out = data->shape;
  out.Set(out.size() - 1, Dim(*attrs->units));
  return TensorType(out, sum);
}

Array<Tensor> WordSums(const Tensor& data, const Tensor& weight, const TensorTypeNode* type,
                       const std::function<Map<String, ObjectRef>(const Tensor& rows)>& stage_of) {
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
  // Rows that aren't made of whole words are padded first.
  std::optional<Tensor> words;
  if (known == nullptr || *known % PerWord(data->dtype) != 0) {
    Array<PrimExpr> shape = data->shape;
    shape.Set(last, Words(k, data->dtype));
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
    return te::Sum(DotOfWords(data->dtype, words ? (*words)(from) : word(from), weight(at)), {step});
  };
  const Map<String, ObjectRef> stage = stage_of(words ? *words : data);
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

Array<Tensor> WordDenseCompute(const Attrs&, const Array<Tensor>& inputs, const Type& out_type) {
  const TensorTypeNode* type = OutTensor(out_type);
  return WordSums(inputs[0], inputs[1], type,
                  [&](const Tensor& rows) { return PackedMatmulStage(rows, inputs[1], type); });
}

Type PackWordsInfer(const InferContext& context, bool (*fits)(DataType), const char* expected, int64_t k_words) {
  const auto* weight = context.Tensor(0, "weight");
  const auto* attrs = context.attrs<MatmulAttrs>();
  const size_t rank = weight->shape.size();
  if (rank < 2 || DimValue(weight->shape[rank - 2]) < 0 || DimValue(weight->shape[rank - 1]) < 0 ||
      !fits(weight->dtype)) {
    throw ShapeError(StrCat("needs ", expected, " in rows and columns of known numbers"));
  }
  Array<PrimExpr> out;
  for (size_t i = 0; i + 2 < rank; ++i) out.push_back(weight->shape[i]);
  const int64_t n = DimValue(weight->shape[attrs->transpose_b ? rank - 2 : rank - 1]);
  out.push_back(Dim(CeilDiv(n, kBlock)));
  const PrimExpr words = Words(weight->shape[attrs->transpose_b ? rank - 1 : rank - 2], weight->dtype);
  out.push_back(Dim(RoundUp(DimValue(words), k_words)));
  out.push_back(Dim(kBlock));
  return TensorType(out, kWord);
}

PrimExpr PackedWord(const Tensor& weight, bool k_first, const Array<PrimExpr>& i) {
  const size_t rank = weight.ndim();
  const PrimExpr k = weight->shape[k_first ? rank - 2 : rank - 1], n = weight->shape[k_first ? rank - 1 : rank - 2];
  const PrimExpr unit = i[rank - 2] * Index(kBlock) + i[rank];
  const int64_t columns = DimValue(n);
  return WordOf(i[rank - 1], k, weight->dtype, [&](const PrimExpr& element) {
    Array<PrimExpr> at;
    for (size_t d = 0; d + 2 < rank; ++d) at.push_back(i[d]);
    at.push_back(k_first ? element : unit);
    at.push_back(k_first ? unit : element);
    if (columns >= 0 && columns % kBlock == 0) return weight(at);
    return tir::if_then_else(unit < n, weight(at), tir::make_zero(weight->dtype));
  });
}

Array<Tensor> PackWordsCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const Tensor& weight = inputs[0];
  const bool k_first = !attrs.as<MatmulAttrs>()->transpose_b;
  const size_t rank = weight.ndim();
  const Array<PrimExpr>& shape = OutTensor(out_type)->shape;
  const PrimExpr words = Words(weight->shape[k_first ? rank - 2 : rank - 1], weight->dtype);
  return {Compute(
      shape,
      [&](const Array<PrimExpr>& i) {
        PrimExpr word = PackedWord(weight, k_first, i);
        if (DimValue(words) == DimValue(shape[rank - 1])) return word;
        return tir::if_then_else(i[rank - 1] < words, word, tir::make_zero(kWord));
      },
      "pack_words", tag::kInjective)};
}

bool CanPackWords(relay::LayoutArgs& args, bool (*fits)(DataType data, DataType weight)) {
  constexpr size_t kMaxRank = 8;
  const auto *data = args.Type(0), *weight = args.Type(1);
  if (data == nullptr || weight == nullptr || !fits(data->dtype, weight->dtype) || !IsStatic(weight)) return false;
  if (NumElements(StaticShape(weight, "packing")) == 0) return false;
  const size_t rank = weight->shape.size();
  if (rank == 2) return !data->shape.empty();
  if (data->shape.size() != rank || rank > kMaxRank) return false;
  for (size_t i = 0; i + 2 < rank; ++i) {
    if (!SameDim(data->shape[i], weight->shape[i])) return false;
  }
  return true;
}

relay::LaidOutCall WordProduct(const relay::CallNode* call, relay::LayoutArgs& args, bool k_first, const WordOps& ops) {
  const auto* weight = args.Type(1);
  const size_t rank = weight->shape.size();
  const auto* constant = call->args[1].as<ConstantNode>();
  Expr packed;
  if (constant != nullptr && constant->data.IsCompact()) {
    packed = WeightForms::Get(constant->data, StrCat("words ", k_first, " ", ops.k_words), [&] {
      return weight->dtype.bits() == 8 ? PackedWords<int8_t>(constant->data, k_first, ops.k_words)
                                       : PackedWords<int16_t>(constant->data, k_first, ops.k_words);
    });
  } else {
    packed = CallWith<MatmulAttrs>(ops.pack, {args.Plain(1)}, [&](auto& a) { a.transpose_b = !k_first; });
  }
  const int64_t k = DimValue(weight->shape[k_first ? rank - 2 : rank - 1]);
  const Expr data = WithLength(args.Plain(0), args.Type(0), k, call->span);
  Expr product = CallWith<DenseAttrs>(ops.dense, {data, packed}, [&](auto& a) {
    a.units = DimValue(weight->shape[k_first ? rank - 1 : rank - 2]);
    a.out_dtype = ops.sum;
  });
  return relay::LaidOutCall{At(product, call->span), {}};
}

double WordDenseMacs(const Attrs&, const Array<Type>& arguments, const Type& result) {
  return Elements(ShapeOf(result)) * DimOf(arguments[0], -1);
}

void RegisterWordOps(const WordOps& ops, const std::string& numbers, const std::string& data, const std::string& weight,
                     TypeRelationFn dense, TypeRelationFn pack, FTECompute compute) {
  OpRegistration(ops.dense)
      .Describe(StrCat("Matrix product of ", numbers, " with a packed right operand, in ", ops.sum, "."))
      .Arguments({{"data", "Tensor", data}, {"weight", "Tensor", weight}})
      .AttrsType<DenseAttrs>()
      .SupportLevel(11)
      .Relation(dense)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable)
      .Set(relay::kMacCount, relay::FMacCount(WordDenseMacs))
      .Set(kCompute, std::move(compute));
  OpRegistration(ops.pack)
      .Describe(StrCat("The right operand of a matrix product of ", numbers, ", packed in words along k."))
      .Arguments({{"weight", "Tensor", "(batch.., k, n)"}})
      .AttrsType<MatmulAttrs>()
      .SupportLevel(11)
      .Relation(pack)
      .Set(kOpPattern, OpPatternKind::kInjective)
      .Set(kCompute, FTECompute(PackWordsCompute));
}

}  // namespace treadle::ops::cpu
