// SPDX-License-Identifier: Apache-2.0
// Random numbers by position, determinants, where maxima of windows stand, and columns of deformable convolutions.
// Semantics: ONNX MaxPool-22, DeformConv-22, Det-22.
#include "treadle/ops/attrs/sample.h"
#include "ops/dynamic.h"
#include "ops/infer.h"
#include "ops/loops.h"
#include "ops/te_util.h"
#include "treadle/ops/compute.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(RandomAttrs);
TREADLE_DEFINE_NODE(WindowSampleAttrs);

namespace {

// ---- Random numbers.

Type UniformInfer(const InferContext& context) {
  return TensorType(context.Tensor(0, "like")->shape, DataType::Float(32));
}

/// An integer whose bits all depend on all bits of `x`.
PrimExpr Mixed(PrimExpr x) {
  const DataType u32 = DataType::UInt(32);
  auto fold = [&](int shift) { x = tir::bitwise_xor(x, tir::right_shift(x, tir::make_const(u32, shift))); };
  auto spread = [&](uint32_t factor) { x = x * tir::cast(u32, tir::make_const(DataType::Int(64), int64_t{factor})); };
  fold(16);
  spread(0x7feb352du);
  fold(15);
  spread(0x846ca68bu);
  fold(16);
  return x;
}

Array<Tensor> UniformCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const TensorTypeNode* out = OutTensor(out_type);
  const int64_t seed = attrs.as<RandomAttrs>()->seed;
  const DataType u32 = DataType::UInt(32);
  auto constant = [&](int64_t value) { return tir::cast(u32, tir::make_const(DataType::Int(64), value & 0xffffffff)); };
  return {Compute(
      out->shape,
      [&](const Array<PrimExpr>& i) {
        PrimExpr position = i.empty() ? Index(0) : FlatIndex(i, inputs[0]->shape);
        PrimExpr x = Mixed(tir::bitwise_xor(tir::cast(u32, position), constant(seed)));
        x = Mixed(tir::bitwise_xor(x, constant(seed * 0x9e3779b9 + 0x7f4a7c15)));
        // 24 bits are exact in float32.
        PrimExpr bits = tir::cast(DataType::Int(32), tir::right_shift(x, tir::make_const(u32, 8)));
        return tir::cast(DataType::Float(32), bits) * tir::make_const(DataType::Float(32), 1.0 / 16777216);
      },
      "uniform", tag::kInjective)};
}

// ---- Determinants.

Type DetInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const size_t rank = data->shape.size();
  if (rank < 2) throw ShapeError(StrCat("data must have at least 2 dimensions, not ", TypeText(data)));
  if (!data->dtype.is_float()) throw DTypeError(StrCat("data must be floats, not ", data->dtype));
  if (!context.Equal(data->shape[rank - 1], data->shape[rank - 2])) {
    throw ShapeError(StrCat("matrices must be square, not ", TypeText(data)));
  }
  Array<PrimExpr> out;
  for (size_t i = 0; i + 2 < rank; ++i) out.push_back(data->shape[i]);
  return TensorType(out, data->dtype);
}

/// Gaussian elimination with the greatest pivot of each column, in float64.
Array<Tensor> DetCompute(const Attrs&, const Array<Tensor>& inputs, const Type& out_type) {
  const TensorTypeNode* out = OutTensor(out_type);
  const Tensor& x = inputs[0];
  const PrimExpr n = x->shape[x.ndim() - 1];
  const DataType wide = DataType::Float(64);
  auto body = [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& outs) {
    return LoopNest(out->shape, "b", [&](const Array<PrimExpr>& batch) -> tir::Stmt {
      auto at = [&](const PrimExpr& i, const PrimExpr& j) {
        Array<PrimExpr> index = batch;
        index.push_back(i);
        index.push_back(j);
        return index;
      };
      const tir::Buffer &a = outs[1], &state = outs[2];  // state: the determinant so far, the pivot's row
      auto det = at(Index(0), Index(0)), pivot = at(Index(0), Index(1));
      auto element = [&](const PrimExpr& i, const PrimExpr& j) { return Load(a, at(i, j)); };
      tir::Stmt copy = Loop(n, "i", [&](const PrimExpr& i) {
        return Loop(n, "j",
                    [&](const PrimExpr& j) { return Store(a, tir::cast(wide, Load(in[0], at(i, j))), at(i, j)); });
      });
      tir::Stmt eliminate = Loop(n, "k", [&](const PrimExpr& k) -> tir::Stmt {
        tir::Stmt none = Store(state, tir::cast(wide, k), pivot);
        tir::Stmt find = Loop(n, "i", [&](const PrimExpr& i) -> tir::Stmt {
          PrimExpr best = tir::cast(DataType::Int(64), Load(state, pivot));
          PrimExpr better = i > k && tir::abs(element(i, k)) > tir::abs(element(best, k));
          return tir::IfThenElse(better, Store(state, tir::cast(wide, i), pivot));
        });
        tir::Stmt swap =
            LetIn("p", tir::cast(DataType::Int(64), Load(state, pivot)), [&](const PrimExpr& p) -> tir::Stmt {
              tir::Stmt rows = Loop(n, "j", [&](const PrimExpr& j) {
                return LetIn("t", element(k, j), [&](const PrimExpr& t) -> tir::Stmt {
                  return tir::SeqStmt(Array<tir::Stmt>{Store(a, element(p, j), at(k, j)), Store(a, t, at(p, j))});
                });
              });
              tir::Stmt sign = Store(state, tir::make_const(wide, 0) - Load(state, det), det);
              return tir::IfThenElse(tir::not_equal(p, k), tir::SeqStmt(Array<tir::Stmt>{rows, sign}));
            });
        tir::Stmt multiply = Store(state, Load(state, det) * element(k, k), det);
        tir::Stmt subtract = Loop(n, "i", [&](const PrimExpr& i) -> tir::Stmt {
          tir::Stmt row = LetIn("f", tir::div(element(i, k), element(k, k)), [&](const PrimExpr& f) {
            return Loop(n, "j",
                        [&](const PrimExpr& j) { return Store(a, element(i, j) - f * element(k, j), at(i, j)); });
          });
          return tir::IfThenElse(i > k && tir::not_equal(element(k, k), tir::make_const(wide, 0)), row);
        });
        return tir::SeqStmt(Array<tir::Stmt>{none, find, swap, multiply, subtract});
      });
      tir::Stmt start = Store(state, tir::make_const(wide, 1), det);
      tir::Stmt finish = Store(outs[0], tir::cast(out->dtype, Load(state, det)), batch);
      return tir::SeqStmt(Array<tir::Stmt>{copy, start, eliminate, finish});
    });
  };
  Array<PrimExpr> state = out->shape;
  state.push_back(Index(1));
  state.push_back(Index(2));
  return {te::Extern({out->shape, x->shape, state}, {out->dtype, wide, wide}, {x}, body, "det", "det")[0]};
}

// ---- Where the maxima of windows stand.

Type PoolIndicesInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* pooled = context.Tensor(1, "pooled");
  const auto* a = context.attrs<WindowSampleAttrs>();
  const size_t spatial = a->kernel.size();
  if (data->shape.size() != spatial + 2 || pooled->shape.size() != spatial + 2 || a->strides.size() != spatial ||
      a->dilations.size() != spatial || a->padding.size() != 2 * spatial) {
    throw ShapeError("the operands' ranks don't fit the window");
  }
  for (size_t i = 0; i < 2; ++i) CheckDim(context, pooled, i, "pooled", data->shape[i], "data");
  return TensorType(pooled->shape, DataType::Int(64));
}

Array<Tensor> PoolIndicesCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<WindowSampleAttrs>();
  const TensorTypeNode* out = OutTensor(out_type);
  const Tensor& x = inputs[0];
  const size_t spatial = a->kernel.size();
  Array<PrimExpr> taps;
  for (int64_t k : a->kernel) taps.push_back(Index(k));
  auto body = [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& outs) {
    return LoopNest(
        out->shape, "o",
        [&](const Array<PrimExpr>& o) -> tir::Stmt {
          tir::Stmt none = Store(outs[0], Index(-1), o);
          tir::Stmt search = LoopNest(taps, "k", [&](const Array<PrimExpr>& k) -> tir::Stmt {
            Array<PrimExpr> at{o[0], o[1]}, dims = x->shape, safe = at;
            PrimExpr inside = tir::make_bool(true);
            for (size_t d = 0; d < spatial; ++d) {
              PrimExpr p = o[d + 2] * a->strides[d] + k[d] * a->dilations[d] - a->padding[d];
              inside = inside && p >= Index(0) && p < x->shape[d + 2];
              at.push_back(p);
              safe.push_back(Clamp(p, Index(0), x->shape[d + 2] - 1));
            }
            if (a->column_major) {  // rows run fastest within an image
              for (size_t d = 0; d < spatial / 2; ++d) {
                PrimExpr first = at[2 + d], last = at[1 + spatial - d];
                at.Set(2 + d, last);
                at.Set(1 + spatial - d, first);
                first = dims[2 + d], last = dims[1 + spatial - d];
                dims.Set(2 + d, last);
                dims.Set(1 + spatial - d, first);
              }
            }
            PrimExpr found = inside && Load(outs[0], o) < Index(0) && tir::equal(Load(in[0], safe), Load(in[1], o));
            return tir::IfThenElse(found, Store(outs[0], FlatIndex(at, dims), o));
          });
          return tir::SeqStmt(Array<tir::Stmt>{none, search});
        },
        true);
  };
  return {te::Extern({out->shape}, {out->dtype}, {x, inputs[1]}, body, "max_pool_indices", "max_pool_indices")[0]};
}

// ---- Deformable convolution.

Type DeformInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* offset = context.Tensor(1, "offset");
  const auto* mask = context.Tensor(2, "mask");
  const auto* a = context.attrs<WindowSampleAttrs>();
  CheckRank(data, 4, "data");
  CheckRank(offset, 4, "offset");
  if (!mask->shape.empty()) CheckRank(mask, 4, "mask");
  if (a->kernel.size() != 2 || a->strides.size() != 2 || a->dilations.size() != 2 || a->padding.size() != 4) {
    throw ShapeError("the window must have two dimensions");
  }
  const int64_t taps = a->kernel[0] * a->kernel[1];
  CheckDim(context, offset, 0, "offset", data->shape[0], "data");
  CheckDim(context, offset, 1, "offset", Dim(2 * taps * a->groups), "the window, two for each tap and group");
  RequireMultiple(context, data->shape[1], a->groups);
  for (size_t i = 0; i < 2; ++i) {
    const int64_t padding = a->padding[i] + a->padding[2 + i], span = (a->kernel[i] - 1) * a->dilations[i] + 1;
    RequireWindow(context, data->shape[2 + i], padding, span);
    CheckDim(context, offset, 2 + i, "offset", WindowDim(data->shape[2 + i], padding, span, a->strides[i]),
             "the places of the window");
  }
  if (!mask->shape.empty()) {
    for (size_t i : {0, 2, 3}) CheckDim(context, mask, i, "mask", offset->shape[i], "offset");
    CheckDim(context, mask, 1, "mask", Dim(taps * a->groups), "the window, one for each tap and group");
  }
  return TensorType({data->shape[0], DimMul(data->shape[1], Dim(taps)), offset->shape[2], offset->shape[3]},
                    data->dtype);
}

/// Where a tap of each window reads along one dimension, for all channels of a group: the element before its position
/// and the one after, -1 outside, and how much the latter counts.
struct AxisSamples {
  Tensor before, after;
  Tensor part;  ///< of `after`; the rest is that of `before`
};

AxisSamples DeformedAxis(const WindowSampleAttrs* a, size_t d, const PrimExpr& size, const Tensor& offset,
                         DataType real) {
  const int64_t taps = a->kernel[0] * a->kernel[1];
  Array<PrimExpr> shape = offset->shape;
  shape.Set(1, Dim(taps * a->groups));
  auto number = [&](double value) { return tir::make_const(real, value); };
  auto position = [&](const Array<PrimExpr>& i) {  // (n, group and tap, row, column)
    const PrimExpr tap = tir::floormod(i[1], taps);
    const PrimExpr k = d == 0 ? tir::floordiv(tap, a->kernel[1]) : tir::floormod(tap, a->kernel[1]);
    const PrimExpr fixed = i[d + 2] * a->strides[d] + k * a->dilations[d] - a->padding[d];
    const PrimExpr moved = offset(Array<PrimExpr>{i[0], i[1] * 2 + static_cast<int64_t>(d), i[2], i[3]});
    const PrimExpr at = tir::cast(real, fixed) + tir::cast(real, moved);
    // What is far outside is as good as just outside.
    return tir::max(tir::min(at, tir::cast(real, size) + number(1)), number(-2));
  };
  const int64_t* known = AsConstInt(size);
  const DataType place = DataType::Int(known != nullptr && *known < INT32_MAX ? 32 : 64);
  auto element = [&](int64_t step, const char* name) {
    return Compute(
        shape,
        [&](const Array<PrimExpr>& i) {
          const PrimExpr at = tir::cast(place, tir::floor(position(i))) + tir::make_const(place, step);
          const PrimExpr inside = at >= tir::make_zero(place) && at < tir::cast(place, size);
          return tir::select(inside, at, tir::make_const(place, -1));
        },
        StrCat("deformed_", name, d), "table");
  };
  const Tensor part = Compute(
      shape, [&](const Array<PrimExpr>& i) { return position(i) - tir::floor(position(i)); },
      StrCat("deformed_part", d), "table");
  return {element(0, "before"), element(1, "after"), part};
}

Array<Tensor> DeformCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<WindowSampleAttrs>();
  const Tensor &x = inputs[0], &offset = inputs[1], &mask = inputs[2];
  const TensorTypeNode* out = OutTensor(out_type);
  const int64_t taps = a->kernel[0] * a->kernel[1];
  const DataType real = x->dtype.bits() < 32 ? DataType::Float(32) : x->dtype;
  const AxisSamples rows = DeformedAxis(a, 0, x->shape[2], offset, real),
                    columns = DeformedAxis(a, 1, x->shape[3], offset, real);
  auto body = [&](const Array<PrimExpr>& i) {
    PrimExpr channel = tir::floordiv(i[1], taps), tap = tir::floormod(i[1], taps);
    PrimExpr group = tir::floordiv(channel, tir::max(tir::floordiv(x->shape[1], a->groups), Index(1)));
    const Array<PrimExpr> at{i[0], group * taps + tap, i[2], i[3]};
    const PrimExpr zero = tir::make_zero(real), one = tir::make_const(real, 1);
    auto element = [&](const PrimExpr& row, const PrimExpr& column) {
      auto safe = [](const PrimExpr& place) {
        return tir::cast(DataType::Int(64), tir::max(place, tir::make_zero(place.dtype())));
      };
      const PrimExpr value = x(Array<PrimExpr>{i[0], channel, safe(row), safe(column)});
      const PrimExpr inside = row >= tir::make_zero(row.dtype()) && column >= tir::make_zero(column.dtype());
      return tir::select(inside, tir::cast(real, value), zero);
    };
    auto along = [&](const PrimExpr& row) {
      return element(row, columns.before(at)) * (one - columns.part(at)) +
             element(row, columns.after(at)) * columns.part(at);
    };
    PrimExpr value = along(rows.before(at)) * (one - rows.part(at)) + along(rows.after(at)) * rows.part(at);
    if (mask.ndim() == 4) value = value * tir::cast(real, mask(at));
    return tir::cast(out->dtype, value);
  };
  return {Compute(out->shape, body, "deformable_columns", tag::kInjective)};
}

}  // namespace

void RegisterSampleOps() {
  OpRegistration("random.uniform_like")
      .Describe("Numbers in [0, 1) of the shape of the operand: a hash of the seed and of the position.")
      .Arguments({{"like", "Tensor", "Only its shape counts."}})
      .AttrsType<RandomAttrs>()
      .Relation(Rule<UniformInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kCompute, FTECompute(UniformCompute));
  OpRegistration("linalg.det")
      .Describe("Determinants of the matrices in the last two dimensions.")
      .Arguments({{"data", "Tensor", "(.., n, n)"}})
      .Relation(Rule<DetInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kCompute, FTECompute(DetCompute));
  OpRegistration("nn.max_pool_indices")
      .Describe("Where in the flattened input the first maximum of each window stands.")
      .Arguments({{"data", "Tensor", "(N, C, spatial)"}, {"pooled", "Tensor", "The maxima."}})
      .AttrsType<WindowSampleAttrs>()
      .Relation(Rule<PoolIndicesInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kCompute, FTECompute(PoolIndicesCompute));
  OpRegistration("nn.deformable_columns")
      .Describe("What each window of a deformable convolution reads: (N, C * taps, height, width).")
      .Arguments({{"data", "Tensor", "(N, C, H, W)"},
                  {"offset", "Tensor", "(N, groups * taps * 2, height, width)"},
                  {"mask", "Tensor", "(N, groups * taps, height, width), or a scalar: none"}})
      .AttrsType<WindowSampleAttrs>()
      .Relation(Rule<DeformInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kCompute, FTECompute(DeformCompute));
}

}  // namespace treadle::ops
