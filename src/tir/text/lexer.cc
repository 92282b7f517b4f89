// SPDX-License-Identifier: Apache-2.0
#include "tir/text/lexer.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "treadle/base/error.h"

namespace treadle::tir::text {
namespace {

bool IsNameStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool IsNamePart(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

Lexer::Lexer(std::string_view source, std::string name) : source_(source), name_(std::move(name)) {}

void Lexer::Fail(size_t offset, const std::string& message) const {
  offset = std::min(offset, source_.size());
  size_t line = 1, start = 0;
  for (size_t i = 0; i < offset; ++i) {
    if (source_[i] != '\n') continue;
    ++line;
    start = i + 1;
  }
  size_t end = source_.find('\n', start);
  std::string text(source_.substr(start, end == std::string_view::npos ? end : end - start));
  size_t column = offset - start;
  // A long line is shown around the place only.
  constexpr size_t kShown = 60;
  size_t cut = column > kShown ? column - kShown : 0;
  text = text.substr(cut, 2 * kShown);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 32) c = ' ';
  }
  throw ModelFormatError(StrCat(name_, ":", line, ":", column + 1, ": ", message, "\n  ", text, "\n  ",
                                std::string(column - cut, ' '), "^"));
}

const Token& Lexer::Peek(size_t ahead) {
  while (count_ <= ahead) {
    ahead_[(first_ + count_) % kAhead] = Read();
    ++count_;
  }
  return ahead_[(first_ + ahead) % kAhead];
}

Token Lexer::Next() {
  Peek();
  Token token = std::move(ahead_[first_]);
  first_ = (first_ + 1) % kAhead;
  --count_;
  return token;
}

std::string Lexer::ReadString() {
  const size_t begin = at_++;
  std::string text;
  while (at_ < source_.size() && source_[at_] != '"') {
    if (source_[at_] == '\\' && at_ + 1 < source_.size()) {
      ++at_;
      text += source_[at_] == 'n' ? '\n' : source_[at_];
    } else {
      text += source_[at_];
    }
    ++at_;
  }
  if (at_ >= source_.size()) Fail(begin, "the string isn't closed");
  ++at_;
  return text;
}

Token Lexer::Read() {
  while (at_ < source_.size()) {
    if (std::isspace(static_cast<unsigned char>(source_[at_])) != 0) {
      ++at_;
    } else if (source_.substr(at_, 2) == "//") {
      while (at_ < source_.size() && source_[at_] != '\n') ++at_;
    } else if (source_.substr(at_, 2) == "/*") {
      const size_t end = source_.find("*/", at_ + 2);
      if (end == std::string_view::npos) Fail(at_, "the comment isn't closed");
      at_ = end + 2;
    } else {
      break;
    }
  }
  Token token;
  token.begin = at_;
  if (at_ >= source_.size()) return token;
  const char c = source_[at_];
  if (IsNameStart(c)) {
    token.kind = TokenKind::kName;
    while (at_ < source_.size() && IsNamePart(source_[at_])) token.text += source_[at_++];
  } else if (IsDigit(c)) {
    token.kind = TokenKind::kNumber;
    while (at_ < source_.size()) {
      const char d = source_[at_];
      // The sign of an exponent.
      const bool sign =
          (d == '+' || d == '-') && (token.text.back() == 'e') && at_ + 1 < source_.size() && IsDigit(source_[at_ + 1]);
      if (!IsNamePart(d) && !sign) break;
      token.text += source_[at_++];
    }
  } else if (c == '"') {
    token.kind = TokenKind::kString;
    token.text = ReadString();
  } else {
    token.kind = TokenKind::kSymbol;
    static const char* const kLong[] = {"+:", "==", "!=", "<=", ">=", "&&", "||", "->"};
    for (const char* symbol : kLong) {
      if (source_.substr(at_, 2) == symbol) token.text = symbol;
    }
    if (token.text.empty()) {
      if (std::string_view("(){}[],;:=+-*/%<>!@#").find(c) == std::string_view::npos) {
        Fail(at_, StrCat("unexpected character '", std::string(1, c), "'"));
      }
      token.text = std::string(1, c);
    }
    at_ += token.text.size();
  }
  return token;
}

}  // namespace treadle::tir::text
