// SPDX-License-Identifier: Apache-2.0
// Tokens of the text form of loop-level code.
#pragma once

#include <string>
#include <string_view>

namespace treadle::tir::text {

enum class TokenKind { kEnd, kName, kNumber, kString, kSymbol };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;  ///< name, digits with suffix, content of the string, symbol
  size_t begin = 0;  ///< offset in the source
};

/// Reads tokens of a source; errors are ModelFormatError with line, column and the line itself.
class Lexer {
 public:
  Lexer(std::string_view source, std::string name);
  const Token& Peek(size_t ahead = 0);
  Token Next();
  [[noreturn]] void Fail(size_t offset, const std::string& message) const;
  /// The source from the next token on.
  size_t position() { return Peek().begin; }

 private:
  Token Read();
  std::string ReadString();

  static constexpr size_t kAhead = 4;
  std::string_view source_;
  std::string name_;
  size_t at_ = 0;
  Token ahead_[kAhead];
  size_t first_ = 0, count_ = 0;
};

}  // namespace treadle::tir::text
