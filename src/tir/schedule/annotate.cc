// SPDX-License-Identifier: Apache-2.0
// Annotations of loops and blocks.
#include "tir/schedule/primitives.h"

namespace treadle::tir::primitive {

void AnnotateLoop(ScheduleState& state, const Var& var, const std::string& key, const ObjectRef& value) {
  Path path = state.FindLoop(var, "annotate");
  For loop = Downcast<For>(path.back());
  if (value.defined())
    loop.CopyOnWrite()->annotations.Set(key, value);
  else
    loop.CopyOnWrite()->annotations.erase(key);
  state.Replace(path, loop);
}

void AnnotateBlock(ScheduleState& state, const std::string& name, const std::string& key, const ObjectRef& value) {
  PlacedBlock placed = state.FindBlock(name);
  Block block = placed.realize->block;
  if (value.defined())
    block.CopyOnWrite()->annotations.Set(key, value);
  else
    block.CopyOnWrite()->annotations.erase(key);
  state.Replace(placed.path, BlockRealize(placed.realize->iter_values, placed.realize->predicate, block));
}

}  // namespace treadle::tir::primitive
