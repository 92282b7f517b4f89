// SPDX-License-Identifier: Apache-2.0
// Arithmetic on bytes (treadle/tir/byte_ops.h) with the instructions that the machine has for it.
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/IntrinsicsX86.h>

#include "targets/llvm/function_codegen.h"
#include "treadle/arith/analyzer.h"
#include "treadle/tir/byte_ops.h"

namespace treadle::targets {

using llvm::Value;
using tir::CallNode;

namespace {

/// The load of the first of four that lie next to each other in memory, elements or vectors; null where they don't.
const tir::BufferLoadNode* FirstOfFour(const CallNode* op) {
  auto start = [](const tir::BufferLoadNode* load) -> PrimExpr {
    if (load == nullptr || load->indices.size() != 1 || load->buffer->dtype.lanes() != 1) return PrimExpr();
    const PrimExpr& index = load->indices[0];
    if (index.dtype().is_scalar()) return index;
    const auto* ramp = index.as<tir::RampNode>();
    return ramp != nullptr && tir::is_one(ramp->stride) ? ramp->base : PrimExpr();
  };
  const auto* first = op->args[0].as<tir::BufferLoadNode>();
  const PrimExpr from = start(first);
  if (!from.defined()) return nullptr;
  arith::Analyzer analyzer;
  for (size_t i = 1; i < 4; ++i) {
    const auto* load = op->args[i].as<tir::BufferLoadNode>();
    const PrimExpr at = start(load);
    if (!at.defined() || !load->buffer.same_as(first->buffer)) return nullptr;
    const int64_t apart = static_cast<int64_t>(i) * first->dtype.lanes();
    if (!tir::is_const_int(analyzer.Simplify(at - from), apart)) return nullptr;
  }
  return first;
}

}  // namespace

Value* FunctionCodegen::PackBytes(const CallNode* op) {
  const auto* first = FirstOfFour(op);
  const int lanes = op->dtype.lanes();
  if (first != nullptr && lanes == 1) {
    return b_.CreateAlignedLoad(Int32(), ElementPointer(first->buffer, first->indices[0]), llvm::Align(1));
  }
  constexpr int kMostLanes = 64;
  if (lanes == 1 || lanes > kMostLanes) return VisitExpr(tir::ExpandByteOp(op));
  // Bytes of four vectors in turns.
  Value* all = nullptr;
  if (first != nullptr) {
    auto* type = llvm::FixedVectorType::get(b_.getInt8Ty(), static_cast<unsigned>(lanes) * 4);
    const PrimExpr base = first->indices[0].as<tir::RampNode>()->base;
    all = b_.CreateAlignedLoad(type, ElementPointer(first->buffer, base), llvm::Align(1));
  } else {
    std::vector<Value*> parts;
    for (const PrimExpr& part : op->args) parts.push_back(VisitExpr(part));
    all = llvm::concatenateVectors(b_, parts);
  }
  std::vector<int> turns;
  for (int i = 0; i < lanes * 4; ++i) turns.push_back(i % 4 * lanes + i / 4);
  return b_.CreateBitCast(b_.CreateShuffleVector(all, turns), ValueType(op->dtype));
}

/// Where the machine multiplies pairs of 16-bit numbers and adds them (vpmaddwd): bytes widened to 16 bits, which is
/// exact. The form that multiplies bytes saturates.
Value* FunctionCodegen::DotOfPairs(Value* a, Value* b, int lanes) {
  auto* shorts = llvm::FixedVectorType::get(b_.getInt16Ty(), static_cast<unsigned>(lanes) * 2);
  auto* words = llvm::FixedVectorType::get(Int32(), static_cast<unsigned>(lanes));
  auto number = [&](uint64_t n) { return llvm::ConstantInt::get(shorts, n); };
  a = b_.CreateBitCast(a, shorts);
  b = b_.CreateBitCast(b, shorts);
  const llvm::Intrinsic::ID id = lanes == 4   ? llvm::Intrinsic::x86_sse2_pmadd_wd
                                 : lanes == 8 ? llvm::Intrinsic::x86_avx2_pmadd_wd
                                              : llvm::Intrinsic::x86_avx512_pmaddw_d_512;
  Value* even = b_.CreateIntrinsic(
      words, id, {b_.CreateAnd(a, number(255)), b_.CreateAShr(b_.CreateShl(b, number(8)), number(8))});
  Value* odd = b_.CreateIntrinsic(words, id, {b_.CreateLShr(a, number(8)), b_.CreateAShr(b, number(8))});
  return b_.CreateAdd(even, odd);
}

/// `sum` (null: 0) plus the dot products of the words of `a` (uint8) and `b` (int8).
Value* FunctionCodegen::DotBytes(Value* sum, Value* a, Value* b, int lanes) {
  const TargetFeatures& features = module_->features();
  const int widest = features.vector_lanes(32);
  if (features.arch != "x86_64" || lanes < 4 || (lanes & (lanes - 1)) != 0 || lanes > 64) return nullptr;
  if (lanes > widest || lanes > 16) {
    auto half = [&](Value* v, int from) -> Value* {
      std::vector<int> picked;
      for (int i = 0; i < lanes / 2; ++i) picked.push_back(from + i);
      return b_.CreateShuffleVector(v, picked);
    };
    Value* parts[2];
    for (int i = 0; i < 2; ++i) {
      const int from = i * lanes / 2;
      parts[i] = DotBytes(sum == nullptr ? nullptr : half(sum, from), half(a, from), half(b, from), lanes / 2);
      if (parts[i] == nullptr) return nullptr;
    }
    std::vector<int> all;
    for (int i = 0; i < lanes; ++i) all.push_back(i);
    return b_.CreateShuffleVector(parts[0], parts[1], all);
  }
  auto* words = llvm::FixedVectorType::get(Int32(), static_cast<unsigned>(lanes));
  if (features.vnni) {
    const llvm::Intrinsic::ID id = lanes == 4   ? llvm::Intrinsic::x86_avx512_vpdpbusd_128
                                   : lanes == 8 ? llvm::Intrinsic::x86_avx512_vpdpbusd_256
                                                : llvm::Intrinsic::x86_avx512_vpdpbusd_512;
    Value* start = sum == nullptr ? llvm::Constant::getNullValue(words) : sum;
    return b_.CreateIntrinsic(words, id, {start, a, b});
  }
  Value* product = DotOfPairs(a, b, lanes);
  return sum == nullptr ? product : b_.CreateAdd(sum, product);
}

namespace {

/// A number that all lanes of `e` are; nothing where there is none.
std::optional<double> NumberOf(const PrimExpr& e) {
  const auto* broadcast = e.as<tir::BroadcastNode>();
  const auto* number = (broadcast != nullptr ? broadcast->value : e).as<FloatImmNode>();
  return number == nullptr ? std::nullopt : std::optional<double>(number->value);
}

}  // namespace

/// x / d rounded to float32 for x within [low * d, high * d], to which it's clamped: by the reciprocal of `d` and what
/// that leaves (Markstein 1990), which is exact and much quicker than a division. Null where `x` isn't a quotient by
/// such a number.
Value* FunctionCodegen::ClampedQuotient(const CallNode* op) {
  constexpr float kLeast = 0x1p-100F, kLargest = 0x1p100F;  // products and remainders are normal numbers
  const auto* quotient = op->args[0].as<tir::DivNode>();
  const auto divisor = quotient == nullptr ? std::nullopt : NumberOf(quotient->b);
  const auto low = NumberOf(op->args[1]), high = NumberOf(op->args[2]);
  if (!divisor || !low || !high || !module_->features().fma) return nullptr;
  const auto d = static_cast<float>(*divisor);
  if (!(d >= kLeast && d <= kLargest)) return nullptr;
  llvm::Type* type = ValueType(quotient->dtype);
  auto number = [&](float v) { return llvm::ConstantFP::get(type, v); };
  Value* x = VisitExpr(quotient->a);
  Value *least = number(static_cast<float>(*low) * d), *most = number(static_cast<float>(*high) * d);
  x = b_.CreateSelect(b_.CreateFCmpOGT(x, least), x, least);
  x = b_.CreateSelect(b_.CreateFCmpOLT(x, most), x, most);
  Value* reciprocal = number(1 / d);
  Value* near = b_.CreateFMul(x, reciprocal);
  Value* rest = b_.CreateIntrinsic(type, llvm::Intrinsic::fma, {b_.CreateFNeg(near), number(d), x});
  return b_.CreateIntrinsic(type, llvm::Intrinsic::fma, {rest, reciprocal, near});
}

Value* FunctionCodegen::RoundClamped(const CallNode* op) {
  if (Value* quotient = ClampedQuotient(op)) return RoundToInt(quotient, op->dtype.lanes());
  Value* x = VisitExpr(op->args[0]);
  Value* low = VisitExpr(op->args[1]);
  Value* high = VisitExpr(op->args[2]);
  // As one instruction each, which give their second operand for NaN.
  x = b_.CreateSelect(b_.CreateFCmpOGT(x, low), x, low);
  x = b_.CreateSelect(b_.CreateFCmpOLT(x, high), x, high);
  return RoundToInt(x, op->dtype.lanes());
}

/// `x`, in the range of int32, rounded half to even.
Value* FunctionCodegen::RoundToInt(Value* x, int lanes) {
  const TargetFeatures& features = module_->features();
  llvm::Type* words = ValueType(DataType::Int(32, lanes));
  if (features.arch == "x86_64" && lanes * 32 <= features.vector_bits) {
    // They round as the processor is set, which is to the nearest, halves to even.
    if (lanes == 4) return b_.CreateIntrinsic(words, llvm::Intrinsic::x86_sse2_cvtps2dq, {x});
    if (lanes == 8) return b_.CreateIntrinsic(words, llvm::Intrinsic::x86_avx_cvt_ps2dq_256, {x});
    if (lanes == 16) {
      return b_.CreateIntrinsic(words, llvm::Intrinsic::x86_avx512_mask_cvtps2dq_512,
                                {x, llvm::Constant::getNullValue(words), b_.getInt16(0xffff), b_.getInt32(4)});
    }
  }
  return b_.CreateFPToSI(b_.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, x), words);
}

/// Entries of a table of bytes in memory for each byte of `index` (uint8): with VBMI the table is in registers. Null
/// for machines without.
Value* FunctionCodegen::LookUpBytes(Value* table, Value* index, int lanes) {
  constexpr int kLanes = 64, kTables = 4;
  if (lanes < 8 || lanes > kLanes || module_->features().vector_bits < 512 || !module_->HasFeature("avx512vbmi")) {
    return nullptr;
  }
  auto* bytes = llvm::FixedVectorType::get(b_.getInt8Ty(), kLanes);
  std::vector<int> widen, narrow;
  for (int i = 0; i < kLanes; ++i) widen.push_back(i < lanes ? i : -1);
  for (int i = 0; i < lanes; ++i) narrow.push_back(i);
  if (lanes < kLanes) index = b_.CreateShuffleVector(index, widen);
  Value* parts[kTables];
  for (int i = 0; i < kTables; ++i) {
    Value* at = b_.CreateConstInBoundsGEP1_64(bytes, table, static_cast<uint64_t>(i));
    parts[i] = b_.CreateAlignedLoad(bytes, at, llvm::Align(1));
  }
  auto of_two = [&](Value* a, Value* b) {
    return b_.CreateIntrinsic(bytes, llvm::Intrinsic::x86_avx512_vpermi2var_qi_512, {a, index, b});
  };
  Value* low = of_two(parts[0], parts[1]);
  Value* high = of_two(parts[2], parts[3]);
  Value* upper = b_.CreateICmpSLT(index, llvm::Constant::getNullValue(bytes));
  Value* result = b_.CreateSelect(upper, high, low);
  return lanes < kLanes ? b_.CreateShuffleVector(result, narrow) : result;
}

/// A load from a table of 256 bytes by bytes; null for other loads.
Value* FunctionCodegen::LoadByBytes(const tir::BufferLoadNode* op) {
  constexpr int64_t kEntries = 256;
  const auto* index = op->indices[0].as<tir::CastNode>();
  const DataType dtype = op->buffer->dtype;
  if (index == nullptr || module_->EmulatesIntrinsics() || dtype.bits() != 8 || !dtype.is_integral() ||
      dtype.lanes() != 1 || op->buffer->shape.size() != 1 || !tir::is_const_int(op->buffer->shape[0], kEntries) ||
      index->value.dtype().element_of() != DataType::UInt(8)) {
    return nullptr;
  }
  if (!module_->HasFeature("avx512vbmi")) return nullptr;
  Value* bytes = VisitExpr(index->value);
  return LookUpBytes(VisitExpr(op->buffer->data), bytes, index->dtype.lanes());
}

Value* FunctionCodegen::ByteCall(const std::string& name, const CallNode* op) {
  const bool emulate = module_->EmulatesIntrinsics();
  if (name == "pack_bytes" && !emulate) return PackBytes(op);
  if (name == "round_clamped" && !emulate) return RoundClamped(op);
  if (name == "dot_bytes" && !emulate) {
    Value* a = VisitExpr(op->args[0]);
    if (Value* dot = DotBytes(nullptr, a, VisitExpr(op->args[1]), op->dtype.lanes())) return dot;
  }
  const PrimExpr plain = tir::ExpandByteOp(op);
  return plain.defined() ? VisitExpr(plain) : nullptr;
}

namespace {

/// The dot products of bytes that are the summands of `e`; false where it has others.
bool DotsOf(const PrimExpr& e, std::vector<const CallNode*>* dots) {
  if (const auto* sum = e.as<tir::AddNode>()) return DotsOf(sum->a, dots) && DotsOf(sum->b, dots);
  const auto* call = e.as<CallNode>();
  if (call == nullptr || !tir::IsCallTo(call, "tir.dot_bytes")) return false;
  dots->push_back(call);
  return true;
}

}  // namespace

Value* FunctionCodegen::AddDotBytes(const PrimExpr& sum, const PrimExpr& dot) {
  std::vector<const CallNode*> dots;
  if (module_->EmulatesIntrinsics() || module_->features().arch != "x86_64" || dot.dtype().lanes() < 4) return nullptr;
  if (!DotsOf(dot, &dots)) return nullptr;
  Value* result = VisitExpr(sum);
  for (const CallNode* call : dots) {
    Value* a = VisitExpr(call->args[0]);
    result = DotBytes(result, a, VisitExpr(call->args[1]), call->dtype.lanes());
  }
  return result;
}

}  // namespace treadle::targets
