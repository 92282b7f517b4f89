// SPDX-License-Identifier: Apache-2.0
// Places that are nodes of an imported model, with the operator as the model names it.
#pragma once

#include <string>

#include "treadle/ir/span.h"

namespace treadle {

class ModelSpanNode : public SpanNode {
 public:
  std::string op_type;  ///< "MatMul"
  TREADLE_DECLARE_NODE(ModelSpanNode, SpanNode, "ModelSpan");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("op_type", &ModelSpanNode::op_type).Ignored();
  }
};

/// The place of a node of an imported model.
Span ModelSpan(std::string node, std::string op_type);
/// For messages: "node 'name' (MatMul)"; "'source:line:column'" of a place in a text; "" for null.
std::string DescribePlace(const Span& span);

}  // namespace treadle
