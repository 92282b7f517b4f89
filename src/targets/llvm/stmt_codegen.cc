// SPDX-License-Identifier: Apache-2.0
// Statements, loops and the outlining of parallel ones.
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Verifier.h>

#include <utility>

#include "targets/llvm/function_codegen.h"
#include "treadle/tir/loop_hints.h"

namespace treadle::targets {

using llvm::Value;
using tir::Var;

FunctionCodegen::FunctionCodegen(ModuleBuilder* module, llvm::Function* function)
    : module_(module), function_(function), b_(module->context()) {
  llvm::FastMathFlags flags;
  flags.setAllowContract(true);
  if (module->fast_math()) flags.setFast();
  b_.setFastMathFlags(flags);
  if (llvm::DISubprogram* description = module->Describe(function)) {
    b_.SetCurrentDebugLocation(llvm::DILocation::get(context(), 1, 0, description));
  }
  b_.SetInsertPoint(llvm::BasicBlock::Create(context(), "entry", function));
  memos_.emplace_back();
}

void FunctionCodegen::Run(const std::vector<Var>& params, const tir::Stmt& body) {
  TREADLE_ICHECK(params.size() == function_->arg_size()) << "wrong number of arguments";
  for (size_t i = 0; i < params.size(); ++i) {
    Value* arg = function_->getArg(static_cast<unsigned>(i));
    arg->setName(params[i]->name_hint);
    Bind(params[i], arg);
  }
  // Allocations go to the entry block, ahead of everything else.
  auto* start = NewBlock("start");
  b_.CreateBr(start);
  b_.SetInsertPoint(start);
  StmtBase::VisitStmt(body);
  if (b_.GetInsertBlock()->getTerminator() == nullptr) Return(b_.getInt32(0));
}

void FunctionCodegen::Bind(const Var& var, Value* value, Value* wide) {
  vars_[var.get()] = value;
  wide_vars_.erase(var.get());
  if (wide != nullptr) wide_vars_[var.get()] = wide;
}

void FunctionCodegen::Return(Value* code) {
  auto* free_type = llvm::FunctionType::get(Int32(), {Int32(), Int32(), b_.getPtrTy()}, false);
  for (auto it = workspaces_.rbegin(); it != workspaces_.rend(); ++it) {
    module_->CallRuntime(&b_, "TreadleBackendFreeWorkspace", free_type, {it->device, it->device_id, it->pointer});
  }
  b_.CreateRet(code);
}

void FunctionCodegen::Fail(const std::string& message) {
  auto* type = llvm::FunctionType::get(b_.getVoidTy(), {b_.getPtrTy()}, false);
  module_->CallRuntime(&b_, "TreadleBackendSetLastError", type, {module_->StringConstant(message)});
  Return(b_.getInt32(static_cast<uint32_t>(-1)));
}

void FunctionCodegen::Check(Value* condition, const std::string& message) {
  auto* ok = NewBlock("check.ok");
  auto* failed = NewBlock("check.failed");
  llvm::MDBuilder metadata(context());
  b_.CreateCondBr(condition, ok, failed, metadata.createLikelyBranchWeights());
  b_.SetInsertPoint(failed);
  Fail(message);
  b_.SetInsertPoint(ok);
}

void FunctionCodegen::VisitStmt_(const tir::LetStmtNode* op) {
  Value* value = nullptr;
  InScope([&] { value = VisitExpr(op->value); });
  Bind(op->var, value);
  // Copies of a body bind one variable several times: what was known of it before doesn't count.
  non_negative_.erase(op->var.get());
  if (IsNonNegative(op->value)) non_negative_.insert(op->var.get());
  StmtBase::VisitStmt(op->body);
}

void FunctionCodegen::VisitStmt_(const tir::AttrStmtNode* op) { StmtBase::VisitStmt(op->body); }

void FunctionCodegen::VisitStmt_(const tir::AssertStmtNode* op) {
  Value* condition = nullptr;
  InScope([&] { condition = VisitExpr(op->condition); });
  const auto* message = op->message.as<tir::StringImmNode>();
  Check(condition, message != nullptr ? message->value : "assertion failed");
  StmtBase::VisitStmt(op->body);
}

void FunctionCodegen::VisitStmt_(const tir::SeqStmtNode* op) {
  for (const tir::Stmt& stmt : op->seq) {
    if (b_.GetInsertBlock()->getTerminator() != nullptr) return;
    StmtBase::VisitStmt(stmt);
  }
}

void FunctionCodegen::VisitStmt_(const tir::IfThenElseNode* op) {
  Value* condition = nullptr;
  InScope([&] { condition = VisitExpr(op->condition); });
  auto* then = NewBlock("if.then");
  auto* otherwise = op->else_case.defined() ? NewBlock("if.else") : nullptr;
  auto* end = NewBlock("if.end");
  b_.CreateCondBr(condition, then, otherwise != nullptr ? otherwise : end);
  auto branch = [&](llvm::BasicBlock* block, const tir::Stmt& stmt) {
    b_.SetInsertPoint(block);
    InScope([&] { StmtBase::VisitStmt(stmt); });
    if (b_.GetInsertBlock()->getTerminator() == nullptr) b_.CreateBr(end);
  };
  branch(then, op->then_case);
  if (otherwise != nullptr) branch(otherwise, op->else_case);
  b_.SetInsertPoint(end);
}

void FunctionCodegen::VisitStmt_(const tir::EvaluateNode* op) {
  if (op->value.as<IntImmNode>()) return;
  InScope([&] { VisitExpr(op->value); });
}

void FunctionCodegen::Loop(const Var& var, Value* begin, Value* end, const tir::Stmt& body,
                           const Map<String, ObjectRef>& annotations) {
  size_t workspaces = 0;
  InScope([&] { workspaces = AllocateForAll(body, var, begin, end); });
  auto* before = b_.GetInsertBlock();
  auto* header = NewBlock("for.header");
  auto* inside = NewBlock("for.body");
  auto* after = NewBlock("for.end");
  b_.CreateBr(header);
  b_.SetInsertPoint(header);
  auto* index = b_.CreatePHI(Int64(), 2, var->name_hint);
  index->addIncoming(begin, before);
  llvm::MDBuilder metadata(context());
  b_.CreateCondBr(b_.CreateICmpSLT(index, end), inside, after);
  b_.SetInsertPoint(inside);
  const DataType dtype = var.dtype();
  Bind(var, dtype.bits() == 64 ? static_cast<Value*>(index) : b_.CreateTrunc(index, ValueType(dtype)), index);
  InScope([&] { StmtBase::VisitStmt(body); });
  if (b_.GetInsertBlock()->getTerminator() == nullptr) {
    Value* next = b_.CreateNSWAdd(index, b_.getInt64(1));
    index->addIncoming(next, b_.GetInsertBlock());
    auto* back = b_.CreateBr(header);
    if (annotations.contains(tir::attr::kNoUnroll)) {
      auto* disable = llvm::MDNode::get(context(), {llvm::MDString::get(context(), "llvm.loop.unroll.disable")});
      auto* loop = llvm::MDNode::getDistinct(context(), {nullptr, disable});
      loop->replaceOperandWith(0, loop);
      back->setMetadata(llvm::LLVMContext::MD_loop, loop);
    }
  }
  b_.SetInsertPoint(after);
  for (; workspaces > 0; --workspaces) FreeWorkspace();
}

void FunctionCodegen::VisitStmt_(const tir::ForNode* op) {
  if (op->kind == tir::ForKind::kThreadBinding) {
    throw TargetError(StrCat("loop ", op->loop_var->name_hint,
                             " is bound to a thread of a device, which the llvm "
                             "backend doesn't have"));
  }
  non_negative_.erase(op->loop_var.get());
  if (IsNonNegative(op->min)) non_negative_.insert(op->loop_var.get());
  if (op->kind == tir::ForKind::kParallel && !in_parallel_ && !tir::is_const_int(op->extent, 1)) {
    ParallelLoop(op);
    return;
  }
  Value* begin = nullptr;
  Value* end = nullptr;
  InScope([&] {
    begin = Index64(op->min);
    end = b_.CreateNSWAdd(begin, Index64(op->extent));
  });
  const bool outside = std::exchange(in_list_, op->annotations.contains(tir::attr::kListLength));
  Loop(op->loop_var, begin, end, op->body, op->annotations);
  in_list_ = outside;
  list_words_.clear();
  list_lets_ = {};
}

void FunctionCodegen::VisitStmt_(const tir::WhileNode* op) {
  auto* header = NewBlock("while.header");
  auto* inside = NewBlock("while.body");
  auto* after = NewBlock("while.end");
  b_.CreateBr(header);
  b_.SetInsertPoint(header);
  Value* condition = nullptr;
  InScope([&] { condition = VisitExpr(op->condition); });
  b_.CreateCondBr(condition, inside, after);
  b_.SetInsertPoint(inside);
  InScope([&] { StmtBase::VisitStmt(op->body); });
  if (b_.GetInsertBlock()->getTerminator() == nullptr) b_.CreateBr(header);
  b_.SetInsertPoint(after);
}

namespace {

/// int lambda(int task_id, TreadleParallelGroupEnv* env, void* closure): runs `task` on the part of the iterations that
/// is the task's. The closure holds the loop's begin and extent, then what the task takes beyond its begin and end.
llvm::Function* NewLambda(ModuleBuilder* module, const std::string& name, llvm::Function* task,
                          llvm::StructType* closure_type) {
  llvm::LLVMContext& context = module->context();
  llvm::Type *pointer = llvm::PointerType::getUnqual(context), *int32 = llvm::Type::getInt32Ty(context);
  auto* type = llvm::FunctionType::get(int32, {int32, pointer, pointer}, false);
  llvm::Function* lambda = module->NewFunction(type, name, false);
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(context, "entry", lambda));
  auto* env_type = llvm::StructType::get(context, {b.getPtrTy(), b.getInt32Ty()});
  Value* id = b.CreateSExt(lambda->getArg(0), b.getInt64Ty());
  Value* tasks =
      b.CreateSExt(b.CreateLoad(b.getInt32Ty(), b.CreateStructGEP(env_type, lambda->getArg(1), 1)), b.getInt64Ty());
  std::vector<Value*> args;
  for (unsigned i = 0; i < closure_type->getNumElements(); ++i) {
    args.push_back(
        b.CreateLoad(closure_type->getElementType(i), b.CreateStructGEP(closure_type, lambda->getArg(2), i)));
  }
  // Tasks differ by at most one iteration.
  Value* first = b.CreateSDiv(b.CreateMul(id, args[1]), tasks);
  Value* last = b.CreateSDiv(b.CreateMul(b.CreateAdd(id, b.getInt64(1)), args[1]), tasks);
  Value* min = args[0];
  args[0] = b.CreateAdd(min, first);
  args[1] = b.CreateAdd(min, last);
  b.CreateRet(b.CreateCall(task->getFunctionType(), task, args));
  return lambda;
}

}  // namespace

/// The loop's body becomes a function that runs the iterations of one task; pointers stay non-aliasing arguments.
void FunctionCodegen::ParallelLoop(const tir::ForNode* op) {
  std::vector<Var> captured;
  for (const Var& v : FreeVars(op->body)) {
    if (!v.same_as(op->loop_var)) captured.push_back(v);
  }
  Value* begin = Index64(op->min);
  Value* extent = Index64(op->extent);
  // The closure: begin, extent, captured values.
  std::vector<llvm::Type*> fields{Int64(), Int64()};
  for (const Var& v : captured) fields.push_back(VisitExpr(v)->getType());
  auto* closure_type = llvm::StructType::get(context(), fields);
  llvm::IRBuilder<> entry(&function_->getEntryBlock(), function_->getEntryBlock().begin());
  Value* closure = entry.CreateAlloca(closure_type, nullptr, "closure");
  b_.CreateStore(begin, b_.CreateStructGEP(closure_type, closure, 0));
  b_.CreateStore(extent, b_.CreateStructGEP(closure_type, closure, 1));
  for (size_t i = 0; i < captured.size(); ++i) {
    b_.CreateStore(VisitExpr(captured[i]), b_.CreateStructGEP(closure_type, closure, static_cast<unsigned>(i + 2)));
  }

  // int task(int64 begin, int64 end, captured...)
  std::vector<llvm::Type*> task_args = fields;
  auto* task_type = llvm::FunctionType::get(Int32(), task_args, false);
  const std::string base = function_->getName().str();
  llvm::Function* task = module_->NewFunction(task_type, base + "_task", false);
  task->addFnAttr(llvm::Attribute::NoInline);
  for (unsigned i = 0; i < captured.size(); ++i) {
    if (!fields[i + 2]->isPointerTy()) continue;
    // What doesn't alias in the function doesn't here.
    bool no_alias = true;
    if (auto* arg = llvm::dyn_cast<llvm::Argument>(VisitExpr(captured[i]))) no_alias = arg->hasNoAliasAttr();
    if (no_alias) task->addParamAttr(i + 2, llvm::Attribute::NoAlias);
  }
  {
    FunctionCodegen inner(module_, task);
    inner.in_parallel_ = true;
    inner.non_negative_ = non_negative_;
    for (size_t i = 0; i < captured.size(); ++i) {
      Value* arg = task->getArg(static_cast<unsigned>(i + 2));
      arg->setName(captured[i]->name_hint);
      inner.Bind(captured[i], arg);
    }
    auto* start = inner.NewBlock("start");
    inner.b_.CreateBr(start);
    inner.b_.SetInsertPoint(start);
    inner.Loop(op->loop_var, task->getArg(0), task->getArg(1), op->body, op->annotations);
    if (inner.b_.GetInsertBlock()->getTerminator() == nullptr) inner.Return(inner.b_.getInt32(0));
  }

  llvm::Function* lambda = NewLambda(module_, base + "_lambda", task, closure_type);
  auto* launch_type = llvm::FunctionType::get(Int32(), {b_.getPtrTy(), b_.getPtrTy(), Int32()}, false);
  // No more tasks than iterations.
  Value* most = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, extent, b_.getInt64(INT32_MAX));
  most = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, most, b_.getInt64(1));
  Value* tasks = b_.CreateTrunc(b_.CreateNeg(most), Int32());
  Value* code = module_->CallRuntime(&b_, "TreadleBackendParallelLaunch", launch_type, {lambda, closure, tasks});
  auto* failed = NewBlock("parallel.failed");
  auto* done = NewBlock("parallel.done");
  b_.CreateCondBr(b_.CreateICmpEQ(code, b_.getInt32(0)), done, failed);
  b_.SetInsertPoint(failed);
  Return(code);
  b_.SetInsertPoint(done);
}

}  // namespace treadle::targets
