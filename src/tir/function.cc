// SPDX-License-Identifier: Apache-2.0
#include "treadle/tir/function.h"

#include <utility>

namespace treadle::tir {

TREADLE_DEFINE_NODE(PrimFuncNode);

PrimFunc::PrimFunc(Array<Var> params, Stmt body, Type ret_type, Map<Var, Buffer> buffer_map, DictAttrs attrs,
                   Span span) {
  for (const auto& [param, buffer] : buffer_map) {
    if (!param.dtype().is_handle()) {
      throw DTypeError(StrCat("parameter ", param->name_hint, " stands for buffer ", buffer->name, " but has dtype ",
                              param.dtype(), " instead of handle"));
    }
  }
  auto node = MakeObject<PrimFuncNode>();
  node->params = std::move(params);
  node->ret_type = ret_type.defined() ? std::move(ret_type) : TupleType(Array<Type>());
  node->buffer_map = std::move(buffer_map);
  node->body = std::move(body);
  node->attrs = std::move(attrs);
  node->span = std::move(span);
  data_ = std::move(node);
}

}  // namespace treadle::tir
