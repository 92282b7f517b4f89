// SPDX-License-Identifier: Apache-2.0
// Parser of scalar expressions, types, buffers and attribute values within loop-level code.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "tir/text/lexer.h"
#include "treadle/tir/function.h"

namespace treadle::tir::text {

class ExprParser {
 public:
  ExprParser(std::string_view source, std::string name) : lexer_(source, std::move(name)) {}
  [[noreturn]] void Fail(const std::string& message) { lexer_.Fail(Here(), message); }
  [[noreturn]] void FailAt(size_t at, const std::string& message) { lexer_.Fail(at, message); }
  size_t Here() { return lexer_.position(); }

 protected:
  /// Text nested deeper than this is refused; so deep that only hostile texts get there.
  static constexpr int kMaxDepth = 20000;
  class Deeper {
   public:
    explicit Deeper(ExprParser* parser) : parser_(parser) {
      if (++parser_->depth_ > kMaxDepth) parser_->Fail(StrCat("nested more than ", kMaxDepth, " deep"));
    }
    ~Deeper() { --parser_->depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    ExprParser* parser_;
  };

  void Reset() {
    names_.clear();
    flat_.clear();
  }

  // ---- Tokens ----
  const Token& Peek(size_t ahead = 0) { return lexer_.Peek(ahead); }
  bool IsSymbol(const char* symbol) { return Peek().kind == TokenKind::kSymbol && Peek().text == symbol; }
  bool IsWord(const char* word) { return Peek().kind == TokenKind::kName && Peek().text == word; }
  bool Accept(const char* symbol);
  bool AcceptWord(const char* word);
  void Expect(const char* symbol);
  void ExpectWord(const char* word);
  std::string Name();
  std::string String();
  int64_t Integer();

  // ---- Names ----
  Var NewVar(const std::string& name, const Type& type);
  /// "name: type", or the name of a variable that was seen before.
  Var DefineVar();
  Var VarNamed(const std::string& name, size_t at);
  Var KnownVar();
  bool IsBuffer(const std::string& name) const;
  /// By its own name, or by that of its pointer (then the flat form).
  Buffer KnownBuffer();
  void SetFlat(const Var& data, const Buffer& buffer) { flat_[data.get()] = buffer; }
  /// The buffer that was allocated or declared on the pointer before, if it is the same: copies of a loop allocate the
  /// same buffer again. Else `buffer` itself.
  Buffer Known(const Buffer& buffer) const;
  Buffer Declaration();
  DataType ParseDType();
  Type ParseType();

  // ---- Expressions and values ----
  PrimExpr Expr();
  Array<PrimExpr> List();
  /// Within brackets; as many as the buffer has dimensions.
  Array<PrimExpr> Indices(const Buffer& buffer, size_t at);
  ObjectRef Value();
  Map<treadle::String, ObjectRef> ParseMap();
  Map<treadle::String, ObjectRef> Annotations();

  /// Errors of constructors (of dtypes, ranks) get the place.
  template <typename F>
  auto Checked(size_t at, F&& make) -> decltype(make()) {
    try {
      return make();
    } catch (const Error& e) {
      std::string message = e.what();
      const std::string internal = "internal error: ";
      if (message.rfind(internal, 0) == 0) message = message.substr(internal.size());
      FailAt(at, message);
    }
  }

  Lexer lexer_;

 private:
  PrimExpr Binary(int level);
  PrimExpr Unary();
  PrimExpr Primary();
  PrimExpr Number(bool negative);
  PrimExpr CallOf();
  PrimExpr Named();
  PrimExpr Function(const std::string& name, size_t at);

  std::unordered_map<std::string, ObjectRef> names_;  ///< Var or Buffer
  std::unordered_map<const Object*, Buffer> flat_;    ///< by pointer; a buffer that isn't flat stands for its flat form
  int depth_ = 0;
};

}  // namespace treadle::tir::text
