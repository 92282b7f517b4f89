// SPDX-License-Identifier: Apache-2.0
// As precompiled_std.h, for what stands on the runtime alone: the command line and plug-ins.
#include <chrono>
#include <filesystem>
#include <sstream>

#include "precompiled_std.h"
#include "treadle/base/error.h"
#include "treadle/base/json.h"
#include "treadle/base/text.h"
#include "treadle/runtime/graph_executor.h"
#include "treadle/runtime/module.h"
#include "treadle/runtime/ndarray.h"
#include "treadle/runtime/packed_func.h"
