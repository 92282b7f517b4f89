// SPDX-License-Identifier: Apache-2.0
// Arithmetic, comparisons, conversions and memory accesses.
#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "targets/llvm/function_codegen.h"
#include "treadle/runtime/scalar.h"
#include "treadle/tir/byte_ops.h"

namespace treadle::targets {

using llvm::Value;

namespace {

bool IsLeaf(const PrimExpr& e) {
  return e.as<tir::VarNode>() || e.as<IntImmNode>() || e.as<FloatImmNode>() || e.as<tir::StringImmNode>();
}

bool IsSmallFloat(DataType t) {
  return t.is_float16() || t.is_bfloat16() || t.is_float8() || (t.is_floating() && t.bits() < 32);
}

FloatFormat FormatOf(DataType t) {
  if (const std::optional<FloatFormat> format = runtime::SmallFloatFormat(t)) return *format;
  throw DTypeError(StrCat("the llvm backend can't compute with dtype ", t));
}

class LoadFinder : public tir::ExprVisitor {
 public:
  bool found = false;

 protected:
  void VisitExpr(const PrimExpr& e) override {
    if (!found) ExprVisitor::VisitExpr(e);
  }
  void VisitExpr_(const tir::BufferLoadNode*) override { found = true; }
  void VisitExpr_(const tir::CallNode* op) override {
    if (tir::EffectOf(op) != tir::CallEffect::kPure) found = true;
    ExprVisitor::VisitExpr_(op);
  }
};

bool MayTrap(const PrimExpr& e) {
  LoadFinder finder;
  finder(e);
  return finder.found;
}

}  // namespace

Value* FunctionCodegen::VisitExpr(const PrimExpr& e) {
  TREADLE_ICHECK(e.defined()) << "null expression";
  if (IsLeaf(e) || e->use_count() <= 1) return ExprBase::VisitExpr(e);
  for (auto memo = memos_.rbegin(); memo != memos_.rend(); ++memo) {
    if (auto it = memo->find(e.get()); it != memo->end()) return it->second;
  }
  Value* value = ExprBase::VisitExpr(e);
  memos_.back()[e.get()] = value;
  known_.push_back(e);
  return value;
}

Value* FunctionCodegen::VisitExpr_(const tir::VarNode* op) {
  auto it = vars_.find(op);
  TREADLE_ICHECK(it != vars_.end()) << "variable " << op->name_hint << " isn't defined in "
                                    << function_->getName().str();
  return it->second;
}

llvm::Constant* FunctionCodegen::IntConstant(DataType dtype, uint64_t value) {
  auto* scalar = llvm::ConstantInt::get(llvm::IntegerType::get(context(), dtype.bits()), value);
  if (dtype.is_scalar()) return scalar;
  return llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(dtype.lanes()), scalar);
}

Value* FunctionCodegen::VisitExpr_(const IntImmNode* op) {
  return IntConstant(op->dtype, static_cast<uint64_t>(op->value));
}

Value* FunctionCodegen::VisitExpr_(const FloatImmNode* op) {
  if (IsSmallFloat(op->dtype)) return IntConstant(op->dtype, EncodeFloat(FormatOf(op->dtype), op->value));
  return llvm::ConstantFP::get(ValueType(op->dtype), op->value);
}

Value* FunctionCodegen::VisitExpr_(const tir::StringImmNode* op) { return module_->StringConstant(op->value); }

Value* FunctionCodegen::Splat(Value* scalar, int lanes) {
  return lanes == 1 ? scalar : b_.CreateVectorSplat(lanes, scalar);
}

// ---- Conversions ----

Value* FunctionCodegen::KeepWide(Value* value) {
  const char* feature = module_->features().arch == "x86_64" ? "avx512fp16" : "fullfp16";
  const bool fenced = value->getType()->isVectorTy() && !module_->HasFeature(feature);
  return fenced ? b_.CreateArithmeticFence(value, value->getType()) : value;
}

Value* FunctionCodegen::SmallFloatToFloat32(Value* value, DataType from) {
  const int lanes = from.lanes();
  auto* f32 = ValueType(DataType::Float(32, lanes));
  if (from.is_bfloat16()) {
    Value* wide = b_.CreateZExt(value, ValueType(DataType::Int(32, lanes)));
    return b_.CreateBitCast(b_.CreateShl(wide, 16), f32);
  }
  if (from.is_float16() && module_->features().f16_convert) {
    llvm::Type* half = b_.getHalfTy();
    if (lanes > 1) half = llvm::FixedVectorType::get(half, lanes);
    return KeepWide(b_.CreateFPExt(b_.CreateBitCast(value, half), f32));
  }
  // Exact: move exponent and mantissa into place and scale by a power of two; then patch what isn't finite.
  const FloatFormat format = FormatOf(from);
  const DataType i32 = DataType::Int(32, lanes);
  Value* wide = b_.CreateZExt(value, ValueType(i32));
  Value* magnitude = b_.CreateAnd(wide, IntConstant(i32, format.sign_mask() - 1));
  Value* sign = b_.CreateShl(b_.CreateAnd(wide, IntConstant(i32, format.sign_mask())), 31 - (format.bits() - 1));
  Value* moved = b_.CreateShl(magnitude, 23 - format.mantissa);
  Value* scale = llvm::ConstantFP::get(f32, std::ldexp(1.0, 127 - format.bias));
  Value* scaled = b_.CreateBitCast(b_.CreateFMul(b_.CreateBitCast(moved, f32), scale), ValueType(i32));
  Value* nan = IntConstant(i32, 0x7fc00000u);
  if (format.specials == FloatSpecials::kIeee) {
    Value* inf_code = IntConstant(i32, format.infinity());
    Value* special = b_.CreateSelect(b_.CreateICmpUGT(magnitude, inf_code), nan, IntConstant(i32, 0x7f800000u));
    scaled = b_.CreateSelect(b_.CreateICmpUGE(magnitude, inf_code), special, scaled);
  } else if (format.specials == FloatSpecials::kFinite) {
    scaled = b_.CreateSelect(b_.CreateICmpEQ(magnitude, IntConstant(i32, format.nan())), nan, scaled);
  } else {
    scaled = b_.CreateSelect(b_.CreateICmpEQ(wide, IntConstant(i32, format.nan())), nan, scaled);
  }
  return b_.CreateBitCast(b_.CreateOr(scaled, sign), f32);
}

Value* FunctionCodegen::Float32ToSmallFloat(Value* value, DataType to) {
  const int lanes = to.lanes();
  const DataType i32 = DataType::Int(32, lanes);
  auto* int_type = ValueType(i32);
  if (to.is_float16() && module_->features().f16_convert) {
    llvm::Type* half = b_.getHalfTy();
    if (lanes > 1) half = llvm::FixedVectorType::get(half, lanes);
    return b_.CreateBitCast(b_.CreateFPTrunc(KeepWide(value), half), ValueType(to));
  }
  const FloatFormat format = FormatOf(to);
  Value* bits = b_.CreateBitCast(value, int_type);
  if (to.is_bfloat16()) {
    // The upper half, rounded to nearest even; where that would make infinity of a NaN, the quiet one of its sign.
    Value* odd = b_.CreateAnd(b_.CreateLShr(bits, 16), IntConstant(i32, 1));
    Value* rounded = b_.CreateLShr(b_.CreateAdd(b_.CreateAdd(bits, IntConstant(i32, 0x7fff)), odd), 16);
    Value* sign = b_.CreateAnd(b_.CreateLShr(bits, 16), IntConstant(i32, 0x8000));
    Value* nan = b_.CreateOr(sign, IntConstant(i32, format.nan()));
    return b_.CreateTrunc(b_.CreateSelect(b_.CreateFCmpUNO(value, value), nan, rounded), ValueType(to));
  }
  Value* magnitude = b_.CreateAnd(bits, IntConstant(i32, 0x7fffffffu));
  Value* sign = b_.CreateLShr(b_.CreateAnd(bits, IntConstant(i32, 0x80000000u)), 31 - (format.bits() - 1));
  const int drop = 23 - format.mantissa;
  // Normal results: re-bias, then round to nearest even by adding half a unit less one, plus the last kept bit.
  Value* rebias = IntConstant(i32, static_cast<uint32_t>(127 - format.bias) << 23);
  Value* odd = b_.CreateAnd(b_.CreateLShr(magnitude, drop), IntConstant(i32, 1));
  Value* normal = b_.CreateSub(magnitude, rebias);
  normal = b_.CreateAdd(b_.CreateAdd(normal, IntConstant(i32, (1u << (drop - 1)) - 1)), odd);
  normal = b_.CreateLShr(normal, drop);
  Value* code = normal;
  if (format.exponent < 8) {
    // Subnormal results: adding a number whose unit in the last place is the format's smallest one rounds there.
    const int magic_exponent = (127 - format.bias) + drop + 1;
    Value* magic = IntConstant(i32, static_cast<uint32_t>(magic_exponent) << 23);
    Value* sum =
        b_.CreateFAdd(b_.CreateBitCast(magnitude, value->getType()), b_.CreateBitCast(magic, value->getType()));
    Value* subnormal = b_.CreateSub(b_.CreateBitCast(sum, int_type), magic);
    Value* is_small = b_.CreateICmpULT(magnitude, IntConstant(i32, static_cast<uint32_t>(128 - format.bias) << 23));
    code = b_.CreateSelect(is_small, subnormal, normal);
  }
  Value* nan_code = IntConstant(i32, format.specials == FloatSpecials::kUnsigned0 ? 0 : format.nan());
  Value* over = format.specials == FloatSpecials::kIeee ? IntConstant(i32, format.infinity()) : nan_code;
  Value* overflow = b_.CreateICmpUGT(code, IntConstant(i32, format.max_finite()));
  Value* is_nan = b_.CreateICmpUGT(magnitude, IntConstant(i32, 0x7f800000u));
  Value* is_huge = b_.CreateICmpUGE(magnitude, IntConstant(i32, 0x7f800000u));
  code = b_.CreateSelect(b_.CreateOr(overflow, is_huge), over, code);
  code = b_.CreateSelect(is_nan, nan_code, code);
  if (format.specials == FloatSpecials::kUnsigned0) {
    Value* no_number = b_.CreateOr(b_.CreateOr(overflow, is_huge), is_nan);
    Value* zero = b_.CreateICmpEQ(code, IntConstant(i32, 0));
    Value* signed_code = b_.CreateSelect(zero, IntConstant(i32, 0), b_.CreateOr(code, sign));
    code = b_.CreateSelect(no_number, IntConstant(i32, format.nan()), signed_code);
  } else {
    code = b_.CreateOr(code, sign);
  }
  return b_.CreateTrunc(code, ValueType(to));
}

/// Whether vectors of floats are converted to and from integers of 64 bits by instructions.
bool FunctionCodegen::ConvertsLongLanes() {
  return module_->features().arch != "x86_64" || module_->HasFeature("avx512dq");
}

namespace {

/// Doubles of whose bits the lower 52, or after another bit 51, are the integer that is added to them.
constexpr double kTwoTo32 = 0x1p32, kTwoTo52 = 0x1p52, kOneAndHalfTwoTo52 = 0x1.8p52;
constexpr uint64_t kLowWord = 0xffffffff;

}  // namespace

/// Floats that 64 bits hold as such integers, in doubles: the high word and the low one, each of which, added to a
/// large power of two, stands in the lower bits of the sum.
Value* FunctionCodegen::TruncateByWords(Value* value, llvm::Type* to) {
  const llvm::IRBuilderBase::FastMathFlagGuard guard(b_);
  b_.clearFastMathFlags();
  llvm::Type* type = to->getWithNewType(b_.getDoubleTy());
  auto number = [&](double x) { return llvm::ConstantFP::get(type, x); };
  if (value->getType() != type) value = b_.CreateFPExt(value, type);
  value = b_.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, value);
  Value* high = b_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, b_.CreateFMul(value, number(1 / kTwoTo32)));
  Value* low = b_.CreateFSub(value, b_.CreateFMul(high, number(kTwoTo32)));
  high = b_.CreateBitCast(b_.CreateFAdd(high, number(kOneAndHalfTwoTo52)), to);
  low = b_.CreateBitCast(b_.CreateFAdd(low, number(kTwoTo52)), to);
  low = b_.CreateXor(low, b_.CreateBitCast(number(kTwoTo52), to));
  return b_.CreateOr(b_.CreateShl(high, llvm::ConstantInt::get(to, 32)), low);
}

/// Integers of 64 bits as doubles: the words are the lower bits of two doubles, whose sum is rounded once.
Value* FunctionCodegen::LongLanesToDouble(Value* value, bool is_signed) {
  const llvm::IRBuilderBase::FastMathFlagGuard guard(b_);
  b_.clearFastMathFlags();
  llvm::Type *from = value->getType(), *type = from->getWithNewType(b_.getDoubleTy());
  auto word = [&](uint64_t x) { return llvm::ConstantInt::get(from, x); };
  const double sign = is_signed ? 0x1p63 : 0;  // is added to what is signed
  const uint64_t high_bits = std::bit_cast<uint64_t>(0x1p84) | (is_signed ? uint64_t{1} << 31 : 0);
  Value* low = b_.CreateOr(b_.CreateAnd(value, word(kLowWord)), word(std::bit_cast<uint64_t>(kTwoTo52)));
  Value* high = b_.CreateXor(b_.CreateLShr(value, word(32)), word(high_bits));
  high = b_.CreateFSub(b_.CreateBitCast(high, type), llvm::ConstantFP::get(type, 0x1p84 + sign + kTwoTo52));
  return b_.CreateFAdd(high, b_.CreateBitCast(low, type));
}

/// Floats as integers, towards zero, what lies beyond their range at its ends, NaN as 0: what fptosi.sat and fptoui.sat
/// do, of which LLVM makes instructions for each lane.
Value* FunctionCodegen::TruncateLanes(Value* value, DataType to) {
  constexpr int kWord = 32;
  auto number = [&](double x) { return llvm::ConstantFP::get(value->getType(), x); };
  const int digits = to.is_int() ? to.bits() - 1 : to.bits();
  const int mantissa = value->getType()->getScalarType()->isFloatTy() ? 24 : 53;
  const double low = to.is_int() ? -std::exp2(digits) : 0;
  Value* beyond = nullptr;
  if (to.is_int()) value = b_.CreateSelect(b_.CreateFCmpORD(value, value), value, number(0));
  value = b_.CreateSelect(b_.CreateFCmpOGT(value, number(low)), value, number(low));
  if (digits > mantissa) {
    // The largest integer isn't a float, but the one below it is.
    Value* last = number(std::exp2(digits) - std::exp2(digits - mantissa));
    beyond = b_.CreateFCmpOGT(value, last);
    value = b_.CreateSelect(beyond, last, value);
  } else {
    const double high = std::exp2(digits) - 1;
    value = b_.CreateSelect(b_.CreateFCmpOLT(value, number(high)), value, number(high));
  }
  const int bits = std::max(kWord, to.bits());
  const bool is_signed = to.is_int() || bits > to.bits();
  llvm::Type* word = ValueType(DataType::Int(bits, to.lanes()));
  Value* result = nullptr;
  if (bits > kWord && !ConvertsLongLanes()) {
    result = TruncateByWords(value, word);
  } else {
    result = is_signed ? b_.CreateFPToSI(value, word) : b_.CreateFPToUI(value, word);
  }
  if (beyond != nullptr) {
    const auto bits_of = static_cast<unsigned>(bits);
    const auto largest = to.is_int() ? llvm::APInt::getSignedMaxValue(bits_of) : llvm::APInt::getMaxValue(bits_of);
    result = b_.CreateSelect(beyond, llvm::ConstantInt::get(word, largest), result);
  }
  return b_.CreateTrunc(result, ValueType(to));
}

Value* FunctionCodegen::Convert(Value* value, DataType from, DataType to) {
  if (from == to) return value;
  auto* type = ValueType(to);
  if (from.is_handle() || to.is_handle()) {
    if (from.is_handle() && to.is_handle()) return value;
    return from.is_handle() ? b_.CreatePtrToInt(value, type) : b_.CreateIntToPtr(value, type);
  }
  if (IsSmallFloat(from)) {
    const DataType f32 = DataType::Float(32, from.lanes());
    return Convert(SmallFloatToFloat32(value, from), f32, to);
  }
  if (IsSmallFloat(to)) {
    const DataType f32 = DataType::Float(32, to.lanes());
    return Float32ToSmallFloat(Convert(value, from, f32), to);
  }
  if (to.is_bool()) {
    if (from.is_float()) return b_.CreateFCmpUNE(value, llvm::ConstantFP::get(value->getType(), 0.0));
    return b_.CreateICmpNE(value, llvm::Constant::getNullValue(value->getType()));
  }
  if (from.is_float() && to.is_float()) {
    return from.bits() < to.bits() ? b_.CreateFPExt(value, type) : b_.CreateFPTrunc(value, type);
  }
  if (from.is_float()) {
    const bool by_words = ConvertsLongLanes() || module_->HasFeature("avx2");
    if (from.lanes() > 1 && to.bits() >= 8 && (to.bits() < 64 || by_words)) return TruncateLanes(value, to);
    auto id = to.is_int() ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat;
    return b_.CreateIntrinsic(id, {type, value->getType()}, {value});
  }
  if (to.is_float() && to.bits() == 64 && from.bits() == 64 && from.lanes() > 1 && !ConvertsLongLanes() &&
      module_->HasFeature("avx2")) {
    return LongLanesToDouble(value, from.is_int());
  }
  if (to.is_float()) return from.is_int() ? b_.CreateSIToFP(value, type) : b_.CreateUIToFP(value, type);
  return from.is_int() ? b_.CreateSExtOrTrunc(value, type) : b_.CreateZExtOrTrunc(value, type);
}

Value* FunctionCodegen::VisitExpr_(const tir::CastNode* op) {
  return Convert(VisitExpr(op->value), op->value.dtype(), op->dtype);
}

// ---- Arithmetic ----

namespace {

/// `value` as a product that nothing but `e`, which it is the value of, uses; else null.
llvm::BinaryOperator* OwnProduct(const PrimExpr& e, Value* value) {
  if (e->use_count() > 1) return nullptr;  // other uses of it may follow
  auto* product = llvm::dyn_cast<llvm::BinaryOperator>(value);
  const bool is_product = product != nullptr && product->getOpcode() == llvm::Instruction::FMul;
  return is_product && product->use_empty() && product->hasAllowContract() ? product : nullptr;
}

}  // namespace

Value* FunctionCodegen::MultiplyAdd(llvm::BinaryOperator* product, bool negate, Value* sum) {
  Value *x = product->getOperand(0), *y = product->getOperand(1);
  product->eraseFromParent();
  if (negate) x = b_.CreateFNeg(x);
  return b_.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, sum});
}

Value* FunctionCodegen::FloatSum(const PrimExpr& ea, Value* a, const PrimExpr& eb, Value* b, bool subtract) {
  if (module_->multiply_adds()) {
    if (auto* product = OwnProduct(ea, a)) return MultiplyAdd(product, false, subtract ? b_.CreateFNeg(b) : b);
    if (auto* product = OwnProduct(eb, b)) return MultiplyAdd(product, subtract, a);
  }
  return subtract ? b_.CreateFSub(a, b) : b_.CreateFAdd(a, b);
}

#define TREADLE_LLVM_ARITHMETIC_AS(Name, Node, IntOp, FloatOp, Result)                                  \
  Value* FunctionCodegen::Name(const tir::Node* op) {                                                   \
    Value* a = VisitExpr(op->a);                                                                        \
    Value* b = VisitExpr(op->b);                                                                        \
    if (!op->dtype.is_floating()) return b_.IntOp(a, b);                                                \
    if (!IsSmallFloat(op->dtype)) return Result;                                                        \
    const DataType f32 = DataType::Float(32, op->dtype.lanes());                                        \
    return Convert(b_.FloatOp(Convert(a, op->dtype, f32), Convert(b, op->dtype, f32)), f32, op->dtype); \
  }
Value* FunctionCodegen::VisitExpr_(const tir::AddNode* op) {
  if (Value* sum = AddDotBytes(op->a, op->b)) return sum;
  if (Value* sum = AddDotBytes(op->b, op->a)) return sum;
  if (Value* sum = AddDotPairs(op->a, op->b)) return sum;
  if (Value* sum = AddDotPairs(op->b, op->a)) return sum;
  return Sum(op);
}
TREADLE_LLVM_ARITHMETIC_AS(Sum, AddNode, CreateAdd, CreateFAdd, FloatSum(op->a, a, op->b, b, false))
TREADLE_LLVM_ARITHMETIC_AS(VisitExpr_, SubNode, CreateSub, CreateFSub, FloatSum(op->a, a, op->b, b, true))
TREADLE_LLVM_ARITHMETIC_AS(VisitExpr_, MulNode, CreateMul, CreateFMul, b_.CreateFMul(a, b))

bool FunctionCodegen::IsNonNegative(const PrimExpr& e) const {
  if (e.dtype().is_uint()) return true;
  if (const auto* imm = e.as<IntImmNode>()) return imm->value >= 0;
  if (e.as<tir::VarNode>()) return non_negative_.count(e.get()) != 0;
  auto both = [&](const auto* op) { return IsNonNegative(op->a) && IsNonNegative(op->b); };
  if (const auto* op = e.as<tir::AddNode>()) return both(op);
  if (const auto* op = e.as<tir::MulNode>()) return both(op);
  if (const auto* op = e.as<tir::FloorDivNode>()) return both(op);
  if (const auto* op = e.as<tir::MinNode>()) return both(op);
  if (const auto* op = e.as<tir::MaxNode>()) return IsNonNegative(op->a) || IsNonNegative(op->b);
  if (const auto* op = e.as<tir::FloorModNode>()) return IsNonNegative(op->b);
  if (const auto* op = e.as<tir::CastNode>()) {
    return op->value.dtype().is_integral() && op->value.dtype().bits() <= op->dtype.bits() && IsNonNegative(op->value);
  }
  if (const auto* op = e.as<tir::BroadcastNode>()) return IsNonNegative(op->value);
  if (const auto* op = e.as<tir::RampNode>()) return IsNonNegative(op->base) && IsNonNegative(op->stride);
  return false;
}

Value* FunctionCodegen::SafeDivisor(DataType dtype, Value* a, Value* b, Value** is_zero) {
  Value* one = IntConstant(dtype, 1);
  *is_zero = b_.CreateICmpEQ(b, IntConstant(dtype, 0));
  Value* bad = *is_zero;
  if (dtype.is_int()) {
    Value* minimum = IntConstant(dtype, uint64_t{1} << (dtype.bits() - 1));
    Value* overflow = b_.CreateAnd(b_.CreateICmpEQ(a, minimum), b_.CreateICmpEQ(b, IntConstant(dtype, ~uint64_t{0})));
    bad = b_.CreateOr(bad, overflow);
  }
  return b_.CreateSelect(bad, one, b);
}

/// The quotients of vectors of integers, towards zero, by division of floating-point numbers: processors have no other
/// one for vectors. They are exact: a quotient that isn't whole differs from the next whole number by 1 / b at least,
/// which is more than what rounding adds while a has fewer bits than a mantissa. Null: there is no such type.
Value* FunctionCodegen::VectorQuotient(DataType dtype, Value* a, Value* b) {
  constexpr int kOfDouble = 32, kOfFloat = 16;
  if (dtype.lanes() < 2 || dtype.bits() > kOfDouble) return nullptr;
  const llvm::IRBuilderBase::FastMathFlagGuard guard(b_);
  b_.clearFastMathFlags();
  llvm::Type* element = dtype.bits() <= kOfFloat ? b_.getFloatTy() : b_.getDoubleTy();
  llvm::Type* type = llvm::FixedVectorType::get(element, static_cast<unsigned>(dtype.lanes()));
  if (dtype.is_uint()) {
    return b_.CreateFPToUI(b_.CreateFDiv(b_.CreateUIToFP(a, type), b_.CreateUIToFP(b, type)), a->getType());
  }
  return b_.CreateFPToSI(b_.CreateFDiv(b_.CreateSIToFP(a, type), b_.CreateSIToFP(b, type)), a->getType());
}

/// x / 0 and x % 0 are 0; MIN / -1 is MIN and MIN % -1 is 0.
Value* FunctionCodegen::IntDivide(const PrimExpr& ea, const PrimExpr& eb, bool floor, bool remainder) {
  const DataType dtype = ea.dtype();
  Value* a = VisitExpr(ea);
  const bool unsigned_values = dtype.is_uint() || (IsNonNegative(ea) && IsNonNegative(eb));
  PrimExpr scalar = eb;
  if (const auto* broadcast = eb.as<tir::BroadcastNode>()) scalar = broadcast->value;
  const int64_t* constant = AsConstInt(scalar);
  Value* b = VisitExpr(eb);
  Value* is_zero = nullptr;
  if (constant == nullptr || *constant == 0 || *constant == -1) b = SafeDivisor(dtype, a, b, &is_zero);
  auto finish = [&](Value* result) {
    return is_zero == nullptr ? result : b_.CreateSelect(is_zero, IntConstant(dtype, 0), result);
  };
  Value* quotient = constant == nullptr ? VectorQuotient(dtype, a, b) : nullptr;
  const auto rest_of = [&](Value* of) { return b_.CreateSub(a, b_.CreateMul(of, b)); };
  if (quotient != nullptr && (unsigned_values || !floor)) return finish(remainder ? rest_of(quotient) : quotient);
  if (unsigned_values) return finish(remainder ? b_.CreateURem(a, b) : b_.CreateUDiv(a, b));
  if (floor && constant != nullptr && *constant > 0 && (*constant & (*constant - 1)) == 0) {
    if (remainder) return b_.CreateAnd(a, IntConstant(dtype, static_cast<uint64_t>(*constant - 1)));
    return b_.CreateAShr(a,
                         IntConstant(dtype, static_cast<uint64_t>(std::countr_zero(static_cast<uint64_t>(*constant)))));
  }
  if (!floor) return finish(remainder ? b_.CreateSRem(a, b) : b_.CreateSDiv(a, b));
  if (quotient == nullptr) quotient = b_.CreateSDiv(a, b);
  Value* rest = rest_of(quotient);
  Value* zero = IntConstant(dtype, 0);
  Value* opposite = b_.CreateICmpSLT(b_.CreateXor(rest, b), zero);
  Value* adjust = b_.CreateAnd(b_.CreateICmpNE(rest, zero), opposite);
  if (remainder) return finish(b_.CreateAdd(rest, b_.CreateSelect(adjust, b, zero)));
  return finish(b_.CreateSub(quotient, b_.CreateZExt(adjust, quotient->getType())));
}

/// A quotient next to x / d, of which `near` is an approximation, by what that leaves (Markstein 1990).
Value* FunctionCodegen::RefinedQuotient(Value* x, Value* d, Value* reciprocal, Value* near) {
  Value* rest = b_.CreateIntrinsic(x->getType(), llvm::Intrinsic::fma, {b_.CreateFNeg(near), d, x});
  return b_.CreateIntrinsic(x->getType(), llvm::Intrinsic::fma, {rest, reciprocal, near});
}

/// x / d of vectors of float32 for a number `d`, in a third of the time of a division. Rounded as that unless the
/// quotient is below 2^-100, where it may be next to it. Null where `d` is no such number, or one by which LLVM
/// multiplies.
Value* FunctionCodegen::QuotientByNumber(Value* x, Value* d) {
  if (module_->fast_math()) return nullptr;  // LLVM multiplies by the reciprocal
  const auto* splat = llvm::dyn_cast<llvm::Constant>(d);
  const auto* number = splat == nullptr ? nullptr : llvm::dyn_cast_or_null<llvm::ConstantFP>(splat->getSplatValue());
  if (number == nullptr || !x->getType()->getScalarType()->isFloatTy() || !module_->features().fma) return nullptr;
  const float value = std::abs(number->getValueAPF().convertToFloat());
  int exponent = 0;
  if (!(value >= tir::kLeastScale && value <= tir::kLargestScale) || std::frexp(value, &exponent) == 0.5F)
    return nullptr;
  Value* reciprocal = b_.CreateFDiv(llvm::ConstantFP::get(x->getType(), 1), d);
  Value* near = b_.CreateFMul(x, reciprocal);
  Value* exact = RefinedQuotient(x, d, reciprocal, RefinedQuotient(x, d, reciprocal, near));
  // What infinities leave is no number, and zeros lose their sign.
  return b_.CreateSelect(b_.CreateFCmpONE(exact, llvm::ConstantFP::get(x->getType(), 0)), exact, near);
}

Value* FunctionCodegen::VisitExpr_(const tir::DivNode* op) {
  if (!op->dtype.is_floating()) return IntDivide(op->a, op->b, false, false);
  Value* a = VisitExpr(op->a);
  Value* b = VisitExpr(op->b);
  if (Value* quotient = op->dtype.is_vector() ? QuotientByNumber(a, b) : nullptr) return quotient;
  if (!IsSmallFloat(op->dtype)) return b_.CreateFDiv(a, b);
  const DataType f32 = DataType::Float(32, op->dtype.lanes());
  return Convert(b_.CreateFDiv(Convert(a, op->dtype, f32), Convert(b, op->dtype, f32)), f32, op->dtype);
}

Value* FunctionCodegen::VisitExpr_(const tir::ModNode* op) {
  TREADLE_ICHECK(op->dtype.is_integral()) << "remainder of " << op->dtype << " isn't lowered";
  return IntDivide(op->a, op->b, false, true);
}
Value* FunctionCodegen::VisitExpr_(const tir::FloorDivNode* op) {
  if (op->dtype.is_floating()) {
    Value* quotient = b_.CreateFDiv(VisitExpr(op->a), VisitExpr(op->b));
    return b_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, quotient);
  }
  return IntDivide(op->a, op->b, true, false);
}
Value* FunctionCodegen::VisitExpr_(const tir::FloorModNode* op) {
  TREADLE_ICHECK(op->dtype.is_integral()) << "remainder of " << op->dtype << " isn't lowered";
  return IntDivide(op->a, op->b, true, true);
}

Value* FunctionCodegen::MinMax(const PrimExpr& ea, const PrimExpr& eb, bool is_max) {
  const DataType dtype = ea.dtype();
  Value* a = VisitExpr(ea);
  Value* b = VisitExpr(eb);
  if (!dtype.is_floating()) {
    auto id = dtype.is_int() ? (is_max ? llvm::Intrinsic::smax : llvm::Intrinsic::smin)
                             : (is_max ? llvm::Intrinsic::umax : llvm::Intrinsic::umin);
    if (dtype.is_bool()) return is_max ? b_.CreateOr(a, b) : b_.CreateAnd(a, b);
    return b_.CreateBinaryIntrinsic(id, a, b);
  }
  const DataType f32 = DataType::Float(32, dtype.lanes());
  const bool small = IsSmallFloat(dtype);
  if (small) {
    a = Convert(a, dtype, f32);
    b = Convert(b, dtype, f32);
  }
  // max(a, b) as one instruction gives b when either is NaN. With a constant as a, that is all.
  if (llvm::isa<llvm::Constant>(b)) std::swap(a, b);
  Value* result = nullptr;
  if (llvm::isa<llvm::Constant>(a)) {
    auto predicate = is_max ? llvm::CmpInst::FCMP_OGT : llvm::CmpInst::FCMP_OLT;
    result = b_.CreateSelect(b_.CreateFCmp(predicate, a, b), a, b);
  } else {
    // Of two selects LLVM would make one with both comparisons, which takes four instructions instead of three, and
    // scalar ones would branch.
    llvm::FastMathFlags zeros_equal;
    zeros_equal.setNoSignedZeros();
    auto* both = b_.CreateBinaryIntrinsic(is_max ? llvm::Intrinsic::maximum : llvm::Intrinsic::minimum, a, b);
    llvm::cast<llvm::Instruction>(both)->setFastMathFlags(zeros_equal);
    result = both;
  }
  return small ? Convert(result, f32, dtype) : result;
}
Value* FunctionCodegen::VisitExpr_(const tir::MinNode* op) { return MinMax(op->a, op->b, false); }
Value* FunctionCodegen::VisitExpr_(const tir::MaxNode* op) { return MinMax(op->a, op->b, true); }

// ---- Comparisons and logic ----

Value* FunctionCodegen::CompareRamp(const PrimExpr& lanes, const PrimExpr& limit, llvm::CmpInst::Predicate predicate) {
  constexpr int kWide = 512;
  constexpr int64_t kMostApart = 1 << 16;
  const auto* ramp = lanes.as<tir::RampNode>();
  const auto* broadcast = limit.as<tir::BroadcastNode>();
  const int64_t* stride = ramp != nullptr ? AsConstInt(ramp->stride) : nullptr;
  if (stride == nullptr || broadcast == nullptr || std::abs(*stride) > kMostApart) return nullptr;
  const bool known = AsConstInt(ramp->base) != nullptr && AsConstInt(broadcast->value) != nullptr;
  if (known || module_->features().vector_bits >= kWide) return nullptr;
  // How far the limit is from the first lane; beyond the last one it doesn't matter how far.
  const int64_t count = lanes.dtype().lanes(), reach = std::abs(*stride) * count + 1;
  constexpr int64_t kManyLanes = 32, kMostOfByte = 127;  // lanes of bytes
  const unsigned bits = count >= kManyLanes && reach <= kMostOfByte ? 8 : 32;
  const auto number = [&](int64_t value) { return b_.getInt64(static_cast<uint64_t>(value)); };
  Value* apart = b_.CreateBinaryIntrinsic(llvm::Intrinsic::ssub_sat, Index64(broadcast->value), Index64(ramp->base));
  apart = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, apart, number(reach));
  apart = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, apart, number(-reach));
  std::vector<llvm::Constant*> places;
  for (int64_t i = 0; i < count; ++i) {
    places.push_back(llvm::ConstantInt::getSigned(b_.getIntNTy(bits), i * *stride));
  }
  return b_.CreateICmp(predicate, llvm::ConstantVector::get(places),
                       Splat(b_.CreateTrunc(apart, b_.getIntNTy(bits)), static_cast<int>(count)));
}

Value* FunctionCodegen::Compare(const PrimExpr& ea, const PrimExpr& eb, llvm::CmpInst::Predicate float_predicate,
                                llvm::CmpInst::Predicate signed_predicate,
                                llvm::CmpInst::Predicate unsigned_predicate) {
  const DataType dtype = ea.dtype();
  if (dtype == DataType::Int(64, dtype.lanes())) {
    if (Value* lanes = CompareRamp(ea, eb, signed_predicate)) return lanes;
    if (Value* lanes = CompareRamp(eb, ea, llvm::CmpInst::getSwappedPredicate(signed_predicate))) return lanes;
  }
  Value* a = VisitExpr(ea);
  Value* b = VisitExpr(eb);
  if (dtype.is_floating()) {
    const DataType f32 = DataType::Float(32, dtype.lanes());
    if (IsSmallFloat(dtype)) {
      a = Convert(a, dtype, f32);
      b = Convert(b, dtype, f32);
    }
    return b_.CreateFCmp(float_predicate, a, b);
  }
  return b_.CreateICmp(dtype.is_int() ? signed_predicate : unsigned_predicate, a, b);
}
#define TREADLE_LLVM_COMPARE(Node, FloatPredicate, SignedPredicate, UnsignedPredicate)          \
  Value* FunctionCodegen::VisitExpr_(const tir::Node* op) {                                     \
    return Compare(op->a, op->b, llvm::CmpInst::FloatPredicate, llvm::CmpInst::SignedPredicate, \
                   llvm::CmpInst::UnsignedPredicate);                                           \
  }
TREADLE_LLVM_COMPARE(EQNode, FCMP_OEQ, ICMP_EQ, ICMP_EQ)
TREADLE_LLVM_COMPARE(NENode, FCMP_UNE, ICMP_NE, ICMP_NE)
TREADLE_LLVM_COMPARE(LTNode, FCMP_OLT, ICMP_SLT, ICMP_ULT)
TREADLE_LLVM_COMPARE(LENode, FCMP_OLE, ICMP_SLE, ICMP_ULE)
TREADLE_LLVM_COMPARE(GTNode, FCMP_OGT, ICMP_SGT, ICMP_UGT)
TREADLE_LLVM_COMPARE(GENode, FCMP_OGE, ICMP_SGE, ICMP_UGE)

Value* FunctionCodegen::ShortCircuit(const PrimExpr& a, const PrimExpr& b, bool is_and) {
  Value* left = VisitExpr(a);
  if (a.dtype().is_vector() || !MayTrap(b)) {
    Value* right = VisitExpr(b);
    return is_and ? b_.CreateAnd(left, right) : b_.CreateOr(left, right);
  }
  auto* from = b_.GetInsertBlock();
  auto* other = NewBlock("logic.right");
  auto* end = NewBlock("logic.end");
  b_.CreateCondBr(left, is_and ? other : end, is_and ? end : other);
  b_.SetInsertPoint(other);
  Value* right = nullptr;
  InScope([&] { right = VisitExpr(b); });
  auto* right_end = b_.GetInsertBlock();
  b_.CreateBr(end);
  b_.SetInsertPoint(end);
  auto* phi = b_.CreatePHI(b_.getInt1Ty(), 2);
  phi->addIncoming(b_.getInt1(!is_and), from);
  phi->addIncoming(right, right_end);
  return phi;
}
Value* FunctionCodegen::VisitExpr_(const tir::AndNode* op) { return ShortCircuit(op->a, op->b, true); }
Value* FunctionCodegen::VisitExpr_(const tir::OrNode* op) { return ShortCircuit(op->a, op->b, false); }
Value* FunctionCodegen::VisitExpr_(const tir::NotNode* op) { return b_.CreateNot(VisitExpr(op->a)); }

Value* FunctionCodegen::VisitExpr_(const tir::SelectNode* op) {
  Value* condition = VisitExpr(op->condition);
  Value* true_value = VisitExpr(op->true_value);
  return b_.CreateSelect(condition, true_value, VisitExpr(op->false_value));
}

// ---- Vectors ----

Value* FunctionCodegen::VisitExpr_(const tir::RampNode* op) {
  Value* base = Splat(VisitExpr(op->base), op->lanes);
  Value* stride = Splat(VisitExpr(op->stride), op->lanes);
  std::vector<llvm::Constant*> steps;
  for (int i = 0; i < op->lanes; ++i) steps.push_back(IntConstant(op->dtype.element_of(), static_cast<uint64_t>(i)));
  return b_.CreateAdd(base, b_.CreateMul(stride, llvm::ConstantVector::get(steps)));
}
Value* FunctionCodegen::VisitExpr_(const tir::BroadcastNode* op) { return Splat(VisitExpr(op->value), op->lanes); }

Value* FunctionCodegen::VisitExpr_(const tir::ShuffleNode* op) {
  const DataType part = op->vectors[0].dtype();
  const bool same =
      std::all_of(op->vectors.begin(), op->vectors.end(), [&](const PrimExpr& e) { return e.dtype() == part; });
  if (same && part.is_vector() && op->dtype.is_vector()) {
    std::vector<Value*> parts;
    for (const PrimExpr& e : op->vectors) parts.push_back(VisitExpr(e));
    if (parts.size() == 1) parts.push_back(llvm::PoisonValue::get(parts[0]->getType()));
    std::vector<int> mask(static_cast<size_t>(part.lanes()) * 2);
    // Two by two, until there are two: elements picked one by one would be inserted one by one.
    while (parts.size() > 2) {
      if (parts.size() % 2 != 0) parts.push_back(llvm::PoisonValue::get(parts[0]->getType()));
      std::iota(mask.begin(), mask.end(), 0);
      std::vector<Value*> joined;
      for (size_t i = 0; i < parts.size(); i += 2)
        joined.push_back(b_.CreateShuffleVector(parts[i], parts[i + 1], mask));
      parts = std::move(joined);
      mask.resize(mask.size() * 2);
    }
    mask.clear();
    for (const PrimExpr& e : op->indices) mask.push_back(static_cast<int>(tir::as_int(e, "index of a shuffle")));
    const int count = part.lanes() * static_cast<int>(op->vectors.size());
    for (int i : mask) TREADLE_ICHECK(i >= 0 && i < count) << "index of a shuffle out of range";
    return b_.CreateShuffleVector(parts[0], parts[1], mask);
  }
  std::vector<Value*> elements;
  for (const PrimExpr& e : op->vectors) {
    Value* v = VisitExpr(e);
    for (int i = 0; i < e.dtype().lanes(); ++i) {
      elements.push_back(e.dtype().is_scalar() ? v : b_.CreateExtractElement(v, static_cast<uint64_t>(i)));
    }
  }
  std::vector<Value*> picked;
  for (const PrimExpr& e : op->indices) {
    const int64_t i = tir::as_int(e, "index of a shuffle");
    TREADLE_ICHECK(i >= 0 && static_cast<size_t>(i) < elements.size()) << "index of a shuffle out of range";
    picked.push_back(elements[static_cast<size_t>(i)]);
  }
  if (picked.size() == 1) return picked[0];
  Value* result = llvm::PoisonValue::get(ValueType(op->dtype));
  for (size_t i = 0; i < picked.size(); ++i) result = b_.CreateInsertElement(result, picked[i], i);
  return result;
}

Value* FunctionCodegen::VisitExpr_(const tir::LetNode* op) {
  Value* value = VisitExpr(op->value);
  // What was computed under another Let of the variable in this statement is of no use here.
  const bool again = std::any_of(memos_.begin(), memos_.end(), [&](const Memo& m) { return m.count(op->var.get()); });
  std::vector<Memo> outer;
  if (again) outer = std::exchange(memos_, {{}});
  Bind(op->var, value);
  if (in_list_) list_lets_.Set(op->var, tir::Substitute(op->value, list_lets_));
  non_negative_.erase(op->var.get());
  if (IsNonNegative(op->value)) non_negative_.insert(op->var.get());
  memos_.back()[op->var.get()] = value;
  Value* result = VisitExpr(op->body);
  if (again) memos_ = std::move(outer);
  return result;
}

}  // namespace treadle::targets
