// SPDX-License-Identifier: Apache-2.0
// Tokens of the text form.
#pragma once

#include <deque>
#include <stdexcept>
#include <string>
#include <string_view>

#include "treadle/ir/span.h"

namespace treadle::relay {

enum class TokenKind : uint8_t {
  kEnd,
  kIdent,       ///< add, nn.conv2d, fn, Tensor
  kLocal,       ///< %x, %layer.0.weight, %"any text"
  kTemp,        ///< %12
  kGlobal,      ///< @main
  kNumber,      ///< 12, 1.5e-3f, 7i64; without sign
  kString,      ///< "text", escapes resolved
  kProjection,  ///< .3
  kPunct,       ///< ( ) { } [ ] , ; : = -> => == != < <= > >= + - * / % . ? #
};

struct Place {
  int line = 1;
  int column = 1;
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;     ///< without sigils, quotes and suffix
  std::string suffix;   ///< of a number
  bool quoted = false;  ///< of a local or global: in quotes
  Place begin, end;
  std::string comment;  ///< the first /* */ between the token before and this one, on the line of the former

  bool Is(const char* punct) const { return kind == TokenKind::kPunct && text == punct; }
  bool IsIdent(const char* word) const { return kind == TokenKind::kIdent && text == word; }
};

/// Bad text: what, and where.
class SyntaxError : public std::runtime_error {
 public:
  SyntaxError(const std::string& message, Place begin, Place end)
      : std::runtime_error(message), begin_(begin), end_(end) {}
  Place begin() const { return begin_; }
  Place end() const { return end_; }

 private:
  Place begin_, end_;
};

/// How deep parentheses and types may nest in a text, and how deep blocks: the types of functions within functions
/// are as long as they nest. Sequences of bindings don't count.
inline constexpr int kMaxNesting = 250000;
inline constexpr int kMaxBlockNesting = 4000;

/// Reads tokens on demand. Throws SyntaxError.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  /// The token `ahead` places further; the lexer doesn't move.
  const Token& Peek(size_t ahead = 0) {
    while (buffer_.size() <= ahead) buffer_.push_back(Read());
    return buffer_[ahead];
  }
  Token Next() {
    Peek();
    Token token = std::move(buffer_.front());
    buffer_.pop_front();
    last_end_ = token.end;
    return token;
  }
  /// End of the token that was read last.
  Place last_end() const { return last_end_; }

 private:
  Token Read();
  void SkipSpace(Token* token);
  void CountBrackets(const Token& token);
  void ReadName(Token* token, TokenKind kind);
  void ReadNumber(Token* token);
  std::string ReadString();
  char At(size_t offset = 0) const { return position_ + offset < text_.size() ? text_[position_ + offset] : '\0'; }
  bool AtEnd() const { return position_ >= text_.size(); }
  char Advance();
  [[noreturn]] void Fail(const std::string& message, Place begin) const { throw SyntaxError(message, begin, place_); }

  std::string_view text_;
  size_t position_ = 0;
  Place place_, last_end_;
  int nesting_ = 0;  ///< brackets that are open
  int blocks_ = 0;   ///< braces among them
  std::deque<Token> buffer_;
};

}  // namespace treadle::relay
