// SPDX-License-Identifier: Apache-2.0
// Sorting. Semantics: NumPy; ONNX TopK-11. Sorting is stable; NaN sorts as the greatest.
#include "ops/families.h"
#include "ops/infer.h"
#include "ops/loops.h"
#include "ops/te_util.h"
#include "treadle/ops/attrs/algorithm.h"
#include "treadle/ops/compute.h"

namespace treadle::ops {
namespace {

Type SortInfer(const InferContext& context) {
  NormalizeAxis(context.attrs<ArgsortAttrs>()->axis, context.Tensor(0, "data")->shape.size());
  return context.type(0);
}

Type ArgsortInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<ArgsortAttrs>();
  NormalizeAxis(attrs->axis, data->shape.size());
  return TensorType(data->shape, attrs->dtype);
}

Type TopKInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<TopKAttrs>();
  auto axis = static_cast<size_t>(NormalizeAxis(attrs->axis, data->shape.size()));
  Array<PrimExpr> out = data->shape;
  if (!attrs->k.has_value()) {
    out.Set(axis, AnyDim());
  } else if (*attrs->k >= 1) {
    if (AsConstInt(out[axis]) != nullptr && *attrs->k > DimValue(out[axis])) {
      throw ShapeError(StrCat("k ", *attrs->k, " exceeds dimension ", axis, " of ", TypeText(data)));
    }
    out.Set(axis, Dim(*attrs->k));
  }
  TensorType values(out, data->dtype);
  TensorType indices(out, attrs->dtype);
  if (attrs->ret_type == "both") return TupleType(Array<Type>{values, indices});
  if (attrs->ret_type == "values") return values;
  if (attrs->ret_type == "indices") return indices;
  throw ShapeError(StrCat("ret_type must be both, values or indices, not \"", attrs->ret_type, "\""));
}

/// Whether key a comes before key b; equal keys keep their order.
PrimExpr Before(const PrimExpr& a, const PrimExpr& b, const PrimExpr& a_index, const PrimExpr& b_index, bool ascend) {
  const PrimExpr& low = ascend ? a : b;
  const PrimExpr& high = ascend ? b : a;
  PrimExpr less = low < high;
  PrimExpr equal = tir::equal(a, b);
  if (a.dtype().is_floating()) {
    less = less || (tir::isnan(high) && !tir::isnan(low));
    equal = equal || (tir::isnan(a) && tir::isnan(b));
  }
  return less || (equal && a_index < b_index);
}

/// The index tensor that sorts `x` along `axis`: Batcher's merge exchange (Knuth, The Art of Computer Programming,
/// volume 3, algorithm 5.2.2M), whose pairs don't depend on the data.
Tensor SortedIndices(const Tensor& x, size_t axis, bool ascend) {
  PrimExpr n = x->shape[axis];
  bool small = DimValue(n) >= 0 && DimValue(n) <= INT32_MAX;
  DataType index_dtype = small ? DataType::Int(32) : DataType::Int(64);
  Array<PrimExpr> rows = x->shape;
  rows.erase(axis);
  int levels = 0;
  while (levels < 62 && (DimValue(n) < 0 || (int64_t{1} << levels) < DimValue(n))) ++levels;
  auto body = [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& out) {
    return LoopNest(
        rows, "row",
        [&](const Array<PrimExpr>& row) {
          auto at = [&](const PrimExpr& i) {
            Array<PrimExpr> index = row;
            index.insert(axis, i);
            return index;
          };
          auto key = [&](const PrimExpr& i) { return Load(in[0], at(tir::cast(DataType::Int(64), i))); };
          tir::Stmt init =
              Loop(n, "i", [&](const PrimExpr& i) { return Store(out[0], tir::cast(index_dtype, i), at(i)); });
          // Exchanges elements x and x + k where x starts a pair of the merge of blocks of p = 2^level elements.
          auto exchange = [&](const PrimExpr& p, const PrimExpr& k, const PrimExpr& i) -> tir::Stmt {
            PrimExpr offset = tir::select(tir::equal(k, p), Index(0), k);  // k mod p
            PrimExpr j = i - offset;
            PrimExpr starts = i >= offset && tir::equal(tir::bitwise_and(j, k), Index(0));
            PrimExpr same = tir::equal(tir::floordiv(i, p * 2), tir::floordiv(i + k, p * 2));
            return tir::IfThenElse(starts && same, LetIn("a", Load(out[0], at(i)), [&](const PrimExpr& a) {
                                     return LetIn("b", Load(out[0], at(i + k)), [&](const PrimExpr& b) -> tir::Stmt {
                                       tir::Stmt swap = tir::SeqStmt(
                                           Array<tir::Stmt>{Store(out[0], b, at(i)), Store(out[0], a, at(i + k))});
                                       return tir::IfThenElse(Before(key(b), key(a), b, a, ascend), swap);
                                     });
                                   }));
          };
          tir::Stmt sort = Loop(Index(levels), "level", [&](const PrimExpr& level) {
            return Loop(level + 1, "step", [&](const PrimExpr& step) -> tir::Stmt {
              PrimExpr p = tir::left_shift(Index(1), level);
              PrimExpr k = tir::left_shift(Index(1), level - step);
              return tir::IfThenElse(
                  k < n, Loop(tir::max(n - k, Index(0)), "i", [&](const PrimExpr& i) { return exchange(p, k, i); }));
            });
          });
          return tir::SeqStmt(Array<tir::Stmt>{init, sort});
        },
        true);
  };
  return te::Extern({x->shape}, {index_dtype}, {x}, body, "sort_indices", "sort")[0];
}

/// The first elements along `axis` of `x` in the order of `indices`.
Tensor TakeSorted(const Tensor& x, const Tensor& indices, size_t axis, const Array<PrimExpr>& shape) {
  return Compute(
      shape,
      [&](const Array<PrimExpr>& i) {
        Array<PrimExpr> at = i;
        at.Set(axis, tir::cast(DataType::Int(64), indices(i)));
        return x(at);
      },
      "sorted", tag::kInjective);
}

Tensor IndicesAs(const Tensor& indices, DataType dtype, const Array<PrimExpr>& shape) {
  return Compute(
      shape, [&](const Array<PrimExpr>& i) { return tir::cast(dtype, indices(i)); }, "indices", tag::kInjective);
}

Array<Tensor> SortCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type&) {
  const auto* a = attrs.as<ArgsortAttrs>();
  const Tensor& x = inputs[0];
  auto axis = static_cast<size_t>(NormalizeAxis(a->axis, x.ndim()));
  return {TakeSorted(x, SortedIndices(x, axis, a->is_ascend), axis, x->shape)};
}

Array<Tensor> ArgsortCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type&) {
  const auto* a = attrs.as<ArgsortAttrs>();
  const Tensor& x = inputs[0];
  auto axis = static_cast<size_t>(NormalizeAxis(a->axis, x.ndim()));
  return {IndicesAs(SortedIndices(x, axis, a->is_ascend), a->dtype, x->shape)};
}

Array<Tensor> TopKCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<TopKAttrs>();
  const Tensor& x = inputs[0];
  auto axis = static_cast<size_t>(NormalizeAxis(a->axis, x.ndim()));
  Tensor indices = SortedIndices(x, axis, a->is_ascend);
  const Array<PrimExpr>& shape = OutTensor(out_type)->shape;
  Array<Tensor> results;
  if (a->ret_type != "indices") results.push_back(TakeSorted(x, indices, axis, shape));
  if (a->ret_type != "values") results.push_back(IndicesAs(indices, a->dtype, shape));
  return results;
}

OpRegistration Opaque(const char* name, const char* text, TypeRelationFn relation, FTECompute compute) {
  return OpRegistration(name)
      .Describe(text)
      .Arguments({{"data", "Tensor", "The input."}})
      .SupportLevel(6)
      .Relation(relation)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kCompute, std::move(compute));
}

}  // namespace

void RegisterSortOps() {
  Opaque("sort", "Sorted along a dimension.", Rule<SortInfer>, SortCompute).AttrsType<ArgsortAttrs>();
  Opaque("argsort", "Indices that sort along a dimension.", Rule<ArgsortInfer>, ArgsortCompute)
      .AttrsType<ArgsortAttrs>();
  Opaque("topk", "The greatest elements along a dimension and their indices.", Rule<TopKInfer>, TopKCompute)
      .AttrsType<TopKAttrs>();
}

}  // namespace treadle::ops
