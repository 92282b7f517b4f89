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

/// Of arrays and objects of a text: what is read is walked by recursion.
constexpr size_t kMaxDepth = 512;

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

/// Leaves no element or member that has some itself. The library's destructor allocates for those, which ends the
/// process where memory is exhausted. Texts are kMaxDepth deep at most, what is built less.
void Clear(Value& value) noexcept {
  if (auto* array = value.get_ptr<Value::array_t*>()) {
    for (Value& element : *array) {
      if (element.is_structured()) Clear(element);
    }
    array->clear();
  } else if (auto* object = value.get_ptr<Value::object_t*>()) {
    for (auto& [key, member] : *object) {
      if (member.is_structured()) Clear(member);
    }
    object->clear();
  }
}

/// The member of that name of an object. The library's objects are vectors whose elements can't be moved: when they
/// grow, it copies all that they hold.
Value& MemberOf(Value& object, const std::string& name) {
  auto& members = object.get_ref<Value::object_t&>();
  if (members.size() == members.capacity() && members.find(name) == members.end()) {
    Value::object_t larger;
    larger.reserve(2 * members.size() + 4);
    for (const auto& [key, member] : members) larger.emplace_back(key, nullptr);
    auto to = larger.begin();
    for (auto& [key, member] : members) (to++)->second = std::move(member);
    members.swap(larger);
  }
  return members[name];
}

/// As the library's copy, but what is there when memory is exhausted is freed by Clear.
void CopyTo(Json& to, const Value& from) {
  if (const auto* array = from.get_ptr<const Value::array_t*>()) {
    to = Made(Value::array());
    for (const Value& element : *array) {
      In(to).push_back(nullptr);
      CopyTo(JsonAccess::Out(In(to).back()), element);
    }
  } else if (const auto* object = from.get_ptr<const Value::object_t*>()) {
    to = Made(Value::object());
    for (const auto& [key, member] : *object) CopyTo(JsonAccess::Out(MemberOf(In(to), key)), member);
  } else {
    In(to) = from;
  }
}

/// Builds what a text says in a Json, so that it is freed by Clear if the text or memory ends before.
class Builder {
 public:
  explicit Builder(Json* root) : root_(root) {}

  bool null() { return Put(nullptr); }
  bool boolean(bool value) { return Put(value); }
  bool number_integer(int64_t value) { return Put(value); }
  bool number_unsigned(uint64_t value) { return Put(value); }
  bool number_float(double value, const std::string&) { return Put(value); }
  bool string(std::string& value) { return Put(std::move(value)); }
  bool binary(Value::binary_t&) { return false; }  // not in texts
  bool start_object(size_t) { return Open(Value::object()); }
  bool start_array(size_t) { return Open(Value::array()); }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }
  bool key(const std::string& name) {
    member_ = &MemberOf(*open_.back(), name);
    return true;
  }
  bool parse_error(size_t, const std::string&, const Value::exception& error) {
    problem = error.what();
    return false;
  }

  std::string problem;

 private:
  Value* Place() {
    if (open_.empty()) return &In(*root_);
    Value& parent = *open_.back();
    if (!parent.is_array()) return member_;
    parent.push_back(nullptr);
    return &parent.back();
  }
  bool Put(Value&& value) {
    *Place() = std::move(value);
    return true;
  }
  bool Open(Value&& value) {
    if (open_.size() == kMaxDepth) {
      problem = StrCat("nested more than ", kMaxDepth, " deep");
      return false;
    }
    Value* place = Place();
    *place = std::move(value);
    open_.push_back(place);
    return true;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  Json* root_;
  std::vector<Value*> open_;  ///< arrays and objects, from the outermost
  Value* member_ = nullptr;   ///< of the innermost, whose value comes next
};

}  // namespace

Json::Json(std::nullptr_t) { new (value_) Value(); }
Json::Json(Bool value) { new (value_) Value(value.value); }
Json::Json(Signed value) { new (value_) Value(value.value); }
Json::Json(Unsigned value) { new (value_) Value(value.value); }
Json::Json(double value) { new (value_) Value(value); }
Json::Json(const char* value) { new (value_) Value(value); }
Json::Json(std::string value) { new (value_) Value(std::move(value)); }
Json::Json(std::string_view value) { new (value_) Value(value); }
Json::Json(const Json& other) : Json() { CopyTo(*this, In(other)); }
Json::Json(Json&& other) noexcept { new (value_) Value(std::move(In(other))); }
Json::~Json() {
  Clear(In(*this));
  In(*this).~basic_json();
}

Json::Json(std::initializer_list<Json> values) : Json() {
  const bool members = std::all_of(values.begin(), values.end(), [](const Json& value) {
    return value.is_array() && value.size() == 2 && value[0].is_string();
  });
  In(*this) = members ? Value::object() : Value::array();
  for (const Json& value : values) {
    if (members && !contains(In(value)[0].get_ref<const std::string&>())) {  // of equal names the first counts
      CopyTo(Member(In(value)[0].get_ref<const std::string&>()), In(value)[1]);
    } else if (!members) {
      push_back(value);
    }
  }
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
  Json json;
  Builder builder(&json);
  if (Checked([&] { return Value::sax_parse(text, &builder); })) return json;
  if (allow_exceptions) throw JsonError(builder.problem);
  return Made(Value(Value::value_t::discarded));
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
  if (is_null()) In(*this) = Value::object();
  if (!is_object()) Mismatch("object");
  return JsonAccess::Out(MemberOf(In(*this), std::string(key)));
}

void Json::push_back(Json value) {
  Checked([&] { In(*this).push_back(std::move(In(value))); });
}

void Json::erase(std::string_view key) {
  Checked([&] { In(*this).erase(std::string(key)); });
}

void Json::update(const Json& other) {
  if (!is_null() && !is_object()) Mismatch("object");
  for (const auto& [key, value] : other.items()) Member(key) = value;
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
