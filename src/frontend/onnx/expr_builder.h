// SPDX-License-Identifier: Apache-2.0
// Builds graph IR with types: every expression that leaves it has its checked_type_ set, so that import rules can ask
// for ranks and shapes at no cost. Calls of operators on small known values are computed at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "treadle/ir/span.h"
#include "treadle/ops/evaluate.h"
#include "treadle/relay/expr.h"

namespace treadle::onnx {

/// A value for a field of an operator's attributes.
using AttrValue =
    std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>, DataType, ObjectRef>;
using AttrList = std::vector<std::pair<const char*, AttrValue>>;

/// Attributes of class `type` with the given fields, the others at their defaults.
Attrs MakeAttrsByName(const TypeInfo* type, const std::string& op_name, const AttrList& fields);

/// Type of a tensor-valued expression.
const TensorTypeNode* TypeOf(const relay::Expr& expr);
inline int RankOf(const relay::Expr& expr) { return static_cast<int>(TypeOf(expr)->shape.size()); }

/// The value if it is known when compiling; else null.
const NDArrayNode* KnownValue(const relay::Expr& expr);

/// Elements of an integer or bool array as int64.
std::vector<int64_t> IntsOf(const NDArray& array);
/// Elements of any numeric array as double.
std::vector<double> DoublesOf(const NDArray& array);

/// `values` as a tensor of the given type.
NDArray ArrayOf(const std::vector<int64_t>& values, const std::vector<int64_t>& shape, DataType dtype);
NDArray ArrayOf(const std::vector<double>& values, const std::vector<int64_t>& shape, DataType dtype);

class ExprBuilder {
 public:
  /// `known`: what the import knows of small integers so far (null: nothing is kept between questions).
  explicit ExprBuilder(Span span, ops::KnownValues* known = nullptr) : span_(std::move(span)), known_(known) {}
  virtual ~ExprBuilder() = default;

  /// A call of an operator. Throws ShapeError or DTypeError when its operands don't fit.
  relay::Expr Call(const char* op, const Array<relay::Expr>& args, const AttrList& attrs = {});
  /// Field `index` of a tuple.
  relay::Expr Item(const relay::Expr& tuple, int index);
  relay::Expr MakeTuple(const Array<relay::Expr>& fields);
  relay::Expr Const(const NDArray& value);
  /// A rank-0 constant.
  relay::Expr Scalar(DataType dtype, double value);
  relay::Expr IntVector(const std::vector<int64_t>& values, DataType dtype = DataType::Int(64));

  // Shorthands. Reshape's `shape` may have one -1.
  relay::Expr Reshape(const relay::Expr& x, const std::vector<int64_t>& shape);
  relay::Expr Transpose(const relay::Expr& x, const std::vector<int64_t>& axes);
  relay::Expr Cast(const relay::Expr& x, DataType dtype);
  relay::Expr Concat(const Array<relay::Expr>& parts, int axis);
  relay::Expr ExpandDims(const relay::Expr& x, int axis, int count = 1);
  relay::Expr Squeeze(const relay::Expr& x, const std::vector<int64_t>& axes);
  /// nn.pad; `mode` is "constant", "reflect" or "edge".
  relay::Expr Pad(const relay::Expr& x, const std::vector<int64_t>& before, const std::vector<int64_t>& after,
                  const relay::Expr& value, const std::string& mode);
  relay::Expr Slice(const relay::Expr& x, int axis, int64_t begin, int64_t end);

  /// What is known of a small integer or bool tensor (of rank 0 or 1), as KnownValues has it.
  std::optional<std::vector<PrimExpr>> ShapeElements(const relay::Expr& x);
  std::optional<std::vector<int64_t>> KnownElements(const relay::Expr& x);

  const Span& span() const { return span_; }

 private:
  Span span_;
  ops::KnownValues* known_;
};

/// A function parameter or other variable with its type.
relay::Var MakeVar(const std::string& name, const Type& type, const Span& span = Span());
relay::Expr MakeConstant(const NDArray& value, const Span& span = Span());

}  // namespace treadle::onnx
