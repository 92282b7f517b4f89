// SPDX-License-Identifier: Apache-2.0
// Code generators: the contract of a backend and the list of them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "treadle/ir/target.h"
#include "treadle/runtime/dlpack.h"
#include "treadle/tir/function.h"

namespace treadle::targets {

/// Which texts and symbols code generation makes besides what is needed for linking.
struct CodegenOptions {
  std::string module_name = "treadle";
  int opt_level = 3;        ///< 0 to 3
  bool emit_ll = false;     ///< fill Artifact::ll
  bool emit_asm = false;    ///< fill Artifact::assembly
  bool packed_api = true;   ///< export `name` in the packed calling convention, with all argument checks
  bool raw_api = true;      ///< export `name__raw`, see RawFunction
  bool system_lib = false;  ///< call the runtime's functions by name instead of through pointer variables
};

/// Signature of `name__raw`: no checks, for callers that know. `data` holds the data pointers of the buffer parameters
/// in order (element 0 of each buffer), `scalars` the other values that the function needs, in the order of
/// SplitFunction::scalars (int64 or double bit patterns). Returns 0, or -1 with the last error set.
using RawFunction = int (*)(void* const* data, const int64_t* scalars);

/// What a backend makes of a list of functions.
struct Artifact {
  std::string format;  ///< "o" (native object), "c", "stackvm", "opencl": the key of what goes into a library
  std::string code;    ///< the object's bytes, or source text
  std::string ll;      ///< LLVM IR after optimisation
  std::string assembly;
  std::string module;                ///< devices: what runtime.module.loadbinary_<format> reads
  std::vector<std::string> symbols;  ///< exported functions
};

struct Backend {
  std::string name;  ///< the target kind
  std::string description;
  /// Generates code for functions in low-level form (tir passes done). Throws TargetError on what it can't do.
  std::function<Artifact(const std::vector<tir::PrimFunc>& lowered, const Target& target,
                         const CodegenOptions& options)>
      codegen;
  /// Why a function in low-level form can't be compiled, or "" when it can.
  std::function<std::string(const tir::PrimFunc& func, const Target& target)> check;
  /// DLPack type of the device whose memory the functions work on. Where it isn't the CPU, `codegen` takes kernels
  /// (tir/passes/split_host_device.h) and fills Artifact::module; launches are compiled for the host.
  int device_type = kDLCPU;
};

/// Adds a backend; called by RegisterAllBackends only.
void RegisterBackend(Backend backend);
/// Registers every backend that this build has. May be called several times.
void RegisterAllBackends();
/// The backend of `kind`; throws TargetError listing those that exist.
const Backend& GetBackend(const std::string& kind);
std::vector<std::string> ListBackends();

}  // namespace treadle::targets
