// SPDX-License-Identifier: Apache-2.0
// What a compiled model remembers of how it was made.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "treadle/driver/compile.h"

namespace treadle::driver {

/// Fills source_hash and provenance of model->manifest. `source`: the file's name, or "" for what was compiled from
/// memory; `bytes`: what is in it; `weight_bytes`: of the model's weights as they were imported.
void AddProvenance(const std::string& source, std::string_view bytes, int64_t weight_bytes,
                   const CompileOptions& options, CompiledModel* model);

}  // namespace treadle::driver
