// SPDX-License-Identifier: Apache-2.0
// Rows of a cache replaced, from an index of each sample's own on. Semantics: ONNX TensorScatter-24.
#include "treadle/ops/write_rows.h"

#include "ops/families.h"
#include "ops/infer.h"
#include "ops/loops.h"
#include "ops/te_util.h"
#include "treadle/ops/compute.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(WriteRowsAttrs);

namespace {

/// data (batch, .., rows, ..), update likewise but for the number of rows, begin (batch).
Type WriteRowsInfer(const InferContext& context) {
  const auto *data = context.Tensor(0, "data"), *update = context.Tensor(1, "update"),
             *begin = context.Tensor(2, "begin");
  CheckIntegral(begin, "begin");
  CheckRank(begin, 1, "begin");
  CheckSameDType(data, update);
  CheckRank(update, data->shape.size(), "update");
  const auto axis = static_cast<size_t>(NormalizeAxis(context.attrs<WriteRowsAttrs>()->axis, data->shape.size()));
  if (axis == 0) throw ShapeError("axis is that of samples");
  for (size_t i = 0; i < data->shape.size(); ++i) {
    if (i != axis) CheckDim(context, update, i, "update", data->shape[i], "data");
  }
  CheckDim(context, begin, 0, "begin", data->shape[0], "data");
  return context.type(0);
}

/// The elements of `update` into `out`: dimensions up to that of the rows, whose place is looked at, then the others.
tir::Stmt WriteAll(const WriteRowsAttrs* a, const Array<tir::Buffer>& in, const tir::Buffer& out) {
  const Array<PrimExpr>& shape = in[1]->shape;
  const auto axis = static_cast<size_t>(NormalizeAxis(a->axis, shape.size()));
  const auto middle = static_cast<std::ptrdiff_t>(axis) + 1;
  const Array<PrimExpr> outer(shape.begin(), shape.begin() + middle), inner(shape.begin() + middle, shape.end());
  const PrimExpr rows = tir::cast(DataType::Int(64), out->shape[axis]);
  return LoopNest(outer, "i", [&](const Array<PrimExpr>& i) {
    const PrimExpr begin = tir::cast(DataType::Int(64), Load(in[2], {i[0]}));
    PrimExpr place = begin + tir::cast(DataType::Int(64), i[axis]);
    if (a->circular) place = tir::floormod(place, tir::max(rows, tir::make_const(DataType::Int(64), 1)));
    return LetIn("row", place, [&](const PrimExpr& row) -> tir::Stmt {
      tir::Stmt write = LoopNest(inner, "j", [&](const Array<PrimExpr>& j) {
        Array<PrimExpr> from = i, to = i;
        to.Set(axis, row);
        for (const PrimExpr& at : j) {
          from.push_back(at);
          to.push_back(at);
        }
        return Store(out, Load(in[1], from), to);
      });
      return tir::IfThenElse(row >= 0 && row < rows, write);
    });
  });
}

Array<Tensor> WriteRowsCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type&) {
  auto body = [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& out) -> tir::Stmt {
    const DataType address = DataType::Int(64);
    // The caller may have put the result where the data are.
    const PrimExpr apart =
        tir::not_equal(tir::reinterpret(address, in[0]->data), tir::reinterpret(address, out[0]->data));
    tir::Stmt copy =
        LoopNest(out[0]->shape, "c", [&](const Array<PrimExpr>& i) { return Store(out[0], Load(in[0], i), i); }, true);
    return tir::SeqStmt(
        Array<tir::Stmt>{tir::IfThenElse(apart, copy), WriteAll(attrs.as<WriteRowsAttrs>(), in, out[0])});
  };
  return {te::Extern({inputs[0]->shape}, {inputs[0]->dtype}, inputs, body, "write_rows", "write_rows")[0]};
}

}  // namespace

void RegisterWriteRowsOps() {
  OpRegistration("nn.contrib_write_rows")
      .Describe("data with rows replaced by those of update, from row begin[i] of sample i on.")
      .Arguments({{"data", "Tensor", "(batch, .., rows, ..)"},
                  {"update", "Tensor", "As data, with as many rows as are written"},
                  {"begin", "Tensor", "(batch), integers"}})
      .AttrsType<WriteRowsAttrs>()
      .SupportLevel(10)
      .Relation(Rule<WriteRowsInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kUpdatesOperand, true)
      .Set(kCompute, FTECompute(WriteRowsCompute));
}

}  // namespace treadle::ops
