// SPDX-License-Identifier: Apache-2.0
// Properties and rules of operators that Python sets: how passes rewrite, fuse and partition their calls.
#include "python/checked.h"
#include "treadle/ir/op.h"
#include "treadle/relay/byoc.h"
#include "treadle/relay/rewrite_rules.h"

namespace treadle::python {

using runtime::ArgValue;
using runtime::PackedFunc;
using runtime::Registry;

namespace {

/// Rules by (operator, key) as Python gave them, with their levels: a rule of a lower level doesn't replace one of a
/// higher.
std::map<std::pair<std::string, std::string>, int>& Levels() {
  static auto* levels = new std::map<std::pair<std::string, std::string>, int>();
  return *levels;
}

relay::FLegalize AsRewriteRule(const PackedFunc& rule) {
  return [rule](const Attrs& attrs, const Array<RelayExpr>& args, const Array<Type>& types) -> RelayExpr {
    ObjectRef result = rule(attrs, args, types).As<ObjectRef>();
    return result.defined() ? Expect<RelayExpr>(result) : RelayExpr();
  };
}

void SetRule(const std::string& op, const std::string& key, const PackedFunc& rule) {
  OpRegistration registration(op);
  if (key == "FTVMLegalize") {
    registration.Set(relay::kLegalize, AsRewriteRule(rule));
  } else if (key == "FTVMAlterOpLayout") {
    registration.Set(relay::kAlterOpLayout, AsRewriteRule(rule));
  } else if (key.compare(0, 7, "target.") == 0) {
    relay::RegisterExternalOp(key.substr(7), op, [rule](const relay::CallNode* call, std::string* reason) {
      bool taken = rule(GetRef<RelayExpr>(call)).As<bool>();
      if (!taken && reason != nullptr) *reason = "the rule of the code generator declines it";
      return taken;
    });
  } else {
    throw Error(StrCat("operators have no rule '", key,
                       "' that Python can set; there are FTVMLegalize, "
                       "FTVMAlterOpLayout, TOpPattern, TOpIsStateful, TNonComputational, "
                       "FTVMMixedPrecisionConversionType and target.<compiler>"));
  }
}

void SetNumber(const std::string& op, const std::string& key, int64_t value) {
  OpRegistration registration(op);
  if (key == "TOpPattern") {
    registration.Set(kOpPattern, static_cast<OpPatternKind>(value));
  } else if (key == "TOpIsStateful") {
    registration.Set(kOpIsStateful, value != 0);
  } else if (key == "TNonComputational") {
    registration.Set(kNonComputational, value != 0);
  } else if (key == "FTVMMixedPrecisionConversionType") {
    registration.Set(relay::kMixedPrecision, static_cast<relay::MixedPrecisionKind>(value));
  } else if (key.compare(0, 7, "target.") == 0) {
    relay::RegisterExternalOp(key.substr(7), op, [value](const relay::CallNode*, std::string* reason) {
      if (value == 0 && reason != nullptr) *reason = "the code generator declines the operator";
      return value != 0;
    });
  } else {
    throw Error(StrCat("operators have no property '", key, "' that takes a number"));
  }
}

bool IsNewer(const std::string& op, const std::string& key, int level) {
  auto [it, inserted] = Levels().emplace(std::make_pair(op, key), level);
  if (!inserted && it->second > level) return false;
  it->second = level;
  return true;
}

/// The number of a property, or null where the operator hasn't got it.
ObjectRef GetNumber(const Op& op, const std::string& key) {
  auto number = [](int64_t value) -> ObjectRef { return IntImm(DataType::Int(64), value); };
  if (key == "TOpPattern") {
    if (const auto* value = op.GetAttr(kOpPattern)) return number(static_cast<int>(*value));
  } else if (key == "TOpIsStateful") {
    if (const auto* value = op.GetAttr(kOpIsStateful)) return number(*value ? 1 : 0);
  } else if (key == "TNonComputational") {
    if (const auto* value = op.GetAttr(kNonComputational)) return number(*value ? 1 : 0);
  } else if (key == "FTVMMixedPrecisionConversionType") {
    if (const auto* value = op.GetAttr(relay::kMixedPrecision)) return number(static_cast<int>(*value));
  }
  return ObjectRef();
}

}  // namespace

void RegisterOpAttrsApi() {
  RegisterChecked("ir.RegisterOpRule", [](std::string op, std::string key, PackedFunc rule, int level) {
    Op::Get(op);
    if (IsNewer(op, key, level)) SetRule(op, key, rule);
  });
  RegisterChecked("ir.RegisterOpNumber", [](std::string op, std::string key, int64_t value, int level) {
    Op::Get(op);
    if (IsNewer(op, key, level)) SetNumber(op, key, value);
  });
  RegisterChecked("ir.OpGetNumber", [](Op op, std::string key) { return GetNumber(op, key); });
  RegisterChecked("ir.OpHasAttr", [](Op op, std::string key) { return op->attr_map.find(key) != op->attr_map.end(); });
  RegisterChecked("ir.OpResetAttr", [](Op op, std::string key) {
    Levels().erase({op->name, key});
    const_cast<OpNode*>(op.get())->attr_map.erase(key);
  });
  RegisterChecked("ir.OpDescription", [](Op op) { return op->description; });
  RegisterChecked("ir.OpSupportLevel", [](Op op) { return op->support_level; });
  RegisterChecked("ir.OpNumInputs", [](Op op) { return op->num_inputs; });
}

}  // namespace treadle::python
