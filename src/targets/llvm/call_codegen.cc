// SPDX-License-Identifier: Apache-2.0
// Intrinsics and calls.
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/MDBuilder.h>

#include "targets/llvm/function_codegen.h"
#include "treadle/runtime/c_types.h"

namespace treadle::targets {

using llvm::Value;
using tir::CallNode;
using tir::StructField;

namespace {

/// Cheap enough to compute both ways rather than jump.
bool IsSimple(const PrimExpr& e, int depth = 0) {
  if (e.as<tir::VarNode>() || e.as<IntImmNode>() || e.as<FloatImmNode>()) return true;
  if (depth > 3 || e.as<tir::BufferLoadNode>() || e.as<tir::CallNode>() || e.as<tir::LetNode>()) return false;
  if (const auto* op = e.as<tir::AddNode>()) return IsSimple(op->a, depth + 1) && IsSimple(op->b, depth + 1);
  if (const auto* op = e.as<tir::SubNode>()) return IsSimple(op->a, depth + 1) && IsSimple(op->b, depth + 1);
  if (const auto* op = e.as<tir::MulNode>()) return IsSimple(op->a, depth + 1) && IsSimple(op->b, depth + 1);
  return false;
}

bool IsLikely(const PrimExpr& condition) {
  const auto* call = condition.as<tir::CallNode>();
  const auto* op = call == nullptr ? nullptr : call->op.as<OpNode>();
  return op != nullptr && op->name == "tir.likely";
}

/// vectorlow, vectorhigh: half of `a`; vectorcombine: `a` and `b`.
Value* PickLanes(llvm::IRBuilder<>* builder, const std::string& name, Value* a, Value* b, int lanes) {
  std::vector<int> picked;
  if (b != nullptr) {
    for (int i = 0; i < 2 * lanes; ++i) picked.push_back(i);
    return builder->CreateShuffleVector(a, b, picked);
  }
  for (int i = 0; i < lanes / 2; ++i) picked.push_back(name == "vectorhigh" ? lanes / 2 + i : i);
  return builder->CreateShuffleVector(a, picked);
}

}  // namespace

Value* FunctionCodegen::VisitExpr_(const CallNode* op) {
  if (const auto* callee = op->op.as<GlobalVarNode>()) return CallModuleFunction(op, callee);
  const auto* intrinsic = op->op.as<OpNode>();
  TREADLE_ICHECK(intrinsic != nullptr && intrinsic->name.rfind("tir.", 0) == 0) << "call of an unknown function";
  const std::string name = intrinsic->name.substr(4);
  if (name == "if_then_else") return IfThenElseExpr(op);
  if (name == "likely" || name == "assume") {
    return name == "likely" ? VisitExpr(op->args[0]) : static_cast<Value*>(b_.getInt32(0));
  }
  if (name == "reinterpret") {
    // Floats of less than a byte are bytes in registers; integers have their width.
    Value* value = VisitExpr(op->args[0]);
    llvm::Type* type = ValueType(op->dtype);
    if (value->getType()->isPointerTy() && type->isIntegerTy()) return b_.CreatePtrToInt(value, type);
    const bool widths_differ = value->getType()->getPrimitiveSizeInBits() != type->getPrimitiveSizeInBits();
    return widths_differ ? b_.CreateZExtOrTrunc(value, type) : b_.CreateBitCast(value, type);
  }
  if (name == "masked_load") {
    const auto* load = op->args[0].as<tir::BufferLoadNode>();
    TREADLE_ICHECK(load != nullptr) << "masked_load takes a buffer element";
    Value* mask = VisitExpr(op->args[1]);
    return LoadLanes(load, mask, VisitExpr(op->args[2]));
  }
  if (name == "masked_store") {
    const auto* load = op->args[0].as<tir::BufferLoadNode>();
    TREADLE_ICHECK(load != nullptr) << "masked_store takes a buffer element";
    Value* mask = VisitExpr(op->args[1]);
    StoreLanes(load->buffer, load->indices[0], VisitExpr(op->args[2]), op->args[2].dtype().lanes(), mask);
    return b_.getInt32(0);
  }
  if (name == "address_of") {
    const auto* load = op->args[0].as<tir::BufferLoadNode>();
    TREADLE_ICHECK(load != nullptr) << "address_of takes a buffer element";
    if (load->indices.empty()) return VisitExpr(load->buffer->data);
    return ElementPointer(load->buffer, load->indices[0]);
  }
  if (name == "isnullptr") return b_.CreateIsNull(VisitExpr(op->args[0]));
  if (name == "ret") {
    Value* code = Convert(VisitExpr(op->args[0]), op->args[0].dtype(), DataType::Int(32));
    Return(code);
    b_.SetInsertPoint(NewBlock("after.ret"));
    return b_.getInt32(0);
  }
  if (name == "tvm_struct_get") return StructGet(op);
  if (name == "call_extern" || name == "call_pure_extern") return CallExternFunction(op);
  if (name == "call_llvm_intrin" || name == "call_llvm_pure_intrin") return CallLlvmIntrinsic(op);
  if (name == "tvm_call_packed") return CallPackedFunction(op);
  if (name == "trap") {
    const auto* message = op->args.empty() ? nullptr : op->args[0].as<tir::StringImmNode>();
    Fail(message != nullptr ? message->value : "trap");
    b_.SetInsertPoint(NewBlock("after.trap"));
    return b_.getInt32(0);
  }
  if (name == "prefetch") {
    const int64_t* locality = op->args.size() > 2 ? AsConstInt(op->args[2]) : nullptr;
    const uint32_t level =
        locality != nullptr && *locality >= 0 && *locality < 3 ? static_cast<uint32_t>(*locality) : 3;
    return b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {b_.getPtrTy()},
                              {VisitExpr(op->args[0]), b_.getInt32(0), b_.getInt32(level), b_.getInt32(1)});
  }
  if (name == "undef") return llvm::Constant::getNullValue(ValueType(op->dtype));
  if (name == "large_uint_imm") {
    const auto low = static_cast<uint64_t>(tir::as_int(op->args[0], "low half"));
    const auto high = static_cast<uint64_t>(tir::as_int(op->args[1], "high half"));
    return b_.getInt64((high << 32) | (low & 0xffffffffu));
  }
  if (name.rfind("vector", 0) == 0) {
    Value* a = VisitExpr(op->args[0]);
    Value* b = name == "vectorcombine" ? VisitExpr(op->args[1]) : nullptr;
    return PickLanes(&b_, name, a, b, op->args[0].dtype().lanes());
  }
  if (Value* value = BitCall(name, op)) return value;
  if (Value* value = FloatCall(name, op)) return value;
  if (Value* value = PairCall(name, op)) return value;
  if (Value* value = ByteCall(name, op)) return value;
  if (Value* value = TileCall(op)) return value;
  throw TargetError(StrCat("the llvm backend doesn't know the intrinsic tir.", name, " of ", op->dtype));
}

Value* FunctionCodegen::IfThenElseExpr(const CallNode* op) {
  Value* condition = VisitExpr(op->args[0]);
  const PrimExpr& yes = op->args[1];
  const PrimExpr& no = op->args[2];
  if (op->args[0].dtype().is_vector() && IsLikely(op->args[0])) return LikelyLanes(condition, yes, no);
  if (op->args[0].dtype().is_vector() || (IsSimple(yes) && IsSimple(no))) {
    Value* true_value = VisitExpr(yes);
    return b_.CreateSelect(condition, true_value, VisitExpr(no));
  }
  auto* then = NewBlock("value.then");
  auto* otherwise = NewBlock("value.else");
  auto* end = NewBlock("value.end");
  b_.CreateCondBr(condition, then, otherwise);
  Value* values[2];
  llvm::BasicBlock* blocks[2];
  for (int i = 0; i < 2; ++i) {
    b_.SetInsertPoint(i == 0 ? then : otherwise);
    memos_.emplace_back();
    values[i] = VisitExpr(i == 0 ? yes : no);
    memos_.pop_back();
    blocks[i] = b_.GetInsertBlock();
    b_.CreateBr(end);
  }
  b_.SetInsertPoint(end);
  auto* phi = b_.CreatePHI(ValueType(op->dtype), 2);
  phi->addIncoming(values[0], blocks[0]);
  phi->addIncoming(values[1], blocks[1]);
  return phi;
}

Value* FunctionCodegen::LikelyLanes(Value* condition, const PrimExpr& yes, const PrimExpr& no) {
  Value* usual = VisitExpr(yes);
  auto* some = NewBlock("lanes.some");
  auto* end = NewBlock("lanes.end");
  llvm::BasicBlock* before = b_.GetInsertBlock();
  b_.CreateCondBr(b_.CreateAndReduce(condition), end, some,
                  llvm::MDBuilder(b_.getContext()).createBranchWeights(1 << 12, 1));
  b_.SetInsertPoint(some);
  memos_.emplace_back();
  Value* chosen = b_.CreateSelect(condition, usual, VisitExpr(no));
  memos_.pop_back();
  llvm::BasicBlock* after = b_.GetInsertBlock();
  b_.CreateBr(end);
  b_.SetInsertPoint(end);
  auto* phi = b_.CreatePHI(usual->getType(), 2);
  phi->addIncoming(usual, before);
  phi->addIncoming(chosen, after);
  return phi;
}

Value* FunctionCodegen::BitCall(const std::string& name, const CallNode* op) {
  if (name == "bitwise_not") return b_.CreateNot(VisitExpr(op->args[0]));
  if (name == "popcount" || name == "clz") {
    Value* a = VisitExpr(op->args[0]);
    Value* result = name == "popcount" ? b_.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, a)
                                       : b_.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, a, b_.getFalse());
    return Convert(result, op->args[0].dtype(), op->dtype);
  }
  const bool shift = name == "shift_left" || name == "shift_right";
  if (!shift && name.rfind("bitwise_", 0) != 0) return nullptr;
  Value* a = VisitExpr(op->args[0]);
  Value* b = VisitExpr(op->args[1]);
  if (name == "bitwise_and") return b_.CreateAnd(a, b);
  if (name == "bitwise_or") return b_.CreateOr(a, b);
  if (name == "bitwise_xor") return b_.CreateXor(a, b);
  // Shifts by the width or more: all bits are gone.
  const DataType dtype = op->dtype;
  const auto bits = static_cast<uint64_t>(dtype.bits());
  Value* wide = b_.CreateICmpUGE(b, IntConstant(dtype, bits));
  Value* amount = b_.CreateSelect(wide, IntConstant(dtype, name == "shift_right" ? bits - 1 : 0), b);
  if (name == "shift_right" && dtype.is_int()) return b_.CreateAShr(a, amount);
  Value* result = name == "shift_left" ? b_.CreateShl(a, amount) : b_.CreateLShr(a, amount);
  return b_.CreateSelect(wide, IntConstant(dtype, 0), result);
}

Value* FunctionCodegen::FloatCall(const std::string& name, const CallNode* op) {
  const DataType dtype = op->args.empty() ? op->dtype : op->args[0].dtype();
  if (name == "fabs" && dtype.is_integral()) {
    Value* a = VisitExpr(op->args[0]);
    return dtype.is_int() ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, a, b_.getFalse()) : a;
  }
  if (!dtype.is_floating()) return nullptr;
  const bool small = dtype.bits() < 32;
  const DataType type = small ? DataType::Float(32, dtype.lanes()) : dtype;
  auto argument = [&](size_t i) { return Convert(VisitExpr(op->args[i]), op->args[i].dtype(), type); };
  auto unary = [&](llvm::Intrinsic::ID id) {
    return Convert(b_.CreateUnaryIntrinsic(id, argument(0)), type, op->dtype);
  };
  if (name == "isnan") {
    Value* a = argument(0);
    return b_.CreateFCmpUNO(a, a);
  }
  if (name == "fabs") return unary(llvm::Intrinsic::fabs);
  if (name == "sqrt") return unary(llvm::Intrinsic::sqrt);
  if (name == "floor") return unary(llvm::Intrinsic::floor);
  if (name == "ceil") return unary(llvm::Intrinsic::ceil);
  if (name == "trunc") return unary(llvm::Intrinsic::trunc);
  if (name == "nearbyint") return unary(llvm::Intrinsic::roundeven);
  if (name == "copysign") {
    Value* a = argument(0);
    return Convert(b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, a, argument(1)), type, op->dtype);
  }
  if (name == "fmod" && dtype.bits() == 64) {
    Value* x = argument(0);
    return Fmod(x, argument(1));
  }
  if (name == "fma") {
    Value* a = argument(0);
    Value* b = argument(1);
    Value* c = argument(2);
    auto id = module_->features().fma ? llvm::Intrinsic::fma : llvm::Intrinsic::fmuladd;
    return Convert(b_.CreateIntrinsic(id, {a->getType()}, {a, b, c}), type, op->dtype);
  }
  return nullptr;
}

Value* FunctionCodegen::StructGet(const CallNode* op) {
  Value* base = VisitExpr(op->args[0]);
  Value* index = Index64(op->args[1]);
  const auto field = static_cast<StructField>(tir::as_int(op->args[2], "field"));
  if (field == StructField::kValue) {
    Value* slot = b_.CreateGEP(Int64(), base, index);
    const DataType dtype = op->dtype;
    if (dtype.is_handle()) return b_.CreateLoad(b_.getPtrTy(), slot);
    if (dtype.is_floating()) return Convert(b_.CreateLoad(b_.getDoubleTy(), slot), DataType::Float(64), dtype);
    return Convert(b_.CreateLoad(Int64(), slot), DataType::Int(64), dtype);
  }
  struct Layout {
    StructField field;
    uint64_t offset;
    DataType dtype;
  };
  static const Layout layout[] = {
      {StructField::kData, offsetof(DLTensor, data), DataType::Handle()},
      {StructField::kShape, offsetof(DLTensor, shape), DataType::Handle()},
      {StructField::kStrides, offsetof(DLTensor, strides), DataType::Handle()},
      {StructField::kNDim, offsetof(DLTensor, ndim), DataType::Int(32)},
      {StructField::kTypeCode, offsetof(DLTensor, dtype), DataType::UInt(8)},
      {StructField::kTypeBits, offsetof(DLTensor, dtype) + 1, DataType::UInt(8)},
      {StructField::kTypeLanes, offsetof(DLTensor, dtype) + 2, DataType::UInt(16)},
      {StructField::kByteOffset, offsetof(DLTensor, byte_offset), DataType::UInt(64)},
      {StructField::kDeviceId, offsetof(DLTensor, device) + 4, DataType::Int(32)},
      {StructField::kDeviceType, offsetof(DLTensor, device), DataType::Int(32)},
  };
  for (const Layout& entry : layout) {
    if (entry.field != field) continue;
    Value* element = b_.CreateGEP(b_.getInt8Ty(), base, b_.CreateMul(index, b_.getInt64(sizeof(DLTensor))));
    Value* slot = b_.CreateGEP(b_.getInt8Ty(), element, b_.getInt64(entry.offset));
    return Convert(b_.CreateLoad(ValueType(entry.dtype), slot), entry.dtype, op->dtype);
  }
  throw InternalError(StrCat("internal error: struct field ", static_cast<int>(field)));
}

Value* FunctionCodegen::CallExternFunction(const CallNode* op) {
  const auto* name = op->args[0].as<tir::StringImmNode>();
  TREADLE_ICHECK(name != nullptr) << "call_extern takes the name of a function";
  std::vector<Value*> args;
  std::vector<llvm::Type*> types;
  for (size_t i = 1; i < op->args.size(); ++i) {
    args.push_back(VisitExpr(op->args[i]));
    types.push_back(args.back()->getType());
  }
  auto* type = llvm::FunctionType::get(ValueType(op->dtype), types, false);
  return b_.CreateCall(module_->module()->getOrInsertFunction(name->value, type), args);
}

Value* FunctionCodegen::CallLlvmIntrinsic(const CallNode* op) {
  const auto* name = op->args.empty() ? nullptr : op->args[0].as<tir::StringImmNode>();
  if (name == nullptr) throw TargetError("call_llvm_intrin takes the name of an intrinsic of LLVM");
  const llvm::Intrinsic::ID id = llvm::Function::lookupIntrinsicID(name->value);
  if (id == llvm::Intrinsic::not_intrinsic) {
    throw TargetError(StrCat("LLVM has no intrinsic called \"", name->value, "\""));
  }
  std::vector<Value*> args;
  std::vector<llvm::Type*> types;
  std::string given;
  for (size_t i = 1; i < op->args.size(); ++i) {
    args.push_back(VisitExpr(op->args[i]));
    types.push_back(args.back()->getType());
    given += StrCat(i == 1 ? "" : ", ", op->args[i].dtype());
  }
  auto* wanted = llvm::FunctionType::get(ValueType(op->dtype), types, false);
  llvm::SmallVector<llvm::Intrinsic::IITDescriptor, 8> table;
  llvm::Intrinsic::getIntrinsicInfoTableEntries(id, table);
  llvm::ArrayRef<llvm::Intrinsic::IITDescriptor> left = table;
  llvm::SmallVector<llvm::Type*, 4> overloads;
  const bool matches =
      llvm::Intrinsic::matchIntrinsicSignature(wanted, left, overloads) == llvm::Intrinsic::MatchIntrinsicTypes_Match &&
      !llvm::Intrinsic::matchIntrinsicVarArg(wanted->isVarArg(), left);
  if (!matches) {
    throw TargetError(StrCat("the intrinsic ", name->value, " of LLVM doesn't take (", given, ") to give ", op->dtype));
  }
  return b_.CreateCall(llvm::Intrinsic::getDeclaration(module_->module(), id, overloads), args);
}

Value* FunctionCodegen::CallModuleFunction(const CallNode* op, const GlobalVarNode* callee) {
  std::vector<Value*> args;
  std::vector<llvm::Type*> types;
  for (const PrimExpr& e : op->args) {
    args.push_back(VisitExpr(e));
    types.push_back(args.back()->getType());
  }
  auto* type = llvm::FunctionType::get(Int32(), types, false);
  Value* code = b_.CreateCall(module_->module()->getOrInsertFunction(callee->name_hint, type), args);
  return code;
}

/// A DLTensor on the stack: compact, on the CPU.
Value* FunctionCodegen::TensorArgument(const CallNode* op) {
  llvm::IRBuilder<> entry(&function_->getEntryBlock(), function_->getEntryBlock().begin());
  const size_t rank = op->args.size() - 2;
  auto* shape_type = llvm::ArrayType::get(Int64(), std::max<size_t>(rank, 1));
  auto* bytes = llvm::ArrayType::get(b_.getInt8Ty(), sizeof(DLTensor));
  Value* shape = entry.CreateAlloca(shape_type, nullptr, "packed.shape");
  auto* tensor = entry.CreateAlloca(bytes, nullptr, "packed.tensor");
  tensor->setAlignment(llvm::Align(alignof(DLTensor)));
  for (size_t d = 0; d < rank; ++d) {
    b_.CreateStore(Index64(op->args[d + 2]), b_.CreateConstInBoundsGEP2_64(shape_type, shape, 0, d));
  }
  auto store = [&](Value* value, size_t offset) {
    b_.CreateStore(value, b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), tensor, offset));
  };
  const DataType t = op->args[1].dtype();
  store(VisitExpr(op->args[0]), offsetof(DLTensor, data));
  store(b_.getInt32(kDLCPU), offsetof(DLTensor, device));
  store(b_.getInt32(0), offsetof(DLTensor, device) + 4);
  store(b_.getInt32(static_cast<uint32_t>(rank)), offsetof(DLTensor, ndim));
  store(b_.getInt8(static_cast<uint8_t>(t.code())), offsetof(DLTensor, dtype));
  store(b_.getInt8(static_cast<uint8_t>(t.bits())), offsetof(DLTensor, dtype) + 1);
  store(b_.getInt16(static_cast<uint16_t>(t.lanes())), offsetof(DLTensor, dtype) + 2);
  store(shape, offsetof(DLTensor, shape));
  store(llvm::ConstantPointerNull::get(b_.getPtrTy()), offsetof(DLTensor, strides));
  store(b_.getInt64(0), offsetof(DLTensor, byte_offset));
  return tensor;
}

Value* FunctionCodegen::PackedArgument(const PrimExpr& e, Value* slot, int* code) {
  if (const auto* call = e.as<CallNode>(); call != nullptr && tir::IsCallTo(call, "tir.tvm_stack_make_array")) {
    *code = kTreadleDLTensor;
    return b_.CreateStore(TensorArgument(call), slot);
  }
  Value* value = VisitExpr(e);
  const DataType dtype = e.dtype();
  if (e.as<tir::StringImmNode>()) {
    *code = kTreadleStr;
    return b_.CreateStore(value, slot);
  }
  if (dtype.is_handle()) {
    *code = kTreadleHandle;
    return b_.CreateStore(value, slot);
  }
  if (dtype.is_floating()) {
    *code = kTreadleFloat;
    return b_.CreateStore(Convert(value, dtype, DataType::Float(64)), slot);
  }
  *code = kTreadleInt;
  return b_.CreateStore(Convert(value, dtype, DataType::Int(64)), slot);
}

Value* FunctionCodegen::CallPackedFunction(const CallNode* op) {
  const auto* name = op->args[0].as<tir::StringImmNode>();
  TREADLE_ICHECK(name != nullptr) << "call_packed takes the name of a function";
  const size_t count = op->args.size() - 1;
  llvm::IRBuilder<> entry(&function_->getEntryBlock(), function_->getEntryBlock().begin());
  auto* values_type = llvm::ArrayType::get(Int64(), count + 1);
  auto* codes_type = llvm::ArrayType::get(Int32(), count + 1);
  Value* values = entry.CreateAlloca(values_type, nullptr, "packed.values");
  Value* codes = entry.CreateAlloca(codes_type, nullptr, "packed.codes");
  Value* callee_slot = entry.CreateAlloca(b_.getPtrTy(), nullptr, "packed.callee");
  for (size_t i = 0; i <= count; ++i) {
    Value* slot = b_.CreateConstInBoundsGEP2_64(values_type, values, 0, i);
    int code = kTreadleNull;
    if (i < count) PackedArgument(op->args[i + 1], slot, &code);
    b_.CreateStore(b_.getInt32(static_cast<uint32_t>(code)), b_.CreateConstInBoundsGEP2_64(codes_type, codes, 0, i));
  }
  auto fail_unless_zero = [&](Value* code) {
    auto* failed = NewBlock("packed.failed");
    auto* ok = NewBlock("packed.ok");
    b_.CreateCondBr(b_.CreateICmpEQ(code, b_.getInt32(0)), ok, failed);
    b_.SetInsertPoint(failed);
    Return(b_.getInt32(static_cast<uint32_t>(-1)));
    b_.SetInsertPoint(ok);
  };
  auto* context_variable = module_->module()->getOrInsertGlobal("__treadle_module_ctx", b_.getPtrTy());
  if (auto* global = llvm::dyn_cast<llvm::GlobalVariable>(context_variable); global && !global->hasInitializer()) {
    global->setInitializer(llvm::ConstantPointerNull::get(b_.getPtrTy()));
    global->setLinkage(llvm::GlobalValue::WeakAnyLinkage);
  }
  auto* get_type = llvm::FunctionType::get(Int32(), {b_.getPtrTy(), b_.getPtrTy(), b_.getPtrTy()}, false);
  fail_unless_zero(module_->CallRuntime(
      &b_, "TreadleBackendGetFuncFromEnv", get_type,
      {b_.CreateLoad(b_.getPtrTy(), context_variable), module_->StringConstant(name->value), callee_slot}));
  auto* call_type = llvm::FunctionType::get(
      Int32(), {b_.getPtrTy(), b_.getPtrTy(), b_.getPtrTy(), Int32(), b_.getPtrTy(), b_.getPtrTy()}, false);
  Value* result = b_.CreateConstInBoundsGEP2_64(values_type, values, 0, count);
  Value* result_code = b_.CreateConstInBoundsGEP2_64(codes_type, codes, 0, count);
  fail_unless_zero(module_->CallRuntime(&b_, "TreadleBackendFuncCall", call_type,
                                        {b_.CreateLoad(b_.getPtrTy(), callee_slot), values, codes,
                                         b_.getInt32(static_cast<uint32_t>(count)), result, result_code}));
  const DataType dtype = op->dtype;
  if (dtype.is_handle() || dtype.is_void()) return b_.CreateLoad(b_.getPtrTy(), result);
  if (dtype.is_floating()) return Convert(b_.CreateLoad(b_.getDoubleTy(), result), DataType::Float(64), dtype);
  return Convert(b_.CreateLoad(Int64(), result), DataType::Int(64), dtype);
}

}  // namespace treadle::targets
