// SPDX-License-Identifier: Apache-2.0
// What cost models ask about a machine: the features of the target, and costs in cycles of one core. Values here are of
// a machine that nothing is known of, fitted on Zen 3 (bench/fit_costs.py, bench/fork_join.cc); those of a model or a
// calibration take their place, or scale them (targets/cpu/machine_costs.cc).
#pragma once

#include <string>

#include "treadle/ir/target.h"

namespace treadle::schedule {

struct Machine : TargetFeatures {
  /// The row of the table of machines (targets/cpu/machine_costs.cc) that the costs are from.
  std::string costs_of = "generic";

  // ---- One core's pipelines ----
  double fma_cycles = 0.52;         ///< of a multiply-add of one vector register, where many are independent
  double pair_dot_cycles = 0.52;    ///< of a sum of products of two bfloat16 each, of one vector register
  double load_cycles = 0.6;         ///< of a load from the L1 cache into a vector register, or a broadcast
  double fma_latency_cycles = 4.8;  ///< until the result of a multiply-add can be added to

  double byte_tile_cycles = 0;  ///< of a product of tiles of bytes (treadle/tir/tile_ops.h); 0: it has none
  double pair_tile_cycles = 0;  ///< the same of bfloat16
  double tile_load_cycles = 8;  ///< of a tile register from the L1 cache

  // ---- Bytes, as far as their transfer isn't hidden by what is computed meanwhile ----
  double l2_cycles_per_byte = 0.004;         ///< stored to or loaded from the L2 cache
  double beyond_l2_cycles_per_byte = 0.023;  ///< of activations from the L3 cache or memory
  double weight_cycles_per_byte = 0.06;      ///< of weights when they are first used: from memory
  double memory_cycles_per_byte = 0;         ///< of one that comes from memory, hidden or not; 0: not known
  double coherence_cycles_per_byte = 0.4;    ///< written by another core, or fetched again to be overwritten

  // ---- Threads ----
  double fork_join_cycles = 5000;  ///< of beginning and ending a parallel loop
};

}  // namespace treadle::schedule
