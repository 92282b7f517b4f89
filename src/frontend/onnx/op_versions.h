// SPDX-License-Identifier: Apache-2.0
// Which versions of which operators the ONNX standard has.
#pragma once

#include <string_view>
#include <vector>

namespace treadle::onnx {

/// Newest version of the operator set ai.onnx that is known.
inline constexpr int kNewestOpset = 28;

/// The opsets at which the definition of an ai.onnx operator changed, rising; empty for unknown operators.
std::vector<int> VersionsOfOp(std::string_view op_type);

/// Names of all operators of ai.onnx, sorted.
std::vector<std::string_view> AllOps();

}  // namespace treadle::onnx
