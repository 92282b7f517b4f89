// SPDX-License-Identifier: Apache-2.0
// com.microsoft operators that are older or wider forms of standard ones.
#include "frontend/onnx/compose.h"
#include "frontend/onnx/contrib.h"
#include "frontend/onnx/matmul.h"

namespace treadle::onnx {
namespace {

using relay::Expr;
using Ints = std::vector<int64_t>;

constexpr int kOpset = 17;

/// All inputs and these attributes for the standard operator of that name.
ImportRule AsStandard(const char* name, std::initializer_list<const char*> attributes, int opset = kOpset) {
  return [name, attributes = std::vector<const char*>(attributes), opset](NodeImport& n) -> std::vector<Expr> {
    StandardOp op(n, name, opset);
    for (size_t i = 0; i < n.num_inputs(); ++i) op.Operand(n.Has(i) ? n.In(i) : Expr());
    for (const char* attribute : attributes) op.Take({attribute});
    return {op.Import1()};
  };
}

/// X, axis: one number.
Expr ImportExpandDims(NodeImport& n) {
  const int64_t axis = n.ConstantInt(1, "axis");
  return n.ExpandDims(n.In(0), n.Axis(axis, n.Rank(0) + 1));
}

/// start, limit, delta (1 where it is left out).
Expr ImportContribRange(NodeImport& n) {
  StandardOp op(n, "Range", kOpset);
  for (size_t i = 0; i < 2; ++i) op.Operand(n.In(i));
  return op.Operand(n.Has(2) ? n.In(2) : n.Scalar(n.DType(0), 1)).Import1();
}

/// Pads may be a matrix of one row.
Expr ImportContribPad(NodeImport& n) {
  StandardOp op(n, "Pad", kOpset);
  op.Operand(n.In(0)).Operand(n.Rank(1) == 1 ? n.In(1) : n.Reshape(n.In(1), {-1}));
  return op.Operand(n.Has(2) ? n.In(2) : Expr()).Take({"mode"}).Import1();
}

/// The values in the order in which they appear, which of them each element is, and how often each appears.
std::vector<Expr> ImportContribUnique(NodeImport& n) {
  std::vector<Expr> all = StandardOp(n, "Unique", kOpset).Operand(n.In(0)).Set("sorted", int64_t{0}).Import(4);
  return {all.at(0), all.at(2), all.at(3)};
}

/// Distances of the rows of two matrices.
Expr ImportCDist(NodeImport& n) {
  const std::string metric = n.Str("metric", "sqeuclidean");
  if (metric != "euclidean" && metric != "sqeuclidean")
    n.Unsupported(StrCat("the metric ", metric, " isn't implemented"));
  if (n.Rank(0) != 2 || n.Rank(1) != 2) n.Invalid("the operands aren't matrices");
  Term difference = In(n, 0).Expand(1) - In(n, 1).Expand(0);
  Term squares = (difference * difference).Sum({2});
  return metric == "euclidean" ? squares.Op("sqrt") : squares;
}

Expr ImportBiasAdd(NodeImport& n) { return In(n, 0) + In(n, 1) + In(n, 2); }

/// A product, its bias, and GELU by tanh.
Expr ImportGemmFastGelu(NodeImport& n) {
  Expr y = MatMulAnyRank(n, n.In(0), n.In(1));
  if (n.Has(2)) y = n.Call("add", {y, n.In(2)});
  return StandardOp(n, "Gelu", 20).Operand(y).Set("approximate", std::string("tanh")).Import1();
}

/// All slices of `size` elements of dimension `dim`, `step` apart, each along a further, last dimension.
Expr ImportUnfoldTensor(NodeImport& n) {
  const int rank = n.Rank(0), dim = n.Axis(n.Int("dim", -1), rank);
  Ints to_last, back;
  for (int i = 0; i < rank; ++i) {
    if (i != dim) to_last.push_back(i);
    back.push_back(i < dim ? i : i == dim ? rank - 1 : i - 1);
  }
  to_last.push_back(dim);
  back.push_back(rank);
  Expr windows =
      n.Call("sliding_window", {n.Transpose(n.In(0), to_last)},
             {{"axis", int64_t{rank - 1}}, {"window_shape", Ints{n.Int("size")}}, {"strides", Ints{n.Int("step", 1)}}});
  return n.Transpose(windows, back);
}

/// Groups of channels, which are the last dimension unless channels_last is 0; SiLU behind it where `activation` is 1.
Expr GroupNormOf(NodeImport& n, const Expr& x, size_t scale, size_t bias) {
  const bool last = n.Flag("channels_last", true);
  const int64_t activation = n.Int("activation");
  if (activation != 0 && activation != 1) n.Invalid(StrCat("'activation' is ", activation));
  StandardOp op(n, "GroupNormalization", 21);
  op.Operand(last ? ChannelsFirst(n, x) : x).Operand(n.Cast(n.In(scale), TypeOf(x)->dtype));
  op.Operand(n.Cast(n.In(bias), TypeOf(x)->dtype))
      .Set("num_groups", n.Int("groups"))
      .Set("epsilon", n.Float("epsilon", 1e-5));
  Term y(n, op.Import1());
  if (activation == 1) y = y * y.Op("sigmoid");
  return last ? ChannelsLast(n, y) : y.expr();
}

Expr ImportGroupNorm(NodeImport& n) { return GroupNormOf(n, n.In(0), 1, 2); }

/// X, gamma, beta, skip, bias: of the sum of X, skip and bias, which is output 1.
std::vector<Expr> ImportSkipGroupNorm(NodeImport& n) {
  const bool last = n.Flag("channels_last", true);
  if (!last) n.Unsupported("channels in front aren't implemented");
  Term skip = In(n, 3);
  if (skip.rank() == 2) skip = skip.Expand(1, 2);
  Term sum = In(n, 0) + skip;
  if (n.Has(4)) sum = sum + In(n, 4);
  return {GroupNormOf(n, sum, 1, 2), sum};
}

}  // namespace

void RegisterContribStandardRules(RuleTable& table) {
  AddContrib1(table, "ExpandDims", ImportExpandDims);
  AddContrib(table, "Trilu", AsStandard("Trilu", {"upper"}));
  AddContrib(table, "GatherND", AsStandard("GatherND", {}));
  AddContrib(table, "GridSample", AsStandard("GridSample", {"mode", "padding_mode", "align_corners"}, 16));
  AddContrib1(table, "Range", ImportContribRange);
  AddContrib1(table, "Pad", ImportContribPad);
  AddContrib(table, "Unique", ImportContribUnique);
  AddContrib1(table, "CDist", ImportCDist);
  AddContrib1(table, "BiasAdd", ImportBiasAdd);
  AddContrib1(table, "GemmFastGelu", ImportGemmFastGelu);
  AddContrib1(table, "UnfoldTensor", ImportUnfoldTensor);
  AddContrib1(table, "GroupNorm", ImportGroupNorm);
  AddContrib(table, "SkipGroupNorm", ImportSkipGroupNorm);
}

}  // namespace treadle::onnx
