// SPDX-License-Identifier: Apache-2.0
// Names of the attributes by which a computation says what it is for (treadle/schedule/stage.h reads them).
#pragma once

#include <string>

#include "treadle/runtime/container.h"
#include "treadle/te/problem.h"
#include "treadle/te/tensor.h"

namespace treadle::te {

inline constexpr const char* kStageKernel = "kernel";    ///< the kernel that the computation belongs to
inline constexpr const char* kStageRole = "stage";       ///< what it is in that kernel
inline constexpr const char* kStageProblem = "problem";  ///< of the anchor: the problem, as JSON
/// The stage that stands for its kernel, where the operator's own computation is the kernel's and has no problem.
inline constexpr const char* kAnchor = "anchor";
/// Of a computation of rows that are made just before use: the axis of rows, an integer.
inline constexpr const char* kRowAxis = "row_axis";

/// Attributes for Compute: the computation is stage `role` of kernel `kernel`.
inline Map<String, ObjectRef> StageAttrs(const std::string& kernel, const std::string& role) {
  return {{String(kStageKernel), String(kernel)}, {String(kStageRole), String(role)}};
}

/// Attributes of the stage that stands for its kernel, with the problem.
Map<String, ObjectRef> AnchorAttrs(const std::string& kernel, const std::string& role, const Problem& problem);

/// A computation with attributes whose body is a function of index expressions; its tag is its name.
template <typename Body>
Tensor ComputeStage(const Array<PrimExpr>& shape, const Body& body, const std::string& name,
                    const Map<String, ObjectRef>& attrs) {
  auto at = [&](const Array<Var>& axes) { return body(Array<PrimExpr>(axes.begin(), axes.end())); };
  return Compute(shape, at, name, name, attrs);
}

}  // namespace treadle::te
