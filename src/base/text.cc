// SPDX-License-Identifier: Apache-2.0
#include "treadle/base/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

namespace treadle {
namespace {

/// Room for every double in fixed notation with a few decimals.
constexpr size_t kFixedRoom = 384;
constexpr size_t kRoom = 64;

template <typename Value, typename... Format>
void Append(std::string* out, Value value, Format... format) {
  char buffer[kRoom];
  out->append(buffer, std::to_chars(buffer, buffer + sizeof(buffer), value, format...).ptr);
}

template <typename Value>
std::optional<Value> Parse(std::string_view text) {
  Value value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

namespace detail {

void AppendView(std::string* out, std::string_view value) { out->append(value); }
void AppendSigned(std::string* out, long long value) { Append(out, value); }
void AppendUnsigned(std::string* out, unsigned long long value) { Append(out, value); }
void AppendDouble(std::string* out, double value) { Append(out, value, std::chars_format::general, 6); }
void AppendPointer(std::string* out, const void* value) {
  *out += "0x";
  Append(out, reinterpret_cast<uintptr_t>(value), 16);
}

std::string Concatenate(std::initializer_list<TextPart> parts) {
  std::string text;
  for (const TextPart& part : parts) part.AppendTo(&text);
  return text;
}

}  // namespace detail

std::string GeneralText(double value, int digits) {
  char buffer[kFixedRoom];
  return {buffer, std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::general, digits).ptr};
}

std::string FixedText(double value, int decimals) {
  char buffer[kFixedRoom];
  return {buffer, std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed, decimals).ptr};
}

std::string HexFloatText(double value) {
  std::string text = std::signbit(value) ? "-" : "";
  if (std::isfinite(value)) text += "0x";
  Append(&text, std::fabs(value), std::chars_format::hex);
  return text;
}

std::string HexText(uint64_t value, int digits) {
  std::string text;
  Append(&text, value, 16);
  const auto wanted = static_cast<size_t>(digits);
  return text.size() < wanted ? std::string(wanted - text.size(), '0') + text : text;
}

std::optional<double> ParseDouble(std::string_view text) { return Parse<double>(text); }
std::optional<float> ParseFloat(std::string_view text) { return Parse<float>(text); }
std::optional<int64_t> ParseInt(std::string_view text) { return Parse<int64_t>(text); }

std::vector<std::string> SplitWords(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n\f\v";
  std::vector<std::string> words;
  for (size_t at = text.find_first_not_of(kBlanks); at != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
    words.emplace_back(text.substr(at, end - at));
    at = text.find_first_not_of(kBlanks, end);
  }
  return words;
}

}  // namespace treadle
