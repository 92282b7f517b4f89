// SPDX-License-Identifier: Apache-2.0
// What profiled runs measured, as tables.
#pragma once

#include <string>
#include <vector>

#include "treadle/base/json.h"
#include "treadle/runtime/model.h"

namespace treadle::cli {

/// Rows of a table of times: calls of one name, most expensive first.
struct ProfileRow {
  std::string name;      ///< of the call, the kernel or the compiler
  std::string function;  ///< the kernel's; empty where rows are compilers
  std::string origin;    ///< the model's nodes that the call computes, where that is known
  std::string shapes;    ///< of the only call; empty for several
  size_t calls = 0;      ///< of one run
  double seconds = 0;    ///< of one run
  double macs = 0;       ///< multiply-adds as defined
  double bound = 0;      ///< seconds that its calls take at least; 0: not known
};

/// What rows stand for.
enum class ProfileBy { kCall, kKernel, kCompiler };

/// The median over runs of each call's time. Every run has the same calls unless the model has control flow; of runs
/// that differ the last one counts.
std::vector<runtime::OpTiming> MedianOfRuns(const std::vector<std::vector<runtime::OpTiming>>& runs);

/// `bounds`: seconds that each call takes at least, or nothing.
std::vector<ProfileRow> MakeProfile(const std::vector<runtime::OpTiming>& timings, ProfileBy by,
                                    const std::vector<double>& bounds = {});
/// The first `top` rows (0: all), for a terminal; the last line is the sum. Bounds are a column where one is known.
std::string ToText(const std::vector<ProfileRow>& rows, size_t top);
/// A header and all rows: name,function,nodes,calls,ms,percent,gflops,shapes,bound_ms (RFC 4180).
std::string ToCsv(const std::vector<ProfileRow>& rows);
Json ToJson(const std::vector<ProfileRow>& rows);

}  // namespace treadle::cli
