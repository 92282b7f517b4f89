// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace treadle::ops {

/// check_values, which stops a model whose indices or sizes break a rule.
void RegisterCheckOps();

}  // namespace treadle::ops
