// SPDX-License-Identifier: Apache-2.0
// Nodes that were read from a file: whether each field holds what its class says.
#pragma once

#include "treadle/runtime/object.h"

namespace treadle::relay {

/// Throws ModelFormatError that names the first field, among all nodes reachable from `root`, that is null or of a
/// class that the code that uses it doesn't expect. Nodes of other classes than those of the graph IR, its types,
/// dimensions and attributes are refused.
void CheckNodes(const ObjectRef& root);

}  // namespace treadle::relay
