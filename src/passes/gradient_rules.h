// SPDX-License-Identifier: Apache-2.0
// What rules of gradients are made of.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "passes/pass_util.h"

namespace treadle::relay::gradient {

using ops::CallOp;

/// A call of the original function, whose nodes are all typed.
struct Site {
  const CallNode* call;
  Expr grad;                ///< of the result, a tensor
  std::vector<Expr> grads;  ///< of the fields of a result that is a tuple; null where none flows
  Expr result() const { return GetRef<Expr>(call); }
  Expr arg(size_t i) const { return call->args[i]; }
  const TensorTypeNode* type(size_t i) const { return TensorTypeOf(call->args[i]); }
  const TensorTypeNode* result_type() const { return call->type_as<TensorTypeNode>(); }
};
/// The gradient of each argument. Null entries: none flows there.
using Rule = std::function<std::vector<Expr>(const Site&)>;

inline Expr Add(const Expr& a, const Expr& b) { return CallOp("add", {a, b}); }
inline Expr Sub(const Expr& a, const Expr& b) { return CallOp("subtract", {a, b}); }
inline Expr Mul(const Expr& a, const Expr& b) { return CallOp("multiply", {a, b}); }
inline Expr Div(const Expr& a, const Expr& b) { return CallOp("divide", {a, b}); }
inline Expr Neg(const Expr& a) { return CallOp("negative", {a}); }
inline Expr Square(const Expr& a) { return Mul(a, a); }
inline Expr Scalar(const Site& s, double value) { return ops::ScalarConstant(s.type(0)->dtype, value); }
inline Expr OnesLike(const Expr& e) { return CallOp("ones_like", {e}); }
inline Expr ZerosLike(const Expr& e) { return CallOp("zeros_like", {e}); }
inline Expr Exp(const Expr& e) { return CallOp("exp", {e}); }

/// Dimension `i` of the type; an error where it isn't known.
inline int64_t Dim(const TensorTypeNode* type, size_t i) {
  const int64_t* dim = AsConstInt(type->shape[i]);
  if (dim == nullptr) throw ShapeError("this gradient needs static shapes");
  return *dim;
}

/// Convolution, pooling and resizing. (gradient_windows.cc)
std::map<std::string, Rule> WindowRules();
/// Operators that move elements. (gradient_moves.cc)
std::map<std::string, Rule> MoveRules();

}  // namespace treadle::relay::gradient
