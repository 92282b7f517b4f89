// SPDX-License-Identifier: Apache-2.0
// The skeleton of a target, to copy: it has the shape of one and refuses every function with a reason.
#include "targets/builtin.h"

namespace treadle::targets {
namespace {

/// Why the target can't compile a function in low-level form; "" where it can. A real target looks for statements,
/// intrinsics and dtypes that it has no code for, and names the one it found.
std::string WhyNot(const tir::PrimFunc&, const Target&) {
  return "target null is a skeleton for new targets and compiles nothing; see docs/add-a-target.md";
}

/// Code for functions in low-level form: loops, one-dimensional buffers, no blocks. A real target writes
/// Artifact::code and lists in Artifact::symbols what it defines.
Artifact GenerateNull(const Functions& lowered, const Target& target, const CodegenOptions&) {
  for (const tir::PrimFunc& func : lowered) throw TargetError(WhyNot(func, target));
  return {};
}

}  // namespace

TargetSpec NullTarget() {
  TargetSpec spec;
  spec.kind.name = "null";
  spec.kind.doc = "a skeleton that refuses everything";
  spec.kind.keys = {"cpu"};
  // Objects that the linker takes, kernels of a device, or modules of its own say so here: see llvm, opencl, stackvm.
  spec.form = ModuleForm::kText;
  spec.texts = {"null"};
  spec.codegen = GenerateNull;
  spec.check = WhyNot;
  return spec;
}

}  // namespace treadle::targets
