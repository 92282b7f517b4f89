// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/machine_costs.h"

#include <algorithm>
#include <string>

#include "targets/cpu/calibration.h"
#include "targets/cpu/fitted_costs.h"
#include "targets/cpu/machine.h"
#include "targets/cpu/machine_models.h"

namespace treadle::ops::cpu {

using schedule::Machine;

namespace {

/// What a core of the machine reads per cycle, and an empty parallel loop costs there, that the costs of bytes and of
/// threads in treadle/schedule/machine.h were fitted on: those costs are what isn't hidden by computing meanwhile, and
/// on other machines they are in proportion. Published and, by MeasureCalibration, measured.
constexpr double kFittedL2Published = 32;
constexpr targets::Calibration kFitted{.l2 = 31, .l3 = 27, .memory = 5, .other_core = 6.3, .fork_join_cycles = 5000};

/// Registers of the tiles of code that is soon replaced. Compiling takes time in proportion to unrolled code; tiles of
/// about eight sums hide the latency of multiply-adds, too, and are hardly slower.
constexpr int kShortUseRegisters = 12;

/// A cost for each byte, where bytes come at another rate than on the machine that it was fitted on.
void Scale(double fitted_rate, double rate, double* cycles_per_byte) {
  if (rate > 0) *cycles_per_byte *= fitted_rate / rate;
}

void ApplyModel(const targets::MachineModel& model, Machine* machine) {
  machine->costs_of = model.name;
  // Of narrower vectors, as many as two units start.
  const bool narrow = machine->vector_bits < model.bits;
  machine->fma_cycles = Fitted().fma_over_peak / (narrow ? std::max(2.0, model.multiply_adds) : model.multiply_adds);
  machine->pair_dot_cycles = model.pair_dots == 0 ? machine->fma_cycles : Fitted().fma_over_peak / model.pair_dots;
  machine->load_cycles = Fitted().load_over_peak / (narrow ? std::max(2.0, model.loads) : model.loads);
  machine->fma_latency_cycles = Fitted().latency_over_peak * model.latency;
  Scale(kFittedL2Published, model.l2_bytes, &machine->l2_cycles_per_byte);
  Scale(kFitted.l3, model.l3_bytes, &machine->beyond_l2_cycles_per_byte);
  if (model.memory_bytes > 0) machine->memory_cycles_per_byte = 1 / model.memory_bytes;
}

void ApplyCalibration(const targets::Calibration& c, Machine* machine) {
  machine->costs_of = "calibration";
  if (c.bits == machine->vector_bits) {
    if (c.multiply_adds > 0) {
      const double fma_cycles = Fitted().fma_over_peak / c.multiply_adds;
      machine->pair_dot_cycles *= fma_cycles / machine->fma_cycles;
      machine->fma_cycles = fma_cycles;
    }
    if (c.loads > 0) machine->load_cycles = Fitted().load_over_peak / c.loads;
    if (c.latency > 0) machine->fma_latency_cycles = Fitted().latency_over_peak * c.latency;
  }
  // Measured, in place of what the model says.
  if (c.l2 > 0) machine->l2_cycles_per_byte = Machine().l2_cycles_per_byte;
  if (c.l3 > 0) machine->beyond_l2_cycles_per_byte = Machine().beyond_l2_cycles_per_byte;
  Scale(kFitted.l2, c.l2, &machine->l2_cycles_per_byte);
  Scale(kFitted.l3, c.l3, &machine->beyond_l2_cycles_per_byte);
  Scale(kFitted.memory, c.memory, &machine->weight_cycles_per_byte);
  if (c.memory > 0) machine->memory_cycles_per_byte = 1 / c.memory;
  Scale(kFitted.other_core, c.other_core, &machine->coherence_cycles_per_byte);
  if (c.fork_join_cycles > 0) machine->fork_join_cycles *= c.fork_join_cycles / kFitted.fork_join_cycles;
}

}  // namespace

schedule::Machine MachineOf(const Target& target) {
  Machine machine;
  static_cast<TargetFeatures&>(machine) = target->Features();
  // Intel's manual: a product of tiles starts every 16 cycles.
  constexpr double kTile = 16;
  const targets::TileInstructions tiles = targets::TilesOf(*target.get());
  if (tiles.bytes) machine.byte_tile_cycles = kTile;
  if (tiles.pairs) machine.pair_tile_cycles = kTile;
  if (const auto* model = targets::FindMachineModel(targets::ProcessorOf(*target.get()))) ApplyModel(*model, &machine);
  if (const auto calibration = targets::CalibrationFor(target)) ApplyCalibration(*calibration, &machine);
  if (targets::IsForShortUse(*target.get()))
    machine.vector_registers = std::min(machine.vector_registers, kShortUseRegisters);
  return machine;
}

schedule::Machine GenericMachine() {
  Machine machine;
  machine.vector_bits = 256;
  machine.vector_registers = 16;
  return machine;
}

}  // namespace treadle::ops::cpu
