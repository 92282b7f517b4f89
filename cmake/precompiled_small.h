// SPDX-License-Identifier: Apache-2.0
// As precompiled_std.h, for base and the runtime: what is compiled for size.
#include "precompiled_std.h"
#include "treadle/base/error.h"
#include "treadle/base/text.h"
#include "treadle/runtime/module.h"
#include "treadle/runtime/ndarray.h"
#include "treadle/runtime/object.h"
#include "treadle/runtime/packed_func.h"
