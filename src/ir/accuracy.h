// SPDX-License-Identifier: Apache-2.0
// What a build may lose in accuracy for speed, beside sums of float32 in the order that suits the machine.
#pragma once

#include <cstdint>

namespace treadle::transform {

/// Option of the pass context: "strict", "default" or "fast".
inline constexpr const char* kAccuracyOption = "relay.accuracy";

enum class Accuracy : uint8_t {
  kStrict,   ///< nothing: only methods that sum the products of each result, only full functions
  kDefault,  ///< methods that stay near plain sums
  kFast,     ///< up to 1e-3 of a result's range in a layer
};

/// Of the current pass context. Throws Error on another text.
Accuracy CurrentAccuracy();
void RegisterAccuracyOption();

}  // namespace treadle::transform
