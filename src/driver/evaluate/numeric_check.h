// SPDX-License-Identifier: Apache-2.0
// The numerical check of passes, with the interpreter.
#pragma once

#include <vector>

#include "treadle/relay/instrument.h"

namespace treadle::driver {

/// Runs main in the interpreter; the tensors of its (nested) result, in order.
std::vector<runtime::NDArray> RunMain(const IRModule& module, const std::vector<runtime::NDArray>& inputs);

/// Compares what main computes before and after each pass: relay::MakeNumericCheck with the interpreter.
ObjectPtr<transform::PassInstrument> MakeNumericCheck(relay::NumericCheckOptions options = {});

}  // namespace treadle::driver
