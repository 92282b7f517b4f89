// SPDX-License-Identifier: Apache-2.0
// What structural equality and hashing share: which nodes stand for themselves.
#pragma once

#include <string>

#include "treadle/ir/structural.h"
#include "treadle/ir/type.h"
#include "treadle/runtime/container.h"
#include "treadle/runtime/reflection.h"

namespace treadle::structural {

/// Kinds of nodes that need more than a comparison of fields.
enum class NodeKind : uint8_t {
  kPlain,
  kVariable,  ///< compared by place of binding: tir.Var, relay.Id, relay.TypeVar
  kGraph,     ///< sharing matters: a node used twice differs from two equal nodes
  kArray,
  kMap,
  kString,
  kNDArray,
  kConstructor,  ///< by name and tag; its inputs are compared where its type is defined
  kTypeData,
  kFuncType,  ///< its type parameters are bound within it only
  kOpaque,    ///< without reflected fields: by identity
};

NodeKind KindOf(const Object* node);

}  // namespace treadle::structural
