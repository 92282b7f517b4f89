// SPDX-License-Identifier: Apache-2.0
#include "treadle/ir/flat_json.h"

#include "treadle/base/json.h"
#include "treadle/runtime/reflection.h"

namespace treadle {
namespace {

constexpr const char* kType = "type";

Json ValueOf(const FieldInfo& field, const Object* object) {
  switch (field.kind) {
    case FieldKind::kBool:
      return field.Get<bool>(object);
    case FieldKind::kInt32:
      return field.Get<int>(object);
    case FieldKind::kInt64:
      return field.Get<int64_t>(object);
    case FieldKind::kDouble:
      return field.Get<double>(object);
    case FieldKind::kString:
      return field.Get<std::string>(object);
    case FieldKind::kDataType:
      return field.Get<DataType>(object).str();
    default:
      TREADLE_ICHECK(false) << "field " << field.name << " of " << object->type_key() << " isn't plain data";
      return {};
  }
}

void SetValue(const FieldInfo& field, const Json& value, Object* object) {
  switch (field.kind) {
    case FieldKind::kBool:
      field.GetMutable<bool>(object) = value.get<bool>();
      break;
    case FieldKind::kInt32:
    case FieldKind::kInt64: {
      if (!value.is_number_integer()) throw Error("an integer is expected");
      const auto number = value.get<int64_t>();
      if (field.kind == FieldKind::kInt64) {
        field.GetMutable<int64_t>(object) = number;
      } else if (number == static_cast<int>(number)) {
        field.GetMutable<int>(object) = static_cast<int>(number);
      } else {
        throw Error(StrCat(number, " doesn't fit into 32 bits"));
      }
      break;
    }
    case FieldKind::kDouble:
      field.GetMutable<double>(object) = value.get<double>();
      break;
    case FieldKind::kString:
      field.GetMutable<std::string>(object) = value.get<std::string>();
      break;
    case FieldKind::kDataType:
      field.GetMutable<DataType>(object) = DataType::FromString(value.get<std::string>());
      break;
    default:
      TREADLE_ICHECK(false) << "field " << field.name << " isn't plain data";
  }
}

}  // namespace

std::string ToFlatJson(const ObjectRef& node) {
  TREADLE_ICHECK(node.defined()) << "a null node";
  Json json{{kType, node->type_key()}};
  for (const FieldInfo& field : node->type_info()->fields) json[field.name] = ValueOf(field, node.get());
  return json.dump();
}

ObjectRef FromFlatJson(const std::string& text, const std::string& what, const TypeInfo* base) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains(kType) || !json[kType].is_string()) {
    throw Error(StrCat("a ", what, " is a JSON object with a type, not: ", text.substr(0, 200)));
  }
  const auto key = json[kType].get<std::string>();
  const TypeInfo* type = TypeInfo::Find(key);
  if (type == nullptr || type->create == nullptr || !type->IsA(base)) throw Error(StrCat("'", key, "' is no ", what));
  ObjectRef result{ObjectPtr<Object>(type->create())};
  for (const FieldInfo& field : type->fields) {
    if (!json.contains(field.name)) throw Error(StrCat(key, " without '", field.name, "': ", text.substr(0, 200)));
    try {
      SetValue(field, json[field.name], const_cast<Object*>(result.get()));
    } catch (const Error& e) {
      throw Error(StrCat(key, ", field '", field.name, "': ", e.what()));
    }
  }
  if (json.size() != type->fields.size() + 1) {
    for (const auto& [name, value] : json.items()) {
      bool field = name == kType;
      for (const FieldInfo& info : type->fields) field |= info.name == name;
      if (!field) throw Error(StrCat(key, " has no field '", name, "'"));
    }
  }
  return result;
}

}  // namespace treadle
