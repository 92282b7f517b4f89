// SPDX-License-Identifier: Apache-2.0
// Layout rules of convolutions, by file.
#pragma once

namespace treadle::ops {

/// The rule of nn.conv2d_transpose.
void RegisterConvTransposeLayoutRule();

}  // namespace treadle::ops
