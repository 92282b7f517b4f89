// SPDX-License-Identifier: Apache-2.0
// The global functions that the runtime itself provides: one list, filled in builtins.cc.
#pragma once

#include <functional>
#include <string>

#include "treadle/runtime/packed_func.h"

namespace treadle::runtime {

using AddBuiltin = std::function<void(const std::string& name, PackedFunc function)>;

/// Calls `add` for every function that the runtime provides. Must not use the registry.
void ForEachBuiltin(const AddBuiltin& add);

/// The parts of the list that live beside what they are about.
void AddGraphExecutorFunctions(const AddBuiltin& add);
void AddLibraryFunctions(const AddBuiltin& add);
void AddDeviceCallFunctions(const AddBuiltin& add);
void AddMetadataFunctions(const AddBuiltin& add);
void AddSystemLibFunctions(const AddBuiltin& add);
void AddCustomDatatypeFunctions(const AddBuiltin& add);

}  // namespace treadle::runtime
