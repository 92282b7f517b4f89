// SPDX-License-Identifier: Apache-2.0
// Problems and plans as data: nodes of reflected fields that print as flat JSON objects and are read back from them.
//
//   class WinogradPlanNode : public PlanNode {
//    public:
//     int64_t tile = 6, rows = 1;
//     TREADLE_NODE(WinogradPlanNode, PlanNode, "schedule.WinogradPlan")
//     template <typename R> static void Reflect(R& r) {
//       r.Field("tile", &WinogradPlanNode::tile).Doc("points per side");
//       r.Field("rows", &WinogradPlanNode::rows).Doc("rows of tiles in a strip");
//     }
//   };
#pragma once

#include <string>

#include "treadle/ir/attrs.h"

namespace treadle::schedule {

/// What a kernel has to compute: sizes and dtypes. -1 stands for a dynamic dimension.
class ProblemNode : public Object {
 public:
  TREADLE_DECLARE_NODE(ProblemNode, Object, "schedule.Problem");
};
class Problem : public ObjectRef {
 public:
  TREADLE_BASE_REF(Problem, ObjectRef, ProblemNode);
};

/// All knobs of a kernel. Two equal plans for one problem give equal code.
class PlanNode : public Object {
 public:
  TREADLE_DECLARE_NODE(PlanNode, Object, "schedule.Plan");
};
class Plan : public ObjectRef {
 public:
  TREADLE_BASE_REF(Plan, ObjectRef, PlanNode);
};

/// Makes a problem or plan: `Make<Plan, WinogradPlanNode>([&](auto& p) { p.rows = 2; })`.
template <typename Ref, typename Node, typename Init>
Ref Make(Init&& init) {
  auto node = MakeObject<Node>();
  init(*node);
  return Ref(ObjectPtr<Object>(node));
}

/// {"type": "schedule.WinogradPlan", "tile": 6, ...}: fields in the order of declaration, in one line. Fields are
/// booleans, integers, numbers, strings and dtypes; others are an InternalError.
std::string ToJson(const ObjectRef& record);
/// The inverse. Throws Error on text that isn't JSON, a type that isn't registered, and fields that are unknown,
/// missing or of another type.
ObjectRef FromJson(const std::string& text);
Problem ProblemFromJson(const std::string& text);
Plan PlanFromJson(const std::string& text);

/// 16 hexadecimal digits of the names and types of the fields of a class of plans: records of another schema don't fit.
std::string SchemaHash(const TypeInfo* type);

}  // namespace treadle::schedule
