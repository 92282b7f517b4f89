// SPDX-License-Identifier: Apache-2.0
#include "treadle/base/json.h"

#include <algorithm>
#include <new>
#include <nlohmann/json.hpp>

#include "treadle/base/text.h"

namespace treadle {

using Value = nlohmann::ordered_json;

static_assert(sizeof(Json) == sizeof(Value) && alignof(Json) == alignof(Value));

struct JsonAccess {
  static Value& In(Json& json) { return *std::launder(reinterpret_cast<Value*>(json.value_)); }
  static const Value& In(const Json& json) { return *std::launder(reinterpret_cast<const Value*>(json.value_)); }
  static Json& Out(Value& value) { return reinterpret_cast<Json&>(value); }
  static const Json& Out(const Value& value) { return reinterpret_cast<const Json&>(value); }
};

namespace {

Value& In(Json& json) { return JsonAccess::In(json); }
const Value& In(const Json& json) { return JsonAccess::In(json); }

/// What `call` gives; errors of the library become JsonError.
template <typename Call>
decltype(auto) Checked(Call call) {
  try {
    return call();
  } catch (const Value::exception& error) {
    throw JsonError(error.what());
  }
}

Json Made(Value value) {
  Json json;
  In(json) = std::move(value);
  return json;
}

}  // namespace

Json::Json(std::nullptr_t) { new (value_) Value(); }
Json::Json(Bool value) { new (value_) Value(value.value); }
Json::Json(Signed value) { new (value_) Value(value.value); }
Json::Json(Unsigned value) { new (value_) Value(value.value); }
Json::Json(double value) { new (value_) Value(value); }
Json::Json(const char* value) { new (value_) Value(value); }
Json::Json(std::string value) { new (value_) Value(std::move(value)); }
Json::Json(std::string_view value) { new (value_) Value(value); }
Json::Json(const Json& other) { new (value_) Value(In(other)); }
Json::Json(Json&& other) noexcept { new (value_) Value(std::move(In(other))); }
Json::~Json() { In(*this).~basic_json(); }

Json::Json(std::initializer_list<Json> values) : Json() {
  const bool members = std::all_of(values.begin(), values.end(), [](const Json& value) {
    return value.is_array() && value.size() == 2 && value[0].is_string();
  });
  Value made = members ? Value::object() : Value::array();
  for (const Json& value : values) {
    if (members) {
      made.emplace(In(value)[0].get_ref<const std::string&>(), Value(In(value)[1]));
    } else {
      made.push_back(In(value));
    }
  }
  In(*this) = std::move(made);
}

Json& Json::operator=(Json other) noexcept {
  In(*this).swap(In(other));
  return *this;
}

Json Json::array(std::initializer_list<Json> values) {
  Json json = Made(Value::array());
  for (const Json& value : values) json.push_back(value);
  return json;
}

Json Json::object() { return Made(Value::object()); }

Json Json::parse(std::string_view text, std::nullptr_t, bool allow_exceptions) {
  return Made(Checked([&] { return Value::parse(text, nullptr, allow_exceptions); }));
}

std::string Json::dump(int indent, char indent_char, bool ensure_ascii, error_handler_t errors) const {
  const auto handler =
      errors == error_handler_t::strict ? Value::error_handler_t::strict : Value::error_handler_t::replace;
  return Checked([&] { return In(*this).dump(indent, indent_char, ensure_ascii, handler); });
}

bool Json::is_null() const { return In(*this).is_null(); }
bool Json::is_boolean() const { return In(*this).is_boolean(); }
bool Json::is_number() const { return In(*this).is_number(); }
bool Json::is_number_integer() const { return In(*this).is_number_integer(); }
bool Json::is_string() const { return In(*this).is_string(); }
bool Json::is_array() const { return In(*this).is_array(); }
bool Json::is_object() const { return In(*this).is_object(); }

void Json::Read(bool* value) const {
  Checked([&] { In(*this).get_to(*value); });
}
void Json::Read(int* value) const {
  Checked([&] { In(*this).get_to(*value); });
}
void Json::Read(int64_t* value) const {
  Checked([&] { In(*this).get_to(*value); });
}
void Json::Read(size_t* value) const {
  Checked([&] { In(*this).get_to(*value); });
}
void Json::Read(float* value) const {
  Checked([&] { In(*this).get_to(*value); });
}
void Json::Read(double* value) const {
  Checked([&] { In(*this).get_to(*value); });
}
void Json::Read(std::string* value) const {
  Checked([&] { In(*this).get_to(*value); });
}

void Json::Mismatch(const char* expected) const {
  throw JsonError(StrCat("type must be ", expected, ", but is ", In(*this).type_name()));
}

size_t Json::size() const { return In(*this).size(); }
bool Json::empty() const { return In(*this).empty(); }
bool Json::contains(std::string_view key) const { return In(*this).contains(key); }

const Json& Json::at(std::string_view key) const {
  return Checked([&]() -> const Json& { return JsonAccess::Out(In(*this).at(std::string(key))); });
}

const Json& Json::at(size_t index) const {
  return Checked([&]() -> const Json& { return JsonAccess::Out(In(*this).at(index)); });
}

Json& Json::Member(std::string_view key) {
  return Checked([&]() -> Json& { return JsonAccess::Out(In(*this)[std::string(key)]); });
}

void Json::push_back(Json value) {
  Checked([&] { In(*this).push_back(std::move(In(value))); });
}

void Json::erase(std::string_view key) {
  Checked([&] { In(*this).erase(std::string(key)); });
}

void Json::update(const Json& other) {
  Checked([&] { In(*this).update(In(other)); });
}

const Json* Json::begin() const {
  if (is_null()) return nullptr;
  if (!is_array()) Mismatch("array");
  return empty() ? nullptr : &at(0);
}

std::vector<std::pair<const std::string&, const Json&>> Json::items() const {
  std::vector<std::pair<const std::string&, const Json&>> items;
  if (is_null()) return items;
  if (!is_object()) Mismatch("object");
  for (const auto& [key, value] : In(*this).get_ref<const Value::object_t&>()) {
    items.emplace_back(key, JsonAccess::Out(value));
  }
  return items;
}

bool operator==(const Json& a, const Json& b) { return In(a) == In(b); }
bool operator<(const Json& a, const Json& b) { return In(a) < In(b); }

}  // namespace treadle
