// SPDX-License-Identifier: Apache-2.0
// On which device each value is.
#pragma once

#include <unordered_map>

#include "treadle/relay/expr.h"

namespace treadle::relay {

using DeviceMap = std::unordered_map<Expr, int, ObjectPtrHash, ObjectPtrEqual>;

/// DLDeviceType of each call, tuple, projection, variable and constant of `func`, as its device_copy calls (fused or
/// not) imply: operands and result of any other call are on one device; a parameter is where its first consumer is.
/// What no copy reaches is where the last copy leads. Empty when there are no copies.
DeviceMap CollectDeviceInfo(const Expr& func);

/// `expr` copied between devices (operator device_copy).
Expr MakeDeviceCopy(const Expr& expr, int from_device_type, int to_device_type);

}  // namespace treadle::relay
