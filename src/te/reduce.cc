// SPDX-License-Identifier: Apache-2.0
// Reductions of tensor expressions.
#include <utility>

#include "treadle/ir/prim_ops.h"
#include "treadle/te/tensor.h"

namespace treadle::te {

using tir::CommReducer;

IterVar ReduceAxis(Range dom, std::string name) {
  DataType dtype = dom->extent.dtype();
  return IterVar(std::move(dom), Var(std::move(name), dtype), tir::IterVarType::kCommReduce);
}

Array<PrimExpr> CommReduce(const CommReducer& combiner, Array<PrimExpr> sources, Array<IterVar> axis,
                           PrimExpr condition, Array<PrimExpr> init) {
  if (sources.size() != combiner->result.size()) {
    throw Error(StrCat("a reducer of ", combiner->result.size(), " values can't reduce ", sources.size(), " sources"));
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].dtype() != combiner->rhs[i].dtype()) {
      throw DTypeError(StrCat("source ", i, " of a reduction has dtype ", sources[i].dtype(), ", its reducer ",
                              combiner->rhs[i].dtype()));
    }
  }
  for (const IterVar& iv : axis) {
    if (iv->iter_type != tir::IterVarType::kCommReduce) {
      throw Error(StrCat("axis ", iv->var->name_hint, " of a reduction isn't made by reduce_axis"));
    }
  }
  if (!condition.defined()) condition = tir::make_bool(true);
  Array<PrimExpr> results;
  for (size_t i = 0; i < sources.size(); ++i) {
    results.push_back(tir::Reduce(combiner, sources, axis, condition, static_cast<int>(i), init));
  }
  return results;
}

namespace {

template <typename Combine>
PrimExpr SimpleReduce(PrimExpr source, Array<IterVar> axis, Array<PrimExpr> init, PrimExpr identity, Combine combine) {
  if (const auto* iv = source.as<tir::IterVarNode>()) source = iv->var;
  Var x("x", source.dtype()), y("y", source.dtype());
  CommReducer combiner({x}, {y}, {combine(x, y)}, {std::move(identity)});
  return CommReduce(combiner, {std::move(source)}, std::move(axis), PrimExpr(ObjectPtr<Object>()), std::move(init))[0];
}

CommReducer ArgReducer(DataType index_dtype, DataType value_dtype, bool greatest, bool last) {
  Var li("li", index_dtype), lv("lv", value_dtype), ri("ri", index_dtype), rv("rv", value_dtype);
  PrimExpr better = greatest ? lv > rv : lv < rv;
  PrimExpr tie = tir::equal(lv, rv);
  if (value_dtype.is_float() || value_dtype.is_bfloat16()) {  // NaN counts as the extreme
    better = (better || tir::isnan(lv)) && !tir::isnan(rv);
    tie = tie || (tir::isnan(lv) && tir::isnan(rv));
  }
  PrimExpr earlier = last ? li > ri : li < ri;
  PrimExpr keep = better || (tie && earlier);
  // The neutral index loses every tie, so that inputs that are all equal to the neutral value still give an index.
  PrimExpr index = last ? tir::min_value(index_dtype) : tir::max_value(index_dtype);
  PrimExpr value = greatest ? tir::neg_infinity(value_dtype) : tir::infinity(value_dtype);
  return CommReducer({li, lv}, {ri, rv}, {tir::select(keep, li, ri), tir::select(keep, lv, rv)}, {index, value});
}

}  // namespace

PrimExpr Sum(PrimExpr source, Array<IterVar> axis, Array<PrimExpr> init) {
  PrimExpr identity = tir::make_zero(source.dtype());
  return SimpleReduce(std::move(source), std::move(axis), std::move(init), identity,
                      [](const Var& x, const Var& y) { return x + y; });
}
PrimExpr Prod(PrimExpr source, Array<IterVar> axis, Array<PrimExpr> init) {
  PrimExpr identity = tir::make_const(source.dtype(), 1);
  return SimpleReduce(std::move(source), std::move(axis), std::move(init), identity,
                      [](const Var& x, const Var& y) { return x * y; });
}
PrimExpr MaxReduce(PrimExpr source, Array<IterVar> axis, Array<PrimExpr> init) {
  PrimExpr identity = tir::neg_infinity(source.dtype());
  return SimpleReduce(std::move(source), std::move(axis), std::move(init), identity,
                      [](const Var& x, const Var& y) { return tir::max(x, y); });
}
PrimExpr MinReduce(PrimExpr source, Array<IterVar> axis, Array<PrimExpr> init) {
  PrimExpr identity = tir::infinity(source.dtype());
  return SimpleReduce(std::move(source), std::move(axis), std::move(init), identity,
                      [](const Var& x, const Var& y) { return tir::min(x, y); });
}

CommReducer ArgMaxReducer(DataType index_dtype, DataType value_dtype, bool select_last_index) {
  return ArgReducer(index_dtype, value_dtype, true, select_last_index);
}
CommReducer ArgMinReducer(DataType index_dtype, DataType value_dtype, bool select_last_index) {
  return ArgReducer(index_dtype, value_dtype, false, select_last_index);
}

}  // namespace treadle::te
