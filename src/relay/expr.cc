// SPDX-License-Identifier: Apache-2.0
#include "treadle/relay/expr.h"

#include <utility>

#include "treadle/relay/expr_functor.h"

namespace treadle {

IRModule IRModule::FromExpr(const RelayExpr& expr) {
  TREADLE_ICHECK(expr.defined()) << "a module can't be made from a null expression";
  BaseFunc func;
  if (expr->IsInstance<BaseFuncNode>()) {
    func = Downcast<BaseFunc>(expr);
  } else {
    Array<relay::Var> params = relay::FreeVars(expr);
    func = relay::Function(params, expr);
  }
  auto symbol = func->GetAttr<String>(attr::kGlobalSymbol);
  IRModule module = Empty();
  module.CopyOnWrite()->Add(GlobalVar(symbol ? symbol->str() : "main"), func);
  return module;
}

namespace relay {

TREADLE_DEFINE_NODE(ConstantNode);
TREADLE_DEFINE_NODE(TupleNode);
TREADLE_DEFINE_NODE(IdNode);
TREADLE_DEFINE_NODE(VarNode);
TREADLE_DEFINE_NODE(CallNode);
TREADLE_DEFINE_NODE(LetNode);
TREADLE_DEFINE_NODE(IfNode);
TREADLE_DEFINE_NODE(TupleGetItemNode);
TREADLE_DEFINE_NODE(RefCreateNode);
TREADLE_DEFINE_NODE(RefReadNode);
TREADLE_DEFINE_NODE(RefWriteNode);
TREADLE_DEFINE_NODE(TempExprNode);
TREADLE_DEFINE_NODE(PatternNode);
TREADLE_DEFINE_NODE(PatternWildcardNode);
TREADLE_DEFINE_NODE(PatternVarNode);
TREADLE_DEFINE_NODE(PatternConstructorNode);
TREADLE_DEFINE_NODE(PatternTupleNode);
TREADLE_DEFINE_NODE(ClauseNode);
TREADLE_DEFINE_NODE(MatchNode);
TREADLE_DEFINE_NODE(FunctionNode);

namespace {

Span SpanOf(const ObjectRef& expr) {
  const auto* node = expr.as<BaseExprNode>();
  return node ? node->span : Span();
}

}  // namespace

TensorType ConstantNode::tensor_type() const { return TensorType(data.shape(), data.dtype()); }

Constant::Constant(NDArray data, Span span) {
  TREADLE_ICHECK(data.defined()) << "constant without data";
  auto node = MakeObject<ConstantNode>();
  node->data = std::move(data);
  node->span = std::move(span);
  data_ = std::move(node);
}

Tuple::Tuple(Array<Expr> fields, Span span) {
  auto node = MakeObject<TupleNode>();
  node->fields = std::move(fields);
  node->span = std::move(span);
  data_ = std::move(node);
}

Id::Id(std::string name_hint) {
  auto node = MakeObject<IdNode>();
  node->name_hint = std::move(name_hint);
  data_ = std::move(node);
}

Var::Var(std::string name_hint, Type type_annotation, Span span)
    : Var(Id(std::move(name_hint)), std::move(type_annotation), std::move(span)) {}

Var::Var(Id vid, Type type_annotation, Span span) {
  auto node = MakeObject<VarNode>();
  node->vid = std::move(vid);
  node->type_annotation = std::move(type_annotation);
  node->span = std::move(span);
  data_ = std::move(node);
}

Call::Call(Expr op, Array<Expr> args, Attrs attrs, Array<Type> type_args, Span span) {
  TREADLE_ICHECK(op.defined()) << "call without a callee";
  auto node = MakeObject<CallNode>();
  node->op = std::move(op);
  node->args = std::move(args);
  node->attrs = std::move(attrs);
  node->type_args = std::move(type_args);
  node->span = std::move(span);
  data_ = std::move(node);
}

bool IsCallOf(const Expr& expr, const Op& op) {
  const auto* call = expr.as<CallNode>();
  return call != nullptr && call->op.same_as(op);
}

Let::Let(Var var, Expr value, Expr body, Span span) {
  auto node = MakeObject<LetNode>();
  node->var = std::move(var);
  node->value = std::move(value);
  node->body = std::move(body);
  node->span = std::move(span);
  data_ = std::move(node);
}

If::If(Expr cond, Expr true_branch, Expr false_branch, Span span) {
  auto node = MakeObject<IfNode>();
  node->cond = std::move(cond);
  node->true_branch = std::move(true_branch);
  node->false_branch = std::move(false_branch);
  node->span = std::move(span);
  data_ = std::move(node);
}

TupleGetItem::TupleGetItem(Expr tuple, int index, Span span) {
  auto node = MakeObject<TupleGetItemNode>();
  node->tuple = std::move(tuple);
  node->index = index;
  node->span = std::move(span);
  data_ = std::move(node);
}

RefCreate::RefCreate(Expr value, Span span) {
  auto node = MakeObject<RefCreateNode>();
  node->value = std::move(value);
  node->span = std::move(span);
  data_ = std::move(node);
}

RefRead::RefRead(Expr ref, Span span) {
  auto node = MakeObject<RefReadNode>();
  node->ref = std::move(ref);
  node->span = std::move(span);
  data_ = std::move(node);
}

RefWrite::RefWrite(Expr ref, Expr value, Span span) {
  auto node = MakeObject<RefWriteNode>();
  node->ref = std::move(ref);
  node->value = std::move(value);
  node->span = std::move(span);
  data_ = std::move(node);
}

PatternWildcard::PatternWildcard(Span span) {
  auto node = MakeObject<PatternWildcardNode>();
  node->span = std::move(span);
  data_ = std::move(node);
}

PatternVar::PatternVar(Var var, Span span) {
  auto node = MakeObject<PatternVarNode>();
  node->var = std::move(var);
  node->span = std::move(span);
  data_ = std::move(node);
}

PatternConstructor::PatternConstructor(Constructor constructor, Array<Pattern> patterns, Span span) {
  auto node = MakeObject<PatternConstructorNode>();
  node->constructor = std::move(constructor);
  node->patterns = std::move(patterns);
  node->span = std::move(span);
  data_ = std::move(node);
}

PatternTuple::PatternTuple(Array<Pattern> patterns, Span span) {
  auto node = MakeObject<PatternTupleNode>();
  node->patterns = std::move(patterns);
  node->span = std::move(span);
  data_ = std::move(node);
}

Clause::Clause(Pattern lhs, Expr rhs) {
  auto node = MakeObject<ClauseNode>();
  node->lhs = std::move(lhs);
  node->rhs = std::move(rhs);
  data_ = std::move(node);
}

Match::Match(Expr data, Array<Clause> clauses, bool complete, Span span) {
  auto node = MakeObject<MatchNode>();
  node->data = std::move(data);
  node->clauses = std::move(clauses);
  node->complete = complete;
  node->span = std::move(span);
  data_ = std::move(node);
}

FuncType FunctionNode::func_type_annotation() const {
  Array<Type> arg_types;
  for (const Var& param : params) {
    Type type = param->type_annotation;
    arg_types.push_back(type.defined() ? type : IncompleteType(TypeKind::kType, SpanOf(param)));
  }
  Type ret = ret_type.defined() ? ret_type : IncompleteType(TypeKind::kType, SpanOf(body));
  return FuncType(arg_types, ret, type_params);
}

Function::Function(Array<Var> params, Expr body, Type ret_type, Array<TypeVar> type_params, DictAttrs attrs,
                   Span span) {
  auto node = MakeObject<FunctionNode>();
  node->params = std::move(params);
  node->body = std::move(body);
  node->ret_type = std::move(ret_type);
  node->type_params = std::move(type_params);
  if (attrs.defined()) node->attrs = std::move(attrs);
  node->span = std::move(span);
  data_ = std::move(node);
}

}  // namespace relay
}  // namespace treadle
