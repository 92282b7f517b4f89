// SPDX-License-Identifier: Apache-2.0
// Values of programs as the virtual machine has them, and as the interpreter and Python have them.
#pragma once

#include "treadle/driver/interpreter.h"
#include "treadle/ir/module.h"

namespace treadle::driver {

/// A value of the interpreter for the virtual machine: tensors as they are.
ObjectRef ToVmValue(const Value& value);
/// The reverse. `type` tells tuples from data; closures stay the machine's.
Value FromVmValue(const ObjectRef& value, const Type& type, const IRModule& module);

}  // namespace treadle::driver
