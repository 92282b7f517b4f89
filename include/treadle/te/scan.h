// SPDX-License-Identifier: Apache-2.0
// Recurrences along the first axis: each step computed from the steps before it.
#pragma once

#include <string>
#include <vector>

#include "treadle/te/tensor.h"

namespace treadle::te {

/// Output i holds, in its first rows, init[i], and in row t what update[i] computes there from rows before t, which
/// it reads through state_placeholder[i]. All have the same rank; update and state have the output's shape.
class ScanOpNode : public OperationNode {
 public:
  IterVar scan_axis;  ///< from the number of rows of init to the number of rows of update
  Array<Tensor> init;
  Array<Tensor> update;
  Array<Tensor> state_placeholder;
  Array<Tensor> inputs;  ///< for information only
  int num_outputs() const override { return static_cast<int>(update.size()); }
  DataType output_dtype(int i) const override { return update[i]->dtype; }
  Array<PrimExpr> output_shape(int i) const override { return update[i]->shape; }
  TREADLE_DECLARE_NODE(ScanOpNode, OperationNode, "te.ScanOp");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("scan_axis", &ScanOpNode::scan_axis).Defines();
    r.Field("init", &ScanOpNode::init);
    r.Field("update", &ScanOpNode::update);
    r.Field("state_placeholder", &ScanOpNode::state_placeholder);
    r.Field("inputs", &ScanOpNode::inputs);
  }
};

/// Throws ShapeError or DTypeError naming the scan and the state where init, update and state don't fit.
Array<Tensor> Scan(const Array<Tensor>& init, const Array<Tensor>& update, const Array<Tensor>& state_placeholder,
                   const Array<Tensor>& inputs = {}, std::string name = "scan", std::string tag = "",
                   Map<String, ObjectRef> attrs = {});

/// The operations computed within the scan's loop, in order: those between its states and its updates. Checks that
/// each is an element of one step: computed row by row, reading states of earlier rows only.
std::vector<Operation> ScanBody(const ScanOpNode* scan);

}  // namespace treadle::te
