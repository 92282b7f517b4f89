// SPDX-License-Identifier: Apache-2.0
// What a function expects of its arguments, as data that TreadleBackendUnpackArguments reads: checks that are written
// out are more code than many kernels, and take a third of the time of compiling these.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "treadle/tir/function.h"

namespace treadle::tir {

struct ArgumentTable {
  std::vector<int64_t> numbers;  ///< as TreadleBackendUnpackArguments takes it
  std::string names;             ///< the function's and those of its tensors, a line each
};

/// The variable and the m of a size that is a variable times m, m at least 1; null where it is anything else.
std::pair<const VarNode*, int64_t> MultipleOfVar(const PrimExpr& size);

/// Nothing where checks have to be written out: expressions as dimensions, strides, offsets, types of users' own, other
/// devices than the CPU. Data pointers and scalars are in the order of MakePackedApi's.
std::optional<ArgumentTable> DescribeArguments(const PrimFunc& func);

}  // namespace treadle::tir
