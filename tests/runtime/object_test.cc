// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/object.h"

#include <gtest/gtest.h>

#include "treadle/runtime/reflection.h"

namespace treadle {
namespace {

FieldInfo Named(const char* name) {
  FieldInfo field;
  field.name = name;
  field.kind = FieldKind::kInt64;
  return field;
}

TEST(TypeInfo, ANameOfAParentsFieldIsRefused) {
  const TypeInfo* parent = TypeInfo::Register("test.Parent", Object::StaticTypeInfo(), {Named("a")}, nullptr);
  EXPECT_THROW(TypeInfo::Register("test.Child", parent, {Named("b"), Named("a")}, nullptr), Error);
  EXPECT_EQ(TypeInfo::Find("test.Child"), nullptr);
}

TEST(TypeInfo, FieldsOfParentsComeFirst) {
  const TypeInfo* parent = TypeInfo::Register("test.First", Object::StaticTypeInfo(), {Named("a")}, nullptr);
  const TypeInfo* child = TypeInfo::Register("test.Second", parent, {Named("b")}, nullptr);
  ASSERT_EQ(child->fields.size(), 2U);
  EXPECT_EQ(child->fields[0].name, "a");
  EXPECT_EQ(child->fields[1].name, "b");
}

}  // namespace
}  // namespace treadle
