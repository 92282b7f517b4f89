// SPDX-License-Identifier: Apache-2.0
// Nodes that were read from a file: whether each field holds what its class says.
#pragma once

#include <string>

#include "treadle/ir/op.h"
#include "treadle/runtime/object.h"
#include "treadle/runtime/reflection.h"

namespace treadle::relay {

/// Throws ModelFormatError that names the first field, among all nodes reachable from `root`, that is null or of a
/// class that the code that uses it doesn't expect. Nodes of other classes than those of the graph IR, its types,
/// dimensions and attributes are refused.
void CheckNodes(const ObjectRef& root);

/// Whether an attribute has no default. `owner`: the operator or class that has the attribute.
bool MustBeGiven(const FieldInfo& field, const std::string& owner);

/// Attributes of `op` with their defaults; null when it takes none.
Attrs DefaultAttrs(const OpNode* op);

}  // namespace treadle::relay
