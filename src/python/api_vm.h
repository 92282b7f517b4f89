// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace treadle::python {

/// Functions that compile and run programs of the virtual machine.
void RegisterVmApi();

}  // namespace treadle::python
