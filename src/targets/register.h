// SPDX-License-Identifier: Apache-2.0
// One function per backend, each called by RegisterAllBackends.
#pragma once

namespace treadle::targets {

void RegisterCBackend();
void RegisterLLVMBackend();
void RegisterNullBackend();
void RegisterOpenCLBackend();
void RegisterStackVMBackend();

}  // namespace treadle::targets
