// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "frontend/onnx/compose.h"

namespace treadle::onnx {

/// The labels of a classifier's classes: integers, or strings, which then are its output 0.
struct ClassLabels {
  relay::Expr values;
  int64_t count = 0;
  bool text = false;
};
ClassLabels ReadClassLabels(NodeImport& n, const char* ints, const char* strings);

}  // namespace treadle::onnx
