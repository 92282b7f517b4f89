// SPDX-License-Identifier: Apache-2.0
#include "treadle/schedule/plan.h"

#include <cstdio>

#include "treadle/base/json.h"
#include "treadle/runtime/reflection.h"
#include "treadle/schedule/problems.h"

namespace treadle::schedule {

TREADLE_DEFINE_NODE(ProblemNode);
TREADLE_DEFINE_NODE(PlanNode);
TREADLE_DEFINE_NODE(ConvProblemNode);
TREADLE_DEFINE_NODE(MatmulProblemNode);
TREADLE_DEFINE_NODE(AttentionProblemNode);

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

std::string ToJson(const ObjectRef& record) {
  TREADLE_ICHECK(record.defined()) << "a null problem or plan";
  Json json{{kType, record->type_key()}};
  for (const FieldInfo& field : record->type_info()->fields) json[field.name] = ValueOf(field, record.get());
  return json.dump();
}

ObjectRef FromJson(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains(kType) || !json[kType].is_string()) {
    throw Error(StrCat("a problem or plan is a JSON object with a type, not: ", text.substr(0, 200)));
  }
  const auto key = json[kType].get<std::string>();
  const TypeInfo* type = TypeInfo::Find(key);
  const bool known = type != nullptr && type->create != nullptr &&
                     (type->IsA(PlanNode::StaticTypeInfo()) || type->IsA(ProblemNode::StaticTypeInfo()));
  if (!known) throw Error(StrCat("'", key, "' is no class of problems or plans"));
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

Problem ProblemFromJson(const std::string& text) {
  const ObjectRef result = FromJson(text);
  if (result.as<ProblemNode>() == nullptr) throw Error(StrCat(result->type_key(), " is no problem"));
  return Downcast<Problem>(result);
}

Plan PlanFromJson(const std::string& text) {
  const ObjectRef result = FromJson(text);
  if (result.as<PlanNode>() == nullptr) throw Error(StrCat(result->type_key(), " is no plan"));
  return Downcast<Plan>(result);
}

std::string SchemaHash(const TypeInfo* type) {
  uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a: the same in every build
  auto add = [&hash](const std::string& text) {
    for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  };
  add(type->key);
  for (const FieldInfo& field : type->fields) add(StrCat(";", field.name, ":", static_cast<int>(field.kind)));
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016llx", static_cast<unsigned long long>(hash));
  return digits;
}

}  // namespace treadle::schedule
