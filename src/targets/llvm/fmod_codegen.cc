// SPDX-License-Identifier: Apache-2.0
// The remainder of float64 division: long division of the mantissas as integers, in a function of the module. Machines
// have no instruction for it, and compiled code links against no library.
#include "targets/llvm/function_codegen.h"

namespace treadle::targets {

using llvm::Value;

namespace {

constexpr const char* kName = "treadle.fmod";
constexpr uint64_t kMantissaBits = 52;
constexpr uint64_t kImplicitBit = uint64_t{1} << kMantissaBits;
constexpr uint64_t kInfinity = uint64_t{0x7ff} << kMantissaBits;
constexpr uint64_t kStepBits = 11;  // with a remainder of 53 bits they fill a word

/// A finite number's magnitude as mantissa * 2^(exponent - 1075).
struct Parts {
  Value *mantissa, *exponent;
};

Parts Split(llvm::IRBuilder<>* b, Value* magnitude) {
  Value* biased = b->CreateLShr(magnitude, kMantissaBits);
  Value* fraction = b->CreateAnd(magnitude, kImplicitBit - 1);
  Value* normal = b->CreateICmpNE(biased, b->getInt64(0));
  return {b->CreateSelect(normal, b->CreateOr(fraction, kImplicitBit), fraction),
          b->CreateSelect(normal, biased, b->getInt64(1))};
}

/// 2^exponent for exponents of normal numbers.
Value* PowerOfTwo(llvm::IRBuilder<>* b, Value* exponent) {
  return b->CreateBitCast(b->CreateShl(b->CreateAdd(exponent, b->getInt64(1023)), kMantissaBits), b->getDoubleTy());
}

/// Body of double fmod(double x, double y).
void WriteBody(llvm::Function* function) {
  llvm::LLVMContext& context = function->getContext();
  auto block = [&](const char* name) { return llvm::BasicBlock::Create(context, name, function); };
  auto *entry = block("entry"), *invalid = block("invalid"), *valid = block("valid"), *less = block("less"),
       *divide = block("divide"), *step = block("step"), *done = block("done");
  llvm::IRBuilder<> b(entry);
  Value *x = function->getArg(0), *y = function->getArg(1);
  auto magnitude = [&](Value* v) { return b.CreateAnd(b.CreateBitCast(v, b.getInt64Ty()), ~(uint64_t{1} << 63)); };
  Value *ax = magnitude(x), *ay = magnitude(y);
  Value* bad = b.CreateOr(b.CreateICmpUGE(ax, b.getInt64(kInfinity)), b.CreateICmpUGT(ay, b.getInt64(kInfinity)));
  b.CreateCondBr(b.CreateOr(bad, b.CreateICmpEQ(ay, b.getInt64(0))), invalid, valid);
  b.SetInsertPoint(invalid);
  b.CreateRet(llvm::ConstantFP::getNaN(b.getDoubleTy()));
  b.SetInsertPoint(valid);
  b.CreateCondBr(b.CreateICmpULT(ax, ay), less, divide);
  b.SetInsertPoint(less);
  b.CreateRet(x);
  b.SetInsertPoint(divide);
  const Parts dividend = Split(&b, ax), divisor = Split(&b, ay);
  Value* first = b.CreateURem(dividend.mantissa, divisor.mantissa);
  Value* places = b.CreateSub(dividend.exponent, divisor.exponent);
  Value* none = b.getInt64(0);
  b.CreateCondBr(b.CreateICmpEQ(places, none), done, step);
  // Next digits of the quotient: the remainder moves on by as many binary places.
  b.SetInsertPoint(step);
  auto *rest = b.CreatePHI(b.getInt64Ty(), 2), *left = b.CreatePHI(b.getInt64Ty(), 2);
  Value* count = b.CreateSelect(b.CreateICmpULT(left, b.getInt64(kStepBits)), left, b.getInt64(kStepBits));
  Value* next = b.CreateURem(b.CreateShl(rest, count), divisor.mantissa);
  Value* still = b.CreateSub(left, count);
  rest->addIncoming(first, divide);
  rest->addIncoming(next, step);
  left->addIncoming(places, divide);
  left->addIncoming(still, step);
  b.CreateCondBr(b.CreateICmpEQ(still, none), done, step);
  // The remainder times the divisor's power of two, in two factors: the power itself may not be a normal number.
  b.SetInsertPoint(done);
  auto* remainder = b.CreatePHI(b.getInt64Ty(), 2);
  remainder->addIncoming(first, divide);
  remainder->addIncoming(next, step);
  Value* exponent = b.CreateSub(divisor.exponent, b.getInt64(1075));
  Value* half = b.CreateAShr(exponent, 1);
  Value* value = b.CreateFMul(b.CreateSIToFP(remainder, b.getDoubleTy()), PowerOfTwo(&b, half));
  value = b.CreateFMul(value, PowerOfTwo(&b, b.CreateSub(exponent, half)));
  b.CreateRet(b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, value, x));
}

}  // namespace

Value* FunctionCodegen::Fmod(Value* x, Value* y) {
  llvm::Type* real = b_.getDoubleTy();
  llvm::Function* function = module_->module()->getFunction(kName);
  if (function == nullptr) {
    function = module_->NewFunction(llvm::FunctionType::get(real, {real, real}, false), kName, false);
    WriteBody(function);
  }
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  if (vector == nullptr) return b_.CreateCall(function, {x, y});
  Value* all = llvm::PoisonValue::get(vector);
  for (uint64_t i = 0; i < vector->getNumElements(); ++i) {
    Value* lane = b_.CreateCall(function, {b_.CreateExtractElement(x, i), b_.CreateExtractElement(y, i)});
    all = b_.CreateInsertElement(all, lane, i);
  }
  return all;
}

}  // namespace treadle::targets
