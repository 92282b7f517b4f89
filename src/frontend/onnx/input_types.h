// SPDX-License-Identifier: Apache-2.0
// Types of a model's inputs, from what the model declares and the user sets.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "frontend/onnx/importer.h"
#include "frontend/onnx/model.h"
#include "treadle/ir/type.h"

namespace treadle::onnx {

/// Fixes the dimensions of inputs. A symbol that gets a value in one place has it everywhere; a symbol without value
/// is one variable in all types; dimensions without a name are variables of their own.
class InputTypes {
 public:
  /// Throws Error when `options` name inputs or dimensions that the model doesn't have, ShapeError when a shape has
  /// another rank than the declared one or values contradict each other.
  InputTypes(const std::vector<const ValueInfo*>& inputs, const ImportOptions& options);

  /// Type of a tensor input. Throws ShapeError when its rank isn't known, UnsupportedOpError for element types that
  /// Treadle doesn't compute with.
  TensorType TypeOf(const ValueInfo& input) const;

  /// Throws DTypeError or ShapeError unless `value` may be given for the input.
  static void CheckValue(const ValueInfo& input, const NDArray& value);

 private:
  void BindShape(const ValueInfo& input, const std::vector<int64_t>& shape);
  void SetSymbol(const std::string& symbol, int64_t value, const std::string& where);
  PrimExpr DimOf(const Dimension& dim) const;

  const ImportOptions& options_;
  std::map<std::string, int64_t> values_;            ///< of symbols
  mutable std::map<std::string, PrimExpr> symbols_;  ///< without value
};

}  // namespace treadle::onnx
