// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_set>

#include "relay/node_check.h"
#include "relay/text/literal.h"
#include "relay/text/parser_list.h"
#include "treadle/base/stack_guard.h"
#include "treadle/ir/prim_ops.h"

namespace treadle::relay {

Array<TypeVar> Parser::ParseTypeParams() {
  Array<TypeVar> params;
  if (!Accept("[")) return params;
  std::unordered_set<std::string> names;
  ParseList("]", "after a type parameter", [&] {
    Token name = Next();
    if (name.kind != TokenKind::kIdent) Fail(name, "expected the name of a type parameter but found " + Describe(name));
    if (!names.insert(name.text).second) Fail(name, StrCat("two type parameters are called ", name.text));
    params.push_back(TypeVar(name.text, TypeKind::kType, SpanFrom(name.begin)));
    type_vars_[name.text].push_back(params.back());
  });
  return params;
}

void Parser::DropTypeParams(const Array<TypeVar>& params) {
  for (const TypeVar& param : params) type_vars_[param->name_hint].pop_back();
}

Type Parser::ParseType() {
  // Without brackets types nest too: fn () -> fn () -> ...
  if (++type_depth_ > kMaxNesting) Fail(Peek(), StrCat("types nest deeper than ", kMaxNesting));
  Type type = WithEnoughStack([&] { return ParseTypeKind(); });
  --type_depth_;
  return type;
}

Type Parser::ParseTypeKind() {
  Token token = Peek();
  if (Accept("(")) {
    Array<Type> fields;
    bool comma = ParseList(")", "after a type", [&] { fields.push_back(ParseType()); });
    if (fields.size() == 1 && !comma) return fields[0];  // only parentheses
    return TupleType(fields, SpanFrom(token.begin));
  }
  if (Accept("?")) return IncompleteType(TypeKind::kType, SpanFrom(token.begin));
  if (token.kind != TokenKind::kIdent) Fail(token, "expected a type but found " + Describe(token));
  if (AcceptWord("_")) return IncompleteType(TypeKind::kType, SpanFrom(token.begin));
  if (token.text == "Tensor" && Peek(1).Is("[")) return ParseTensorType();
  if (AcceptWord("fn")) {
    Array<TypeVar> params = ParseTypeParams();
    Expect("(", "before the argument types");
    Array<Type> args;
    ParseList(")", "after a type", [&] { args.push_back(ParseType()); });
    Expect("->", "before the result type");
    Type result = ParseType();
    Array<TypeConstraint> constraints;
    while (AcceptWord("where")) constraints.push_back(ParseTypeRelation());
    DropTypeParams(params);
    return FuncType(args, result, params, constraints, SpanFrom(token.begin));
  }
  if (token.text == "ref" && Peek(1).Is("(")) {
    Next();
    Next();
    Type value = ParseType();
    Expect(")", "after the type of a ref");
    return RelayRefType(value, SpanFrom(token.begin));
  }
  return ParseNamedType();
}

TypeRelation Parser::ParseTypeRelation() {
  // The relation of an operator with default attributes: what the type of an operator as a value says.
  Token name = Next();
  if (name.kind != TokenKind::kIdent) Fail(name, "expected the name of an operator but found " + Describe(name));
  const Op op = Op::Find(name.text);
  if (!op.defined() || op->type_relation == nullptr) Fail(name, StrCat("unknown operator '", name.text, "'"));
  Array<Type> args;
  Expect("(", "after the name of an operator");
  ParseList(")", "after a type", [&] { args.push_back(ParseType()); });
  if (op->num_inputs < 0 || args.size() != static_cast<size_t>(op->num_inputs) + 1) {
    FailAt(name.begin, lexer_.last_end(),
           StrCat("operator ", name.text, " relates the types of ", std::max(op->num_inputs, 0),
                  " inputs and of a result, but there are ", args.size(), " types here"));
  }
  const Attrs attrs = DefaultAttrs(static_cast<const OpNode*>(op.get()));
  return TypeRelation(name.text, op->type_relation, args, op->num_inputs, attrs, SpanFrom(name.begin));
}

Type Parser::ParseNamedType() {
  Token token = Next();
  Type type;
  auto var = type_vars_.find(token.text);
  if (var != type_vars_.end() && !var->second.empty()) {
    type = var->second.back();
  } else if (types_.count(token.text) != 0) {
    type = types_.at(token.text);
  } else {
    std::optional<DataType> dtype;
    const std::string text = ParseDTypeName(token);
    try {
      dtype = DataType::FromString(text);
    } catch (const Error& e) {
      if (text != token.text) Fail(token, e.what());
      // not a scalar type, so the name of a type that is defined further down
    }
    if (dtype) {
      if (dtype->is_void() || dtype->is_handle()) Fail(token, StrCat("tensors can't have elements of ", token.text));
      return TensorType(Array<PrimExpr>(), *dtype, SpanFrom(token.begin));
    }
    type = types_.try_emplace(token.text, token.text).first->second;
  }
  if (type->IsInstance<GlobalTypeVarNode>()) used_types_.emplace_back(token.text, SpanFrom(token.begin));
  if (Peek().Is("[") && type->IsInstance<TypeVarNode>()) {
    Fail(Peek(), StrCat("type variable ", token.text, " takes no type arguments"));
  }
  if (!Accept("[")) return type;
  Array<Type> args;
  ParseList("]", "after a type argument", [&] { args.push_back(ParseType()); });
  return args.empty() ? type : TypeCall(type, args, SpanFrom(token.begin));
}

/// "float32", or the tokens of "custom[name]bits" together.
std::string Parser::ParseDTypeName(const Token& first) {
  if (first.text != "custom" || !Peek().Is("[")) return first.text;
  Next();
  const std::string name = Next().text;
  Expect("]", "after the name of a custom data type");
  return StrCat(first.text, "[", name, "]", Next().text);
}

Type Parser::ParseTensorType() {
  Place begin = Next().begin;
  Expect("[", "after 'Tensor'");
  Array<PrimExpr> shape;
  if (Accept("(")) {
    ParseList(")", "after a dimension", [&] {
      Token token = Peek();
      PrimExpr dim = ParseDim();
      const int64_t* value = AsConstInt(dim);
      if (value != nullptr && *value < 0) Fail(token, "a dimension can't be negative");
      shape.push_back(dim);
    });
  } else {
    shape.push_back(ParseDim());
  }
  Expect(",", "between shape and dtype");
  Token token = Next();
  if (token.kind != TokenKind::kIdent) Fail(token, "expected a dtype such as float32 but found " + Describe(token));
  const std::string text = ParseDTypeName(token);
  DataType dtype;
  try {
    dtype = DataType::FromString(text);
  } catch (const Error&) {
    Fail(token, StrCat("unknown dtype '", text, "'"));
  }
  Expect("]", "after the dtype");
  return TensorType(shape, dtype, SpanFrom(begin));
}

PrimExpr Parser::ParseDim(int min_precedence) {
  return WithEnoughStack([&]() -> PrimExpr {
    Token first = Peek();
    PrimExpr left = ParseDimAtom();
    while (true) {
      const Token& token = Peek();
      int precedence = token.Is("+") || token.Is("-") ? 1 : token.Is("*") || token.Is("/") || token.Is("%") ? 2 : 0;
      if (precedence == 0 || precedence <= min_precedence) return left;
      std::string op = Next().text;
      PrimExpr right = ParseDim(precedence);
      if (IsAnyDim(left) || IsAnyDim(right))
        FailAt(first.begin, lexer_.last_end(), "'?' can't be part of an expression");
      try {
        if (op == "+") left = tir::add(left, right);
        if (op == "-") left = tir::sub(left, right);
        if (op == "*") left = tir::mul(left, right);
        if (op == "/") left = tir::truncdiv(left, right);
        if (op == "%") left = tir::truncmod(left, right);
      } catch (const Error& error) {
        FailAt(first.begin, lexer_.last_end(), error.what());
      }
    }
  });
}

PrimExpr Parser::ParseDimAtom() {
  Token token = Next();
  if (token.Is("?")) return AnyDim();
  std::string sign;
  if (token.Is("-")) {
    sign = "-";
    token = Next();
    if (token.kind != TokenKind::kNumber) Fail(token, "'-' is only for numbers here");
  }
  if (token.Is("(")) {
    PrimExpr dim = ParseDim();
    Expect(")", "after a dimension");
    return dim;
  }
  if (token.kind == TokenKind::kNumber) {
    if (!token.suffix.empty() && token.suffix != "i64" && token.suffix != "i32") {
      Fail(token, "a dimension is an integer");
    }
    try {
      NDArray value = ScalarFromText(sign + token.text, DataType::Int(64));
      return PrimExpr(*value.Data<int64_t>());
    } catch (const Error&) {
      Fail(token, StrCat("'", token.text, "' isn't a dimension: expected an integer below 2^63"));
    }
  }
  if (token.kind != TokenKind::kIdent) Fail(token, "expected a dimension but found " + Describe(token));
  bool is_function = token.text == "floordiv" || token.text == "floormod" || token.text == "min" || token.text == "max";
  if (is_function && Accept("(")) {
    PrimExpr a = ParseDim();
    Expect(",", "between the operands");
    PrimExpr b = ParseDim();
    Expect(")", "after the operands");
    try {
      if (token.text == "floordiv") return tir::floordiv(a, b);
      if (token.text == "floormod") return tir::floormod(a, b);
      return token.text == "min" ? tir::min(a, b) : tir::max(a, b);
    } catch (const Error& error) {
      Fail(token, error.what());
    }
  }
  return dims_.try_emplace(token.text, tir::Var(token.text, DataType::Int(64))).first->second;
}

}  // namespace treadle::relay
