// SPDX-License-Identifier: Apache-2.0
// Plans as data: nodes of reflected fields that print as flat JSON objects and are read back from them, as problems
// (treadle/te/problem.h) are.
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

#include "treadle/te/problem.h"

namespace treadle::schedule {

using te::Make;
using te::Problem;
using te::ProblemFromJson;
using te::ProblemNode;
using te::ToJson;

/// All knobs of a kernel. Two equal plans for one problem give equal code.
class PlanNode : public Object {
 public:
  TREADLE_DECLARE_NODE(PlanNode, Object, "schedule.Plan");
};
class Plan : public ObjectRef {
 public:
  TREADLE_BASE_REF(Plan, ObjectRef, PlanNode);
};

/// The inverse of ToJson. Throws Error as ProblemFromJson does.
Plan PlanFromJson(const std::string& text);

/// 16 hexadecimal digits of the names and types of the fields of a class of plans: records of another schema don't fit.
std::string SchemaHash(const TypeInfo* type);

}  // namespace treadle::schedule
