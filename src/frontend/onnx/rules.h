// SPDX-License-Identifier: Apache-2.0
// Import rules: how a node of one ONNX operator becomes graph IR.
//
// A rule is registered for the versions of its operator that it implements, one by one: a model that asks for a
// version without a rule is refused. A rule reads the node through NodeImport, which notes what it reads: inputs and
// attributes that no rule has looked at are refused by name.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "frontend/onnx/node_import.h"
#include "treadle/relay/expr.h"

namespace treadle::onnx {

/// Returns the node's outputs, at least as many as the node names.
using ImportRule = std::function<std::vector<relay::Expr>(NodeImport& n)>;

class RuleTable {
 public:
  /// Rules of all families. Built on first use.
  static const RuleTable& All();

  /// Registers `rule` for versions of an operator of ai.onnx.
  void Add(const std::string& op_type, std::initializer_list<int> versions, ImportRule rule);
  /// For rules that return a single value.
  template <typename F>
  void Add1(const std::string& op_type, std::initializer_list<int> versions, F rule) {
    Add(op_type, versions, [rule](NodeImport& n) { return std::vector<relay::Expr>{rule(n)}; });
  }

  /// The rule for that version, or null.
  const ImportRule* Find(const std::string& op_type, int version) const;
  const std::map<std::string, std::map<int, ImportRule>>& rules() const { return rules_; }

 private:
  std::map<std::string, std::map<int, ImportRule>> rules_;
};

// One function per family, defined in the file of that name.
void RegisterActivationRules(RuleTable& table);
void RegisterAttentionRules(RuleTable& table);
void RegisterConstantRules(RuleTable& table);
void RegisterControlRules(RuleTable& table);
void RegisterConvRules(RuleTable& table);
void RegisterEinsumRules(RuleTable& table);
void RegisterExperimentalRules(RuleTable& table);
void RegisterIndexRules(RuleTable& table);
void RegisterLossRules(RuleTable& table);
void RegisterMathRules(RuleTable& table);
void RegisterMatrixRules(RuleTable& table);
void RegisterNormalizationRules(RuleTable& table);
void RegisterPadRules(RuleTable& table);
void RegisterPoolRules(RuleTable& table);
void RegisterQuantizeRules(RuleTable& table);
void RegisterRecurrentRules(RuleTable& table);
void RegisterReduceRules(RuleTable& table);
void RegisterResizeRules(RuleTable& table);
void RegisterShapeRules(RuleTable& table);
void RegisterSignalRules(RuleTable& table);

}  // namespace treadle::onnx
