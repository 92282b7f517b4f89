// SPDX-License-Identifier: Apache-2.0
// Portable C99 out of functions in low-level form without vectors. The text depends on nothing but the C library.
#include <sstream>

#include "backends/backend.h"
#include "backends/c/c_writer.h"
#include "backends/c/prelude.h"
#include "backends/register.h"
#include "tir/in_place.h"
#include "tir/passes/passes.h"

namespace treadle::backends {
namespace {

using tir::Var;

std::string ScalarArgument(const Var& v, size_t i) {
  const DataType t = v.dtype();
  if (t.is_float() && t.bits() == 64) return StrCat("treadle_bits_i64_f64(scalars[", i, "])");
  if (t.is_float()) return StrCat("(float)treadle_bits_i64_f64(scalars[", i, "])");
  return StrCat("(", CValueType(t), ")scalars[", i, "]");
}

void EmitFunction(const tir::SplitFunction& func, const CodegenOptions& options, std::ostream& out) {
  bool noalias = true;
  if (auto attribute = func.compute->GetAttr<IntImm>(attr::kNoAlias)) noalias = (*attribute)->value != 0;
  CWriter compute;
  std::string params;
  std::vector<Var> vars(func.compute->params.begin(), func.compute->params.end());
  const std::vector<bool> shared = tir::SharedParams(func.compute, func.buffers.size());
  for (size_t i = 0; i < vars.size(); ++i) {
    params += (i == 0 ? "" : ", ") + compute.Declare(vars[i], noalias && (i >= shared.size() || !shared[i]));
  }
  out << "\nstatic int32_t " << func.name << "__compute(" << (params.empty() ? "void" : params) << ") {\n"
      << compute.Body(vars, func.compute->body) << "}\n";
  if (options.raw_api) {
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

Artifact CodegenC(const std::vector<tir::PrimFunc>& lowered, const Target& target, const CodegenOptions& options) {
  std::ostringstream out;
  out << "/* treadle target: " << target.str() << " */\n" << kCHeader << "\n" << kCHelpers;
  Artifact artifact;
  artifact.format = "c";
  for (const tir::PrimFunc& func : lowered) {
    const tir::SplitFunction split = tir::MakePackedApi(func, options.packed_api);
    EmitFunction(split, options, out);
    if (options.packed_api) artifact.symbols.push_back(split.name);
    if (options.raw_api) artifact.symbols.push_back(split.name + "__raw");
  }
  artifact.code = out.str();
  return artifact;
}

}  // namespace

void RegisterCBackend() {
  RegisterBackend({"c", "portable C99, for any compiler", CodegenC,
                   [](const tir::PrimFunc&, const Target&) { return std::string(); }});
}

}  // namespace treadle::backends
