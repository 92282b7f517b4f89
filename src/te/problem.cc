// SPDX-License-Identifier: Apache-2.0
#include "treadle/te/problem.h"

#include "treadle/ir/flat_json.h"
#include "treadle/runtime/reflection.h"
#include "treadle/te/stage.h"

namespace treadle::te {

TREADLE_DEFINE_NODE(ProblemNode);

std::string ToJson(const ObjectRef& record) { return ToFlatJson(record); }

Problem ProblemFromJson(const std::string& text) {
  return Downcast<Problem>(FromFlatJson(text, "problem", ProblemNode::StaticTypeInfo()));
}

Map<String, ObjectRef> AnchorAttrs(const std::string& kernel, const std::string& role, const Problem& problem) {
  Map<String, ObjectRef> attrs = StageAttrs(kernel, role);
  attrs.Set(kStageProblem, String(ToJson(problem)));
  return attrs;
}

}  // namespace treadle::te
