// SPDX-License-Identifier: Apache-2.0
// The scopes of a program (function bodies, branches, match arms) and the scope that each value belongs to.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "treadle/relay/expr.h"

namespace treadle::relay {

/// Scopes form a tree. A node belongs to the lowest common ancestor of the scopes it is used from: the innermost one
/// in which computing it once serves all uses.
class ScopeAnalysis {
 public:
  /// `root` itself is used from the outermost scope, 0.
  explicit ScopeAnalysis(const Expr& root);
  int ScopeOf(const Expr& expr) const { return scope_.at(expr.get()); }
  /// The i-th scope that `expr` opens: the body of a function, the branches of an if, the arms of a match.
  int InnerScope(const Expr& expr, int i) const { return inner_.at(expr.get()) + i; }
  /// Whether it is used from more than one scope, or from another one than it belongs to.
  bool CrossesScopes(const Expr& expr) const { return crossing_.count(expr.get()) != 0; }
  /// Whether that holds for any node, operators included.
  bool AnyCrosses() const { return !crossing_.empty(); }

 private:
  int NewScope(int parent);
  int CommonAncestor(int a, int b) const;
  std::vector<int> parent_, depth_;
  std::unordered_map<const Object*, int> scope_, inner_;
  std::unordered_set<const Object*> crossing_;
};

}  // namespace treadle::relay
