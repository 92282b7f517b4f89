// SPDX-License-Identifier: Apache-2.0
#include "relay/text/lexer.h"

#include <cctype>

#include "treadle/base/error.h"

namespace treadle::relay {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsWord(char c) { return IsLetter(c) || IsDigit(c); }

std::string Show(char c) {
  if (std::isprint(static_cast<unsigned char>(c)) != 0) return std::string("'") + c + "'";
  return StrCat("byte ", static_cast<int>(static_cast<unsigned char>(c)));
}

}  // namespace

char Lexer::Advance() {
  char c = text_[position_++];
  if (c == '\n') {
    ++place_.line;
    place_.column = 1;
  } else {
    ++place_.column;
  }
  return c;
}

void Lexer::SkipSpace(Token* token) {
  int start_line = place_.line;
  bool first = true;
  while (!AtEnd()) {
    char c = At();
    if (c == ' ' || c == '\n' || c == '\r' || c == '\t') {
      Advance();
    } else if (c == '/' && At(1) == '/') {
      while (!AtEnd() && At() != '\n') Advance();
    } else if (c == '/' && At(1) == '*') {
      Place begin = place_;
      size_t from = position_ + 2;
      int depth = 0;
      do {
        if (AtEnd()) Fail("comment doesn't end", begin);
        if (At() == '/' && At(1) == '*') {
          ++depth;
          Advance();
        } else if (At() == '*' && At(1) == '/') {
          --depth;
          Advance();
        }
        Advance();
      } while (depth > 0);
      if (first && begin.line == start_line && place_.line == start_line) {
        token->comment = std::string(text_.substr(from, position_ - 2 - from));
      }
      first = false;
    } else {
      return;
    }
  }
}

std::string Lexer::ReadString() {
  Place begin = place_;
  Advance();
  std::string value;
  auto hex = [&](char c) -> int {
    if (IsDigit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    Fail("\\x takes two hexadecimal digits", begin);
  };
  while (true) {
    if (AtEnd() || At() == '\n') Fail("string doesn't end", begin);
    char c = Advance();
    if (c == '"') return value;
    if (c != '\\') {
      value += c;
      continue;
    }
    if (AtEnd()) Fail("string doesn't end", begin);
    char escape = Advance();
    switch (escape) {
      case 'n':
        value += '\n';
        break;
      case 't':
        value += '\t';
        break;
      case 'r':
        value += '\r';
        break;
      case 'x': {
        int high = hex(At());
        Advance();
        int low = hex(At());
        Advance();
        value += static_cast<char>(high * 16 + low);
        break;
      }
      case '"':
      case '\\':
      case '\'':
        value += escape;
        break;
      default:
        Fail(StrCat("unknown escape \\", Show(escape), " in a string"), begin);
    }
  }
}

void Lexer::ReadName(Token* token, TokenKind kind) {
  token->kind = kind;
  bool is_ident = kind == TokenKind::kIdent;
  while (IsWord(At()) || (!is_ident && At() == '/' && IsWord(At(1))) || (At() == '.' && IsWord(At(1)))) {
    token->text += Advance();
  }
}

void Lexer::ReadNumber(Token* token) {
  token->kind = TokenKind::kNumber;
  while (IsDigit(At())) token->text += Advance();
  if (At() == '.' && IsDigit(At(1))) {
    do {
      token->text += Advance();
    } while (IsDigit(At()));
  } else if (At() == '.' && !IsLetter(At(1))) {
    token->text += Advance();  // "1."
  }
  bool sign = At(1) == '+' || At(1) == '-';
  if ((At() == 'e' || At() == 'E') && IsDigit(At(sign ? 2 : 1))) {
    token->text += Advance();
    if (sign) token->text += Advance();
    while (IsDigit(At())) token->text += Advance();
  }
  while (IsWord(At())) token->suffix += Advance();
}

void Lexer::CountBrackets(const Token& token) {
  if (token.Is("(") || token.Is("[") || token.Is("{")) {
    blocks_ += token.Is("{");
    if (++nesting_ > kMaxNesting) Fail(StrCat("brackets nest deeper than ", kMaxNesting), token.begin);
    if (blocks_ > kMaxBlockNesting) Fail(StrCat("blocks nest deeper than ", kMaxBlockNesting), token.begin);
  } else if (nesting_ > 0 && (token.Is(")") || token.Is("]") || token.Is("}"))) {
    --nesting_;
    blocks_ -= blocks_ > 0 && token.Is("}");
  }
}

Token Lexer::Read() {
  Token token;
  SkipSpace(&token);
  token.begin = place_;
  if (AtEnd()) {
    token.end = place_;
    return token;
  }
  char c = At();
  if (c == '%' && (IsLetter(At(1)) || At(1) == '/')) {
    Advance();
    if (At() == '/') token.text += Advance();
    ReadName(&token, TokenKind::kLocal);
  } else if (c == '%' && IsDigit(At(1))) {
    Advance();
    token.kind = TokenKind::kTemp;
    while (IsDigit(At())) token.text += Advance();
  } else if (c == '@' && IsLetter(At(1))) {
    Advance();
    ReadName(&token, TokenKind::kGlobal);
  } else if ((c == '%' || c == '@') && At(1) == '"') {
    Advance();
    token.kind = c == '%' ? TokenKind::kLocal : TokenKind::kGlobal;
    token.quoted = true;
    token.text = ReadString();
  } else if (c == '"') {
    token.kind = TokenKind::kString;
    token.text = ReadString();
  } else if (IsDigit(c)) {
    ReadNumber(&token);
  } else if (IsLetter(c)) {
    ReadName(&token, TokenKind::kIdent);
  } else if (c == '.' && IsDigit(At(1))) {
    Advance();
    token.kind = TokenKind::kProjection;
    while (IsDigit(At())) token.text += Advance();
  } else {
    token.kind = TokenKind::kPunct;
    constexpr const char* kPairs[] = {"->", "=>", "==", "!=", "<=", ">="};
    for (const char* pair : kPairs) {
      if (c == pair[0] && At(1) == pair[1]) token.text = pair;
    }
    if (token.text.empty()) {
      if (std::string_view("(){}[],;:=<>+-*/%.?#").find(c) == std::string_view::npos) {
        Advance();
        Fail(StrCat("unexpected ", Show(c)), token.begin);
      }
      token.text = c;
    }
    for (size_t i = 0; i < token.text.size(); ++i) Advance();
    CountBrackets(token);
  }
  token.end = place_;
  return token;
}

}  // namespace treadle::relay
