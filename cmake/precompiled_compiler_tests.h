// SPDX-License-Identifier: Apache-2.0
// For the tests of all folders but base, runtime and cli.
#include "precompiled_compiler.h"
#include "precompiled_tests.h"
