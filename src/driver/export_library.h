// SPDX-License-Identifier: Apache-2.0
// Writing shared libraries.
#pragma once

#include <string>
#include <vector>

#include "treadle/ir/target.h"
#include "treadle/runtime/artifact.h"

namespace treadle::driver {

/// Links objects and, unless it has no sections, the blob of `writer` into a sealed library at `path`, which appears
/// only when it is complete.
void WriteLibrary(const std::vector<std::string>& objects, const runtime::ArtifactWriter* writer,
                  const std::string& path, const Target& target);

}  // namespace treadle::driver
