// SPDX-License-Identifier: Apache-2.0
// Calls of the virtual machine's host functions, and the types of values that aren't tensors.
#pragma once

#include <string>

#include "treadle/ir/attrs.h"
#include "treadle/ir/module.h"
#include "treadle/ir/type.h"

namespace treadle::ops {

class HostCallAttrs : public AttrsNode {
 public:
  std::string function;
  std::string kind = "tensor";
  DataType dtype;
  int64_t rank = -1;
  TREADLE_DECLARE_NODE(HostCallAttrs, AttrsNode, "relay.attrs.HostCallAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("function", &HostCallAttrs::function).Doc("Name of the function (treadle/runtime/vm/host.h)");
    r.Field("kind", &HostCallAttrs::kind)
        .Doc("What it gives: tensor, or sequence, optional, optional_sequence (of such tensors), map");
    r.Field("dtype", &HostCallAttrs::dtype).Doc("Type of the tensors' elements");
    r.Field("rank", &HostCallAttrs::rank).Doc("Rank of the tensors; -1: not known");
  }
};

/// A tensor of unknown dimensions. Of a rank that isn't known (-1): its element type alone, a PrimType. -2: of elements
/// that there are none of, a TupleType without fields.
Type TensorOfRank(DataType dtype, int64_t rank);
Type SequenceOf(const Type& element);
Type OptionalOf(const Type& value);
Type MapType();
/// The argument of SequenceOf or OptionalOf; null where the type is none.
Type ElementOfSequence(const Type& type);
Type ValueOfOptional(const Type& type);

/// Defines these types in a module whose functions take such values.
void DefineHostTypes(IRModule* module);

}  // namespace treadle::ops
