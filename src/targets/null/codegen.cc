// SPDX-License-Identifier: Apache-2.0
// The skeleton of a backend, to copy: it has the shape of one and refuses every function with a reason.
#include "targets/backend.h"
#include "targets/register.h"

namespace treadle::targets {
namespace {

/// Why the target can't compile a function in low-level form; "" where it can. A real backend looks for statements,
/// intrinsics and dtypes that it has no code for, and names the one it found.
std::string WhyNot(const tir::PrimFunc&, const Target&) {
  return "target null is a skeleton for new backends and compiles nothing; see docs/add-a-backend.md";
}

/// Code for functions in low-level form: loops, one-dimensional buffers, no blocks. A real backend writes
/// Artifact::code, says what that is in Artifact::format, and lists in Artifact::symbols what it defines.
Artifact GenerateNull(const std::vector<tir::PrimFunc>& lowered, const Target& target, const CodegenOptions&) {
  Artifact artifact;
  artifact.format = "null";
  for (const tir::PrimFunc& func : lowered) throw TargetError(WhyNot(func, target));
  return artifact;
}

}  // namespace

void RegisterNullBackend() {
  Backend backend;
  backend.name = "null";  // the target kind, as in src/ir/target.cc
  backend.description = "a skeleton that refuses everything";
  backend.codegen = GenerateNull;
  backend.check = WhyNot;
  // A device with memory of its own says which here, and takes kernels: see opencl.
  backend.device_type = kDLCPU;
  RegisterBackend(std::move(backend));
}

}  // namespace treadle::targets
