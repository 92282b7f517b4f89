// SPDX-License-Identifier: Apache-2.0
#include "targets/llvm/broadcast_operands.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/PatternMatch.h>
#include <llvm/Transforms/Utils/Local.h>

#include <algorithm>
#include <vector>

#include "treadle/base/text.h"

namespace treadle::targets {
namespace {

bool IsPairDot(const llvm::IntrinsicInst* call) {
  switch (call->getIntrinsicID()) {
    case llvm::Intrinsic::x86_avx512bf16_dpbf16ps_128:
    case llvm::Intrinsic::x86_avx512bf16_dpbf16ps_256:
    case llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512:
      return true;
    default:
      return false;
  }
}

/// The load of a word that `operand` repeats and nothing else uses; null if it is something else.
llvm::LoadInst* BroadcastLoad(llvm::Value* operand) {
  using namespace llvm::PatternMatch;  // NOLINT(google-build-using-namespace)
  llvm::Value* word = nullptr;
  const auto splat = m_OneUse(
      m_Shuffle(m_OneUse(m_InsertElt(m_Value(), m_OneUse(m_Value(word)), m_ZeroInt())), m_Value(), m_ZeroMask()));
  if (!match(operand, m_CombineOr(m_OneUse(m_BitCast(splat)), splat))) return nullptr;
  auto* load = llvm::dyn_cast<llvm::LoadInst>(word);
  return load != nullptr && load->isSimple() && load->getType()->getPrimitiveSizeInBits() == 32 ? load : nullptr;
}

/// Whether the call may read the word itself. LLVM orders code given as text after stores before it, but not before
/// those that follow: only where the block has none, as in loops of register tiles.
bool CanSink(const llvm::LoadInst* load, const llvm::Instruction* call) {
  const llvm::BasicBlock* block = call->getParent();
  return load->getParent() == block &&
         std::none_of(block->begin(), block->end(), [](const llvm::Instruction& i) { return i.mayWriteToMemory(); });
}

void ReadWord(llvm::IntrinsicInst* call, unsigned broadcast, llvm::LoadInst* load) {
  llvm::IRBuilder<> b(call);
  llvm::Value* sum = call->getArgOperand(0);
  llvm::Value* pairs = b.CreateBitCast(call->getArgOperand(3 - broadcast), sum->getType());
  llvm::Value* pointer = load->getPointerOperand();
  auto* type = llvm::FunctionType::get(sum->getType(), {pairs->getType(), pointer->getType(), sum->getType()}, false);
  const unsigned lanes = llvm::cast<llvm::FixedVectorType>(sum->getType())->getNumElements();
  auto* code = llvm::InlineAsm::get(type, StrCat("vdpbf16ps $2{1to", lanes, "}, $1, $0"), "=v,v,*m,0", false);
  llvm::CallInst* read = b.CreateCall(type, code, {pairs, pointer, sum});
  read->addParamAttr(1, llvm::Attribute::get(b.getContext(), llvm::Attribute::ElementType, b.getInt32Ty()));
  read->setOnlyReadsMemory();
  read->setDoesNotThrow();
  call->replaceAllUsesWith(read);
  llvm::RecursivelyDeleteTriviallyDeadInstructions(call);
}

}  // namespace

void FoldBroadcastOperands(llvm::Module* module) {
  std::vector<llvm::IntrinsicInst*> dots;
  for (llvm::Function& function : *module) {
    for (llvm::BasicBlock& block : function) {
      for (llvm::Instruction& i : block) {
        auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&i);
        if (call != nullptr && IsPairDot(call)) dots.push_back(call);
      }
    }
  }
  for (llvm::IntrinsicInst* call : dots) {
    for (const unsigned operand : {1U, 2U}) {
      llvm::LoadInst* load = BroadcastLoad(call->getArgOperand(operand));
      if (load == nullptr || !CanSink(load, call)) continue;
      ReadWord(call, operand, load);
      break;
    }
  }
}

}  // namespace treadle::targets
