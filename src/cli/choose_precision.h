// SPDX-License-Identifier: Apache-2.0
// Which layers of a model are computed in bfloat16 (--precision auto).
#pragma once

#include "cli/compiler_api.h"

namespace treadle::cli {

/// Measures an ONNX model on random inputs, by the Python package, and sets pass options so that layers are in bfloat16
/// as far as no output is off by more than `max_error`, relative to its norm. Prints what was measured to stderr.
/// Throws Error where the model isn't ONNX or Python can't run it.
void ChoosePrecision(CompileRequest* request, double max_error);

}  // namespace treadle::cli
