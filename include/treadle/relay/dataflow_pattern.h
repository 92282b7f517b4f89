// SPDX-License-Identifier: Apache-2.0
// Patterns of data flow: to find, rewrite and cut out parts of graphs.
//
//   DFPattern conv = IsOp("nn.conv2d")({Wildcard(), IsConstant()});
//   DFPattern pattern = IsOp("nn.relu")({IsOp("add")({conv, Wildcard()})});
//
// A pattern object that occurs several times in a pattern stands for one expression. Operands of add and multiply
// match in either order. Of alternatives the first that matches is taken and kept.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "treadle/relay/expr.h"

namespace treadle::relay {

class DFPatternNode : public Object {
 public:
  TREADLE_DECLARE_NODE(DFPatternNode, Object, "relay.dataflow_pattern.DFPattern");
};
class DFPattern : public ObjectRef {
 public:
  TREADLE_BASE_REF(DFPattern, ObjectRef, DFPatternNode);
  /// A call of what matches this pattern.
  DFPattern operator()(const std::vector<DFPattern>& args) const;
  /// Either.
  DFPattern operator|(const DFPattern& other) const;
  DFPattern operator+(const DFPattern& other) const;
  DFPattern operator-(const DFPattern& other) const;
  DFPattern operator*(const DFPattern& other) const;
  DFPattern operator/(const DFPattern& other) const;
  /// `option(this)`, or this alone.
  DFPattern Optional(const std::function<DFPattern(const DFPattern&)>& option) const;
  DFPattern HasAttr(const Map<String, ObjectRef>& attrs) const;
  DFPattern HasType(const Type& type) const;
  DFPattern HasDtype(DataType dtype) const;
  DFPattern HasShape(const Array<PrimExpr>& shape) const;
};

#define TREADLE_DF_PATTERN(Name)              \
  class Name : public DFPattern {             \
   public:                                    \
    TREADLE_REF(Name, DFPattern, Name##Node); \
  }

/// An expression that is structurally equal: an operator, a constant, a global function.
class ExprPatternNode : public DFPatternNode {
 public:
  Expr expr;
  TREADLE_DECLARE_NODE(ExprPatternNode, DFPatternNode, "relay.dataflow_pattern.ExprPattern");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("expr", &ExprPatternNode::expr);
  }
};
TREADLE_DF_PATTERN(ExprPattern);

/// A variable; of that name unless it is "".
class VarPatternNode : public DFPatternNode {
 public:
  std::string name;
  TREADLE_DECLARE_NODE(VarPatternNode, DFPatternNode, "relay.dataflow_pattern.VarPattern");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("name", &VarPatternNode::name);
  }
};
TREADLE_DF_PATTERN(VarPattern);

class ConstantPatternNode : public DFPatternNode {
 public:
  TREADLE_DECLARE_NODE(ConstantPatternNode, DFPatternNode, "relay.dataflow_pattern.ConstantPattern");
};
TREADLE_DF_PATTERN(ConstantPattern);

class WildcardPatternNode : public DFPatternNode {
 public:
  TREADLE_DECLARE_NODE(WildcardPatternNode, DFPatternNode, "relay.dataflow_pattern.WildcardPattern");
};
TREADLE_DF_PATTERN(WildcardPattern);

class CallPatternNode : public DFPatternNode {
 public:
  DFPattern op;
  Array<DFPattern> args;
  bool any_args = false;  ///< whatever the arguments are; they become inputs when the match is cut out
  TREADLE_DECLARE_NODE(CallPatternNode, DFPatternNode, "relay.dataflow_pattern.CallPattern");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("op", &CallPatternNode::op);
    r.Field("args", &CallPatternNode::args);
    r.Field("any_args", &CallPatternNode::any_args);
  }
};
TREADLE_DF_PATTERN(CallPattern);

class FunctionPatternNode : public DFPatternNode {
 public:
  Array<DFPattern> params;
  bool any_params = false;
  DFPattern body;
  TREADLE_DECLARE_NODE(FunctionPatternNode, DFPatternNode, "relay.dataflow_pattern.FunctionPattern");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("params", &FunctionPatternNode::params);
    r.Field("any_params", &FunctionPatternNode::any_params);
    r.Field("body", &FunctionPatternNode::body);
  }
};
TREADLE_DF_PATTERN(FunctionPattern);

class LetPatternNode : public DFPatternNode {
 public:
  DFPattern var, value, body;
  TREADLE_DECLARE_NODE(LetPatternNode, DFPatternNode, "relay.dataflow_pattern.LetPattern");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("var", &LetPatternNode::var);
    r.Field("value", &LetPatternNode::value);
    r.Field("body", &LetPatternNode::body);
  }
};
TREADLE_DF_PATTERN(LetPattern);

class IfPatternNode : public DFPatternNode {
 public:
  DFPattern cond, true_branch, false_branch;
  TREADLE_DECLARE_NODE(IfPatternNode, DFPatternNode, "relay.dataflow_pattern.IfPattern");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("cond", &IfPatternNode::cond);
    r.Field("true_branch", &IfPatternNode::true_branch);
    r.Field("false_branch", &IfPatternNode::false_branch);
  }
};
TREADLE_DF_PATTERN(IfPattern);

class TuplePatternNode : public DFPatternNode {
 public:
  Array<DFPattern> fields;
  bool any_fields = false;
  TREADLE_DECLARE_NODE(TuplePatternNode, DFPatternNode, "relay.dataflow_pattern.TuplePattern");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("fields", &TuplePatternNode::fields);
    r.Field("any_fields", &TuplePatternNode::any_fields);
  }
};
TREADLE_DF_PATTERN(TuplePattern);

class TupleGetItemPatternNode : public DFPatternNode {
 public:
  DFPattern tuple;
  int index = -1;  ///< -1: any
  TREADLE_DECLARE_NODE(TupleGetItemPatternNode, DFPatternNode, "relay.dataflow_pattern.TupleGetItemPattern");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("tuple", &TupleGetItemPatternNode::tuple);
    r.Field("index", &TupleGetItemPatternNode::index);
  }
};
TREADLE_DF_PATTERN(TupleGetItemPattern);

class AltPatternNode : public DFPatternNode {
 public:
  DFPattern left, right;
  TREADLE_DECLARE_NODE(AltPatternNode, DFPatternNode, "relay.dataflow_pattern.AltPattern");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("left", &AltPatternNode::left);
    r.Field("right", &AltPatternNode::right);
  }
};
TREADLE_DF_PATTERN(AltPattern);

class TypePatternNode : public DFPatternNode {
 public:
  DFPattern pattern;
  Type type;
  TREADLE_DECLARE_NODE(TypePatternNode, DFPatternNode, "relay.dataflow_pattern.TypePattern");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("pattern", &TypePatternNode::pattern);
    r.Field("type", &TypePatternNode::type);
  }
};
TREADLE_DF_PATTERN(TypePattern);

class ShapePatternNode : public DFPatternNode {
 public:
  DFPattern pattern;
  Array<PrimExpr> shape;
  TREADLE_DECLARE_NODE(ShapePatternNode, DFPatternNode, "relay.dataflow_pattern.ShapePattern");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("pattern", &ShapePatternNode::pattern);
    r.Field("shape", &ShapePatternNode::shape);
  }
};
TREADLE_DF_PATTERN(ShapePattern);

class DataTypePatternNode : public DFPatternNode {
 public:
  DFPattern pattern;
  DataType dtype;
  TREADLE_DECLARE_NODE(DataTypePatternNode, DFPatternNode, "relay.dataflow_pattern.DataTypePattern");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("pattern", &DataTypePatternNode::pattern);
    r.Field("dtype", &DataTypePatternNode::dtype);
  }
};
TREADLE_DF_PATTERN(DataTypePattern);

/// Attributes of a call or a function, or properties of an operator ("TOpPattern").
class AttrPatternNode : public DFPatternNode {
 public:
  DFPattern pattern;
  Map<String, ObjectRef> attrs;
  TREADLE_DECLARE_NODE(AttrPatternNode, DFPatternNode, "relay.dataflow_pattern.AttrPattern");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("pattern", &AttrPatternNode::pattern);
    r.Field("attrs", &AttrPatternNode::attrs);
  }
};
TREADLE_DF_PATTERN(AttrPattern);

/// `child` and one `parent` above it, such that everything between them matches `path`, and whatever uses the parent
/// or what is between ends in the child.
class DominatorPatternNode : public DFPatternNode {
 public:
  DFPattern parent, path, child;
  TREADLE_DECLARE_NODE(DominatorPatternNode, DFPatternNode, "relay.dataflow_pattern.DominatorPattern");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("parent", &DominatorPatternNode::parent);
    r.Field("path", &DominatorPatternNode::path);
    r.Field("child", &DominatorPatternNode::child);
  }
};
TREADLE_DF_PATTERN(DominatorPattern);
#undef TREADLE_DF_PATTERN

DFPattern Wildcard();
DFPattern IsVar(std::string name = "");
DFPattern IsConstant();
DFPattern IsExpr(Expr expr);
/// The operator of that name; Error when there is none.
DFPattern IsOp(const std::string& name);
DFPattern IsTuple(const std::vector<DFPattern>& fields);
DFPattern IsAnyTuple();
DFPattern IsTupleGetItem(DFPattern tuple, int index = -1);
DFPattern IsIf(DFPattern cond, DFPattern true_branch, DFPattern false_branch);
DFPattern IsLet(DFPattern var, DFPattern value, DFPattern body);
DFPattern IsFunction(const std::vector<DFPattern>& params, DFPattern body);
DFPattern IsFunctionOfAny(DFPattern body);
/// A call with any arguments.
DFPattern CallOfAny(DFPattern op);
DFPattern Dominates(DFPattern parent, DFPattern path, DFPattern child);

/// The expressions that the patterns of a match stand for; several for those on a path of a dominator pattern.
using DFMatch = Map<DFPattern, Array<Expr>>;

/// Whether the whole of `expr` matches. `match` receives what stands for what.
bool MatchPattern(const DFPattern& pattern, const Expr& expr, DFMatch* match = nullptr);

/// Replaces matches: `rewrite(pre, post, match)` gets the root of a match before and after its inputs were rewritten,
/// and what the patterns stand for, rewritten too; it returns what takes the root's place.
struct DFPatternCallback {
  DFPattern pattern;
  std::function<Expr(const Expr& pre, const Expr& post, const DFMatch& match)> rewrite;
  bool require_type = false;  ///< types are inferred before
  bool rewrite_once = false;  ///< one round only; else until nothing changes
};

/// Applies the callbacks, in turn and until nothing changes any more; an Error after 100 rounds that all change
/// something. Matches don't overlap, the larger ones at the outside are found first, and nothing within a match but
/// its root is used outside of it.
Expr RewritePatterns(const std::vector<DFPatternCallback>& callbacks, const Expr& expr,
                     const IRModule& module = IRModule());

/// Each match for whose root `check` holds becomes the call of a function of the match's inputs: what its leaves
/// stand for, constants excepted, which stay inside. The function has the attribute PartitionedFromPattern
/// ("nn.conv2d_add_") and `attrs`.
Expr PartitionPattern(const DFPattern& pattern, const Expr& expr, const Map<String, ObjectRef>& attrs = {},
                      const std::function<bool(const Expr&)>& check = nullptr);

}  // namespace treadle::relay
