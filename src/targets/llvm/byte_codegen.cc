// SPDX-License-Identifier: Apache-2.0
// Arithmetic on bytes (treadle/tir/byte_ops.h) with the instructions that the machine has for it.
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsAArch64.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <numeric>

#include "targets/llvm/function_codegen.h"
#include "treadle/arith/analyzer.h"
#include "treadle/tir/byte_ops.h"

namespace treadle::targets {

using llvm::Value;
using tir::CallNode;

namespace {

/// The load of the first operand where all lie next to each other in memory, elements or vectors; else null.
const tir::BufferLoadNode* FirstOfAll(const CallNode* op) {
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
  for (size_t i = 1; i < op->args.size(); ++i) {
    const auto* load = op->args[i].as<tir::BufferLoadNode>();
    const PrimExpr at = start(load);
    if (!at.defined() || !load->buffer.same_as(first->buffer)) return nullptr;
    const int64_t apart = static_cast<int64_t>(i) * first->dtype.lanes();
    if (!tir::is_const_int(analyzer.Simplify(at - from), apart)) return nullptr;
  }
  return first;
}

}  // namespace

/// Where a word begins. Those of a list's entry in the rows of a tile have one register and offsets: LLVM would add the
/// entry's to what it computes before the loop, for each row, and keep that in memory.
Value* FunctionCodegen::WordPointer(const tir::Buffer& buffer, const PrimExpr& index) {
  if (!in_list_) return ElementPointer(buffer, index);
  arith::Analyzer analyzer;
  const PrimExpr expanded = tir::Substitute(index, list_lets_);
  for (const ListWord& word : list_words_) {
    if (word.block != b_.GetInsertBlock() || !word.buffer.same_as(buffer)) continue;
    const PrimExpr apart = analyzer.Simplify(expanded - word.index);
    bool fixed = true;
    tir::PostOrderVisit(apart,
                        [&](const ObjectRef& node) { fixed = fixed && node.as<tir::BufferLoadNode>() == nullptr; });
    if (fixed) return b_.CreateInBoundsGEP(module_->MemoryType(buffer->dtype), word.pointer, Index64(apart));
  }
  list_words_.push_back({buffer, expanded, InOrder(ElementPointer(buffer, index)), b_.GetInsertBlock()});
  return list_words_.back().pointer;
}

/// Words of as many neighbours as there are operands, bytes or int16.
Value* FunctionCodegen::PackWord(const CallNode* op) {
  const auto* first = FirstOfAll(op);
  const int lanes = op->dtype.lanes(), count = static_cast<int>(op->args.size());
  if (first != nullptr && lanes == 1) {
    return b_.CreateAlignedLoad(Int32(), WordPointer(first->buffer, first->indices[0]), llvm::Align(1));
  }
  constexpr int kMostLanes = 64;
  if (lanes == 1 || lanes > kMostLanes) return VisitExpr(tir::ExpandByteOp(op));
  // Elements of the vectors in turns.
  Value* all = nullptr;
  if (first != nullptr) {
    llvm::Type* type = ValueType(first->dtype.with_lanes(lanes * count));
    const PrimExpr base = first->indices[0].as<tir::RampNode>()->base;
    all = b_.CreateAlignedLoad(type, ElementPointer(first->buffer, base), llvm::Align(1));
  } else {
    std::vector<Value*> parts;
    for (const PrimExpr& part : op->args) parts.push_back(VisitExpr(part));
    all = llvm::concatenateVectors(b_, parts);
  }
  std::vector<int> turns;
  for (int i = 0; i < lanes * count; ++i) turns.push_back(i % count * lanes + i / count);
  return b_.CreateBitCast(b_.CreateShuffleVector(all, turns), ValueType(op->dtype));
}

/// vpmaddwd: the dot products of pairs of int16.
Value* FunctionCodegen::MultiplyPairs(Value* a, Value* b, int lanes) {
  auto* shorts = llvm::FixedVectorType::get(b_.getInt16Ty(), static_cast<unsigned>(lanes) * 2);
  auto* words = llvm::FixedVectorType::get(Int32(), static_cast<unsigned>(lanes));
  const llvm::Intrinsic::ID id = lanes == 4   ? llvm::Intrinsic::x86_sse2_pmadd_wd
                                 : lanes == 8 ? llvm::Intrinsic::x86_avx2_pmadd_wd
                                              : llvm::Intrinsic::x86_avx512_pmaddw_d_512;
  return b_.CreateIntrinsic(words, id, {b_.CreateBitCast(a, shorts), b_.CreateBitCast(b, shorts)});
}

/// vpmaddubsw: the dot products of pairs of bytes, uint8 by int8, in int16.
Value* FunctionCodegen::MultiplyBytes(Value* a, Value* b) {
  auto* bytes = llvm::FixedVectorType::get(b_.getInt8Ty(), 32);
  return b_.CreateIntrinsic(llvm::FixedVectorType::get(b_.getInt16Ty(), 16), llvm::Intrinsic::x86_avx2_pmadd_ub_sw,
                            {b_.CreateBitCast(a, bytes), b_.CreateBitCast(b, bytes)});
}

/// `sum` plus a tir.dot_two_words: pairs of both words are added in 16 bits, which hold them, and widened together.
/// Null where the machine has no such instructions, or better ones.
Value* FunctionCodegen::DotOfTwoWords(Value* sum, const CallNode* dot) {
  constexpr int kLanes = 8;
  const TargetFeatures& features = module_->features();
  if (features.arch != "x86_64" || features.vnni || !module_->HasFeature("avx2") || dot->dtype.lanes() != kLanes) {
    return nullptr;
  }
  Value *a = VisitExpr(dot->args[0]), *b = VisitExpr(dot->args[1]);
  Value* pairs = MultiplyBytes(a, b);
  if (!tir::is_zero(dot->args[3])) {
    Value *c = VisitExpr(dot->args[2]), *d = VisitExpr(dot->args[3]);
    pairs = b_.CreateAdd(pairs, MultiplyBytes(c, d));
  }
  return InOrder(b_.CreateAdd(sum, MultiplyPairs(pairs, llvm::ConstantInt::get(pairs->getType(), 1), kLanes)));
}

/// Words of bytes by that instruction: bytes widened to 16 bits, which is exact. The form that multiplies bytes
/// saturates.
Value* FunctionCodegen::DotOfPairs(Value* a, Value* b, int lanes) {
  auto* shorts = llvm::FixedVectorType::get(b_.getInt16Ty(), static_cast<unsigned>(lanes) * 2);
  auto number = [&](uint64_t n) { return llvm::ConstantInt::get(shorts, n); };
  a = b_.CreateBitCast(a, shorts);
  b = b_.CreateBitCast(b, shorts);
  Value* even =
      MultiplyPairs(b_.CreateAnd(a, number(255)), b_.CreateAShr(b_.CreateShl(b, number(8)), number(8)), lanes);
  Value* odd = MultiplyPairs(b_.CreateLShr(a, number(8)), b_.CreateAShr(b, number(8)), lanes);
  return b_.CreateAdd(even, odd);
}

/// `sum` plus the dot products of words of bytes, each of a vector of its own: the vectors are widened as they are
/// read, which takes the place of packing and of parting again. Null where these aren't such words.
Value* FunctionCodegen::DotOfPackedBytes(Value* sum, const CallNode* dot) {
  const TargetFeatures& features = module_->features();
  const auto* pack = dot->args[0].as<CallNode>();
  const int lanes = dot->dtype.lanes(), width = std::min(features.vector_lanes(32), 16);
  if (features.arch != "x86_64" || features.vnni || pack == nullptr || !tir::IsCallTo(pack, "tir.pack_bytes") ||
      FirstOfAll(pack) != nullptr || lanes < width || lanes % width != 0) {
    return nullptr;
  }
  auto* words = llvm::FixedVectorType::get(Int32(), static_cast<unsigned>(lanes));
  auto* shorts = llvm::FixedVectorType::get(b_.getInt16Ty(), static_cast<unsigned>(lanes) * 2);
  auto pair = [&](int low) {
    Value* result = b_.CreateZExt(VisitExpr(pack->args[static_cast<size_t>(low)]), words);
    Value* high = b_.CreateZExt(VisitExpr(pack->args[static_cast<size_t>(low) + 2]), words);
    return b_.CreateOr(result, b_.CreateShl(high, llvm::ConstantInt::get(words, 16)));
  };
  Value* both = b_.CreateBitCast(VisitExpr(dot->args[1]), shorts);
  llvm::Constant* eight = llvm::ConstantInt::get(shorts, 8);
  sum = DotWords(sum, pair(0), b_.CreateBitCast(b_.CreateAShr(b_.CreateShl(both, eight), eight), words), lanes, true);
  return DotWords(sum, pair(1), b_.CreateBitCast(b_.CreateAShr(both, eight), words), lanes, true);
}

/// Words of bytes by ARM's dot products of four words; null where it has none. Without the mixed form x * w is
/// (x - 128) * w - (-128) * w, of which the second is the same for all rows of a tile.
Value* FunctionCodegen::DotOfArm(Value* sum, Value* a, Value* b) {
  auto* bytes = llvm::FixedVectorType::get(b_.getInt8Ty(), 16);
  a = b_.CreateBitCast(a, bytes);
  b = b_.CreateBitCast(b, bytes);
  if (module_->HasFeature("i8mm")) {
    return b_.CreateIntrinsic(llvm::Intrinsic::aarch64_neon_usdot, {sum->getType(), bytes}, {sum, a, b});
  }
  if (!module_->HasFeature("dotprod")) return nullptr;
  auto dot = [&](Value* to, Value* x) {
    return b_.CreateIntrinsic(llvm::Intrinsic::aarch64_neon_sdot, {sum->getType(), bytes}, {to, x, b});
  };
  llvm::Constant* offset = llvm::ConstantInt::get(bytes, 128);
  return b_.CreateSub(dot(sum, b_.CreateXor(a, offset)), dot(llvm::Constant::getNullValue(sum->getType()), offset));
}

/// The same value, of which the optimiser knows nothing. Otherwise sums of integers over several steps get another
/// order, in which products wait for each other and sums have no registers.
Value* FunctionCodegen::InOrder(Value* sum) {
  auto* type = llvm::FunctionType::get(sum->getType(), {sum->getType()}, false);
  return b_.CreateCall(
      type, llvm::InlineAsm::get(type, "", sum->getType()->isVectorTy() ? "=v,0" : "=r,0", /*hasSideEffects=*/false),
      {sum});
}

/// `sum` plus the dot products of words of one register: of bytes, or of int16.
Value* FunctionCodegen::DotOfRegister(Value* sum, Value* a, Value* b, int lanes, bool of_shorts) {
  const TargetFeatures& features = module_->features();
  if (features.arch != "x86_64") return lanes == 4 && !of_shorts ? DotOfArm(sum, a, b) : nullptr;
  if (of_shorts) return InOrder(b_.CreateAdd(sum, MultiplyPairs(a, b, lanes)));
  if (!features.vnni) return InOrder(b_.CreateAdd(sum, DotOfPairs(a, b, lanes)));
  const llvm::Intrinsic::ID id = lanes == 4   ? llvm::Intrinsic::x86_avx512_vpdpbusd_128
                                 : lanes == 8 ? llvm::Intrinsic::x86_avx512_vpdpbusd_256
                                              : llvm::Intrinsic::x86_avx512_vpdpbusd_512;
  return b_.CreateIntrinsic(sum->getType(), id, {sum, a, b});
}

/// `sum` (null: 0) plus the dot products of the words of `a` and `b`: uint8 by int8, or int16. Null where the machine
/// has no instruction for them.
Value* FunctionCodegen::DotWords(Value* sum, Value* a, Value* b, int lanes, bool of_shorts) {
  const TargetFeatures& features = module_->features();
  const bool arm = features.arch == "aarch64" || features.arch == "arm64";
  const int widest = std::min(features.vector_lanes(32), 16);
  if ((features.arch != "x86_64" && !arm) || lanes < 4 || (lanes & (lanes - 1)) != 0 || lanes > 64) return nullptr;
  if (sum == nullptr) {
    sum = llvm::Constant::getNullValue(llvm::FixedVectorType::get(Int32(), static_cast<unsigned>(lanes)));
  }
  if (lanes <= widest) return DotOfRegister(sum, a, b, lanes, of_shorts);
  return DotOfHalves(sum, a, b, lanes, [&](Value* half_sum, Value* half_a, Value* half_b) {
    return DotWords(half_sum, half_a, half_b, lanes / 2, of_shorts);
  });
}

Value* FunctionCodegen::DotOfHalves(Value* sum, Value* a, Value* b, int lanes,
                                    const std::function<Value*(Value* sum, Value* a, Value* b)>& dot) {
  std::vector<int> lower(static_cast<size_t>(lanes) / 2), upper(lower), all(static_cast<size_t>(lanes));
  std::iota(lower.begin(), lower.end(), 0);
  std::iota(upper.begin(), upper.end(), lanes / 2);
  std::iota(all.begin(), all.end(), 0);
  Value* parts[2];
  for (int i = 0; i < 2; ++i) {
    const auto half = [&](Value* v) { return b_.CreateShuffleVector(v, i == 0 ? lower : upper); };
    Value *half_sum = half(sum), *half_a = half(a), *half_b = half(b);
    parts[i] = dot(half_sum, half_a, half_b);
    if (parts[i] == nullptr) return nullptr;
  }
  return b_.CreateShuffleVector(parts[0], parts[1], all);
}

/// The value that all lanes of `e` have; null where there is none that is known to be.
Value* FunctionCodegen::ValueOfAllLanes(const PrimExpr& e) {
  const auto* broadcast = e.as<tir::BroadcastNode>();
  const PrimExpr& one = broadcast != nullptr ? broadcast->value : e;
  return one.dtype().is_scalar() ? VisitExpr(one) : nullptr;
}

/// x / d rounded to float32 for x within [low * d, high * d], to which it's clamped: by the reciprocal of `d` and what
/// that leaves (Markstein 1990), which is exact and much quicker than a division. Null where `of` isn't a quotient by
/// such a number.
Value* FunctionCodegen::ClampedQuotient(const PrimExpr& of, Value* low, Value* high) {
  const auto* quotient = of.as<tir::DivNode>();
  const auto* scaled = of.as<CallNode>();
  if (scaled != nullptr && !tir::IsCallTo(scaled, "tir.divide_by_scale")) scaled = nullptr;
  if ((quotient == nullptr && scaled == nullptr) || !module_->features().fma) return nullptr;
  const PrimExpr& divisor = quotient != nullptr ? quotient->b : scaled->args[1];
  Value* d = ValueOfAllLanes(divisor);
  if (d == nullptr || low == nullptr || high == nullptr) return nullptr;
  if (quotient != nullptr) {
    const auto* number = llvm::dyn_cast<llvm::ConstantFP>(d);
    if (number == nullptr) return nullptr;
    const float value = number->getValueAPF().convertToFloat();
    if (!(value >= tir::kLeastScale && value <= tir::kLargestScale)) return nullptr;
  }
  Value* x = VisitExpr(quotient != nullptr ? quotient->a : scaled->args[0]);
  const int lanes = of.dtype().lanes();
  auto all = [&](Value* v) { return lanes == 1 ? v : b_.CreateVectorSplat(static_cast<unsigned>(lanes), v); };
  Value *least = all(b_.CreateFMul(low, d)), *most = all(b_.CreateFMul(high, d));
  x = b_.CreateSelect(b_.CreateFCmpOGT(x, least), x, least);
  x = b_.CreateSelect(b_.CreateFCmpOLT(x, most), x, most);
  Value* reciprocal = all(b_.CreateFDiv(llvm::ConstantFP::get(d->getType(), 1), d));
  return RefinedQuotient(x, all(d), reciprocal, b_.CreateFMul(x, reciprocal));
}

/// The same of a quotient, or of one to which a zero point is added: of an integer that the bounds hold. Null for
/// others.
Value* FunctionCodegen::ClampedValue(const CallNode* op) {
  Value *low = ValueOfAllLanes(op->args[1]), *high = ValueOfAllLanes(op->args[2]);
  if (low == nullptr || high == nullptr) return nullptr;
  const auto* sum = op->args[0].as<tir::AddNode>();
  if (sum == nullptr) return ClampedQuotient(op->args[0], low, high);
  const auto* broadcast = sum->b.as<tir::BroadcastNode>();
  const auto* zero = (broadcast != nullptr ? broadcast->value : sum->b).as<FloatImmNode>();
  constexpr double kLargest = 65536;  // the bounds less the number are exact
  if (zero == nullptr || std::abs(zero->value) > kLargest || std::floor(zero->value) != zero->value) return nullptr;
  Value* number = llvm::ConstantFP::get(low->getType(), zero->value);
  Value* quotient = ClampedQuotient(sum->a, b_.CreateFSub(low, number), b_.CreateFSub(high, number));
  return quotient == nullptr ? nullptr : b_.CreateFAdd(quotient, VisitExpr(sum->b));
}

Value* FunctionCodegen::RoundClamped(const CallNode* op) {
  if (Value* value = ClampedValue(op)) return RoundToInt(value, op->dtype.lanes());
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
  constexpr int kLeastOfHalf = 4;
  if (features.arch == "x86_64" && lanes % 2 == 0 && lanes / 2 >= kLeastOfHalf && (lanes & (lanes - 1)) == 0) {
    Value* parts[2];
    for (int i = 0; i < 2; ++i) {
      std::vector<int> half;
      for (int lane = 0; lane < lanes / 2; ++lane) half.push_back(i * lanes / 2 + lane);
      parts[i] = RoundToInt(b_.CreateShuffleVector(x, half), lanes / 2);
    }
    return llvm::concatenateVectors(b_, parts);
  }
  return b_.CreateFPToSI(b_.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, x), words);
}

namespace {

std::vector<int> Counted(int count, int used) {
  std::vector<int> lanes;
  for (int i = 0; i < count; ++i) lanes.push_back(i < used ? i : -1);
  return lanes;
}

}  // namespace

/// Entries of a table of bytes for each byte of `index`, at most 64 of them, by VBMI: the table is in four registers.
Value* FunctionCodegen::LookUpByPermutation(Value* table, Value* index, int lanes) {
  constexpr int kLanes = 64, kTables = 4;
  auto* bytes = llvm::FixedVectorType::get(b_.getInt8Ty(), kLanes);
  index = b_.CreateShuffleVector(index, Counted(kLanes, lanes));
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
  return b_.CreateShuffleVector(b_.CreateSelect(upper, high, low), Counted(lanes, lanes));
}

/// The same by AVX2's shuffles, 16 bytes at a time, which give 0 where the top bit is set: rows of 16 entries, one of
/// each half of the table at a time, of which one applies.
Value* FunctionCodegen::LookUpByShuffles(Value* table, Value* index, int lanes) {
  constexpr int kRow = 16, kRows = 8, kWide = 32;
  if (lanes > kRow) {
    std::vector<Value*> parts;
    for (int first = 0; first < lanes; first += kRow) {
      const int count = std::min(kRow, lanes - first);
      parts.push_back(LookUpByShuffles(table, LanesOf(index, first, count), count));
    }
    return llvm::concatenateVectors(b_, parts);
  }
  auto* row = llvm::FixedVectorType::get(b_.getInt8Ty(), kRow);
  auto* bytes = llvm::FixedVectorType::get(b_.getInt8Ty(), kWide);
  auto number = [&](uint64_t n) { return llvm::ConstantInt::get(bytes, n); };
  // The upper half's rows are in the upper lanes, for which the top bit is turned around.
  std::vector<int> twice;
  std::vector<llvm::Constant*> turned;
  for (int i = 0; i < kWide; ++i) {
    twice.push_back(i % kRow < lanes ? i % kRow : -1);
    turned.push_back(b_.getInt8(i < kRow ? 0 : 128));
  }
  index = b_.CreateXor(b_.CreateShuffleVector(index, twice), llvm::ConstantVector::get(turned));
  Value* result = nullptr;
  for (int i = 0; i < kRows; ++i) {
    auto load = [&](int at) {
      return b_.CreateAlignedLoad(row, b_.CreateConstInBoundsGEP1_64(row, table, static_cast<uint64_t>(at)),
                                  llvm::Align(1));
    };
    Value* rows = b_.CreateShuffleVector(load(i), load(i + kRows), Counted(kWide, kWide));
    Value* at = b_.CreateBinaryIntrinsic(llvm::Intrinsic::uadd_sat,
                                         b_.CreateXor(index, number(static_cast<uint64_t>(i) * kRow)), number(112));
    Value* found = b_.CreateIntrinsic(bytes, llvm::Intrinsic::x86_avx2_pshuf_b, {rows, at});
    result = result == nullptr ? found : b_.CreateOr(result, found);
  }
  std::vector<int> upper;
  for (int i = 0; i < lanes; ++i) upper.push_back(kRow + i);
  return b_.CreateOr(b_.CreateShuffleVector(result, Counted(lanes, lanes)), b_.CreateShuffleVector(result, upper));
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
  const int lanes = index->dtype.lanes(), width = module_->features().vector_bits;
  if (module_->features().arch != "x86_64" || lanes < 8 || lanes > 64 || width < 256) return nullptr;
  const bool permutes = width >= 512 && module_->HasFeature("avx512vbmi");
  if (!permutes && !module_->HasFeature("avx2")) return nullptr;
  Value* bytes = VisitExpr(index->value);
  Value* table = VisitExpr(op->buffer->data);
  return permutes ? LookUpByPermutation(table, bytes, lanes) : LookUpByShuffles(table, bytes, lanes);
}

Value* FunctionCodegen::ByteCall(const std::string& name, const CallNode* op) {
  const bool emulate = module_->EmulatesIntrinsics();
  if ((name == "pack_bytes" || name == "pack_shorts") && !emulate) return PackWord(op);
  if (name == "round_clamped" && !emulate) return RoundClamped(op);
  if ((name == "dot_bytes" || name == "dot_shorts") && !emulate) {
    Value* a = VisitExpr(op->args[0]);
    Value* dot = DotWords(nullptr, a, VisitExpr(op->args[1]), op->dtype.lanes(), name == "dot_shorts");
    if (dot != nullptr) return dot;
  }
  const PrimExpr plain = tir::ExpandByteOp(op);
  return plain.defined() ? VisitExpr(plain) : nullptr;
}

namespace {

/// The dot products of words that are the summands of `e`; false where it has others.
bool DotsOf(const PrimExpr& e, std::vector<const CallNode*>* dots) {
  if (const auto* sum = e.as<tir::AddNode>()) return DotsOf(sum->a, dots) && DotsOf(sum->b, dots);
  const auto* call = e.as<CallNode>();
  if (call == nullptr) return false;
  if (!tir::IsCallTo(call, "tir.dot_bytes") && !tir::IsCallTo(call, "tir.dot_shorts") &&
      !tir::IsCallTo(call, "tir.dot_two_words")) {
    return false;
  }
  dots->push_back(call);
  return true;
}

}  // namespace

Value* FunctionCodegen::AddDotBytes(const PrimExpr& sum, const PrimExpr& dot) {
  std::vector<const CallNode*> dots;
  std::vector<PrimExpr> expanded;
  if (module_->EmulatesIntrinsics() || dot.dtype().lanes() < 4 || !DotsOf(dot, &dots)) return nullptr;
  Value* result = VisitExpr(sum);
  for (size_t i = 0; i < dots.size(); ++i) {
    const CallNode* call = dots[i];
    if (tir::IsCallTo(call, "tir.dot_two_words")) {
      if (Value* with = DotOfTwoWords(result, call)) {
        result = with;
        continue;
      }
      // As what it's the sum of.
      const PrimExpr both = tir::ExpandByteOp(call);
      expanded.push_back(both);
      DotsOf(both, &dots);
      continue;
    }
    const bool of_shorts = tir::IsCallTo(call, "tir.dot_shorts");
    Value* with = of_shorts ? nullptr : DotOfPackedBytes(result, call);
    if (with == nullptr) {
      Value* a = VisitExpr(call->args[0]);
      with = DotWords(result, a, VisitExpr(call->args[1]), call->dtype.lanes(), of_shorts);
    }
    result = with != nullptr ? with : b_.CreateAdd(result, VisitExpr(tir::ExpandByteOp(call)));
  }
  return result;
}

}  // namespace treadle::targets
