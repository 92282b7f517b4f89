// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/random.h"
#include "frontend/onnx/composed.h"

#include <cstring>

namespace treadle::onnx {
namespace {

using relay::Expr;

constexpr double kPi = 3.14159265358979323846;
const DataType kInt64 = DataType::Int(64);
const DataType kFloat32 = DataType::Float(32);

/// The bits of the attribute; without it a number of the node's own.
int64_t SeedOf(NodeImport& n) {
  uint64_t seed = 0xcbf29ce484222325u;
  auto add = [&](const void* data, size_t size) {
    for (size_t i = 0; i < size; ++i) seed = (seed ^ static_cast<const uint8_t*>(data)[i]) * 0x100000001b3u;
  };
  const Attribute* given = n.Find("seed");
  if (given != nullptr && given->type == Attribute::Type::kFloat) {
    add(&given->f, sizeof(given->f));
  } else if (given != nullptr) {
    add(&given->i, sizeof(given->i));
  } else {
    const std::string& name = n.node().outputs.empty() ? n.node().name : n.node().outputs[0];
    add(name.data(), name.size());
  }
  return static_cast<int64_t>(seed & 0x7fffffff);
}

/// What an attribute lists, or the shape of the operand.
Term Like(NodeImport& n, bool like, DataType* dtype) {
  *dtype = n.HasAttr("dtype") || !like ? n.TypeAttr("dtype", ElemType::kFloat) : n.DType(0);
  if (!dtype->is_floating()) n.Invalid(StrCat("the result is ", *dtype, ", expected a float type"));
  if (like) return In(n, 0);
  std::vector<int64_t> shape = n.Ints("shape");
  for (int64_t dim : shape) {
    if (dim < 0) n.Invalid(StrCat("the shape has a dimension of ", dim));
  }
  return Term(n, n.Call("full", {n.Scalar(kFloat32, 0)}, {{"shape", shape}, {"dtype", kFloat32}}));
}

/// Box and Muller's method.
Term Normal(const Term& like) {
  Term radius = ((1.0 - RandomUniform(like, kFloat32, 0)).Op("log") * -2.0).Op("sqrt");
  return radius * (RandomUniform(like, kFloat32, 1) * (2 * kPi)).Op("cos");
}

ImportRule RandomUniformRule(bool like) {
  return [like](NodeImport& n) -> std::vector<Expr> {
    DataType dtype;
    Term x = Like(n, like, &dtype);
    const double low = n.Float("low", 0.0), high = n.Float("high", 1.0);
    return {(RandomUniform(x, kFloat32) * (high - low) + low).As(dtype)};
  };
}

ImportRule RandomNormalRule(bool like) {
  return [like](NodeImport& n) -> std::vector<Expr> {
    DataType dtype;
    Term x = Like(n, like, &dtype);
    return {(Normal(x) * n.Float("scale", 1.0) + n.Float("mean", 0.0)).As(dtype)};
  };
}

Expr ImportBernoulli(NodeImport& n) {
  DataType dtype = n.HasAttr("dtype") ? n.TypeAttr("dtype") : n.DType(0);
  Term p = In(n, 0).As(kFloat32);
  return (RandomUniform(p, kFloat32) < p).As(dtype);
}

/// input (batch, classes): logarithms of probabilities up to a factor -> (batch, samples).
Expr ImportMultinomial(NodeImport& n) {
  const DataType dtype = n.TypeAttr("dtype", ElemType::kInt32);
  const int64_t samples = n.Int("sample_size", 1);
  if (n.Rank(0) != 2 || samples < 1) n.Invalid("the operand's rank isn't 2, or 'sample_size' isn't positive");
  Term x = In(n, 0).As(kFloat32);
  Term weights = (x - x.Reduce("max", {1}, true)).Op("exp");
  Term below = weights.Op("cumsum", {{"axis", int64_t{1}}, {"dtype", kFloat32}});
  Term total = weights.Sum({1}, true);  // (batch, 1)
  Term draws = RandomUniform(total.Op("repeat", {{"repeats", samples}, {"axis", int64_t{1}}}), kFloat32) * total;
  Term passed = (below.Expand(1) <= draws.Expand(2)).As(kInt64).Sum({2});  // (batch, samples)
  return Min(passed, ShapeOf(x).Element(1) - 1).As(dtype);
}

}  // namespace

Term RandomUniform(const Term& like, DataType dtype, int64_t stream) {
  return like.Op("random.uniform_like", {{"seed", SeedOf(like.node()) + stream * 0x9e3779}}).As(dtype);
}

void RegisterRandomRules(RuleTable& table) {
  table.Add("RandomUniform", {1, 22}, RandomUniformRule(false));
  table.Add("RandomUniformLike", {1, 22}, RandomUniformRule(true));
  table.Add("RandomNormal", {1, 22}, RandomNormalRule(false));
  table.Add("RandomNormalLike", {1, 22}, RandomNormalRule(true));
  table.Add1("Bernoulli", {15, 22}, ImportBernoulli);
  table.Add1("Multinomial", {7, 22}, ImportMultinomial);
}

}  // namespace treadle::onnx
