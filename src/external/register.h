// SPDX-License-Identifier: Apache-2.0
// One function per external code generator of this build.
#pragma once

namespace treadle::external {

void RegisterCCodegen();
void RegisterJsonCodegen();
void RegisterCblasCodegen();
void RegisterDnnlCodegen();

}  // namespace treadle::external
