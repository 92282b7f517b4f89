// SPDX-License-Identifier: Apache-2.0
// A target: all that the compiler knows of a kind of machine or of output, in one struct. Code outside of src/targets
// asks it and compares no names of kinds. A shared library may add one: RegisterTarget in what TREADLE_PLUGIN names
// (treadle/runtime/plugin.h, docs/add-a-target.md).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "treadle/ir/target_kind.h"
#include "treadle/ir/transform.h"
#include "treadle/runtime/dlpack.h"
#include "treadle/runtime/module.h"
#include "treadle/schedule/short_form.h"
#include "treadle/tir/function.h"

namespace treadle::targets {

/// Which texts and symbols code generation makes besides what is needed for linking.
struct CodegenOptions {
  std::string module_name = "treadle";
  int opt_level = 3;               ///< 0 to 3
  std::vector<std::string> texts;  ///< formats of TargetSpec::texts to fill Artifact::texts with
  bool packed_api = true;          ///< export `name` in the packed calling convention, with all argument checks
  bool raw_api = true;             ///< export `name__raw`, see RawFunction
  bool system_lib = false;         ///< call the runtime's functions by name instead of through pointer variables

  bool Wants(const std::string& format) const;
};

/// Signature of `name__raw`: no checks, for callers that know. `data` holds the data pointers of the buffer parameters
/// in order (element 0 of each buffer), `scalars` the other values that the function needs, in the order of
/// SplitFunction::scalars (int64 or double bit patterns). Returns 0, or -1 with the last error set.
using RawFunction = int (*)(void* const* data, const int64_t* scalars);

/// What code generation makes of a list of functions.
struct Artifact {
  std::string code;                          ///< source text, or the bytes of an object
  std::map<std::string, std::string> texts;  ///< those that were asked for, by format
  std::string module;                        ///< devices: what runtime.module.loadbinary_<TargetSpec::runtime> reads
  std::vector<std::string> symbols;          ///< exported functions
};

/// What becomes of the code that a target generates.
enum class ModuleForm {
  kText,     ///< text for other tools
  kObjects,  ///< relocatable objects, linked into one shared library with the model
  kDevice,   ///< kernels for a device with memory of its own, launched by code for a host
  kModule,   ///< modules of the target's own, such as programs of an interpreter (TargetSpec::make_module)
};

/// How objects become a shared library.
struct LinkOptions {
  std::string triple;                       ///< the machine of the objects; "": this one
  bool keep_debug_info = false;             ///< functions have names in debuggers
  std::vector<std::string> libraries = {};  ///< paths of those that objects call
};

/// Code in the memory of this process. Functions stay valid as long as the object lives.
class JitModule {
 public:
  virtual ~JitModule() = default;
  /// Address of an exported symbol, or null.
  virtual void* GetSymbol(const std::string& name) const = 0;
  /// The module whose imports calls of packed functions are looked up in; without one they are in the registry only.
  virtual void SetContext(void* module_node) = 0;
};

/// `int __treadle_main__(void* const* data)` runs a whole graph: 0, or the number (from 1) of the call that failed.
inline constexpr const char* kMainFunction = "__treadle_main__";

/// A call of a kernel's unchecked form, <symbol>__raw (RawFunction), whose data pointers are data[first_arg] and
/// following.
struct MainCall {
  std::string symbol;
  int64_t first_arg;
};

/// Properties of a target language that lowering needs beyond the machine model.
struct LoweringTraits {
  bool vectors = true;          ///< it has vector expressions; else loops over vectors stay loops
  bool threads = false;         ///< loops bound to threads run at once
  bool native_float16 = false;  ///< its compiler sees to 16-bit floats by itself
};

using Functions = std::vector<tir::PrimFunc>;

struct TargetSpec {
  /// Name, documentation, options, default keys, names of ready-made targets, and the machine model.
  TargetKind kind;
  ModuleForm form = ModuleForm::kText;
  /// DLPack type of the device whose memory functions work on.
  int device_type = kDLCPU;
  /// Registers what comes with it besides, such as passes by name and loaders of modules. Null: nothing.
  std::function<void()> on_register;

  // ---- Graphs ----
  /// Passes that bring a graph into forms that the target's schedules are made for. They run on models for this one
  /// device, after the passes of all targets and before fusion. Null: none.
  std::function<std::vector<transform::Pass>(const Target& target)> graph_passes;
  /// Passes that come first of all, while products of quantised tensors are as the model states them: which operators
  /// they become may depend on the machine. For models on this one device, too. Null: none.
  std::function<std::vector<transform::Pass>(const Target& target)> early_passes;
  /// Tensors that a kernel may have as arguments where the target's option max_function_args doesn't say; 0: no limit.
  int64_t max_function_args = 0;

  // ---- Loops ----
  /// Schedules a function of blocks as te::CreatePrimFunc makes it; blocks are known by the tags of their computations
  /// (treadle/schedule/analysis.h). Null: functions run as they are.
  std::function<tir::PrimFunc(const tir::PrimFunc& func, const Target& target)> schedule;
  /// Another schedule for runs in which dimensions are short; nothing where that makes no difference. Null: none.
  std::function<std::optional<schedule::ShortForm>(const tir::PrimFunc& func, const Target& target)> schedule_short;
  LoweringTraits lowering;

  // ---- Code ----
  /// Generates code for functions in low-level form (loops, flat buffers, no blocks); of devices for kernels
  /// (SplitHostDevice), whose launches are compiled for the host. Throws TargetError on what it can't do.
  std::function<Artifact(const Functions& lowered, const Target& target, const CodegenOptions& options)> codegen;
  /// Why a function in low-level form can't be compiled, or "" when it can. Null: all can.
  std::function<std::string(const tir::PrimFunc& func, const Target& target)> check;
  /// Formats of text that code can be seen in, the usual one first.
  std::vector<std::string> texts;
  /// Languages of pragmas "import_<language>", whose texts go into the code.
  std::vector<std::string> imports;
  /// Whether Artifact::code is C99 that needs nothing else: C bundles can be made of it.
  bool standalone_c = false;

  // ---- Objects (ModuleForm::kObjects) ----
  /// The relocatable object of Artifact::code. Null: the code is one.
  std::function<std::string(const std::string& code, const Target& target)> assemble;
  /// Null: for this machine, without libraries.
  std::function<LinkOptions(const Target& target)> link_options;
  /// Loads an object into this process. Null: it is linked to a library, which is loaded.
  std::function<std::unique_ptr<JitModule>(const std::string& object, const Target& target)> jit;
  /// An object that defines kMainFunction for the calls in this order. Null: the executor calls each kernel.
  std::function<std::string(const std::vector<MainCall>& calls, const Target& target)> main_function;
  /// Whether it compiles host code of devices, which launches kernels.
  bool launches_kernels = false;
  /// Instruction sets that the code uses, by LLVM's names: the loader refuses machines without. Null: none.
  std::function<std::vector<std::string>(const Target& target)> required_cpu_features;
  /// What objects depend on besides the target's text and its machine model, such as the processor that "native" is.
  std::function<std::string(const Target& target)> cache_key;

  // ---- Devices (ModuleForm::kDevice) ----
  /// The plug-in of the runtime, libtreadle_<runtime>.so, which registers the device and loads modules.
  std::string runtime;

  // ---- Modules of its own (ModuleForm::kModule) ----
  /// A module with the functions, each of which has a global symbol. One that compiled models hold can be saved
  /// (ModuleNode::SaveToBinary).
  std::function<runtime::Module(const Functions& functions, const Target& target)> make_module;
};

/// Adds a target. Throws TargetError where its kind, or one of its tags, is there already, and where what its form
/// needs is missing.
void RegisterTarget(TargetSpec spec);
/// Registers the targets of the list in src/targets/registry.cc. May be called several times.
void RegisterAllTargets();

/// Throws TargetError that lists those that exist.
const TargetSpec& GetTargetSpec(const std::string& kind);
const TargetSpec& GetTargetSpec(const Target& target);
/// Names of kinds, in the order of registration.
std::vector<std::string> ListTargets();
/// The target of a device type where none is named: the first kind for it. Throws TargetError where there is none.
Target DefaultTarget(int device_type);

// ---- What specs leave open, decided ----
/// The object of generated code.
std::string AssembleObject(const std::string& code, const Target& target);
LinkOptions GetLinkOptions(const Target& target);
/// Why the function can't be compiled, or "".
std::string WhyNotCompiled(const tir::PrimFunc& func, const Target& target);

}  // namespace treadle::targets
