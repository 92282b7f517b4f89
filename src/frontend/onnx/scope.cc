// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/scope.h"

#include "frontend/onnx/expr_builder.h"
#include "frontend/onnx/moved_weights.h"
#include "frontend/onnx/tensor_data.h"
#include "frontend/onnx/text_operands.h"
#include "frontend/onnx/values.h"

namespace treadle::onnx {

using relay::Expr;

const NDArray& Value::array() {
  if (!array_.defined()) {
    std::string where = StrCat("initializer ", QuoteName(name_));
    array_ = tensor_ ? ToNDArray(*tensor_, where, weights_->has_large_weights()) : ToNDArray(*sparse_, where);
  }
  return array_;
}

Expr Value::expr() {
  if (!expr_.defined() && is_text()) {
    ExprBuilder builder{Span(name_)};
    expr_ = TextConstant(builder, *tensor_);
  }
  if (!expr_.defined()) expr_ = weights_->WeightExpr(name_, array());
  return expr_;
}

std::optional<NDArray> Value::known() {
  if (is_text()) return std::nullopt;
  if (tensor_ != nullptr || sparse_ != nullptr) return array();
  if (!expr_.defined() || computed_) return std::nullopt;
  std::optional<NDArray> value = MovedWeight(expr_);
  if (value && expr_.as<relay::ConstantNode>() == nullptr) expr_ = MakeConstant(*value, expr_->span);
  computed_ = !value;
  return value;
}

std::shared_ptr<Value> Scope::Lookup(const std::string& name) {
  auto it = values.find(name);
  if (it != values.end()) return it->second;
  std::shared_ptr<Value> value = outer == nullptr ? nullptr : outer->Lookup(name);
  if (value == nullptr || !is_function || value->poisoned()) return value;
  return values[name] = Capture(name, *value);
}

std::shared_ptr<Value> Scope::Shared(const std::string& name) {
  std::shared_ptr<Value> value = Lookup(name);
  return value != nullptr ? value : std::make_shared<Value>();  // an input that the function's caller leaves out
}

std::shared_ptr<Value> Scope::Capture(const std::string& name, Value& value) {
  // Weights are constants within: kernels of the function can prepare them.
  if (auto known = value.known()) {
    auto constant = std::make_shared<Value>(MakeConstant(*known, Span(name)));
    constant->set_sub_byte(value.sub_byte());
    return constant;
  }
  relay::Expr expr = value.expr();
  for (const auto& [var, source] : captured) {
    if (source.same_as(expr)) return std::make_shared<Value>(relay::Expr(var), value.is_text());
  }
  relay::Var var = MakeVar(name, expr->checked_type(), expr->span);
  captured.emplace_back(var, expr);
  return std::make_shared<Value>(relay::Expr(var), value.is_text());
}

}  // namespace treadle::onnx
