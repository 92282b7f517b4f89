// SPDX-License-Identifier: Apache-2.0
// What is known of a model and a measured run of it, which the sections of its page are made from.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "treadle/runtime/graph_executor.h"
#include "treadle/runtime/model.h"

namespace treadle::report {

/// How far a value is from a reference's.
struct LayerError {
  std::string name;    ///< of the value
  double largest = 0;  ///< absolute difference
  double snr = 0;      ///< signal-to-noise ratio in dB; 999 without difference
};

struct ModelRun {
  std::string title;
  runtime::Model model;
  std::vector<runtime::OpTiming> timings;                            ///< of each call, in the order of the run
  double seconds = 0;                                                ///< a run's, without measuring its calls
  int threads = 0;                                                   ///< that it used; 0: all
  std::string choices;                                               ///< what `--dump kernels` says, or ""
  std::vector<LayerError> layers;                                    ///< in the model's order; empty: not compared
  std::vector<std::pair<std::string, std::string>> facts;            ///< further ones
  std::vector<std::pair<std::string, std::vector<double>>> engines;  ///< seconds of runs by engine, for `bench`
};

/// A cache or memory.
struct MemoryLevel {
  std::string name;
  double capacity = 0;  ///< bytes for what all threads use; of memory: infinity
  double speed = 0;     ///< bytes read per second
};

/// What the machine can do, measured (peaks.h).
struct Peaks {
  double flops = 0;                 ///< float32, per second, of all threads in use; 0: not known
  double byte_rate = 1;             ///< multiply-adds of bytes for each of float32
  double pair_rate = 1;             ///< the same of 16-bit numbers
  std::vector<MemoryLevel> levels;  ///< smallest first, memory last; empty: not known
  bool known() const { return flops > 0 && !levels.empty(); }
  /// Bytes per second of a call that touches so many: of the smallest level that holds them.
  double SpeedFor(double bytes) const;
  /// Seconds that a call takes at least: its kernel's multiply-adds, with numbers as narrow as its operands, and its
  /// operands and results; 0: not known.
  double LeastSeconds(const runtime::OpTiming& call) const;
};

/// One call of a kernel.
struct Operation {
  std::string name, kernel, origin, shapes, compiler;
  std::string choice;      ///< the algorithm, such as conv2d.winograd; "": not chosen among several
  std::string candidates;  ///< lines about the algorithms to choose from
  double seconds = 0, macs = 0, bytes = 0;
  bool counted = true;    ///< whether `macs` is known
  double attainable = 0;  ///< seconds that the roofline allows; 0: not known
  /// The first of the model's nodes, and how many more; the call's name where they aren't known.
  std::string label() const;
};

/// Bytes of the tensors of "float32 (1, 3), int8 (3,) -> float32 (1,)": what a call reads and writes at least.
double BytesOf(const std::string& shapes);

/// The calls of a run, joined with what `choices` says. Peaks that aren't known leave `attainable` 0.
std::vector<Operation> Operations(const ModelRun& run, const Peaks& peaks);

}  // namespace treadle::report
