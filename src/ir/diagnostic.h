// SPDX-License-Identifier: Apache-2.0
// Problems found in a program, each with its place, and how they are shown:
//
//   error: types do not match: ...
//    --> model.relay:3:8
//     |
//   3 |   %0 = add(%x, %y);
//     |        ^^^^^^^^^^^
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "treadle/ir/span.h"

namespace treadle {

struct Diagnostic {
  Span span;  ///< may be null
  std::string message;
};

class Diagnostics {
 public:
  /// `sources` maps source names to their text.
  explicit Diagnostics(Map<String, String> sources) : sources_(std::move(sources)) {}
  /// Adds an error; the same message at the same place counts once.
  void Error(const Span& span, const std::string& message);
  bool empty() const { return errors_.empty(); }
  size_t size() const { return errors_.size(); }
  const std::vector<Diagnostic>& errors() const { return errors_; }
  /// All errors in the order of their places; at most `limit`, then a count of the rest.
  std::string Render(size_t limit = 20) const;

 private:
  std::string RenderOne(const Diagnostic& diagnostic) const;
  Map<String, String> sources_;
  std::vector<Diagnostic> errors_;
  std::unordered_set<std::string> known_;
};

}  // namespace treadle
