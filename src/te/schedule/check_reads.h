// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "treadle/te/tensor.h"

namespace treadle::te {

/// Throws ScheduleError that names stage, tensor, index and both ranges where one of `operations` certainly reads
/// outside a tensor: an index that is linear in the axes, without a condition before it, leaves the dimension for some
/// values of the axes. `operations` stand before those that read them; `outputs` are computed whole. Of what only the
/// updates of a scan read, steps that are given aren't computed.
void CheckReads(const std::vector<Operation>& operations, const Array<Operation>& outputs);

}  // namespace treadle::te
