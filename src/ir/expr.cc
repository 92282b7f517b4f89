// SPDX-License-Identifier: Apache-2.0
#include "treadle/ir/expr.h"

#include <algorithm>

#include "treadle/ir/attrs.h"
#include "treadle/runtime/custom_datatype.h"

namespace treadle {

TREADLE_DEFINE_NODE(AttrsNode);
TREADLE_DEFINE_NODE(DictAttrsNode);
TREADLE_DEFINE_NODE(BaseExprNode);
TREADLE_DEFINE_NODE(PrimExprNode);
TREADLE_DEFINE_NODE(IntImmNode);
TREADLE_DEFINE_NODE(FloatImmNode);
TREADLE_DEFINE_NODE(TypeNode);
TREADLE_DEFINE_NODE(RelayExprNode);
TREADLE_DEFINE_NODE(GlobalVarNode);
TREADLE_DEFINE_NODE(SpanNode);

Span::Span(std::string source_name, int line, int column, int end_line, int end_column) {
  auto node = MakeObject<SpanNode>();
  node->source_name = std::move(source_name);
  node->line = line;
  node->column = column;
  node->end_line = end_line;
  node->end_column = end_column;
  data_ = std::move(node);
}

Span Span::Merge(const Span& a, const Span& b) {
  if (!a.defined()) return b;
  if (!b.defined() || a->source_name != b->source_name) return a;
  auto begin = std::min(std::pair(a->line, a->column), std::pair(b->line, b->column));
  auto end = std::max(std::pair(a->end_line, a->end_column), std::pair(b->end_line, b->end_column));
  return Span(a->source_name, begin.first, begin.second, end.first, end.second);
}

std::string Span::str() const {
  if (!defined()) return "";
  if (get()->line == 0) return get()->source_name;
  return StrCat(get()->source_name, ":", get()->line, ":", get()->column);
}

namespace {

bool FitsInto(int64_t value, DataType dtype) {
  if (dtype.bits() >= 64) return true;
  if (dtype.is_uint()) return value >= 0 && value < (int64_t{1} << dtype.bits());
  int64_t limit = int64_t{1} << (dtype.bits() - 1);
  return value >= -limit && value < limit;
}

}  // namespace

PrimExpr::PrimExpr(int32_t value) : PrimExpr(IntImm(DataType::Int(32), value)) {}
PrimExpr::PrimExpr(int64_t value) : PrimExpr(IntImm(DataType::Int(64), value)) {}
PrimExpr::PrimExpr(float value) : PrimExpr(FloatImm(DataType::Float(32), value)) {}

IntImm::IntImm(DataType dtype, int64_t value, Span span) {
  if (!dtype.is_scalar() || !dtype.is_integral()) {
    throw DTypeError(StrCat("an integer constant can't have dtype ", dtype));
  }
  if (!FitsInto(value, dtype)) throw DTypeError(StrCat("constant ", value, " doesn't fit into ", dtype));
  auto node = MakeObject<IntImmNode>();
  node->dtype = dtype;
  node->value = value;
  node->span = std::move(span);
  data_ = std::move(node);
}

FloatImm::FloatImm(DataType dtype, double value, Span span) {
  if (!dtype.is_scalar() || !runtime::ActsAsFloat(dtype)) {
    throw DTypeError(StrCat("a floating-point constant can't have dtype ", dtype));
  }
  auto node = MakeObject<FloatImmNode>();
  node->dtype = dtype;
  node->value = dtype == DataType::Float(32) ? static_cast<double>(static_cast<float>(value)) : value;
  node->span = std::move(span);
  data_ = std::move(node);
}

GlobalVar::GlobalVar(std::string name_hint, Type type, Span span) {
  auto node = MakeObject<GlobalVarNode>();
  node->name_hint = std::move(name_hint);
  node->checked_type_ = std::move(type);
  node->span = std::move(span);
  data_ = std::move(node);
}

DictAttrs::DictAttrs(Map<String, ObjectRef> dict) {
  auto node = MakeObject<DictAttrsNode>();
  node->dict = std::move(dict);
  data_ = std::move(node);
}

}  // namespace treadle
