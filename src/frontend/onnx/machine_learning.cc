// SPDX-License-Identifier: Apache-2.0
// ai.onnx.ml on numbers: preprocessing, linear models, support vectors, trees.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "frontend/onnx/checked_values.h"
#include "frontend/onnx/composed.h"
#include "frontend/onnx/labels.h"
#include "frontend/onnx/matmul.h"
#include "frontend/onnx/run_time_axes.h"
#include "frontend/onnx/tensor_data.h"
#include "frontend/onnx/trees.h"
#include "frontend/onnx/values.h"

namespace treadle::onnx {
namespace {

using relay::Expr;
using IntList = std::vector<int64_t>;
using Doubles = std::vector<double>;

const DataType kInt64 = DataType::Int(64);
const DataType kFloat32 = DataType::Float(32);

/// Numbers as float32, the type of results; float64 stays.
Term Floats(const Term& x) { return x.dtype() == DataType::Float(64) ? x : x.As(kFloat32); }

Term Row(NodeImport& n, const Doubles& values, DataType dtype) {
  return {n, n.Const(ArrayOf(values, {static_cast<int64_t>(values.size())}, dtype))};
}

Expr ImportBinarizer(NodeImport& n) {
  Term x = In(n, 0);
  return (x > n.Float("threshold", 0.0)).As(x.dtype());
}

Expr ImportArrayFeatureExtractor(NodeImport& n) {
  Term x = In(n, 0), columns = In(n, 1);
  if (columns.dtype() != kInt64) n.Invalid(StrCat("the indices are ", columns.dtype(), ", expected int64"));
  Term y = x.Take(AtLeast(columns.Reshape({-1}), 0, "index of a column"), x.rank() - 1);
  return x.rank() == 1 ? y.Expand(0) : y;
}

Expr ImportScaler(NodeImport& n) {
  Term x = In(n, 0);
  Term y = Floats(x);
  return ((y - Row(n, n.Floats("offset", Doubles{0}), y.dtype())) * Row(n, n.Floats("scale", Doubles{1}), y.dtype()))
      .As(kFloat32);
}

Expr ImportNormalizer(NodeImport& n) {
  const std::string norm = n.Str("norm", "MAX");
  if (n.Rank(0) < 1 || n.Rank(0) > 2) n.Invalid(StrCat("the operand has rank ", n.Rank(0), ", expected 1 or 2"));
  Term x = In(n, 0).As(kFloat32);
  const IntList last{x.rank() - 1};
  if (norm != "MAX" && norm != "L1" && norm != "L2") n.Invalid(StrCat("'norm' is ", QuoteName(norm)));
  Term size =
      norm == "L2" ? (x * x).Sum(last, true).Op("sqrt") : x.Op("abs").Reduce(norm == "MAX" ? "max" : "sum", last, true);
  return x / Max(size, 1e-30);
}

/// What stands for a missing number is replaced, column by column.
Expr ImportImputer(NodeImport& n) {
  Term x = In(n, 0);
  const bool real = x.dtype().is_floating();
  n.Ignore({"imputed_value_floats", "imputed_value_int64s", "replaced_value_float", "replaced_value_int64"});
  Term values = real ? Row(n, n.Floats("imputed_value_floats"), x.dtype())
                     : Term(n, n.IntVector(n.Ints("imputed_value_int64s"), x.dtype()));
  const double replaced =
      real ? n.Float("replaced_value_float", 0.0) : static_cast<double>(n.Int("replaced_value_int64", 0));
  Term missing = std::isnan(replaced) ? x.Op("isnan") : x == replaced;
  return missing.Select(values, x);
}

/// Columns of all inputs side by side, each cut or filled to a number of them.
Expr ImportFeatureVectorizer(NodeImport& n) {
  IntList sizes = n.Ints("inputdimensions");
  if (sizes.size() != n.num_inputs())
    n.Invalid("'inputdimensions' has another number of entries than there are inputs");
  std::vector<Term> parts;
  for (size_t i = 0; i < n.num_inputs(); ++i) {
    Term x = In(n, i).As(kFloat32);
    if (x.rank() == 1) x = x.Expand(1);
    if (x.rank() != 2 || sizes[i] < 0) n.Invalid("an input's rank isn't 1 or 2");
    const int64_t* known = AsConstInt(x.shape()[1]);
    const int64_t added = std::max<int64_t>(known == nullptr ? sizes[i] : sizes[i] - *known, 0);
    if (added > 0) x = Term(n, n.Pad(x, {0, 0}, {0, added}, x.Number(0), "constant"));
    parts.push_back(known != nullptr && *known + added == sizes[i] ? x : x.Slice(1, 0, sizes[i]));
  }
  return Concat(parts, 1);
}

void CheckNoTransform(NodeImport& n) {
  const std::string transform = n.Str("post_transform", "NONE");
  if (transform != "NONE") n.Unsupported(StrCat("post_transform ", transform, " isn't implemented"));
}

/// A list of which each entry belongs to one of `count` things.
Doubles FloatsOf(NodeImport& n, const char* name, int64_t count) {
  Doubles values = n.Floats(name);
  if (static_cast<int64_t>(values.size()) != count)
    n.Invalid(StrCat("'", name, "' has ", values.size(), " entries, expected ", count));
  return values;
}

/// (targets, columns) from a flat list.
Term Matrix(NodeImport& n, const char* name, int64_t rows, DataType dtype) {
  Doubles values = n.Floats(name);
  const auto count = static_cast<int64_t>(values.size());
  if (rows < 1 || count % rows != 0) n.Invalid(StrCat("'", name, "' has ", count, " entries for ", rows, " rows"));
  return {n, n.Const(ArrayOf(values, {rows, count / rows}, dtype))};
}

Expr ImportLinearRegressor(NodeImport& n) {
  CheckNoTransform(n);
  Term x = Floats(In(n, 0));
  Term weights = Matrix(n, "coefficients", n.Int("targets", 1), x.dtype());
  Term y(n, MatMulAnyRank(n, x, weights.Permute({1, 0})));
  if (n.HasAttr("intercepts")) y = y + Row(n, FloatsOf(n, "intercepts", n.Int("targets", 1)), x.dtype());
  return y.As(kFloat32);
}

/// Kernels between rows of X and support vectors, (rows, vectors).
Term Kernels(NodeImport& n, const Term& x, const Term& vectors) {
  const std::string kind = n.Str("kernel_type", "LINEAR");
  Doubles params = n.Floats("kernel_params", Doubles{0, 0, 0});
  if (params.size() != 3) n.Invalid("'kernel_params' has to have 3 entries");
  if (kind == "RBF") {
    Term difference = x.Expand(1) - vectors.Expand(0);
    return ((difference * difference).Sum({2}) * -params[0]).Op("exp");
  }
  Term dot(n, MatMulAnyRank(n, x, vectors.Permute({1, 0})));
  if (kind == "LINEAR") return dot;
  Term s = dot * params[0] + params[1];
  if (kind == "SIGMOID") return s.Op("tanh");
  if (kind != "POLY") n.Invalid(StrCat("'kernel_type' is ", QuoteName(kind)));
  return s.Op("power", s.Number(std::floor(params[2])));
}

Expr ImportSvmRegressor(NodeImport& n) {
  CheckNoTransform(n);
  Term x = Floats(In(n, 0));
  const int64_t supports = n.Int("n_supports", 0);
  n.Ignore({"support_vectors", "kernel_params", "kernel_type"});
  std::optional<Term> sum;
  if (supports > 0) {
    Term kernels = Kernels(n, x, Matrix(n, "support_vectors", supports, x.dtype()));
    sum = (kernels * Row(n, FloatsOf(n, "coefficients", supports), x.dtype())).Sum({1}, true);
  } else {
    sum = Term(n, MatMulAnyRank(n, x, Matrix(n, "coefficients", 1, x.dtype()).Permute({1, 0})));
  }
  Doubles rho = n.Floats("rho", Doubles{0});
  if (rho.empty()) n.Invalid("'rho' is empty");
  Term y = *sum + rho[0];
  if (n.Flag("one_class", false)) y = (y > 0.0).Select(y.Number(1), y.Number(-1));
  return y.As(kFloat32);
}

Term PostTransform(NodeImport& n, const Term& scores, const std::string& transform) {
  const IntList last{scores.rank() - 1};
  if (transform == "NONE") return scores;
  if (transform == "LOGISTIC") return scores.Op("sigmoid");
  if (transform == "SOFTMAX") return scores.Op("nn.softmax", {{"axis", last[0]}});
  if (transform == "SOFTMAX_ZERO") {  // zeros keep no weight
    Term largest = scores.Reduce("max", last, true);
    Term parts = (scores.Op("abs") > 1e-7).Select((scores - largest).Op("exp"), scores * (largest * -1.0).Op("exp"));
    Term sum = parts.Sum(last, true);
    return (sum == 0.0).Select(parts * 0.0 + 0.5, parts / sum);
  }
  if (transform != "PROBIT") n.Invalid(StrCat("'post_transform' is ", QuoteName(transform)));
  // The inverse of erf by Winitzki's formula, as the standard's reference has it.
  Term x = scores * 2.0 - 1.0, rest = 1.0 - x * x;
  Term log = rest.Op("log"), v = log * 0.5 + 2 / (3.14159265358979323846 * 0.147);
  Term root = ((v * v - log * (1 / 0.147)).Op("sqrt") - v).Op("sqrt");
  Term inverse = (rest == 0.0).Select(root * 0.0, x.Op("sign") * root);
  return inverse * 1.41421356;
}

/// The label of the best score of each row.
Term Best(NodeImport& n, const Term& scores, const ClassLabels& labels) {
  if (labels.text) n.MarkText();
  Term index(n, n.Call("argmax", {scores}, {{"axis", IntList{1}}, {"keepdims", false}}));
  return Term(n, labels.values).Take(index.As(kInt64));
}

/// Support vectors of several classes, each pair of which has a score.
struct SvmPairs {
  Term scores;  ///< (rows, pairs)
  Term votes;   ///< (rows, classes)
  int64_t pairs;
};

SvmPairs ScorePairs(NodeImport& n, const Term& x, const IntList& counts) {
  const auto classes = static_cast<int64_t>(counts.size());
  int64_t vectors = 0;
  std::vector<int64_t> starts;
  for (int64_t count : counts) {
    if (count < 0 || count > INT32_MAX) n.Invalid("'vectors_per_class' is out of range");
    starts.push_back(vectors);
    vectors += count;
  }
  const Doubles coefficients = n.Floats("coefficients"), rho = n.Floats("rho");
  const int64_t pairs = classes * (classes - 1) / 2;
  if (static_cast<int64_t>(coefficients.size()) != (classes - 1) * vectors ||
      static_cast<int64_t>(rho.size()) < pairs) {
    n.Invalid("'coefficients' or 'rho' doesn't fit 'vectors_per_class'");
  }
  Doubles weights(static_cast<size_t>(pairs * vectors), 0), first(static_cast<size_t>(pairs * classes), 0),
      second = first;
  int64_t pair = 0;
  auto at = [&](int64_t row, int64_t vector) { return coefficients[static_cast<size_t>(row * vectors + vector)]; };
  for (int64_t i = 0; i < classes; ++i) {
    for (int64_t j = i + 1; j < classes; ++j, ++pair) {
      auto set = [&](int64_t of, int64_t row) {
        for (int64_t v = starts[static_cast<size_t>(of)];
             v < starts[static_cast<size_t>(of)] + counts[static_cast<size_t>(of)]; ++v) {
          weights[static_cast<size_t>(pair * vectors + v)] = at(row, v);
        }
      };
      set(i, j - 1);
      set(j, i);
      first[static_cast<size_t>(pair * classes + i)] = 1;
      second[static_cast<size_t>(pair * classes + j)] = 1;
    }
  }
  auto matrix = [&](const Doubles& values, int64_t columns) {
    return Term(n, n.Const(ArrayOf(values, {pairs, columns}, x.dtype())));
  };
  Term kernels = Kernels(n, x, Matrix(n, "support_vectors", vectors, x.dtype()));
  Term scores = Term(n, MatMulAnyRank(n, kernels, matrix(weights, vectors).Permute({1, 0}))) +
                Row(n, Doubles(rho.begin(), rho.begin() + pairs), x.dtype());
  Term wins = (scores > 0.0).As(x.dtype());
  Term votes(n, n.Call("add", {MatMulAnyRank(n, wins, matrix(first, classes)),
                               MatMulAnyRank(n, 1.0 - wins, matrix(second, classes))}));
  return {scores, votes, pairs};
}

std::vector<Expr> ImportSvmClassifier(NodeImport& n) {
  n.Ignore({"support_vectors", "kernel_params", "kernel_type", "prob_a", "prob_b"});
  const std::string transform = n.Str("post_transform", "NONE");
  const ClassLabels labels = ReadClassLabels(n, "classlabels_ints", "classlabels_strings");
  const IntList counts = n.Ints("vectors_per_class", IntList());
  const Doubles coefficients = n.Floats("coefficients"), rho = n.Floats("rho");
  Term x = Floats(In(n, 0));
  if (x.rank() != 2) n.Invalid("the operand's rank isn't 2");
  if (labels.count < 2 || coefficients.empty() || rho.empty()) n.Unsupported("less than two labels aren't implemented");
  const bool positive = *std::min_element(coefficients.begin(), coefficients.end()) >= 0;
  const bool linear = std::all_of(counts.begin(), counts.end(), [](int64_t count) { return count == 0; });
  std::optional<Term> scores, ranking;
  bool has_probabilities = false;
  if (linear) {
    if (rho.size() == 1 && labels.count > 2)
      n.Unsupported("linear machines of more than two labels aren't implemented");
    scores = Term(n, MatMulAnyRank(n, x, Matrix(n, "coefficients", labels.count, x.dtype()).Permute({1, 0}))) + rho[0];
    ranking = scores;
  } else {
    if (static_cast<int64_t>(counts.size()) != labels.count) n.Invalid("there are other classes than labels");
    SvmPairs pairs = ScorePairs(n, x, counts);
    scores = pairs.scores;
    ranking = pairs.votes;
    const Doubles a = n.Floats("prob_a", Doubles()), b = n.Floats("prob_b", Doubles());
    has_probabilities = !a.empty();
    if (has_probabilities) {
      if (static_cast<int64_t>(a.size()) != pairs.pairs || b.size() != a.size())
        n.Invalid("'prob_a' or 'prob_b' doesn't fit");
      Term p = ((pairs.scores * Row(n, a, x.dtype()) + Row(n, b, x.dtype())) * -1.0).Op("sigmoid").As(kFloat32);
      scores = Term(n, HostCall(n, "svm.couple", {p, IntNum(n, labels.count)}, {"tensor", kFloat32, 2}));
    }
  }
  Term index(n, n.Call("argmax", {*ranking}, {{"axis", IntList{1}}, {"keepdims", false}}));
  index = index.As(kInt64);
  if (labels.count == 2 && rho.size() == 1 && !has_probabilities && positive) {
    Term best = ranking->Reduce("max", {1});
    index = (best >= 0.5).Select(index * 0.0 + 1.0, index);
  }
  if (labels.text) n.MarkText();
  Term y = scores->As(kFloat32);
  const bool one_score = !linear && !has_probabilities && labels.count == 2;
  if (one_score) y = transform == "PROBIT" ? y : Concat({y * -1.0, y}, 1);
  return {Term(n, labels.values).Take(index), PostTransform(n, y, transform)};
}

std::vector<Expr> ImportLinearClassifier(NodeImport& n) {
  n.Ignore({"multi_class"});
  const std::string transform = n.Str("post_transform", "NONE");
  const ClassLabels labels = ReadClassLabels(n, "classlabels_ints", "classlabels_strings");
  Term x = Floats(In(n, 0));
  if (x.rank() != 2) n.Invalid("the operand's rank isn't 2");
  const auto count = static_cast<int64_t>(n.Floats("coefficients").size());
  const int64_t* known = AsConstInt(x.shape()[1]);
  const int64_t rows = n.HasAttr("intercepts") ? static_cast<int64_t>(n.Floats("intercepts").size()) : labels.count;
  const int64_t features = known != nullptr ? *known : rows > 0 ? count / rows : 0;
  if (features < 1 || count % features != 0) n.Invalid("'coefficients' doesn't fit the operand");
  x = WithSizes(x, {-1, features}, "the operand");
  Term scores(n, MatMulAnyRank(n, x, Matrix(n, "coefficients", count / features, x.dtype()).Permute({1, 0})));
  if (n.HasAttr("intercepts")) scores = scores + Row(n, n.Floats("intercepts"), x.dtype());
  if (count == features && labels.count == 2) scores = Concat({scores * -1.0, scores}, 1);
  scores = PostTransform(n, scores.As(kFloat32), transform);
  if (n.StaticDim(scores, 1) > 1) {
    if (n.StaticDim(scores, 1) != labels.count) n.Invalid("there are other scores than labels");
    return {Best(n, scores, labels), scores};
  }
  if (labels.count != 1 || labels.text) n.Invalid("there are other scores than labels");
  Term above = (scores >= (transform == "NONE" ? 0.0 : 0.5)).Squeeze({1});
  return {above.As(kInt64) * Term(n, labels.values).Reshape({}), scores};
}

Doubles NumbersAttr(NodeImport& n, const std::string& name) {
  if (const Attribute* tensor = n.Find((name + "_as_tensor").c_str())) {
    if (tensor->type != Attribute::Type::kTensor) n.Invalid(StrCat("'", name, "_as_tensor' isn't a tensor"));
    return DoublesOf(ToNDArray(*tensor->t, name));
  }
  return n.Floats(name.c_str(), Doubles());
}

/// Trees as versions 1 to 4 write them, with leaves' weights under `leaf` ("target" or "class").
Trees OldTrees(NodeImport& n, const std::string& leaf, int64_t outputs) {
  n.Ignore({"nodes_hitrates", "nodes_hitrates_as_tensor"});
  const Attribute* modes = n.Find("nodes_modes");
  if (modes == nullptr || modes->type != Attribute::Type::kStrings) n.Invalid("'nodes_modes' is missing");
  const IntList tree_ids = n.Ints("nodes_treeids"), node_ids = n.Ints("nodes_nodeids");
  const IntList features = n.Ints("nodes_featureids"), yes = n.Ints("nodes_truenodeids"),
                no = n.Ints("nodes_falsenodeids");
  const IntList missing = n.Ints("nodes_missing_value_tracks_true", IntList());
  const Doubles values = NumbersAttr(n, "nodes_values");
  const size_t count = node_ids.size();
  if (tree_ids.size() != count || features.size() != count || yes.size() != count || no.size() != count ||
      values.size() != count || modes->strings.size() != count || (!missing.empty() && missing.size() != count)) {
    n.Invalid("the lists of nodes differ in length");
  }
  std::map<std::pair<int64_t, int64_t>, int64_t> index;
  for (size_t i = 0; i < count; ++i) index[{tree_ids[i], node_ids[i]}] = static_cast<int64_t>(i);
  auto find = [&](int64_t tree, int64_t node) {
    auto it = index.find({tree, node});
    if (it == index.end()) n.Invalid(StrCat("tree ", tree, " has no node ", node));
    return it->second;
  };
  Trees trees;
  trees.outputs = outputs;
  static const std::map<std::string, TreeTest> kTests = {{"BRANCH_LEQ", TreeTest::kLessEqual},
                                                         {"BRANCH_LT", TreeTest::kLess},
                                                         {"BRANCH_GTE", TreeTest::kGreaterEqual},
                                                         {"BRANCH_GT", TreeTest::kGreater},
                                                         {"BRANCH_EQ", TreeTest::kEqual},
                                                         {"BRANCH_NEQ", TreeTest::kNotEqual},
                                                         {"LEAF", TreeTest::kLeaf}};
  std::set<int64_t> seen;
  for (size_t i = 0; i < count; ++i) {
    auto test = kTests.find(modes->strings[i]);
    if (test == kTests.end()) n.Invalid(StrCat("a node's mode is ", QuoteName(modes->strings[i])));
    TreeNode node{test->second, features[i], values[i], !missing.empty() && missing[i] != 0, 0, 0};
    if (node.test != TreeTest::kLeaf) {
      node.yes = find(tree_ids[i], yes[i]);
      node.no = find(tree_ids[i], no[i]);
    }
    if (seen.insert(tree_ids[i]).second) trees.roots.push_back(static_cast<int64_t>(i));
    trees.nodes.push_back(node);
  }
  const IntList leaf_trees = n.Ints((leaf + "_treeids").c_str()), leaf_nodes = n.Ints((leaf + "_nodeids").c_str());
  const IntList leaf_ids = n.Ints((leaf + "_ids").c_str());
  const Doubles weights = NumbersAttr(n, leaf + "_weights");
  if (leaf_trees.size() != weights.size() || leaf_nodes.size() != weights.size() || leaf_ids.size() != weights.size()) {
    n.Invalid("the lists of leaves differ in length");
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    if (leaf_ids[i] < 0 || leaf_ids[i] >= outputs)
      n.Invalid(StrCat("a leaf's target is ", leaf_ids[i], " of ", outputs));
    trees.weights.push_back({find(leaf_trees[i], leaf_nodes[i]), leaf_ids[i], weights[i]});
  }
  return trees;
}

Term WithBase(NodeImport& n, const Term& scores, int64_t outputs) {
  Doubles base = NumbersAttr(n, "base_values");
  if (base.size() > 1 && static_cast<int64_t>(base.size()) != outputs)
    n.Invalid(StrCat("'base_values' has ", base.size(), " entries, expected ", outputs));
  return base.empty() ? scores : scores + Row(n, base, scores.dtype());
}

Expr ImportTreeRegressor(NodeImport& n) {
  const std::string aggregate = n.Str("aggregate_function", "SUM");
  Trees trees = OldTrees(n, "target", n.Int("n_targets", 1));
  Term x = Floats(In(n, 0));
  Term scores = EvaluateTrees(n, trees, x, aggregate);
  return PostTransform(n, WithBase(n, scores, trees.outputs).As(kFloat32), n.Str("post_transform", "NONE"));
}

std::vector<Expr> ImportTreeClassifier(NodeImport& n) {
  const ClassLabels labels = ReadClassLabels(n, "classlabels_int64s", "classlabels_strings");
  if (labels.count < 2) n.Unsupported("less than two labels aren't implemented");
  Trees trees = OldTrees(n, "class", labels.count);
  std::set<int64_t> used;
  for (const TreeWeight& weight : trees.weights) used.insert(weight.output);
  const std::string transform = n.Str("post_transform", "NONE");
  Term scores = WithBase(n, EvaluateTrees(n, trees, Floats(In(n, 0)), "SUM"), labels.count).As(kFloat32);
  if (used.size() == 1) {  // the scores of one of two classes
    if (labels.count != 2) n.Unsupported("weights of one of several classes aren't implemented");
    Term one = scores.Slice(1, 0, 1);
    scores = Concat({transform == "NONE" || transform == "PROBIT" ? 1.0 - one : one * -1.0, one}, 1);
  }
  scores = PostTransform(n, scores, transform);
  return {Best(n, scores, labels), scores};
}

/// Version 5: nodes and leaves apart; a node may test whether its feature is one of several values.
Expr ImportTreeEnsemble(NodeImport& n) {
  static const char* kAggregates[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  static const char* kTransforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  const int64_t aggregate = n.Int("aggregate_function", 1), transform = n.Int("post_transform", 0);
  if (aggregate < 0 || aggregate > 3 || transform < 0 || transform > 4) n.Invalid("an attribute is out of range");
  n.Ignore({"nodes_hitrates"});
  Term x = In(n, 0);
  auto numbers = [&](const char* name, DataType dtype) {
    const Attribute* tensor = n.Find(name);
    if (tensor == nullptr || tensor->type != Attribute::Type::kTensor) n.Invalid(StrCat("'", name, "' isn't a tensor"));
    const NDArray values = ToNDArray(*tensor->t, name);
    if (values.dtype() != dtype) n.Invalid(StrCat("'", name, "' is ", values.dtype(), ", expected ", dtype));
    return DoublesOf(values);
  };
  TreeLists lists;
  lists.roots = n.Ints("tree_roots");
  lists.features = n.Ints("nodes_featureids");
  lists.splits = numbers("nodes_splits", x.dtype());
  for (double mode : numbers("nodes_modes", DataType::UInt(8))) lists.modes.push_back(static_cast<int64_t>(mode));
  lists.yes = n.Ints("nodes_truenodeids");
  lists.no = n.Ints("nodes_falsenodeids");
  lists.yes_leaf = n.Ints("nodes_trueleafs");
  lists.no_leaf = n.Ints("nodes_falseleafs");
  lists.missing = n.Ints("nodes_missing_value_tracks_true", IntList());
  if (n.HasAttr("membership_values")) lists.members = numbers("membership_values", x.dtype());
  lists.leaf_targets = n.Ints("leaf_targetids");
  lists.leaf_weights = numbers("leaf_weights", x.dtype());
  Trees trees = MakeTrees(n, lists, n.Int("n_targets", 1));
  Term scores = EvaluateTrees(n, trees, x, kAggregates[aggregate]);
  return PostTransform(n, scores, kTransforms[transform]);
}

}  // namespace

void RegisterMachineLearningRules(RuleTable& table) {
  table.Add1("ai.onnx.ml.Binarizer", {1}, ImportBinarizer);
  table.Add1("ai.onnx.ml.ArrayFeatureExtractor", {1}, ImportArrayFeatureExtractor);
  table.Add1("ai.onnx.ml.Scaler", {1}, ImportScaler);
  table.Add1("ai.onnx.ml.Normalizer", {1}, ImportNormalizer);
  table.Add1("ai.onnx.ml.Imputer", {1}, ImportImputer);
  table.Add1("ai.onnx.ml.FeatureVectorizer", {1}, ImportFeatureVectorizer);
  table.Add1("ai.onnx.ml.LinearRegressor", {1}, ImportLinearRegressor);
  table.Add("ai.onnx.ml.LinearClassifier", {1}, ImportLinearClassifier);
  table.Add1("ai.onnx.ml.SVMRegressor", {1}, ImportSvmRegressor);
  table.Add("ai.onnx.ml.SVMClassifier", {1}, ImportSvmClassifier);
  table.Add1("ai.onnx.ml.TreeEnsembleRegressor", {1, 3, 5}, ImportTreeRegressor);
  table.Add("ai.onnx.ml.TreeEnsembleClassifier", {1, 3, 5}, ImportTreeClassifier);
  table.Add1("ai.onnx.ml.TreeEnsemble", {5}, ImportTreeEnsemble);
}

}  // namespace treadle::onnx
