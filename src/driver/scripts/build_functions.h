// SPDX-License-Identifier: Apache-2.0
// The build flow as modules with named functions, for scripts that drive its steps themselves.
#pragma once

#include "treadle/runtime/module.h"

namespace treadle::driver {

/// Type "RelayGraphExecutorCodegenModule", with the functions
///   init(module or null, map from device type to target), codegen(func[, module name]), get_graph_json,
///   list_params_name, get_param_by_name(name), get_param_id(name): its storage id, get_params,
///   get_irmodule: lowered functions by target text, get_external_modules, get_metadata: constants of external
///   functions by symbol, get_function_metadata: FunctionInfo by symbol, "__tvm_main__" being the whole graph,
///   get_memory_report.
/// All but init and codegen are errors before codegen. A function of another name is null.
runtime::Module MakeGraphExecutorCodegenModule();

/// Type "RelayBuildModule", with the functions
///   build(module, targets, target_host[, executor, module name]), optimize(module, targets), set_params, get_params,
///   list_params, get_graph_json, get_module, get_irmodule, get_external_modules, get_function_metadata.
/// Parameters that were set are bound to main by build and optimize.
runtime::Module MakeRelayBuildModule();

/// Registers both factories: relay.build_module._GraphExecutorCodegen and relay.build_module._BuildModule.
void RegisterBuildFunctions();

}  // namespace treadle::driver
