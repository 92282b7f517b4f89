// SPDX-License-Identifier: Apache-2.0
// Text of values and values of text, the same under every locale: neither streams nor the C library's conversions,
// which both write "1.024" or "0,5" where a host program sets a locale, take part.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace treadle {

/// "%.<digits>g" of printf: `digits` significant ones, without trailing zeros.
std::string GeneralText(double value, int digits = 6);
/// "%.<decimals>f" of printf.
std::string FixedText(double value, int decimals);
/// "%a" of printf: exact.
std::string HexFloatText(double value);
/// At least `digits` hexadecimal digits, zeros in front.
std::string HexText(uint64_t value, int digits = 1);
/// The number that all of `text` is, as C writes it; nothing for other text and where it is out of range.
std::optional<double> ParseDouble(std::string_view text);
std::optional<float> ParseFloat(std::string_view text);
std::optional<int64_t> ParseInt(std::string_view text);
/// What stands between blanks and line ends.
std::vector<std::string> SplitWords(std::string_view text);

namespace detail {

void AppendSigned(std::string* out, long long value);
void AppendUnsigned(std::string* out, unsigned long long value);
void AppendDouble(std::string* out, double value);
void AppendPointer(std::string* out, const void* value);

template <typename T>
concept HasText = requires(const T& value) {
  { value.str() } -> std::convertible_to<std::string>;
};

/// Text, characters, numbers (floating ones with six digits, bool as 0 or 1), enums as numbers, pointers, and whatever
/// has str().
template <typename T>
void AppendText(std::string* out, const T& value) {
  if constexpr (std::is_same_v<T, char>) {
    out->push_back(value);
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    out->append(std::string_view(value));
  } else if constexpr (HasText<T>) {
    out->append(value.str());
  } else if constexpr (std::is_floating_point_v<T>) {
    AppendDouble(out, static_cast<double>(value));
  } else if constexpr (std::is_pointer_v<T>) {
    AppendPointer(out, static_cast<const void*>(value));
  } else if constexpr (std::is_enum_v<T>) {
    AppendText(out, static_cast<std::underlying_type_t<T>>(value));
  } else {
    static_assert(std::is_integral_v<T>, "a type without text: give it str()");
    if constexpr (std::is_signed_v<T>) {
      AppendSigned(out, value);
    } else {
      AppendUnsigned(out, value);
    }
  }
}

}  // namespace detail

/// Concatenates the text of the arguments: what detail::AppendText takes.
template <typename... Args>
std::string StrCat(const Args&... args) {
  std::string text;
  (detail::AppendText(&text, args), ...);
  return text;
}

/// Collects text piece by piece: `text << "n = " << n`.
class TextStream {
 public:
  template <typename T>
  TextStream& operator<<(const T& value) {
    detail::AppendText(&text_, value);
    return *this;
  }
  const std::string& str() const { return text_; }

 private:
  std::string text_;
};

}  // namespace treadle
