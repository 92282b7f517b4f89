// SPDX-License-Identifier: Apache-2.0
// Arithmetic, comparison, logic and type conversion, element by element.
#include <cmath>

#include "frontend/onnx/compose.h"
#include "frontend/onnx/narrow_types.h"
#include "frontend/onnx/rules.h"
#include "frontend/onnx/tensor_data.h"
#include "frontend/onnx/values.h"

namespace treadle::onnx {
namespace {

using relay::Expr;

/// Second operand of a binary operator. Before opset 7 operands broadcast only when `broadcast` is 1: the second one's
/// dimensions then stand for a run of the first one's that begins at `axis` (default: the last ones).
Expr LegacyBroadcast(NodeImport& n, const Expr& a, const Expr& b) {
  n.Ignore({"consumed_inputs"});
  bool broadcast = n.Flag("broadcast", false);
  int rank_a = RankOf(a);
  int rank_b = RankOf(b);
  if (!broadcast) {
    n.Ignore({"axis"});
    if (rank_a != rank_b) n.Invalid("operands have different ranks, and broadcast is 0");
    return b;
  }
  if (!n.HasAttr("axis")) return b;
  int axis = n.Axis(n.Int("axis"), rank_a);
  if (axis + rank_b > rank_a) n.Invalid("the second operand doesn't fit at 'axis'");
  return n.ExpandDims(b, rank_b, rank_a - axis - rank_b);
}

ImportRule Binary(const char* op) {
  return [op](NodeImport& n) -> std::vector<Expr> {
    Expr a = n.In(0);
    Expr b = n.In(1);
    if (n.version() < 7) b = LegacyBroadcast(n, a, b);
    return {n.Call(op, {a, b})};
  };
}

ImportRule Unary(const char* op) {
  return [op](NodeImport& n) -> std::vector<Expr> {
    n.Ignore({"consumed_inputs"});
    return {n.Call(op, {n.In(0)})};
  };
}

/// Any number of operands, combined from left to right.
ImportRule Variadic(const char* op, bool mean = false) {
  return [op, mean](NodeImport& n) -> std::vector<Expr> {
    n.Ignore({"consumed_inputs"});
    Array<Expr> operands = n.AllInputs();
    if (operands.empty()) n.Invalid("there are no inputs");
    Expr result = operands[0];
    for (size_t i = 1; i < operands.size(); ++i) result = n.Call(op, {result, operands[i]});
    if (mean) {
      DataType dtype = TypeOf(result)->dtype;
      result = n.Call("divide", {result, n.Scalar(dtype, static_cast<double>(operands.size()))});
    }
    return {result};
  };
}

Expr ImportReciprocal(NodeImport& n) {
  n.Ignore({"consumed_inputs"});
  return n.Call("divide", {n.Scalar(n.DType(0), 1), n.In(0)});
}

/// The exponent's type may differ from the base's, which is the result's (opset 12).
Expr ImportPow(NodeImport& n) {
  Expr base = n.In(0);
  DataType dtype = n.DType(0);
  if (n.IsKnown(1)) {
    NDArray exponent = n.Constant(1, "Y");
    if (exponent.size() == 1 && exponent.ndim() <= n.Rank(0)) {
      double value = DoublesOf(exponent)[0];
      if (value == 1) return base;
      if (value == 2) return n.Call("multiply", {base, base});
      if (value == 3) return n.Call("multiply", {n.Call("multiply", {base, base}), base});
      if (value == -1 && dtype.is_floating()) return n.Call("divide", {n.Scalar(dtype, 1), base});
      // A power of 1/2 isn't a square root: they differ at -0 and -infinity.
      if (value == -0.5 && dtype.is_floating()) {
        return n.Call("divide", {n.Scalar(dtype, 1), n.Call("power", {base, n.Scalar(dtype, 0.5)})});
      }
    }
  }
  Expr exponent = n.In(1);
  if (n.version() < 7) exponent = LegacyBroadcast(n, base, exponent);
  if (!dtype.is_integral()) return n.Call("power", {base, n.Cast(exponent, dtype)});
  if (TypeOf(exponent)->dtype.is_integral()) {
    const DataType wide = DataType::Int(64);
    return n.Cast(n.Call("power", {n.Cast(base, wide), n.Cast(exponent, wide)}), dtype);
  }
  // What is an integer but for the last digits is one: the cast would cut off nearly 1.
  const DataType wide = DataType::Float(64);
  const Term power(n, n.Call("power", {n.Cast(base, wide), n.Cast(exponent, wide)}));
  const Term nearest = power.Op("round"), slack = power.Op("abs") * std::ldexp(1.0, -48);
  return ((power - nearest).Op("abs") <= slack).Select(nearest, power).As(dtype);
}

/// fmod = 0: the sign of the divisor (before opset 28 only for integers); fmod = 1: of the dividend.
Expr ImportMod(NodeImport& n) {
  bool fmod = n.Flag("fmod", false);
  if (!fmod && n.DType(0).is_floating() && n.version() < 28) {
    n.Invalid("fmod has to be 1 for floating-point operands");
  }
  if (!fmod && n.DType(0).is_floating()) {
    Term x = In(n, 0), y = In(n, 1), rest = x.Op("mod", y), zero = rest.Number(0);
    Term wrong_sign = rest != zero && (rest < zero) != (y < zero);
    // A remainder of zero has the sign of the divisor too.
    Term signed_zero = (y < zero).Select(rest.Number(-0.0), zero);
    return (rest == zero).Select(signed_zero, wrong_sign.Select(rest + y, rest));
  }
  return n.Call(fmod ? "mod" : "floor_mod", {n.In(0), n.In(1)});
}

/// Shifts by the number of bits and more give what shifting one by one would: 0, or -1 for negative numbers to the
/// right. Right shifts of signed numbers (opset 28) copy the sign.
Expr ImportBitShift(NodeImport& n) {
  std::string direction = n.Str("direction");
  if (direction != "LEFT" && direction != "RIGHT") n.Invalid("'direction' is neither LEFT nor RIGHT");
  bool left = direction == "LEFT";
  DataType dtype = n.DType(0);
  if (!dtype.is_integral()) n.Invalid("the operands aren't integers");
  Expr x = n.In(0);
  Expr amount = n.In(1);
  Expr last = n.Scalar(dtype, dtype.bits() - 1);
  Expr in_range = n.Call("less_equal", {amount, last});
  if (dtype.is_int()) {
    in_range = n.Call("logical_and", {in_range, n.Call("greater_equal", {amount, n.Scalar(dtype, 0)})});
  }
  Expr safe = n.Call("where", {in_range, amount, left ? n.Scalar(dtype, 0) : last});
  Expr shifted = n.Call(left ? "left_shift" : "right_shift", {x, safe});
  if (!left && dtype.is_int()) return shifted;  // a shift by all bits but one leaves copies of the sign
  return n.Call("where", {in_range, shifted, n.Scalar(dtype, 0)});
}

Expr ImportIsInf(NodeImport& n) {
  bool negative = n.Flag("detect_negative", true);
  bool positive = n.Flag("detect_positive", true);
  Expr x = n.In(0);
  Expr infinite = n.Call("isinf", {x});
  if (negative && positive) return infinite;
  Expr zero = n.Scalar(n.DType(0), 0);
  if (!negative && !positive) return n.Call("not_equal", {infinite, infinite});
  return n.Call("logical_and", {infinite, n.Call(negative ? "less" : "greater", {x, zero})});
}

/// Bounds are attributes before opset 11, then optional scalar inputs. Where they cross, the upper one wins.
Expr ImportClip(NodeImport& n) {
  Expr x = n.In(0);
  DataType dtype = n.DType(0);
  Expr lower, upper;
  if (n.version() < 11) {
    n.Ignore({"consumed_inputs"});
    if (n.HasAttr("min")) lower = n.Scalar(dtype, n.Float("min"));
    if (n.HasAttr("max")) upper = n.Scalar(dtype, n.Float("max"));
  } else {
    auto bound = [&](size_t i) -> Expr {
      if (!n.Has(i)) return Expr();
      if (n.Rank(i) > 1) n.Invalid("bounds have to be scalars");
      return n.Rank(i) == 0 ? n.In(i) : n.Reshape(n.In(i), {});
    };
    lower = bound(1);
    upper = bound(2);
  }
  if (lower.defined() && upper.defined() && dtype == DataType::Float(32) && KnownValue(lower) && KnownValue(upper)) {
    double a_min = DoublesOf(lower.as<relay::ConstantNode>()->data)[0];
    double a_max = DoublesOf(upper.as<relay::ConstantNode>()->data)[0];
    if (a_min <= a_max) return n.Call("clip", {x}, {{"a_min", a_min}, {"a_max", a_max}});
  }
  if (lower.defined()) x = n.Call("maximum", {x, lower});
  if (upper.defined()) x = n.Call("minimum", {x, upper});
  return x;
}

/// Names of types as version 1 of Cast writes them.
ElemType TypeByName(NodeImport& n, const std::string& name) {
  for (int i = 1; i <= static_cast<int>(ElemType::kBFloat16); ++i) {
    std::string other = ElemTypeName(static_cast<ElemType>(i));
    for (char& c : other) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    if (other == name) return static_cast<ElemType>(i);
  }
  n.Invalid(StrCat("unknown type ", QuoteName(name)));
}

NarrowRounding RoundingOf(NodeImport& n) {
  const std::string mode = n.Str("round_mode", "up");
  if (mode != "up" && mode != "down" && mode != "nearest") n.Invalid(StrCat("'round_mode' is ", QuoteName(mode)));
  return {n.Flag("saturate", true), mode};
}

Expr CastToText(NodeImport& n) {
  n.MarkText();
  return n.IsText(0) ? n.In(0) : ToText(n, n.In(0));
}

Expr ImportCast(NodeImport& n) {
  n.AllowSubByte();
  ElemType to;
  if (n.version() == 1) {
    to = TypeByName(n, n.Str("to"));
  } else {
    const int64_t number = n.Int("to");
    if (number < 0 || number > 1000) n.Invalid(StrCat("element type ", number, " isn't one of ONNX's"));
    to = static_cast<ElemType>(number);
  }
  if (!IsKnownElemType(to)) n.Invalid(StrCat("element type ", static_cast<int32_t>(to), " isn't one of ONNX's"));
  const NarrowRounding rounding = RoundingOf(n);
  if (to == ElemType::kString) return CastToText(n);
  if (n.IsText(0)) return FromText(n, n.In(0), StoredType(to, "'to'"));
  return ConvertTo(n, n.In(0), StoredType(to, "'to'"), rounding);
}

Expr ImportCastLike(NodeImport& n) {
  const NarrowRounding rounding = RoundingOf(n);
  const DataType to = n.DType(1);
  if (n.IsText(1)) return CastToText(n);
  if (n.IsText(0)) return FromText(n, n.In(0), to);
  return ConvertTo(n, n.In(0), to, rounding);
}

Expr ImportWhere(NodeImport& n) { return n.Call("where", {n.In(0), n.In(1), n.In(2)}); }

}  // namespace

void RegisterMathRules(RuleTable& table) {
  for (const auto& [name, op] :
       {std::pair{"Add", "add"}, {"Sub", "subtract"}, {"Mul", "multiply"}, {"Div", "divide"}}) {
    table.Add(name, {1, 6, 7, 13, 14}, Binary(op));
  }
  table.Add("Sum", {1, 6, 8, 13}, Variadic("add"));
  table.Add("Mean", {1, 6, 8, 13}, Variadic("add", true));
  table.Add("Max", {1, 6, 8, 12, 13}, Variadic("maximum"));
  table.Add("Min", {1, 6, 8, 12, 13}, Variadic("minimum"));
  table.Add1("Pow", {1, 7, 12, 13, 15}, ImportPow);
  table.Add1("Mod", {10, 13, 28}, ImportMod);
  table.Add("Greater", {1, 7, 9, 13}, Binary("greater"));
  table.Add("Less", {1, 7, 9, 13}, Binary("less"));
  table.Add("GreaterOrEqual", {12, 16}, Binary("greater_equal"));
  table.Add("LessOrEqual", {12, 16}, Binary("less_equal"));
  table.Add("Equal", {1, 7, 11, 13, 19}, Binary("equal"));
  table.Add("And", {1, 7}, Binary("logical_and"));
  table.Add("Or", {1, 7}, Binary("logical_or"));
  table.Add("Xor", {1, 7}, Binary("logical_xor"));
  table.Add("Not", {1}, Unary("logical_not"));
  table.Add("BitwiseAnd", {18}, Binary("bitwise_and"));
  table.Add("BitwiseOr", {18}, Binary("bitwise_or"));
  table.Add("BitwiseXor", {18}, Binary("bitwise_xor"));
  table.Add("BitwiseNot", {18}, Unary("bitwise_not"));
  table.Add1("BitShift", {11, 28}, ImportBitShift);
  for (const auto& [name, op] : {std::pair{"Abs", "abs"},
                                 {"Neg", "negative"},
                                 {"Exp", "exp"},
                                 {"Log", "log"},
                                 {"Sqrt", "sqrt"},
                                 {"Ceil", "ceil"},
                                 {"Floor", "floor"}}) {
    table.Add(name, {1, 6, 13}, Unary(op));
  }
  for (const auto& [name, op] : {std::pair{"Sin", "sin"},
                                 {"Cos", "cos"},
                                 {"Tan", "tan"},
                                 {"Asin", "asin"},
                                 {"Acos", "acos"},
                                 {"Atan", "atan"}}) {
    table.Add(name, {7, 22}, Unary(op));
  }
  for (const auto& [name, op] :
       {std::pair{"Sinh", "sinh"}, {"Cosh", "cosh"}, {"Asinh", "asinh"}, {"Acosh", "acosh"}, {"Atanh", "atanh"}}) {
    table.Add(name, {9, 22}, Unary(op));
  }
  table.Add("Round", {11, 22}, Unary("round"));
  table.Add("Sign", {9, 13}, Unary("sign"));
  table.Add("Erf", {9, 13}, Unary("erf"));
  table.Add("IsNaN", {9, 13, 20}, Unary("isnan"));
  table.Add1("IsInf", {10, 20}, ImportIsInf);
  table.Add1("Reciprocal", {1, 6, 13}, ImportReciprocal);
  table.Add1("Clip", {1, 6, 11, 12, 13}, ImportClip);
  table.Add1("Cast", {1, 6, 9, 13, 19, 21, 23, 24, 25, 28}, ImportCast);
  table.Add1("CastLike", {15, 19, 21, 23, 24, 25}, ImportCastLike);
  table.Add1("Where", {9, 16}, ImportWhere);
}

}  // namespace treadle::onnx
