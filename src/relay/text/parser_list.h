// SPDX-License-Identifier: Apache-2.0
// Definition of the parser's template, for its source files.
#pragma once

#include "relay/text/parser.h"

namespace treadle::relay {

/// Whether a text must give the attribute.
/// `owner`: the operator or class that has the attribute.
bool MustBeGiven(const FieldInfo& field, const std::string& owner);

template <typename F>
bool Parser::ParseList(const char* close, const char* where, F&& element) {
  bool comma = false;
  while (!Accept(close)) {
    element();
    comma = Accept(",");
    if (!comma && !Peek().Is(close)) {
      Fail(Peek(), StrCat("expected ',' or '", close, "' ", where, " but found ", Describe(Peek())));
    }
  }
  return comma;
}

}  // namespace treadle::relay
