// SPDX-License-Identifier: Apache-2.0
// Losses of classifications.
#include "frontend/onnx/checked_values.h"

namespace treadle::onnx {
namespace {

using relay::Expr;
using Ints = std::vector<int64_t>;

/// Negative log likelihood of `scores` [N, C, d...] at the classes that input 1 [N, d...] names, weighted by input 2
/// [C], without those that are `ignore_index`; reduced as the attribute says.
Expr NegativeLogLikelihood(NodeImport& n, const Expr& scores) {
  int rank = RankOf(scores);
  if (rank < 2 || n.Rank(1) != rank - 1) n.Invalid("the classes' rank isn't that of the scores less one");
  DataType dtype = TypeOf(scores)->dtype;
  std::vector<std::pair<int, int>> axes_of_classes;
  for (int i = 0; i < rank - 1; ++i) axes_of_classes.emplace_back(i, i == 0 ? 0 : i + 1);
  const Term all_scores(n, scores);
  Expr target = OfSameSize(In(n, 1), axes_of_classes, all_scores, "sizes of scores and classes");
  DataType index = n.DType(1);
  Expr kept;  // bool: not ignored
  if (n.HasAttr("ignore_index")) {
    kept = n.Call("not_equal", {target, n.Scalar(index, static_cast<double>(n.Int("ignore_index")))});
    target = n.Call("where", {kept, target, n.Scalar(index, 0)});
  }
  target = AtLeast(Term(n, target), 0, "class");
  Expr picked = n.Call("gather", {scores, n.ExpandDims(target, 1)}, {{"axis", int64_t{1}}});
  Expr loss = n.Call("negative", {n.Squeeze(picked, {1})});
  Expr weight;
  if (n.Has(2) && n.Rank(2) != 1) n.Invalid(StrCat("the weights have rank ", n.Rank(2), ", expected 1"));
  const char* numbers = "numbers of classes and of weights";
  if (n.Has(2))
    weight = n.Call("take", {OfSameSize(In(n, 2), {{0, 1}}, all_scores, numbers), target},
                    {{"axis", int64_t{0}}, {"mode", "error"}});
  if (kept.defined()) {
    Expr zero = n.Scalar(dtype, 0);
    weight = weight.defined() ? n.Call("where", {kept, weight, zero}) : n.Cast(kept, dtype);
    loss = n.Call("where", {kept, loss, zero});
  }
  if (weight.defined()) loss = n.Call("multiply", {loss, weight});
  std::string reduction = n.Str("reduction", "mean");
  if (reduction == "none") return loss;
  if (reduction != "sum" && reduction != "mean") n.Invalid(StrCat("'reduction' is ", QuoteName(reduction)));
  Ints axes;
  for (int i = 0; i < rank - 1; ++i) axes.push_back(i);
  AttrList all{{"axis", axes}, {"keepdims", false}};
  if (reduction == "mean" && !weight.defined()) return n.Call("mean", {loss}, all);
  Expr sum = n.Call("sum", {loss}, all);
  return reduction == "sum" ? sum : n.Call("divide", {sum, n.Call("sum", {weight}, all)});
}

Expr ImportNegativeLogLikelihoodLoss(NodeImport& n) { return NegativeLogLikelihood(n, n.In(0)); }

/// Outputs: the loss, and optionally the logarithms of the probabilities.
std::vector<Expr> ImportSoftmaxCrossEntropyLoss(NodeImport& n) {
  Expr log_prob = n.Call("nn.log_softmax", {n.In(0)}, {{"axis", int64_t{1}}});
  return {NegativeLogLikelihood(n, log_prob), log_prob};
}

}  // namespace

void RegisterLossRules(RuleTable& table) {
  table.Add1("NegativeLogLikelihoodLoss", {12, 13, 22}, ImportNegativeLogLikelihoodLoss);
  table.Add("SoftmaxCrossEntropyLoss", {12, 13}, ImportSoftmaxCrossEntropyLoss);
}

}  // namespace treadle::onnx
