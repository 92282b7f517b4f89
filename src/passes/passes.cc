// SPDX-License-Identifier: Apache-2.0
// The one list of passes over graph IR that can be named: in `required`, on the command line and in Python.
#include "treadle/passes/passes.h"

#include "passes/check_indices.h"
#include "passes/constant_arguments.h"
#include "passes/fuse_attention.h"
#include "passes/fuse_rows.h"
#include "passes/fuse_siblings.h"
#include "passes/qnn_passes.h"
#include "passes/recognize_activations.h"
#include "passes/reshape_last.h"
#include "passes/share_kernels.h"
#include "passes/split_args.h"
#include "passes/split_reshapes.h"
#include "passes/widen_floats.h"

namespace treadle::relay {

void RegisterFuseOpsOptions();

void RegisterPasses() {
  using treadle::transform::RegisterPass;
  RegisterFuseOpsOptions();
  transform::RegisterWidenFloatsOption();
  RegisterPass("InferType", [] { return transform::InferType(); });
  RegisterPass("FuseOps", [] { return transform::FuseOps(); });
  RegisterPass("DefuseOps", [] { return transform::DefuseOps(); });
  RegisterPass("SimplifyInference", [] { return transform::SimplifyInference(); });
  RegisterPass("FoldConstant", [] { return transform::FoldConstant(); });
  RegisterPass("SimplifyExpr", [] { return transform::SimplifyExpr(); });
  RegisterPass("EliminateCommonSubexpr", [] { return transform::EliminateCommonSubexpr(); });
  RegisterPass("DeadCodeElimination", [] { return transform::DeadCodeElimination(); });
  RegisterPass("RemoveUnusedFunctions", [] { return transform::RemoveUnusedFunctions(); });
  RegisterPass("PropagateConstantArguments", [] { return transform::PropagateConstantArguments(); });
  RegisterPass("Inline", [] { return transform::Inline(); });
  RegisterPass("CanonicalizeOps", [] { return transform::CanonicalizeOps(); });
  RegisterPass("FuseAttention", [] { return transform::FuseAttention(); });
  RegisterPass("CanonicalizeCast", [] { return transform::CanonicalizeCast(); });
  RegisterPass("DynamicToStatic", [] { return transform::DynamicToStatic(); });
  RegisterPass("RecognizeActivations", [] { return transform::RecognizeActivations(); });
  RegisterPass("ReshapeLast", [] { return transform::ReshapeLast(); });
  RegisterPass("FakeQuantizationToInteger", [] { return transform::FakeQuantizationToInteger(); });
  RegisterPass("PackBlockWeights", [] { return transform::PackBlockWeights(); });
  RegisterPass("QnnCanonicalize", [] { return transform::QnnCanonicalize(); });
  RegisterPass("FastMath", [] { return transform::FastMath(); });
  RegisterPass("Legalize", [] { return transform::Legalize(); });
  RegisterPass("BackwardFoldScaleAxis", [] { return transform::BackwardFoldScaleAxis(); });
  RegisterPass("ForwardFoldScaleAxis", [] { return transform::ForwardFoldScaleAxis(); });
  RegisterPass("FoldScaleAxis", [] { return transform::FoldScaleAxis(); });
  RegisterPass("MergeSummedConvs", [] { return transform::MergeSummedConvs(); });
  RegisterPass("PoolBeforePointwise", [] { return transform::PoolBeforePointwise(); });
  RegisterPass("PointwiseBeforeResize", [] { return transform::PointwiseBeforeResize(); });
  RegisterPass("Rematerialize", [] { return transform::Rematerialize(); });
  RegisterPass("ToANormalForm", [] { return transform::ToANormalForm(); });
  RegisterPass("ToGraphNormalForm", [] { return transform::ToGraphNormalForm(); });
  RegisterPass("ToBasicBlockNormalForm", [] { return transform::ToBasicBlockNormalForm(); });
  RegisterPass("MergeCompilerRegions", [] { return transform::MergeCompilerRegions(); });
  RegisterPass("PartitionGraph", [] { return transform::PartitionGraph(); });
  RegisterPass("CombineParallelConv2D", [] { return transform::CombineParallelConv2D(); });
  RegisterPass("CombineParallelDense", [] { return transform::CombineParallelDense(); });
  RegisterPass("CombineParallelBatchMatmul", [] { return transform::CombineParallelBatchMatmul(); });
  RegisterPass("LambdaLift", [] { return transform::LambdaLift(); });
  RegisterPass("PartialEvaluate", [] { return transform::PartialEvaluate(); });
  RegisterPass("ToMixedPrecision", [] { return transform::ToMixedPrecision(); });
  RegisterPass("FirstOrderGradient", [] { return transform::FirstOrderGradient(); });
  RegisterPass("AlterOpLayout", [] { return transform::AlterOpLayout(); });
  RegisterPass("PlanDevices", [] { return transform::PlanDevices(/*default_device_type=*/1); });
  RegisterPass("CheckIndices", [] { return transform::CheckIndices(); });
  RegisterPass("SplitArgs", [] { return transform::SplitArgs(transform::kMaxJoined); });
  RegisterPass("SplitReshapes", [] { return transform::SplitReshapes(); });
  RegisterPass("FuseRows", [] { return transform::FuseRows(); });
  RegisterPass("FuseSiblings", [] { return transform::FuseSiblings(int64_t{1} << 20); });
  RegisterPass("ShareKernels", [] { return transform::ShareKernels(); });
  RegisterPass("LabelOps", [] { return transform::LabelOps(); });
  RegisterPass("WidenFloats", [] { return transform::WidenFloats(); });
}

}  // namespace treadle::relay
