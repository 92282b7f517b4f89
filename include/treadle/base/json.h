// SPDX-License-Identifier: Apache-2.0
// JSON values. All is done by nlohmann::ordered_json (members keep their order), behind a class without templates of
// its own: its header costs every file that includes it two or three seconds, so that one file (src/base/json.cc) does.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "treadle/base/error.h"

namespace treadle {

/// Text that isn't JSON, or a value that isn't what the reader asks for.
class JsonError : public Error {
 public:
  explicit JsonError(const std::string& message) : Error(message) {}
};

/// What Json::get reads. Numbers are converted into each other, as C++ does.
template <typename T>
concept JsonReadable = std::same_as<T, bool> || std::same_as<T, int> || std::same_as<T, int64_t> ||
                       std::same_as<T, size_t> || std::same_as<T, float> || std::same_as<T, double> ||
                       std::same_as<T, std::string> || std::same_as<T, std::vector<int>> ||
                       std::same_as<T, std::vector<int64_t>> || std::same_as<T, std::vector<size_t>> ||
                       std::same_as<T, std::vector<double>> || std::same_as<T, std::vector<std::string>>;

/// A subset of the interface of nlohmann::ordered_json, by its names. Differences: errors are JsonError; a constant
/// value has no member or element that isn't there (operator[] is `at`); begin and end are for arrays, items for
/// objects.
class Json {
 public:
  enum class error_handler_t : uint8_t { strict, replace };  ///< of text that isn't UTF-8

  Json(std::nullptr_t = nullptr);       // NOLINT: values convert to JSON, all of these
  template <std::same_as<bool> T>       // nothing else becomes a bool
  Json(T value) : Json(Bool{value}) {}  // NOLINT
  template <std::signed_integral T>
  Json(T value) : Json(Signed{value}) {}  // NOLINT
  template <std::unsigned_integral T>
    requires(!std::same_as<T, bool>)
  Json(T value) : Json(Unsigned{value}) {}  // NOLINT
  Json(double value);                       // NOLINT
  Json(const char* value);                  // NOLINT
  Json(std::string value);                  // NOLINT
  Json(std::string_view value);             // NOLINT
  /// An object if all elements are arrays of two whose first is a string, else an array.
  Json(std::initializer_list<Json> values);  // NOLINT
  template <typename T>
    requires std::convertible_to<const T&, Json>
  Json(const std::vector<T>& values) : Json(array()) {  // NOLINT
    for (const auto& value : values) push_back(value);
  }
  template <typename T>
    requires std::convertible_to<const T&, Json>
  Json(const std::map<std::string, T>& values) : Json(object()) {  // NOLINT
    for (const auto& [key, value] : values) (*this)[key] = value;
  }
  Json(const Json& other);
  Json(Json&& other) noexcept;  ///< leaves null
  Json& operator=(Json other) noexcept;
  ~Json();

  static Json array(std::initializer_list<Json> values = {});
  static Json object();
  /// With allow_exceptions == false, text that isn't JSON gives a value that is nothing of what is_.. asks for.
  static Json parse(std::string_view text, std::nullptr_t = nullptr, bool allow_exceptions = true);
  /// Text, on one line if `indent` < 0.
  std::string dump(int indent = -1, char indent_char = ' ', bool ensure_ascii = false,
                   error_handler_t errors = error_handler_t::strict) const;

  bool is_null() const;
  bool is_boolean() const;
  bool is_number() const;
  bool is_number_integer() const;
  bool is_string() const;
  bool is_array() const;
  bool is_object() const;

  template <JsonReadable T>
  T get() const {
    T value{};
    Read(&value);
    return value;
  }
  template <JsonReadable T>
  operator T() const {  // NOLINT
    return get<T>();
  }

  size_t size() const;
  bool empty() const;
  bool contains(std::string_view key) const;
  const Json& at(std::string_view key) const;
  const Json& at(size_t index) const;
  template <std::convertible_to<std::string_view> Key>  // no overload of its own: values convert to numbers, too
  const Json& operator[](const Key& key) const {
    return at(std::string_view(key));
  }
  template <std::integral I>
  const Json& operator[](I index) const {
    return at(static_cast<size_t>(index));
  }
  /// The member of that name, null where it is new; null becomes an object first.
  template <std::convertible_to<std::string_view> Key>
  Json& operator[](const Key& key) {
    return Member(key);
  }
  template <std::integral I>
  Json& operator[](I index) {
    return const_cast<Json&>(at(static_cast<size_t>(index)));
  }
  const Json& back() const { return at(size() - 1); }
  /// The member of that name, `otherwise` where there is none.
  template <typename T>
    requires(JsonReadable<T> || std::same_as<T, Json>)
  T value(std::string_view key, const T& otherwise) const {
    return contains(key) ? static_cast<T>(at(key)) : otherwise;
  }
  std::string value(std::string_view key, const char* otherwise) const { return value(key, std::string(otherwise)); }

  /// null becomes an array first.
  void push_back(Json value);
  void erase(std::string_view key);
  /// Takes the members of another object.
  void update(const Json& other);

  const Json* begin() const;
  const Json* end() const { return begin() + size(); }
  /// Names and values of an object, in order.
  std::vector<std::pair<const std::string&, const Json&>> items() const;

  friend bool operator==(const Json& a, const Json& b);
  friend bool operator<(const Json& a, const Json& b);

 private:
  friend struct JsonAccess;
  struct Bool {
    bool value;
  };
  struct Signed {
    int64_t value;
  };
  struct Unsigned {
    uint64_t value;
  };
  explicit Json(Bool value);
  explicit Json(Signed value);
  explicit Json(Unsigned value);
  Json& Member(std::string_view key);
  void Read(bool* value) const;
  void Read(int* value) const;
  void Read(int64_t* value) const;
  void Read(size_t* value) const;
  void Read(float* value) const;
  void Read(double* value) const;
  void Read(std::string* value) const;
  template <typename T>
  void Read(std::vector<T>* values) const {
    if (!is_array()) Mismatch("array");
    for (const Json& value : *this) values->push_back(value.get<T>());
  }
  [[noreturn]] void Mismatch(const char* expected) const;

  /// A nlohmann::ordered_json, constructed in place: members and elements of one are `Json` by their addresses.
  alignas(8) std::byte value_[16];
};

}  // namespace treadle
