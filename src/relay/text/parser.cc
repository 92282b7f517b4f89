// SPDX-License-Identifier: Apache-2.0
// Modules, scopes and names.
#include "relay/text/parser.h"

#include <algorithm>

#include "relay/text/parser_list.h"
#include "treadle/base/stack_guard.h"
#include "treadle/relay/text.h"
#include "treadle/relay/type_infer.h"

namespace treadle::relay {
namespace {

constexpr size_t kMaxShown = 100;     // characters of a name in a message
constexpr size_t kMaxMessage = 1000;  // of a message: names may have megabytes

std::string Shortened(const std::string& message) {
  if (message.size() <= kMaxMessage) return message;
  return message.substr(0, kMaxMessage / 2) + " ... " + message.substr(message.size() - kMaxMessage / 2);
}

/// Where the metadata section begins: a line of its own.
size_t MetaPosition(const std::string& text) {
  for (size_t at = text.find(kMetaMark); at != std::string::npos; at = text.find(kMetaMark, at + 1)) {
    if (at == 0 || text[at - 1] == '\n') return at;
  }
  return text.size();
}

}  // namespace

Parser::Parser(const std::string& text, std::string source_name, const IRModule& module)
    : source_name_(std::move(source_name)), code_(text.substr(0, MetaPosition(text))), lexer_(code_) {
  if (code_.size() < text.size()) {
    meta_text_ = text.substr(code_.size() + std::string(kMetaMark).size());
    meta_begin_.emplace();
    meta_begin_->line = 1 + static_cast<int>(std::count(code_.begin(), code_.end(), '\n'));
    meta_begin_->column = 1;
  }
  SetUpModule(module);
}

void Parser::SetUpModule(const IRModule& module) {
  module_ = IRModule::Empty();
  if (module.defined()) {
    module_ = module;
    for (const auto& [var, data] : module->type_definitions) {
      types_.emplace(var->name_hint, var);
      for (const Constructor& constructor : data->constructors) {
        constructors_.emplace(constructor->name_hint, constructor);
      }
    }
    for (const auto& [var, func] : module->functions) globals_.emplace(var->name_hint, var);
  }
  module_.CopyOnWrite()->source_map.Set(source_name_, code_);
}

// Tokens

bool Parser::Accept(const char* punct) {
  if (!Peek().Is(punct)) return false;
  Next();
  return true;
}

bool Parser::AcceptWord(const char* word) {
  if (!Peek().IsIdent(word)) return false;
  Next();
  return true;
}

std::string Parser::Describe(const Token& token) {
  std::string text = token.text;
  if (text.size() > kMaxShown) text = text.substr(0, kMaxShown) + "...";
  switch (token.kind) {
    case TokenKind::kEnd:
      return "the end of the text";
    case TokenKind::kLocal:
    case TokenKind::kTemp:
      return "%" + text;
    case TokenKind::kGlobal:
      return "@" + text;
    case TokenKind::kString:
      return "a string";
    case TokenKind::kNumber:
      return "number " + text + token.suffix;
    case TokenKind::kProjection:
      return "." + text;
    default:
      return "'" + text + "'";
  }
}

void Parser::Expect(const char* punct, const char* where) {
  if (!Accept(punct)) Fail(Peek(), StrCat("expected '", punct, "' ", where, " but found ", Describe(Peek())));
}

void Parser::Fail(const Token& token, const std::string& message) const {
  throw SyntaxError(Shortened(message), token.begin, token.end);
}
void Parser::FailAt(Place begin, Place end, const std::string& message) const {
  throw SyntaxError(Shortened(message), begin, end);
}

Span Parser::SpanFrom(Place begin) const {
  Place end = lexer_.last_end();
  return Span(source_name_, begin.line, begin.column, end.line, end.column);
}

void Parser::CloseScope(size_t mark) {
  while (declared_.size() > mark) {
    vars_[declared_.back()].pop_back();
    declared_.pop_back();
  }
}

// Module

void Parser::ParseVersion() {
  if (!Accept("#")) return;
  Expect("[", "after '#'");
  if (!AcceptWord("version")) Fail(Peek(), "expected 'version' here, as in #[version = \"0.0.5\"]");
  Expect("=", "after 'version'");
  Token version = Next();
  if (version.kind != TokenKind::kString) Fail(version, "the version must be a string");
  if (version.text != "0.0.5") {
    Fail(version, StrCat("texts of version ", version.text, " can't be read; this is a reader of version 0.0.5"));
  }
  Expect("]", "after the version");
}

void Parser::SkipDefinition() {
  Next();
  int depth = 0;
  do {
    Token token = Peek();
    if (token.kind == TokenKind::kEnd) return;
    if (token.Is("{") || token.Is("(") || token.Is("[")) ++depth;
    if (token.Is("}") || token.Is(")") || token.Is("]")) --depth;
    bool is_type = token.IsIdent("type") || (token.IsIdent("extern") && Peek(1).IsIdent("type"));
    if (depth == 0 && (is_type || token.IsIdent("def"))) return;
    Next();
  } while (true);
}

void Parser::ParseTypeDefinitions() {
  // Types first, as functions and other types may use them before they are defined.
  if (code_.find("type ") == std::string::npos) return;
  Lexer saved = lexer_;
  while (Peek().kind != TokenKind::kEnd) {
    if (Peek().IsIdent("type") || (Peek().IsIdent("extern") && Peek(1).IsIdent("type"))) {
      ParseTypeDefinition();
    } else {
      SkipDefinition();
    }
  }
  lexer_ = saved;
}

void Parser::ParseTypeDefinition() {
  bool is_extern = AcceptWord("extern");
  Next();  // type
  Token name = Next();
  if (name.kind != TokenKind::kIdent) Fail(name, "expected the name of a type but found " + Describe(name));
  auto [it, inserted] = types_.try_emplace(name.text, name.text);
  GlobalTypeVar header = it->second;
  if (module_->type_definitions.contains(header)) Fail(name, StrCat("type ", name.text, " is defined twice"));
  Array<TypeVar> params = ParseTypeParams();
  std::vector<Constructor> constructors;
  if (!is_extern) {
    Expect("{", "before the constructors");
    ParseList("}", "after a constructor", [&] {
      Token constructor = Next();
      if (constructor.kind != TokenKind::kIdent) {
        Fail(constructor, "expected the name of a constructor but found " + Describe(constructor));
      }
      if (constructors_.count(constructor.text) != 0) {
        Fail(constructor, StrCat("constructor ", constructor.text, " is defined twice"));
      }
      Array<Type> inputs;
      if (Accept("(")) ParseList(")", "after a type", [&] { inputs.push_back(ParseType()); });
      constructors.emplace_back(constructor.text, inputs, header, static_cast<int>(constructors.size()));
      constructors_.emplace(constructor.text, constructors.back());
    });
  }
  Accept(";");
  DropTypeParams(params);
  module_.CopyOnWrite()->AddTypeDef(header, TypeData(header, params, constructors));
}

GlobalVar Parser::GlobalNamed(const Token& token) { return globals_.try_emplace(token.text, token.text).first->second; }

void Parser::ParseDefinition() {
  Place begin = Peek().begin;
  Next();  // def
  Token name = Next();
  if (name.kind != TokenKind::kGlobal) Fail(name, "expected @name after 'def' but found " + Describe(name));
  GlobalVar var = GlobalNamed(name);
  if (module_->functions.contains(var)) Fail(name, StrCat("function @", name.text, " is defined twice"));
  temps_.clear();
  dims_.clear();
  Function func = ParseFunction(begin);
  Accept(";");
  module_.CopyOnWrite()->Add(var, func);
}

void Parser::CheckNames() {
  Diagnostics errors(module_->source_map);
  for (const auto& [name, span] : used_types_) {
    if (!module_->global_type_vars.contains(name)) errors.Error(span, StrCat("unknown type ", name));
  }
  for (const auto& [name, span] : used_globals_) {
    if (!module_->global_vars.contains(name)) errors.Error(span, StrCat("the module has no function @", name));
  }
  if (!errors.empty()) throw ModelFormatError(errors.Render());
}

IRModule Parser::ParseModule() {
  ParseVersion();
  Lexer start = lexer_;
  bool is_module = Peek().kind == TokenKind::kEnd || Peek().IsIdent("def") || Peek().IsIdent("type") ||
                   Peek().IsIdent("extern") || Peek().IsIdent("attributes");
  if (!is_module) {
    // A bare expression is the body of main.
    Expr expr = ParseSequence("");
    if (Peek().kind != TokenKind::kEnd) Fail(Peek(), "expected the end of the text but found " + Describe(Peek()));
    IRModule result = IRModule::FromExpr(expr);
    auto* node = module_.CopyOnWrite();
    node->Add(result->GetGlobalVar("main"), result->Lookup("main"));
    CheckNames();
    return module_;
  }
  ParseTypeDefinitions();
  while (Peek().kind != TokenKind::kEnd) {
    if (Peek().IsIdent("def")) {
      ParseDefinition();
    } else if (Peek().IsIdent("type") || (Peek().IsIdent("extern") && Peek(1).IsIdent("type"))) {
      SkipDefinition();  // read before
    } else if (Peek().IsIdent("attributes") && Peek(1).Is("{")) {
      Next();
      Next();
      Map<String, ObjectRef> dict;
      ParseList("}", "after an attribute", [&] {
        auto key = ParseAttributeKey();
        SetAttribute(&dict, key, ParseAttrValue());
      });
      module_.CopyOnWrite()->attrs = DictAttrs(dict);
    } else {
      Fail(Peek(), "expected 'def' or 'type' but found " + Describe(Peek()));
    }
  }
  CheckNames();
  return module_;
}

Expr Parser::ParseExprOnly() {
  ParseVersion();
  Expr expr = ParseSequence("");
  if (Peek().kind != TokenKind::kEnd) Fail(Peek(), "expected the end of the text but found " + Describe(Peek()));
  CheckNames();
  return expr;
}

Type Parser::ParseTypeOnly() {
  ParseVersion();
  Type type = ParseType();
  if (Peek().kind != TokenKind::kEnd) Fail(Peek(), "expected the end of the text but found " + Describe(Peek()));
  return type;
}

namespace {

template <typename F>
auto WithPlaces(const std::string& text, const std::string& source_name, F&& parse) {
  try {
    return parse();
  } catch (const SyntaxError& error) {
    Map<String, String> sources;
    sources.Set(source_name, text);
    Diagnostics errors(sources);
    Place begin = error.begin(), end = error.end();
    errors.Error(Span(source_name, begin.line, begin.column, end.line, end.column), error.what());
    throw ModelFormatError(errors.Render());
  }
}

}  // namespace

IRModule ParseModule(const std::string& text, const std::string& source_name, bool infer_types) {
  return ParseModuleInto(IRModule(), text, source_name, infer_types);
}

IRModule ParseModuleInto(const IRModule& module, const std::string& text, const std::string& source_name,
                         bool infer_types) {
  IRModule result = WithPlaces(text, source_name, [&] { return Parser(text, source_name, module).ParseModule(); });
  return infer_types ? InferTypes(result) : result;
}

Expr ParseExpr(const std::string& text, const std::string& source_name, const IRModule& module) {
  return WithPlaces(text, source_name, [&] { return Parser(text, source_name, module).ParseExprOnly(); });
}

Type ParseType(const std::string& text, const std::string& source_name) {
  return WithPlaces(text, source_name, [&] { return Parser(text, source_name, IRModule()).ParseTypeOnly(); });
}

}  // namespace treadle::relay
