// SPDX-License-Identifier: Apache-2.0
// Portable C99 out of functions in low-level form without vectors. The text depends on nothing but the C library.
#include <map>
#include <set>

#include "targets/builtin.h"
#include "targets/c/main_source.h"
#include "targets/c/prelude.h"
#include "targets/c/threaded_writer.h"
#include "targets/cpu/graph/passes.h"
#include "targets/cpu/machine.h"
#include "targets/cpu/machine_costs.h"
#include "targets/cpu/schedule/cpu.h"
#include "targets/cpu/schedule/short_rows.h"
#include "tir/in_place.h"
#include "tir/passes/passes.h"
#include "treadle/targets/c_toolchain.h"
#include "treadle/targets/c_writer.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::targets {
namespace {

using tir::Var;

std::string ScalarArgument(const Var& v, size_t i) {
  const DataType t = v.dtype();
  if (t.is_float() && t.bits() == 64) return StrCat("treadle_bits_i64_f64(scalars[", i, "])");
  if (t.is_float()) return StrCat("(float)treadle_bits_i64_f64(scalars[", i, "])");
  return StrCat("(", CValueType(t), ")scalars[", i, "]");
}

/// What functions need of others: prototypes by name, and the helper that calls registered functions.
struct Needs {
  std::map<std::string, std::string> externs;
  bool calls_packed = false;
  bool threads = false;
};

/// Calls of registered functions go through the loader.
constexpr const char* kPackedHelper = R"(
void* __treadle_module_ctx TREADLE_WEAK = 0;
int (*__TreadleBackendGetFuncFromEnv)(void* module, const char* name, void** out) TREADLE_WEAK = 0;
int (*__TreadleBackendFuncCall)(void* func, TreadleArg* args, int* codes, int count, TreadleArg* result,
                                int* result_code) TREADLE_WEAK = 0;

TREADLE_INLINE int treadle_call_packed(const char* name, void** callee, TreadleArg* args, int* codes, int count) {
  if (!__TreadleBackendGetFuncFromEnv || !__TreadleBackendFuncCall) {
    return treadle_fail("calls of registered functions need the runtime");
  }
  if (__TreadleBackendGetFuncFromEnv(__treadle_module_ctx, name, callee) != 0) return -1;
  return __TreadleBackendFuncCall(*callee, args, codes, count, args + count, codes + count);
}
)";

/// Tasks of parallel loops go to the runtime's threads, through the loader too.
constexpr const char* kParallelHelper = R"(
typedef struct {
  void* reserved;
  int32_t num_task;
} TreadleParallelGroup;
typedef int (*TreadleTask)(int id, TreadleParallelGroup* group, void* data);
int (*__TreadleBackendParallelLaunch)(TreadleTask task, void* data, int num_task) TREADLE_WEAK = 0;

TREADLE_INLINE int treadle_parallel(TreadleTask task, void* data, int64_t extent) {
  TreadleParallelGroup alone = {0, 1};
  if (extent <= 0) return 0;
  if (!__TreadleBackendParallelLaunch || extent == 1) return task(0, &alone, data);
  return __TreadleBackendParallelLaunch(task, data, extent > INT32_MAX ? 0 : -(int)extent);
}
)";

void EmitFunction(const tir::SplitFunction& func, const CodegenOptions& options, const CDialect& dialect,
                  TextStream& out, Needs* needs) {
  bool noalias = true;
  if (auto attribute = func.compute->GetAttr<IntImm>(attr::kNoAlias)) noalias = (*attribute)->value != 0;
  // Without the calling convention of the runtime there are no threads either.
  const std::unique_ptr<CWriter> compute = dialect.writer       ? dialect.writer()
                                           : options.packed_api ? std::make_unique<ThreadedCWriter>(func.name)
                                                                : std::make_unique<CWriter>();
  std::string params;
  std::vector<Var> vars(func.compute->params.begin(), func.compute->params.end());
  const std::vector<bool> shared = tir::SharedParams(func.compute, func.buffers.size());
  for (size_t i = 0; i < vars.size(); ++i) {
    params += (i == 0 ? "" : ", ") + compute->Declare(vars[i], noalias && (i >= shared.size() || !shared[i]));
  }
  const std::string body = compute->Body(vars, func.compute->body);
  out << compute->functions() << "\n"
      << compute->qualifiers() << " int32_t " << func.name << "__compute(" << (params.empty() ? "void" : params)
      << ") {\n"
      << body << "}\n";
  needs->threads |= !compute->functions().empty();
  needs->externs.insert(compute->externs().begin(), compute->externs().end());
  needs->calls_packed |= compute->calls_packed();
  if (options.raw_api && !func.returns_value) {
    out << "\nint32_t " << func.name << "__raw(void* const* data, const int64_t* scalars);\nint32_t " << func.name
        << "__raw(void* const* data, const int64_t* scalars) {\n  (void)data;\n  (void)scalars;\n  return " << func.name
        << "__compute(";
    for (size_t i = 0; i < func.buffers.size(); ++i) {
      out << (i == 0 ? "" : ", ") << "(" << CMemoryType(func.buffers[i]->dtype) << "*)data[" << i << "]";
    }
    for (size_t i = 0; i < func.scalars.size(); ++i) {
      out << (i == 0 && func.buffers.empty() ? "" : ", ") << ScalarArgument(func.scalars[i], i);
    }
    out << ");\n}\n";
  }
  if (options.packed_api) {
    CWriter packed;
    std::string list;
    std::vector<Var> packed_vars(func.packed->params.begin(), func.packed->params.end());
    for (size_t i = 0; i < packed_vars.size(); ++i)
      list += (i == 0 ? "" : ", ") + packed.Declare(packed_vars[i], false);
    out << "\nint32_t " << func.name << "(" << list << ");\nint32_t " << func.name << "(" << list << ") {\n"
        << packed.Body(packed_vars, func.packed->body) << "}\n";
  }
}

/// Functions of math.h, stdlib.h and string.h that kernels may call by name.
bool IsLibraryFunction(const std::string& name) {
  static const std::set<std::string> known = {
      "acos", "acosh", "asin",      "asinh", "atan",  "atan2", "atanh",  "cbrt",      "ceil",     "copysign",
      "cos",  "cosh",  "erf",       "erfc",  "exp",   "exp2",  "expm1",  "fabs",      "fdim",     "floor",
      "fma",  "fmax",  "fmin",      "fmod",  "hypot", "ldexp", "lgamma", "log",       "log10",    "log1p",
      "log2", "logb",  "nearbyint", "pow",   "rint",  "round", "scalbn", "sin",       "sinh",     "sqrt",
      "tan",  "tanh",  "tgamma",    "trunc", "abs",   "labs",  "llabs",  "nextafter", "remainder"};
  if (known.count(name) != 0) return true;
  return name.size() > 1 && name.back() == 'f' && known.count(name.substr(0, name.size() - 1)) != 0;
}

}  // namespace

Artifact GenerateC(const Functions& lowered, const Target& target, const CodegenOptions& options,
                   const CDialect& dialect) {
  TextStream functions, out;
  Needs needs;
  std::string imported;
  out << "/* treadle target: " << target.str() << " */\n" << kCHeader << "\n" << kCHelpers;
  Artifact artifact;
  for (const tir::PrimFunc& func : lowered) {
    const tir::SplitFunction split = tir::MakePackedApi(func, options.packed_api);
    EmitFunction(split, options, dialect, functions, &needs);
    if (auto texts = func->GetAttr<Array<String>>(tir::kImportC)) {
      for (const String& text : *texts) {
        if (imported.find(text.str()) == std::string::npos) imported += "\n" + text.str() + "\n";
      }
    }
    if (options.packed_api) artifact.symbols.push_back(split.name);
    if (options.raw_api && !split.returns_value) artifact.symbols.push_back(split.name + "__raw");
  }
  if (needs.calls_packed) out << kPackedHelper;
  if (needs.threads) out << kParallelHelper;
  out << dialect.prelude << imported;
  for (const auto& [name, prototype] : needs.externs) {
    // What the imported text or the C library's headers declare isn't declared again.
    const bool known = imported.find(name + "(") != std::string::npos || IsLibraryFunction(name);
    if (!known) out << "\n" << prototype << "\n";
  }
  out << functions.str();
  artifact.code = out.str();
  if (options.Wants("c")) artifact.texts["c"] = artifact.code;
  return artifact;
}

namespace {

std::string WhyNot(const tir::PrimFunc& func, const Target&) {
  std::string reason;
  tir::PostOrderVisit(func->body, [&](const ObjectRef& node) {
    if (!node->IsInstance<PrimExprNode>() || !reason.empty()) return;
    const DataType dtype = Downcast<PrimExpr>(node).dtype();
    if (!dtype.is_vector()) return;
    reason = StrCat("it has a vector expression, of ", dtype, "; target c takes scalars: use a loop over the elements");
  });
  return reason;
}

LinkOptions HowToLink(const Target&) { return {.triple = "", .keep_debug_info = false, .libraries = CLibraries()}; }

}  // namespace

TargetSpec CTarget() {
  TargetSpec spec;
  spec.kind.name = "c";
  spec.kind.doc = "portable C99, for any compiler";
  spec.kind.keys = {"cpu"};
  spec.kind.options = {{"mcpu", TargetOption::Type::kText, "the processor, passed on to the C compiler"},
                       {"march", TargetOption::Type::kText, "the architecture, passed on to the C compiler"}};
  spec.kind.features = CompilerCpuFeatures;
  spec.form = ModuleForm::kObjects;
  spec.early_passes = CpuEarlyPasses;
  spec.graph_passes = CpuGraphPasses;
  spec.schedule = [](const tir::PrimFunc& func, const Target& target) {
    return ops::ScheduleForCpu(func, ops::cpu::MachineOf(target));
  };
  spec.schedule_short = [](const tir::PrimFunc& func, const Target&) { return ops::ScheduleShortRows(func); };
  spec.lowering.vectors = false;  // loops over vectors stay loops, which C compilers make vectors of
  spec.codegen = [](const Functions& lowered, const Target& target, const CodegenOptions& options) {
    return GenerateC(lowered, target, options);
  };
  spec.check = WhyNot;
  spec.texts = {"c"};
  spec.imports = {"c"};
  spec.standalone_c = true;
  spec.assemble = CompileC;
  spec.link_options = HowToLink;
  spec.main_function = [](const std::vector<MainCall>& calls, const Target& target) {
    return CompileC(MakeMainSource(calls), target);
  };
  return spec;
}

}  // namespace treadle::targets
