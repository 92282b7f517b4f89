// SPDX-License-Identifier: Apache-2.0
// What was measured of the machine at hand, for cost models (`treadle doctor --calibrate`).
#pragma once

#include <optional>
#include <string>

#include "treadle/ir/target.h"

namespace treadle::targets {

/// Option of the pass context: a calibration as text, for targets of this machine (-mcpu=native); or "none".
inline constexpr const char* kCalibrationOption = "schedule.calibration";
inline constexpr const char* kNoCalibration = "none";

/// Rates of one core per cycle of its clock; 0 is what wasn't measured.
struct Calibration {
  int bits = 0;                 ///< of the vectors
  double multiply_adds = 0;     ///< of vectors, independent ones
  double loads = 0;             ///< of vectors from the L1 cache
  double latency = 0;           ///< cycles of a multiply-add that waits for the one before
  double l2 = 0, l3 = 0;        ///< bytes read from these caches
  double memory = 0;            ///< bytes read from memory
  double other_core = 0;        ///< bytes read that another core wrote last
  double fork_join_cycles = 0;  ///< of a parallel loop on two threads, beside its work
};

/// "bits=512 multiply-adds=1 ..": names and values, which ParseCalibration reads; "bits=0" where nothing was measured.
std::string ToText(const Calibration& calibration);
/// Throws Error where the text has an unknown name, or a value that no machine has.
Calibration ParseCalibration(const std::string& text);

/// Whether the target names the processor that this runs on (-mcpu=native).
bool IsForThisMachine(const Target& target);

/// The current pass context's, where `target` is for the machine at hand.
std::optional<Calibration> CalibrationFor(const Target& target);

}  // namespace treadle::targets
