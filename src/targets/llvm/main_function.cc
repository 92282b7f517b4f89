// SPDX-License-Identifier: Apache-2.0
#include "targets/llvm/main_function.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>

#include "targets/call_table.h"
#include "targets/llvm/leak_on_unwind.h"
#include "targets/llvm/target_machine.h"
#include "treadle/base/error.h"

namespace treadle::targets {
namespace {

/// Calls in one function: code generators take more than linear time for long functions.
constexpr size_t kPartCalls = 256;

class MainBuilder {
 public:
  explicit MainBuilder(llvm::Module* module) : module_(module), builder_(module->getContext()) {
    auto* pointer = builder_.getPtrTy();
    part_type_ = llvm::FunctionType::get(builder_.getInt32Ty(), {pointer}, false);
    raw_type_ = llvm::FunctionType::get(builder_.getInt32Ty(), {pointer, pointer}, false);
  }

  void Build(const std::vector<MainCall>& calls) {
    if (calls.size() > kMaxInlineCalls) return BuildLoop(CallTable(calls));
    std::vector<llvm::Function*> parts;
    for (size_t begin = 0; begin < calls.size(); begin += kPartCalls) {
      parts.push_back(BuildPart(calls, begin, std::min(calls.size(), begin + kPartCalls)));
    }
    llvm::Function* function = NewFunction(kMainFunction, llvm::GlobalValue::ExternalLinkage);
    auto* done = llvm::BasicBlock::Create(module_->getContext(), "done", function);
    for (llvm::Function* part : parts) {
      llvm::Value* failed = builder_.CreateCall(part_type_, part, {function->getArg(0)});
      ReturnUnlessZero(function, failed, failed);
    }
    builder_.CreateBr(done);
    builder_.SetInsertPoint(done);
    builder_.CreateRet(builder_.getInt32(0));
  }

 private:
  llvm::Function* NewFunction(const std::string& name, llvm::GlobalValue::LinkageTypes linkage) {
    auto* function = llvm::Function::Create(part_type_, linkage, name, module_);
    function->addFnAttr(llvm::Attribute::NoUnwind);
    builder_.SetInsertPoint(llvm::BasicBlock::Create(module_->getContext(), "entry", function));
    return function;
  }

  void ReturnUnlessZero(llvm::Function* function, llvm::Value* status, llvm::Value* result) {
    auto* fail = llvm::BasicBlock::Create(module_->getContext(), "fail", function);
    auto* next = llvm::BasicBlock::Create(module_->getContext(), "next", function);
    builder_.CreateCondBr(builder_.CreateICmpEQ(status, builder_.getInt32(0)), next, fail);
    builder_.SetInsertPoint(fail);
    builder_.CreateRet(result);
    builder_.SetInsertPoint(next);
  }

  llvm::Value* Load(llvm::Constant* data, llvm::Type* type, llvm::Value* index) {
    auto* table = new llvm::GlobalVariable(data->getType(), /*isConstant=*/true, llvm::GlobalValue::PrivateLinkage,
                                           data, "table");
    module_->insertGlobalVariable(table);
    return builder_.CreateLoad(type, builder_.CreateInBoundsGEP(type, table, index));
  }

  void BuildLoop(const CallTable& table) {
    llvm::LLVMContext& context = module_->getContext();
    auto* pointer = builder_.getPtrTy();
    std::vector<llvm::Constant*> kernels;
    for (const std::string& symbol : table.kernels) {
      auto callee = module_->getOrInsertFunction(symbol + "__raw", raw_type_);
      kernels.push_back(llvm::cast<llvm::Constant>(callee.getCallee()));
    }
    llvm::Function* function = NewFunction(kMainFunction, llvm::GlobalValue::ExternalLinkage);
    llvm::BasicBlock* entry = builder_.GetInsertBlock();
    auto* loop = llvm::BasicBlock::Create(context, "loop", function);
    builder_.CreateBr(loop);
    builder_.SetInsertPoint(loop);
    llvm::PHINode* i = builder_.CreatePHI(builder_.getInt64Ty(), 2);
    i->addIncoming(builder_.getInt64(0), entry);
    llvm::Value* which = Load(llvm::ConstantDataArray::get(context, llvm::ArrayRef<uint32_t>(table.kernel_of)),
                              builder_.getInt32Ty(), i);
    llvm::Value* first = Load(llvm::ConstantDataArray::get(context, llvm::ArrayRef<uint64_t>(table.first_arg)),
                              builder_.getInt64Ty(), i);
    llvm::Value* kernel = Load(llvm::ConstantArray::get(llvm::ArrayType::get(pointer, kernels.size()), kernels),
                               pointer, builder_.CreateZExt(which, builder_.getInt64Ty()));
    llvm::Value* data = builder_.CreateInBoundsGEP(pointer, function->getArg(0), first);
    llvm::Value* status = builder_.CreateCall(raw_type_, kernel, {data, llvm::ConstantPointerNull::get(pointer)});
    llvm::Value* next = builder_.CreateAdd(i, builder_.getInt64(1));
    ReturnUnlessZero(function, status, builder_.CreateTrunc(next, builder_.getInt32Ty()));
    i->addIncoming(next, builder_.GetInsertBlock());
    auto* done = llvm::BasicBlock::Create(context, "done", function);
    builder_.CreateCondBr(builder_.CreateICmpEQ(next, builder_.getInt64(table.kernel_of.size())), done, loop);
    builder_.SetInsertPoint(done);
    builder_.CreateRet(builder_.getInt32(0));
  }

  llvm::Function* BuildPart(const std::vector<MainCall>& calls, size_t begin, size_t end) {
    llvm::Function* function =
        NewFunction("part" + std::to_string(begin / kPartCalls), llvm::GlobalValue::InternalLinkage);
    auto* pointer = builder_.getPtrTy();
    for (size_t i = begin; i < end; ++i) {
      llvm::FunctionCallee kernel = module_->getOrInsertFunction(calls[i].symbol + "__raw", raw_type_);
      llvm::Value* data =
          builder_.CreateConstInBoundsGEP1_64(pointer, function->getArg(0), static_cast<uint64_t>(calls[i].first_arg));
      llvm::Value* status = builder_.CreateCall(kernel, {data, llvm::ConstantPointerNull::get(pointer)});
      ReturnUnlessZero(function, status, builder_.getInt32(static_cast<uint32_t>(i + 1)));
    }
    builder_.CreateRet(builder_.getInt32(0));
    return function;
  }

  llvm::Module* module_;
  llvm::IRBuilder<> builder_;
  llvm::FunctionType *part_type_, *raw_type_;
};

}  // namespace

std::string MakeMainObject(const std::vector<MainCall>& calls, const Target& target) {
  InitializeLLVM();
  const LLVMTargetInfo info = ResolveLLVMTarget(target);
  LeakOnUnwind<std::unique_ptr<llvm::TargetMachine>> machine(MakeTargetMachine(info, 1));
  LeakOnUnwind<llvm::LLVMContext> context;
  LeakOnUnwind<llvm::Module> module("treadle_main", *context);
  module->setTargetTriple(info.triple);
  module->setDataLayout((*machine)->createDataLayout());
  module->setPICLevel(llvm::PICLevel::BigPIC);
  MainBuilder(&*module).Build(calls);
  std::string problems;
  llvm::raw_string_ostream report(problems);
  TREADLE_ICHECK(!llvm::verifyModule(*module, &report)) << problems;
  llvm::SmallVector<char, 0> buffer;
  llvm::raw_svector_ostream stream(buffer);
  LeakOnUnwind<llvm::legacy::PassManager> passes;
  TREADLE_ICHECK(!(*machine)->addPassesToEmitFile(*passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile))
      << "target can't emit files";
  passes->run(*module);
  return std::string(buffer.begin(), buffer.end());
}

}  // namespace treadle::targets
