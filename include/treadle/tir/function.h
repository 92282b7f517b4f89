// SPDX-License-Identifier: Apache-2.0
// A function of loop-level code.
#pragma once

#include "treadle/ir/module.h"
#include "treadle/tir/stmt.h"

namespace treadle::tir {

/// Parameters are variables; those in `buffer_map` are tensors (handles to DLTensor) seen as buffers.
class PrimFuncNode : public BaseFuncNode {
 public:
  Array<Var> params;
  Type ret_type;
  Map<Var, Buffer> buffer_map;
  Stmt body;
  TREADLE_DECLARE_NODE(PrimFuncNode, BaseFuncNode, "tir.PrimFunc");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("params", &PrimFuncNode::params).Defines();
    r.Field("ret_type", &PrimFuncNode::ret_type);
    r.Field("buffer_map", &PrimFuncNode::buffer_map).Defines();
    r.Field("body", &PrimFuncNode::body);
  }
};
class PrimFunc : public BaseFunc {
 public:
  PrimFunc(Array<Var> params, Stmt body, Type ret_type = Type(), Map<Var, Buffer> buffer_map = {},
           DictAttrs attrs = DictAttrs(Map<String, ObjectRef>()), Span span = Span());
  TREADLE_REF(PrimFunc, BaseFunc, PrimFuncNode);
};

}  // namespace treadle::tir
