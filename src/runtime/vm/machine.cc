// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/vm/machine.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <typeinfo>

#include "runtime/guarded_memory.h"
#include "runtime/vm/kernel_profile.h"
#include "runtime/vm/shape_plans.h"
#include "runtime/vm/tensor_pool.h"
#include "treadle/base/checked_math.h"
#include "treadle/base/error.h"
#include "treadle/base/stack_guard.h"
#include "treadle/runtime/last_error.h"
#include "treadle/runtime/run_limits.h"
#include "treadle/runtime/thread_pool.h"

namespace treadle::runtime::vm {
namespace {

/// A tensor with room for further rows behind it. Who appends first takes the room.
class GrowingTensorNode final : public NDArrayNode {
 public:
  mutable int64_t room = 0;  ///< bytes behind the last row
  TREADLE_NODE(GrowingTensorNode, NDArrayNode, "runtime.vm.GrowingTensor")
};

constexpr size_t kMaxStackBytes = size_t{4} << 30;

/// "node 'Tile#3' (Tile): " of an instruction that was made for a node, "" of others.
std::string PlaceOf(const Program& program, const Function& function, size_t at) {
  int32_t text = -1;
  for (const Origin& origin : function.origins) {
    if (origin.begin <= at) text = origin.text;
  }
  return text < 0 ? std::string() : program.strings[static_cast<size_t>(text)] + ": ";
}

/// Whether errors of an instruction tell the node themselves, or are of what it calls.
bool TellsPlace(Opcode op) {
  switch (op) {
    case Opcode::kFatal:
    case Opcode::kKernel:
    case Opcode::kCheckEqual:
    case Opcode::kRank:
    case Opcode::kInvoke:
    case Opcode::kApply:
    case Opcode::kTailInvoke:
    case Opcode::kTailApply:
    case Opcode::kJump:
      return true;
    default:
      return false;
  }
}

/// Throws the error that is handled again, with the place before its text; as it is where its class isn't one of these.
[[noreturn]] void ThrowAt(const std::string& place, const Error& error) {
  if (place.empty()) throw;
  const std::string text = place + error.what();
  if (typeid(error) == typeid(Error)) throw Error(text, error.code());
  if (typeid(error) == typeid(ShapeError)) throw ShapeError(text);
  if (typeid(error) == typeid(DTypeError)) throw DTypeError(text);
  if (typeid(error) == typeid(RuntimeError)) throw RuntimeError(text);
  throw;
}

/// Programs know types of devices: the first one of the type is meant.
Device FirstOf(int64_t device_type) { return {static_cast<DLDeviceType>(device_type), 0}; }

int64_t ReadElement(const NDArrayNode* tensor, int64_t index) {
  DataType dtype(tensor->tensor.dtype);
  const char* data = static_cast<const char*>(tensor->tensor.data) + tensor->tensor.byte_offset;
  auto read = [&](auto sample) {
    decltype(sample) value;
    std::memcpy(&value, data + index * static_cast<int64_t>(sizeof(value)), sizeof(value));
    return static_cast<int64_t>(value);
  };
  if (dtype.is_bool() || dtype == DataType(kDLBool, 8)) return read(uint8_t{}) != 0 ? 1 : 0;
  if (dtype.is_int()) {
    return dtype.bits() == 64   ? read(int64_t{})
           : dtype.bits() == 32 ? read(int32_t{})
           : dtype.bits() == 16 ? read(int16_t{})
                                : read(int8_t{});
  }
  if (dtype.is_uint()) {
    return dtype.bits() == 64   ? read(uint64_t{})
           : dtype.bits() == 32 ? read(uint32_t{})
           : dtype.bits() == 16 ? read(uint16_t{})
                                : read(uint8_t{});
  }
  if (dtype == DataType::Float(32)) {
    float v;
    std::memcpy(&v, data + index * 4, 4);
    // As casts do: saturating, and 0 for NaN.
    return std::isnan(v) ? 0 : static_cast<int64_t>(std::clamp(static_cast<double>(v), -9e18, 9e18));
  }
  throw DTypeError(StrCat("a number is read from a tensor of type ", dtype));
}

void WriteElement(char* data, DataType dtype, int64_t index, int64_t value) {
  auto write = [&](auto v) { std::memcpy(data + index * static_cast<int64_t>(sizeof(v)), &v, sizeof(v)); };
  if (dtype.is_bool()) return write(static_cast<uint8_t>(value != 0));
  switch (dtype.is_integral() ? dtype.bits() : 0) {
    case 8:
      return write(static_cast<int8_t>(value));
    case 16:
      return write(static_cast<int16_t>(value));
    case 32:
      return write(static_cast<int32_t>(value));
    case 64:
      return write(value);
    default:
      throw DTypeError(StrCat("integers in a tensor of type ", dtype));
  }
}

int64_t Wrapped(IntOp op, int64_t x, int64_t y) {
  auto a = static_cast<uint64_t>(x), b = static_cast<uint64_t>(y);
  switch (op) {
    case IntOp::kAdd:
      return static_cast<int64_t>(a + b);
    case IntOp::kSub:
      return static_cast<int64_t>(a - b);
    default:
      return static_cast<int64_t>(a * b);
  }
}

int64_t Divide(IntOp op, int64_t a, int64_t b) {
  if (b == 0) throw Error("a size is divided by zero");
  bool mod = op == IntOp::kFloorMod || op == IntOp::kTruncMod;
  if (b == -1) return mod ? 0 : Wrapped(IntOp::kSub, 0, a);
  int64_t quotient = a / b, rest = a % b;
  bool down = (op == IntOp::kFloorDiv || op == IntOp::kFloorMod) && rest != 0 && (rest < 0) != (b < 0);
  if (mod) return down ? rest + b : rest;
  return down ? quotient - 1 : quotient;
}

int64_t Evaluate(IntOp op, int64_t a, int64_t b) {
  switch (op) {
    case IntOp::kAdd:
    case IntOp::kSub:
    case IntOp::kMul:
      return Wrapped(op, a, b);
    case IntOp::kFloorDiv:
    case IntOp::kFloorMod:
    case IntOp::kTruncDiv:
    case IntOp::kTruncMod:
      return Divide(op, a, b);
    case IntOp::kMin:
      return std::min(a, b);
    case IntOp::kMax:
      return std::max(a, b);
    case IntOp::kEQ:
      return a == b ? 1 : 0;
    case IntOp::kNE:
      return a != b ? 1 : 0;
    case IntOp::kLT:
      return a < b ? 1 : 0;
    case IntOp::kLE:
      return a <= b ? 1 : 0;
    case IntOp::kAnd:
      return a != 0 && b != 0 ? 1 : 0;
    case IntOp::kOr:
      return a != 0 || b != 0 ? 1 : 0;
  }
  return 0;
}

}  // namespace

VmModel::VmModel(Program program, Module library, std::vector<NDArray> constants)
    : program_(std::move(program)), library_(std::move(library)), constants_(std::move(constants)) {
  program_.num_constants = static_cast<uint32_t>(constants_.size());
  program_.Verify("vm program");
  for (const KernelDecl& decl : program_.kernels) {
    Kernel kernel;
    if (library_.defined()) kernel.packed = library_.GetFunction(decl.name, true);
    if (!kernel.packed)
      throw ModelFormatError(StrCat("kernel \"", decl.name, "\" isn't in the library or in what it imports"));
    kernel.function = kernel.packed->c_func();
    kernel.resource = kernel.packed->c_resource();
    kernels_.push_back(std::move(kernel));
  }
  PlaceConstants();
  host_functions_.resize(program_.strings.size(), nullptr);
  for (const Function& function : program_.functions) {
    for (const Instruction& i : function.code) {
      if (i.op != Opcode::kCallHost) continue;
      const auto name = static_cast<size_t>(i.imm);
      host_functions_[name] = FindHostFunction(program_.strings[name]);
      if (host_functions_[name] == nullptr) {
        throw ModelFormatError(StrCat("the program calls ", StrCat("\"", program_.strings[name], "\""),
                                      ", which this runtime doesn't have"));
      }
    }
  }
}

void VmModel::PlaceConstants() {
  for (const Function& function : program_.functions) {
    for (const Instruction& i : function.code) {
      if (i.op != Opcode::kLoadConst || i.b == kOnCpu) continue;
      auto [it, inserted] = placed_.emplace(std::pair(i.imm, i.b), NDArray());
      if (inserted) it->second = constants_[static_cast<size_t>(i.imm)].Copy(FirstOf(i.b));
    }
  }
}

VirtualMachine::VirtualMachine(std::shared_ptr<const VmModel> model)
    : model_(std::move(model)), pool_(std::make_shared<TensorPool>()), plans_(std::make_unique<ShapePlans>()) {}
VirtualMachine::~VirtualMachine() = default;

int64_t VirtualMachine::PoolBytes() const { return pool_->bytes(); }

void VirtualMachine::SetThreads(int threads) {
  if (threads < 0 || threads > 4096) throw Error(StrCat("number of threads must be from 0 to 4096, got ", threads));
  threads_ = threads;
}

void VirtualMachine::StartProfile(bool stop_at_nan) { profile_ = std::make_unique<KernelProfile>(stop_at_nan); }

std::vector<OpTiming> VirtualMachine::TakeProfile(const std::vector<NDArray>& inputs,
                                                  const std::vector<NDArray>& outputs) {
  const std::unique_ptr<KernelProfile> profile = std::move(profile_);
  return profile == nullptr ? std::vector<OpTiming>() : profile->Timings(model_->program(), inputs, outputs);
}

void VirtualMachine::Fail(const std::string& problem) const {
  throw RuntimeError(StrCat("VM function ", frames_.empty() ? "" : frames_.back().function->name, ": ", problem));
}

template <typename T>
const T* VirtualMachine::ObjectAt(int64_t index, const char* what) const {
  const ObjectRef& value = r_[index];
  if (!value.defined() || !value->IsInstance<T>()) {
    Fail(StrCat("register r", index, " isn't ", what, " but ", value.defined() ? value->type_key() : "empty"));
  }
  return static_cast<const T*>(value.get());
}

const NDArrayNode* VirtualMachine::TensorAt(int64_t index) const { return ObjectAt<NDArrayNode>(index, "a tensor"); }

const NDArrayNode* VirtualMachine::HostTensorAt(int64_t index) const {
  const NDArrayNode* tensor = TensorAt(index);
  if (tensor->tensor.device.device_type != kDLCPU) {
    Fail(StrCat("the tensor in register r", index, " is on ", DeviceName(tensor->tensor.device),
                "; its elements are read on the CPU"));
  }
  return tensor;
}

std::vector<int64_t> VirtualMachine::ShapeOf(const Instruction& i) const {
  const uint32_t* operands = frames_.back().function->operands.data() + i.args_begin;
  std::vector<int64_t> shape(i.num_args);
  for (uint32_t k = 0; k < i.num_args; ++k) shape[k] = i_[operands[k]];
  return shape;
}

NDArray VirtualMachine::Alloc(const std::vector<int64_t>& shape, DataType dtype, int32_t device_type) {
  int64_t bytes = TensorBytes(shape, dtype);
  if (limits_.tensor_bytes > 0 && bytes > limits_.tensor_bytes) {
    throw RuntimeError(StrCat("a tensor of shape ", ShapeString(shape), " needs ", bytes, " bytes; the limit is ",
                              limits_.tensor_bytes));
  }
  if (device_type != kOnCpu) return NDArray::Empty(shape, dtype, FirstOf(device_type));
  std::shared_ptr<void> storage = memory_ != nullptr ? memory_->Take(bytes) : pool_->Take(bytes);
  void* data = storage.get();
  NDArray made = NDArray::View(data, shape, dtype, Cpu(), std::move(storage));
  if (profile_ != nullptr) profile_->AddMemory(made->tensor);
  return made;
}

NDArray VirtualMachine::AppendRow(ObjectRef& acc_ref, const NDArray& row) {
  const auto* acc = static_cast<const NDArrayNode*>(acc_ref.get());
  if (acc->shape.empty()) Fail("rows are appended to a scalar");
  if (DataType(acc->tensor.dtype) != row.dtype()) throw DTypeError("a row of another type is appended to a tensor");
  int64_t rows = acc->shape[0];
  if (rows > 0 && !std::equal(acc->shape.begin() + 1, acc->shape.end(), row.shape().begin(), row.shape().end())) {
    throw ShapeError(StrCat("rows that are collected have different shapes: ", ShapeString(acc->shape),
                            " and a further ", ShapeString(row.shape())));
  }
  std::vector<int64_t> shape = row.shape();
  shape.insert(shape.begin(), rows + 1);
  int64_t bytes = TensorBytes(shape, row.dtype());
  int64_t row_bytes = row.nbytes(), old_bytes = row_bytes * rows;
  auto grown = MakeObject<GrowingTensorNode>();
  const auto* growing = acc_ref->IsInstance<GrowingTensorNode>() ? static_cast<const GrowingTensorNode*>(acc) : nullptr;
  if (growing != nullptr && growing->room >= row_bytes) {
    grown->storage = acc->storage;
    grown->room = std::exchange(growing->room, 0) - row_bytes;
  } else {
    int64_t capacity = std::max<int64_t>(bytes, std::min<int64_t>(2 * bytes, bytes + (int64_t{1} << 28)));
    grown->storage = pool_->Take(capacity);
    grown->room = capacity - bytes;
    if (old_bytes > 0)
      std::memcpy(grown->storage.get(), static_cast<char*>(acc->tensor.data) + acc->tensor.byte_offset,
                  static_cast<size_t>(old_bytes));
  }
  grown->shape = std::move(shape);
  grown->tensor = row.dl_tensor();
  grown->tensor.data = grown->storage.get();
  grown->tensor.byte_offset = 0;
  grown->tensor.strides = nullptr;
  grown->tensor.ndim = static_cast<int32_t>(grown->shape.size());
  grown->tensor.shape = grown->shape.data();
  if (row_bytes > 0)
    std::memcpy(static_cast<char*>(grown->tensor.data) + old_bytes, row.data_ptr(), static_cast<size_t>(row_bytes));
  return NDArray(ObjectPtr<Object>(std::move(grown)));
}

void VirtualMachine::Push(uint32_t index, int32_t dst) {
  const Function& function = model_->program_.functions[index];
  if (limits_.call_depth > 0 && static_cast<int64_t>(frames_.size()) >= limits_.call_depth) {
    throw RuntimeError(StrCat("calls are nested more than ", limits_.call_depth, " deep, in function ", function.name,
                              ": endless recursion, or raise the limit call_depth"));
  }
  size_t registers = 0, ints = 0;
  if (!frames_.empty()) {
    const Frame& top = frames_.back();
    registers = top.registers + top.function->num_registers;
    ints = top.ints + top.function->num_ints;
  }
  frames_.push_back({&function, 0, registers, ints, dst});
  Enter(function, registers, ints);
}

/// Makes room for the registers of the frame on top, and puts the arguments into them.
void VirtualMachine::Enter(const Function& function, size_t registers, size_t ints) {
  size_t wanted = registers + function.num_registers, wanted_ints = ints + function.num_ints;
  if (wanted * sizeof(ObjectRef) + wanted_ints * sizeof(int64_t) > kMaxStackBytes) {
    throw RuntimeError(StrCat("the VM's stack is full, in function ", function.name, ": endless recursion?"));
  }
  if (registers_.size() < wanted) registers_.resize(std::max(wanted, registers_.size() * 2));
  if (ints_.size() < wanted_ints) ints_.resize(std::max(wanted_ints, ints_.size() * 2));
  r_ = registers_.data() + registers;
  i_ = ints_.data() + ints;
  if (call_args_.size() != function.params.size()) {
    Fail(StrCat("function ", function.name, " takes ", function.params.size(), " arguments, got ", call_args_.size()));
  }
  for (size_t k = 0; k < call_args_.size(); ++k) r_[k] = std::move(call_args_[k]);
  call_args_.clear();
  std::copy(function.int_constants.begin(), function.int_constants.end(), i_);
}

void VirtualMachine::Call(const Instruction& i, bool tail) {
  const uint32_t* operands = frames_.back().function->operands.data() + i.args_begin;
  call_args_.clear();
  uint32_t callee = 0;
  if (i.op == Opcode::kApply || i.op == Opcode::kTailApply) {
    const auto* closure = ObjectAt<VmClosureNode>(i.a, "a function");
    callee = closure->function;
    call_args_ = closure->captured;
  } else {
    callee = static_cast<uint32_t>(i.imm);
  }
  for (uint32_t k = 0; k < i.num_args; ++k) call_args_.push_back(r_[operands[k]]);
  if (!tail) return Push(callee, i.dst);
  Frame& frame = frames_.back();
  for (uint32_t k = 0; k < frame.function->num_registers; ++k) r_[k] = ObjectRef();
  frame.function = &model_->program_.functions[callee];
  frame.pc = 0;
  Enter(*frame.function, frame.registers, frame.ints);
}

namespace {

/// Where the tensors of a result lie; null for what isn't a tensor.
std::vector<const void*> DataOf(const ObjectRef& result) {
  const auto data = [](const ObjectRef& value) -> const void* {
    const auto* tensor = value.as<NDArrayNode>();
    return tensor == nullptr ? nullptr : static_cast<const char*>(tensor->tensor.data) + tensor->tensor.byte_offset;
  };
  const auto* tuple = result.as<AdtValueNode>();
  if (tuple == nullptr) return {data(result)};
  std::vector<const void*> places;
  for (const ObjectRef& field : tuple->fields) places.push_back(data(field));
  return places;
}

/// The elements of a tensor from its first on, in another shape.
NDArray ViewOf(const NDArrayNode* tensor, const std::vector<int64_t>& shape) {
  return NDArray::View(static_cast<char*>(tensor->tensor.data) + tensor->tensor.byte_offset, shape,
                       DataType(tensor->tensor.dtype), tensor->tensor.device, tensor->storage, tensor->read_only);
}

}  // namespace

ObjectRef VirtualMachine::Invoke(uint32_t function, std::vector<ObjectRef> args) {
  const SoleUser::Use use(&user_);
  if (function >= model_->program_.functions.size()) throw Error(StrCat("the program has no function ", function));
  const Function& f = model_->program_.functions[function];
  if (args.size() != f.params.size()) {
    throw Error(StrCat("function ", f.name, " takes ", f.params.size(), " arguments, got ", args.size()));
  }
  RunScope scope(threads_);
  // Arguments that aren't tensors have no shape that a plan could be kept for.
  ShapePlans::Key key{function};
  bool only_tensors = true;
  for (const ObjectRef& arg : args) {
    const auto* tensor = arg.as<NDArrayNode>();
    only_tensors = only_tensors && tensor != nullptr;
    if (!only_tensors) break;
    key.push_back(static_cast<int64_t>(tensor->shape.size()));
    key.insert(key.end(), tensor->shape.begin(), tensor->shape.end());
  }
  const bool plans = only_tensors && !GuardsMemory();
  memory_ = plans ? std::make_shared<RunMemory>(pool_, plans_->Find(key), bound_) : nullptr;
  auto clear = [this] {
    memory_ = nullptr;
    frames_.clear();
    call_args_.clear();
    for (ObjectRef& value : registers_) value = ObjectRef();
    // What a deep recursion took isn't kept.
    if (registers_.size() > 4096) {
      std::vector<ObjectRef>().swap(registers_);
      std::vector<int64_t>().swap(ints_);
    }
    r_ = nullptr;
    i_ = nullptr;
    strings_.Clear();
  };
  try {
    call_args_ = std::move(args);
    Push(function, -1);
    Loop(1);
  } catch (...) {
    clear();
    throw;
  }
  ObjectRef result = std::move(result_);
  result_ = ObjectRef();
  std::shared_ptr<RunMemory> memory = memory_;
  clear();
  if (memory != nullptr && !memory->is_planned()) plans_->Add(std::move(key), memory->MakePlan(DataOf(result)));
  return result;
}

void VirtualMachine::Return(const Instruction& i, size_t base) {
  const Frame& frame = frames_.back();
  ObjectRef value = std::move(r_[i.a]);
  for (uint32_t k = 0; k < frame.function->num_registers; ++k) r_[k] = ObjectRef();
  int32_t dst = frame.dst;
  frames_.pop_back();
  if (frames_.size() < base) {
    result_ = std::move(value);
    return;
  }
  r_ = registers_.data() + frames_.back().registers;
  i_ = ints_.data() + frames_.back().ints;
  r_[dst] = std::move(value);
}

void VirtualMachine::Loop(size_t base) {
  try {
    Execute(base);
  } catch (const Error& error) {
    if (frames_.empty()) throw;
    const Frame& frame = frames_.back();
    const size_t at = frame.pc - 1;
    if (frame.pc == 0 || TellsPlace(frame.function->code[at].op)) throw;
    ThrowAt(PlaceOf(model_->program_, *frame.function, at), error);
  }
}

void VirtualMachine::Execute(size_t base) {
  int64_t executed = 0;
  const RunLimitScope* ends = RunLimitScope::Current();
  while (frames_.size() >= base) {
    Frame& frame = frames_.back();
    const Instruction& i = frame.function->code[frame.pc++];
    if (limits_.instructions > 0 && ++executed > limits_.instructions) {
      Fail(StrCat("more than ", limits_.instructions,
                  " instructions: endless recursion, or raise the limit instructions"));
    }
    switch (i.op) {
      case Opcode::kMove:
        r_[i.dst] = r_[i.a];
        break;
      case Opcode::kReturn:
        Return(i, base);
        break;
      case Opcode::kInvoke:
      case Opcode::kApply:
      case Opcode::kTailInvoke:
      case Opcode::kTailApply:
        if (ends != nullptr) ends->Check();
        Call(i, i.op == Opcode::kTailInvoke || i.op == Opcode::kTailApply);
        break;
      case Opcode::kKernel:
        if (ends != nullptr) ends->Check();
        profile_ == nullptr ? RunKernel(i) : ProfileKernel(i);
        break;
      case Opcode::kJump:
        if (ends != nullptr) ends->Check();
        frame.pc = static_cast<size_t>(i.imm);
        break;
      case Opcode::kJumpIfZero:
        if (i_[i.a] == 0) frame.pc = static_cast<size_t>(i.imm);
        break;
      case Opcode::kIntOp:
        i_[i.dst] = Evaluate(static_cast<IntOp>(i.imm), i_[i.a], i_[i.b]);
        break;
      case Opcode::kSelect:
        i_[i.dst] = i_[i.a] != 0 ? i_[i.b] : i_[i.imm];
        break;
      case Opcode::kCheckEqual:
        if (i_[i.a] != i_[i.b]) {
          throw ShapeError(
              StrCat(model_->program_.strings[static_cast<size_t>(i.imm)], ": ", i_[i.a], " and ", i_[i.b]));
        }
        break;
      case Opcode::kFatal:
        throw Error(model_->program_.strings[static_cast<size_t>(i.imm)]);
      case Opcode::kKill:
        r_[i.a] = ObjectRef();
        break;
      case Opcode::kLoadConst:
      case Opcode::kAllocTensor:
      case Opcode::kReadInt:
      case Opcode::kDimOf:
      case Opcode::kReshape:
      case Opcode::kMakeInts:
      case Opcode::kAppend:
      case Opcode::kTakeRows:
      case Opcode::kRank:
      case Opcode::kDeviceCopy:
        ExecuteTensor(i);
        break;
      default:
        ExecuteData(i);
        break;
    }
  }
}

ObjectRef VirtualMachine::OnDevice(const NDArrayNode* tensor, int64_t device_type) {
  if (tensor->tensor.device.device_type == device_type) return GetRef<NDArray>(tensor);
  NDArray copy = Alloc(tensor->shape, DataType(tensor->tensor.dtype),
                       device_type == kDLCPU ? kOnCpu : static_cast<int32_t>(device_type));
  copy.CopyFrom(tensor->tensor);
  if (profile_ != nullptr) profile_->AddCopy(tensor->tensor, tensor->tensor, copy->tensor);
  return copy;
}

ObjectRef VirtualMachine::OnDevice(const ObjectRef& value, int64_t device_type) {
  if (const auto* tensor = value.as<NDArrayNode>()) return OnDevice(tensor, device_type);
  const auto* data = value.as<AdtValueNode>();
  if (data == nullptr) return value;
  std::vector<ObjectRef> fields;
  bool same = true;
  // A list is as deep as it is long.
  for (const ObjectRef& field : data->fields) {
    fields.push_back(WithEnoughStack([&] { return OnDevice(field, device_type); }));
    same = same && fields.back().same_as(field);
  }
  return same ? value : AdtValue(data->tag, std::move(fields));
}

void VirtualMachine::ExecuteTensor(const Instruction& i) {
  switch (i.op) {
    case Opcode::kLoadConst:
      r_[i.dst] = i.b == kOnCpu ? model_->constants_[static_cast<size_t>(i.imm)] : model_->placed_.at({i.imm, i.b});
      break;
    case Opcode::kDeviceCopy:
      r_[i.dst] = r_[i.a].as<AdtValueNode>() != nullptr ? OnDevice(r_[i.a], i.imm) : OnDevice(TensorAt(i.a), i.imm);
      break;
    case Opcode::kAllocTensor:
      r_[i.dst] = Alloc(ShapeOf(i), UnpackDType(i.imm), i.b);
      break;
    case Opcode::kReadInt: {
      const NDArrayNode* tensor = HostTensorAt(i.a);
      if (i.imm >= NumElements(tensor->shape))
        Fail(StrCat("element ", i.imm, " of a tensor ", ShapeString(tensor->shape)));
      i_[i.dst] = ReadElement(tensor, i.imm);
      break;
    }
    case Opcode::kDimOf: {
      const NDArrayNode* tensor = TensorAt(i.a);
      if (static_cast<size_t>(i.imm) >= tensor->shape.size()) {
        throw ShapeError(StrCat("dimension ", i.imm, " of a tensor ", ShapeString(tensor->shape)));
      }
      i_[i.dst] = tensor->shape[static_cast<size_t>(i.imm)];
      break;
    }
    case Opcode::kReshape: {
      const NDArrayNode* tensor = TensorAt(i.a);
      std::vector<int64_t> shape = ShapeOf(i);
      if (NumElements(shape) != NumElements(tensor->shape)) {
        throw ShapeError(StrCat("a tensor ", ShapeString(tensor->shape), " can't have the shape ", ShapeString(shape)));
      }
      r_[i.dst] = ViewOf(tensor, shape);
      break;
    }
    case Opcode::kMakeInts: {
      std::vector<int64_t> values = ShapeOf(i);
      DataType dtype = UnpackDType(i.imm);
      NDArray tensor = Alloc(i.b == 0 ? std::vector<int64_t>{} : std::vector<int64_t>{i.num_args}, dtype);
      for (size_t k = 0; k < values.size(); ++k)
        WriteElement(tensor.Data<char>(), dtype, static_cast<int64_t>(k), values[k]);
      r_[i.dst] = tensor;
      break;
    }
    case Opcode::kAppend: {
      HostTensorAt(i.a);
      HostTensorAt(i.b);
      const ObjectRef before = profile_ == nullptr ? ObjectRef() : r_[i.a];
      const NDArray row(ObjectPtr<Object>(const_cast<Object*>(r_[i.b].get())));
      const NDArray grown = AppendRow(r_[i.a], row);
      if (profile_ != nullptr)
        profile_->AddCopy(static_cast<const NDArrayNode*>(before.get())->tensor, row->tensor, grown->tensor);
      r_[i.dst] = grown;
      break;
    }
    case Opcode::kTakeRows: {
      const NDArrayNode* tensor = TensorAt(i.a);
      std::vector<int64_t> shape = tensor->shape;
      int64_t rows = i_[i.b];
      if (shape.empty() || rows < 0 || rows > shape[0]) Fail(StrCat(rows, " rows of a tensor ", ShapeString(shape)));
      shape[0] = rows;
      r_[i.dst] = ViewOf(tensor, shape);
      break;
    }
    default: {
      const NDArrayNode* tensor = TensorAt(i.a);
      if (static_cast<int64_t>(tensor->shape.size()) != i.imm) {
        throw ShapeError(StrCat(model_->program_.strings[static_cast<size_t>(i.b)], ": expected rank ", i.imm,
                                ", got a tensor ", ShapeString(tensor->shape)));
      }
      break;
    }
  }
}

void VirtualMachine::ExecuteData(const Instruction& i) {
  const uint32_t* operands = frames_.back().function->operands.data() + i.args_begin;
  auto take = [&] {
    std::vector<ObjectRef> fields(i.num_args);
    for (uint32_t k = 0; k < i.num_args; ++k) fields[k] = r_[operands[k]];
    return fields;
  };
  switch (i.op) {
    case Opcode::kAllocData:
      r_[i.dst] = AdtValue(i.imm, take());
      break;
    case Opcode::kGetField: {
      const auto* data = ObjectAt<AdtValueNode>(i.a, "a tuple or data");
      if (static_cast<size_t>(i.imm) >= data->fields.size()) Fail(StrCat("field ", i.imm, " of ", data->fields.size()));
      r_[i.dst] = ObjectRef(data->fields[static_cast<size_t>(i.imm)]);
      break;
    }
    case Opcode::kGetTag:
      i_[i.dst] = ObjectAt<AdtValueNode>(i.a, "data")->tag;
      break;
    case Opcode::kMakeClosure:
      r_[i.dst] = VmClosure(static_cast<uint32_t>(i.imm), take());
      break;
    case Opcode::kRefNew:
      r_[i.dst] = RefValue(r_[i.a]);
      break;
    case Opcode::kRefRead:
      r_[i.dst] = ObjectRef(ObjectAt<RefValueNode>(i.a, "a reference")->value);
      break;
    case Opcode::kRefWrite:
      ObjectAt<RefValueNode>(i.a, "a reference")->value = r_[i.b];
      break;
    case Opcode::kCallHost:
      CallHost(i);
      break;
    default:
      Fail("unknown instruction");
  }
}

void VirtualMachine::CallHost(const Instruction& i) {
  const uint32_t* operands = frames_.back().function->operands.data() + i.args_begin;
  std::vector<ObjectRef> args(i.num_args);
  for (uint32_t k = 0; k < i.num_args; ++k) {
    args[k] = r_[operands[k]];
    if (args[k].as<NDArrayNode>() != nullptr) HostTensorAt(operands[k]);
  }
  HostRun run{strings_, [this](const std::vector<int64_t>& shape, DataType dtype) { return Alloc(shape, dtype); }};
  r_[i.dst] = model_->host_functions_[static_cast<size_t>(i.imm)](run, args);
}

void VirtualMachine::RunKernel(const Instruction& i) {
  const KernelDecl& decl = model_->program_.kernels[static_cast<size_t>(i.imm)];
  const VmModel::Kernel& kernel = model_->kernels_[static_cast<size_t>(i.imm)];
  const uint32_t* operands = frames_.back().function->operands.data() + i.args_begin;
  if (values_.size() < i.num_args) {
    values_.resize(i.num_args);
    codes_.resize(i.num_args);
  }
  // Results without elements take no time, whatever their other dimensions are.
  bool empty = true;
  for (uint32_t k = 0; k < decl.tensors; ++k) {
    const DLTensor& tensor = TensorAt(operands[k])->tensor;
    values_[k].v_handle = const_cast<DLTensor*>(&tensor);
    codes_[k] = kTreadleDLTensor;
    if (k + decl.outputs >= decl.tensors) empty = empty && std::count(tensor.shape, tensor.shape + tensor.ndim, 0) > 0;
  }
  if (empty && decl.outputs > 0) return;
  for (uint32_t k = decl.tensors; k < i.num_args; ++k) {
    values_[k].v_int64 = i_[operands[k]];
    codes_[k] = kTreadleInt;
  }
  if (kernel.function != nullptr) {
    TreadleValue ret;
    int ret_code = kTreadleNull;
    const uint64_t errors = LastErrorCount();
    const int status =
        kernel.function(values_.data(), codes_.data(), static_cast<int>(i.num_args), &ret, &ret_code, kernel.resource);
    if (status != 0) ThrowErrorOf(decl.name, status, errors);
    return;
  }
  RetValue ret;
  kernel.packed.CallPacked(Args(values_.data(), codes_.data(), static_cast<int>(i.num_args)), &ret);
}

void VirtualMachine::ProfileKernel(const Instruction& i) {
  const auto kernel = static_cast<size_t>(i.imm);
  const KernelDecl& decl = model_->program_.kernels[kernel];
  const uint32_t* operands = frames_.back().function->operands.data() + i.args_begin;
  const Device device = decl.tensors == 0 ? Cpu() : TensorAt(operands[decl.tensors - 1])->tensor.device;
  profile_->Begin(kernel, i.b, &i);
  RunKernel(i);
  if (device.device_type != kDLCPU) DeviceAPI::Get(device)->StreamSync(device, nullptr);
  profile_->End();
  for (uint32_t k = 0; k < decl.tensors; ++k) profile_->AddTensor(TensorAt(operands[k])->tensor);
  if (!profile_->stop_at_nan()) return;
  for (uint32_t k = decl.tensors - decl.outputs; k < decl.tensors; ++k) {
    const NDArrayNode* tensor = TensorAt(operands[k]);
    if (DataType(tensor->tensor.dtype) != DataType::Float(32)) continue;
    const NDArray value(ObjectPtr<Object>(const_cast<NDArrayNode*>(tensor)));
    const NDArray here = device.device_type == kDLCPU ? value : value.Copy();
    const auto* data = here.Data<float>();
    for (int64_t e = 0, n = here.size(); e < n; ++e) {
      if (data[e] == data[e]) continue;
      throw VerifyError(
          StrCat("a result of ", decl.name, " has a NaN; arguments: ", profile_->LastShapes(model_->program_)));
    }
  }
}

}  // namespace treadle::runtime::vm
