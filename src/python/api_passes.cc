// SPDX-License-Identifier: Apache-2.0
// Passes of the graph IR that take parameters, and questions about its expressions. Passes without parameters are
// found by name (transform.GetPass).
#include "driver/memory/memory_plan.h"
#include "passes/split_args.h"
#include "python/checked.h"
#include "treadle/ops/attrs/annotation.h"
#include "treadle/passes/passes.h"

#include "treadle/relay/device.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/relay/mac_count.h"
#include "treadle/relay/type_infer.h"

namespace treadle::python {

using runtime::PackedFunc;
using runtime::Registry;

namespace {

/// driver::StorageInfo as Python sees it.
class StorageInfoNode : public Object {
 public:
  std::vector<int64_t> storage_ids, device_types, storage_sizes, offsets;
  TREADLE_NODE(StorageInfoNode, Object, "relay.StorageInfo")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("storage_ids", &StorageInfoNode::storage_ids);
    r.Field("device_types", &StorageInfoNode::device_types);
    r.Field("storage_sizes", &StorageInfoNode::storage_sizes);
    r.Field("offsets", &StorageInfoNode::offsets);
  }
};

/// Planner "" and "relay": as Relay plans a fused function, in which reshapes have memory of their own; "arena": the
/// default of builds.
Map<RelayExpr, ObjectRef> PlanMemory(relay::Function func, std::string planner) {
  if (!func.defined()) throw DTypeError("a plan is made of a relay.Function, not of null");
  bool arena = planner == "arena";
  if (!arena && !planner.empty() && planner != "relay") {
    throw Error(StrCat("unknown memory planner '", planner, "'; there are relay and arena"));
  }
  auto kind = arena ? driver::MemoryPlanner::kArena : driver::MemoryPlanner::kRelay;
  Map<RelayExpr, ObjectRef> result;
  for (const auto& [expr, info] : driver::GraphPlanMemory(func, kind, /*share_reshapes=*/arena)) {
    auto node = MakeObject<StorageInfoNode>();
    node->storage_ids = info.storage_ids;
    node->device_types.assign(info.device_types.begin(), info.device_types.end());
    node->storage_sizes = info.sizes;
    node->offsets = info.offsets;
    result.Set(expr, ObjectRef(ObjectPtr<Object>(node)));
  }
  return result;
}

void RegisterParameterisedPasses() {
  namespace transform = relay::transform;
  RegisterChecked("relay._transform.FuseOps", [](int level) { return transform::FuseOps(level); });
  RegisterChecked("relay._transform.DeadCodeElimination",
                  [](bool inline_once, bool) { return transform::DeadCodeElimination(inline_once); });
  RegisterChecked("relay._transform.EliminateCommonSubexpr", [](OrNull<PackedFunc> skip) {
    if (skip == nullptr) return transform::EliminateCommonSubexpr();
    return transform::EliminateCommonSubexpr([skip](const RelayExpr& expr) { return skip(expr).As<bool>(); });
  });
  RegisterChecked("relay._transform.RemoveUnusedFunctions", [](Array<String> entries) {
    std::vector<std::string> names;
    for (const String& entry : entries) names.push_back(entry.str());
    return transform::RemoveUnusedFunctions(names);
  });
  RegisterChecked("relay._transform.CombineParallelConv2D",
                  [](int branches) { return transform::CombineParallelConv2D(branches); });
  RegisterChecked("relay._transform.CombineParallelDense",
                  [](int branches, bool to_batch) { return transform::CombineParallelDense(branches, to_batch); });
  RegisterChecked("relay._transform.SplitArgs", [](int limit) { return transform::SplitArgs(limit); });
  RegisterChecked("relay._transform.CombineParallelBatchMatmul",
                  [](int branches) { return transform::CombineParallelBatchMatmul(branches); });
  RegisterChecked("relay._transform.RewriteAnnotatedOps",
                  [](int fallback) { return transform::RewriteAnnotatedOps(fallback); });
  RegisterChecked("relay._transform.gradient", [](relay::Function func) { return relay::Gradient(func); });
  RegisterChecked("relay._transform.ToMixedPrecision",
                  [](std::string type, int missing) { return transform::ToMixedPrecision(type, missing); });
  RegisterChecked("relay._transform.ConvertLayout",
                  [](Map<String, Array<String>> layouts) { return transform::ConvertLayout(layouts); });
  RegisterChecked("relay.analysis.unmatched_cases", [](relay::Match match, OrNull<IRModule> module) {
    Array<String> cases;
    for (const std::string& text : relay::UnmatchedCases(match, module)) cases.push_back(text);
    return cases;
  });
  RegisterChecked("relay._transform.PlanDevices", [](int device) { return transform::PlanDevices(device); });
  RegisterChecked("relay._transform.AnnotateTarget", [](Array<String> compilers, bool non_calls) {
    return transform::AnnotateTarget(compilers, non_calls);
  });
  RegisterChecked("relay._transform.PartitionGraph", [](std::string name) { return transform::PartitionGraph(name); });
  RegisterChecked("relay._transform.MakeFunctionPass",
                  [](PackedFunc run, std::string name, int opt_level, Array<String> required) {
                    transform::PassInfo info{name, opt_level, {}, ""};
                    for (const String& pass : required) info.required.push_back(pass.str());
                    return transform::CreateFunctionPass(
                        [run, name](relay::Function func, IRModule module, transform::PassContext context) {
                          auto result = run(func, module, context).As<relay::Function>();
                          if (result.defined()) return result;
                          throw DTypeError(StrCat("pass ", name, " returned nothing; expected a Function"));
                        },
                        info);
                  });
}

}  // namespace

void RegisterPassesApi() {
  RegisterParameterisedPasses();
  Registry::Register("relay.backend.GraphPlanMemory", PackedFunc([](runtime::Args args, runtime::RetValue* rv) {
                       *rv =
                           PlanMemory(args[0].As<relay::Function>(), args.size() > 1 ? args[1].As<std::string>() : "");
                     }));
  RegisterChecked("relay.transform.FusionReport", [](IRModule module, int level) {
    return relay::transform::FusionReport(module, relay::transform::PassContext::Current(), level);
  });
  RegisterChecked("relay.ir.Bind",
                  [](RelayExpr expr, Map<relay::Var, RelayExpr> args) { return relay::Bind(expr, args); });
  RegisterChecked("relay.analysis.CollectDeviceInfo", [](RelayExpr expr) {
    Map<RelayExpr, IntImm> devices;
    for (const auto& [e, device] : relay::CollectDeviceInfo(expr)) devices.Set(e, IntImm(DataType::Int(64), device));
    return devices;
  });
  RegisterChecked("relay.analysis.CollectDeviceAnnotationOps", [](RelayExpr expr) {
    Map<RelayExpr, IntImm> devices;
    relay::PostOrderVisit(expr, [&](const RelayExpr& e) {
      const auto* call = e.as<relay::CallNode>();
      const auto* attrs = call == nullptr ? nullptr : call->attrs.as<ops::OnDeviceAttrs>();
      if (attrs != nullptr) devices.Set(e, IntImm(DataType::Int(64), attrs->device_type));
    });
    return devices;
  });
  RegisterChecked("relay.analysis.total_mac_count", [](RelayExpr expr) { return relay::TotalMacCount(expr); });
  RegisterChecked("relay.analysis.free_vars", [](RelayExpr expr) { return relay::FreeVars(expr); });
  RegisterChecked("relay.analysis.all_vars", [](RelayExpr expr) { return relay::AllVars(expr); });
  RegisterChecked("relay.analysis.bound_vars", [](RelayExpr expr) { return relay::BoundVars(expr); });
  RegisterChecked("relay.analysis.well_formed", [](RelayExpr expr) { return relay::WellFormed(expr); });
  RegisterChecked("relay.analysis.post_order_visit", [](RelayExpr expr, PackedFunc visit) {
    relay::PostOrderVisit(expr, [&](const RelayExpr& node) { visit(node); });
  });
}

}  // namespace treadle::python
