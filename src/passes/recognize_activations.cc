// SPDX-License-Identifier: Apache-2.0
// RecognizeActivations: activations that exporters write as several operators become one, which computes the same with
// less: x * tanh(softplus(x)) is nn.mish, x / 2 * (1 + erf(x / sqrt(2))) is nn.gelu, and (1 + tanh(x)) / 2, of which
// the other form of GELU is made, sigmoid(2 x). log(sigmoid(x)) becomes min(x, 0) - log(1 + exp(-|x|)), which has a
// value where the sigmoid has become 0.
#include "passes/recognize_activations.h"

#include <algorithm>
#include <cmath>

#include "passes/pass_util.h"
#include "treadle/ir/prim_ops.h"

namespace treadle::relay {
namespace {

/// The value of a constant of one element that changes no shapes.
std::optional<double> NumberIn(const Expr& e) {
  const auto* constant = e.as<ConstantNode>();
  if (constant == nullptr || constant->data.size() != 1 || constant->data.shape().size() > 1) return std::nullopt;
  return UniformValue(e);
}

/// The other operand of a sum or maximum of which one operand is `value`; else null.
Expr BesideNumber(const Expr& e, const char* op, double value) {
  const CallNode* call = AsCallOf(e, op);
  for (size_t i = 0; call != nullptr && i < 2; ++i) {
    if (NumberIn(call->args[i]) == value) return call->args[1 - i];
  }
  return Expr();
}

/// x of log(1 + exp(x)), or of max(x, 0) + log(1 + exp(-|x|)), which is the same without overflow; else null.
Expr OperandOfSoftplus(const Expr& e) {
  auto exponent = [](const Expr& log) {
    const CallNode* call = AsCallOf(log, "log");
    Expr power = call == nullptr ? Expr() : BesideNumber(call->args[0], "add", 1);
    const CallNode* exp = power.defined() ? AsCallOf(power, "exp") : nullptr;
    return exp == nullptr ? Expr() : exp->args[0];
  };
  if (Expr x = exponent(e); x.defined()) return x;
  const CallNode* sum = AsCallOf(e, "add");
  for (size_t i = 0; sum != nullptr && i < 2; ++i) {
    Expr x = BesideNumber(sum->args[i], "maximum", 0), minus = exponent(sum->args[1 - i]);
    const CallNode* negative = minus.defined() ? AsCallOf(minus, "negative") : nullptr;
    const CallNode* size = negative == nullptr ? nullptr : AsCallOf(negative->args[0], "abs");
    if (x.defined() && size != nullptr && size->args[0].same_as(x)) return x;
  }
  return Expr();
}

/// x of erf(x / sqrt(2)), as a quotient or a product; else null. `dtype`: of the numbers.
Expr OperandOfErf(const Expr& e, DataType dtype) {
  constexpr double kRoot = 1.41421356237309505;
  const CallNode* erf = AsCallOf(e, "erf");
  if (erf == nullptr) return Expr();
  // Models of 16 bits hold the root rounded to their type.
  const double tolerance = dtype.bits() != 16 ? 1e-5 : dtype.is_float16() ? 1e-3 : 8e-3;
  auto is = [tolerance](const std::optional<double>& value, double wanted) {
    return value && std::abs(*value - wanted) < tolerance;
  };
  if (const CallNode* quotient = AsCallOf(erf->args[0], "divide")) {
    return is(NumberIn(quotient->args[1]), kRoot) ? quotient->args[0] : Expr();
  }
  const CallNode* product = AsCallOf(erf->args[0], "multiply");
  for (size_t i = 0; product != nullptr && i < 2; ++i) {
    if (is(NumberIn(product->args[i]), 1 / kRoot)) return product->args[1 - i];
  }
  return Expr();
}

/// The factors of a product, those of operand `open` instead of it where that is a product, too.
std::vector<Expr> FactorsOf(const CallNode* product, size_t open) {
  const CallNode* inner = AsCallOf(product->args[open], "multiply");
  if (inner == nullptr) return {product->args[0], product->args[1]};
  return {inner->args[0], inner->args[1], product->args[1 - open]};
}

class ActivationRecognizer : public MixedModeMutator {
  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const auto* call = post.as<CallNode>();
    const auto* type = TensorTypeOf(GetRef<Expr>(pre));
    if (call == nullptr || call->op.as<OpNode>() == nullptr || type == nullptr) return post;
    if (OpName(call) == "log") return OfLog(call, type->dtype, post);
    if (OpName(call) != "multiply") return post;
    // Numbers may be vectors of one element, of which a scalar would become one.
    if (type->shape.empty() || (type->shape.size() == 1 && tir::is_const_int(type->shape[0], 1))) return post;
    const bool narrow = type->dtype.is_float16() || type->dtype.is_bfloat16();
    if (type->dtype != DataType::Float(32) && !narrow) return post;
    for (size_t i = 0; i < 2 && !narrow; ++i) {
      const CallNode* tanh = AsCallOf(call->args[1 - i], "tanh");
      Expr x = tanh == nullptr ? Expr() : OperandOfSoftplus(tanh->args[0]);
      if (x.defined() && x.same_as(call->args[i])) return Unary("nn.mish", x, call->span);
    }
    for (size_t open = 0; open < 2; ++open) {
      if (Expr result = OfHalf(call, FactorsOf(call, open), type->dtype); result.defined()) return result;
    }
    return post;
  }

  static Expr Unary(const char* name, const Expr& x, const Span& span) {
    return Call(Op::Get(name), {x}, Attrs(), {}, span);
  }

  /// The logarithm of sigmoid(x); else `post`.
  static Expr OfLog(const CallNode* log, DataType dtype, const Expr& post) {
    const CallNode* sigmoid = AsCallOf(log->args[0], "sigmoid");
    if (sigmoid == nullptr) return post;
    const Expr& x = sigmoid->args[0];
    const auto binary = [&](const char* op, const Expr& a, const Expr& b) {
      return Call(Op::Get(op), {a, b}, Attrs(), {}, log->span);
    };
    Expr power = x;
    for (const char* op : {"abs", "negative", "exp"}) power = Unary(op, power, log->span);
    const Expr sum = binary("add", power, ops::ScalarConstant(dtype, 1.0));
    return binary("subtract", binary("minimum", x, ops::ScalarConstant(dtype, 0.0)), Unary("log", sum, log->span));
  }

  /// A product of 1/2, of (1 + erf(..)) or (1 + tanh(..)), and maybe of something else.
  static Expr OfHalf(const CallNode* call, std::vector<Expr> factors, DataType dtype) {
    static const Op multiply = Op::Get("multiply");
    auto half = std::find_if(factors.begin(), factors.end(), [](const Expr& e) { return NumberIn(e) == 0.5; });
    if (half == factors.end()) return Expr();
    factors.erase(half);
    for (size_t i = 0; i < factors.size(); ++i) {
      Expr inner = BesideNumber(factors[i], "add", 1);
      if (!inner.defined()) continue;
      if (Expr x = OperandOfErf(inner, dtype); x.defined() && factors.size() == 2 && x.same_as(factors[1 - i])) {
        // It tends to 0 on that side without being kept from infinity.
        const PrimExpr least = tir::min_value(dtype);
        const Expr open = BesideNumber(x, "maximum", least.as<FloatImmNode>()->value);
        return Unary("nn.gelu", open.defined() ? open : x, call->span);
      }
      const CallNode* tanh = AsCallOf(inner, "tanh");
      if (tanh == nullptr || factors.size() > 2) continue;
      Expr twice = Call(multiply, {tanh->args[0], ops::ScalarConstant(dtype, 2.0)}, Attrs(), {}, call->span);
      Expr gate = Unary("sigmoid", twice, call->span);
      if (factors.size() == 1) return gate;
      return Call(multiply, {factors[1 - i], gate}, Attrs(), {}, call->span);
    }
    return Expr();
  }
};

}  // namespace

namespace transform {

Pass RecognizeActivations() {
  return MutatorPass<ActivationRecognizer>(
      {"RecognizeActivations", 1, {"InferType"}, "Makes one operator of activations that are written as several"});
}

}  // namespace transform
}  // namespace treadle::relay
