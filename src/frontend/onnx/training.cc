// SPDX-License-Identifier: Apache-2.0
// One step of an optimizer: ai.onnx.preview.training. Inputs are a learning rate, the number of updates so far, then
// tensors, gradients and the optimizer's own tensors, as many of each.
#include "frontend/onnx/checked_values.h"
#include "frontend/onnx/compose.h"
#include "frontend/onnx/composed.h"

namespace treadle::onnx {
namespace {

using relay::Expr;

/// Inputs in groups of the same length, one for each kind; `Step` gives as many outputs of each kind.
class Optimizer {
 public:
  Optimizer(NodeImport& n, size_t kinds) : n_(n), count_((n.num_inputs() - 2) / kinds) {
    if (n.num_inputs() < 2 + kinds || (n.num_inputs() - 2) % kinds != 0) {
      n.Invalid(StrCat("there are ", n.num_inputs(), " inputs, expected 2 and a multiple of ", kinds));
    }
  }
  size_t count() const { return count_; }
  Term Rate(DataType dtype) const { return ScalarIn(n_, 0, dtype); }
  Term Updates(DataType dtype) const { return ScalarIn(n_, 1, dtype); }
  /// Of the shape of what is optimised.
  Term Tensor(size_t kind, size_t i) const {
    const Term x = In(n_, 2 + i), tensor = In(n_, 2 + kind * count_ + i);
    if (tensor.rank() != x.rank()) n_.Invalid(StrCat("tensors of ranks ", x.rank(), " and ", tensor.rank()));
    std::vector<std::pair<int, int>> axes;
    for (int d = 0; d < x.rank(); ++d) axes.emplace_back(d, d);
    return kind == 0 ? x : OfSameSize(tensor, axes, x, "sizes of a tensor and of its gradient or state");
  }
  /// The gradient with that of the regularisation.
  Term Gradient(size_t i) const { return Tensor(0, i) * n_.Float("norm_coefficient", 0.0) + Tensor(1, i); }

 private:
  NodeImport& n_;
  size_t count_;
};

std::vector<Expr> InOrder(const std::vector<std::vector<Term>>& kinds) {
  std::vector<Expr> outputs;
  for (const std::vector<Term>& kind : kinds) outputs.insert(outputs.end(), kind.begin(), kind.end());
  return outputs;
}

std::vector<Expr> ImportAdagrad(NodeImport& n) {
  Optimizer o(n, 3);
  std::vector<Term> xs, hs;
  const double decay = n.Float("decay_factor", 0.0), epsilon = n.Float("epsilon", 1e-6);
  for (size_t i = 0; i < o.count(); ++i) {
    Term x = o.Tensor(0, i), g = o.Gradient(i), h = o.Tensor(2, i) + g * g;
    Term rate = o.Rate(x.dtype()) / (o.Updates(x.dtype()) * decay + 1.0);
    xs.push_back(x - rate * g / (h.Op("sqrt") + epsilon));
    hs.push_back(h);
  }
  return InOrder({xs, hs});
}

std::vector<Expr> ImportMomentum(NodeImport& n) {
  Optimizer o(n, 3);
  const double alpha = n.Float("alpha"), beta = n.Float("beta");
  const std::string mode = n.Str("mode");
  if (mode != "standard" && mode != "nesterov") n.Invalid(StrCat("'mode' is ", QuoteName(mode)));
  std::vector<Term> xs, vs;
  for (size_t i = 0; i < o.count(); ++i) {
    Term x = o.Tensor(0, i), g = o.Gradient(i), rate = o.Rate(x.dtype());
    Term factor = (o.Updates(x.dtype()) > 0.0).Select(x.Number(beta), x.Number(1));
    Term v = o.Tensor(2, i) * alpha + factor * g;
    xs.push_back(x - rate * (mode == "standard" ? v : g + v * alpha));
    vs.push_back(v);
  }
  return InOrder({xs, vs});
}

std::vector<Expr> ImportAdam(NodeImport& n) {
  Optimizer o(n, 4);
  const double alpha = n.Float("alpha", 0.9), beta = n.Float("beta", 0.999), epsilon = n.Float("epsilon", 1e-6);
  const double post = n.Float("norm_coefficient_post", 0.0);
  std::vector<Term> xs, vs, hs;
  for (size_t i = 0; i < o.count(); ++i) {
    Term x = o.Tensor(0, i), g = o.Gradient(i), t = o.Updates(DataType::Float(64));
    Term v = o.Tensor(2, i) * alpha + g * (1 - alpha), h = o.Tensor(3, i) * beta + (g * g) * (1 - beta);
    auto left = [&](double base) { return 1.0 - t.Number(base).Op("power", t); };
    // Early means are corrected for having begun at zero.
    Term correction = (t > 0.0).Select(left(beta).Op("sqrt") / Max(left(alpha), 1e-300), 1);
    Term rate = o.Rate(x.dtype()) * correction.As(x.dtype());
    xs.push_back((x - rate * (v / (h.Op("sqrt") + epsilon))) * (1 - post));
    vs.push_back(v);
    hs.push_back(h);
  }
  return InOrder({xs, vs, hs});
}

}  // namespace

void RegisterTrainingRules(RuleTable& table) {
  table.Add("ai.onnx.preview.training.Adagrad", {1}, ImportAdagrad);
  table.Add("ai.onnx.preview.training.Momentum", {1}, ImportMomentum);
  table.Add("ai.onnx.preview.training.Adam", {1}, ImportAdam);
}

}  // namespace treadle::onnx
