// SPDX-License-Identifier: Apache-2.0
// Checks of integers that a run depends on: indices, sizes, steps. Tensors of these are small beside the data that they
// speak of, so they are looked at before it is touched, and the kernels that use them stay without branches.
#include "ops/check.h"

#include "ops/infer.h"
#include "ops/loops.h"
#include "ops/te_util.h"
#include "treadle/ops/attrs/check.h"
#include "treadle/ops/compute.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(CheckValuesAttrs);

namespace {

/// Registered by the runtime: throws what an error says, given rule, place, name, value and limit.
constexpr const char* kReport = "runtime.ReportValue";
/// The same for a number between 0 and its limit, given place, name, number and limit.
constexpr const char* kReportReal = "runtime.ReportReal";

/// values (..), limits () or (n): one limit, or one for each index along the first dimension of the values. The
/// values, counted from the start where they are indices. Real numbers only have the rule at_most.
Type CheckValuesInfer(const InferContext& context) {
  const auto* values = context.Tensor(0, "values");
  const auto* limits = context.Tensor(1, "limits");
  const auto* attrs = context.attrs<CheckValuesAttrs>();
  if (values->dtype.is_floating() && attrs->rule == "at_most") {
    CheckSameDType(values, limits);
  } else {
    CheckIntegral(values, "values");
    CheckIntegral(limits, "limits");
  }
  if (attrs->rule != "index" && attrs->rule != "at_most" && attrs->rule != "at_least" && attrs->rule != "not_zero" &&
      attrs->rule != "total" && attrs->rule != "broadcast" && attrs->rule != "equal") {
    throw ShapeError(StrCat("rule must be index, at_most, at_least, not_zero, total, broadcast or equal, not \"",
                            attrs->rule, "\""));
  }
  if (limits->shape.size() > 1 || (limits->shape.size() == 1 && values->shape.empty())) {
    throw ShapeError(StrCat("limits ", TypeText(limits), " must be a scalar, or a vector for values ", TypeText(values),
                            " with a first dimension"));
  }
  if (!limits->shape.empty()) CheckDim(context, limits, 0, "limits", values->shape[0], "values");
  return context.type(0);
}

/// One value and its limit, as int64.
struct Checked {
  const CheckValuesAttrs* attrs;
  PrimExpr value, limit;

  PrimExpr Fits() const {
    PrimExpr fits;
    if (attrs->rule == "index") fits = value >= Index(0) - limit && value < limit;
    if (attrs->rule == "at_most") fits = value >= 0 && value <= limit;
    if (attrs->rule == "at_least") fits = value >= limit;
    if (attrs->rule == "not_zero") fits = tir::not_equal(value, Index(0));
    if (attrs->rule == "total") fits = value >= 0 && value <= limit;  // sums of those that fit don't overflow
    if (attrs->rule == "equal") fits = tir::equal(value, limit);
    if (attrs->rule == "broadcast") {
      fits = value >= 0 && (tir::equal(value, limit) || tir::equal(value, Index(1)) || tir::equal(limit, Index(1)));
    }
    if (attrs->exempt) fits = fits || tir::equal(value, Index(*attrs->exempt));
    return fits;
  }
  PrimExpr Result() const {
    if (attrs->rule != "index") return value;
    PrimExpr moved = tir::select(value < 0, value + limit, value);
    return attrs->exempt ? tir::select(tir::equal(value, Index(*attrs->exempt)), value, moved) : moved;
  }
  tir::Stmt Report(const PrimExpr& given, const std::string& rule) const {
    const DataType i32 = DataType::Int(32);
    return tir::Evaluate(tir::CallPacked(
        i32, kReport, {tir::StringImm(rule), tir::StringImm(attrs->where), tir::StringImm(attrs->what), given, limit}));
  }
};

/// All values are looked at without a branch; only where one doesn't fit is it looked for again, to be named.
tir::Stmt CheckAll(const CheckValuesAttrs* attrs, const tir::Buffer& values, const tir::Buffer& limits,
                   const tir::Buffer& result) {
  const DataType i64 = DataType::Int(64);
  auto checked = [&](const Array<PrimExpr>& i) {
    Array<PrimExpr> at;
    if (!limits->shape.empty()) at.push_back(i[0]);
    return Checked{attrs, tir::cast(i64, Load(values, i)), tir::cast(i64, Load(limits, at))};
  };
  tir::Buffer state = tir::DeclBuffer({Index(2)}, i64, "state");  // whether one doesn't fit, their sum
  Array<tir::Stmt> steps;
  steps.push_back(Store(state, Index(0), {Index(0)}));
  steps.push_back(Store(state, Index(0), {Index(1)}));
  steps.push_back(LoopNest(values->shape, "i", [&](const Array<PrimExpr>& i) -> tir::Stmt {
    const Checked one = checked(i);
    Array<tir::Stmt> body;
    PrimExpr bad = tir::cast(i64, tir::logical_not(one.Fits()));
    body.push_back(Store(state, tir::bitwise_or(Load(state, {Index(0)}), bad), {Index(0)}));
    if (attrs->rule == "total") body.push_back(Store(state, Load(state, {Index(1)}) + one.value, {Index(1)}));
    body.push_back(Store(result, tir::cast(result->dtype, one.Result()), i));
    return tir::SeqStmt(body);
  }));
  const std::string single = attrs->rule == "total" ? "at_most" : attrs->rule;
  tir::Stmt find = LoopNest(values->shape, "j", [&](const Array<PrimExpr>& i) -> tir::Stmt {
    const Checked one = checked(i);
    return tir::IfThenElse(tir::logical_not(one.Fits()), one.Report(one.value, single));
  });
  steps.push_back(tir::IfThenElse(tir::not_equal(Load(state, {Index(0)}), Index(0)), find));
  if (attrs->rule == "total") {
    const Checked all{attrs, Load(state, {Index(1)}), tir::cast(i64, Load(limits, {}))};
    steps.push_back(tir::IfThenElse(tir::not_equal(all.value, all.limit), all.Report(all.value, attrs->rule)));
  }
  return tir::Allocate(state, tir::SeqStmt(steps));
}

/// Real numbers are few; those that are no numbers don't fit, so they are compared as what fits.
tir::Stmt CheckReal(const CheckValuesAttrs* attrs, const tir::Buffer& values, const tir::Buffer& limits,
                    const tir::Buffer& result) {
  const DataType f64 = DataType::Float(64), i32 = DataType::Int(32);
  return LoopNest(values->shape, "i", [&](const Array<PrimExpr>& i) -> tir::Stmt {
    const Array<PrimExpr> at = limits->shape.empty() ? Array<PrimExpr>() : Array<PrimExpr>{i[0]};
    const PrimExpr value = tir::cast(f64, Load(values, i)), limit = tir::cast(f64, Load(limits, at));
    const tir::Stmt kept = Store(result, Load(values, i), i);
    const tir::Stmt report = tir::Evaluate(
        tir::CallPacked(i32, kReportReal, {tir::StringImm(attrs->where), tir::StringImm(attrs->what), value, limit}));
    return tir::IfThenElse(value >= tir::make_zero(f64) && value <= limit, kept, report);
  });
}

Array<Tensor> CheckValuesCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type&) {
  const auto* a = attrs.as<CheckValuesAttrs>();
  auto body = [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& out) {
    return in[0]->dtype.is_floating() ? CheckReal(a, in[0], in[1], out[0]) : CheckAll(a, in[0], in[1], out[0]);
  };
  return {te::Extern({inputs[0]->shape}, {inputs[0]->dtype}, inputs, body, "check_values", "check_values")[0]};
}

}  // namespace

void RegisterCheckOps() {
  OpRegistration("check_values")
      .Describe("The values, if they keep a rule; else the model stops with an error.")
      .Arguments({{"values", "Tensor", "Integers; of the rule at_most real numbers, too."},
                  {"limits", "Tensor", "Scalar, or one per first index."}})
      .AttrsType<CheckValuesAttrs>()
      .SupportLevel(10)
      .Relation(Rule<CheckValuesInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kCompute, FTECompute(CheckValuesCompute));
}

}  // namespace treadle::ops
