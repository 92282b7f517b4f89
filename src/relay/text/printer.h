// SPDX-License-Identifier: Apache-2.0
// Prints graph IR. Shared data flow becomes `%N = ...;` lines of the scope (function body, branch, arm, let) in which
// it is first met; numbers count through the whole text.
#pragma once

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "relay/text/type_text.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/relay/text.h"

namespace treadle::relay {

/// Names that are unique in a text: a hint, or a hint and a number.
class NameTable {
 public:
  std::string Unique(const std::string& hint);
  /// With the least number: for names that are released, so that their order is the same when read and printed again.
  std::string UniqueInScope(const std::string& hint);
  /// The end of the scope of the name that UniqueInScope returned last and that is still in use.
  void Release();
  bool Contains(const std::string& name) const { return used_.count(name) != 0; }
  void Reserve(const std::string& name) { used_.emplace(name, 0); }

 private:
  struct Scoped {
    std::string hint, name;
    int count;  ///< of the hint before
  };

  std::unordered_map<std::string, int> used_;
  std::unordered_map<std::string, int> counts_;  ///< names in use that were made from a hint
  std::vector<Scoped> scoped_;
};

/// Whether `name` can stand after % or @ as it is: letters, digits, '_'; '.' and '/' between parts.
bool IsPlainName(const std::string& name);

class TextPrinter {
 public:
  explicit TextPrinter(const TextOptions& options);

  std::string PrintModule(const IRModule& module);
  std::string PrintRootExpr(const Expr& expr);
  std::string PrintType(const Type& type);
  std::string PrintPattern(const Pattern& pattern);
  /// ", key=value" of a dictionary or of attributes that differ from their defaults.
  std::string PrintAttrs(const Attrs& attrs);
  /// What the functions above returned as it is to be read.
  std::string Finish(const std::string& text) const;
  /// The metadata section, "" when nothing needs it.
  std::string MetaSection() const;

 private:
  using Strings = std::vector<std::string>;

  std::string Print(const Expr& expr, bool try_inline = false);
  std::string PrintDataFlow(const Expr& expr, bool try_inline);
  /// Prints a node whose children may already have names, and gives it one unless it is inlined.
  std::string Emit(const Expr& expr, bool try_inline);
  std::string PrintKind(const Expr& expr);
  std::string PrintCall(const CallNode* call);
  std::string PrintFunction(const std::string& prefix, const FunctionNode* func);
  std::string PrintLet(const LetNode* let);
  std::string PrintMatch(const MatchNode* match);
  std::string PrintConstant(const ConstantNode* constant);
  std::string PrintScope(const Expr& expr);
  std::string PrintBody(const Expr& expr);
  std::string PrintTypeData(const TypeData& data);
  std::string OptionalInfo(const Expr& expr);
  std::string SpanComment(const Span& span);
  Strings AttrList(const Attrs& attrs, const OpNode* op);
  Strings DictList(const Map<String, ObjectRef>& dict);
  std::string AttrValue(const ObjectRef& value);
  std::string OpAttrValue(const ObjectRef& value);
  std::string DimList(const ObjectRef& value);
  std::string Meta(const ObjectRef& node);
  /// The variable as it is bound: name, annotation, type comment.
  std::string Binding(const Var& var);
  const std::string& NameOf(const VarNode* var);
  void NameParams(const Expr& root);
  void FreeVarLines(const Expr& expr);
  /// Type parameters have their names between these: other functions' may be called the same.
  void OpenTypeParams(const Array<TypeVar>& params);
  void CloseTypeParams(const Array<TypeVar>& params);
  void CountUses(const Expr& root);
  std::string NewLine() const { return "\n" + std::string(static_cast<size_t>(std::min(indent_, kMaxIndent)), ' '); }
  static std::string Join(const Strings& parts);
  /// Puts a long text aside and returns a reference to it, so that texts around it don't copy it at each level.
  std::string PutAside(std::string text);

  static constexpr int kMaxIndent = 200;         ///< what nests deeper isn't indented further
  static constexpr int64_t kMaxTypeParts = 256;  ///< of types in comments

  const TextOptions& options_;
  TypeNames type_names_;
  NameTable names_, type_var_names_, dim_names_;
  std::unordered_map<const Object*, std::string> memo_;       ///< text by which an expression is referred to
  std::unordered_map<const Object*, std::string> var_names_;  ///< by identity of the variable, or of the type variable
  std::unordered_map<const Object*, std::string> dim_vars_;
  std::unordered_map<const Object*, int> uses_;
  std::unordered_set<const Object*> prepared_;  ///< whose operands have their lines, or will have before it
  std::vector<std::pair<const Object*, std::string>> hidden_type_vars_;  ///< what CloseTypeParams restores
  std::vector<std::string> scopes_;                                      ///< lines of the open scopes
  std::vector<std::string> put_aside_;
  int indent_ = 0;
  int next_temp_ = 0;
  std::vector<std::pair<std::string, std::vector<ObjectRef>>> meta_;  ///< by class
  std::unordered_map<const Object*, std::string> meta_refs_;
};

/// The way `name` prints after '%' or '@'.
std::string NameText(const std::string& name);

}  // namespace treadle::relay
