// SPDX-License-Identifier: Apache-2.0
// Convolutions in NCHW, as the operator computes them, for channels that don't fill blocks: vectors of neighbouring
// outputs; some channels at once share what is loaded of the input.
#include "targets/cpu/kernels/rooms.h"
#include "treadle/ir/prim_ops.h"

namespace treadle::ops::cpu {
namespace {

void Apply(Schedule& sch, Stages& stages, const Problem&, const Machine&, const Plan&) {
  constexpr int64_t kMinWidth = 4;
  const BlockRV block = stages.anchor();
  BlockRV epilogue = EpilogueOf(sch, block);
  if (epilogue.defined()) stages.Take(epilogue);
  const Array<PrimExpr> shape = sch.Get(block)->writes[0]->buffer->shape;
  const int64_t* width = AsConstInt(shape.back());
  if (width != nullptr && *width < kMinWidth) {
    ScheduleReduction(sch, block, epilogue);
  } else {
    ScheduleRowWindow(sch, block, epilogue);
  }
}

}  // namespace

void RegisterRowConv() {
  Kernel kernel;
  kernel.name = "conv2d.rows";  // what conv2d.plain computes is scheduled by this
  kernel.op = "";
  kernel.target = "cpu";
  kernel.apply = Apply;
  schedule::RegisterKernel(std::move(kernel));
}

}  // namespace treadle::ops::cpu
