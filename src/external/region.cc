// SPDX-License-Identifier: Apache-2.0
#include "treadle/external/region.h"

#include <algorithm>
#include <cctype>
#include <unordered_map>

#include "treadle/base/error.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/relay/type_infer.h"

namespace treadle::external {

using relay::CallNode;
using relay::ConstantNode;
using relay::Expr;
using relay::Function;
using relay::FunctionNode;
using relay::TupleGetItemNode;
using relay::TupleNode;
using relay::VarNode;

namespace {

class Dissolver : public relay::ExprMutator {
 public:
  bool changed = false;

 private:
  using ExprMutator::VisitExpr_;
  Expr VisitExpr_(const CallNode* call) override {
    const auto* func = call->op.as<FunctionNode>();
    if (func == nullptr || !func->attrs->dict.contains(attr::kComposite)) return ExprMutator::VisitExpr_(call);
    changed = true;
    Map<relay::Var, Expr> values;
    for (size_t i = 0; i < func->params.size(); ++i) values.Set(func->params[i], call->args[i]);
    return Mutate(relay::Bind(func->body, values));
  }
};

}  // namespace

Tensor TensorOf(const Expr& expr) {
  const auto* type = expr->type_as<TensorTypeNode>();
  if (type == nullptr) throw DTypeError("an external code generator met a value that isn't a tensor");
  return {StaticShape(type, "a value of an external code generator"), type->dtype};
}

bool CheckTensors(const CallNode* call, const std::vector<DataType>& dtypes, std::string* reason) {
  DataType first;
  auto check = [&](const Type& type, const char* what) {
    const auto* tensor = type.defined() ? type.as<TensorTypeNode>() : nullptr;
    if (tensor == nullptr) {
      *reason = StrCat(what, " isn't a tensor");
      return false;
    }
    if (!IsStatic(tensor)) {
      *reason = StrCat(what, " has symbolic dimensions");
      return false;
    }
    for (int64_t dim : StaticShape(tensor, what)) {
      if (dim != 0) continue;
      *reason = StrCat(what, " has no elements");
      return false;
    }
    if (std::find(dtypes.begin(), dtypes.end(), tensor->dtype) == dtypes.end()) {
      *reason = StrCat(what, " is of type ", tensor->dtype);
      return false;
    }
    if (first.is_void()) first = tensor->dtype;
    if (tensor->dtype == first) return true;
    *reason = StrCat("types ", first, " and ", tensor->dtype, " are mixed");
    return false;
  };
  for (const Expr& arg : call->args) {
    const auto* tuple = arg->checked_type_.defined() ? arg->checked_type_.as<TupleTypeNode>() : nullptr;
    if (tuple == nullptr) {
      if (!check(arg->checked_type_, "an operand")) return false;
      continue;
    }
    for (const Type& field : tuple->fields) {
      if (!check(field, "an operand")) return false;
    }
  }
  return check(call->checked_type_, "the result");
}

Function DissolveComposites(const Function& function) {
  Dissolver dissolver;
  Expr body = dissolver.Mutate(function->body);
  if (!dissolver.changed) return function;
  Function plain(function->params, body, function->ret_type, function->type_params);
  plain = Downcast<Function>(relay::InferType(plain));
  return Function(plain->params, plain->body, plain->ret_type, plain->type_params, function->attrs, function->span);
}

std::pair<bool, bool> TransposedOperands(const RegionNode& node) {
  if (const auto* attrs = node.call->attrs.as<ops::MatmulAttrs>()) return {attrs->transpose_a, attrs->transpose_b};
  if (const auto* attrs = node.call->attrs.as<ops::BatchMatmulAttrs>()) return {attrs->transpose_a, attrs->transpose_b};
  return {false, true};  // nn.dense
}

const std::string& RegionNode::op() const { return call->op.as<OpNode>()->name; }

Region::Region(const Function& function) {
  auto given = function->GetAttr<String>(attr::kGlobalSymbol);
  symbol = given ? given->str() : "main";
  for (char c : symbol) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') {
      throw Error(StrCat("'", symbol, "' can't be the name of a function in a library"));
    }
  }
  function_ = DissolveComposites(function);
  std::unordered_map<const Object*, std::vector<int>> values;  // nodes of each expression's tensors
  // Constants are numbered as DefaultConstants does.
  std::unordered_map<const Object*, int> numbers;
  relay::PostOrderVisit(function->body, [&](const Expr& e) {
    const auto* constant = e.as<ConstantNode>();
    if (constant != nullptr) numbers.emplace(constant->data.get(), static_cast<int>(constant_count_++));
  });
  auto add = [&](const Expr& e, RegionNode node) {
    node.type = TensorOf(e);
    values[e.get()] = {static_cast<int>(nodes.size())};
    nodes.push_back(std::move(node));
  };
  for (const relay::Var& param : function_->params) {
    RegionNode node;
    node.index = static_cast<int>(params.size());
    params.push_back(static_cast<int>(nodes.size()));
    add(param, std::move(node));
  }
  relay::PostOrderVisit(function_->body, [&](const Expr& e) {
    if (values.count(e.get()) != 0 || e.as<OpNode>() != nullptr) return;
    if (const auto* constant = e.as<ConstantNode>()) {
      RegionNode node;
      node.kind = RegionNode::kConstant;
      node.data = constant->data;
      node.index = numbers.at(constant->data.get());
      add(e, std::move(node));
    } else if (const auto* tuple = e.as<TupleNode>()) {
      auto& fields = values[e.get()];
      for (const Expr& field : tuple->fields) {
        const auto& parts = values.at(field.get());
        fields.insert(fields.end(), parts.begin(), parts.end());
      }
    } else if (const auto* item = e.as<TupleGetItemNode>()) {
      values[e.get()] = {values.at(item->tuple.get()).at(static_cast<size_t>(item->index))};
    } else if (const auto* call = e.as<CallNode>(); call != nullptr && call->op.as<OpNode>() != nullptr) {
      RegionNode node;
      node.kind = RegionNode::kCall;
      node.call = call;
      for (const Expr& arg : call->args) {
        for (int input : values.at(arg.get())) {
          node.inputs.push_back(input);
          ++nodes[static_cast<size_t>(input)].uses;
        }
      }
      add(e, std::move(node));
    } else if (e.as<VarNode>() == nullptr) {
      throw Error(StrCat("a region can't hold a ", e->type_key()));
    } else {
      throw Error(StrCat("variable '", e.as<VarNode>()->name_hint(), "' of a region isn't a parameter"));
    }
  });
  outputs = values.at(function_->body.get());
  for (int output : outputs) ++nodes[static_cast<size_t>(output)].uses;
}

}  // namespace treadle::external
