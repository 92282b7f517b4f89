// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "treadle/te/schedule.h"

namespace treadle::te {

/// The operation with the tensors that it reads mapped; the same object where nothing changes.
Operation WithReplacedInputs(const Operation& op, const std::function<Tensor(const Tensor&)>& map);

/// A new stage at the root, its axes those of the operation.
Stage MakeStage(const Operation& op, bool is_output);
/// Puts `stage` before or after `next_to`.
void InsertStage(TeScheduleNode* schedule, const Stage& stage, const Stage& next_to, bool after);
/// `hint`, with ".d" added until no stage has that name.
std::string UniqueName(const TeScheduleNode* schedule, const std::string& hint);
/// After some stages' operations changed, rebuilds those downstream so that all refer to current operations.
/// `redirect` maps a tensor of an old operation to what the reader shall read now.
void Propagate(TeScheduleNode* schedule, const std::function<Tensor(const Tensor&, const Operation& reader)>& redirect);

}  // namespace treadle::te
