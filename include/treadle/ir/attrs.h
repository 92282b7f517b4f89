// SPDX-License-Identifier: Apache-2.0
// Attributes: typed structs with reflected fields (of operators), or a dictionary (of functions and modules).
#pragma once

#include <string>

#include "treadle/ir/expr.h"
#include "treadle/runtime/container.h"

namespace treadle {

/// Base of operators' attributes. Defaults are the member initialisers; docs and ranges stand in Reflect.
class AttrsNode : public Object {
 public:
  TREADLE_DECLARE_NODE(AttrsNode, Object, "Attrs");
};
class Attrs : public ObjectRef {
 public:
  TREADLE_BASE_REF(Attrs, ObjectRef, AttrsNode);
};

/// Creates attributes: `MakeAttrs<Conv2DAttrs>([&](auto& a) { a.groups = 2; })`.
template <typename T, typename Init>
Attrs MakeAttrs(Init&& init) {
  auto node = MakeObject<T>();
  init(*node);
  return Attrs(ObjectPtr<Object>(node));
}

class DictAttrsNode : public AttrsNode {
 public:
  Map<String, ObjectRef> dict;
  TREADLE_DECLARE_NODE(DictAttrsNode, AttrsNode, "DictAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("dict", &DictAttrsNode::dict);
  }
};
class DictAttrs : public Attrs {
 public:
  explicit DictAttrs(Map<String, ObjectRef> dict);
  TREADLE_REF(DictAttrs, Attrs, DictAttrsNode);
};

/// Names of function and module attributes.
namespace attr {
inline constexpr const char* kPrimitive = "Primitive";         ///< int 1: a fused kernel
inline constexpr const char* kCompiler = "Compiler";           ///< string: external code generator
inline constexpr const char* kGlobalSymbol = "global_symbol";  ///< string: symbol in the linked library
inline constexpr const char* kComposite = "Composite";         ///< string: name of the matched pattern
inline constexpr const char* kPartitionedFromPattern = "PartitionedFromPattern";
inline constexpr const char* kInline = "Inline";
inline constexpr const char* kSkipOptimization = "SkipOptimization";
inline constexpr const char* kReshapeOnly = "relay.reshape_only";
inline constexpr const char* kNoAlias = "tir.noalias";
inline constexpr const char* kTarget = "target";
}  // namespace attr

}  // namespace treadle
