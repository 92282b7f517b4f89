// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/machine_costs.h"

#include <algorithm>
#include <string>
#include <vector>

#include "targets/cpu/machine.h"

namespace treadle::ops::cpu {

using schedule::Machine;

namespace {

/// Instructions that a core can start per cycle, of vectors of `bits`. Measured with bench/fma_peak.cc where it says
/// so, else from the makers' guides. Costs of bytes and of threads (treadle/schedule/machine.h) are those of Zen 3,
/// fitted with bench/layers.py, bench/memory_bandwidth.cc and bench/fork_join.cc, until somebody measures another.
struct Row {
  const char* name;
  std::vector<std::string> cpus;  ///< of -mcpu
  int bits;
  double multiply_adds, loads;  ///< per cycle; loads from the L1 cache
  double latency;               ///< of a multiply-add, cycles
};

const std::vector<Row>& Rows() {
  static const std::vector<Row> rows = {
      // Measured on Zen 3.
      {"zen3", {"x86-64-v3", "znver2", "znver3"}, 256, 2, 2, 4},
      // From the published peak of Zen 4, whose registers of 512 bits go through units of 256 bits; not fitted.
      {"zen4", {"znver4"}, 512, 1, 1, 4},
      // Intel, "64 and IA-32 Architectures Optimization Reference Manual": two units, two loads; before Skylake a
      // multiply-add takes 5 cycles.
      {"skylake-avx512",
       {"x86-64-v4", "skylake-avx512", "cascadelake", "cooperlake", "icelake-server", "sapphirerapids", "emeraldrapids",
        "graniterapids"},
       512,
       2,
       2,
       4},
      {"haswell", {"haswell", "broadwell"}, 256, 2, 2, 5},
      {"skylake", {"skylake", "icelake-client", "alderlake", "raptorlake"}, 256, 2, 2, 4},
      // Arm, "Neoverse N1, N2, V1, V2 Core Software Optimization Guide", with vectors of 128 bits.
      {"neoverse-n1", {"neoverse-n1", "cortex-a76", "cortex-a77", "cortex-a78"}, 128, 2, 2, 4},
      {"neoverse-n2", {"neoverse-n2", "cortex-a710"}, 128, 2, 3, 4},
      {"neoverse-v2", {"neoverse-v1", "neoverse-v2"}, 128, 4, 3, 4},
  };
  return rows;
}

const Row* FindRow(const std::string& cpu) {
  for (const Row& row : Rows()) {
    if (std::find(row.cpus.begin(), row.cpus.end(), cpu) != row.cpus.end()) return &row;
  }
  return nullptr;
}

}  // namespace

schedule::Machine MachineOf(const Target& target) {
  // Loops reach so much less than the peak: what surrounds multiply-adds and loads takes its share.
  constexpr double kFma = 1.04, kLoad = 1.2, kLatency = 1.2;
  Machine machine;
  static_cast<TargetFeatures&>(machine) = target->Features();
  // Intel's manual: a product of tiles starts every 16 cycles.
  constexpr double kTile = 16;
  const targets::TileInstructions tiles = targets::TilesOf(*target.get());
  if (tiles.bytes) machine.byte_tile_cycles = kTile;
  if (tiles.pairs) machine.pair_tile_cycles = kTile;
  const Row* row = FindRow(target->GetAttr("mcpu", "native"));
  if (row == nullptr) return machine;
  machine.costs_of = row->name;
  // Of narrower vectors, as many as two units start.
  const bool narrow = machine.vector_bits < row->bits;
  machine.fma_cycles = kFma / (narrow ? std::max(2.0, row->multiply_adds) : row->multiply_adds);
  machine.load_cycles = kLoad / (narrow ? std::max(2.0, row->loads) : row->loads);
  machine.fma_latency_cycles = kLatency * row->latency;
  return machine;
}

schedule::Machine GenericMachine() {
  Machine machine;
  machine.vector_bits = 256;
  machine.vector_registers = 16;
  return machine;
}

}  // namespace treadle::ops::cpu
