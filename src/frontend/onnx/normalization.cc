// SPDX-License-Identifier: Apache-2.0
// Normalisation: batch, instance, layer, group, RMS, Lp and local response; dropout.
#include <cmath>

#include "frontend/onnx/checked_values.h"
#include "frontend/onnx/random.h"
#include "frontend/onnx/rules.h"

namespace treadle::onnx {
namespace {

using relay::Expr;
using Axes = std::vector<int64_t>;

Axes Range(int begin, int end) {
  Axes axes;
  for (int i = begin; i < end; ++i) axes.push_back(i);
  return axes;
}

/// By the batch's own mean and variance, which move the running ones.
std::vector<Expr> TrainingBatchNormalization(NodeImport& n) {
  Term x = In(n, 0);
  const int rank = x.rank();
  if (rank < 2) n.Invalid(StrCat("the operand has rank ", rank, ", expected at least 2"));
  Axes others = Range(0, rank);
  others.erase(others.begin() + 1);
  const DataType wide = x.dtype() == DataType::Float(64) ? x.dtype() : DataType::Float(32);
  Term w = x.As(wide), mean = w.Reduce("mean", others, true), deviation = w - mean;
  Term variance = (deviation * deviation).Reduce("mean", others, true);
  auto channel = [&](const Term& t) { return t.As(wide).Expand(1, rank - 2); };
  Term scaled = deviation * (channel(In(n, 1)) / (variance + n.Float("epsilon", 1e-5)).Op("sqrt")) + channel(In(n, 2));
  const double momentum = n.Float("momentum", 0.9);
  auto moved = [&](size_t i, const Term& now) {
    Term before = In(n, i);
    return (before.As(wide) * momentum + now.Squeeze(others) * (1 - momentum)).As(before.dtype());
  };
  return {scaled.As(x.dtype()), moved(3, mean), moved(4, variance)};
}

/// Version 14 asks with training_mode, 1 and 6 with is_test, 7 and 9 by naming more outputs.
std::vector<Expr> ImportBatchNormalization(NodeImport& n) {
  n.Ignore({"momentum", "consumed_inputs"});
  if (n.version() < 7 && !n.Flag("is_test", false)) n.Unsupported("training mode (is_test = 0) isn't implemented");
  if (n.version() < 9 && !n.Flag("spatial", true)) n.Unsupported("spatial = 0 isn't implemented");
  if (n.Flag("training_mode", false)) return TrainingBatchNormalization(n);
  if (n.Rank(0) < 2) n.Invalid(StrCat("the operand has rank ", n.Rank(0), ", expected at least 2"));
  Array<Expr> args{n.In(0)};
  for (size_t i = 1; i < 5; ++i) args.push_back(n.Cast(n.In(i), n.DType(0)));
  Expr result = n.Call("nn.batch_norm", args, {{"axis", int64_t{1}}, {"epsilon", n.Float("epsilon", 1e-5)}});
  return {n.Item(result, 0)};
}

Expr ImportInstanceNormalization(NodeImport& n) {
  n.Ignore({"consumed_inputs"});
  if (n.Rank(0) < 3) n.Invalid(StrCat("the operand has rank ", n.Rank(0), ", expected at least 3"));
  return n.Call("nn.instance_norm", {n.In(0), n.In(1), n.In(2)},
                {{"axis", int64_t{1}}, {"epsilon", n.Float("epsilon", 1e-5)}});
}

Expr ImportLrn(NodeImport& n) {
  int64_t size = n.Int("size");
  if (size < 1 || size > INT32_MAX) n.Invalid(StrCat("'size' is ", size));
  return n.Call("nn.lrn", {n.In(0)},
                {{"size", size},
                 {"axis", int64_t{1}},
                 {"alpha", n.Float("alpha", 0.0001)},
                 {"beta", n.Float("beta", 0.75)},
                 {"bias", n.Float("bias", 1.0)}});
}

/// Mean, deviation from it, and 1 / sqrt(variance + epsilon) over `axes`.
struct Moments {
  Expr mean, deviation, inv_std;

  Moments(NodeImport& n, const Expr& x, const Axes& axes, double epsilon, bool centered = true) {
    deviation = x;
    if (centered) {
      mean = Mean(n, x, axes);
      deviation = n.Call("subtract", {x, mean});
    }
    Expr square = n.Call("multiply", {deviation, deviation});
    Expr variance = n.Call("mean", {square}, {{"axis", axes}, {"keepdims", true}});
    DataType dtype = TypeOf(x)->dtype;
    Expr root = n.Call("sqrt", {n.Call("add", {variance, n.Scalar(dtype, epsilon)})});
    inv_std = n.Call("divide", {n.Scalar(dtype, 1), root});
  }

 private:
  /// The mean of the differences from the first element, and that element. What rounding leaves in a sum of large
  /// numbers would be divided by the deviation: of a row of equal ones by sqrt(epsilon) alone.
  static Expr Mean(NodeImport& n, const Expr& x, const Axes& axes) {
    const AttrList attrs{{"axis", axes}, {"keepdims", true}};
    Expr first = x;
    for (int64_t axis : axes) {
      const int64_t* size = AsConstInt(TypeOf(x)->shape[static_cast<size_t>(axis)]);
      if (size == nullptr || *size == 0) return n.Call("mean", {x}, attrs);
      first = n.Slice(first, static_cast<int>(axis), 0, 1);
    }
    return n.Call("add", {n.Call("mean", {n.Call("subtract", {x, first})}, attrs), first});
  }
};

/// The type in which a node with `stash_type` computes its statistics.
DataType StashType(NodeImport& n) { return n.TypeAttr("stash_type", ElemType::kFloat); }

/// Outputs: Y, and optionally Mean and InvStdDev in the stash type.
std::vector<Expr> ImportLayerNormalization(NodeImport& n) {
  int rank = n.Rank(0);
  int axis = n.Axis(n.Int("axis", -1), rank);
  DataType dtype = n.DType(0);
  DataType stash = dtype == DataType::Float(64) ? dtype : StashType(n);
  n.Ignore({"stash_type"});
  Moments m(n, n.Cast(n.In(0), stash), Range(axis, rank), n.Float("epsilon", 1e-5));
  Expr y = n.Cast(n.Call("multiply", {m.deviation, m.inv_std}), dtype);
  y = n.Call("multiply", {y, WithinShape(In(n, 1), In(n, 0), "the scale")});
  if (n.Has(2)) y = n.Call("add", {y, WithinShape(In(n, 2), In(n, 0), "the bias")});
  return {y, m.mean, m.inv_std};
}

Expr ImportRmsNormalization(NodeImport& n) {
  int rank = n.Rank(0);
  int axis = n.Axis(n.Int("axis", -1), rank);
  DataType dtype = n.DType(0);
  DataType stash = dtype == DataType::Float(64) ? dtype : StashType(n);
  n.Ignore({"stash_type"});
  Moments m(n, n.Cast(n.In(0), stash), Range(axis, rank), n.Float("epsilon", 1e-5), /*centered=*/false);
  Expr y = n.Cast(n.Call("multiply", {m.deviation, m.inv_std}), dtype);
  return n.Call("multiply", {y, WithinShape(In(n, 1), In(n, 0), "the scale")});
}

/// Scale and bias are per channel, in version 18 per group.
Expr ImportGroupNormalization(NodeImport& n) {
  const int rank = n.Rank(0);
  if (rank < 2) n.Invalid("the operand's rank is below 2");
  const int64_t* channels = AsConstInt(TypeOf(n.In(0))->shape[1]);
  const int64_t groups = n.Int("num_groups");
  if (groups < 1) n.Invalid(StrCat("'num_groups' is ", groups));
  if (channels != nullptr && *channels % groups != 0)
    n.Invalid(StrCat("'num_groups' is ", groups, " for ", *channels, " channels"));
  DataType dtype = n.DType(0);
  DataType stash = dtype == DataType::Float(64) ? dtype : StashType(n);
  n.Ignore({"stash_type"});
  Term x = In(n, 0).As(stash), shape = ShapeOf(x);
  const Term per_group = channels != nullptr ? IntNum(n, *channels / groups)
                                             : DividedBy(DimOf(x, 1), groups, "number of channels by 'num_groups'");
  std::vector<Term> grouped{DimOf(x, 0), IntNum(n, groups), per_group};
  for (int i = 2; i < rank; ++i) grouped.push_back(DimOf(x, i));
  Moments m(n, ReshapeTo(x, grouped), Range(2, rank + 1), n.Float("epsilon", 1e-5));
  Term normal(n, n.Call("multiply", {m.deviation, m.inv_std}));
  if (n.version() < 21) {
    auto parameter = [&](size_t i) {
      if (n.Rank(i) != 1) n.Invalid(StrCat("input ", i, " has rank ", n.Rank(i), ", expected a number for each group"));
      return WithSizes(In(n, i), {groups}, i == 1 ? "the scale" : "the bias").Expand(1, rank - 1).As(stash);
    };
    return n.Cast(ReshapeTo(normal * parameter(1) + parameter(2), shape), dtype);
  }
  Expr y = n.Cast(ReshapeTo(normal, shape), dtype);
  const int trailing = rank - 2;
  auto parameter = [&](size_t i) {
    if (n.Rank(i) != 1) n.Invalid(StrCat("input ", i, " has rank ", n.Rank(i), ", expected a number for each channel"));
    const char* numbers =
        i == 1 ? "numbers of channels and of scales" : "numbers of channels and of entries of the bias";
    return n.ExpandDims(OfSameSize(In(n, i), {{0, 1}}, In(n, 0), numbers), 1, trailing);
  };
  y = n.Call("multiply", {y, parameter(1)});
  return n.Call("add", {y, parameter(2)});
}

Expr ImportLpNormalization(NodeImport& n) {
  Expr x = n.In(0);
  DataType dtype = n.DType(0);
  Axes axes{n.Axis(n.Int("axis", -1), n.Rank(0))};
  int64_t p = n.Int("p", 2);
  if (p != 1 && p != 2) n.Invalid(StrCat("'p' is ", p, ", expected 1 or 2"));
  Expr term = p == 1 ? n.Call("abs", {x}) : n.Call("multiply", {x, x});
  Expr norm = n.Call("sum", {term}, {{"axis", axes}, {"keepdims", true}});
  if (p == 2) norm = n.Call("sqrt", {norm});
  // A vector of zeros stays zero.
  Expr zero = n.Scalar(dtype, 0);
  Expr is_zero = n.Call("equal", {norm, zero});
  return n.Call("where", {is_zero, zero, n.Call("divide", {x, n.Call("where", {is_zero, n.Scalar(dtype, 1), norm})})});
}

Expr ImportMeanVarianceNormalization(NodeImport& n) {
  Expr x = n.In(0);
  DataType dtype = n.DType(0);
  Axes axes = n.Axes(n.Ints("axes", Axes{0, 2, 3}), n.Rank(0));
  Expr mean = n.Call("mean", {x}, {{"axis", axes}, {"keepdims", true}});
  Expr deviation = n.Call("subtract", {x, mean});
  Expr variance = n.Call("mean", {n.Call("multiply", {deviation, deviation})}, {{"axis", axes}, {"keepdims", true}});
  return n.Call("divide", {deviation, n.Call("add", {n.Call("sqrt", {variance}), n.Scalar(dtype, 1e-9)})});
}

/// Elements dropped with a probability, the others scaled up for it; where `training` (a bool scalar) says so.
std::vector<Expr> TrainingDropout(NodeImport& n, const Term& training) {
  Term x = In(n, 0);
  const DataType f32 = DataType::Float(32);
  Term ratio = n.Has(1) ? ScalarIn(n, 1, f32) : Term(n, n.Scalar(f32, 0.5));
  // 1 drops everything, as frameworks have it; what is beyond isn't a probability.
  Term fits = ((ratio >= 0.0) && (ratio <= 1.0)).As(DataType::Int(64));
  ratio = ratio + (AtLeast(fits, 1, "ratio being from 0 to 1 (1: it is)") - 1.0).As(f32);
  Term keep = RandomUniform(x, f32) >= ratio || training.Not();
  Term factor = training.Select(1.0 / Max(1.0 - ratio, 1e-30), 1);
  return {keep.Select((x.As(x.dtype() == DataType::Float(64) ? x.dtype() : f32) *
                       factor.As(x.dtype() == DataType::Float(64) ? x.dtype() : f32))
                          .As(x.dtype()),
                      0),
          keep};
}

/// The operand itself, and a mask that says that nothing was dropped, unless in training.
std::vector<Expr> ImportDropout(NodeImport& n) {
  n.Ignore({"ratio", "seed", "is_test", "consumed_inputs"});
  n.IgnoreInput(1);  // ratio
  if (n.Has(2)) {
    if (!n.IsKnown(2)) return TrainingDropout(n, ScalarIn(n, 2, DataType::Bool()));
    NDArray training = n.Constant(2, "training_mode");
    if (training.size() != 1) n.Invalid("'training_mode' isn't a scalar");
    if (IntsOf(training)[0] != 0) return TrainingDropout(n, ScalarIn(n, 2, DataType::Bool()));
  }
  std::vector<Expr> outputs{n.In(0)};
  if (n.WantsOutput(1)) {
    DataType mask = n.version() < 10 ? n.DType(0) : DataType::Bool();
    const Term x = In(n, 0);
    outputs.push_back(Full(Term(n, n.Scalar(mask, 1)), ShapeOf(x)));
  }
  return outputs;
}

}  // namespace

void RegisterNormalizationRules(RuleTable& table) {
  table.Add("BatchNormalization", {1, 6, 7, 9, 14, 15}, ImportBatchNormalization);
  table.Add1("InstanceNormalization", {1, 6, 22}, ImportInstanceNormalization);
  table.Add1("LRN", {1, 13}, ImportLrn);
  table.Add("LayerNormalization", {17}, ImportLayerNormalization);
  table.Add1("RMSNormalization", {23}, ImportRmsNormalization);
  table.Add1("GroupNormalization", {18, 21}, ImportGroupNormalization);
  table.Add1("LpNormalization", {1, 22}, ImportLpNormalization);
  table.Add1("MeanVarianceNormalization", {9, 13}, ImportMeanVarianceNormalization);
  table.Add("Dropout", {1, 6, 7, 10, 12, 13, 22}, ImportDropout);
}

}  // namespace treadle::onnx
