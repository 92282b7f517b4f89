// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace treadle::ops {

/// nn.attention and its packed form.
void RegisterAttentionOps();

}  // namespace treadle::ops
