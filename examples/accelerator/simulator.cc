// SPDX-License-Identifier: Apache-2.0
#include "simulator.h"

#include <treadle/base/error.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace myaccel {

using treadle::RuntimeError;
using treadle::StrCat;
namespace runtime = treadle::runtime;

namespace {

constexpr size_t kMemoryBytes = size_t{64} << 20;

/// The device: 64 MiB that the host doesn't touch but through copies.
class Accelerator final : public runtime::DeviceAPI {
 public:
  runtime::DeviceAttrValue GetAttr(runtime::Device device, runtime::DeviceAttr attr) override {
    if (attr == runtime::DeviceAttr::kExist) return int64_t{device.device_id == 0};
    if (attr == runtime::DeviceAttr::kDeviceName) return std::string("simulated 8-bit accelerator");
    if (attr == runtime::DeviceAttr::kTotalMemory) return static_cast<int64_t>(kMemoryBytes);
    return std::monostate();
  }
  void SetDevice(runtime::Device) override {}
  void* AllocDataSpace(runtime::Device, size_t bytes, size_t alignment) override {
    std::lock_guard<std::mutex> lock(mutex_);
    bytes = std::max<size_t>((bytes + kLineBytes - 1) / kLineBytes, 1) * kLineBytes;
    if (bytes > kMemoryBytes - used_) {
      throw RuntimeError(StrCat("the accelerator has ", kMemoryBytes - used_, " bytes left, not ", bytes));
    }
    auto* block = static_cast<size_t*>(std::aligned_alloc(std::max<size_t>(alignment, kLineBytes), bytes + kLineBytes));
    if (block == nullptr) throw RuntimeError("out of memory");
    *block = bytes;
    used_ += bytes;
    return reinterpret_cast<char*>(block) + kLineBytes;
  }
  void FreeDataSpace(runtime::Device, void* data) override {
    std::lock_guard<std::mutex> lock(mutex_);
    auto* block = reinterpret_cast<size_t*>(static_cast<char*>(data) - kLineBytes);
    used_ -= *block;
    std::free(block);
  }
  void CopyDataFromTo(const void* from, size_t from_offset, void* to, size_t to_offset, size_t bytes, runtime::Device,
                      runtime::Device, runtime::StreamHandle) override {
    std::memcpy(static_cast<char*>(to) + to_offset, static_cast<const char*>(from) + from_offset, bytes);
  }
  void StreamSync(runtime::Device, runtime::StreamHandle) override {}

 private:
  std::mutex mutex_;
  size_t used_ = 0;
};

class Unit {
 public:
  Unit(void* block, size_t lines) : block_(static_cast<char*>(block)), bytes_(lines * kLineBytes) {}

  void Run(const Instruction& i) {
    const size_t size = size_t{i.m} * i.n;
    if (i.op == Op::kDense) return Dense(i);
    if (i.op == Op::kNarrow) {
      auto* out = At<int8_t>(i.dst, size);
      const auto* in = At<int32_t>(i.a, size);
      for (size_t e = 0; e < size; ++e)
        out[e] = static_cast<int8_t>(std::clamp(in[e], i.immediate == 1 ? 0 : -128, 127));
      return;
    }
    auto* out = At<int32_t>(i.dst, size);
    const auto* in = At<int32_t>(i.a, size);
    if (i.op == Op::kAdd) {
      const bool rows = i.immediate == 1;
      const auto* other = At<int32_t>(i.b, rows ? i.n : size);
      // As the hardware: sums wrap around.
      for (size_t e = 0; e < size; ++e) {
        out[e] = static_cast<int32_t>(static_cast<uint32_t>(in[e]) + static_cast<uint32_t>(other[rows ? e % i.n : e]));
      }
    } else if (i.op == Op::kRelu) {
      for (size_t e = 0; e < size; ++e) out[e] = std::max(in[e], 0);
    } else if (i.op == Op::kShift && i.immediate < 32) {
      for (size_t e = 0; e < size; ++e) out[e] = in[e] >> i.immediate;
    } else {
      throw RuntimeError(StrCat("the accelerator has no instruction ", Disassemble(i)));
    }
  }

 private:
  template <typename T>
  T* At(uint32_t line, size_t count) {
    const size_t begin = size_t{line} * kLineBytes;
    if (begin > bytes_ || count > (bytes_ - begin) / sizeof(T)) {
      throw RuntimeError("an instruction reaches beyond the accelerator's memory");
    }
    return reinterpret_cast<T*>(block_ + begin);
  }

  void Dense(const Instruction& i) {
    auto* out = At<int32_t>(i.dst, size_t{i.m} * i.n);
    const auto* a = At<int8_t>(i.a, size_t{i.m} * i.k);
    const auto* b = At<int8_t>(i.b, size_t{i.n} * i.k);
    for (size_t row = 0; row < i.m; ++row) {
      for (size_t column = 0; column < i.n; ++column) {
        int32_t sum = 0;
        for (size_t p = 0; p < i.k; ++p) sum += a[row * i.k + p] * b[column * i.k + p];
        out[row * i.n + column] = sum;
      }
    }
  }

  char* block_;
  size_t bytes_;
};

}  // namespace

void RegisterDevice() {
  static std::once_flag once;
  std::call_once(once, [] { runtime::DeviceAPI::Register(kDevice.device_type, new Accelerator()); });
}

void Execute(const std::vector<uint64_t>& program, void* block, size_t lines) {
  Unit unit(block, lines);
  for (size_t w = 0; w + 1 < program.size(); w += 2) {
    const Instruction instruction = Decode(program[w], program[w + 1]);
    if (instruction.op == Op::kHalt) return;
    unit.Run(instruction);
  }
  throw RuntimeError("a program of the accelerator without an end");
}

}  // namespace myaccel
