// SPDX-License-Identifier: Apache-2.0
#include "runtime/json.h"

#include <charconv>
#include <unordered_set>

#include "treadle/base/error.h"

namespace treadle::runtime {
namespace {

constexpr int kMaxDepth = 128;

const char* KindName(JsonValue::Kind kind) {
  switch (kind) {
    case JsonValue::Kind::kNull:
      return "null";
    case JsonValue::Kind::kBool:
      return "a bool";
    case JsonValue::Kind::kInt:
      return "an integer";
    case JsonValue::Kind::kDouble:
      return "a number";
    case JsonValue::Kind::kString:
      return "a string";
    case JsonValue::Kind::kArray:
      return "an array";
    case JsonValue::Kind::kObject:
      return "an object";
  }
  return "nothing";
}

void AppendUtf8(uint32_t code, std::string* out) {
  if (code < 0x80) {
    out->push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out->push_back(static_cast<char>(0xc0 | (code >> 6)));
    out->push_back(static_cast<char>(0x80 | (code & 0x3f)));
  } else if (code < 0x10000) {
    out->push_back(static_cast<char>(0xe0 | (code >> 12)));
    out->push_back(static_cast<char>(0x80 | ((code >> 6) & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (code & 0x3f)));
  } else {
    out->push_back(static_cast<char>(0xf0 | (code >> 18)));
    out->push_back(static_cast<char>(0x80 | ((code >> 12) & 0x3f)));
    out->push_back(static_cast<char>(0x80 | ((code >> 6) & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (code & 0x3f)));
  }
}

}  // namespace

class JsonParser {
 public:
  JsonParser(std::string_view text, const std::string& what) : text_(text), what_(what) {}

  JsonValue ParseAll() {
    JsonValue value = ParseValue(0);
    SkipBlanks();
    if (position_ != text_.size()) Fail("text after the end of the value");
    return value;
  }

 private:
  [[noreturn]] void Fail(const std::string& problem) const {
    throw ModelFormatError(StrCat(what_, ": bad JSON at offset ", position_, ": ", problem));
  }
  char Peek() const { return position_ < text_.size() ? text_[position_] : '\0'; }
  void SkipBlanks() {
    while (position_ < text_.size()) {
      char c = text_[position_];
      if (c != ' ' && c != '\n' && c != '\t' && c != '\r') return;
      ++position_;
    }
  }
  bool Accept(char c) {
    SkipBlanks();
    if (Peek() != c || position_ >= text_.size()) return false;
    ++position_;
    return true;
  }
  void Expect(char c) {
    if (!Accept(c)) Fail(StrCat("expected '", c, "'"));
  }
  bool AcceptWord(std::string_view word) {
    if (text_.substr(position_, word.size()) != word) return false;
    position_ += word.size();
    return true;
  }

  JsonValue ParseValue(int depth) {
    if (depth > kMaxDepth) Fail("nested too deeply");
    SkipBlanks();
    JsonValue value;
    switch (Peek()) {
      case '{':
        ParseObject(depth, &value);
        return value;
      case '[':
        ParseArray(depth, &value);
        return value;
      case '"':
        value.kind_ = JsonValue::Kind::kString;
        value.string_ = ParseString();
        return value;
      case 't':
      case 'f':
        value.kind_ = JsonValue::Kind::kBool;
        value.bool_ = Peek() == 't';
        if (!AcceptWord(value.bool_ ? "true" : "false")) Fail("unknown word");
        return value;
      case 'n':
        if (!AcceptWord("null")) Fail("unknown word");
        return value;
      default:
        ParseNumber(&value);
        return value;
    }
  }

  void ParseObject(int depth, JsonValue* value) {
    value->kind_ = JsonValue::Kind::kObject;
    Expect('{');
    if (Accept('}')) return;
    std::unordered_set<std::string> keys;
    do {
      SkipBlanks();
      if (Peek() != '"') Fail("expected a key");
      std::string key = ParseString();
      if (!keys.insert(key).second) Fail("duplicate key \"" + key + "\"");
      Expect(':');
      value->members_.emplace_back(std::move(key), ParseValue(depth + 1));
    } while (Accept(','));
    Expect('}');
  }

  void ParseArray(int depth, JsonValue* value) {
    value->kind_ = JsonValue::Kind::kArray;
    Expect('[');
    if (Accept(']')) return;
    do {
      value->array_.push_back(ParseValue(depth + 1));
    } while (Accept(','));
    Expect(']');
  }

  uint32_t ParseHex4() {
    uint32_t code = 0;
    std::string_view digits = text_.substr(position_, 4);
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (digits.size() != 4 || error != std::errc() || end != digits.data() + 4) Fail("bad \\u escape");
    position_ += 4;
    return code;
  }

  void ParseEscape(std::string* out) {
    char c = Peek();
    ++position_;
    switch (c) {
      case '"':
      case '\\':
      case '/':
        out->push_back(c);
        return;
      case 'b':
        out->push_back('\b');
        return;
      case 'f':
        out->push_back('\f');
        return;
      case 'n':
        out->push_back('\n');
        return;
      case 'r':
        out->push_back('\r');
        return;
      case 't':
        out->push_back('\t');
        return;
      case 'u':
        break;
      default:
        Fail("unknown escape");
    }
    uint32_t code = ParseHex4();
    if (code >= 0xd800 && code < 0xdc00) {
      if (!AcceptWord("\\u")) Fail("unpaired surrogate");
      uint32_t low = ParseHex4();
      if (low < 0xdc00 || low > 0xdfff) Fail("unpaired surrogate");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code < 0xe000) {
      Fail("unpaired surrogate");
    }
    AppendUtf8(code, out);
  }

  std::string ParseString() {
    ++position_;  // the quote
    std::string out;
    for (;;) {
      if (position_ >= text_.size()) Fail("unterminated string");
      char c = text_[position_++];
      if (c == '"') return out;
      if (static_cast<unsigned char>(c) < 0x20) Fail("control character in a string");
      if (c == '\\') {
        ParseEscape(&out);
      } else {
        out.push_back(c);
      }
    }
  }

  void ParseNumber(JsonValue* value) {
    size_t start = position_, p = position_;
    auto digits = [&] {
      size_t first = p;
      while (p < text_.size() && text_[p] >= '0' && text_[p] <= '9') ++p;
      return p - first;
    };
    if (p < text_.size() && text_[p] == '-') ++p;
    size_t integer = p;
    size_t count = digits();
    bool ok = count > 0 && (count == 1 || text_[integer] != '0');
    bool whole = true;
    if (ok && p < text_.size() && text_[p] == '.') {
      whole = false;
      ++p;
      ok = digits() > 0;
    }
    if (ok && p < text_.size() && (text_[p] == 'e' || text_[p] == 'E')) {
      whole = false;
      ++p;
      if (p < text_.size() && (text_[p] == '+' || text_[p] == '-')) ++p;
      ok = digits() > 0;
    }
    if (!ok) Fail("expected a value");
    const char* first = text_.data() + start;
    const char* last = text_.data() + p;
    position_ = p;
    if (whole && std::from_chars(first, last, value->int_).ec == std::errc()) {
      value->kind_ = JsonValue::Kind::kInt;
      return;
    }
    value->kind_ = JsonValue::Kind::kDouble;
    if (std::from_chars(first, last, value->double_).ec != std::errc()) Fail("number out of range");
  }

  std::string_view text_;
  const std::string& what_;
  size_t position_ = 0;
};

JsonValue JsonValue::Parse(std::string_view text, const std::string& what) { return JsonParser(text, what).ParseAll(); }

void JsonValue::Mismatch(const char* expected, const std::string& path) const {
  throw ModelFormatError(StrCat(path, ": expected ", expected, ", found ", KindName(kind_)));
}

bool JsonValue::AsBool(const std::string& path) const {
  if (kind_ != Kind::kBool) Mismatch("a bool", path);
  return bool_;
}
int64_t JsonValue::AsInt(const std::string& path) const {
  if (kind_ != Kind::kInt) Mismatch("an integer", path);
  return int_;
}
int64_t JsonValue::AsIntIn(int64_t low, int64_t high, const std::string& path) const {
  int64_t value = AsInt(path);
  if (value < low || value > high) {
    throw ModelFormatError(StrCat(path, ": ", value, " isn't between ", low, " and ", high));
  }
  return value;
}
double JsonValue::AsDouble(const std::string& path) const {
  if (kind_ == Kind::kInt) return static_cast<double>(int_);
  if (kind_ != Kind::kDouble) Mismatch("a number", path);
  return double_;
}
const std::string& JsonValue::AsString(const std::string& path) const {
  if (kind_ != Kind::kString) Mismatch("a string", path);
  return string_;
}
const std::vector<JsonValue>& JsonValue::AsArray(const std::string& path) const {
  if (kind_ != Kind::kArray) Mismatch("an array", path);
  return array_;
}
const JsonValue::Members& JsonValue::AsObject(const std::string& path) const {
  if (kind_ != Kind::kObject) Mismatch("an object", path);
  return members_;
}
std::vector<int64_t> JsonValue::AsInts(const std::string& path) const {
  std::vector<int64_t> values;
  for (const JsonValue& item : AsArray(path)) values.push_back(item.AsInt(path));
  return values;
}
std::vector<std::string> JsonValue::AsStrings(const std::string& path) const {
  std::vector<std::string> values;
  for (const JsonValue& item : AsArray(path)) values.push_back(item.AsString(path));
  return values;
}

const JsonValue* JsonValue::Find(std::string_view key) const {
  for (const auto& [name, value] : members_) {
    if (name == key) return &value;
  }
  return nullptr;
}

const JsonValue& JsonValue::At(std::string_view key, const std::string& path) const {
  if (kind_ != Kind::kObject) Mismatch("an object", path);
  const JsonValue* value = Find(key);
  if (value == nullptr) throw ModelFormatError(StrCat(path, ": \"", key, "\" is missing"));
  return *value;
}

std::string JsonQuote(std::string_view text) {
  static const char* kHex = "0123456789abcdef";
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += "\\u00";
      out += kHex[(c >> 4) & 0xf];
      out += kHex[c & 0xf];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string JsonArray(const std::vector<int64_t>& values) {
  std::string out = "[";
  for (size_t i = 0; i < values.size(); ++i) out += (i != 0 ? "," : "") + std::to_string(values[i]);
  return out + "]";
}

std::string JsonArray(const std::vector<std::string>& values) {
  std::string out = "[";
  for (size_t i = 0; i < values.size(); ++i) out += (i != 0 ? "," : "") + JsonQuote(values[i]);
  return out + "]";
}

}  // namespace treadle::runtime
