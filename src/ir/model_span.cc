// SPDX-License-Identifier: Apache-2.0
#include "treadle/ir/model_span.h"

#include "treadle/ir/attrs.h"

namespace treadle {

TREADLE_DEFINE_NODE(ModelSpanNode);

Span ModelSpan(std::string node, std::string op_type) {
  auto span = MakeObject<ModelSpanNode>();
  span->source_name = std::move(node);
  span->op_type = std::move(op_type);
  return Span(span);
}

std::string DescribePlace(const Span& span) {
  if (!span.defined()) return "";
  const auto* node = span.as<ModelSpanNode>();
  return node != nullptr ? StrCat("node '", span.str(), "' (", node->op_type, ")") : StrCat("'", span.str(), "'");
}

}  // namespace treadle
