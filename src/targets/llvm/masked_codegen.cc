// SPDX-License-Identifier: Apache-2.0
// Loads and stores of neighbours under a mask.
#include <algorithm>

#include <llvm/Analysis/VectorUtils.h>

#include "targets/llvm/function_codegen.h"

namespace treadle::targets {

using llvm::Value;

bool FunctionCodegen::HasMaskedAccess(DataType dtype) const {
  constexpr int kWord = 32;
  // Elsewhere it is LLVM's to decide.
  return module_->features().arch != "x86_64" || dtype.bits() >= kWord || module_->HasFeature("avx512bw");
}

void FunctionCodegen::ForPartsOfRegisters(DataType dtype, const std::function<void(int first, int count)>& part) {
  constexpr int kAvx = 256, kSse = 128;
  int bits = module_->features().vector_bits;  // -vector-width may be more than registers have
  if (module_->features().arch == "x86_64" && !module_->HasFeature("avx512f")) {
    bits = std::min(bits, module_->HasFeature("avx") ? kAvx : kSse);
  }
  const int width = std::max(1, bits / std::max(8, dtype.bits()));
  for (int first = 0; first < dtype.lanes(); first += width) part(first, std::min(width, dtype.lanes() - first));
}

Value* FunctionCodegen::LaneAt(llvm::Type* element, Value* pointer, int lane) {
  return b_.CreateConstInBoundsGEP1_64(element, pointer, static_cast<uint64_t>(lane));
}

void FunctionCodegen::CopyFew(llvm::Type* element, Value* from, Value* to, Value* count, int most) {
  int piece = 1;
  while (piece * 2 < most) piece *= 2;
  Value* done = b_.getInt64(0);
  for (; piece > 0; piece /= 2) {
    auto *before = b_.GetInsertBlock(), *then = NewBlock("copy"), *end = NewBlock("copied");
    Value* has = b_.CreateAnd(count, b_.getInt64(static_cast<uint64_t>(piece)));
    b_.CreateCondBr(b_.CreateIsNotNull(has), then, end);
    b_.SetInsertPoint(then);
    auto* type = llvm::FixedVectorType::get(element, static_cast<unsigned>(piece));
    Value* value = b_.CreateAlignedLoad(type, b_.CreateInBoundsGEP(element, from, done), llvm::Align(1));
    b_.CreateAlignedStore(value, b_.CreateInBoundsGEP(element, to, done), llvm::Align(1));
    Value* after = b_.CreateNUWAdd(done, b_.getInt64(static_cast<uint64_t>(piece)));
    b_.CreateBr(end);
    b_.SetInsertPoint(end);
    auto* phi = b_.CreatePHI(b_.getInt64Ty(), 2);
    phi->addIncoming(done, before);
    phi->addIncoming(after, then);
    done = phi;
  }
}

void FunctionCodegen::CopyRuns(llvm::Type* element, Value* from, Value* to, Value* bits, int lanes) {
  auto *before = b_.GetInsertBlock(), *loop = NewBlock("runs"), *end = NewBlock("runs.end");
  b_.CreateBr(loop);
  b_.SetInsertPoint(loop);
  auto* left = b_.CreatePHI(b_.getInt64Ty(), 2, "left");
  left->addIncoming(bits, before);
  const auto trailing_zeros = [&](Value* of) {
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, of, b_.getTrue());
  };
  Value* first = trailing_zeros(left);
  Value* count = trailing_zeros(b_.CreateNot(b_.CreateLShr(left, first)));
  CopyFew(element, b_.CreateInBoundsGEP(element, from, first), b_.CreateInBoundsGEP(element, to, first), count, lanes);
  // The carry of the lowest bit clears its run.
  Value* rest = b_.CreateAnd(left, b_.CreateAdd(left, b_.CreateAnd(left, b_.CreateNeg(left))));
  left->addIncoming(rest, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateIsNull(rest), end, loop);
  b_.SetInsertPoint(end);
}

Value* FunctionCodegen::LoadRuns(llvm::FixedVectorType* type, Value* from, Value* mask, Value* pass) {
  const auto lanes = static_cast<int>(type->getNumElements());
  auto *whole = NewBlock("load.all"), *other = NewBlock("load.some"), *some = NewBlock("load.runs");
  auto* end = NewBlock("load.end");
  b_.CreateCondBr(b_.CreateAndReduce(mask), whole, other);
  b_.SetInsertPoint(whole);
  Value* all = b_.CreateAlignedLoad(type, from, llvm::Align(1));
  b_.CreateBr(end);
  b_.SetInsertPoint(other);
  b_.CreateCondBr(b_.CreateOrReduce(mask), some, end);
  b_.SetInsertPoint(some);
  Value* copy = Spilled(type);
  b_.CreateStore(pass, copy);
  CopyRuns(type->getElementType(), from, copy, BitsOf(mask), lanes);
  Value* copied = b_.CreateLoad(type, copy);
  auto* copied_in = b_.GetInsertBlock();
  b_.CreateBr(end);
  b_.SetInsertPoint(end);
  auto* result = b_.CreatePHI(type, 3);
  result->addIncoming(all, whole);
  result->addIncoming(pass, other);
  result->addIncoming(copied, copied_in);
  return result;
}

void FunctionCodegen::StoreRuns(Value* value, Value* to, Value* mask) {
  auto* type = llvm::cast<llvm::FixedVectorType>(value->getType());
  auto *whole = NewBlock("store.all"), *other = NewBlock("store.some"), *some = NewBlock("store.runs");
  auto* end = NewBlock("store.end");
  b_.CreateCondBr(b_.CreateAndReduce(mask), whole, other);
  b_.SetInsertPoint(whole);
  b_.CreateAlignedStore(value, to, llvm::Align(1));
  b_.CreateBr(end);
  b_.SetInsertPoint(other);
  b_.CreateCondBr(b_.CreateOrReduce(mask), some, end);
  b_.SetInsertPoint(some);
  Value* copy = Spilled(type);
  b_.CreateStore(value, copy);
  CopyRuns(type->getElementType(), copy, to, BitsOf(mask), static_cast<int>(type->getNumElements()));
  b_.CreateBr(end);
  b_.SetInsertPoint(end);
}

Value* FunctionCodegen::Spilled(llvm::Type* type) {
  llvm::IRBuilder<> entry(&function_->getEntryBlock(), function_->getEntryBlock().begin());
  return entry.CreateAlloca(type, nullptr, "lanes");
}

Value* FunctionCodegen::BitsOf(Value* mask) {
  const auto lanes = llvm::cast<llvm::FixedVectorType>(mask->getType())->getNumElements();
  return b_.CreateZExt(b_.CreateBitCast(mask, b_.getIntNTy(lanes)), b_.getInt64Ty());
}

Value* FunctionCodegen::LoadMasked(DataType dtype, Value* pointer, llvm::Align align, Value* mask, Value* pass) {
  llvm::Type* element = module_->MemoryType(dtype.element_of());
  Value* result = nullptr;
  ForPartsOfRegisters(dtype, [&](int first, int count) {
    // A last part of one lane is a vector, too.
    auto* type = llvm::FixedVectorType::get(element, static_cast<unsigned>(count));
    Value *from = LaneAt(element, pointer, first), *on = LanesOf(mask, first, count),
          *off = LanesOf(pass, first, count);
    Value* value = HasMaskedAccess(dtype) || count == 1
                       ? b_.CreateMaskedLoad(type, from, first == 0 ? align : llvm::Align(1), on, off)
                       : LoadRuns(type, from, on, off);
    result = result == nullptr ? value : llvm::concatenateVectors(b_, {result, value});
  });
  return result;
}

void FunctionCodegen::StoreMasked(DataType dtype, Value* value, Value* pointer, llvm::Align align, Value* mask) {
  llvm::Type* element = module_->MemoryType(dtype.element_of());
  ForPartsOfRegisters(dtype, [&](int first, int count) {
    Value *to = LaneAt(element, pointer, first), *on = LanesOf(mask, first, count),
          *lanes = LanesOf(value, first, count);
    if (HasMaskedAccess(dtype) || count == 1) {
      b_.CreateMaskedStore(lanes, to, first == 0 ? align : llvm::Align(1), on);
    } else {
      StoreRuns(lanes, to, on);
    }
  });
}

}  // namespace treadle::targets
