// SPDX-License-Identifier: Apache-2.0
// Hardware instructions (or hand-written kernels) that can stand for a nest of loops.
#pragma once

#include <string>

#include "treadle/tir/function.h"

namespace treadle::tir {

/// `desc` says what the instruction computes: one block in a perfect nest. `body` and `update` are how: functions of
/// the same parameters. Those that aren't buffers are numbers: `axis < parameter` in `desc` says which. A reduction
/// with loops of its own outside needs `update`, which adds to the result that is there; otherwise `body` computes all
/// of it. Either may be null.
class TensorIntrinNode : public Object {
 public:
  std::string name;
  PrimFunc desc;
  PrimFunc body;
  PrimFunc update;
  TREADLE_DECLARE_NODE(TensorIntrinNode, Object, "tir.TensorIntrin");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("name", &TensorIntrinNode::name);
    r.Field("desc", &TensorIntrinNode::desc);
    r.Field("body", &TensorIntrinNode::body);
    r.Field("update", &TensorIntrinNode::update);
  }
};
class TensorIntrin : public ObjectRef {
 public:
  /// Throws ScheduleError where desc isn't one block in a perfect nest, or the parameters of body or update differ.
  TensorIntrin(std::string name, PrimFunc desc, PrimFunc body, PrimFunc update);
  TREADLE_REF(TensorIntrin, ObjectRef, TensorIntrinNode);
};

}  // namespace treadle::tir
