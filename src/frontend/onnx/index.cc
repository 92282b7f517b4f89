// SPDX-License-Identifier: Apache-2.0
// Elements picked by index.
#include "frontend/onnx/rules.h"

namespace treadle::onnx {
namespace {

using relay::Expr;

/// Indices count from the end when negative; others out of range are an error, when compiling or when running.
Expr ImportGather(NodeImport& n) {
  int rank = n.Rank(0);
  if (rank < 1) n.Invalid("the operand is a scalar");
  int axis = n.Axis(n.Int("axis", 0), rank);
  const int64_t* size = AsConstInt(TypeOf(n.In(0))->shape[static_cast<size_t>(axis)]);
  if (n.IsKnown(1) && size != nullptr) {
    for (int64_t index : IntsOf(n.Constant(1, "indices"))) {
      if (index < -*size || index >= *size) n.Invalid(StrCat("index ", index, " is out of range for ", *size));
    }
  }
  return n.Call("take", {n.In(0), n.In(1)}, {{"axis", int64_t{axis}}, {"mode", "error"}});
}

}  // namespace

void RegisterIndexRules(RuleTable& table) { table.Add1("Gather", {1, 11, 13}, ImportGather); }

}  // namespace treadle::onnx
