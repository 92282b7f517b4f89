// SPDX-License-Identifier: Apache-2.0
// The types that a model declares for values that it computes, beside what they are.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "frontend/onnx/importer.h"
#include "treadle/relay/expr.h"

namespace treadle::onnx {

/// Refuses types that contradict the values. Dimensions are compared where both are known and the caller hasn't given
/// the model's inputs other sizes than it declares.
class DeclaredTypes {
 public:
  DeclaredTypes(const Model& model, const ImportOptions& options);

  /// Throws ModelFormatError that names `where` and the value. `text`: the value is a tensor of strings.
  void Check(const ValueInfo& declared, const relay::Expr& value, bool text, const std::string& where) const;
  /// The same of a graph's result, which converters declare without looking at it: where they leave a size open, the
  /// other sizes aren't compared.
  void CheckResult(const ValueInfo& declared, const relay::Expr& value, bool text, const std::string& where) const;
  /// Inputs and values of the graph that are initializers, too.
  void CheckInitializers(const Graph& graph) const;
  /// Refuses a result whose known sizes are more than a buffer may be. Fused with what reads it, it wouldn't be
  /// stored; but a few bytes of a file must not ask for days of work.
  void CheckSize(const relay::Expr& value, const Node& node) const;
  /// What `graph` declares for a value within; null where it says nothing.
  const ValueInfo* Find(const Graph& graph, const std::string& name);
  /// A dimension's declared size, symbols as `dims` has them; -1 where that isn't known, or the caller gives inputs
  /// other sizes than the model declares.
  int64_t SizeOf(const ValueInfo& declared, size_t axis, const std::map<std::string, int64_t>& dims) const;

 private:
  /// No `dtype`: strings.
  void CheckTensor(const ValueInfo& declared, std::optional<DataType> dtype, const Array<PrimExpr>& shape,
                   bool compare_sizes, const std::string& where) const;

  const std::string& source_;
  bool same_sizes_ = true;
  std::unordered_map<const Graph*, std::unordered_map<std::string_view, const ValueInfo*>> by_graph_;
};

}  // namespace treadle::onnx
