// SPDX-License-Identifier: Apache-2.0
#include "tir/passes/passes.h"

#include "tir/passes/convert_ssa.h"
#include "tir/passes/strided_access.h"
#include "tir/passes/thread_extents.h"

namespace treadle::tir {

const std::vector<LoweringPass>& LoweringPasses() {
  static const std::vector<LoweringPass> passes = {
      {"BindThreadExtents", BindThreadExtents, "threads that a function launches become loops bound to them"},
      {"LowerCustomDatatypes", LowerCustomDatatypes, "what users' element types do is written out"},
      {"LowerThreadAllreduce", LowerThreadAllreduce, "threads combine what each of them adds up of a reduction"},
      {"LowerInit", LowerInit, "reductions are initialised before their loops"},
      {"LowerBlocks", LowerBlocks, "blocks become plain statements, buffers are allocated where they are used"},
      {"CompactBuffers", CompactBuffers, "buffers shrink to the part that is used where they live"},
      {"AlignStorage", AlignStorage, "rows of buffers get the strides that were asked for"},
      {"FlattenBuffer", FlattenBuffer, "buffers become one-dimensional"},
      {"Simplify", SimplifyFunc, "index arithmetic in normal form, decided conditions removed"},
      {"InstrumentBoundsChecks", InstrumentBoundsChecks, "every index is checked, where that is asked for"},
      {"LoopPartition", LoopPartition, "the main part of loops does without boundary conditions"},
      {"NarrowTails", NarrowTails, "incomplete register tiles of few rows get narrower forms"},
      {"RelaxTails", RelaxTails, "incomplete register tiles repeat their last element instead of testing each"},
      {"InjectVirtualThread", InjectVirtualThread, "virtual threads become copies of the loop's body"},
      {"InjectDoubleBuffer", InjectDoubleBuffer, "marked buffers are filled one iteration ahead"},
      {"HoistIfThenElse", HoistIfThenElse, "conditions that a loop doesn't change are tested before it"},
      {"VectorizeLoop", VectorizeLoop, "vectorised loops become vector expressions"},
      {"CoalesceStridedAccess", CoalesceStridedAccess, "vectors of elements at small distances are read as vectors"},
      {"StorageRewrite", StorageRewrite, "allocations share memory where their lives don't overlap"},
      {"UnrollLoop", UnrollLoop, "unrolled loops are written out"},
      {"Simplify", SimplifyFunc, "what partition and unrolling made constant is folded"},
      {"TransposeLoads", TransposeLoads, "vectors across rows of memory are read as rows"},
      {"InterleaveStores", InterleaveStores, "vectors that are stored between each other become one"},
      {"TrimLists", TrimLists, "loops over lists of different lengths end where their list does"},
      {"CommonSubexpr", CommonSubexpr, "equal subexpressions are computed once"},
      {"LegalizeNarrowFloat", LegalizeNarrowFloat, "16-bit floats are computed with as float32"},
      {"LowerIntrin", LowerIntrin, "mathematical functions become arithmetic"},
      {"RemoveNoOp", RemoveNoOp, "statements without effect are removed"},
      {"ConvertSSA", ConvertSSA, "each place that binds a variable gets one of its own"},
  };
  return passes;
}

}  // namespace treadle::tir
