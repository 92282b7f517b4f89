// SPDX-License-Identifier: Apache-2.0
#include "relay/analysis/scopes.h"

#include <algorithm>
#include <utility>

#include "treadle/relay/expr_functor.h"

namespace treadle::relay {
namespace {

/// Number of scopes that a node opens, and the child that stands in scope `i` of them.
std::vector<Expr> ScopedChildren(const Expr& expr) {
  if (const auto* func = expr.as<FunctionNode>()) return {func->body};
  if (const auto* branch = expr.as<IfNode>()) return {branch->true_branch, branch->false_branch};
  std::vector<Expr> children;
  if (const auto* match = expr.as<MatchNode>()) {
    for (const Clause& clause : match->clauses) children.push_back(clause->rhs);
  }
  return children;
}

/// Children that are evaluated where the node itself is.
std::vector<Expr> PlainChildren(const Expr& expr) {
  if (expr.as<FunctionNode>()) return {};
  if (const auto* branch = expr.as<IfNode>()) return {branch->cond};
  if (const auto* match = expr.as<MatchNode>()) return {match->data};
  std::vector<Expr> children;
  CollectChildren(expr, &children);
  return children;
}

}  // namespace

int ScopeAnalysis::NewScope(int parent) {
  parent_.push_back(parent);
  depth_.push_back(parent < 0 ? 0 : depth_[parent] + 1);
  return static_cast<int>(parent_.size()) - 1;
}

int ScopeAnalysis::CommonAncestor(int a, int b) const {
  while (a != b) {
    if (depth_[a] < depth_[b]) std::swap(a, b);
    a = parent_[a];
  }
  return a;
}

ScopeAnalysis::ScopeAnalysis(const Expr& root) {
  // Uses come before what they use when nodes are taken in reverse post-order, so each node's scope is final when
  // its children are looked at.
  std::vector<Expr> order;
  PostOrderVisit(root, [&](const Expr& e) { order.push_back(e); });
  NewScope(-1);
  scope_[root.get()] = 0;
  auto use = [&](const Expr& child, int scope) {
    auto [it, inserted] = scope_.emplace(child.get(), scope);
    if (inserted || it->second == scope) return;
    it->second = CommonAncestor(it->second, scope);
    crossing_.insert(child.get());
  };
  for (size_t i = order.size(); i-- > 0;) {
    const Expr& expr = order[i];
    auto it = scope_.find(expr.get());
    if (it == scope_.end()) continue;  // the parameter of a function
    int scope = it->second;
    for (const Expr& child : PlainChildren(expr)) use(child, scope);
    bool first = true;
    for (const Expr& child : ScopedChildren(expr)) {
      int inner = NewScope(scope);
      if (first) inner_[expr.get()] = inner;
      first = false;
      use(child, inner);
    }
  }
}

}  // namespace treadle::relay
