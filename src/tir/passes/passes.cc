// SPDX-License-Identifier: Apache-2.0
#include "tir/passes/passes.h"

namespace treadle::tir {

const std::vector<LoweringPass>& LoweringPasses() {
  static const std::vector<LoweringPass> passes = {
      {"LowerInit", LowerInit, "reductions are initialised before their loops"},
      {"LowerBlocks", LowerBlocks, "blocks become plain statements, buffers are allocated where they are used"},
      {"FlattenBuffer", FlattenBuffer, "buffers become one-dimensional"},
      {"Simplify", SimplifyFunc, "index arithmetic in normal form, decided conditions removed"},
      {"VectorizeLoop", VectorizeLoop, "vectorised loops become vector expressions"},
      {"UnrollLoop", UnrollLoop, "unrolled loops are written out"},
      {"LowerIntrin", LowerIntrin, "mathematical functions become arithmetic"},
      {"RemoveNoOp", RemoveNoOp, "statements without effect are removed"},
  };
  return passes;
}

}  // namespace treadle::tir
