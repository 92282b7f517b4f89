// SPDX-License-Identifier: Apache-2.0
// The text form of graph IR: printing and parsing. What is printed parses to a structurally equal value, and prints
// the same again.
#pragma once

#include <functional>
#include <string>

#include "treadle/relay/expr.h"

namespace treadle::relay {

struct TextOptions {
  bool show_meta_data = true;  ///< false: constants that have no literal can't be read back
  bool show_types = true;      ///< inferred types as comments
  bool show_version = true;    ///< the first line
  /// Text to append after an expression, such as its storage ids; "" for none.
  std::function<std::string(const Expr&)> annotate;
};

/// The text of a module, expression, type, pattern or attribute set.
std::string AsText(const ObjectRef& node, const TextOptions& options);
std::string AsText(const ObjectRef& node, bool show_meta_data = true);
/// Without version line and metadata: for messages.
std::string PrettyPrint(const ObjectRef& node);

/// How to print functions that aren't graph IR (tir::PrimFunc): "def @name(...) {...}" without trailing newline.
using FunctionPrinter = std::function<std::string(const GlobalVar& var, const BaseFunc& func)>;
void SetFunctionPrinter(FunctionPrinter printer);

/// Reads a module. `infer_types` runs type inference on it. Throws ModelFormatError with line, column and caret on bad
/// text; TypeInferError on ill-typed programs.
IRModule ParseModule(const std::string& text, const std::string& source_name = "text", bool infer_types = true);
/// As ParseModule, in a module whose definitions (types, functions) the text may use.
IRModule ParseModuleInto(const IRModule& module, const std::string& text, const std::string& source_name = "text",
                         bool infer_types = true);
/// Reads one expression; types aren't inferred. Definitions of `module` may be used.
Expr ParseExpr(const std::string& text, const std::string& source_name = "text", const IRModule& module = IRModule());
/// Reads a type such as "Tensor[(1, n, ?), float32]".
Type ParseType(const std::string& text, const std::string& source_name = "text");

/// A typed module with the data types List, Optional and Tree and functions on them: @id, @compose, @hd, @tl, @nth,
/// @length, @map, @foldl, @foldr, @filter, @concat, @rev, @sum, @tmap, @size. The operators must be registered.
IRModule Prelude();

/// Makes the classes of nodes known by name, for reading JSON. Idempotent; the parser does it itself.
void RegisterNodeTypes();

}  // namespace treadle::relay
