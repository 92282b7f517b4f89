// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/machine_models.h"

#include <algorithm>

namespace treadle::targets {
namespace {

constexpr const char* kIntel = "Intel 64 and IA-32 Architectures Optimization Reference Manual, chapter 2";
constexpr const char* kAmd17 = "AMD, Software Optimization Guide for Family 17h Processors, chapter 2";
constexpr const char* kAmd19 = "AMD, Software Optimization Guide for Family 19h Processors, chapter 2";
constexpr const char* kAmdZen5 = "AMD, Software Optimization Guide for the Zen 5 Microarchitecture, chapter 2";
constexpr const char* kNeoverse = "Arm, Neoverse Core Software Optimization Guide: ASIMD FP multiply accumulate, load";
constexpr const char* kCortex = "Arm, Cortex Core Software Optimization Guide: ASIMD FP multiply accumulate, load";

}  // namespace

const std::vector<MachineModel>& MachineModels() {
  static const std::vector<MachineModel> models = {
      // ---- AMD ----
      // Vectors of 256 bits are two halves.
      {"zen1", {"znver1"}, 256, 1, 1, 5, 32, kAmd17},
      {"zen2", {"znver2"}, 256, 2, 2, 5, 32, kAmd17},
      // Of its three loads a cycle two may be of 256 bits.
      {"zen3", {"x86-64-v3", "znver3"}, 256, 2, 2, 4, 32, kAmd19, 5.7},
      // Vectors of 512 bits pass units of 256 bits twice.
      {"zen4", {"znver4"}, 512, 1, 1, 4, 32, kAmd19},
      {"zen5", {"znver5"}, 512, 2, 2, 4, 64, kAmdZen5},
      // ---- Intel ----
      {"haswell", {"haswell", "core-avx2", "broadwell"}, 256, 2, 2, 5, 64, kIntel},
      {"skylake", {"skylake"}, 256, 2, 2, 4, 64, kIntel},
      {"skylake-avx512", {"x86-64-v4", "skylake-avx512", "skx", "cascadelake", "cooperlake"}, 512, 2, 2, 4, 64, kIntel},
      // One unit of 512 bits.
      {"icelake-client", {"cannonlake", "icelake-client", "rocketlake", "tigerlake"}, 512, 1, 2, 4, 64, kIntel},
      {"icelake-server", {"icelake-server"}, 512, 2, 2, 4, 64, kIntel},
      // Its vdpbf16ps is four operations, one start in two cycles: half as many products as by multiply-adds. Measured,
      // and in LLVM's scheduling model.
      {"sapphirerapids",
       {"sapphirerapids", "emeraldrapids", "graniterapids", "graniterapids-d"},
       512,
       2,
       2,
       4,
       64,
       kIntel,
       0,
       0.5,
       9.8},
      // Of the performance cores.
      {"alderlake",
       {"alderlake", "raptorlake", "meteorlake", "arrowlake", "arrowlake-s", "lunarlake", "pantherlake"},
       256,
       2,
       3,
       4,
       64,
       kIntel},
      // The efficiency cores: units of 128 bits.
      {"gracemont", {"gracemont", "sierraforest", "grandridge"}, 256, 1, 1, 6, 64, kIntel},
      // ---- Arm ----
      // One product follows another into the same sum before the first is done.
      {"neoverse-n1", {"neoverse-n1"}, 128, 2, 2, 2, 0, kNeoverse},
      {"neoverse-n2", {"neoverse-n2", "neoverse-n3"}, 128, 2, 3, 2, 0, kNeoverse},
      {"neoverse-v1", {"neoverse-v1"}, 128, 4, 3, 2, 0, kNeoverse},
      {"neoverse-v2", {"neoverse-v2", "neoverse-v3", "grace"}, 128, 4, 3, 2, 0, kNeoverse},
      // Two units of 64 bits, in order.
      {"cortex-a55", {"cortex-a55"}, 128, 1, 0.5, 4, 0, kCortex},
      {"cortex-a76", {"cortex-a76", "cortex-a77", "cortex-a78", "cortex-a78c"}, 128, 2, 2, 2, 0, kCortex},
      {"cortex-a710", {"cortex-a710", "cortex-a715", "cortex-a720"}, 128, 2, 3, 2, 0, kCortex},
  };
  return models;
}

const MachineModel* FindMachineModel(const std::string& cpu) {
  std::string known = cpu;
  std::replace(known.begin(), known.end(), '_', '-');  // LLVM takes both
  for (const MachineModel& model : MachineModels()) {
    if (std::find(model.cpus.begin(), model.cpus.end(), known) != model.cpus.end()) return &model;
  }
  return nullptr;
}

}  // namespace treadle::targets
