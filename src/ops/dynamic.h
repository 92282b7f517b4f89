// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace treadle::ops {

/// What operators whose shape is an operand compute, and their shapes; after they are registered.
void RegisterDynamicComputes();
void RegisterNmsOps();
void RegisterDynamicAxisOps();
void RegisterHostOps();
void RegisterSampleOps();

}  // namespace treadle::ops
