// SPDX-License-Identifier: Apache-2.0
#include "driver/build/optimize.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "driver/build/kept_layers.h"
#include "driver/graph/why_not_graph.h"
#include "driver/lower/compile_engine.h"
#include "driver/lower/device_code.h"
#include "driver/vm/size_rules.h"
#include "ir/accuracy.h"
#include "passes/check_indices.h"
#include "passes/constant_arguments.h"
#include "passes/fuse_rows.h"
#include "passes/fuse_siblings.h"
#include "passes/qnn_passes.h"
#include "passes/recognize_activations.h"
#include "passes/reshape_last.h"
#include "passes/share_kernels.h"
#include "passes/split_args.h"
#include "passes/split_reshapes.h"
#include "passes/widen_floats.h"
#include "treadle/ops/attrs/annotation.h"
#include "treadle/passes/passes.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/relay/transform.h"
#include "treadle/targets/target_spec.h"

namespace treadle::driver {

using namespace relay::transform;  // NOLINT(google-build-using-namespace): the list reads best with bare names

IRModule BindParams(IRModule module, const ParamList& params) {
  if (params.empty()) return module;
  auto main = Downcast<relay::Function>(module->Lookup("main"));
  Map<relay::Var, relay::Expr> bindings;
  for (const auto& [name, value] : params) {
    relay::Var found;
    for (const relay::Var& param : main->params) {
      if (param->name_hint() != name) continue;
      if (found.defined()) throw Error(StrCat("main has several parameters named '", name, "'"));
      found = param;
    }
    if (!found.defined()) throw Error(StrCat("main has no parameter '", name, "' to bind a value to"));
    bindings.Set(found, relay::Constant(value, Span(name)));
  }
  IRModule result = module;
  result.CopyOnWrite()->Add(module->GetGlobalVar("main"), Downcast<relay::Function>(relay::Bind(main, bindings)));
  return result;
}

namespace {

/// Functions that were given to external code generators before stay global: passes over main would change them.
Pass InlineOwnFunctions() {
  return CreateModulePass(
      [](const IRModule& module, const PassContext&) {
        IRModule marked = module;
        std::vector<std::pair<GlobalVar, relay::Function>> external;
        for (const auto& [var, base] : module->functions) {
          if (base.as<relay::FunctionNode>() == nullptr || !base->GetAttr<ObjectRef>(attr::kCompiler)) continue;
          auto func = Downcast<relay::Function>(base);
          external.emplace_back(var, func);
          marked.CopyOnWrite()->Add(var, WithAttr(func, attr::kInline, ObjectRef()));
        }
        IRModule result = Inline()(marked);
        for (const auto& [var, func] : external) result.CopyOnWrite()->Add(result->GetGlobalVar(var->name_hint), func);
        return result;
      },
      {"InlineOwnFunctions", 0, {}, "Inlines functions marked Inline but those of external code generators"});
}

/// Lets and calls of closures are written as data flow where nothing else is left, which the graph executor runs:
/// values that lets bind don't fuse.
Pass ToDataFlow() {
  return CreateModulePass(
      [](const IRModule& module, const PassContext& context) {
        bool lets = false, closures = false, others = false;
        VisitOutsideKernels(Downcast<relay::Function>(module->Lookup("main"))->body, [&](const relay::Expr& e) {
          const auto* func = e.as<relay::FunctionNode>();
          others = others || e.as<relay::IfNode>() || e.as<relay::MatchNode>() || e.as<relay::RefCreateNode>() ||
                   e.as<GlobalVarNode>() || e.as<ConstructorNode>();
          lets = lets || e.as<relay::LetNode>() != nullptr;
          closures = closures || (func != nullptr && !IsKernel(func));
        });
        if (others || (!lets && !closures)) return module;
        IRModule result = closures ? PartialEvaluate()(module, context) : module;
        result = FoldConstant()(ToGraphNormalForm()(result, context), context);
        return WhyNotGraph(result).empty() ? result : module;
      },
      {"ToDataFlow", 0, {"InferType"}, "Writes lets and calls of closures as data flow where nothing else is left"});
}

/// Kernels get tensors as arguments, those that fusion left inside (link_params), too, or that passes put into kernels
/// that were fused before: the library holds them either way.
class ConstantLifter : public relay::ExprMutator {
 public:
  using ExprMutator::VisitExpr_;
  relay::Expr VisitExpr_(const relay::CallNode* op) override {
    const auto* func = op->op.as<relay::FunctionNode>();
    if (func == nullptr || !func->is_primitive() || func->GetAttr<ObjectRef>(attr::kCompiler)) {
      return ExprMutator::VisitExpr_(op);
    }
    Array<relay::Expr> args = op->args.Map([this](const relay::Expr& arg) { return Mutate(arg); });
    Array<relay::Var> params = func->params;
    std::vector<relay::Constant> constants;
    relay::PostOrderVisit(func->body, [&](const relay::Expr& e) {
      const auto* constant = e.as<relay::ConstantNode>();
      if (constant != nullptr && !constant->is_scalar()) constants.push_back(Downcast<relay::Constant>(e));
    });
    if (constants.empty() && args.same_as(op->args)) return GetRef<relay::Expr>(op);
    Replacer replacer;
    for (const relay::Constant& constant : constants) {
      relay::Var param(StrCat("p", params.size()), constant->tensor_type(), constant->span);
      replacer.params.emplace(constant.get(), param);
      params.push_back(param);
      args.push_back(constant);
    }
    relay::Function lifted(params, replacer.Mutate(func->body), func->ret_type, func->type_params, func->attrs,
                           func->span);
    return relay::Call(lifted, args, op->attrs, op->type_args, op->span);
  }

 private:
  struct Replacer : relay::ExprMutator {
    std::map<const Object*, relay::Var> params;
    using ExprMutator::VisitExpr_;
    relay::Expr VisitExpr_(const relay::ConstantNode* op) override {
      auto it = params.find(op);
      return it == params.end() ? GetRef<relay::Expr>(op) : relay::Expr(it->second);
    }
  };
};

Pass LiftConstants() {
  return relay::transform::CreateFunctionPass(
      [](const relay::Function& func, const IRModule&, const PassContext&) {
        return Downcast<relay::Function>(ConstantLifter().Mutate(func));
      },
      {"LiftConstants", 0, {"InferType"}, "Makes tensors inside of kernels their arguments"});
}

/// What executors call must stand where it is called, whether or not whoever made the functions marked them Inline.
Pass InlineExternalFunctions() {
  return CreateModulePass(
      [](const IRModule& module, const PassContext&) {
        IRModule marked = module;
        for (const auto& [var, base] : module->functions) {
          const auto* func = base.as<relay::FunctionNode>();
          if (func == nullptr || !func->GetAttr<ObjectRef>(attr::kCompiler) || func->HasNonzeroAttr(attr::kInline)) {
            continue;
          }
          marked.CopyOnWrite()->Add(
              var, WithAttr(GetRef<relay::Function>(func), attr::kInline, IntImm(DataType::Int(32), 1)));
        }
        return Inline()(marked);
      },
      {"InlineExternalFunctions", 0, {}, "Makes external functions the callees of main"});
}

}  // namespace

std::vector<Pass> OptimizationPasses(const BuildTargets& build, const Pass& partition) {
  const bool one_device = !build.heterogeneous();
  std::vector<Pass> passes = {
      InferType(),
      RemoveUnusedFunctions(),
      InlineOwnFunctions(),
      ToDataFlow(),
      // Values that branches and functions share are computed once, before them.
      ToBasicBlockNormalForm(),
      Legalize(),
      // Quantised operators become plain ones on integers before anything looks at what is computed.
      PackBlockWeights(),
      FakeQuantizationToInteger(),
      QnnCanonicalize(),
      // What only training needs goes first: everything after sees arithmetic.
      SimplifyInference(),
      DynamicToStatic(),
      FoldConstant(),
      // Weights that loops hand on are constants from here on, as others are.
      PropagateConstantArguments(),
      FoldConstant(),
  };
  const targets::TargetSpec& spec = targets::GetTargetSpec(build.default_target());
  if (one_device && spec.early_passes) {
    const auto quantised = std::find_if(
        passes.begin(), passes.end(), [](const Pass& pass) { return pass->info.name == "FakeQuantizationToInteger"; });
    const std::vector<Pass> early = spec.early_passes(build.default_target());
    passes.insert(quantised, early.begin(), early.end());
  }
  if (PassContext::Current()->GetConfigBool(kWidenFloats, false)) passes.insert(passes.begin(), WidenFloats());
  passes.push_back(CheckIndices());
  // Equal or parallel calls may be on different devices.
  if (one_device) passes.push_back(EliminateCommonSubexpr());
  passes.push_back(SimplifyExpr());
  if (one_device) {
    // One wide kernel for parallel ones: kernels use all threads as it is, so this is for level 4 only.
    passes.push_back(CombineParallelConv2D());
    passes.push_back(CombineParallelDense());
    passes.push_back(CombineParallelBatchMatmul());
  }
  passes.push_back(CanonicalizeCast());
  passes.push_back(CanonicalizeOps());
  passes.push_back(FoldConstant());
  // Scales are constants now, sums are additions, and weights are still in the layouts that models state.
  passes.push_back(BackwardFoldScaleAxis());
  passes.push_back(ForwardFoldScaleAxis());
  passes.push_back(FoldConstant());
  // Branches without their scales are sums of convolutions; a scale of such a sum can be folded when it is one.
  passes.push_back(MergeSummedConvs());
  passes.push_back(BackwardFoldScaleAxis());
  passes.push_back(PoolBeforePointwise());
  passes.push_back(PointwiseBeforeResize());
  passes.push_back(FoldConstant());
  // External code generators see the operators of the model, in its layouts.
  if (partition.defined()) passes.push_back(partition);
  // Rules that users register for operators (register_alter_op_layout) come before Treadle's own plan.
  passes.push_back(AlterOpLayout());
  passes.push_back(RecognizeActivations());
  if (treadle::transform::CurrentAccuracy() != treadle::transform::Accuracy::kStrict) passes.push_back(FastMath());
  // Layouts are chosen when the graph has its final operators, and before fusion, which must not cross a change.
  // A model on several devices keeps the layouts that it states.
  if (one_device && spec.graph_passes) {
    for (const Pass& pass : spec.graph_passes(build.default_target())) passes.push_back(pass);
  }
  passes.push_back(ReshapeLast());
  passes.push_back(SimplifyExpr());
  passes.push_back(FoldConstant());
  if (one_device) passes.push_back(EliminateCommonSubexpr());
  passes.push_back(Rematerialize());
  passes.push_back(SplitArgs(kMaxJoined));
  passes.push_back(FuseOps());
  passes.push_back(SplitReshapes());
  const Target& target = build.default_target();
  if (one_device && !IsDevice(target)) {
    const PassContext context = PassContext::Current();
    if (context->GetConfigBool(relay::kFuseRows, true)) passes.push_back(FuseRows());
    if (context->GetConfigBool(relay::kFuseSiblings, false)) {
      passes.push_back(FuseSiblings(target->Features().l2_bytes));
    }
  }
  passes.push_back(LiftConstants());
  // Layers of a quantised network differ in scales: they are arguments of one kernel, not reasons for many.
  if (one_device) passes.push_back(ShareKernels());
  passes.push_back(InlineExternalFunctions());
  passes.push_back(LabelOps());
  passes.push_back(InferType());
  return passes;
}

IRModule PlaceOnDevices(IRModule module, BuildTargets* targets) {
  auto main = Downcast<relay::Function>(module->Lookup("main"));
  std::set<int> annotated;
  bool copies = false;
  auto visit = [&](const relay::Expr& e) {
    const auto* call = e.as<relay::CallNode>();
    const auto* op = call == nullptr ? nullptr : call->op.as<OpNode>();
    if (op == nullptr) return;
    if (op->name == "on_device") annotated.insert(call->attrs_as<ops::OnDeviceAttrs>()->device_type);
    copies |= op->name == "device_copy";
  };
  relay::PostOrderVisit(main, visit);
  if (annotated.empty()) return module;
  for (int device : annotated) targets->ForDevice(device);
  module = RewriteAnnotatedOps(targets->default_device())(module);
  const std::set<int> devices = annotated;
  copies = false;
  relay::PostOrderVisit(Downcast<relay::Function>(module->Lookup("main")), visit);
  if (!copies && targets->heterogeneous()) {
    TREADLE_ICHECK(devices.size() == 1) << "values on several devices without copies between them";
    targets->fallback_device = *devices.begin();
  }
  return module;
}

namespace {

/// The current context, with the limit of the targets to the arguments of a kernel where none is given.
PassContext ContextFor(const BuildTargets& build) {
  PassContext context = PassContext::Current();
  int64_t limit = 0;
  for (const auto& [device, target] : build.by_device) {
    const int64_t own = target->GetIntAttr("max_function_args", targets::GetTargetSpec(target).max_function_args);
    if (own > 0) limit = limit == 0 ? own : std::min(limit, own);
  }
  if (limit > 0 && !context->config.contains(relay::kFuseMaxArgs)) {
    context.CopyOnWrite()->config.Set(relay::kFuseMaxArgs, IntImm(DataType::Int(64), limit));
  }
  return context;
}

}  // namespace

IRModule Optimize(IRModule module, BuildTargets* targets, const FusionObserver& before_fusion, const Pass& partition) {
  CheckKeptLayers(module, PassContext::Current());
  module = StateSizeRules(PlaceOnDevices(std::move(module), targets));
  std::vector<Pass> passes = OptimizationPasses(*targets, partition);
  if (before_fusion) {
    auto fuse = std::find_if(passes.begin(), passes.end(), [](const Pass& p) { return p->info.name == "FuseOps"; });
    auto observe = [&](IRModule before, const PassContext& context) {
      before_fusion(before, context);
      return before;
    };
    passes.insert(fuse, CreateModulePass(observe, {"ObserveFusion", 0, {}, "Shows what fusion gets"}));
  }
  return Sequential(passes, "optimize")(std::move(module), ContextFor(*targets));
}

}  // namespace treadle::driver
