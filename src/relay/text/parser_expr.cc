// SPDX-License-Identifier: Apache-2.0
// Expressions and patterns.
#include <algorithm>
#include <unordered_set>

#include "relay/node_check.h"
#include "relay/text/literal.h"
#include "relay/text/parser_list.h"
#include "treadle/base/stack_guard.h"

namespace treadle::relay {
namespace {

struct Operator {
  const char* symbol;
  const char* op;
  int precedence;
};

constexpr Operator kOperators[] = {
    {"*", "multiply", 12}, {"/", "divide", 12},     {"+", "add", 10},    {"-", "subtract", 10},
    {"<", "less", 8},      {"<=", "less_equal", 8}, {">", "greater", 8}, {">=", "greater_equal", 8},
    {"==", "equal", 7},    {"!=", "not_equal", 7},
};

bool IsInt(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// "inf", "inff", "nanf64", ...: the number and its suffix.
bool SplitSpecialFloat(const std::string& word, std::string* number, std::string* suffix) {
  if (word.compare(0, 3, "inf") != 0 && word.compare(0, 3, "nan") != 0) return false;
  *number = word.substr(0, 3);
  *suffix = word.substr(3);
  auto dtype = DTypeOfSuffix(*suffix);
  return dtype && dtype->is_floating();
}

std::string Trim(const std::string& text) {
  size_t begin = text.find_first_not_of(' '), end = text.find_last_not_of(' ');
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

}  // namespace

// Sequences

bool Parser::AtBinding() {
  const Token& token = Peek();
  if (token.IsIdent("let") || token.IsIdent("free_var")) return true;
  return (token.kind == TokenKind::kTemp || token.kind == TokenKind::kLocal) && Peek(1).Is("=");
}

Var Parser::ParseVarDeclaration(Token* name) {
  *name = Next();
  bool is_wildcard = name->IsIdent("_");
  if (name->kind != TokenKind::kLocal && !is_wildcard) {
    Fail(*name, "expected a variable such as %x but found " + Describe(*name));
  }
  Type type;
  if (Accept(":")) type = ParseType();
  return Var(name->text, type, SpanFrom(name->begin));
}

void Parser::ParseBinding(std::vector<Binding>* bindings) {
  Token name;
  Place begin = Peek().begin;
  if (AcceptWord("let")) {
    Var var = ParseVarDeclaration(&name);
    Expect("=", "after the variable of a let");
    size_t mark = OpenScope();
    // A function may call itself.
    if (Peek().IsIdent("fn")) Declare(name, var);
    Expr value = ParseOperators();
    CloseScope(mark);
    Declare(name, var);
    bindings->push_back({true, var, value, begin});
  } else if (AcceptWord("free_var")) {
    Var var = ParseVarDeclaration(&name);
    Declare(name, var);
  } else {
    name = Next();
    if (name.kind == TokenKind::kLocal) Fail(name, "variables are bound by 'let'; '%N = ...' takes a number");
    Expect("=", "after the name");
    temps_[name.text] = ParseOperators();
  }
}

Expr Parser::ParseSequence(const char* close) {
  size_t mark = OpenScope();
  std::vector<Binding> bindings;
  Expr body;
  while (true) {
    if (AtBinding()) {
      ParseBinding(&bindings);
      Expect(";", "after a binding");
      continue;
    }
    Place begin = Peek().begin;
    Expr expr = ParseOperators();
    if (!Accept(";")) {
      body = expr;
      break;
    }
    if (Peek().Is(close) || Peek().kind == TokenKind::kEnd) {
      body = expr;  // a semicolon after the last expression
      break;
    }
    bindings.push_back({true, Var("_", Type(), expr->span), expr, begin});
  }
  for (size_t i = bindings.size(); i-- > 0;) {
    Binding& binding = bindings[i];
    body = Let(binding.var, binding.value, body, SpanFrom(binding.begin));
  }
  CloseScope(mark);
  return body;
}

Expr Parser::ParseBlock(const char* where) {
  Expect("{", where);
  Expr body = ParseSequence("}");
  Expect("}", "after the last expression of a block");
  return body;
}

// Operators and calls

Expr Parser::ParseOperators(int min_precedence) {
  return WithEnoughStack([&]() -> Expr {
    Place begin = Peek().begin;
    Expr left = ParseCall();
    while (true) {
      const Token& token = Peek();
      if (token.kind != TokenKind::kPunct) return left;
      const Operator* found = nullptr;
      for (const Operator& op : kOperators) {
        if (token.text == op.symbol) found = &op;
      }
      if (found == nullptr || found->precedence <= min_precedence) return left;
      Next();
      Expr right = ParseOperators(found->precedence);
      left = Call(Op::Get(found->op), {left, right}, Attrs(), {}, SpanFrom(begin));
    }
  });
}

Expr Parser::ParseCall() {
  Place begin = Peek().begin;
  Expr expr = ParseAtom();
  bool called = false;
  while (true) {
    const Token& token = Peek();
    if (token.kind == TokenKind::kProjection) {
      Token index = Next();
      NDArray value;
      try {
        value = ScalarFromText(index.text, DataType::Int(32));
      } catch (const Error&) {
        Fail(index, "the index of a projection is too great");
      }
      expr = TupleGetItem(expr, *value.Data<int32_t>(), SpanFrom(begin));
      called = true;
    } else if (token.Is("(")) {
      Next();
      expr = ParseArguments(expr, begin);
      called = true;
    } else {
      break;
    }
  }
  const auto* constructor = expr.as<ConstructorNode>();
  if (!called && constructor != nullptr && constructor->inputs.empty()) {
    return Call(expr, {}, Attrs(), {}, SpanFrom(begin));
  }
  return expr;
}

Expr Parser::ParseArguments(const Expr& callee, Place begin) {
  std::vector<Expr> args;
  Attrs attrs;
  const auto* op = callee.as<OpNode>();
  bool closed = false;
  while (!closed && !Accept(")")) {
    if (AtAttribute()) {
      attrs = op != nullptr ? ParseOpAttributes(op) : ParseOtherAttributes();
      closed = true;
      break;
    }
    if (AtMeta()) {
      // Attributes of a class that isn't the operator's stand in the metadata.
      Token token = Peek();
      ObjectRef node = ParseMeta();
      if (node->IsInstance<AttrsNode>()) {
        attrs = Downcast<Attrs>(node);
      } else if (node->IsInstance<ConstantNode>()) {
        args.push_back(MetaConstant(Downcast<Constant>(node), token.begin));
      } else {
        Fail(token, StrCat("metadata of class ", node->type_key(), " isn't an argument"));
      }
    } else {
      args.push_back(ParseOperators());
    }
    if (!Accept(",") && !Peek().Is(")")) {
      Fail(Peek(), "expected ',' or ')' after an argument but found " + Describe(Peek()));
    }
  }
  if (!attrs.defined() && op != nullptr && op->attrs_type != nullptr && op->attrs_type->create != nullptr) {
    for (const FieldInfo& field : op->attrs_type->fields) {
      if (!MustBeGiven(field, op->name)) continue;
      FailAt(begin, lexer_.last_end(), StrCat(op->name, " needs the attribute ", field.name));
    }
    attrs = Attrs(ObjectPtr<Object>(op->attrs_type->create()));
  }
  Span span = SpanFrom(begin);
  // "f(x) /* name */" says which node of an imported model the call is.
  std::string note = Trim(Peek().comment);
  if (!note.empty() && note.compare(0, 3, "ty=") != 0) span = Span(note);
  return Call(callee, args, attrs, {}, span);
}

// Atoms

Expr Parser::ParseAtom() {
  const Token& token = Peek();
  Place begin = token.begin;
  switch (token.kind) {
    case TokenKind::kNumber:
      return ParseNumber(false);
    case TokenKind::kLocal:
      return ResolveLocal(Next());
    case TokenKind::kTemp: {
      Token name = Next();
      auto it = temps_.find(name.text);
      if (it == temps_.end()) Fail(name, StrCat("%", name.text, " isn't defined before this place"));
      return it->second;
    }
    case TokenKind::kGlobal: {
      Token name = Next();
      GlobalVar var = GlobalNamed(name);
      used_globals_.emplace_back(name.text, SpanFrom(name.begin));
      return var;
    }
    case TokenKind::kIdent:
      return ParseWord();
    default:
      break;
  }
  if (token.Is("(")) return ParseParenthesized();
  if (token.Is("{")) return ParseBlock("before a block");
  if (token.Is("-")) {
    Next();
    std::string number, suffix;
    if (Peek().kind == TokenKind::kNumber) return ParseNumber(true);
    if (Peek().kind == TokenKind::kIdent && SplitSpecialFloat(Peek().text, &number, &suffix)) return ParseNumber(true);
    Expr operand = WithEnoughStack([&] { return ParseCall(); });
    return Call(Op::Get("negative"), {operand}, Attrs(), {}, SpanFrom(begin));
  }
  Fail(token, "expected an expression but found " + Describe(token));
}

Expr Parser::ParseParenthesized() {
  Place begin = Next().begin;
  if (AtBinding()) {
    if (++sequence_depth_ > kMaxBlockNesting) {
      Fail(Peek(), StrCat("bindings nest in parentheses deeper than ", kMaxBlockNesting));
    }
    Expr body = ParseSequence(")");
    --sequence_depth_;
    Expect(")", "after the last expression");
    return body;
  }
  std::vector<Expr> fields;
  bool comma = ParseList(")", "after an expression", [&] { fields.push_back(ParseOperators()); });
  if (fields.size() == 1 && !comma) return fields[0];
  return Tuple(fields, SpanFrom(begin));
}

Expr Parser::ParseNumber(bool negative) {
  Token token = Next();
  std::string digits = token.text, suffix = token.suffix;
  if (token.kind == TokenKind::kIdent) SplitSpecialFloat(token.text, &digits, &suffix);
  bool fraction = digits.find_first_of(".einE") != std::string::npos;
  DataType dtype = fraction ? DataType::Float(32) : DataType::Int(32);
  if (!suffix.empty()) {
    auto known = DTypeOfSuffix(suffix);
    if (!known) Fail(token, StrCat("unknown suffix '", suffix, "' of a number"));
    dtype = *known;
  }
  if (fraction && dtype.is_integral()) Fail(token, StrCat("a number of type ", dtype, " can't have a fraction"));
  std::string text = (negative ? "-" : "") + digits;
  try {
    NDArray value;
    try {
      value = ScalarFromText(text, dtype);
    } catch (const ModelFormatError&) {
      if (!suffix.empty() || fraction) throw;
      value = ScalarFromText(text, DataType::Int(64));  // beyond int32
    }
    return Constant(value, SpanFrom(token.begin));
  } catch (const Error& error) {
    Fail(token, error.what());
  }
}

Expr Parser::ResolveLocal(const Token& token) {
  auto lookup = [&](const std::string& name) -> Expr {
    auto it = vars_.find(name);
    return it == vars_.end() || it->second.empty() ? Expr() : Expr(it->second.back());
  };
  Expr var = lookup(token.text);
  if (var.defined()) return var;
  // "%x.0" is a projection unless there is a variable of that name.
  std::string name = token.text;
  std::vector<std::string> indices;
  for (size_t dot = name.rfind('.'); !token.quoted && dot != std::string::npos; dot = name.rfind('.')) {
    indices.push_back(name.substr(dot + 1));
    if (!IsInt(indices.back()) || indices.back().size() > 9) break;
    name.resize(dot);
    var = lookup(name);
    if (!var.defined()) continue;
    while (!indices.empty()) {
      var = TupleGetItem(var, std::stoi(indices.back()), SpanFrom(token.begin));
      indices.pop_back();
    }
    return var;
  }
  Fail(token, StrCat("unknown variable %", token.text));
}

Expr Parser::ParseWord() {
  const std::string word = Peek().text;
  Place begin = Peek().begin;
  if (word == "fn") {
    Next();
    return ParseFunction(begin);
  }
  if (word == "if") return ParseIf();
  if (word == "match") return ParseMatch();
  if ((word == "ref" || word == "ref_read" || word == "ref_write") && Peek(1).Is("(")) return ParseRef(word);
  if (word == "True" || word == "False") {
    Next();
    return Constant(ScalarBool(word == "True"), SpanFrom(begin));
  }
  if (word == "let" || word == "free_var") return ParseSequence("");
  if (AtMeta()) {
    Token token = Peek();
    ObjectRef node = ParseMeta();
    if (node.as<ConstantNode>() != nullptr) return MetaConstant(Downcast<Constant>(node), begin);
    if (node.as<RelayExprNode>() != nullptr) return Downcast<Expr>(node);
    Fail(token, StrCat("metadata of class ", node->type_key(), " isn't an expression"));
  }
  std::string number, suffix;
  if (SplitSpecialFloat(word, &number, &suffix)) return ParseNumber(false);
  return ResolveWord(Next());
}

Expr Parser::ResolveWord(const Token& token) {
  auto constructor = constructors_.find(token.text);
  if (constructor != constructors_.end()) return constructor->second;
  auto [it, inserted] = ops_.try_emplace(token.text);
  if (inserted) it->second = Op::Find(token.text);
  if (it->second.defined()) return it->second;
  std::string message = StrCat("unknown operator or constructor '", token.text, "'");
  try {
    Op::Get(token.text);
  } catch (const Error& error) {
    std::string text = error.what();
    size_t hint = text.find("; did you mean");
    if (hint != std::string::npos) message += text.substr(hint);
  }
  Fail(token, message);
}

Expr Parser::ParseIf() {
  Place begin = Next().begin;
  Expect("(", "after 'if'");
  Expr cond = ParseOperators();
  Expect(")", "after the condition");
  Expr on_true = ParseBlock("before the branch");
  if (!AcceptWord("else")) Fail(Peek(), "expected 'else' but found " + Describe(Peek()));
  Expr on_false;
  if (Peek().IsIdent("if")) {
    if (++sequence_depth_ > kMaxBlockNesting) Fail(Peek(), StrCat("blocks nest deeper than ", kMaxBlockNesting));
    on_false = WithEnoughStack([&] { return ParseIf(); });
    --sequence_depth_;
  } else {
    on_false = ParseBlock("before the branch");
  }
  return If(cond, on_true, on_false, SpanFrom(begin));
}

Expr Parser::ParseMatch() {
  Place begin = Next().begin;
  bool complete = !Accept("?");
  Expect("(", "after 'match'");
  Expr data = ParseOperators();
  Expect(")", "after the matched value");
  Expect("{", "before the arms");
  std::vector<Clause> clauses;
  while (!Accept("}")) {
    size_t mark = OpenScope();
    std::vector<std::string> names;
    Pattern pattern = ParsePattern(&names);
    Expect("=>", "after a pattern");
    Expr rhs = Peek().Is("{") ? ParseBlock("before an arm") : ParseOperators();
    CloseScope(mark);
    clauses.emplace_back(pattern, rhs);
    Accept(",");
  }
  return Match(data, clauses, complete, SpanFrom(begin));
}

Pattern Parser::ParsePattern(std::vector<std::string>* names) {
  return WithEnoughStack([&]() -> Pattern {
    Token token = Peek();
    if (AcceptWord("_")) return PatternWildcard(SpanFrom(token.begin));
    if (token.kind == TokenKind::kLocal) {
      Token name;
      Var var = ParseVarDeclaration(&name);
      if (std::find(names->begin(), names->end(), name.text) != names->end()) {
        Fail(name, StrCat("%", name.text, " is bound twice in one pattern"));
      }
      names->push_back(name.text);
      Declare(name, var);
      return PatternVar(var, SpanFrom(token.begin));
    }
    Array<Pattern> patterns;
    auto element = [&] { patterns.push_back(ParsePattern(names)); };
    if (Accept("(")) {
      ParseList(")", "after a pattern", element);
      return PatternTuple(patterns, SpanFrom(token.begin));
    }
    if (token.kind != TokenKind::kIdent) Fail(token, "expected a pattern but found " + Describe(token));
    Next();
    auto constructor = constructors_.find(token.text);
    if (constructor == constructors_.end()) Fail(token, StrCat("unknown constructor '", token.text, "' in a pattern"));
    if (Accept("(")) ParseList(")", "after a pattern", element);
    return PatternConstructor(constructor->second, patterns, SpanFrom(token.begin));
  });
}

Expr Parser::ParseRef(const std::string& word) {
  Place begin = Next().begin;
  Next();
  Expr first = ParseOperators();
  Expr second;
  if (word == "ref_write") {
    Expect(",", "after the first argument of ref_write");
    second = ParseOperators();
  }
  Expect(")", "after the arguments");
  Span span = SpanFrom(begin);
  if (word == "ref") return RefCreate(first, span);
  if (word == "ref_read") return RefRead(first, span);
  return RefWrite(first, second, span);
}

Function Parser::ParseFunction(Place begin) {
  size_t mark = OpenScope();
  Array<TypeVar> type_params = ParseTypeParams();
  Expect("(", "before the parameters");
  Array<Var> params;
  Map<String, ObjectRef> attrs;
  std::unordered_set<std::string> names;
  ParseList(")", "after a parameter", [&] {
    if (AtAttribute()) {
      auto key = ParseAttributeKey();
      SetAttribute(&attrs, key, ParseAttrValue());
      return;
    }
    Token name;
    Var var = ParseVarDeclaration(&name);
    if (!names.insert(name.text).second) Fail(name, StrCat("two parameters are called %", name.text));
    Declare(name, var);
    params.push_back(var);
  });
  Type ret;
  if (Accept("->")) ret = ParseType();
  Expr body = ParseBlock("before the function's body");
  DropTypeParams(type_params);
  CloseScope(mark);
  return Function(params, body, ret, type_params, DictAttrs(attrs), SpanFrom(begin));
}

}  // namespace treadle::relay
