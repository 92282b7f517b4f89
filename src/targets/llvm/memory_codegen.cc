// SPDX-License-Identifier: Apache-2.0
// Indices, loads, stores and allocations.
#include <algorithm>
#include <cstdlib>
#include <utility>

#include <llvm/Analysis/VectorUtils.h>

#include "targets/llvm/function_codegen.h"
#include "tir/passes/split_host_device.h"
#include "treadle/arith/analyzer.h"
#include "treadle/runtime/dlpack.h"

namespace treadle::targets {

using llvm::Value;

namespace {

/// Allocations up to this size live on the stack; "local" ones, meant for registers, up to kMaxLocalBytes.
constexpr int64_t kMaxStackBytes = 4096;
constexpr int64_t kMaxLocalBytes = 64 << 10;

/// Lanes of one index step: buffers may hold vectors.
int ElementLanes(const tir::Buffer& buffer) { return buffer->dtype.lanes(); }

PrimExpr LaneOf(const PrimExpr& e, int64_t lane);

template <typename OpNode>
bool LaneOfBinary(const PrimExpr& e, int64_t lane, PrimExpr (*make)(PrimExpr, PrimExpr), PrimExpr* result) {
  const auto* op = e.as<OpNode>();
  if (op == nullptr) return false;
  PrimExpr a = LaneOf(op->a, lane), b = LaneOf(op->b, lane);
  if (a.defined() && b.defined()) *result = make(a, b);
  return true;
}

/// One lane of an index, as an expression of its own: lanes that are a constant apart then share all but a constant.
/// Null where the vector must be computed as one.
PrimExpr LaneOf(const PrimExpr& e, int64_t lane) {
  if (e.dtype().is_scalar()) return e;
  const DataType dtype = e.dtype().element_of();
  if (const auto* ramp = e.as<tir::RampNode>()) return ramp->base + ramp->stride * tir::make_const(dtype, lane);
  if (const auto* broadcast = e.as<tir::BroadcastNode>()) return broadcast->value;
  PrimExpr result{ObjectPtr<Object>()};
  if (const auto* op = e.as<tir::CastNode>()) {
    PrimExpr value = LaneOf(op->value, lane);
    return value.defined() ? tir::cast(dtype, value) : value;
  }
  (void)(LaneOfBinary<tir::AddNode>(
             e, lane, [](PrimExpr a, PrimExpr b) { return a + b; }, &result) ||
         LaneOfBinary<tir::SubNode>(
             e, lane, [](PrimExpr a, PrimExpr b) { return a - b; }, &result) ||
         LaneOfBinary<tir::MulNode>(
             e, lane, [](PrimExpr a, PrimExpr b) { return a * b; }, &result) ||
         LaneOfBinary<tir::DivNode>(
             e, lane, [](PrimExpr a, PrimExpr b) { return tir::truncdiv(a, b); }, &result) ||
         LaneOfBinary<tir::ModNode>(
             e, lane, [](PrimExpr a, PrimExpr b) { return tir::truncmod(a, b); }, &result) ||
         LaneOfBinary<tir::FloorDivNode>(
             e, lane, [](PrimExpr a, PrimExpr b) { return tir::floordiv(a, b); }, &result) ||
         LaneOfBinary<tir::FloorModNode>(
             e, lane, [](PrimExpr a, PrimExpr b) { return tir::floormod(a, b); }, &result) ||
         LaneOfBinary<tir::MinNode>(
             e, lane, [](PrimExpr a, PrimExpr b) { return tir::min(a, b); }, &result) ||
         LaneOfBinary<tir::MaxNode>(e, lane, [](PrimExpr a, PrimExpr b) { return tir::max(a, b); }, &result));
  return result;
}

/// Where `index` names as many neighbours as it has lanes, in any order: the first, and which each lane is.
std::optional<std::pair<PrimExpr, std::vector<int>>> NeighboursOf(const PrimExpr& index) {
  const int lanes = index.dtype().lanes();
  arith::Analyzer analyzer;
  PrimExpr start{ObjectPtr<Object>()};
  std::vector<int> order;
  for (int i = 0; i < lanes; ++i) {
    const PrimExpr lane = LaneOf(index, i);
    if (!lane.defined()) return std::nullopt;
    if (i == 0) start = lane;
    const std::optional<int64_t> apart = analyzer.ConstDifference(lane, start);
    if (!apart || std::abs(*apart) >= lanes) return std::nullopt;
    order.push_back(static_cast<int>(*apart));
  }
  const auto [low, high] = std::minmax_element(order.begin(), order.end());
  if (*high - *low + 1 != lanes) return std::nullopt;
  const int first = *low;
  for (int& lane : order) lane -= first;
  return std::pair(analyzer.Simplify(start + tir::make_const(start.dtype(), first)), order);
}

}  // namespace

Value* FunctionCodegen::Index64(const PrimExpr& e) {
  const DataType dtype = e.dtype();
  if (const auto* imm = e.as<IntImmNode>()) return b_.getInt64(static_cast<uint64_t>(imm->value));
  if (auto it = wide_vars_.find(e.get()); it != wide_vars_.end()) return it->second;
  if (dtype.is_int() || dtype.bits() == 64) {
    if (const auto* op = e.as<tir::AddNode>()) {
      Value* a = Index64(op->a);
      return b_.CreateNSWAdd(a, Index64(op->b));
    }
    if (const auto* op = e.as<tir::SubNode>()) {
      Value* a = Index64(op->a);
      return b_.CreateNSWSub(a, Index64(op->b));
    }
    if (const auto* op = e.as<tir::MulNode>()) {
      Value* a = Index64(op->a);
      return b_.CreateNSWMul(a, Index64(op->b));
    }
    if (const auto* op = e.as<tir::CastNode>()) {
      const DataType from = op->value.dtype();
      if (from.is_int() && from.bits() <= dtype.bits()) return Index64(op->value);
    }
  }
  return Convert(VisitExpr(e), dtype, dtype.is_uint() ? DataType::UInt(64) : DataType::Int(64));
}

llvm::Align FunctionCodegen::BufferAlign(const tir::Buffer& buffer) const {
  // Arguments may come from anywhere, so only elements are known to be aligned.
  return llvm::Align(static_cast<uint64_t>(std::max(1, std::min(buffer->dtype.bytes(), 8))));
}

Value* FunctionCodegen::ElementPointer(const tir::Buffer& buffer, const PrimExpr& index) {
  Value* data = VisitExpr(buffer->data);
  Value* offset = Index64(index);
  if (ElementLanes(buffer) > 1)
    offset = b_.CreateNSWMul(offset, b_.getInt64(static_cast<uint64_t>(ElementLanes(buffer))));
  return b_.CreateInBoundsGEP(module_->MemoryType(buffer->dtype.element_of()), data, offset);
}

Value* FunctionCodegen::FromMemory(Value* value, DataType dtype) {
  if (dtype.is_bool()) return b_.CreateICmpNE(value, llvm::Constant::getNullValue(value->getType()));
  if (dtype.is_integral() && dtype.bits() < 8) return b_.CreateTrunc(value, ValueType(dtype));
  return value;
}

Value* FunctionCodegen::ToMemory(Value* value, DataType dtype) {
  if (dtype.bits() >= 8 || dtype.is_handle()) return value;
  llvm::Type* type = module_->MemoryType(dtype);
  return dtype.is_int() ? b_.CreateSExt(value, type) : b_.CreateZExt(value, type);
}

Value* FunctionCodegen::LoadElements(const tir::Buffer& buffer, Value* pointer, int lanes) {
  const DataType dtype = buffer->dtype.with_lanes(lanes);
  return FromMemory(b_.CreateAlignedLoad(module_->MemoryType(dtype), pointer, BufferAlign(buffer)), dtype);
}

void FunctionCodegen::StoreElements(const tir::Buffer& buffer, Value* pointer, Value* value, int lanes) {
  b_.CreateAlignedStore(ToMemory(value, buffer->dtype.with_lanes(lanes)), pointer, BufferAlign(buffer));
}

Value* FunctionCodegen::LanesOf(Value* vector, int first, int count) {
  const auto lanes = llvm::cast<llvm::FixedVectorType>(vector->getType())->getNumElements();
  if (first == 0 && static_cast<unsigned>(count) == lanes) return vector;
  // What is known of some lanes only, as of masks at the end of a row, is seen where the operands are taken apart.
  if (auto* op = llvm::dyn_cast<llvm::BinaryOperator>(vector); op != nullptr && op->isBitwiseLogicOp()) {
    return b_.CreateBinOp(op->getOpcode(), LanesOf(op->getOperand(0), first, count),
                          LanesOf(op->getOperand(1), first, count));
  }
  return b_.CreateShuffleVector(
      vector, llvm::createSequentialMask(static_cast<unsigned>(first), static_cast<unsigned>(count), 0));
}

std::vector<Value*> FunctionCodegen::LaneOffsets(const PrimExpr& index) {
  std::vector<Value*> offsets;
  Value* all = nullptr;
  for (int i = 0; i < index.dtype().lanes(); ++i) {
    PrimExpr lane = LaneOf(index, i);
    if (lane.defined()) {
      offsets.push_back(Index64(lane));
      continue;
    }
    if (all == nullptr) all = VisitExpr(index);
    offsets.push_back(
        Convert(b_.CreateExtractElement(all, static_cast<uint64_t>(i)), index.dtype().element_of(), DataType::Int(64)));
  }
  return offsets;
}

std::function<Value*(int)> FunctionCodegen::LanePointers(const tir::Buffer& buffer, const PrimExpr& index) {
  const auto* ramp = index.as<tir::RampNode>();
  Value* base = ramp ? ElementPointer(buffer, ramp->base) : VisitExpr(buffer->data);
  Value* stride = ramp ? Index64(ramp->stride) : nullptr;
  std::vector<Value*> offsets;
  if (ramp == nullptr) offsets = LaneOffsets(index);
  const auto unit = static_cast<uint64_t>(ElementLanes(buffer));
  llvm::Type* memory = module_->MemoryType(buffer->dtype.element_of());
  return [this, base, stride, offsets, unit, memory](int i) {
    Value* offset = stride != nullptr ? b_.CreateNSWMul(stride, b_.getInt64(static_cast<uint64_t>(i)))
                                      : offsets[static_cast<size_t>(i)];
    if (unit > 1) offset = b_.CreateNSWMul(offset, b_.getInt64(unit));
    return b_.CreateInBoundsGEP(memory, base, offset);
  };
}

namespace {

/// The device whose memory is allocated: the CPU's, unless the function only passes it on.
int DeviceTypeOf(const tir::AllocateNode* op) {
  const auto type = op->annotations.Get(tir::kDeviceType);
  return type ? static_cast<int>(Downcast<IntImm>(*type)->value) : kDLCPU;
}

/// Whether so many elements from `begin` on are a thread's own memory: lanes that are off may be loaded and stored as
/// they are. Other than masked accesses, that lets LLVM keep them in registers.
bool AreOwnElements(const tir::Buffer& buffer, const PrimExpr& begin, int count) {
  const int64_t* first = AsConstInt(begin);
  if (buffer.scope() != "local" || buffer->shape.size() != 1 || first == nullptr || *first < 0) return false;
  const int64_t* elements = AsConstInt(buffer->shape[0]);
  return elements != nullptr && count <= *elements && *first <= *elements - count;
}

}  // namespace

Value* FunctionCodegen::GatherLanes(const tir::BufferLoadNode* op, Value* mask, Value* otherwise) {
  const DataType dtype = op->dtype;
  llvm::Type* element = module_->MemoryType(dtype.element_of());
  PrimExpr index = op->indices[0];
  Value* base = VisitExpr(op->buffer->data);
  // Half as many instructions take indices of 32 bits, beside what all lanes have in common.
  const auto narrow = [](const PrimExpr& e) -> PrimExpr {
    const auto* wide = e.as<tir::CastNode>();
    return wide != nullptr && wide->value.dtype().element_of() == DataType::Int(32) ? wide->value : PrimExpr();
  };
  if (const auto* sum = index.as<tir::AddNode>()) {
    const bool first = sum->a.as<tir::BroadcastNode>() != nullptr;
    const auto* common = (first ? sum->a : sum->b).as<tir::BroadcastNode>();
    const PrimExpr& own = first ? sum->b : sum->a;
    if (common != nullptr && narrow(own).defined()) {
      base = b_.CreateGEP(element, base, Index64(common->value));  // may lie outside
      index = own;
    }
  }
  if (narrow(index).defined()) index = narrow(index);
  Value* pointers = b_.CreateGEP(element, base, VisitExpr(index));
  auto* type = llvm::FixedVectorType::get(element, static_cast<unsigned>(op->dtype.lanes()));
  const llvm::Align align(static_cast<uint64_t>(dtype.bytes()));
  Value* pass = mask == nullptr || otherwise == nullptr ? nullptr : ToMemory(otherwise, dtype);
  return FromMemory(b_.CreateMaskedGather(type, pointers, align, mask, pass), dtype);
}

Value* FunctionCodegen::LoadLanes(const tir::BufferLoadNode* op, Value* mask, Value* otherwise) {
  const tir::Buffer& buffer = op->buffer;
  const PrimExpr& index = op->indices[0];
  const int count = index.dtype().lanes();
  const int unit = ElementLanes(buffer);
  const DataType dtype = op->dtype;
  if (const auto* ramp = index.as<tir::RampNode>(); ramp && tir::is_one(ramp->stride)) {
    Value* pointer = ElementPointer(buffer, ramp->base);
    if (mask == nullptr) return LoadElements(buffer, pointer, count * unit);
    TREADLE_ICHECK(unit == 1) << "masked load of vectors";
    if (AreOwnElements(buffer, ramp->base, count)) {
      return b_.CreateSelect(mask, LoadElements(buffer, pointer, count), otherwise);
    }
    Value* pass = ToMemory(otherwise, dtype);
    return FromMemory(LoadMasked(dtype, pointer, BufferAlign(buffer), mask, pass), dtype);
  }
  if (const auto* ramp = index.as<tir::RampNode>();
      ramp && mask == nullptr && unit == 1 && tir::is_const_int(ramp->stride, -1)) {
    Value* pointer = b_.CreateInBoundsGEP(module_->MemoryType(dtype.element_of()), ElementPointer(buffer, ramp->base),
                                          b_.getInt64(static_cast<uint64_t>(1 - int64_t{count})));
    return b_.CreateVectorReverse(LoadElements(buffer, pointer, count));
  }
  if (const auto* broadcast = index.as<tir::BroadcastNode>(); broadcast && mask == nullptr && unit == 1) {
    return Splat(LoadElements(buffer, ElementPointer(buffer, broadcast->value), 1), count);
  }
  if (mask == nullptr && unit == 1) {
    if (const auto neighbours = NeighboursOf(index)) {
      Value* loaded = LoadElements(buffer, ElementPointer(buffer, neighbours->first), count);
      return b_.CreateShuffleVector(loaded, neighbours->second);
    }
  }
  // Of indices that follow from the loops' LLVM may find more.
  const bool whole = count == module_->features().vector_lanes(32) && dtype.bits() == 32;
  const bool reads = index.as<tir::RampNode>() == nullptr && arith::ReadsData(index);
  if (unit == 1 && whole && reads && module_->HasFastGather()) return GatherLanes(op, mask, otherwise);
  // Element by element; under a mask, lanes that are off read element 0 of the first lane that is on or nothing.
  Value* result = otherwise != nullptr ? otherwise : llvm::PoisonValue::get(ValueType(dtype));
  const std::function<Value*(int)> pointer_of = LanePointers(buffer, index);
  for (int i = 0; i < count; ++i) {
    Value* pointer = pointer_of(i);
    llvm::BasicBlock* end = nullptr;
    llvm::BasicBlock* from = nullptr;
    Value* before = result;
    if (mask != nullptr) {
      auto* then = NewBlock("lane.load");
      end = NewBlock("lane.end");
      from = b_.GetInsertBlock();
      b_.CreateCondBr(b_.CreateExtractElement(mask, static_cast<uint64_t>(i)), then, end);
      b_.SetInsertPoint(then);
    }
    Value* value = LoadElements(buffer, pointer, unit);
    for (int j = 0; j < unit; ++j) {
      Value* lane = unit == 1 ? value : b_.CreateExtractElement(value, static_cast<uint64_t>(j));
      result = b_.CreateInsertElement(result, lane, int64_t{i} * unit + j);
    }
    if (mask != nullptr) {
      auto* then_end = b_.GetInsertBlock();
      b_.CreateBr(end);
      b_.SetInsertPoint(end);
      auto* phi = b_.CreatePHI(result->getType(), 2);
      phi->addIncoming(before, from);
      phi->addIncoming(result, then_end);
      result = phi;
    }
  }
  return result;
}

Value* FunctionCodegen::VisitExpr_(const tir::BufferLoadNode* op) {
  TREADLE_ICHECK(op->indices.size() <= 1) << "buffer " << op->buffer->name << " isn't flattened";
  if (op->indices.empty()) {
    return LoadElements(op->buffer, VisitExpr(op->buffer->data), ElementLanes(op->buffer));
  }
  const PrimExpr& index = op->indices[0];
  if (index.dtype().is_vector()) {
    Value* entries = LoadByBytes(op);
    return entries != nullptr ? entries : LoadLanes(op, nullptr, nullptr);
  }
  return LoadElements(op->buffer, ElementPointer(op->buffer, index), ElementLanes(op->buffer));
}

void FunctionCodegen::StoreLanes(const tir::Buffer& buffer, const PrimExpr& index, Value* value, int lanes,
                                 Value* mask) {
  const int unit = ElementLanes(buffer);
  const int count = index.dtype().lanes();
  TREADLE_ICHECK(lanes == unit * count) << "store of " << lanes << " lanes to " << count << " vectors of " << unit;
  const auto* ramp = index.as<tir::RampNode>();
  if (ramp != nullptr && tir::is_one(ramp->stride)) {
    Value* pointer = ElementPointer(buffer, ramp->base);
    if (mask == nullptr) {
      StoreElements(buffer, pointer, value, lanes);
    } else if (unit == 1 && AreOwnElements(buffer, ramp->base, count)) {
      StoreElements(buffer, pointer, b_.CreateSelect(mask, value, LoadElements(buffer, pointer, count)), lanes);
    } else {
      const DataType dtype = buffer->dtype.with_lanes(lanes);
      StoreMasked(dtype, ToMemory(value, dtype), pointer, BufferAlign(buffer), mask);
    }
    return;
  }
  const std::function<Value*(int)> pointer_of = LanePointers(buffer, index);
  llvm::Type* memory = module_->MemoryType(buffer->dtype.element_of());
  for (int i = 0; i < count; ++i) {
    llvm::BasicBlock* end = nullptr;
    if (mask != nullptr) {
      auto* then = NewBlock("lane.store");
      end = NewBlock("lane.end");
      b_.CreateCondBr(b_.CreateExtractElement(mask, static_cast<uint64_t>(i)), then, end);
      b_.SetInsertPoint(then);
    }
    Value* pointer = pointer_of(i);
    for (int j = 0; j < unit; ++j) {
      Value* lane = b_.CreateExtractElement(value, int64_t{i} * unit + j);
      StoreElements(buffer, b_.CreateInBoundsGEP(memory, pointer, b_.getInt64(static_cast<uint64_t>(j))), lane, 1);
    }
    if (mask != nullptr) {
      b_.CreateBr(end);
      b_.SetInsertPoint(end);
    }
  }
}

void FunctionCodegen::VisitStmt_(const tir::BufferStoreNode* op) {
  TREADLE_ICHECK(op->indices.size() <= 1) << "buffer " << op->buffer->name << " isn't flattened";
  InScope([&] {
    Value* value = VisitExpr(op->value);
    const int lanes = op->value.dtype().lanes();
    if (op->indices.empty()) {
      StoreElements(op->buffer, VisitExpr(op->buffer->data), value, lanes);
    } else if (op->indices[0].dtype().is_vector()) {
      StoreLanes(op->buffer, op->indices[0], value, lanes, nullptr);
    } else {
      StoreElements(op->buffer, ElementPointer(op->buffer, op->indices[0]), value, lanes);
    }
  });
}

std::optional<int64_t> FunctionCodegen::StackBytes(const tir::AllocateNode* op) {
  const tir::Buffer& buffer = op->buffer;
  int64_t bytes = int64_t{std::max(1, buffer->dtype.bytes())} * buffer->dtype.lanes();
  for (const PrimExpr& extent : buffer->shape) {
    const int64_t* n = AsConstInt(extent);
    if (n == nullptr || *n < 0 || __builtin_mul_overflow(bytes, *n, &bytes)) return std::nullopt;
  }
  const int64_t limit = buffer.scope() == "local" ? kMaxLocalBytes : kMaxStackBytes;
  return bytes <= limit && DeviceTypeOf(op) == kDLCPU ? std::optional<int64_t>(bytes) : std::nullopt;
}

void FunctionCodegen::AllocateWorkspace(const tir::AllocateNode* op, Value* is_used) {
  const tir::Buffer& buffer = op->buffer;
  const DataType dtype = buffer->dtype;
  const int device_type = DeviceTypeOf(op);
  Value* device = b_.getInt32(static_cast<uint32_t>(device_type));
  Value* device_id = b_.getInt32(device_type == kDLCPU ? 0 : static_cast<uint32_t>(-1));
  Value* element = b_.getInt64(static_cast<uint64_t>(int64_t{std::max(1, dtype.bytes())} * dtype.lanes()));
  Value* size = element;
  for (const PrimExpr& extent : buffer->shape) size = b_.CreateMul(size, Index64(extent));
  if (is_used != nullptr) size = b_.CreateSelect(is_used, size, element);
  auto* type = llvm::FunctionType::get(b_.getPtrTy(), {Int32(), Int32(), Int64(), Int32(), Int32()}, false);
  Value* pointer = module_->CallRuntime(&b_, "TreadleBackendAllocWorkspace", type,
                                        {device, device_id, size, b_.getInt32(static_cast<uint32_t>(dtype.code())),
                                         b_.getInt32(static_cast<uint32_t>(dtype.bits()))});
  auto* call = llvm::cast<llvm::CallInst>(pointer);
  call->addRetAttr(llvm::Attribute::NoAlias);
  if (device_type == kDLCPU) call->addRetAttr(llvm::Attribute::getWithAlignment(context(), llvm::Align(64)));
  auto* failed = NewBlock("alloc.failed");
  auto* ready = NewBlock("alloc.ready");
  b_.CreateCondBr(b_.CreateIsNull(pointer), failed, ready);
  b_.SetInsertPoint(failed);
  Return(b_.getInt32(static_cast<uint32_t>(-1)));
  b_.SetInsertPoint(ready);
  Bind(buffer->data, pointer);
  workspaces_.push_back({pointer, device, device_id});
}

void FunctionCodegen::FreeWorkspace() {
  const Workspace last = workspaces_.back();
  workspaces_.pop_back();
  if (b_.GetInsertBlock()->getTerminator() != nullptr) return;
  auto* type = llvm::FunctionType::get(Int32(), {Int32(), Int32(), b_.getPtrTy()}, false);
  module_->CallRuntime(&b_, "TreadleBackendFreeWorkspace", type, {last.device, last.device_id, last.pointer});
}

size_t FunctionCodegen::AllocateForAll(const tir::Stmt& body, const tir::Var& var, Value* begin, Value* end) {
  size_t count = 0;
  for (const auto* op = body.as<tir::AllocateNode>(); op != nullptr; op = op->body.as<tir::AllocateNode>()) {
    // Nothing that only an iteration may compute: divisions by sizes that may be 0, data.
    const bool simple = std::all_of(op->buffer->shape.begin(), op->buffer->shape.end(), [&](const PrimExpr& extent) {
      bool plain = true;
      tir::PostOrderVisit(extent, [&](const ObjectRef& e) {
        plain = plain && e.get() != var.get() &&
                (e.as<tir::VarNode>() || e.as<IntImmNode>() || e.as<tir::AddNode>() || e.as<tir::SubNode>() ||
                 e.as<tir::MulNode>() || e.as<tir::MinNode>() || e.as<tir::MaxNode>());
      });
      return plain;
    });
    if (!simple || StackBytes(op)) continue;
    AllocateWorkspace(op, b_.CreateICmpSLT(begin, end));
    allocated_.insert(op);
    ++count;
  }
  return count;
}

void FunctionCodegen::VisitStmt_(const tir::AllocateNode* op) {
  if (allocated_.erase(op) != 0) return StmtBase::VisitStmt(op->body);
  const std::optional<int64_t> bytes = StackBytes(op);
  if (!bytes) {
    AllocateWorkspace(op, nullptr);
    StmtBase::VisitStmt(op->body);
    return FreeWorkspace();
  }
  const tir::Buffer& buffer = op->buffer;
  llvm::Type* memory = module_->MemoryType(buffer->dtype.element_of());
  const int64_t element_bytes = std::max(1, buffer->dtype.bytes());
  llvm::IRBuilder<> entry(&function_->getEntryBlock(), function_->getEntryBlock().begin());
  const int64_t elements = std::max<int64_t>(*bytes / element_bytes, buffer->dtype.lanes());
  auto* slot = entry.CreateAlloca(llvm::ArrayType::get(memory, static_cast<uint64_t>(elements)), nullptr, buffer->name);
  const auto align = static_cast<uint64_t>(std::max(buffer->data_alignment, 1));
  slot->setAlignment(llvm::Align(std::min<uint64_t>(align, 64)));
  Bind(buffer->data, slot);
  StmtBase::VisitStmt(op->body);
}

}  // namespace treadle::targets
