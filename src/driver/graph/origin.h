// SPDX-License-Identifier: Apache-2.0
// Which nodes of the imported model a kernel computes.
#pragma once

#include <string>

#include "treadle/relay/expr.h"

namespace treadle::driver {

/// The imported nodes that a function computes, in the order of their places: "Conv_3, Relu_4"; "" where none is known.
std::string OriginOf(const relay::Function& function);
/// The same for messages: "node 'Conv_3' (Conv), node 'Relu_4' (Relu)".
std::string DescribeOrigin(const relay::Function& function);

}  // namespace treadle::driver
