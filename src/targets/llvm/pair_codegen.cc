// SPDX-License-Identifier: Apache-2.0
// Products of bfloat16 (treadle/tir/pair_ops.h) with the instructions that the machine has for them.
#include <llvm/IR/IntrinsicsAArch64.h>
#include <llvm/IR/IntrinsicsX86.h>

#include "targets/llvm/function_codegen.h"
#include "treadle/arith/analyzer.h"
#include "treadle/tir/pair_ops.h"

namespace treadle::targets {

using llvm::Value;
using tir::CallNode;

namespace {

/// The load of the first of two neighbours in memory; null where they aren't neighbours.
const tir::BufferLoadNode* FirstOfTwo(const CallNode* op) {
  const auto* low = op->args[0].as<tir::BufferLoadNode>();
  const auto* high = op->args[1].as<tir::BufferLoadNode>();
  if (low == nullptr || high == nullptr || !low->buffer.same_as(high->buffer)) return nullptr;
  if (low->indices.size() != 1 || high->indices.size() != 1 || !low->dtype.is_scalar() || !high->dtype.is_scalar()) {
    return nullptr;
  }
  arith::Analyzer analyzer;
  return tir::is_const_int(analyzer.Simplify(high->indices[0] - low->indices[0]), 1) ? low : nullptr;
}

}  // namespace

/// `sum` (null: 0) plus the dot products of the words of `a` and `b`; null where the machine has no instruction.
Value* FunctionCodegen::DotPairs(Value* sum, Value* a, Value* b, int lanes) {
  const TargetFeatures& features = module_->features();
  const int widest = features.vector_lanes(32);
  if (lanes < 4 || (lanes & (lanes - 1)) != 0 || lanes > 64) return nullptr;
  auto* sums = llvm::FixedVectorType::get(b_.getFloatTy(), static_cast<unsigned>(lanes));
  if (sum == nullptr) sum = llvm::Constant::getNullValue(sums);
  if (lanes > widest || lanes > 16) {
    return DotOfHalves(sum, a, b, lanes, [&](Value* half_sum, Value* half_a, Value* half_b) {
      return DotPairs(half_sum, half_a, half_b, lanes / 2);
    });
  }
  auto* pairs = llvm::FixedVectorType::get(b_.getBFloatTy(), static_cast<unsigned>(lanes) * 2);
  a = b_.CreateBitCast(a, pairs);
  b = b_.CreateBitCast(b, pairs);
  if (features.arch == "x86_64") {
    const llvm::Intrinsic::ID id = lanes == 4   ? llvm::Intrinsic::x86_avx512bf16_dpbf16ps_128
                                   : lanes == 8 ? llvm::Intrinsic::x86_avx512bf16_dpbf16ps_256
                                                : llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512;
    return b_.CreateIntrinsic(sums, id, {sum, a, b});
  }
  if (features.arch != "aarch64" && features.arch != "arm64") return nullptr;
  return b_.CreateIntrinsic(llvm::Intrinsic::aarch64_neon_bfdot, {sums, pairs}, {sum, a, b});
}

Value* FunctionCodegen::RoundPairHalf(const CallNode* op) {
  const int lanes = op->dtype.lanes();
  const TargetFeatures& features = module_->features();
  if (!module_->HasBFloat16Dot() || features.arch != "x86_64") return nullptr;
  if (lanes != 8 && (lanes != 16 || features.vector_lanes(32) < lanes)) return nullptr;
  const llvm::Intrinsic::ID id =
      lanes == 8 ? llvm::Intrinsic::x86_avx512bf16_cvtneps2bf16_256 : llvm::Intrinsic::x86_avx512bf16_cvtneps2bf16_512;
  auto* halves = llvm::FixedVectorType::get(b_.getBFloatTy(), static_cast<unsigned>(lanes));
  return b_.CreateBitCast(b_.CreateIntrinsic(halves, id, {VisitExpr(op->args[0])}), ValueType(op->dtype));
}

Value* FunctionCodegen::PairCall(const std::string& name, const CallNode* op) {
  if (module_->EmulatesIntrinsics()) return nullptr;
  if (name == "pack_pair") {
    if (const auto* first = FirstOfTwo(op)) {
      return b_.CreateAlignedLoad(b_.getInt32Ty(), ElementPointer(first->buffer, first->indices[0]), llvm::Align(1));
    }
  }
  if (name == "pair_half") return RoundPairHalf(op);
  if (name != "dot_pairs" || !module_->HasBFloat16Dot()) return nullptr;
  Value* a = VisitExpr(op->args[0]);
  return DotPairs(nullptr, a, VisitExpr(op->args[1]), op->dtype.lanes());
}

Value* FunctionCodegen::AddDotPairs(const PrimExpr& sum, const PrimExpr& dot) {
  const auto* call = dot.as<CallNode>();
  if (call == nullptr || !tir::IsCallTo(call, "tir.dot_pairs") || module_->EmulatesIntrinsics() ||
      !module_->HasBFloat16Dot() || dot.dtype().lanes() < 4) {
    return nullptr;
  }
  Value* start = VisitExpr(sum);
  Value* a = VisitExpr(call->args[0]);
  return DotPairs(start, a, VisitExpr(call->args[1]), call->dtype.lanes());
}

}  // namespace treadle::targets
