// SPDX-License-Identifier: Apache-2.0
// Recursive descent over the text form; sequences of bindings and operators are loops.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/diagnostic.h"
#include "relay/text/lexer.h"
#include "treadle/ir/prim_expr.h"
#include "treadle/relay/expr.h"

namespace treadle::relay {

/// The line before the metadata.
inline constexpr const char* kMetaMark = "#[metadata]";

class Parser {
 public:
  /// Definitions of `module` may be used in the text.
  Parser(const std::string& text, std::string source_name, const IRModule& module);

  IRModule ParseModule();
  Expr ParseExprOnly();
  Type ParseTypeOnly();

 private:
  struct Binding {
    bool is_let;
    Var var;
    Expr value;
    Place begin;
  };

  // Tokens.
  const Token& Peek(size_t ahead = 0) { return lexer_.Peek(ahead); }
  Token Next() { return lexer_.Next(); }
  bool Accept(const char* punct);
  void Expect(const char* punct, const char* where);
  bool AcceptWord(const char* word);
  Span SpanFrom(Place begin) const;
  [[noreturn]] void Fail(const Token& token, const std::string& message) const;
  [[noreturn]] void FailAt(Place begin, Place end, const std::string& message) const;
  static std::string Describe(const Token& token);
  /// Elements between here and `close`, separated by commas; a comma may end the list. Returns whether it did.
  template <typename F>
  bool ParseList(const char* close, const char* where, F&& element);

  // Module.
  void ParseVersion();
  void ParseTypeDefinitions();
  void ParseTypeDefinition();
  void ParseDefinition();
  void SkipDefinition();
  void CheckNames();
  GlobalVar GlobalNamed(const Token& token);
  void SetUpModule(const IRModule& module);

  // Expressions.
  Expr ParseSequence(const char* close);
  bool AtBinding();
  void ParseBinding(std::vector<Binding>* bindings);
  Expr ParseOperators(int min_precedence = 0);
  Expr ParseCall();
  Expr ParseArguments(const Expr& callee, Place begin);
  Expr ParseAtom();
  Expr ParseParenthesized();
  Expr ParseNumber(bool negative);
  Expr ParseWord();
  Expr ParseIf();
  Expr ParseMatch();
  Expr ParseRef(const std::string& word);
  Expr ParseBlock(const char* where);
  Expr ResolveLocal(const Token& token);
  Expr ResolveWord(const Token& token);
  Function ParseFunction(Place begin);
  Pattern ParsePattern(std::vector<std::string>* names);

  // Types.
  Type ParseType();
  Type ParseTypeKind();
  std::string ParseDTypeName(const Token& first);
  Type ParseTensorType();
  Type ParseNamedType();
  TypeRelation ParseTypeRelation();
  Array<TypeVar> ParseTypeParams();
  void DropTypeParams(const Array<TypeVar>& params);
  PrimExpr ParseDim(int min_precedence = 0);
  PrimExpr ParseDimAtom();

  // Attributes.
  bool AtAttribute();
  std::pair<std::string, Token> ParseAttributeKey();
  Attrs ParseOpAttributes(const OpNode* op);
  Attrs ParseTypedAttributes(const TypeInfo* info, const std::string& owner);
  Attrs ParseOtherAttributes();
  void ParseField(const FieldInfo& field, Object* target, const Token& key);
  void ParseObjectField(const FieldInfo& field, Object* target, const Token& key);
  std::vector<int64_t> ParseFieldInts(const FieldInfo& field, const Token& key);
  int64_t ParseFieldInt(const FieldInfo& field, const Token& key);
  std::string ParseFieldString();
  void CheckRange(const FieldInfo& field, double value, const Token& key) const;
  ObjectRef ParseAttrValue();
  ObjectRef ParseAttrNumber(bool negative);
  int64_t ParseInt(const char* what);
  double ParseDouble(const char* what);
  void ParseListOfDims(Array<ObjectRef>* items);
  bool AtMeta();
  ObjectRef ParseMeta();
  /// The constant of the metadata as an expression: the same one each time, so that what is shared stays so.
  Constant MetaConstant(const Constant& node, const Place& begin);
  void ReadMetaSection();
  void SetAttribute(Map<String, ObjectRef>* dict, const std::pair<std::string, Token>& key,
                    const ObjectRef& value) const;

  // Scopes.
  void Declare(const Token& name, const Var& var) { Declare(name.text, var); }
  void Declare(const std::string& name, const Var& var) {
    vars_[name].push_back(var);
    declared_.push_back(name);
  }
  size_t OpenScope() const { return declared_.size(); }
  void CloseScope(size_t mark);
  Var ParseVarDeclaration(Token* name);

  std::string source_name_;
  std::string code_;  ///< the text without metadata
  std::string meta_text_;
  std::optional<Place> meta_begin_;  ///< nothing without metadata
  Lexer lexer_;
  IRModule base_;
  IRModule module_;
  std::optional<Map<String, ObjectRef>> meta_;
  std::unordered_map<const Object*, Constant> meta_constants_;
  std::unordered_map<std::string, std::vector<Var>> vars_;
  std::vector<std::string> declared_;
  std::unordered_map<std::string, Expr> temps_;
  std::unordered_map<std::string, std::vector<TypeVar>> type_vars_;
  std::unordered_map<std::string, tir::Var> dims_;
  std::unordered_map<std::string, Constructor> constructors_;
  std::unordered_map<std::string, GlobalTypeVar> types_;
  std::unordered_map<std::string, GlobalVar> globals_;
  int type_depth_ = 0;
  int sequence_depth_ = 0;  ///< bindings in parentheses, and if after else
  std::vector<std::pair<std::string, Span>> used_types_, used_globals_;
  std::unordered_map<std::string, Op> ops_;
};

}  // namespace treadle::relay
