// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/rules.h"

#include <algorithm>
#include <tuple>

#include "frontend/onnx/composed.h"
#include "frontend/onnx/contrib.h"
#include "frontend/onnx/importer.h"
#include "frontend/onnx/op_versions.h"
#include "treadle/base/error.h"

namespace treadle::onnx {

const RuleTable& RuleTable::All() {
  static const RuleTable* table = [] {
    auto* t = new RuleTable();  // never destroyed
    RegisterActivationRules(*t);
    RegisterAttentionRules(*t);
    RegisterConstantRules(*t);
    RegisterContribFusedRules(*t);
    RegisterContribQuantizeRules(*t);
    RegisterContribStandardRules(*t);
    RegisterContribTransformerRules(*t);
    RegisterContribWeightRules(*t);
    RegisterControlRules(*t);
    RegisterConvRules(*t);
    RegisterEinsumRules(*t);
    RegisterExperimentalRules(*t);
    RegisterFourierRules(*t);
    RegisterIndexRules(*t);
    RegisterLabelRules(*t);
    RegisterLossRules(*t);
    RegisterMachineLearningRules(*t);
    RegisterMathRules(*t);
    RegisterMatrixRules(*t);
    RegisterNormalizationRules(*t);
    RegisterPadRules(*t);
    RegisterPoolRules(*t);
    RegisterQuantizeRules(*t);
    RegisterRandomRules(*t);
    RegisterRecurrentRules(*t);
    RegisterReduceRules(*t);
    RegisterResizeRules(*t);
    RegisterSamplingRules(*t);
    RegisterSequenceRules(*t);
    RegisterShapeRules(*t);
    RegisterSignalRules(*t);
    RegisterStateRules(*t);
    RegisterTextRules(*t);
    RegisterTrainingRules(*t);
    RegisterUniqueRules(*t);
    return t;
  }();
  return *table;
}

void RuleTable::Add(const std::string& op_type, std::initializer_list<int> versions, ImportRule rule) {
  std::vector<int> known = VersionsOfOp(op_type);
  if (op_type.compare(0, ContribName("").size(), ContribName("")) == 0) known = {1};
  for (int version : versions) {
    TREADLE_ICHECK(std::find(known.begin(), known.end(), version) != known.end())
        << "ONNX has no version " << version << " of " << op_type;
    TREADLE_ICHECK(rules_[op_type].emplace(version, rule).second) << "two rules for " << op_type << " " << version;
  }
}

const ImportRule* RuleTable::Find(const std::string& op_type, int version) const {
  auto op = rules_.find(op_type);
  if (op == rules_.end()) return nullptr;
  auto rule = op->second.find(version);
  return rule == op->second.end() ? nullptr : &rule->second;
}

std::vector<SupportedOp> SupportedOps() {
  std::vector<SupportedOp> result;
  for (const auto& [name, rules] : RuleTable::All().rules()) {
    const std::string contrib = ContribName("");
    if (name.compare(0, contrib.size(), contrib) == 0) {
      result.push_back({kContribDomain, name.substr(contrib.size()), {1}, {}});
      continue;
    }
    const size_t dot = name.rfind('.');
    SupportedOp op{dot == std::string::npos ? "" : name.substr(0, dot), name.substr(dot + 1), {}, {}};
    for (int version : VersionsOfOp(name))
      (rules.count(version) ? op.versions : op.missing_versions).push_back(version);
    result.push_back(std::move(op));
  }
  std::sort(result.begin(), result.end(), [](const SupportedOp& a, const SupportedOp& b) {
    return std::tie(a.domain, a.name) < std::tie(b.domain, b.name);
  });
  return result;
}

}  // namespace treadle::onnx
