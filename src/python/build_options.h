// SPDX-License-Identifier: Apache-2.0
// What Python says about a build.
#pragma once

#include "treadle/driver/compile.h"
#include "treadle/ir/expr.h"

namespace treadle::python {

/// Options of a build in the pass context of the calling thread. `flags`: target (text) or targets (from device types,
/// as text, to texts), target_host, mod_name, executor, external.
driver::CompileOptions BuildOptions(const Map<String, ObjectRef>& flags);

}  // namespace treadle::python
