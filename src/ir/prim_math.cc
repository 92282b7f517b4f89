// SPDX-License-Identifier: Apache-2.0
// Mathematical functions of scalar expressions, casts of constants, and the table of intrinsics.
#include <cmath>
#include <mutex>
#include <vector>

#include "ir/prim_fold.h"
#include "treadle/ir/prim_functor.h"
#include "treadle/ir/prim_ops.h"

namespace treadle::tir {

PrimExpr FoldCast(DataType dtype, const PrimExpr& x) {
  if (!dtype.is_scalar() || runtime::IsCustomDatatype(x.dtype())) return PrimExpr();
  if (runtime::IsCustomDatatype(dtype)) {  // a constant of that type, which a function makes of the number
    if (const auto* imm = x.as<IntImmNode>()) return FloatImm(dtype, static_cast<double>(imm->value));
    if (const auto* imm = x.as<FloatImmNode>()) return FloatImm(dtype, imm->value);
    return PrimExpr();
  }
  if (const auto* imm = x.as<IntImmNode>()) {
    bool wide_unsigned = imm->dtype.is_uint() && imm->dtype.bits() == 64;
    if (dtype.is_bool()) return make_bool(imm->value != 0);
    if (dtype.is_integral()) return IntImm(dtype, WrapInt(dtype, imm->value));
    if (dtype.is_float() && !wide_unsigned && dtype.bits() == 32) {
      return FloatImm(dtype, static_cast<float>(imm->value));  // one rounding, not two
    }
    if (dtype.is_floating()) {
      double value =
          wide_unsigned ? static_cast<double>(static_cast<uint64_t>(imm->value)) : static_cast<double>(imm->value);
      if (std::abs(value) >= 9007199254740992.0 && dtype.bits() < 64) return PrimExpr();
      return FloatImm(dtype, RoundToDType(dtype, value));
    }
  }
  if (const auto* imm = x.as<FloatImmNode>()) {
    if (dtype.is_floating()) return FloatImm(dtype, RoundToDType(dtype, imm->value));
    if (dtype.is_bool()) return make_bool(imm->value != 0);
    if (dtype.is_integral()) {
      if (std::isnan(imm->value)) return make_zero(dtype);
      double value = std::trunc(imm->value);
      if (dtype.is_uint() && dtype.bits() == 64) {
        if (value <= 0) return make_zero(dtype);
        if (value >= 18446744073709551616.0) return max_value(dtype);
        return IntImm(dtype, static_cast<int64_t>(static_cast<uint64_t>(value)));
      }
      auto low = static_cast<double>(min_value(dtype).as<IntImmNode>()->value);
      auto high = static_cast<double>(max_value(dtype).as<IntImmNode>()->value);
      if (value <= low) return min_value(dtype);
      if (value >= high) return max_value(dtype);
      return IntImm(dtype, static_cast<int64_t>(value));
    }
  }
  return PrimExpr();
}

namespace {

PrimExpr AsFloating(PrimExpr x) {
  if (runtime::ActsAsFloat(x.dtype())) return x;
  if (!x.dtype().is_integral())
    throw DTypeError(StrCat("a floating-point function can't take a value of type ", x.dtype(), "; expected a number"));
  return cast(DataType::Float(32, x.dtype().lanes()), x);
}

/// Folding is done in double and rounded once: float32 results differ from the correctly rounded ones in at most
/// the double rounding of a value within 2^-29 of a tie.
bool Foldable(DataType dtype) { return dtype.is_scalar() && dtype.is_float(); }

PrimExpr UnaryMath(const char* name, PrimExpr x, double (*fold)(double)) {
  x = AsFloating(std::move(x));
  DataType dtype = x.dtype();
  if (const auto* imm = x.as<FloatImmNode>(); imm && Foldable(dtype)) {
    return FloatImm(dtype, RoundToDType(dtype, fold(imm->value)));
  }
  return CallIntrin(dtype, name, {std::move(x)});
}

PrimExpr Rounding(const char* name, PrimExpr x, double (*fold)(double)) {
  if (x.dtype().is_integral()) return x;
  return UnaryMath(name, std::move(x), fold);
}

PrimExpr BinaryMath(const char* name, PrimExpr x, PrimExpr y, double (*fold)(double, double)) {
  MatchTypes(x, y, name);
  x = AsFloating(std::move(x));
  y = AsFloating(std::move(y));
  DataType dtype = x.dtype();
  const auto* u = x.as<FloatImmNode>();
  const auto* v = y.as<FloatImmNode>();
  if (u && v && fold && Foldable(dtype)) return FloatImm(dtype, RoundToDType(dtype, fold(u->value, v->value)));
  return CallIntrin(dtype, name, {std::move(x), std::move(y)});
}

double Exp10(double x) { return std::pow(10.0, x); }
double Rsqrt(double x) { return 1.0 / std::sqrt(x); }
double Sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

}  // namespace

#define TREADLE_DEFINE_UNARY(name, fold)                                                      \
  PrimExpr name(PrimExpr x) {                                                                 \
    return UnaryMath("tir." #name, std::move(x), [](double v) -> double { return fold(v); }); \
  }
TREADLE_DEFINE_UNARY(exp, std::exp)
TREADLE_DEFINE_UNARY(exp2, std::exp2)
TREADLE_DEFINE_UNARY(exp10, Exp10)
TREADLE_DEFINE_UNARY(expm1, std::expm1)
TREADLE_DEFINE_UNARY(log, std::log)
TREADLE_DEFINE_UNARY(log2, std::log2)
TREADLE_DEFINE_UNARY(log10, std::log10)
TREADLE_DEFINE_UNARY(log1p, std::log1p)
TREADLE_DEFINE_UNARY(sqrt, std::sqrt)
TREADLE_DEFINE_UNARY(rsqrt, Rsqrt)
TREADLE_DEFINE_UNARY(sin, std::sin)
TREADLE_DEFINE_UNARY(cos, std::cos)
TREADLE_DEFINE_UNARY(tan, std::tan)
TREADLE_DEFINE_UNARY(asin, std::asin)
TREADLE_DEFINE_UNARY(acos, std::acos)
TREADLE_DEFINE_UNARY(atan, std::atan)
TREADLE_DEFINE_UNARY(sinh, std::sinh)
TREADLE_DEFINE_UNARY(cosh, std::cosh)
TREADLE_DEFINE_UNARY(tanh, std::tanh)
TREADLE_DEFINE_UNARY(asinh, std::asinh)
TREADLE_DEFINE_UNARY(acosh, std::acosh)
TREADLE_DEFINE_UNARY(atanh, std::atanh)
TREADLE_DEFINE_UNARY(erf, std::erf)
TREADLE_DEFINE_UNARY(sigmoid, Sigmoid)
#undef TREADLE_DEFINE_UNARY

#define TREADLE_DEFINE_ROUNDING(name)                                                             \
  PrimExpr name(PrimExpr x) {                                                                     \
    return Rounding("tir." #name, std::move(x), [](double v) -> double { return std::name(v); }); \
  }
TREADLE_TIR_ROUNDING(TREADLE_DEFINE_ROUNDING)
#undef TREADLE_DEFINE_ROUNDING

PrimExpr abs(PrimExpr x) {
  if (x.dtype().is_uint()) return x;
  if (x.dtype().is_int()) return select(greater_equal(x, make_zero(x.dtype())), x, neg(x));
  return UnaryMath("tir.fabs", std::move(x), [](double v) -> double { return std::fabs(v); });
}
PrimExpr fabs(PrimExpr x) { return abs(std::move(x)); }

PrimExpr isnan(PrimExpr x) {
  int lanes = x.dtype().lanes();
  if (x.dtype().is_integral()) return make_bool(false, lanes);
  if (const auto* imm = x.as<FloatImmNode>()) return make_bool(std::isnan(imm->value));
  return CallIntrin(DataType::Bool(lanes), "tir.isnan", {std::move(x)});
}
PrimExpr isinf(PrimExpr x) {
  if (x.dtype().is_integral()) return make_bool(false, x.dtype().lanes());
  return equal(abs(x), infinity(x.dtype()));
}
PrimExpr isfinite(PrimExpr x) {
  if (x.dtype().is_integral()) return make_bool(true, x.dtype().lanes());
  return less(abs(x), infinity(x.dtype()));
}

PrimExpr pow(PrimExpr x, PrimExpr y) {
  return BinaryMath("tir.pow", std::move(x), std::move(y), [](double a, double b) -> double { return std::pow(a, b); });
}
PrimExpr fmod(PrimExpr x, PrimExpr y) {
  return BinaryMath("tir.fmod", std::move(x), std::move(y),
                    [](double a, double b) -> double { return std::fmod(a, b); });
}
PrimExpr atan2(PrimExpr y, PrimExpr x) {
  return BinaryMath("tir.atan2", std::move(y), std::move(x),
                    [](double a, double b) -> double { return std::atan2(a, b); });
}
PrimExpr hypot(PrimExpr x, PrimExpr y) {
  return BinaryMath("tir.hypot", std::move(x), std::move(y),
                    [](double a, double b) -> double { return std::hypot(a, b); });
}
PrimExpr copysign(PrimExpr x, PrimExpr y) {
  return BinaryMath("tir.copysign", std::move(x), std::move(y),
                    [](double a, double b) -> double { return std::copysign(a, b); });
}
PrimExpr nextafter(PrimExpr x, PrimExpr y) { return BinaryMath("tir.nextafter", std::move(x), std::move(y), nullptr); }

PrimExpr fma(PrimExpr a, PrimExpr b, PrimExpr c) {
  MatchTypes(a, b, "tir.fma");
  MatchTypes(a, c, "tir.fma");
  MatchTypes(a, b, "tir.fma");
  if (!a.dtype().is_floating()) return a * b + c;
  DataType dtype = a.dtype();
  return CallIntrin(dtype, "tir.fma", {std::move(a), std::move(b), std::move(c)});
}

Call CallIntrin(DataType dtype, const std::string& name, Array<PrimExpr> args) {
  RegisterTirOps();
  const Op& op = Op::Get(name);
  if (op->num_inputs >= 0 && static_cast<size_t>(op->num_inputs) != args.size()) {
    throw Error(StrCat("intrinsic ", name, " takes ", op->num_inputs, " arguments, not ", args.size()));
  }
  return Call(dtype, op, std::move(args));
}

namespace {
Call CallNamed(DataType dtype, const char* intrinsic, const std::string& name, const Array<PrimExpr>& args) {
  Array<PrimExpr> all{StringImm(name)};
  for (const PrimExpr& arg : args) all.push_back(arg);
  return CallIntrin(dtype, intrinsic, all);
}
}  // namespace

Call CallExtern(DataType dtype, const std::string& name, Array<PrimExpr> args) {
  return CallNamed(dtype, "tir.call_extern", name, args);
}
Call CallPureExtern(DataType dtype, const std::string& name, Array<PrimExpr> args) {
  return CallNamed(dtype, "tir.call_pure_extern", name, args);
}
Call CallPacked(DataType dtype, const std::string& name, Array<PrimExpr> args) {
  return CallNamed(dtype, "tir.tvm_call_packed", name, args);
}
PrimExpr AddressOf(const BufferLoad& element) { return CallIntrin(DataType::Handle(), "tir.address_of", {element}); }
PrimExpr ReturnValue(PrimExpr value) {
  DataType dtype = value.dtype();
  return CallIntrin(dtype, "tir.ret", {std::move(value)});
}

bool IsCallTo(const CallNode* call, const char* name) {
  const auto* op = call->op.as<OpNode>();
  return op && op->name == name;
}

CallEffect EffectOf(const CallNode* call) {
  const auto* op = call->op.as<OpNode>();
  if (op == nullptr) return CallEffect::kOpaque;
  return GetRef<Op>(op).GetAttr(kCallEffect, CallEffect::kOpaque);
}

CallCost CostOf(const CallNode* call) {
  const auto* op = call->op.as<OpNode>();
  return op == nullptr ? CallCost::kFunction : GetRef<Op>(op).GetAttr(kCallCost, CallCost::kFunction);
}

namespace {

class EffectFinder : public ExprVisitor {
 public:
  CallEffect worst = CallEffect::kPure;

 protected:
  void VisitExpr_(const CallNode* op) override {
    worst = std::max(worst, EffectOf(op));
    ExprVisitor::VisitExpr_(op);
  }
  void VisitExpr_(const BufferLoadNode* op) override {
    worst = std::max(worst, CallEffect::kReads);
    ExprVisitor::VisitExpr_(op);
  }
  void VisitExpr_(const ProducerLoadNode* op) override {
    worst = std::max(worst, CallEffect::kReads);
    ExprVisitor::VisitExpr_(op);
  }
};

CallEffect WorstEffect(const PrimExpr& expr) {
  if (expr.as<VarNode>() || expr.as<IntImmNode>() || expr.as<FloatImmNode>()) return CallEffect::kPure;
  EffectFinder finder;
  finder(expr);
  return finder.worst;
}

struct Intrinsic {
  const char* name;
  int num_inputs;  ///< -1: any
  CallEffect effect;
  const char* doc;
  CallCost cost = CallCost::kFunction;
};

constexpr CallEffect kP = CallEffect::kPure, kR = CallEffect::kReads, kO = CallEffect::kOpaque;

constexpr Intrinsic kIntrinsics[] = {
    {"if_then_else", 3, kP, "the second or third argument; the other one isn't computed", CallCost::kCast},
    {"likely", 1, kP, "its argument, expected to be true", CallCost::kInstruction},
    {"reinterpret", 1, kP, "the same bits as another dtype"},
    {"shift_left", 2, kP, "bits moved up"},
    {"shift_right", 2, kP, "bits moved down; int keeps its sign"},
    {"bitwise_and", 2, kP, "bitwise and"},
    {"bitwise_or", 2, kP, "bitwise or"},
    {"bitwise_xor", 2, kP, "bitwise exclusive or"},
    {"bitwise_not", 1, kP, "bitwise complement"},
    {"popcount", 1, kP, "number of one bits"},
    {"clz", 1, kP, "number of leading zero bits"},
    {"fabs", 1, kP, "absolute value", CallCost::kInstruction},
    {"isnan", 1, kP, "whether it is not a number", CallCost::kInstruction},
    {"pow", 2, kP, "power"},
    {"fmod", 2, kP, "remainder with the sign of the dividend"},
    {"atan2", 2, kP, "angle of the point (second, first)"},
    {"hypot", 2, kP, "square root of the sum of squares"},
    {"copysign", 2, kP, "the first with the sign of the second"},
    {"nextafter", 2, kP, "the next representable value toward the second"},
    {"fma", 3, kP, "a*b+c rounded once"},
    {"pack_bytes", 4, kP, "the word (int32) of four bytes, the first in the low bits"},
    {"dot_bytes", 2, kP, "sum of products of the bytes of two words, uint8 by int8"},
    {"dot_two_words", 4, kP, "(a, b, c, d): dot_bytes(a, b) + dot_bytes(c, d), pairs of which fit 16 bits together"},
    {"pack_shorts", 2, kP, "the word (int32) of two int16, the first in the low half"},
    {"dot_shorts", 2, kP, "sum of products of the int16 of two words"},
    {"round_clamped", 3, kP, "(x, low, high): clamped and rounded half to even, as int32; NaN becomes low"},
    {"divide_by_scale", 2, kP, "(x, scale): x / scale, for a scale between 2^-100 and 2^100 that neighbours share"},
    {"pack_pair", 2, kP, "the word (int32) of two bfloat16, the first in the low half"},
    {"pair_half", 1, kP,
     "a float32 as one of the bfloat16 of pack_pair: rounded, perhaps to 0 below the least normal one",
     CallCost::kCast},
    {"dot_pairs", 2, kP, "sum of products of the bfloat16 of two words, in float32"},
    {"tile_dot_bytes", -1, kO, "a product of tiles of bytes (treadle/tir/tile_ops.h)"},
    {"tile_dot_pairs", -1, kO, "a product of tiles of bfloat16 (treadle/tir/tile_ops.h)"},
    {"large_uint_imm", 2, kP, "a uint64 constant given by its low and high 32 bits"},
    {"vectorlow", 1, kP, "the lower half of the lanes"},
    {"vectorhigh", 1, kP, "the upper half of the lanes"},
    {"vectorcombine", 2, kP, "lanes of both"},
    {"vscale", 0, kP, "multiple of scalable vectors"},
    {"masked_load", 3, kR, "(element, mask, otherwise): lanes of the buffer load where mask, else otherwise"},
    {"masked_store", 3, kO, "(element, mask, value): stores lanes where mask"},
    {"address_of", -1, kP,
     "(element, last): pointer to the element; what is used lies between it and the last, if given"},
    {"isnullptr", 1, kP, "whether the pointer is null"},
    {"ret", 1, kO, "returns from the function"},
    {"call_extern", -1, kO, "(name, args...): a C function"},
    {"call_pure_extern", -1, kP, "(name, args...): a C function without side effects"},
    {"call_llvm_intrin", -1, kO, "(name, args...): an intrinsic of LLVM"},
    {"call_llvm_pure_intrin", -1, kP, "(name, args...): an intrinsic of LLVM without side effects"},
    {"tvm_call_packed", -1, kO, "(name, args...): a registered packed function"},
    {"tvm_call_cpacked", -1, kO, "(name, args...): a C function of the packed convention"},
    {"tvm_call_packed_lowered", -1, kO, "(name, values, codes, begin, end)"},
    {"tvm_call_cpacked_lowered", -1, kO, "(name, values, codes, begin, end)"},
    {"tvm_tuple", -1, kP, "a group of values"},
    {"tvm_struct_get", -1, kR, "(handle, index, field): a field of a DLTensor or argument"},
    {"tvm_struct_set", -1, kO, "(handle, index, field, value)"},
    {"tvm_stack_alloca", 2, kO, "(kind, count): memory of this call"},
    {"tvm_stack_make_shape", -1, kO, "shape array on the stack"},
    {"tvm_stack_make_array", -1, kO, "(pointer, zero of the dtype, extents...): a compact DLTensor on the stack"},
    {"tvm_throw_last_error", 0, kO, "returns with the error that is set"},
    {"tvm_access_ptr", 5, kR, "(type, data, offset, extent, rw mask): pointer into a buffer"},
    {"tvm_thread_allreduce", -1, kO, "reduction across threads"},
    {"tvm_storage_sync", -1, kO, "waits for the threads that share the scope"},
    {"tvm_thread_context", 1, kR, "value of the launching thread"},
    {"prefetch", -1, kO, "(address, rw, locality, cache): a hint to load a cache line"},
    {"trap", -1, kO, "(message): stops with an error"},
    {"assume", 1, kO, "the condition may be relied on"},
    {"undef", 0, kR, "any value"},
};

}  // namespace

bool IsPure(const PrimExpr& expr) { return WorstEffect(expr) == CallEffect::kPure; }
bool HasNoSideEffect(const PrimExpr& expr) { return WorstEffect(expr) != CallEffect::kOpaque; }

void RegisterTirOps() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (const Intrinsic& i : kIntrinsics) {
      OpRegistration(std::string("tir.") + i.name)
          .Describe(i.doc)
          .NumInputs(i.num_inputs)
          .Set(kCallEffect, i.effect)
          .Set(kCallCost, i.cost);
    }
#define TREADLE_REGISTER_UNARY(name) \
  OpRegistration("tir." #name).Describe(#name " of a floating-point number").NumInputs(1).Set(kCallEffect, kP);
    TREADLE_TIR_UNARY_MATH(TREADLE_REGISTER_UNARY)
    TREADLE_TIR_ROUNDING(TREADLE_REGISTER_UNARY)
#undef TREADLE_REGISTER_UNARY
    for (const char* name : {"tir.floor", "tir.ceil", "tir.trunc", "tir.round", "tir.sqrt"}) {
      OpRegistration(name).Set(kCallCost, CallCost::kInstruction);
    }
  });
}

}  // namespace treadle::tir
