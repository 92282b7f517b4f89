// SPDX-License-Identifier: Apache-2.0
// The passes over graph IR. Each factory gives a pass; `pass(module)` runs it. All are pure: the module that comes in
// stays as it is. Passes need checked types and leave them behind.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "treadle/relay/transform.h"

namespace treadle::relay {

/// Registers the passes of this header by name, and their options. Idempotent.
void RegisterPasses();

/// Options of the pass context that FuseOps reads.
inline constexpr const char* kFuseMaxDepth = "relay.FuseOps.max_depth";
inline constexpr const char* kFuseMaxArgs = "relay.FuseOps.max_function_args";
inline constexpr const char* kFuseLinkParams = "relay.FuseOps.link_params";

/// Computes a closed, typed expression whose leaves are constants; the result is a Constant or a Tuple of them.
/// Null result: can't (too large, too slow, no rule); the expression is left as it is.
using ConstantEvaluator = std::function<Expr(const Expr& expr)>;
/// Sets what FoldConstant computes with, in place of the built-in evaluator of small cases. Process-wide.
void SetConstantEvaluator(ConstantEvaluator evaluator);
const ConstantEvaluator& GetConstantEvaluator();

namespace transform {

using treadle::transform::CreateModulePass;
using treadle::transform::Sequential;

// Fusion.
/// Groups operators into functions with attribute Primitive; each becomes one kernel. Level -1: that of the context;
/// 0: each operator alone.
Pass FuseOps(int fuse_opt_level = -1);
/// Inlines primitive functions back.
Pass DefuseOps();
/// The groups that FuseOps would form in `module`, and for each node that stays apart the reason why.
std::string FusionReport(const IRModule& module, const PassContext& context, int fuse_opt_level = -1);

// Simplification.
/// Rewrites operators of training into those of inference: batch_norm and the other norms into arithmetic, dropout
/// into its input.
Pass SimplifyInference();
/// Replaces what depends on constants only by its value.
Pass FoldConstant();
/// Algebraic identities: x + 0, reshape of reshape, pairs of transposes, casts to the same type, ...
Pass SimplifyExpr();
/// Merges calls of one operator with equal attributes and arguments.
Pass EliminateCommonSubexpr(std::function<bool(const Expr&)> skip = nullptr);
/// Removes lets whose variable isn't used (and whose value has no effect); inlines those used once if asked to.
Pass DeadCodeElimination(bool inline_once = false);
/// Removes global functions that can't be reached from `entries`.
Pass RemoveUnusedFunctions(std::vector<std::string> entries = {"main"});
/// Inlines global functions with attribute Inline.
Pass Inline();
/// Moves scaling by a constant along the channels into the weights of the operator before or after.
Pass BackwardFoldScaleAxis();
Pass ForwardFoldScaleAxis();
/// Both directions and constant folding.
Pass FoldScaleAxis();
/// Convolutions of one input that are added, and the input itself, become one convolution.
Pass MergeSummedConvs();
/// Average pools of convolutions of single pixels become convolutions of the pooled input.
Pass PoolBeforePointwise();
/// Convolutions of single pixels of enlarged images become enlarged convolutions.
Pass PointwiseBeforeResize();
/// Cheap arithmetic on what is in memory anyway is computed for each of its consumers, one of which is a reduction.
Pass Rematerialize();
/// bias_add becomes expand_dims and add.
Pass CanonicalizeOps();
/// An upcast that several element-wise consumers use is cloned into each, so that it fuses with all.
Pass CanonicalizeCast();
/// Replaces dyn.* operators by their static twins where the operands that give shapes are constants.
Pass DynamicToStatic();
/// Batches operators of one kind that share their input; from `min_num_branches` on.
Pass CombineParallelConv2D(int min_num_branches = 3);
Pass CombineParallelDense(int min_num_branches = 3, bool to_batch_matmul = true);
Pass CombineParallelBatchMatmul(int min_num_branches = 3);
/// exp, erf, tanh, softmax become their fast approximations.
Pass FastMath();
/// Rewrites each call by its operator's rule kLegalize.
Pass Legalize();
/// Computes in `mixed_type` ("float16", "bfloat16") what tolerates it. `missing_op_mode`: 0 an operator without a
/// rule is an error, 1 follows its inputs, 2 stays in float32.
Pass ToMixedPrecision(std::string mixed_type = "float16", int missing_op_mode = 1);
/// Runs layout-sensitive operators in other layouts: operator name -> {data layout, kernel layout or "default"}.
Pass ConvertLayout(Map<String, Array<String>> desired_layouts);
/// Rewrites calls by their operators' rule kAlterOpLayout and propagates the layouts.
Pass AlterOpLayout();

// Forms of the program.
/// Each intermediate value is bound by a let.
Pass ToANormalForm();
/// Lets are replaced by sharing.
Pass ToGraphNormalForm();
/// Values shared between scopes (branches, functions) are bound by let in the innermost scope that holds all uses.
Pass ToBasicBlockNormalForm();
/// Closures become global functions.
Pass LambdaLift();
/// Evaluates what is known at compile time, control flow and function calls included.
Pass PartialEvaluate();
/// The gradient of each function annotated so; see Gradient() for one function.
Pass FirstOrderGradient();
/// Sets attributes hash and those named *layout* on primitive functions.
Pass LabelOps();

// Devices.
/// Inserts copies along the edges between annotated devices and removes the annotations.
Pass RewriteAnnotatedOps(int fallback_device_type);
/// Gives every value a device, where annotations don't say one the default: functions get the attributes
/// param_device_types and result_device_type, device_copy moves values, on_device(is_fixed=True) says where a value is
/// that isn't where its surroundings are. An Error where annotations contradict each other.
Pass PlanDevices(int default_device_type);
// External code generators.
/// Encloses what the external code generators take in annotations (byoc.h says what they take).
Pass AnnotateTarget(Array<String> compilers, bool include_non_call_ops = true);
Pass MergeCompilerRegions();
Pass PartitionGraph(std::string mod_name = "default");

}  // namespace transform

/// `func` returns the pair (result, (gradients of the parameters...)); first order, of data flow.
Function Gradient(const Function& func);

}  // namespace treadle::relay
