// SPDX-License-Identifier: Apache-2.0
// Which versions of which operators the ONNX standard has.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace treadle::onnx {

/// Newest version of the operator set ai.onnx that is known.
inline constexpr int kNewestOpset = 28;

/// An operator's name with its domain in front, which ai.onnx leaves out: "Conv", "ai.onnx.ml.Scaler".
inline std::string FullOpName(std::string_view domain, std::string_view op_type) {
  if (domain.empty() || domain == "ai.onnx") return std::string(op_type);
  return std::string(domain) + "." + std::string(op_type);
}

/// The opsets (of its domain) at which the definition of an operator changed, rising; empty for unknown operators.
std::vector<int> VersionsOfOp(std::string_view full_name);

/// Full names of all operators, sorted.
std::vector<std::string_view> AllOps();

}  // namespace treadle::onnx
