// SPDX-License-Identifier: Apache-2.0
// Operator attributes from names and values, checked against the declarations of the fields.
#include <unordered_set>

#include "python/api.h"
#include "treadle/base/error.h"
#include "treadle/runtime/reflection.h"

namespace treadle::python {
namespace {

/// Turns values into the C++ type of a field.
class FieldSetter {
 public:
  FieldSetter(const FieldInfo& field, const std::string& what, ObjectRef value)
      : field_(field), what_(what), value_(std::move(value)) {}

  void Set(Object* node) const {
    switch (field_.kind) {
      case FieldKind::kBool:
        field_.GetMutable<bool>(node) = Int(value_) != 0;
        break;
      case FieldKind::kInt32:
        field_.GetMutable<int>(node) = static_cast<int>(Int(value_));
        break;
      case FieldKind::kInt64:
        field_.GetMutable<int64_t>(node) = Int(value_);
        break;
      case FieldKind::kDouble:
        field_.GetMutable<double>(node) = Double(value_);
        break;
      case FieldKind::kString:
        field_.GetMutable<std::string>(node) = Text(value_);
        break;
      case FieldKind::kDataType:
        field_.GetMutable<DataType>(node) = value_.defined() ? DataType::FromString(Text(value_)) : DataType::Void();
        break;
      case FieldKind::kObject:
        field_.GetMutable<ObjectRef>(node) = WithWideDims(value_);
        break;
      case FieldKind::kInt64s:
        field_.GetMutable<std::vector<int64_t>>(node) = Ints();
        break;
      case FieldKind::kDoubles:
        field_.GetMutable<std::vector<double>>(node) =
            List<double>([&](const ObjectRef& item) { return Double(item); });
        break;
      case FieldKind::kStrings:
        field_.GetMutable<std::vector<std::string>>(node) =
            List<std::string>([&](const ObjectRef& item) { return Text(item); });
        break;
      default:
        SetOptional(node);
    }
  }

 private:
  void SetOptional(Object* node) const {
    const bool absent = !value_.defined();
    if (field_.kind == FieldKind::kOptInt64) {
      field_.GetMutable<std::optional<int64_t>>(node) = absent ? std::nullopt : std::optional<int64_t>(Int(value_));
    } else if (field_.kind == FieldKind::kOptDouble) {
      field_.GetMutable<std::optional<double>>(node) = absent ? std::nullopt : std::optional<double>(Double(value_));
    } else {
      field_.GetMutable<std::optional<std::vector<int64_t>>>(node) =
          absent ? std::nullopt : std::optional<std::vector<int64_t>>(Ints());
    }
  }

  /// Python's integers are dimensions: int64, as the text form and the importers have them.
  static ObjectRef WithWideDims(const ObjectRef& value) {
    if (const auto* imm = value.as<IntImmNode>(); imm != nullptr && imm->dtype == DataType::Int(32)) {
      return IntImm(DataType::Int(64), imm->value);
    }
    const auto* array = value.as<ArrayNode>();
    if (array == nullptr) return value;
    Array<ObjectRef> wide;
    for (const ObjectRef& item : array->items) wide.push_back(WithWideDims(item));
    return wide;
  }

  [[noreturn]] void Bad(const char* expected) const {
    throw Error(StrCat(what_, ": attribute '", field_.name, "' expects ", expected, ", got ",
                       value_.defined() ? value_->type_key() : std::string("None")));
  }

  template <typename T>
  T Checked(T value) const {
    if ((field_.lower && value < *field_.lower) || (field_.upper && value > *field_.upper)) {
      throw Error(StrCat(what_, ": attribute '", field_.name, "' is ", value, ", out of its range [",
                         field_.lower ? StrCat(*field_.lower) : "-inf", ", ",
                         field_.upper ? StrCat(*field_.upper) : "inf", "]"));
    }
    return value;
  }
  int64_t Int(const ObjectRef& value) const {
    if (const auto* imm = value.as<IntImmNode>()) return Checked(imm->value);
    Bad("an integer");
  }
  double Double(const ObjectRef& value) const {
    if (const auto* imm = value.as<FloatImmNode>()) return Checked(imm->value);
    if (const auto* imm = value.as<IntImmNode>()) return Checked(static_cast<double>(imm->value));
    Bad("a number");
  }
  std::string Text(const ObjectRef& value) const {
    if (const auto* text = value.as<StringNode>()) return text->value;
    Bad("a string");
  }
  template <typename T, typename F>
  std::vector<T> List(F&& convert) const {
    const auto* array = value_.as<ArrayNode>();
    if (array == nullptr) return {convert(value_)};  // one value stands for a list of one
    std::vector<T> result;
    for (const ObjectRef& item : array->items) result.push_back(convert(item));
    return result;
  }
  std::vector<int64_t> Ints() const {
    return List<int64_t>([&](const ObjectRef& item) { return Int(item); });
  }

  const FieldInfo& field_;
  const std::string& what_;
  ObjectRef value_;
};

}  // namespace

Attrs MakeAttrsFromMap(const TypeInfo* type, const Map<String, ObjectRef>& values, const std::string& what) {
  if (type->create == nullptr || !type->IsA(AttrsNode::StaticTypeInfo())) {
    throw Error(StrCat(what, ": ", type->key, " isn't a class of attributes"));
  }
  ObjectRef node(ObjectPtr<Object>(type->create()));
  std::unordered_set<std::string> set;
  for (const auto& [name, value] : values) {
    const FieldInfo* found = nullptr;
    std::string known;
    for (const FieldInfo& field : type->fields) {
      if (field.name == name.str()) found = &field;
      known += (known.empty() ? "" : ", ") + field.name;
    }
    if (found == nullptr) throw Error(StrCat(what, " has no attribute '", name, "'; it has: ", known));
    FieldSetter(*found, what, value).Set(const_cast<Object*>(node.get()));
    set.insert(name.str());
  }
  for (const FieldInfo& field : type->fields) {
    // Optional fields that are marked as required are always printed; they need not be given.
    bool optional = field.kind == FieldKind::kOptInt64 || field.kind == FieldKind::kOptDouble ||
                    field.kind == FieldKind::kOptInt64s;
    if (field.required && !optional && set.count(field.name) == 0) {
      throw Error(StrCat(what, " needs the attribute '", field.name, "'"));
    }
  }
  return Attrs(node.data());
}

}  // namespace treadle::python
