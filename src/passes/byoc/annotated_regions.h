// SPDX-License-Identifier: Apache-2.0
// Regions of a function that annotation.compiler_begin and compiler_end enclose.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "treadle/relay/expr.h"

namespace treadle::relay {

struct AnnotatedRegion {
  std::string compiler;
  std::vector<Expr> begins;  ///< the annotations, in order of a depth-first walk
  std::vector<Expr> ends;
};

/// Nodes that hang together without an annotation between them form one region; a begin belongs to the region that
/// reads it, an end to the one that it reads. Throws Error where annotations of two compilers meet in one region.
class AnnotatedRegions {
 public:
  explicit AnnotatedRegions(const Expr& body);
  std::vector<AnnotatedRegion> regions;
  /// Index of the region of a node, or -1: outside of annotations.
  int Find(const Expr& expr) const;

 private:
  std::unordered_map<const Object*, int> region_of_;
};

bool IsCompilerBegin(const Expr& expr);
bool IsCompilerEnd(const Expr& expr);
const std::string& CompilerOf(const Expr& annotation);
Expr MakeCompilerBegin(const Expr& expr, const std::string& compiler);
Expr MakeCompilerEnd(const Expr& expr, const std::string& compiler);

}  // namespace treadle::relay
