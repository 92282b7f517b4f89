// SPDX-License-Identifier: Apache-2.0
#include "driver/scripts/build_functions.h"

#include <map>

#include "driver/build/optimize.h"
#include "driver/graph/graph_executor_codegen.h"
#include "treadle/driver/compile.h"
#include "treadle/ir/transform.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/runtime/registry.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::driver {
namespace {

using runtime::Args;
using runtime::ArgValue;
using runtime::Module;
using runtime::NDArray;
using runtime::PackedFunc;
using runtime::RetValue;

/// Memory that one function needs, by target.
class FunctionInfoNode : public Object {
 public:
  Map<Target, IntImm> workspace_sizes;  ///< bytes of intermediate values
  Map<Target, IntImm> io_sizes;         ///< of results (of the whole graph: of inputs and results)
  Map<Target, IntImm> constant_sizes;
  Map<Target, ObjectRef> tir_primfuncs, relay_primfuncs;
  TREADLE_NODE(FunctionInfoNode, Object, "relay.backend.FunctionInfo")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("workspace_sizes", &FunctionInfoNode::workspace_sizes);
    r.Field("io_sizes", &FunctionInfoNode::io_sizes);
    r.Field("constant_sizes", &FunctionInfoNode::constant_sizes);
    r.Field("tir_primfuncs", &FunctionInfoNode::tir_primfuncs);
    r.Field("relay_primfuncs", &FunctionInfoNode::relay_primfuncs);
  }
};

IntImm Int(int64_t value) { return IntImm(DataType::Int(64), value); }

int64_t BytesOf(const Type& type) {
  if (const auto* tuple = type.as<TupleTypeNode>()) {
    int64_t sum = 0;
    for (const Type& field : tuple->fields) sum += BytesOf(field);
    return sum;
  }
  const auto* tensor = type.as<TensorTypeNode>();
  return tensor == nullptr ? 0 : runtime::TensorBytes(StaticShape(tensor, "a function's memory"), tensor->dtype);
}

/// Bytes of the buffers that a lowered function allocates, all together.
class WorkspaceVisitor : public tir::StmtVisitor {
 public:
  int64_t bytes = 0;

 private:
  using tir::StmtVisitor::VisitStmt_;
  void VisitStmt_(const tir::AllocateNode* op) override {
    int64_t size = runtime::ElementBytes(op->buffer->dtype);
    for (const PrimExpr& extent : op->buffer->shape) {
      const int64_t* value = AsConstInt(extent);
      size *= value == nullptr ? 0 : *value;
    }
    bytes += size;
    StmtVisitor::VisitStmt_(op);
  }
};

int64_t WorkspaceBytes(const tir::PrimFunc& func) {
  WorkspaceVisitor visitor;
  visitor(func->body);
  return visitor.bytes;
}

/// The targets of an argument: null, a target, its text, or a map from device type (a number, or its text) to those.
void ReadTargets(const ArgValue& arg, CompileOptions* options) {
  if (arg.is_null()) return;
  auto text_of = [](const ObjectRef& object) {
    if (const auto* text = object.as<StringNode>()) return text->value;
    return Downcast<Target>(object).str();
  };
  ObjectRef object = arg.AsObjectRef();
  if (object.as<MapNode>() == nullptr) {
    options->target = text_of(object);
    return;
  }
  for (const auto& [device, target] : Downcast<Map<ObjectRef, ObjectRef>>(object)) {
    int type = 0;
    if (const auto* number = device.as<IntImmNode>()) {
      type = static_cast<int>(number->value);
    } else if (const auto* name = device.as<StringNode>()) {
      const bool digits = name->value.find_first_not_of("0123456789") == std::string::npos && !name->value.empty();
      type = digits ? std::stoi(name->value) : static_cast<int>(runtime::DeviceTypeFromName(name->value));
    } else {
      throw DTypeError("targets are a map from device types (numbers) to targets");
    }
    options->device_targets[type] = text_of(target);
  }
}

Map<String, ObjectRef> FunctionMetadata(const GraphCode& code, const BuildTargets& targets) {
  Map<String, ObjectRef> result;
  code.engine->LowerAll(1);
  for (const auto& kernel : code.engine->kernels()) {
    auto info = MakeObject<FunctionInfoNode>();
    info->workspace_sizes.Set(kernel->target, Int(WorkspaceBytes(kernel->lowered)));
    info->io_sizes.Set(kernel->target, Int(BytesOf(kernel->source->body->checked_type())));
    info->constant_sizes.Set(kernel->target, Int(0));
    info->tir_primfuncs.Set(kernel->target, kernel->lowered);
    info->relay_primfuncs.Set(kernel->target, kernel->source);
    result.Set(kernel->symbol, ObjectRef(ObjectPtr<Object>(info)));
  }
  int64_t constants = 0, inputs = 0, workspace = 0;
  for (const auto& [name, value] : code.graph.params) constants += value.nbytes();
  for (const relay::Var& param : code.main->params) inputs += BytesOf(param->checked_type());
  std::map<int64_t, bool> fixed;
  for (const auto& [expr, info] : code.plan) {
    for (int64_t id : info.storage_ids) fixed[id] |= expr.as<relay::VarNode>() || expr.as<relay::ConstantNode>();
  }
  for (const auto& [id, bytes] : StorageSizes(code.plan)) workspace += fixed[id] ? 0 : bytes;
  auto info = MakeObject<FunctionInfoNode>();
  const Target& target = targets.default_target();
  info->workspace_sizes.Set(target, Int(workspace));
  info->io_sizes.Set(target, Int(inputs + BytesOf(code.main->body->checked_type())));
  info->constant_sizes.Set(target, Int(constants));
  info->relay_primfuncs.Set(target, code.main);
  result.Set("__tvm_main__", ObjectRef(ObjectPtr<Object>(info)));
  return result;
}

Map<String, IRModule> ToMap(const std::map<std::string, IRModule>& modules) {
  Map<String, IRModule> result;
  for (const auto& [target, module] : modules) result.Set(target, module);
  return result;
}

Map<String, NDArray> ToMap(const std::vector<std::pair<std::string, NDArray>>& params) {
  Map<String, NDArray> result;
  for (const auto& [name, value] : params) result.Set(name, value);
  return result;
}

/// A module whose functions are methods of the derived class.
class FunctionsModule : public runtime::ModuleNode {
 public:
  PackedFunc GetFunction(const std::string& name) const override {
    auto it = functions_.find(name);
    if (it == functions_.end()) return PackedFunc();
    return PackedFunc([self = GetRef<Module>(this), body = it->second](Args args, RetValue* ret) { body(args, ret); });
  }

 protected:
  std::map<std::string, PackedFunc::Body> functions_;
};

class GraphExecutorCodegenModule final : public FunctionsModule {
 public:
  GraphExecutorCodegenModule() {
    functions_["init"] = [this](Args args, RetValue*) {
      CompileOptions options;
      ReadTargets(args[args.size() - 1], &options);
      targets_ = ResolveTargets(options);
    };
    functions_["codegen"] = [this](Args args, RetValue*) {
      if (!targets_) throw Error("codegen: call init first, with the targets");
      auto func = args[0].As<relay::Function>();
      const std::string name =
          args.size() > 1 && args[args.size() - 1].IsText() ? args[args.size() - 1].AsString() : "default";
      relay::Function typed = Typed(func);
      code_ = GenerateGraphCode(typed, *targets_, name);
    };
    AddResults();
  }
  std::string module_type() const override { return "RelayGraphExecutorCodegenModule"; }
  TREADLE_NODE(GraphExecutorCodegenModule, runtime::ModuleNode, "driver.GraphExecutorCodegenModule")

 private:
  static relay::Function Typed(const relay::Function& func) {
    if (func->body->checked_type_.defined()) return func;
    IRModule module = IRModule::FromExpr(func);
    return Downcast<relay::Function>(transform::GetPass("InferType")(module)->Lookup("main"));
  }

  const GraphCode& Code() const {
    if (!code_) throw Error("there is no graph yet: call codegen first");
    return *code_;
  }

  const std::pair<std::string, NDArray>& Param(const std::string& name) const {
    for (const auto& param : Code().graph.params) {
      if (param.first == name) return param;
    }
    throw Error(StrCat("there is no parameter \"", name, "\""));
  }

  void AddResults() {
    functions_["get_graph_json"] = [this](Args, RetValue* ret) { *ret = Code().graph.json; };
    functions_["list_params_name"] = [this](Args, RetValue* ret) {
      Array<String> names;
      for (const auto& [name, value] : Code().graph.params) names.push_back(name);
      *ret = names;
    };
    functions_["get_param_by_name"] = [this](Args args, RetValue* ret) { *ret = Param(args[0].AsString()).second; };
    functions_["get_param_id"] = [this](Args args, RetValue* ret) {
      const std::string name = Param(args[0].AsString()).first;
      auto it = Code().param_storage.find(name);
      *ret = it == Code().param_storage.end() ? int64_t{-1} : it->second;
    };
    functions_["get_params"] = [this](Args, RetValue* ret) { *ret = ToMap(Code().graph.params); };
    functions_["get_irmodule"] = [this](Args, RetValue* ret) { *ret = ToMap(LoweredModules(Code().engine.get(), 1)); };
    functions_["get_external_modules"] = [this](Args, RetValue* ret) { *ret = Array<Module>(Code().external_modules); };
    functions_["get_metadata"] = [this](Args, RetValue* ret) {
      Map<String, Array<String>> metadata;
      for (const auto& [symbol, names] : Code().external_constants) {
        Array<String> list;
        for (const std::string& name : names) list.push_back(name);
        metadata.Set(symbol, list);
      }
      *ret = metadata;
    };
    functions_["get_function_metadata"] = [this](Args, RetValue* ret) { *ret = FunctionMetadata(Code(), *targets_); };
    functions_["get_memory_report"] = [this](Args, RetValue* ret) { *ret = Code().memory_report; };
  }

  std::optional<BuildTargets> targets_;
  std::optional<GraphCode> code_;
};

class RelayBuildModule final : public FunctionsModule {
 public:
  RelayBuildModule() {
    functions_["build"] = [this](Args args, RetValue*) { Build(args); };
    functions_["optimize"] = [this](Args args, RetValue* ret) {
      CompileOptions options;
      ReadTargets(args[1], &options);
      if (args.size() > 2) SetParams(args[2]);
      BuildTargets targets = ResolveTargets(options);
      *ret = driver::Optimize(BindParams(args[0].As<IRModule>(), params_), &targets);
    };
    functions_["set_params"] = [this](Args args, RetValue*) { SetParams(args[0]); };
    functions_["get_params"] = [this](Args, RetValue* ret) { *ret = ToMap(model_ ? model_->params : params_); };
    functions_["list_params"] = [this](Args, RetValue* ret) {
      Array<String> names;
      for (const auto& [name, value] : model_ ? model_->params : params_) names.push_back(name);
      *ret = names;
    };
    functions_["get_graph_json"] = [this](Args, RetValue* ret) { *ret = Model().graph_json; };
    functions_["get_module"] = [this](Args, RetValue* ret) { *ret = Model().library; };
    functions_["get_irmodule"] = [this](Args, RetValue* ret) { *ret = ToMap(Model().lowered()); };
    functions_["get_external_modules"] = [this](Args, RetValue* ret) {
      *ret = Array<Module>(Model().external_modules);
    };
    functions_["get_memory_report"] = [this](Args, RetValue* ret) { *ret = Model().memory_report; };
    functions_["get_function_metadata"] = [this](Args, RetValue* ret) {
      *ret = FunctionMetadata(*Model().code, *targets_);
    };
  }
  std::string module_type() const override { return "RelayBuildModule"; }
  TREADLE_NODE(RelayBuildModule, runtime::ModuleNode, "driver.RelayBuildModule")

 private:
  void SetParams(const ArgValue& arg) {
    if (arg.is_null()) return;
    params_.clear();
    for (const auto& [name, value] : arg.As<Map<String, NDArray>>()) params_.emplace_back(name.str(), value);
  }

  void Build(Args args) {
    CompileOptions options;
    options.inherit_context = true;
    ReadTargets(args[1], &options);
    if (args.size() > 2 && !args[2].is_null()) {
      ObjectRef host = args[2].AsObjectRef();
      options.target_host = host.as<StringNode>() ? Downcast<String>(host).str() : Downcast<Target>(host).str();
    }
    if (args.size() > 3 && args[3].IsText() && args[3].AsString() != "graph") {
      throw Error(StrCat("executor \"", args[3].AsString(), "\": this module builds for \"graph\""));
    }
    if (args.size() > 4 && args[4].IsText()) options.module_name = args[4].AsString();
    targets_ = ResolveTargets(options);
    model_ = driver::Build(args[0].As<IRModule>(), params_, options);
  }

  const CompiledModel& Model() const {
    if (!model_) throw Error("nothing has been built yet: call build first");
    return *model_;
  }

  std::vector<std::pair<std::string, NDArray>> params_;
  std::optional<CompiledModel> model_;
  std::optional<BuildTargets> targets_;
};

}  // namespace

Module MakeGraphExecutorCodegenModule() { return Module(ObjectPtr<Object>(MakeObject<GraphExecutorCodegenModule>())); }

Module MakeRelayBuildModule() { return Module(ObjectPtr<Object>(MakeObject<RelayBuildModule>())); }

void RegisterBuildFunctions() {
  using runtime::Registry;
  Registry::RegisterTyped("relay.build_module._GraphExecutorCodegen", [] { return MakeGraphExecutorCodegenModule(); });
  Registry::RegisterTyped("relay.build_module._BuildModule", [] { return MakeRelayBuildModule(); });
}

}  // namespace treadle::driver
