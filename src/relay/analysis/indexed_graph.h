// SPDX-License-Identifier: Apache-2.0
// The forward data-flow graph of a function: what fusion works on.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "treadle/relay/expr.h"

namespace treadle::relay {

/// Use of a node's value by another.
struct ForwardEdge {
  int consumer;           ///< index of the node that reads the value
  OpPatternKind pattern;  ///< how it reads it: its operator's pattern, element-wise where a broadcast keeps the shape
};

struct ForwardNode {
  const ExprNode* ref = nullptr;
  bool extern_ref = false;  ///< its value is visible outside data flow: results, parameters, lets, branches, callees
  OpPatternKind pattern = OpPatternKind::kOpaque;
  std::vector<ForwardEdge> outputs;
};

/// Nodes in the order in which a depth-first walk leaves them, so each consumer comes after its producers. Operators,
/// constructors, global names and function values have no node; variables are one node per identity.
///
/// Needs checked types. Functions that an external code generator compiles and functions fused already aren't entered.
/// Cost: linear in nodes and edges; the depth of the graph doesn't matter.
class IndexedForwardGraph {
 public:
  /// The graph of `body`, usually a Function. Operators without a fusion pattern are opaque.
  static IndexedForwardGraph Create(const Expr& body);

  const std::vector<ForwardNode>& nodes() const { return nodes_; }
  size_t size() const { return nodes_.size(); }
  /// Index of the node of `expr`, or -1.
  int Find(const Expr& expr) const { return Find(expr.get()); }
  int Find(const ExprNode* expr) const;
  /// One line per node: `0: var %x extern -> 2(elemwise) 5(injective)`.
  std::string Dump() const;

 private:
  friend class ForwardGraphBuilder;
  std::vector<ForwardNode> nodes_;
  std::unordered_map<const Object*, int> index_;
};

/// "elemwise", "broadcast", "injective", "comm_reduce", "out_elemwise_fusable", "tuple", "opaque".
const char* PatternName(OpPatternKind pattern);
/// What a node is, in a word: the operator's name, "var %x", "constant", "tuple", ".0", "call", "let", ...
std::string DescribeNode(const ExprNode* node);
inline OpPatternKind MaxPattern(OpPatternKind a, OpPatternKind b) { return a < b ? b : a; }
/// Whether constants of this kind live inside the fused function: rank 0 of int32, int64, float32, float64 or bool.
bool IsSimpleScalar(const ConstantNode* constant);

}  // namespace treadle::relay
