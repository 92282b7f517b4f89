// SPDX-License-Identifier: Apache-2.0
// Writing shared libraries.
#pragma once

#include <string>
#include <vector>

#include "treadle/driver/compile.h"
#include "treadle/runtime/artifact.h"
#include "treadle/runtime/module.h"
#include "treadle/targets/target_spec.h"

namespace treadle::driver {

/// Links objects and, unless it has no sections, the blob of `writer` into a sealed library at `path`, which appears
/// only when it is complete.
void WriteLibrary(const std::vector<std::string>& objects, runtime::ArtifactWriter* writer, const std::string& path,
                  const targets::LinkOptions& options);

/// Stores parameters that executors find in the library itself when they are given none.
void AddLinkedParams(const runtime::ParamList& params, runtime::ArtifactWriter* writer);

/// Links the objects of an archive that was exported as ".tar", and loads the result. Throws ModelFormatError.
runtime::Module LoadArchive(const std::string& path);

}  // namespace treadle::driver
