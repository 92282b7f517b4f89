// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/reflection.h"

namespace treadle {

FieldBuilder& FieldBuilder::Doc(std::string_view text) {
  info_->doc = text;
  return *this;
}

FieldBuilder& FieldBuilder::Defines() {
  info_->role = FieldRole::kDefine;
  return *this;
}

FieldBuilder& FieldBuilder::Ignored() {
  info_->role = FieldRole::kIgnore;
  return *this;
}

FieldBuilder& FieldBuilder::Required() {
  info_->required = true;
  return *this;
}

FieldBuilder& FieldBuilder::Range(double lower, double upper) {
  info_->lower = lower;
  info_->upper = upper;
  return *this;
}

FieldBuilder& FieldBuilder::AtLeast(double lower) {
  info_->lower = lower;
  return *this;
}

FieldBuilder Reflector::Add(std::string_view name, FieldKind kind, size_t offset) {
  FieldInfo& info = fields.emplace_back();
  info.name = name;
  info.kind = kind;
  info.offset = offset;
  return FieldBuilder(&info);
}

}  // namespace treadle
