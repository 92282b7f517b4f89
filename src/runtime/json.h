// SPDX-License-Identifier: Apache-2.0
// A small strict JSON reader and writer (RFC 8259) for graphs and manifests: the runtime links against nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace treadle::runtime {

/// One JSON value. Typed access that doesn't fit throws ModelFormatError, naming the value by `path`.
class JsonValue {
 public:
  enum class Kind : uint8_t { kNull, kBool, kInt, kDouble, kString, kArray, kObject };
  using Members = std::vector<std::pair<std::string, JsonValue>>;

  JsonValue() = default;
  /// Parses the whole text; `what` names it in errors, such as "graph of m.so". Nesting is limited to 128 levels,
  /// duplicate keys are refused.
  static JsonValue Parse(std::string_view text, const std::string& what);

  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::kNull; }
  bool is_array() const { return kind_ == Kind::kArray; }
  bool is_object() const { return kind_ == Kind::kObject; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_int() const { return kind_ == Kind::kInt; }

  bool AsBool(const std::string& path) const;
  int64_t AsInt(const std::string& path) const;
  /// An integer from `low` to `high`.
  int64_t AsIntIn(int64_t low, int64_t high, const std::string& path) const;
  double AsDouble(const std::string& path) const;
  const std::string& AsString(const std::string& path) const;
  const std::vector<JsonValue>& AsArray(const std::string& path) const;
  const Members& AsObject(const std::string& path) const;
  std::vector<int64_t> AsInts(const std::string& path) const;
  std::vector<std::string> AsStrings(const std::string& path) const;

  /// The member called `key` of an object, or null.
  const JsonValue* Find(std::string_view key) const;
  /// As Find; a missing member is a ModelFormatError.
  const JsonValue& At(std::string_view key, const std::string& path) const;

 private:
  friend class JsonParser;
  [[noreturn]] void Mismatch(const char* expected, const std::string& path) const;

  Kind kind_ = Kind::kNull;
  bool bool_ = false;
  int64_t int_ = 0;
  double double_ = 0;
  std::string string_;
  std::vector<JsonValue> array_;
  Members members_;
};

/// `text` as a JSON string, quotes included.
std::string JsonQuote(std::string_view text);
std::string JsonArray(const std::vector<int64_t>& values);
std::string JsonArray(const std::vector<std::string>& values);

}  // namespace treadle::runtime
