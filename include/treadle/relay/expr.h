// SPDX-License-Identifier: Apache-2.0
// The graph IR: a functional language over tensors, after Relay (Roesch et al., arXiv:1904.08368).
#pragma once

#include <string>

#include "treadle/ir/attrs.h"
#include "treadle/ir/expr.h"
#include "treadle/ir/module.h"
#include "treadle/ir/op.h"
#include "treadle/ir/type.h"
#include "treadle/runtime/ndarray.h"

namespace treadle::relay {

using Expr = RelayExpr;
using ExprNode = RelayExprNode;
using runtime::NDArray;

/// A tensor known at compile time.
class ConstantNode : public ExprNode {
 public:
  NDArray data;
  TREADLE_DECLARE_NODE(ConstantNode, ExprNode, "relay.Constant");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("data", &ConstantNode::data);
  }
  TensorType tensor_type() const;
  bool is_scalar() const { return data.ndim() == 0; }
};
class Constant : public Expr {
 public:
  explicit Constant(NDArray data, Span span = Span());
  TREADLE_REF(Constant, Expr, ConstantNode);
};

class TupleNode : public ExprNode {
 public:
  Array<Expr> fields;
  TREADLE_DECLARE_NODE(TupleNode, ExprNode, "relay.Tuple");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("fields", &TupleNode::fields);
  }
};
class Tuple : public Expr {
 public:
  explicit Tuple(Array<Expr> fields, Span span = Span());
  TREADLE_REF(Tuple, Expr, TupleNode);
};

/// Identity of a variable, apart from its type: passes that change the annotation keep the Id.
class IdNode : public Object {
 public:
  std::string name_hint;
  TREADLE_DECLARE_NODE(IdNode, Object, "relay.Id");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("name_hint", &IdNode::name_hint).Ignored();
  }
};
class Id : public ObjectRef {
 public:
  explicit Id(std::string name_hint);
  TREADLE_REF(Id, ObjectRef, IdNode);
};

/// A local variable: parameter of a function, or bound by let or a pattern. Two Var nodes are the same variable
/// iff they have the same `vid`.
class VarNode : public ExprNode {
 public:
  Id vid;
  Type type_annotation;  ///< may be null
  TREADLE_DECLARE_NODE(VarNode, ExprNode, "relay.Var");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("vid", &VarNode::vid);
    r.Field("type_annotation", &VarNode::type_annotation);
  }
  const std::string& name_hint() const { return vid->name_hint; }
};
class Var : public Expr {
 public:
  explicit Var(std::string name_hint, Type type_annotation = Type(), Span span = Span());
  Var(Id vid, Type type_annotation, Span span = Span());
  TREADLE_REF(Var, Expr, VarNode);
};

/// Application of an operator, a function value, a global function or a constructor.
class CallNode : public ExprNode {
 public:
  Expr op;
  Array<Expr> args;
  Attrs attrs;            ///< null where the callee takes none
  Array<Type> type_args;  ///< filled in by type inference
  TREADLE_DECLARE_NODE(CallNode, ExprNode, "relay.Call");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("op", &CallNode::op);
    r.Field("args", &CallNode::args);
    r.Field("attrs", &CallNode::attrs);
    r.Field("type_args", &CallNode::type_args);
  }
  /// The attributes as `T`; an InternalError when they are of another class.
  template <typename T>
  const T* attrs_as() const {
    const T* result = attrs.as<T>();
    TREADLE_ICHECK(result != nullptr) << "call has attributes of class "
                                      << (attrs.defined() ? attrs->type_key() : "none") << ", not " << T::kTypeKey;
    return result;
  }
};
class Call : public Expr {
 public:
  Call(Expr op, Array<Expr> args, Attrs attrs = Attrs(), Array<Type> type_args = {}, Span span = Span());
  TREADLE_REF(Call, Expr, CallNode);
};

/// Whether `expr` is a call of the operator `op`.
bool IsCallOf(const Expr& expr, const Op& op);

class LetNode : public ExprNode {
 public:
  Var var;
  Expr value;
  Expr body;
  TREADLE_DECLARE_NODE(LetNode, ExprNode, "relay.Let");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("var", &LetNode::var).Defines();
    r.Field("value", &LetNode::value);
    r.Field("body", &LetNode::body);
  }
};
class Let : public Expr {
 public:
  Let(Var var, Expr value, Expr body, Span span = Span());
  TREADLE_REF(Let, Expr, LetNode);
};

/// `cond` is a rank-0 bool tensor; both branches have one type.
class IfNode : public ExprNode {
 public:
  Expr cond, true_branch, false_branch;
  TREADLE_DECLARE_NODE(IfNode, ExprNode, "relay.If");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("cond", &IfNode::cond);
    r.Field("true_branch", &IfNode::true_branch);
    r.Field("false_branch", &IfNode::false_branch);
  }
};
class If : public Expr {
 public:
  If(Expr cond, Expr true_branch, Expr false_branch, Span span = Span());
  TREADLE_REF(If, Expr, IfNode);
};

class TupleGetItemNode : public ExprNode {
 public:
  Expr tuple;
  int index = 0;
  TREADLE_DECLARE_NODE(TupleGetItemNode, ExprNode, "relay.TupleGetItem");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("tuple_value", &TupleGetItemNode::tuple);
    r.Field("index", &TupleGetItemNode::index);
  }
};
class TupleGetItem : public Expr {
 public:
  TupleGetItem(Expr tuple, int index, Span span = Span());
  TREADLE_REF(TupleGetItem, Expr, TupleGetItemNode);
};

/// Creates a mutable cell that holds `value`.
class RefCreateNode : public ExprNode {
 public:
  Expr value;
  TREADLE_DECLARE_NODE(RefCreateNode, ExprNode, "relay.RefCreate");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("value", &RefCreateNode::value);
  }
};
class RefCreate : public Expr {
 public:
  explicit RefCreate(Expr value, Span span = Span());
  TREADLE_REF(RefCreate, Expr, RefCreateNode);
};

class RefReadNode : public ExprNode {
 public:
  Expr ref;
  TREADLE_DECLARE_NODE(RefReadNode, ExprNode, "relay.RefRead");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("ref", &RefReadNode::ref);
  }
};
class RefRead : public Expr {
 public:
  explicit RefRead(Expr ref, Span span = Span());
  TREADLE_REF(RefRead, Expr, RefReadNode);
};

/// Writes the cell; its own value is the empty tuple.
class RefWriteNode : public ExprNode {
 public:
  Expr ref, value;
  TREADLE_DECLARE_NODE(RefWriteNode, ExprNode, "relay.RefWrite");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("ref", &RefWriteNode::ref);
    r.Field("value", &RefWriteNode::value);
  }
};
class RefWrite : public Expr {
 public:
  RefWrite(Expr ref, Expr value, Span span = Span());
  TREADLE_REF(RefWrite, Expr, RefWriteNode);
};

/// Base of values that exist only while a rewrite runs; Realize gives the ordinary expression.
class TempExprNode : public ExprNode {
 public:
  virtual Expr Realize() const = 0;
  TREADLE_DECLARE_NODE(TempExprNode, ExprNode, "relay.TempExpr");
};
class TempExpr : public Expr {
 public:
  TREADLE_BASE_REF(TempExpr, Expr, TempExprNode);
};

/// Patterns of match clauses.
class PatternNode : public Object {
 public:
  Span span;
  TREADLE_DECLARE_NODE(PatternNode, Object, "relay.Pattern");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("span", &PatternNode::span).Ignored();
  }
};
class Pattern : public ObjectRef {
 public:
  TREADLE_BASE_REF(Pattern, ObjectRef, PatternNode);
};

class PatternWildcardNode : public PatternNode {
 public:
  TREADLE_DECLARE_NODE(PatternWildcardNode, PatternNode, "relay.PatternWildcard");
};
class PatternWildcard : public Pattern {
 public:
  explicit PatternWildcard(Span span);
  TREADLE_REF(PatternWildcard, Pattern, PatternWildcardNode);
};

class PatternVarNode : public PatternNode {
 public:
  Var var;
  TREADLE_DECLARE_NODE(PatternVarNode, PatternNode, "relay.PatternVar");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("var", &PatternVarNode::var).Defines();
  }
};
class PatternVar : public Pattern {
 public:
  explicit PatternVar(Var var, Span span = Span());
  TREADLE_REF(PatternVar, Pattern, PatternVarNode);
};

class PatternConstructorNode : public PatternNode {
 public:
  Constructor constructor;
  Array<Pattern> patterns;
  TREADLE_DECLARE_NODE(PatternConstructorNode, PatternNode, "relay.PatternConstructor");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("constructor", &PatternConstructorNode::constructor);
    r.Field("patterns", &PatternConstructorNode::patterns).Defines();
  }
};
class PatternConstructor : public Pattern {
 public:
  PatternConstructor(Constructor constructor, Array<Pattern> patterns, Span span = Span());
  TREADLE_REF(PatternConstructor, Pattern, PatternConstructorNode);
};

class PatternTupleNode : public PatternNode {
 public:
  Array<Pattern> patterns;
  TREADLE_DECLARE_NODE(PatternTupleNode, PatternNode, "relay.PatternTuple");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("patterns", &PatternTupleNode::patterns).Defines();
  }
};
class PatternTuple : public Pattern {
 public:
  explicit PatternTuple(Array<Pattern> patterns, Span span = Span());
  TREADLE_REF(PatternTuple, Pattern, PatternTupleNode);
};

class ClauseNode : public Object {
 public:
  Pattern lhs;
  Expr rhs;
  TREADLE_DECLARE_NODE(ClauseNode, Object, "relay.Clause");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("lhs", &ClauseNode::lhs).Defines();
    r.Field("rhs", &ClauseNode::rhs);
  }
};
class Clause : public ObjectRef {
 public:
  Clause(Pattern lhs, Expr rhs);
  TREADLE_REF(Clause, ObjectRef, ClauseNode);
};

class MatchNode : public ExprNode {
 public:
  Expr data;
  Array<Clause> clauses;
  bool complete = true;  ///< every case must be covered; `match?` isn't
  TREADLE_DECLARE_NODE(MatchNode, ExprNode, "relay.Match");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("data", &MatchNode::data);
    r.Field("clauses", &MatchNode::clauses);
    r.Field("complete", &MatchNode::complete);
  }
};
class Match : public Expr {
 public:
  Match(Expr data, Array<Clause> clauses, bool complete = true, Span span = Span());
  TREADLE_REF(Match, Expr, MatchNode);
};

/// A function value or the definition of a global function.
class FunctionNode : public BaseFuncNode {
 public:
  Array<Var> params;
  Expr body;
  Type ret_type;  ///< may be null before inference
  Array<TypeVar> type_params;
  TREADLE_DECLARE_NODE(FunctionNode, BaseFuncNode, "relay.Function");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("type_params", &FunctionNode::type_params).Defines();
    r.Field("params", &FunctionNode::params).Defines();
    r.Field("ret_type", &FunctionNode::ret_type);
    r.Field("body", &FunctionNode::body);
  }
  /// From the annotations; holes where they are missing.
  FuncType func_type_annotation() const;
  bool is_primitive() const { return HasNonzeroAttr(attr::kPrimitive); }
};
class Function : public BaseFunc {
 public:
  Function(Array<Var> params, Expr body, Type ret_type = Type(), Array<TypeVar> type_params = {},
           DictAttrs attrs = DictAttrs(Map<String, ObjectRef>()), Span span = Span());
  TREADLE_REF(Function, BaseFunc, FunctionNode);
};

}  // namespace treadle::relay
