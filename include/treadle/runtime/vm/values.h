// SPDX-License-Identifier: Apache-2.0
// Values of programs beyond tensors: data of algebraic types (tuples included), closures, references.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "treadle/runtime/object.h"
#include "treadle/runtime/reflection.h"

namespace treadle::runtime {

/// A constructor's tag and its fields. Tuples have the tag kTupleTag.
class AdtValueNode : public Object {
 public:
  int64_t tag = 0;
  std::vector<ObjectRef> fields;
  TREADLE_DECLARE_NODE(AdtValueNode, Object, "runtime.ADT");
};
inline constexpr int64_t kTupleTag = 0;
class AdtValue : public ObjectRef {
 public:
  AdtValue(int64_t tag, std::vector<ObjectRef> fields) {
    auto node = MakeObject<AdtValueNode>();
    node->tag = tag;
    node->fields = std::move(fields);
    data_ = std::move(node);
  }
  TREADLE_REF(AdtValue, ObjectRef, AdtValueNode);
};

/// A function of a program and the values that it captured, which it takes before its arguments.
class VmClosureNode : public Object {
 public:
  uint32_t function = 0;
  std::vector<ObjectRef> captured;
  TREADLE_DECLARE_NODE(VmClosureNode, Object, "runtime.vm.Closure");
};
class VmClosure : public ObjectRef {
 public:
  VmClosure(uint32_t function, std::vector<ObjectRef> captured) {
    auto node = MakeObject<VmClosureNode>();
    node->function = function;
    node->captured = std::move(captured);
    data_ = std::move(node);
  }
  TREADLE_REF(VmClosure, ObjectRef, VmClosureNode);
};

/// A mutable cell.
class RefValueNode : public Object {
 public:
  mutable ObjectRef value;
  TREADLE_DECLARE_NODE(RefValueNode, Object, "runtime.Ref");
};
class RefValue : public ObjectRef {
 public:
  explicit RefValue(ObjectRef value) {
    auto node = MakeObject<RefValueNode>();
    node->value = std::move(value);
    data_ = std::move(node);
  }
  TREADLE_REF(RefValue, ObjectRef, RefValueNode);
};

}  // namespace treadle::runtime
