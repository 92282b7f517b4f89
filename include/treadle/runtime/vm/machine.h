// SPDX-License-Identifier: Apache-2.0
// Runs programs of the virtual machine. A VmModel is immutable and shared; each VirtualMachine runs it for one thread
// at a time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "treadle/runtime/model.h"
#include "treadle/runtime/module.h"
#include "treadle/runtime/ndarray.h"
#include "treadle/runtime/sole_user.h"
#include "treadle/runtime/vm/host.h"
#include "treadle/runtime/vm/program.h"
#include "treadle/runtime/vm/values.h"

namespace treadle::runtime::vm {

/// A program with its kernels found and its constants in place.
class VmModel {
 public:
  /// `library` and what it imports hold the kernels. Throws ModelFormatError when one is missing, RuntimeError when a
  /// device that the program uses isn't in this process. Constants that it reads elsewhere than on the CPU are copied
  /// there, once.
  VmModel(Program program, Module library, std::vector<NDArray> constants);
  const Program& program() const { return program_; }
  const std::vector<NDArray>& constants() const { return constants_; }

 private:
  friend class VirtualMachine;
  struct Kernel {
    TreadlePackedCFunc function = nullptr;  ///< null: call `packed`
    void* resource = nullptr;
    PackedFunc packed;
  };
  Program program_;
  Module library_;
  void PlaceConstants();

  std::vector<NDArray> constants_;
  std::map<std::pair<int64_t, int32_t>, NDArray> placed_;  ///< constants by number and device type
  std::vector<Kernel> kernels_;
  std::vector<HostFunction> host_functions_;  ///< by string; null where the string isn't the name of one
};

/// Bounds on what a program may use; 0: none. Going beyond one is an Error that names it.
struct VmLimits {
  int64_t call_depth = 1000000;             ///< calls that haven't returned
  int64_t instructions = 0;                 ///< of one invocation
  int64_t tensor_bytes = int64_t{1} << 48;  ///< of one tensor
};

/// Memory of tensors that are dropped is kept for the next ones, up to a bound.
class TensorPool;
class ShapePlans;
class KernelProfile;
class RunMemory;

class VirtualMachine {
 public:
  explicit VirtualMachine(std::shared_ptr<const VmModel> model);
  ~VirtualMachine();

  const VmModel& model() const { return *model_; }
  /// Calls a function of the program. Throws Error where the arguments' number or kinds don't fit.
  ObjectRef Invoke(uint32_t function, std::vector<ObjectRef> args);
  ObjectRef InvokeEntry(std::vector<ObjectRef> args) { return Invoke(model_->program().entry, std::move(args)); }
  void SetThreads(int threads);
  /// Where results of later runs are made, by their index, when the run is as an earlier one of the same shapes was;
  /// null tensors: anywhere. A run may write there whatever it makes of it.
  void BindResults(std::vector<NDArray> places) { bound_ = std::move(places); }
  void SetLimits(const VmLimits& limits) { limits_ = limits; }
  /// From now on the time of each kernel is noted; with `stop_at_nan` a float32 result with a NaN ends the run.
  void StartProfile(bool stop_at_nan);
  /// Ends it and gives what was noted; empty where nothing is noted. `inputs` and `outputs` are those of the run;
  /// without them, the report omits the bytes that calls read and write.
  std::vector<OpTiming> TakeProfile(const std::vector<NDArray>& inputs = {}, const std::vector<NDArray>& outputs = {});
  /// Bytes that the pool holds: in use and free.
  int64_t PoolBytes() const;

 private:
  struct Frame {
    const Function* function;
    size_t pc;
    size_t registers, ints;  ///< where its registers start
    int32_t dst;             ///< of the caller
  };

  void Push(uint32_t function, int32_t dst);
  void Enter(const Function& function, size_t registers, size_t ints);
  void Call(const Instruction& i, bool tail);
  /// Runs until the frames from `base` on are left; errors tell the node of the model.
  void Loop(size_t base);
  void Execute(size_t base);
  /// Leaves the innermost frame; where that was frame `base`, its value is the result.
  void Return(const Instruction& i, size_t base);
  void RunKernel(const Instruction& i);
  void ProfileKernel(const Instruction& i);
  NDArray Alloc(const std::vector<int64_t>& shape, DataType dtype, int32_t device_type = kOnCpu);
  /// The tensor on the device; of data, such as a list, its tensors.
  ObjectRef OnDevice(const NDArrayNode* tensor, int64_t device_type);
  ObjectRef OnDevice(const ObjectRef& value, int64_t device_type);
  NDArray AppendRow(ObjectRef& acc, const NDArray& row);
  const NDArrayNode* TensorAt(int64_t index) const;
  /// As TensorAt; fails for tensors that aren't on the CPU, whose elements the machine can't reach.
  const NDArrayNode* HostTensorAt(int64_t index) const;
  template <typename T>
  const T* ObjectAt(int64_t index, const char* what) const;
  std::vector<int64_t> ShapeOf(const Instruction& i) const;
  [[noreturn]] void Fail(const std::string& problem) const;
  void ExecuteTensor(const Instruction& i);
  void ExecuteData(const Instruction& i);
  void CallHost(const Instruction& i);

  std::shared_ptr<const VmModel> model_;
  std::shared_ptr<TensorPool> pool_;
  std::unique_ptr<ShapePlans> plans_;
  std::shared_ptr<RunMemory> memory_;  ///< of the run in progress
  std::vector<NDArray> bound_;
  VmLimits limits_;
  SoleUser user_;
  int threads_ = 0;
  std::vector<Frame> frames_;
  std::vector<ObjectRef> registers_;
  std::vector<int64_t> ints_;
  ObjectRef* r_ = nullptr;  ///< registers of the running frame
  int64_t* i_ = nullptr;
  ObjectRef result_;
  std::vector<ObjectRef> call_args_;
  std::vector<TreadleValue> values_;
  std::vector<int> codes_;
  StringTable strings_;  ///< of the run in progress
  std::unique_ptr<KernelProfile> profile_;
};

/// The program that a library carries. Throws ModelFormatError where there is none.
std::shared_ptr<const VmModel> LoadVmModel(const std::string& path);

/// Executor "vm" of Model: a program whose entry takes the manifest's inputs and gives its outputs (several: a tuple).
std::shared_ptr<const Executable> MakeVmExecutable(std::shared_ptr<const VmModel> model, const Manifest& manifest);

}  // namespace treadle::runtime::vm
