// SPDX-License-Identifier: Apache-2.0
// The run time: libtreadle_myaccel.so, which Treadle loads when a model has modules of type "myaccel". It needs
// Treadle's runtime and no compiler.
#include <treadle/external/region_module.h>
#include <treadle/runtime/plugin.h>

#include <mutex>

#include "program.h"
#include "simulator.h"

namespace myaccel {

using treadle::NDArray;
using treadle::StrCat;
using treadle::external::RegionModule;
using treadle::external::RegionParts;

namespace {

class AcceleratorModule final : public RegionModule {
 public:
  explicit AcceleratorModule(RegionParts parts)
      : RegionModule("myaccel", std::move(parts)), program_(ReadProgram(text())) {
    RegisterDevice();
  }
  ~AcceleratorModule() override {
    for (void* block : idle_) Api()->FreeDataSpace(kDevice, block);
  }

  std::string GetSource(const std::string&) const override { return Listing(program_); }

  void Init(const std::vector<NDArray>& constants) override {
    if (constants.size() != program_.constants.size()) throw treadle::Error("wrong number of constants");
    for (size_t i = 0; i < constants.size(); ++i) {
      if (constants[i].nbytes() != BytesOf(program_.constants[i])) throw treadle::Error("a constant of another size");
    }
    constants_ = constants;
  }

  void Run(const std::vector<const DLTensor*>& args) const override {
    void* block = Take();
    size_t next = 0;
    for (const Place& place : program_.inputs) Copy(Argument(args, next++, place), block, place, /*to_device=*/true);
    Execute(program_.code, block, program_.lines);
    for (const Place& place : program_.outputs) Copy(Argument(args, next++, place), block, place, /*to_device=*/false);
    std::lock_guard<std::mutex> lock(mutex_);
    idle_.push_back(block);
  }

 private:
  static treadle::runtime::DeviceAPI* Api() { return treadle::runtime::DeviceAPI::Get(kDevice); }

  void* Argument(const std::vector<const DLTensor*>& args, size_t i, const Place& place) const {
    return CheckArgument(args, i, place.shape, treadle::DataType::Int(place.wide ? 32 : 8));
  }

  static void Copy(void* host, void* block, const Place& place, bool to_device) {
    const size_t offset = size_t{place.line} * kLineBytes, bytes = static_cast<size_t>(BytesOf(place));
    const auto cpu = treadle::runtime::Cpu();
    if (to_device) {
      Api()->CopyDataFromTo(host, 0, block, offset, bytes, cpu, kDevice, nullptr);
    } else {
      Api()->CopyDataFromTo(block, offset, host, 0, bytes, kDevice, cpu, nullptr);
    }
  }

  /// Memory of the device for one run. Constants are copied when it is new, and stay.
  void* Take() const {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!idle_.empty()) {
        void* block = idle_.back();
        idle_.pop_back();
        return block;
      }
    }
    void* block = Api()->AllocDataSpace(kDevice, size_t{program_.lines} * kLineBytes, kLineBytes);
    for (size_t i = 0; i < constants_.size(); ++i) {
      Copy(constants_[i].data_ptr(), block, program_.constants[i], /*to_device=*/true);
    }
    return block;
  }

  const Program program_;
  std::vector<NDArray> constants_;
  mutable std::mutex mutex_;
  mutable std::vector<void*> idle_;
};

void RegisterRuntime() {
  RegisterDevice();
  treadle::external::RegisterRegionModule<AcceleratorModule>("myaccel");
}

}  // namespace
}  // namespace myaccel

TREADLE_PLUGIN("myaccel", myaccel::RegisterRuntime)
