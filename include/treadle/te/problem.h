// SPDX-License-Identifier: Apache-2.0
// Problems: what a kernel has to compute, as data. A computation states the problem of the kernel that it belongs to
// (AnchorAttrs); those who choose among kernels and plans, and files of records, know it by its text.
#pragma once

#include <string>

#include "treadle/ir/attrs.h"

namespace treadle::te {

/// Sizes and dtypes, reflected. -1 stands for a dynamic dimension.
class ProblemNode : public Object {
 public:
  TREADLE_DECLARE_NODE(ProblemNode, Object, "schedule.Problem");
};
class Problem : public ObjectRef {
 public:
  TREADLE_BASE_REF(Problem, ObjectRef, ProblemNode);
};

/// Makes a problem or plan: `Make<Problem, ConvProblemNode>([&](auto& p) { p.oc = 64; })`.
template <typename Ref, typename Node, typename Init>
Ref Make(Init&& init) {
  auto node = MakeObject<Node>();
  init(*node);
  return Ref(ObjectPtr<Object>(node));
}

/// {"type": "schedule.ConvProblem", "batch": 1, ...}, of problems and plans: treadle/ir/flat_json.h.
std::string ToJson(const ObjectRef& record);
/// Throws Error on text that isn't JSON, a type that isn't registered or no problem, and fields that are unknown,
/// missing or of another type.
Problem ProblemFromJson(const std::string& text);

}  // namespace treadle::te
