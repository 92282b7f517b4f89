// SPDX-License-Identifier: Apache-2.0
// The pass context that a build runs in.
#pragma once

#include "treadle/driver/compile.h"
#include "treadle/ir/target.h"

namespace treadle::driver {

/// Level, passes and options of `options`, read from text as the types that they look like.
transform::PassContext MakeContext(const CompileOptions& options);

/// `context` with the plans (schedule.plans) that records have for the target: of the file that option
/// schedule.records names, else of environment variable TREADLE_RECORDS. Plans that are given as such come first.
/// Without records, `context` itself. Throws ModelFormatError where the file can't be read.
transform::PassContext WithRecords(const transform::PassContext& context, const Target& target);

/// `context` for a target whose code is soon replaced (-opt-level=0 or 1): without Winograd's method, whose kernels and
/// weights take longer to make than all else of a model. What `context` says of it counts.
transform::PassContext ForShortUse(const transform::PassContext& context, const Target& target);

}  // namespace treadle::driver
