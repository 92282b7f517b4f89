// SPDX-License-Identifier: Apache-2.0
// Running sums and products. Semantics: NumPy; ONNX CumSum-14.
#include "ops/families.h"
#include "ops/infer.h"
#include "ops/loops.h"
#include "ops/te_util.h"
#include "treadle/ops/attrs/algorithm.h"
#include "treadle/ops/compute.h"
#include "treadle/relay/rewrite_rules.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(ScanopAttrs);

namespace {

Type ScanInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<ScanopAttrs>();
  DataType dtype = attrs->dtype.is_void() ? data->dtype : attrs->dtype;
  if (dtype.is_bool()) throw DTypeError("data must be numbers, not bool: give dtype, such as dtype=\"int64\"");
  if (attrs->axis.has_value()) {
    NormalizeAxis(*attrs->axis, data->shape.size());
    return TensorType(data->shape, dtype);
  }
  return TensorType(Array<PrimExpr>{DimProduct(data->shape, 0, data->shape.size())}, dtype);
}

template <bool kProduct>
Array<Tensor> ScanCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<ScanopAttrs>();
  const TensorTypeNode* out = OutTensor(out_type);
  const Tensor& x = inputs[0];
  bool flat = !a->axis.has_value();
  auto axis = static_cast<size_t>(flat ? 0 : NormalizeAxis(*a->axis, x.ndim()));
  PrimExpr n = out->shape[axis];
  PrimExpr identity = tir::make_const(out->dtype, kProduct ? 1 : 0);
  Array<PrimExpr> before, after;
  for (size_t i = 0; i < out->shape.size(); ++i) {
    if (i < axis) before.push_back(out->shape[i]);
    if (i > axis) after.push_back(out->shape[i]);
  }
  auto body = [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& outs) {
    return LoopNest(
        before, "o",
        [&](const Array<PrimExpr>& outer) {
          return Loop(n, "t", [&](const PrimExpr& t) {
            return LoopNest(after, "i", [&](const Array<PrimExpr>& inner) {
              auto at = [&](const PrimExpr& step) {
                Array<PrimExpr> index = outer;
                index.push_back(a->reverse ? n - 1 - step : step);
                for (const PrimExpr& i : inner) index.push_back(i);
                return index;
              };
              auto value = [&](const PrimExpr& step) {
                Array<PrimExpr> index = flat ? UnflattenIndex(at(step)[0], x->shape) : at(step);
                return tir::cast(out->dtype, Load(in[0], index));
              };
              auto combine = [](const PrimExpr& p, const PrimExpr& q) { return kProduct ? p * q : p + q; };
              PrimExpr first = a->exclusive ? identity : value(t);
              PrimExpr next = combine(Load(outs[0], at(t - 1)), a->exclusive ? value(t - 1) : value(t));
              return Store(outs[0], tir::if_then_else(tir::equal(t, Index(0)), first, next), at(t));
            });
          });
        },
        true);
  };
  return {te::Extern({out->shape}, {out->dtype}, {x}, body, kProduct ? "cumprod" : "cumsum", "scan")[0]};
}

OpRegistration Scan(const char* name, const char* text, FTECompute compute) {
  return OpRegistration(name)
      .Describe(text)
      .Arguments({{"data", "Tensor", "The input."}})
      .AttrsType<ScanopAttrs>()
      .SupportLevel(6)
      .Relation(Rule<ScanInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kCompute, std::move(compute));
}

}  // namespace

void RegisterScanOps() {
  Scan("cumsum", "Sums of all elements up to each.", ScanCompute<false>)
      .Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kNever);
  Scan("cumprod", "Products of all elements up to each.", ScanCompute<true>)
      .Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kNever);
}

}  // namespace treadle::ops
