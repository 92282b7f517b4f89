// SPDX-License-Identifier: Apache-2.0
// Decision trees: tree_leaves, which follows each row down each tree. The way down is a chain of loads that wait for
// each other, so several rows go down a tree together; the tree stays in the nearest cache while a block of rows does.
#include "treadle/ops/attrs/trees.h"

#include <tuple>
#include <utility>

#include "ops/families.h"
#include "ops/gradients.h"
#include "ops/infer.h"
#include "ops/loops.h"
#include "ops/te_util.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/traits.h"
#include "treadle/relay/rewrite_rules.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(TreeLeavesAttrs);

namespace {

enum Operand { kData, kRoots, kDepths, kFeatures, kSplits, kChildren, kKinds };
constexpr int kTogether = 8;   // rows that go down a tree together
constexpr int kGroups = 8;     // such groups that go down one tree before the next
constexpr int kMissing = 8;    // added to the kind of a node that lets NaN pass
constexpr int64_t kTests = 6;  // kinds of tests

Type TreeLeavesInfer(const InferContext& context) {
  const auto* data = context.Tensor(kData, "data");
  const auto* roots = context.Tensor(kRoots, "roots");
  CheckRank(data, 2, "data");
  if (!data->dtype.is_floating()) throw DTypeError(StrCat("data must be floating, not ", data->dtype));
  const auto* splits = context.Tensor(kSplits, "splits");
  const auto* children = context.Tensor(kChildren, "children");
  if (splits->dtype != data->dtype) throw DTypeError(StrCat("splits must be ", data->dtype, ", not ", splits->dtype));
  CheckRank(children, 2, "children");
  for (auto [operand, name, like] : {std::tuple{kRoots, "roots", roots}, std::tuple{kDepths, "depths", roots},
                                     std::tuple{kFeatures, "features", splits}, std::tuple{kKinds, "kinds", splits}}) {
    const auto* tensor = context.Tensor(operand, name);
    CheckRank(tensor, 1, name);
    CheckIntegral(tensor, name);
    if (!context.Equal(tensor->shape[0], like->shape[0])) {
      throw ShapeError(StrCat(name, " has shape ", TypeText(tensor), ", which doesn't fit ", TypeText(like)));
    }
  }
  CheckRank(splits, 1, "splits");
  CheckIntegral(children, "children");
  if (!context.Equal(children->shape[0], splits->shape[0]) || !context.Equal(children->shape[1], Dim(2))) {
    throw ShapeError(StrCat("children has shape ", TypeText(children), ", expected two for each node"));
  }
  const auto* attrs = context.attrs<TreeLeavesAttrs>();
  if (attrs->depth < 0) throw ShapeError(StrCat("depth is ", attrs->depth));
  for (int64_t test : attrs->tests) {
    if (test < 0 || test >= kTests) throw ShapeError(StrCat("tests has ", test, ", expected 0 to ", kTests - 1));
  }
  return TensorType(Array<PrimExpr>{data->shape[0], roots->shape[0]}, DataType::Int(32));
}

PrimExpr Passes(int64_t test, const PrimExpr& value, const PrimExpr& split) {
  switch (test) {
    case 0:
      return value <= split;
    case 1:
      return value < split;
    case 2:
      return value >= split;
    case 3:
      return value > split;
    case 4:
      return tir::equal(value, split);
    default:
      return tir::not_equal(value, split);
  }
}

/// One step down.
class Descent {
 public:
  Descent(const TreeLeavesAttrs* attrs, Array<tir::Buffer> in, tir::Buffer out)
      : attrs_(attrs), in_(std::move(in)), out_(std::move(out)) {}

  tir::Stmt Start(const PrimExpr& row, const PrimExpr& tree) const {
    return Store(out_, tir::cast(DataType::Int(32), Load(in_[kRoots], {tree})), {row, tree});
  }
  /// Calls `then` with the node after the one where the row is.
  tir::Stmt Next(const PrimExpr& row, const PrimExpr& tree, const std::function<tir::Stmt(PrimExpr)>& then) const {
    return LetIn("node", tir::cast(DataType::Int(64), Load(out_, {row, tree})), [&](const PrimExpr& node) {
      return LetIn("value", Load(in_[kData], {row, tir::cast(DataType::Int(64), Load(in_[kFeatures], {node}))}),
                   [&](const PrimExpr& value) {
                     PrimExpr side = Index(1) - tir::cast(DataType::Int(64), PassesAt(node, value));
                     PrimExpr child = tir::cast(DataType::Int(32), Load(in_[kChildren], {node, side}));
                     return LetIn("child", child, then);
                   });
    });
  }
  tir::Stmt Put(const PrimExpr& row, const PrimExpr& tree, const PrimExpr& node) const {
    return Store(out_, node, {row, tree});
  }

 private:
  /// 1 or 0, without branches, which a processor can't foresee here.
  PrimExpr PassesAt(const PrimExpr& node, const PrimExpr& value) const {
    const PrimExpr split = Load(in_[kSplits], {node});
    const PrimExpr kind = tir::cast(DataType::Int(32), Load(in_[kKinds], {node}));
    auto number = [](int64_t i) { return tir::make_const(DataType::Int(32), i); };
    auto bit = [](const PrimExpr& yes) { return tir::cast(DataType::Int(32), yes); };
    PrimExpr passes = number(0);
    const bool one_test = attrs_->tests.size() == 1;
    for (int64_t test : attrs_->tests) {
      PrimExpr one = bit(Passes(test, value, split));
      if (!one_test) {
        one = tir::bitwise_and(one, bit(tir::equal(tir::bitwise_and(kind, number(kMissing - 1)), number(test))));
      }
      passes = one_test ? one : tir::bitwise_or(passes, one);
    }
    if (!attrs_->missing) return passes;
    return tir::bitwise_or(passes, tir::bitwise_and(bit(tir::isnan(value)), bit(kind >= number(kMissing))));
  }

  const TreeLeavesAttrs* attrs_;
  const Array<tir::Buffer> in_;
  const tir::Buffer out_;
};

/// `kTogether` rows from `first` on, down one tree.
tir::Stmt GoDownTogether(const Descent& descent, const PrimExpr& first, const PrimExpr& tree, const PrimExpr& depth) {
  std::vector<tir::Stmt> starts;
  for (int k = 0; k < kTogether; ++k) starts.push_back(descent.Start(first + k, tree));
  auto level = [&](const PrimExpr&) {
    std::vector<tir::Stmt> puts;
    std::function<tir::Stmt(int)> steps = [&](int k) {
      if (k == kTogether) return InOrder(puts);
      return descent.Next(first + k, tree, [&](const PrimExpr& node) {
        puts.push_back(descent.Put(first + k, tree, node));
        return steps(k + 1);
      });
    };
    return steps(0);
  };
  starts.push_back(Loop(depth, "level", level));
  return InOrder(starts);
}

Array<Tensor> TreeLeavesCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<TreeLeavesAttrs>();
  const Array<PrimExpr>& shape = OutTensor(out_type)->shape;
  const PrimExpr rows = inputs[kData]->shape[0], trees = shape[1];
  auto body = [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& out) -> tir::Stmt {
    const Descent descent(a, in, out[0]);
    const PrimExpr groups = tir::floordiv(rows, Index(kTogether));
    tir::Stmt most = LoopNest(
        {tir::floordiv(groups + (kGroups - 1), Index(kGroups))}, "block",
        [&](const Array<PrimExpr>& block) {
          const PrimExpr begin = block[0] * kGroups;
          return Loop(trees, "tree", [&](const PrimExpr& tree) {
            return LetIn("depth", tir::cast(DataType::Int(64), Load(in[kDepths], {tree})), [&](const PrimExpr& depth) {
              return Loop(tir::min(groups - begin, Index(kGroups)), "group", [&](const PrimExpr& group) {
                return GoDownTogether(descent, (begin + group) * kTogether, tree, depth);
              });
            });
          });
        },
        true);
    // A row alone goes down all trees together.
    const PrimExpr done = groups * kTogether;
    tir::Stmt rest = Loop(rows - done, "row", [&](const PrimExpr& i) -> tir::Stmt {
      const PrimExpr row = done + i;
      return InOrder({Loop(trees, "tree", [&](const PrimExpr& tree) { return descent.Start(row, tree); }),
                      Loop(Index(a->depth), "level", [&](const PrimExpr&) {
                        return Loop(trees, "tree", [&](const PrimExpr& tree) {
                          return descent.Next(row, tree,
                                              [&](const PrimExpr& node) { return descent.Put(row, tree, node); });
                        });
                      })});
    });
    return InOrder({most, rest});
  };
  return {te::Extern({shape}, {DataType::Int(32)}, inputs, body, "tree_leaves", "tree_leaves")[0]};
}

}  // namespace

void RegisterTreeOps() {
  OpRegistration("tree_leaves")
      .Describe("The leaf where each row ends in each tree (rows, trees).")
      .Arguments(
          {{"data", "Tensor", "(rows, features)"},
           {"roots", "Tensor", "(trees): nodes."},
           {"depths", "Tensor", "(trees): levels below the root."},
           {"features", "Tensor", "(nodes): the column of data that a node tests."},
           {"splits", "Tensor", "(nodes): what it is compared with."},
           {"children", "Tensor", "(nodes, 2): the nodes for those that pass, and the others; of a leaf, itself."},
           {"kinds", "Tensor", "(nodes): tests, as 'tests' numbers them; 8 is added where NaN passes."}})
      .AttrsType<TreeLeavesAttrs>()
      .SupportLevel(10)
      .Relation(Rule<TreeLeavesInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kGradient, FGradient(gradient::None))
      .Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kNever)
      .Set(kCompute, FTECompute(TreeLeavesCompute));
}

}  // namespace treadle::ops
