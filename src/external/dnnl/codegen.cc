// SPDX-License-Identifier: Apache-2.0
// External code generator "dnnl": regions as lists of oneDNN's primitives, with what follows a convolution or a product
// of matrices fused into it.
#include <algorithm>
#include <cmath>

#include "external/dnnl/ops.h"
#include "external/register.h"
#include "treadle/base/error.h"
#include "treadle/external/codegen.h"
#include "treadle/external/region.h"
#include "treadle/relay/expr_functor.h"

namespace treadle::external {
namespace {

using dnnl::AsEltwise;
using dnnl::Eltwise;

/// An anchor with the nodes that its primitive computes too; the last of them gives the step its place.
struct Group {
  int anchor = -1;
  int last = -1;
  int bias = -1;    ///< node
  int addend = -1;  ///< node of a tensor that is added before the activations
  std::vector<Eltwise> activations;
};

class Fuser {
 public:
  explicit Fuser(const Region& region) : region_(region), consumers_(region.nodes.size()), taken_(region.nodes.size()) {
    for (size_t i = 0; i < region.nodes.size(); ++i) {
      for (int input : region.nodes[i].inputs) consumers_[static_cast<size_t>(input)].push_back(static_cast<int>(i));
    }
    for (size_t i = 0; i < region.nodes.size(); ++i) {
      if (dnnl::IsAnchor(region.nodes[i])) groups_.push_back(Grow(static_cast<int>(i)));
    }
    // What is left of gelus: their error function is no operator of oneDNN's.
    for (size_t i = 0; i < region.nodes.size(); ++i) {
      Group group;
      group.last = static_cast<int>(i);
      if (Gelu(&group, group.last)) groups_.push_back(group);
    }
  }
  const std::vector<Group>& groups() const { return groups_; }
  /// Whether a group computes the node on the way.
  bool taken(int node) const { return taken_[static_cast<size_t>(node)]; }

 private:
  const RegionNode& Node(int i) const { return region_.nodes[static_cast<size_t>(i)]; }
  /// The only node that reads `node`, or -1.
  int Only(int node) const {
    const auto& users = consumers_[static_cast<size_t>(node)];
    return Node(node).uses == 1 && users.size() == 1 && !taken(users[0]) ? users[0] : -1;
  }

  Group Grow(int anchor) {
    Group group;
    group.anchor = group.last = anchor;
    Claim(&group, anchor);
    int next = Only(anchor);
    if (next >= 0 && IsBias(anchor, next)) {
      group.bias = Other(next, group.last);
      Claim(&group, next);
      next = Only(next);
    }
    const bool sums = Node(anchor).call->op.as<OpNode>()->name.find("transpose") == std::string::npos &&
                      Node(anchor).op() != "nn.batch_matmul" && Node(anchor).op() != "nn.matmul";
    if (sums && next >= 0 && Node(next).op() == "add" && Node(next).inputs[0] != Node(next).inputs[1] &&
        SameShapes(next)) {
      group.addend = Other(next, group.last);
      Claim(&group, next);
    }
    while (group.activations.size() < 4 && Activate(&group)) {
    }
    return group;
  }

  void Claim(Group* group, int node) {
    taken_[static_cast<size_t>(node)] = true;
    group->last = node;
  }
  int Other(int node, int operand) const { return Node(node).inputs[Node(node).inputs[0] == operand ? 1 : 0]; }
  bool SameShapes(int node) const {
    return Node(Node(node).inputs[0]).type.shape == Node(node).type.shape &&
           Node(Node(node).inputs[1]).type.shape == Node(node).type.shape;
  }

  /// Whether `next` adds one number per channel of the anchor's result.
  bool IsBias(int anchor, int next) const {
    const RegionNode& node = Node(next);
    if (node.op() != "add" && node.op() != "nn.bias_add") return false;
    if (node.inputs[0] == node.inputs[1] || node.type.shape != Node(anchor).type.shape) return false;
    if (Node(anchor).op() == "nn.batch_matmul") return false;
    const bool product = Node(anchor).op() == "nn.dense" || Node(anchor).op() == "nn.matmul";
    const size_t rank = node.type.shape.size(), channel = product ? rank - 1 : 1;
    const int bias = Other(next, anchor);
    std::vector<int64_t> shape = Node(bias).type.shape;
    if (node.op() == "nn.bias_add") {
      const Json step = [&] {
        std::vector<int> in;
        return dnnl::StepOf(region_, next, &in);
      }();
      return node.inputs[0] == anchor && step.at("axis").get<size_t>() == channel;
    }
    shape.insert(shape.begin(), rank - shape.size(), 1);
    for (size_t d = 0; d < rank; ++d) {
      if (shape[d] != (d == channel ? node.type.shape[d] : 1)) return false;
    }
    return true;
  }

  /// Takes the activation that follows, if there is one: a function of one operand, or x * f(x).
  bool Activate(Group* group) {
    const int x = group->last;
    if (const int next = Only(x); next >= 0) {
      auto eltwise = AsEltwise(region_, next);
      if (!eltwise) return false;
      auto& list = group->activations;
      if (eltwise->alg == "linear" && !list.empty() && list.back().alg == "linear") {
        list.back().beta = eltwise->alpha * list.back().beta + eltwise->beta;
        list.back().alpha *= eltwise->alpha;
      } else {
        list.push_back(*eltwise);
      }
      Claim(group, next);
      return true;
    }
    return Gate(group, x) || Gelu(group, x);
  }

  /// x / 2 * (1 + erf(x / sqrt(2))).
  bool Gelu(Group* group, int x) {
    const auto& users = consumers_[static_cast<size_t>(x)];
    if (Node(x).uses != 2 || users.size() != 2 || taken(users[0]) || taken(users[1])) return false;
    for (int k = 0; k < 2; ++k) {
      const int scaled = users[static_cast<size_t>(k)], half = users[static_cast<size_t>(1 - k)];
      const auto s = AsEltwise(region_, scaled), h = AsEltwise(region_, half);
      auto scales = [](const std::optional<Eltwise>& e, double factor) {
        return e && e->alg == "linear" && e->beta == 0 && std::abs(e->alpha - factor) < 1e-5;
      };
      if (!scales(s, std::sqrt(0.5)) || !scales(h, 0.5)) continue;
      const int erf = Only(scaled);
      if (erf < 0 || Node(erf).op() != "erf") continue;
      const int sum = Only(erf), product = Only(half);
      if (sum < 0 || product < 0 || Node(product).op() != "multiply") continue;
      const auto one = AsEltwise(region_, sum);
      if (!one || one->alg != "linear" || one->alpha != 1 || one->beta != 1 || Only(sum) != product) continue;
      for (int node : {scaled, half, erf, sum, product}) Claim(group, node);
      group->activations.push_back({x, "gelu_erf", 0, 0});
      return true;
    }
    return false;
  }

  /// swish: x * sigmoid(x); hardswish: x * clip(x / 6 + 1 / 2, 0, 1).
  bool Gate(Group* group, int x) {
    const auto& users = consumers_[static_cast<size_t>(x)];
    if (Node(x).uses != 2 || users.size() != 2 || taken(users[0]) || taken(users[1])) return false;
    for (int k = 0; k < 2; ++k) {
      const int product = users[static_cast<size_t>(1 - k)];
      if (Node(product).op() != "multiply") continue;
      std::vector<int> chain{users[static_cast<size_t>(k)]};
      double alpha = 1, beta = 0;
      std::string gate;
      while (gate.empty()) {
        auto eltwise = AsEltwise(region_, chain.back());
        if (!eltwise) break;
        if (eltwise->alg == "linear") {
          beta = eltwise->alpha * beta + eltwise->beta, alpha *= eltwise->alpha;
        } else if (eltwise->alg == "logistic" && alpha == 1 && beta == 0) {
          gate = "swish";
        } else if (eltwise->alg == "clip" && eltwise->alpha == 0 && eltwise->beta == 1 &&
                   std::abs(alpha - 1.0 / 6) < 1e-6 && std::abs(beta - 0.5) < 1e-6) {
          gate = "hardswish";
        } else {
          break;
        }
        if (gate.empty()) {
          const int next = Only(chain.back());
          if (next < 0) break;
          chain.push_back(next);
        }
      }
      if (gate.empty() || Only(chain.back()) != product || Other(product, x) != chain.back()) continue;
      for (int node : chain) Claim(group, node);
      Claim(group, product);
      group->activations.push_back({x, gate, 1, 0});
      return true;
    }
    return false;
  }

  const Region& region_;
  std::vector<std::vector<int>> consumers_;
  std::vector<bool> taken_;
  std::vector<Group> groups_;
};

/// Writes a group as one step.
void WriteGroup(const Region& region, const Group& group, RegionWriter* writer) {
  if (group.anchor < 0) {
    const Eltwise& eltwise = group.activations.front();
    writer->Step(group.last, {{"op", "eltwise"}, {"alg", eltwise.alg}, {"alpha", 0.0}, {"beta", 0.0}},
                 {writer->ValueOf(eltwise.x)});
    return;
  }
  std::vector<int> nodes, in;
  Json step = dnnl::StepOf(region, group.anchor, &nodes);
  for (int node : nodes) in.push_back(writer->ValueOf(node));
  step["bias"] = group.bias >= 0;
  if (group.bias >= 0) in.push_back(writer->ValueOf(group.bias));
  step["sum"] = group.addend >= 0;
  if (group.addend >= 0) in.push_back(writer->ValueOf(group.addend));
  Json post = Json::array();
  for (const Eltwise& eltwise : group.activations) post.push_back(eltwise.ToJson());
  step["post"] = post;
  writer->Step(group.last, std::move(step), in);
}

Module Compile(const Function& function) {
  const Region region(function);
  const Fuser fuser(region);
  RegionWriter writer(region);
  std::vector<const Group*> group_at(region.nodes.size(), nullptr);
  for (const Group& group : fuser.groups()) group_at[static_cast<size_t>(group.last)] = &group;
  for (size_t i = 0; i < region.nodes.size(); ++i) {
    if (region.nodes[i].kind != RegionNode::kCall) continue;
    if (group_at[i] != nullptr) {
      WriteGroup(region, *group_at[i], &writer);
    } else if (!fuser.taken(static_cast<int>(i))) {
      std::vector<int> nodes, in;
      Json step = dnnl::StepOf(region, static_cast<int>(i), &nodes);
      for (int node : nodes) in.push_back(writer.ValueOf(node));
      writer.Step(static_cast<int>(i), std::move(step), in);
    }
  }
  return writer.Finish("dnnl");
}

/// The number that a constant of one float32 element is, else 0.
double NumberIn(const relay::Expr& e) {
  const auto* constant = e.as<relay::ConstantNode>();
  if (constant == nullptr || constant->data.dtype() != DataType::Float(32) || constant->data.size() != 1) return 0;
  return static_cast<double>(*constant->data.Data<float>());
}

/// The error function alone isn't oneDNN's, but this is.
std::vector<relay::CompositePattern> Patterns() {
  using relay::DFPattern, relay::IsConstant, relay::IsOp;
  DFPattern x = relay::Wildcard();
  DFPattern half = IsOp("multiply")({x, IsConstant()});
  DFPattern erf = IsOp("erf")({IsOp("multiply")({x, IsConstant()}) | IsOp("divide")({x, IsConstant()})});
  DFPattern gelu = IsOp("multiply")({half, IsOp("add")({erf, IsConstant()})});
  auto check = [](const relay::CallNode* root) {
    // In either order: half of x, and 1 + erf(x / sqrt(2)).
    auto find = [](const relay::CallNode* call, const char* op) -> const relay::CallNode* {
      for (const relay::Expr& arg : call->args) {
        const auto* inner = arg.as<relay::CallNode>();
        const auto* name = inner == nullptr ? nullptr : inner->op.as<OpNode>();
        if (name != nullptr && name->name == op) return inner;
      }
      return nullptr;
    };
    auto number = [](const relay::CallNode* call) { return NumberIn(call->args[0]) + NumberIn(call->args[1]); };
    const auto* type = root->checked_type_.as<TensorTypeNode>();
    const relay::CallNode *half = find(root, "multiply"), *sum = find(root, "add");
    if (type == nullptr || !IsStatic(type) || type->shape.empty() || half == nullptr || sum == nullptr) return false;
    const relay::CallNode* erf = find(sum, "erf");
    if (erf == nullptr || std::abs(number(half) - 0.5) > 1e-6 || std::abs(number(sum) - 1) > 1e-6) return false;
    const auto* scaled = erf->args[0].as<relay::CallNode>();
    const double factor = number(scaled);
    const bool divides = scaled->op.as<OpNode>()->name == "divide";
    return std::abs((divides ? 1 / factor : factor) - std::sqrt(0.5)) < 1e-5;
  };
  return {relay::CompositePattern("dnnl.gelu", gelu, check)};
}

/// Regions that only move elements gain nothing.
std::string Refuse(const Function& region) {
  bool computes = false;
  relay::PostOrderVisit(region->body, [&](const relay::Expr& e) {
    const auto* call = e.as<relay::CallNode>();
    const auto* op = call == nullptr ? nullptr : call->op.as<OpNode>();
    computes = computes || (op != nullptr && !dnnl::MovesOnly(op->name));
  });
  return computes ? "" : "it only moves elements";
}

}  // namespace

void RegisterDnnlCodegen() {
  Codegen codegen;
  codegen.name = "dnnl";
  codegen.doc = "convolutions, products of matrices, pooling, normalisation and arithmetic by oneDNN";
  codegen.ops = dnnl::Operators();
  codegen.patterns = &Patterns;
  codegen.refuse = &Refuse;
  codegen.compile = &Compile;
  codegen.require = [] { RequireRuntime("dnnl"); };
  RegisterCodegen(std::move(codegen));
}

}  // namespace treadle::external
