// SPDX-License-Identifier: Apache-2.0
// Text of values and values of text, the same under every locale: neither streams nor the C library's conversions,
// which both write "1.024" or "0,5" where a host program sets a locale, take part.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
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

void AppendView(std::string* out, std::string_view value);
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
    AppendView(out, std::string_view(&value, 1));
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    AppendView(out, std::string_view(value));
  } else if constexpr (HasText<T>) {
    AppendView(out, value.str());
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

/// An argument of StrCat: text, or a value and what appends it. A function for each list of types, instead, would be a
/// twelfth of the project's code.
class TextPart {
 public:
  template <typename T>
  explicit TextPart(const T& value) {
    if constexpr (std::is_same_v<T, char>) {
      text_ = std::string_view(&value, 1);
    } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
      text_ = value;
    } else {
      value_ = &value;
      append_ = [](std::string* out, const void* from) { AppendText(out, *static_cast<const T*>(from)); };
    }
  }
  void AppendTo(std::string* out) const {
    if (append_ == nullptr) {
      out->append(text_);
    } else {
      append_(out, value_);
    }
  }

 private:
  std::string_view text_;
  const void* value_ = nullptr;
  void (*append_)(std::string*, const void*) = nullptr;
};

std::string Concatenate(std::initializer_list<TextPart> parts);

}  // namespace detail

/// Concatenates the text of the arguments: what detail::AppendText takes.
template <typename... Args>
std::string StrCat(const Args&... args) {
  return detail::Concatenate({detail::TextPart(args)...});
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
