// SPDX-License-Identifier: Apache-2.0
// Where a piece of IR comes from: a place in a text, or a node of an imported model.
#pragma once

#include <string>

#include "treadle/runtime/container.h"

namespace treadle {

class SpanNode : public Object {
 public:
  std::string source_name;  ///< file, or name of the imported node
  int line = 0;             ///< 1-based; 0 for imported nodes
  int column = 0;
  int end_line = 0;
  int end_column = 0;
  TREADLE_DECLARE_NODE(SpanNode, Object, "Span");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("source_name", &SpanNode::source_name).Ignored();
    r.Field("line", &SpanNode::line).Ignored();
    r.Field("column", &SpanNode::column).Ignored();
    r.Field("end_line", &SpanNode::end_line).Ignored();
    r.Field("end_column", &SpanNode::end_column).Ignored();
  }
};

/// May be null: place unknown.
class Span : public ObjectRef {
 public:
  explicit Span(std::string source_name, int line = 0, int column = 0, int end_line = 0, int end_column = 0);
  TREADLE_REF(Span, ObjectRef, SpanNode);
  /// The smallest span that covers both (of one source); either may be null.
  static Span Merge(const Span& a, const Span& b);
  /// "source:line:column" or the source name alone; "" for null.
  std::string str() const;
};

}  // namespace treadle
