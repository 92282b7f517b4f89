// SPDX-License-Identifier: Apache-2.0
// Reductions along axes.
#include <optional>

#include "frontend/onnx/checked_values.h"
#include "frontend/onnx/dynamic_rules.h"
#include "frontend/onnx/rules.h"

namespace treadle::onnx {
namespace {

using relay::Expr;
using Axes = std::vector<int64_t>;

/// What to reduce: axes and keepdims. Axes were an attribute before they became an input.
struct Reduction {
  Axes axes;
  bool keepdims = true;
  bool identity = false;                        ///< no axes, and noop_with_empty_axes
  std::optional<RunTimeReduction> at_run_time;  ///< of axes that aren't known when compiling: `axes` are a matrix's

  Reduction(NodeImport& n, bool axes_are_input) {
    keepdims = n.Flag("keepdims", true);
    if (axes_are_input && n.Has(1) && !n.IsKnown(1) && !IsEmpty(n, 1)) {
      at_run_time.emplace(n, keepdims, n.Flag("noop_with_empty_axes", false));
      axes = {1};
      keepdims = false;
      return;
    }
    if (axes_are_input && n.Has(1) && !n.IsKnown(1)) {
      n.IgnoreInput(1);
      axes_are_input = false;
    }
    std::optional<Axes> given = axes_are_input ? n.OptionalInts(1, "axes") : n.OptInts("axes");
    bool noop = n.Flag("noop_with_empty_axes", false);
    int rank = n.Rank(0);
    if (given && !given->empty()) {
      axes = n.Axes(*given, rank);
    } else {
      identity = noop;
      for (int i = 0; i < rank; ++i) axes.push_back(i);
    }
  }
  /// A list of no axes, whatever they are.
  static bool IsEmpty(NodeImport& n, size_t i) {
    const int64_t* length = n.Rank(i) == 1 ? AsConstInt(TypeOf(n.In(i))->shape[0]) : nullptr;
    return length != nullptr && *length == 0;
  }
  /// The operand as `axes` mean it, and the result of it.
  Expr Operand(NodeImport& n, const Expr& x) const { return at_run_time ? at_run_time->Flatten(Term(n, x)).expr() : x; }
  Expr Result(NodeImport& n, const Expr& y) const {
    return at_run_time ? at_run_time->Restore(Term(n, y), In(n, 0)).expr() : y;
  }
  /// Of operands as Operand gives them.
  Expr Reduce(NodeImport& n, const char* op, const Expr& x) const {
    if (identity) return x;
    return n.Call(op, {x}, {{"axis", axes}, {"keepdims", keepdims}});
  }
  Expr Apply(NodeImport& n, const char* op, const Expr& x) const { return Result(n, Reduce(n, op, Operand(n, x))); }
};

bool AxesAreInput(NodeImport& n) { return n.version() >= (n.node().op_type == "ReduceSum" ? 13 : 18); }

ImportRule Reduce(const char* op) {
  return [op](NodeImport& n) -> std::vector<Expr> {
    Reduction r(n, AxesAreInput(n));
    Expr x = n.In(0);
    if (n.DType(0).is_bool()) {  // Max and Min of bools
      return {r.Apply(n, std::string(op) == "max" ? "any" : "all", x)};
    }
    return {r.Apply(n, op, x)};
  };
}

Expr ImportReduceL1(NodeImport& n) {
  Reduction r(n, AxesAreInput(n));
  return r.Apply(n, "sum", n.Call("abs", {n.In(0)}));
}

Expr SumOfSquares(NodeImport& n, const Reduction& r) {
  return r.Apply(n, "sum", n.Call("multiply", {n.In(0), n.In(0)}));
}

/// `x` as a type that has roots and logarithms; integers are computed in float64 and cast back at the end.
DataType RealType(DataType dtype) { return dtype.is_integral() ? DataType::Float(64) : dtype; }

Expr ImportReduceL2(NodeImport& n) {
  Reduction r(n, AxesAreInput(n));
  DataType dtype = n.DType(0);
  return n.Cast(n.Call("sqrt", {n.Cast(SumOfSquares(n, r), RealType(dtype))}), dtype);
}

Expr ImportReduceSumSquare(NodeImport& n) { return SumOfSquares(n, Reduction(n, AxesAreInput(n))); }

Expr ImportReduceLogSum(NodeImport& n) {
  Reduction r(n, AxesAreInput(n));
  DataType dtype = n.DType(0);
  return n.Cast(n.Call("log", {n.Cast(r.Apply(n, "sum", n.In(0)), RealType(dtype))}), dtype);
}

/// log(sum(exp(x))) with the maximum taken out, which keeps exp from overflowing.
Expr ImportReduceLogSumExp(NodeImport& n) {
  Reduction r(n, AxesAreInput(n));
  DataType dtype = n.DType(0);
  if (r.identity) return n.In(0);
  Expr x = r.Operand(n, n.Cast(n.In(0), RealType(dtype)));
  for (int64_t axis : r.axes) {
    const int64_t* dim = AsConstInt(TypeOf(x)->shape[static_cast<size_t>(axis)]);
    if (dim != nullptr && *dim == 0) {  // nothing to take the maximum of: log(0)
      return n.Cast(n.Call("log", {r.Reduce(n, "sum", n.Call("exp", {x}))}), dtype);
    }
  }
  Expr max = n.Call("max", {x}, {{"axis", r.axes}, {"keepdims", true}});
  // An infinite maximum would give inf - inf.
  DataType real = TypeOf(x)->dtype;
  Expr shift = n.Call("where", {n.Call("isfinite", {max}), max, n.Scalar(real, 0)});
  Expr sum = r.Reduce(n, "sum", n.Call("exp", {n.Call("subtract", {x, shift})}));
  Expr offset = r.keepdims ? shift : n.Squeeze(shift, r.axes);
  return n.Cast(r.Result(n, n.Call("add", {n.Call("log", {sum}), offset})), dtype);
}

ImportRule ArgReduce(const char* op) {
  return [op](NodeImport& n) -> std::vector<Expr> {
    int64_t axis = n.Axis(n.Int("axis", 0), n.Rank(0));
    bool keepdims = n.Flag("keepdims", true);
    bool last = n.Flag("select_last_index", false);
    const int64_t* size = AsConstInt(TypeOf(n.In(0))->shape[static_cast<size_t>(axis)]);
    if (size != nullptr && *size == 0) n.Invalid(StrCat("dimension ", axis, " has no elements to choose from"));
    Expr index = n.Call(op, {n.In(0)}, {{"axis", Axes{axis}}, {"keepdims", keepdims}, {"select_last_index", last}});
    index = n.Cast(index, DataType::Int(64));
    if (size != nullptr) return {index};
    // Of a dimension without elements the index would be none of them.
    Term elements = AtLeast(Term(n, DimOf(n, n.In(0), static_cast<int>(axis))), 1, "number of elements to choose from");
    return {Min(Term(n, index), elements - 1)};
  };
}

}  // namespace

void RegisterReduceRules(RuleTable& table) {
  table.Add("ReduceSum", {1, 11, 13}, Reduce("sum"));
  table.Add("ReduceMean", {1, 11, 13, 18}, Reduce("mean"));
  table.Add("ReduceProd", {1, 11, 13, 18}, Reduce("prod"));
  table.Add("ReduceMax", {1, 11, 12, 13, 18, 20}, Reduce("max"));
  table.Add("ReduceMin", {1, 11, 12, 13, 18, 20}, Reduce("min"));
  table.Add1("ReduceL1", {1, 11, 13, 18}, ImportReduceL1);
  table.Add1("ReduceL2", {1, 11, 13, 18}, ImportReduceL2);
  table.Add1("ReduceSumSquare", {1, 11, 13, 18}, ImportReduceSumSquare);
  table.Add1("ReduceLogSum", {1, 11, 13, 18, 28}, ImportReduceLogSum);
  table.Add1("ReduceLogSumExp", {1, 11, 13, 18, 28}, ImportReduceLogSumExp);
  table.Add("ArgMax", {1, 11, 12, 13}, ArgReduce("argmax"));
  table.Add("ArgMin", {1, 11, 12, 13}, ArgReduce("argmin"));
}

}  // namespace treadle::onnx
