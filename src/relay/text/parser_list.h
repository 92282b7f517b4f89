// SPDX-License-Identifier: Apache-2.0
// Definition of the parser's template, for its source files.
#pragma once

#include "relay/text/parser.h"

namespace treadle::relay {

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
