// SPDX-License-Identifier: Apache-2.0
#include "treadle/schedule/plan.h"

#include <cstdio>

#include "treadle/ir/flat_json.h"
#include "treadle/runtime/reflection.h"
#include "treadle/schedule/problems.h"

namespace treadle::schedule {

TREADLE_DEFINE_NODE(PlanNode);
TREADLE_DEFINE_NODE(ConvProblemNode);
TREADLE_DEFINE_NODE(MatmulProblemNode);
TREADLE_DEFINE_NODE(AttentionProblemNode);

Plan PlanFromJson(const std::string& text) {
  return Downcast<Plan>(FromFlatJson(text, "plan", PlanNode::StaticTypeInfo()));
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
