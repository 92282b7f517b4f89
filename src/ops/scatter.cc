// SPDX-License-Identifier: Apache-2.0
// Writing elements at indices that are data. Semantics: ONNX ScatterElements-18, ScatterND-18: negative indices count
// from the end, an index out of range is an error when the model runs, of equal indices the last one counts.
#include <algorithm>

#include "ops/families.h"
#include "ops/infer.h"
#include "ops/loops.h"
#include "ops/te_util.h"
#include "treadle/ops/attrs/algorithm.h"
#include "treadle/ops/compute.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(ScatterAttrs);
TREADLE_DEFINE_NODE(ScatterNDAttrs);
TREADLE_DEFINE_NODE(SparseToDenseAttrs);

namespace {

void CheckReduction(const std::string& mode) {
  if (mode != "update" && mode != "add" && mode != "mul" && mode != "min" && mode != "max") {
    throw ShapeError(StrCat("mode must be update, add, mul, min or max, not \"", mode, "\""));
  }
}

Type ScatterInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* indices = context.Tensor(1, "indices");
  const auto* updates = context.Tensor(2, "updates");
  CheckIntegral(indices, "indices");
  CheckSameDType(data, updates);
  CheckRank(indices, data->shape.size(), "indices");
  CheckRank(updates, data->shape.size(), "updates");
  const auto* attrs = context.attrs<ScatterAttrs>();
  CheckReduction(attrs->reduction);
  auto axis = static_cast<size_t>(NormalizeAxis(attrs->axis, data->shape.size()));
  for (size_t i = 0; i < data->shape.size(); ++i) {
    if (!SameDim(indices->shape[i], updates->shape[i]) && !context.Equal(indices->shape[i], updates->shape[i])) {
      throw ShapeError(StrCat("indices ", TypeText(indices), " and updates ", TypeText(updates), " differ in shape"));
    }
    bool constant = AsConstInt(indices->shape[i]) != nullptr && AsConstInt(data->shape[i]) != nullptr;
    if (i != axis && constant && DimValue(indices->shape[i]) > DimValue(data->shape[i])) {
      throw ShapeError(
          StrCat("dimension ", i, " of indices ", TypeText(indices), " exceeds that of data ", TypeText(data)));
    }
    if (i != axis) RequireAtLeast(context, data->shape[i], indices->shape[i]);
  }
  return context.type(0);
}

/// indices (m, ..) as for gather_nd; updates has the shape that gather_nd would give.
Type ScatterNDInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* indices = context.Tensor(1, "indices");
  const auto* updates = context.Tensor(2, "updates");
  CheckReduction(context.attrs<ScatterNDAttrs>()->mode);
  CheckIntegral(indices, "indices");
  CheckSameDType(data, updates);
  if (indices->shape.empty()) throw ShapeError("indices must have at least 1 dimension");
  int64_t length = DimValue(indices->shape[0]);
  if (length < 0 || length > static_cast<int64_t>(data->shape.size())) {
    throw ShapeError(
        StrCat("the first dimension of indices ", TypeText(indices), " must be at most the rank of ", TypeText(data)));
  }
  Array<PrimExpr> expected;
  for (size_t i = 1; i < indices->shape.size(); ++i) expected.push_back(indices->shape[i]);
  for (auto i = static_cast<size_t>(length); i < data->shape.size(); ++i) expected.push_back(data->shape[i]);
  bool match = expected.size() == updates->shape.size();
  for (size_t i = 0; match && i < expected.size(); ++i) {
    match = SameDim(expected[i], updates->shape[i]) || context.Equal(expected[i], updates->shape[i]);
  }
  if (!match) throw ShapeError(StrCat("updates must have shape ", ShapeText(expected), ", not ", TypeText(updates)));
  return context.type(0);
}

/// The new value of an element.
PrimExpr Reduce(const std::string& mode, const PrimExpr& old, const PrimExpr& update) {
  if (mode == "add") return old + update;
  if (mode == "mul") return old * update;
  if (mode == "min") return tir::min(old, update);
  if (mode == "max") return tir::max(old, update);
  return update;
}

tir::Stmt CopyAll(const tir::Buffer& from, const tir::Buffer& to) {
  return LoopNest(to->shape, "c", [&](const Array<PrimExpr>& i) { return Store(to, Load(from, i), i); }, true);
}

/// Runs `body` with the index counted from the start, after checking it.
tir::Stmt WithIndex(const PrimExpr& index, const PrimExpr& extent, const char* name,
                    const std::function<tir::Stmt(PrimExpr)>& body) {
  PrimExpr raw = tir::cast(DataType::Int(64), index);
  return LetIn("index", tir::select(raw < 0, raw + extent, raw), [&](const PrimExpr& i) -> tir::Stmt {
    return tir::AssertStmt(i >= 0 && i < extent, tir::StringImm(StrCat(name, ": index out of range")), body(i));
  });
}

Array<Tensor> ScatterCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type&) {
  const auto* a = attrs.as<ScatterAttrs>();
  const Tensor& x = inputs[0];
  auto axis = static_cast<size_t>(NormalizeAxis(a->axis, x.ndim()));
  auto body = [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& out) -> tir::Stmt {
    tir::Stmt write = LoopNest(in[1]->shape, "i", [&](const Array<PrimExpr>& i) {
      return WithIndex(Load(in[1], i), x->shape[axis], "scatter", [&](const PrimExpr& index) {
        Array<PrimExpr> at = i;
        at.Set(axis, index);
        return Store(out[0], Reduce(a->reduction, Load(out[0], at), Load(in[2], i)), at);
      });
    });
    return tir::SeqStmt(Array<tir::Stmt>{CopyAll(in[0], out[0]), write});
  };
  return {te::Extern({x->shape}, {x->dtype}, inputs, body, "scatter", "scatter")[0]};
}

Array<Tensor> ScatterNDCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type&) {
  const auto* a = attrs.as<ScatterNDAttrs>();
  const Tensor& x = inputs[0];
  const Tensor& indices = inputs[1];
  auto length = static_cast<size_t>(DimValue(indices->shape[0]));
  auto body = [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& out) -> tir::Stmt {
    Array<PrimExpr> places, slice;
    for (size_t i = 1; i < indices.ndim(); ++i) places.push_back(indices->shape[i]);
    for (size_t i = length; i < x.ndim(); ++i) slice.push_back(x->shape[i]);
    tir::Stmt write = LoopNest(places, "i", [&](const Array<PrimExpr>& place) {
      // One checked index after the other, then the slice.
      std::function<tir::Stmt(const Array<PrimExpr>&)> at_index = [&](const Array<PrimExpr>& index) -> tir::Stmt {
        if (index.size() < length) {
          Array<PrimExpr> from = {Index(static_cast<int64_t>(index.size()))};
          for (const PrimExpr& p : place) from.push_back(p);
          return WithIndex(Load(in[1], from), x->shape[index.size()], "scatter_nd", [&](const PrimExpr& i) {
            Array<PrimExpr> longer = index;
            longer.push_back(i);
            return at_index(longer);
          });
        }
        return LoopNest(slice, "s", [&](const Array<PrimExpr>& rest) {
          Array<PrimExpr> at = index;
          Array<PrimExpr> from = place;
          for (const PrimExpr& r : rest) {
            at.push_back(r);
            from.push_back(r);
          }
          return Store(out[0], Reduce(a->mode, Load(out[0], at), Load(in[2], from)), at);
        });
      };
      return at_index({});
    });
    return tir::SeqStmt(Array<tir::Stmt>{CopyAll(in[0], out[0]), write});
  };
  return {te::Extern({x->shape}, {x->dtype}, inputs, body, "scatter_nd", "scatter")[0]};
}

Array<Tensor> ScatterAddCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  Attrs add = MakeAttrs<ScatterAttrs>([&](auto& a) {
    a.axis = attrs.as<ScatterAttrs>()->axis;
    a.reduction = "add";
  });
  return ScatterCompute(add, inputs, out_type);
}

/// sparse_indices () or (n) or (n, rank), sparse_values () or (n), default_value ()
Type SparseToDenseInfer(const InferContext& context) {
  const auto* indices = context.Tensor(0, "sparse_indices");
  const auto* values = context.Tensor(1, "sparse_values");
  const auto* attrs = context.attrs<SparseToDenseAttrs>();
  CheckIntegral(indices, "sparse_indices");
  CheckSpatial(attrs->output_shape, attrs->output_shape.size(), 0, "output_shape");
  CheckSameDType(values, context.Tensor(2, "default_value"));
  CheckRank(context.Tensor(2, "default_value"), 0, "default_value");
  size_t length =
      indices->shape.size() < 2 ? 1 : static_cast<size_t>(std::max<int64_t>(DimValue(indices->shape[1]), 0));
  if (indices->shape.size() > 2 || length != attrs->output_shape.size() || values->shape.size() > 1) {
    throw ShapeError(StrCat("indices ", TypeText(indices), " and values ", TypeText(values), " don't fit output_shape ",
                            ShapeText(MakeDims(attrs->output_shape))));
  }
  if (!values->shape.empty()) {
    CheckDim(context, values, 0, "sparse_values", indices->shape.empty() ? Dim(1) : indices->shape[0],
             "sparse_indices");
  }
  return TensorType(MakeDims(attrs->output_shape), values->dtype);
}

Array<Tensor> SparseToDenseCompute(const Attrs&, const Array<Tensor>& inputs, const Type& out_type) {
  const TensorTypeNode* out = OutTensor(out_type);
  const Tensor& indices = inputs[0];
  size_t length = indices.ndim() < 2 ? 1 : static_cast<size_t>(DimValue(indices->shape[1]));
  auto body = [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& outs) -> tir::Stmt {
    tir::Stmt fill =
        LoopNest(out->shape, "c", [&](const Array<PrimExpr>& i) { return Store(outs[0], Load(in[2], {}), i); }, true);
    Array<PrimExpr> places;
    if (indices.ndim() > 0) places.push_back(indices->shape[0]);
    tir::Stmt write = LoopNest(places, "i", [&](const Array<PrimExpr>& place) {
      std::function<tir::Stmt(const Array<PrimExpr>&)> at_index = [&](const Array<PrimExpr>& index) -> tir::Stmt {
        if (index.size() == length) {
          return Store(outs[0], Load(in[1], inputs[1].ndim() == 0 ? Array<PrimExpr>() : place), index);
        }
        Array<PrimExpr> from = place;
        if (indices.ndim() == 2) from.push_back(Index(static_cast<int64_t>(index.size())));
        return WithIndex(Load(in[0], from), out->shape[index.size()], "sparse_to_dense", [&](const PrimExpr& i) {
          Array<PrimExpr> longer = index;
          longer.push_back(i);
          return at_index(longer);
        });
      };
      return at_index({});
    });
    return tir::SeqStmt(Array<tir::Stmt>{fill, write});
  };
  return {te::Extern({out->shape}, {out->dtype}, inputs, body, "sparse_to_dense", "scatter")[0]};
}

OpRegistration Scatter(const char* name, const char* text, TypeRelationFn relation, FTECompute compute) {
  return OpRegistration(name)
      .Describe(text)
      .Arguments({{"data", "Tensor", "The input."},
                  {"indices", "Tensor", "Which elements."},
                  {"updates", "Tensor", "Their new values."}})
      .SupportLevel(10)
      .Relation(relation)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kCompute, std::move(compute));
}

}  // namespace

void RegisterScatterOps() {
  Scatter("scatter", "Elements written whose index along one dimension is given.", Rule<ScatterInfer>, ScatterCompute)
      .AttrsType<ScatterAttrs>();
  Scatter("scatter_nd", "Slices written at indices of several dimensions.", Rule<ScatterNDInfer>, ScatterNDCompute)
      .AttrsType<ScatterNDAttrs>();
  Scatter("scatter_add", "Elements added to, whose index along one dimension is given.", Rule<ScatterInfer>,
          ScatterAddCompute)
      .AttrsType<ScatterAttrs>();
  Scatter("sparse_to_dense", "A tensor of one value but at the given indices.", Rule<SparseToDenseInfer>,
          SparseToDenseCompute)
      .Arguments({{"sparse_indices", "Tensor", "Where the values stand."},
                  {"sparse_values", "Tensor", "The values."},
                  {"default_value", "Tensor", "Scalar: all others."}})
      .AttrsType<SparseToDenseAttrs>();
}

}  // namespace treadle::ops
