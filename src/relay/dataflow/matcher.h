// SPDX-License-Identifier: Apache-2.0
// Matching of data flow patterns. Results of partial matches are remembered, so that alternatives and operands in
// either order don't multiply.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "treadle/relay/dataflow_pattern.h"

namespace treadle::relay {

/// An expression with, for each node, who uses it.
class UseGraph {
 public:
  explicit UseGraph(const Expr& root);
  const std::vector<Expr>& nodes() const { return nodes_; }  ///< each once, children first
  const std::vector<const Object*>& UsersOf(const Object* node) const;

 private:
  std::vector<Expr> nodes_;
  std::unordered_map<const Object*, std::vector<const Object*>> users_;
};

/// The patterns that a pattern consists of, in place of recursion.
std::vector<DFPattern> ChildPatterns(const DFPattern& pattern);

class PatternMatcher {
 public:
  PatternMatcher(DFPattern pattern, const UseGraph* graph, IRModule module = IRModule());

  /// Whether `expr`, a node of the graph, matches. The match stays until the next call.
  bool Match(const Expr& expr);
  DFMatch match() const;
  /// What one pattern stands for; null where it has no part in the match.
  const std::vector<Expr>* BoundTo(const DFPattern& pattern) const;

 private:
  using Trail = std::vector<std::pair<DFPattern, Expr>>;
  /// A partial match: the pattern, the expression, and what of the pattern is bound already.
  struct Key {
    const Object* pattern;
    const Object* expr;
    bool on_path;
    std::vector<const Object*> bound;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };

  bool Visit(const DFPattern& pattern, const Expr& expr);
  bool VisitKind(const DFPattern& pattern, const Expr& expr);
  bool VisitCall(const CallPatternNode* pattern, const Expr& expr);
  bool VisitRotated(const CallPatternNode* pattern, const CallNode* call, const Expr& expr);
  bool VisitAll(const Array<DFPattern>& patterns, const Array<Expr>& exprs, bool swapped = false);
  bool VisitAttr(const AttrPatternNode* pattern, const Expr& expr);
  bool VisitDominator(const DominatorPatternNode* pattern, const Expr& expr);
  bool VisitFunction(const FunctionPatternNode* pattern, const Expr& expr);
  Type TypeOf(const Expr& expr) const;
  void Bind(const DFPattern& pattern, const Expr& expr);
  void Undo(size_t length);
  const std::vector<const Object*>& SharedIn(const DFPattern& pattern);

  DFPattern pattern_;
  const UseGraph* graph_;
  IRModule module_;
  Trail trail_;
  std::unordered_map<const Object*, std::vector<Expr>> bound_;
  bool on_path_ = false;
  std::unordered_map<Key, std::optional<Trail>, KeyHash> memo_;  ///< nothing: it doesn't match
  std::unordered_map<const Object*, int> parents_;               ///< of each pattern, within the whole one
  std::unordered_map<const Object*, std::vector<const Object*>> shared_;
  std::unordered_map<const Object*, std::vector<DFPattern>> rotations_;
};

}  // namespace treadle::relay
