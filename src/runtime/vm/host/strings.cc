// SPDX-License-Identifier: Apache-2.0
// Conversions between strings and numbers, and functions of single strings.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "runtime/vm/host/host.h"
#include "treadle/runtime/regex.h"

namespace treadle::runtime::vm {
namespace {

/// The shape that two shapes are broadcast to.
std::vector<int64_t> Broadcast(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  std::vector<int64_t> out(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < out.size(); ++i) {
    auto dim = [&](const std::vector<int64_t>& s) { return i < s.size() ? s[s.size() - 1 - i] : 1; };
    const int64_t x = dim(a), y = dim(b);
    if (x != y && x != 1 && y != 1) {
      throw ShapeError(StrCat("shapes ", ShapeString(a), " and ", ShapeString(b), " don't broadcast"));
    }
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  return out;
}

/// Element of a tensor of `shape` that element `index` of the broadcast shape `out` reads.
int64_t Source(int64_t index, const std::vector<int64_t>& out, const std::vector<int64_t>& shape) {
  int64_t source = 0, stride = 1;
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t size = out[out.size() - 1 - i], at = index % size;
    index /= size;
    if (i >= shape.size()) break;
    const int64_t own = shape[shape.size() - 1 - i];
    if (own != 1) source += at * stride;
    stride *= own;
  }
  return source;
}

int64_t Elements(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t dim : shape) count *= dim;
  return count;
}

ObjectRef Concat(HostRun& run, const HostArgs& args) {
  NDArray a = TensorArg(args, 0), b = TensorArg(args, 1);
  const std::vector<std::string_view> x = TextsArg(run, args, 0), y = TextsArg(run, args, 1);
  const std::vector<int64_t> shape = Broadcast(a.shape(), b.shape());
  std::vector<int64_t> numbers(static_cast<size_t>(Elements(shape)));
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto k = static_cast<int64_t>(i);
    std::string joined(x[static_cast<size_t>(Source(k, shape, a.shape()))]);
    joined += y[static_cast<size_t>(Source(k, shape, b.shape()))];
    numbers[i] = run.strings.Intern(joined);
  }
  return MakeInts(run, shape, numbers);
}

/// (strings, pattern): bool.
ObjectRef RegexFullMatch(HostRun& run, const HostArgs& args) {
  const Regex regex(BytesArg(args, 1));
  const std::vector<std::string_view> texts = TextsArg(run, args, 0);
  NDArray result = run.alloc(TensorArg(args, 0).shape(), DataType::Bool());
  for (size_t i = 0; i < texts.size(); ++i) result.Data<uint8_t>()[i] = regex.FullMatch(texts[i]) ? 1 : 0;
  return result;
}

// ---- Numbers.

/// As Python and NumPy write numbers: the shortest digits that give the number back, exponents below 1e-4 and from
/// 1e16 on.
template <typename T>
std::string FloatText(T value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[128];
  const double size = std::fabs(static_cast<double>(value));
  const bool fixed = value == 0 || (size >= 1e-4 && size < 1e16);
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value,
                                 fixed ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(buffer, end.ptr);
  return fixed && text.find('.') == std::string::npos ? text + ".0" : text;
}

std::string NumberText(const NDArray& x, int64_t i) {
  const DataType dtype = x.dtype();
  auto at = [&](auto sample) { return x.Data<decltype(sample)>()[i]; };
  if (dtype.is_bool()) return at(uint8_t{}) != 0 ? "True" : "False";
  if (dtype == DataType::Float(32)) return FloatText(at(float{}));
  if (dtype == DataType::Float(64)) return FloatText(at(double{}));
  if (dtype.is_int() || dtype.is_uint()) {
    switch (dtype.bits()) {
      case 8:
        return dtype.is_int() ? std::to_string(at(int8_t{})) : std::to_string(at(uint8_t{}));
      case 16:
        return dtype.is_int() ? std::to_string(at(int16_t{})) : std::to_string(at(uint16_t{}));
      case 32:
        return dtype.is_int() ? std::to_string(at(int32_t{})) : std::to_string(at(uint32_t{}));
      case 64:
        return dtype.is_int() ? std::to_string(at(int64_t{})) : std::to_string(at(uint64_t{}));
      default:
        break;
    }
  }
  throw DTypeError(StrCat("elements of type ", dtype, " can't become strings"));
}

ObjectRef FromNumber(HostRun& run, const HostArgs& args) {
  NDArray x = TensorArg(args, 0);
  std::vector<int64_t> numbers(static_cast<size_t>(x.size()));
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = run.strings.Intern(NumberText(x, static_cast<int64_t>(i)));
  }
  return MakeInts(run, x.shape(), numbers);
}

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n\f\v");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n\f\v") - begin + 1);
}

/// Without spaces around it and a plus sign.
std::string_view Number(std::string_view text) {
  std::string_view rest = Trimmed(text);
  if (rest.size() > 1 && rest[0] == '+' && rest[1] != '-') rest.remove_prefix(1);
  return rest;
}

[[noreturn]] void FailNumber(std::string_view text, const char* expected) {
  constexpr size_t kShown = 100;
  std::string shown(text.substr(0, kShown));
  std::replace_if(shown.begin(), shown.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, '?');
  throw RuntimeError(StrCat("Cast of strings: \"", shown, "\" isn't ", expected));
}

/// Of a number that is too large or too small: infinity or 0.
double BeyondDouble(std::string_view number) {
  const size_t e = std::min(number.find_first_of("eE"), number.size());
  const std::string_view digits = number.substr(0, e);
  int64_t exponent = 0;
  if (e < number.size()) {
    const size_t begin = e + (number[e + 1] == '+' ? 2 : 1);
    const auto end = std::from_chars(number.data() + begin, number.data() + number.size(), exponent);
    if (end.ec != std::errc()) exponent = number[begin] == '-' ? INT32_MIN : INT32_MAX;
  }
  const size_t point = std::min(digits.find('.'), digits.size()), first = digits.find_first_of("123456789");
  const bool large = exponent > static_cast<int64_t>(first) - static_cast<int64_t>(point);
  return std::copysign(large ? std::numeric_limits<double>::infinity() : 0.0, number[0] == '-' ? -1.0 : 1.0);
}

double ToDouble(std::string_view text) {
  const std::string_view rest = Number(text);
  double value = 0;
  const auto end = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (rest.empty() || end.ptr != rest.data() + rest.size()) FailNumber(text, "a number");
  if (end.ec != std::errc::result_out_of_range) return value;
  return BeyondDouble(rest);
}

/// Of numbers with a fraction what is before it, as of floats.
int64_t ToInt(std::string_view text) {
  const std::string_view rest = Number(text);
  int64_t value = 0;
  const auto end = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  const bool whole = !rest.empty() && end.ptr == rest.data() + rest.size();
  if (whole && end.ec == std::errc()) return value;
  const double number = ToDouble(text);
  if (std::isnan(number)) return 0;
  constexpr double kEnd = 9223372036854775808.0;
  if (whole || number < -kEnd || number >= kEnd) FailNumber(text, "an integer of 64 bits");
  return static_cast<int64_t>(number);
}

ObjectRef ToFloats(HostRun& run, const HostArgs& args) {
  const std::vector<std::string_view> texts = TextsArg(run, args, 0);
  NDArray result = run.alloc(TensorArg(args, 0).shape(), DataType::Float(64));
  for (size_t i = 0; i < texts.size(); ++i) result.Data<double>()[i] = ToDouble(texts[i]);
  return result;
}

ObjectRef ToInts(HostRun& run, const HostArgs& args) {
  std::vector<int64_t> values;
  for (std::string_view text : TextsArg(run, args, 0)) values.push_back(ToInt(text));
  return MakeInts(run, TensorArg(args, 0).shape(), values);
}

}  // namespace

void AddStringFunctions(HostTable* table) {
  (*table)["string.concat"] = Concat;
  (*table)["string.regex_full_match"] = RegexFullMatch;
  (*table)["string.from_number"] = FromNumber;
  (*table)["string.to_float"] = ToFloats;
  (*table)["string.to_int"] = ToInts;
}

}  // namespace treadle::runtime::vm
