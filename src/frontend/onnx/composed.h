// SPDX-License-Identifier: Apache-2.0
// Families of rules whose operators are composed of others.
#pragma once

#include "frontend/onnx/rules.h"

namespace treadle::onnx {

void RegisterFourierRules(RuleTable& table);
void RegisterLabelRules(RuleTable& table);
void RegisterMachineLearningRules(RuleTable& table);
void RegisterRandomRules(RuleTable& table);
void RegisterSamplingRules(RuleTable& table);
void RegisterSequenceRules(RuleTable& table);
void RegisterStateRules(RuleTable& table);
void RegisterTextRules(RuleTable& table);
void RegisterTrainingRules(RuleTable& table);
void RegisterUniqueRules(RuleTable& table);

}  // namespace treadle::onnx
