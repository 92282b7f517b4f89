// SPDX-License-Identifier: Apache-2.0
// The executors that the runtime itself provides, each in a folder of its own; model.cc lists them.
#pragma once

#include <memory>

#include "treadle/runtime/model.h"

namespace treadle::runtime {

/// As ExecutorLoader.
std::shared_ptr<const Executable> LoadGraphExecutable(const Module& library, const Module& root,
                                                      const Manifest& manifest);
std::shared_ptr<const Executable> LoadVmExecutable(const Module& library, const Module& root, const Manifest& manifest);

}  // namespace treadle::runtime
