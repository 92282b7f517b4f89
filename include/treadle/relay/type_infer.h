// SPDX-License-Identifier: Apache-2.0
// Type inference: holes are filled by unification, operators' types by their relations.
#pragma once

#include "treadle/relay/expr.h"

namespace treadle::relay {

/// Types each function of the module: sets checked types, fills in missing annotations, return types and type
/// arguments. Throws TypeInferError with all problems found, each with its place.
IRModule InferTypes(const IRModule& module);

/// The expression with its types inferred. Global functions it uses are looked up in `module`, if given.
Expr InferType(const Expr& expr, const IRModule& module = IRModule());
/// Only the type.
Type InferTypeOf(const Expr& expr, const IRModule& module = IRModule());

/// Several problems of one program; `what()` shows each with its source line and a caret where the text is known.
class TypeInferError : public Error {
 public:
  explicit TypeInferError(const std::string& message) : Error(message, ExitCode::kUsage) {}
  const char* kind() const override { return "TypeInferError"; }
};

/// Cases that the clauses of `match` don't cover, as printed patterns such as "Cons(_, Nil)".
std::vector<std::string> UnmatchedCases(const Match& match, const IRModule& module);

}  // namespace treadle::relay
