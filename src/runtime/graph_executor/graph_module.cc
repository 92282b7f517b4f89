// SPDX-License-Identifier: Apache-2.0
// The graph executor and its factory as modules with named functions.
#include <algorithm>
#include <map>
#include <tuple>

#include "runtime/builtins.h"
#include "runtime/time_evaluator.h"
#include "treadle/base/error.h"
#include "treadle/runtime/graph_executor.h"

namespace treadle::runtime {
namespace {

/// A name or a position of an argument.
size_t InputPosition(const GraphContext& context, const ArgValue& arg) {
  if (arg.IsText()) return context.RequireInput(arg.AsString());
  auto index = arg.As<int64_t>();
  if (index < 0) throw Error(StrCat("no input ", index));
  return static_cast<size_t>(index);
}

const DLTensor& TensorArg(const ArgValue& arg) {
  const DLTensor* tensor = arg.AsDLTensor();
  if (tensor == nullptr) arg.ThrowMismatch("tensor");
  return *tensor;
}

class GraphExecutorModule final : public ModuleNode {
 public:
  GraphExecutorModule(std::shared_ptr<const GraphModel> model, bool debug) : context_(std::move(model)) {
    AddInputs();
    AddOutputs();
    AddRuns();
    if (debug) AddDebug();
  }

  std::string module_type() const override { return "GraphExecutor"; }
  PackedFunc GetFunction(const std::string& name) const override {
    auto it = functions_.find(name);
    if (it == functions_.end()) return nullptr;
    // The closures use this object: keep it alive.
    return PackedFunc([self = GetRef<Module>(this), body = it->second](Args args, RetValue* ret) { body(args, ret); });
  }
  const GraphContext& context() const { return context_; }

 private:
  using Body = PackedFunc::Body;

  void AddInputs() {
    functions_["set_input"] = [this](Args args, RetValue*) {
      context_.SetInput(InputPosition(context_, args[0]), TensorArg(args[1]));
    };
    functions_["set_input_zero_copy"] = [this](Args args, RetValue*) {
      context_.SetInputZeroCopy(InputPosition(context_, args[0]), args[1].As<NDArray>());
    };
    functions_["get_input"] = [this](Args args, RetValue* ret) {
      *ret = context_.GetInput(InputPosition(context_, args[0]));
    };
    functions_["get_input_index"] = [this](Args args, RetValue* ret) {
      *ret = context_.model().InputIndex(args[0].AsString());
    };
    functions_["get_num_inputs"] = [this](Args, RetValue* ret) {
      *ret = static_cast<int64_t>(context_.model().num_inputs());
    };
    functions_["get_input_name"] = [this](Args args, RetValue* ret) {
      *ret = context_.model().InputName(InputPosition(context_, args[0]));
    };
    functions_["load_params"] = [this](Args args, RetValue*) {
      context_.LoadParams(LoadParams(args[0].AsString(), "load_params"));
    };
    functions_["share_params"] = [this](Args args, RetValue*) {
      ShareParams(args[0].As<Module>(), args[1].AsString());
    };
  }

  void ShareParams(const Module& other, const std::string& blob) {
    const auto* executor = dynamic_cast<const GraphExecutorModule*>(other.get());
    if (executor == nullptr) throw Error("share_params: the first argument must be a graph executor");
    std::vector<std::string> names;
    for (const auto& [name, value] : LoadParams(blob, "share_params")) names.push_back(name);
    context_.ShareParams(executor->context(), names);
  }

  void AddOutputs() {
    functions_["get_num_outputs"] = [this](Args, RetValue* ret) {
      *ret = static_cast<int64_t>(context_.model().num_outputs());
    };
    functions_["get_output"] = [this](Args args, RetValue* ret) {
      auto index = args[0].As<int64_t>();
      if (index < 0) throw Error(StrCat("no output ", index));
      if (args.size() > 1) {
        context_.CopyOutput(static_cast<size_t>(index), TensorArg(args[1]));
      } else {
        *ret = context_.GetOutput(static_cast<size_t>(index));
      }
    };
    functions_["set_output_zero_copy"] = [this](Args args, RetValue*) {
      context_.SetOutputZeroCopy(args[0].As<size_t>(), args[1].As<NDArray>());
    };
  }

  void AddRuns() {
    functions_["run"] = [this](Args, RetValue*) { context_.Run(); };
    functions_["set_num_threads"] = [this](Args args, RetValue*) { context_.SetThreads(args[0].As<int>()); };
    functions_["run_from_inputs"] = [this](Args args, RetValue* ret) { RunFromInputs(args, ret); };
    functions_["benchmark"] = [this](Args args, RetValue* ret) {
      std::vector<double> seconds = TimeRuns([this] { context_.Run(); }, args[0].As<int>(), args[1].As<int>(),
                                             args.size() > 2 ? args[2].As<int>() : 0);
      ret->SetString(std::string(reinterpret_cast<const char*>(seconds.data()), seconds.size() * sizeof(double)),
                     kTreadleBytes);
    };
  }

  /// (device type, device id, name, value, ...): copies the inputs, runs, returns the outputs on that device.
  void RunFromInputs(Args args, RetValue* ret) {
    Device device{static_cast<DLDeviceType>(args[0].As<int>()), args[1].As<int>()};
    if (args.size() % 2 != 0) throw Error("run_from_inputs: a name without a value");
    for (int i = 2; i < args.size(); i += 2) {
      context_.SetInput(InputPosition(context_, args[i]), TensorArg(args[i + 1]));
    }
    context_.Run();
    Array<NDArray> outputs;
    for (size_t i = 0; i < context_.model().num_outputs(); ++i) outputs.push_back(context_.GetOutput(i).Copy(device));
    *ret = outputs;
  }

  uint32_t NodePosition(const ArgValue& arg) const {
    const GraphSpec& spec = context_.model().spec();
    if (!arg.IsText()) {
      auto index = arg.As<int64_t>();
      if (index < 0 || index >= static_cast<int64_t>(spec.nodes.size())) throw Error(StrCat("no node ", index));
      return static_cast<uint32_t>(index);
    }
    std::string name = arg.AsString();
    for (uint32_t id = 0; id < spec.nodes.size(); ++id) {
      if (spec.nodes[id].name == name) return id;
    }
    throw Error(StrCat("no node called \"", name, "\""));
  }

  void AddDebug() {
    functions_["execute_node"] = [this](Args args, RetValue*) { context_.RunNode(NodePosition(args[0])); };
    functions_["get_node_output"] = [this](Args args, RetValue* ret) { *ret = NodeOutput(args[0], args[1].As<int>()); };
    functions_["debug_get_output"] = [this](Args args, RetValue*) {
      const GraphSpec& spec = context_.model().spec();
      uint32_t node = NodePosition(args[0]);
      // Intermediate values share memory: take this one when it has just been computed.
      NDArray value;
      context_.RunVisiting([&](uint32_t id, uint32_t output, const NDArray& now) {
        if (id == node && output == 0) value = now.Copy();
      });
      if (!value.defined()) value = context_.EntryValue(spec.EntryId(node, 0));
      value.CopyTo(TensorArg(args[1]));
    };
    functions_["run_individual"] = [this](Args args, RetValue* ret) {
      *ret = RunIndividual(args[0].As<int>(), args[1].As<int>(), args.size() > 2 ? args[2].As<int>() : 0);
    };
    functions_["profile"] = [this](Args, RetValue* ret) { *ret = ProfileReport(Profile()); };
    functions_["profile_trace"] = [this](Args, RetValue* ret) { *ret = ChromeTrace(Profile()); };
    functions_["check_nan"] = [this](Args, RetValue*) { context_.RunProfiled(true); };
  }

  NDArray NodeOutput(const ArgValue& which, int output) const {
    uint32_t node = NodePosition(which);
    const GraphSpec& spec = context_.model().spec();
    if (output < 0 || static_cast<uint32_t>(output) >= spec.nodes[node].num_outputs) {
      throw Error(StrCat("node ", node, " has no output ", output));
    }
    return context_.EntryValue(spec.EntryId(node, static_cast<uint32_t>(output))).Copy();
  }

  /// Seconds of each node, in node order, separated by commas; 0 for inputs.
  std::string RunIndividual(int number, int repeat, int min_repeat_ms) {
    const GraphSpec& spec = context_.model().spec();
    context_.Run();
    std::string text;
    for (uint32_t id = 0; id < spec.nodes.size(); ++id) {
      double best = 0;
      if (spec.nodes[id].is_op) {
        std::vector<double> seconds = TimeRuns([this, id] { context_.RunNode(id); }, number, repeat, min_repeat_ms);
        best = *std::min_element(seconds.begin(), seconds.end());
      }
      text += StrCat(id != 0 ? "," : "", best);
    }
    return text;
  }

  std::vector<OpTiming> Profile() {
    for (int i = 0; i < 3; ++i) context_.Run();  // warm caches and workers
    return context_.RunProfiled();
  }

  std::string ProfileReport(const std::vector<OpTiming>& timings) const {
    struct Row {
      double seconds = 0;
      int count = 0;
      std::string shapes;
    };
    std::map<std::string, std::string> hashes;  // of the fused functions, by kernel
    for (const GraphSpec::Node& node : context_.model().spec().nodes) {
      auto hash = node.attrs.find("hash");
      if (hash != node.attrs.end()) hashes.emplace(node.func_name, hash->second);
    }
    std::map<std::string, Row> by_function;
    double total = 0;
    for (const OpTiming& t : timings) {
      Row& row = by_function[t.func_name];
      row.seconds += t.seconds;
      ++row.count;
      row.shapes = t.shapes;
      total += t.seconds;
    }
    std::vector<std::pair<std::string, Row>> rows(by_function.begin(), by_function.end());
    std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
      return std::tie(b.second.seconds, a.first) < std::tie(a.second.seconds, b.first);
    });
    std::string device = DeviceName(context_.model().num_outputs() > 0 ? context_.GetOutput(0).device() : Cpu());
    std::string text = "Name\tDuration (us)\tPercent\tDevice\tCount\tArgument Shapes\tHash\n";
    for (const auto& [name, row] : rows) {
      text += StrCat(name, "\t", row.seconds * 1e6, "\t", total > 0 ? row.seconds / total * 100 : 0, "\t", device, "\t",
                     row.count, "\t", row.shapes, "\t", hashes[name], "\n");
    }
    return text + StrCat("Total\t", total * 1e6, "\t100\t", device, "\t", timings.size(), "\t\t\n");
  }

  GraphContext context_;
  std::map<std::string, Body> functions_;
};

std::vector<Device> DevicesOf(Args args, int first) {
  std::vector<Device> devices;
  for (int i = first; i < args.size(); ++i) devices.push_back(args[i].As<Device>());
  return devices;
}

class GraphFactoryModule final : public ModuleNode {
 public:
  GraphFactoryModule(std::string graph_json, ParamList params, std::string name)
      : graph_json_(std::move(graph_json)), params_(std::move(params)), name_(std::move(name)) {}

  std::string module_type() const override { return "GraphExecutorFactory"; }

  PackedFunc GetFunction(const std::string& name) const override {
    Module self = GetRef<Module>(this);
    if (name == name_ || name == "default") {
      return PackedFunc([this, self](Args args, RetValue* ret) { *ret = Create(DevicesOf(args, 0), false); });
    }
    if (name == "debug_create") {
      return PackedFunc([this, self](Args args, RetValue* ret) {
        const std::string wanted = args[0].AsString();
        if (wanted != name_ && wanted != "default") {
          throw Error(StrCat("debug_create: the model is called \"", name_, "\", not \"", wanted, "\""));
        }
        *ret = Create(DevicesOf(args, 1), true);
      });
    }
    if (name == "get_graph_json") {
      return PackedFunc([this, self](Args, RetValue* ret) { *ret = graph_json_; });
    }
    if (name == "get_params") {
      return PackedFunc([this, self](Args, RetValue* ret) {
        Map<String, NDArray> map;
        for (const auto& [key, value] : params_) map.Set(key, value);
        *ret = map;
      });
    }
    if (name == "remove_params") {
      return PackedFunc([this, self](Args, RetValue* ret) {
        Module library = imports_.empty() ? Module() : imports_[0];
        *ret = MakeGraphFactoryModule(graph_json_, {}, name_, library);
      });
    }
    return nullptr;
  }

  void SaveToBinary(ByteWriter* writer) const override {
    writer->WriteString(graph_json_);
    writer->WriteString(SaveParams(params_));
    writer->WriteString(name_);
  }

  static Module LoadFromBinary(const std::string& bytes) {
    ByteReader reader(bytes, "graph executor factory");
    std::string json(reader.ReadString());
    ParamList params = LoadParams(reader.ReadString(), "parameters of the graph executor factory");
    std::string name(reader.ReadString());
    reader.ExpectEnd();
    return MakeGraphFactoryModule(std::move(json), std::move(params), std::move(name), Module());
  }

 private:
  Module Create(std::vector<Device> devices, bool debug) const {
    if (devices.empty()) devices.push_back(Cpu());
    Module library = imports_.empty() ? Module() : imports_[0];
    auto model = std::make_shared<GraphModel>(GraphSpec::FromJson(graph_json_), library, std::move(devices), params_);
    return MakeGraphExecutorModule(std::move(model), debug);
  }

  std::string graph_json_;
  ParamList params_;
  std::string name_;
};

ParamList ToParamList(const Map<String, NDArray>& map) {
  if (map.get() == nullptr) throw DTypeError("parameters are a dict from names to arrays, not null");
  ParamList params;
  for (const auto& [key, value] : map->items) {
    const auto* name = key.as<StringNode>();
    if (name == nullptr || value.as<NDArrayNode>() == nullptr)
      throw DTypeError("parameters are a dict from names to arrays");
    params.emplace_back(name->value, NDArray(value.data()));
  }
  return params;
}

/// (graph JSON, library, [lookup function,] device type, device id, ...): an executor.
Module CreateFromArgs(Args args, bool debug) {
  std::string json = args[0].AsString();
  auto library = args[1].As<Module>();
  int first = args.size() > 2 && args[2].type_code() == kTreadlePackedFunc ? 3 : 2;
  std::vector<Device> devices;
  if (args.size() > first && args[first].type_code() == kTreadleDevice) {
    devices = DevicesOf(args, first);
  } else {
    for (int i = first; i + 1 < args.size(); i += 2) {
      devices.push_back({static_cast<DLDeviceType>(args[i].As<int>()), args[i + 1].As<int>()});
    }
  }
  auto model = std::make_shared<GraphModel>(GraphSpec::FromJson(json), library, std::move(devices), ParamList{});
  return MakeGraphExecutorModule(std::move(model), debug);
}

}  // namespace

Module MakeGraphExecutorModule(std::shared_ptr<const GraphModel> model, bool debug) {
  return Module(ObjectPtr<Object>(NewObject<GraphExecutorModule>(std::move(model), debug)));
}

Module MakeGraphFactoryModule(std::string graph_json, ParamList params, std::string name, const Module& library) {
  Module factory(
      ObjectPtr<Object>(NewObject<GraphFactoryModule>(std::move(graph_json), std::move(params), std::move(name))));
  if (library.defined()) factory.Import(library);
  return factory;
}

void AddGraphExecutorFunctions(const AddBuiltin& add) {
  // Under TVM's names, which scripts use.
  add("tvm.graph_executor.create", PackedFunc([](Args args, RetValue* ret) { *ret = CreateFromArgs(args, false); }));
  add("tvm.graph_executor_debug.create",
      PackedFunc([](Args args, RetValue* ret) { *ret = CreateFromArgs(args, true); }));
  add("tvm.graph_executor_factory.create",
      PackedFunc::FromTyped([](std::string json, Map<String, NDArray> params, std::string name, Module library) {
        return MakeGraphFactoryModule(std::move(json), ToParamList(params), std::move(name), library);
      }));
  add("runtime.module.loadbinary_GraphExecutorFactory",
      PackedFunc::FromTyped([](std::string bytes) { return GraphFactoryModule::LoadFromBinary(bytes); }));
  add("runtime.SaveParams", PackedFunc([](Args args, RetValue* ret) {
        ret->SetString(SaveParams(ToParamList(args[0].As<Map<String, NDArray>>())), kTreadleBytes);
      }));
  add("runtime.LoadParams", PackedFunc::FromTyped([](std::string bytes) {
        Map<String, NDArray> map;
        for (const auto& [name, value] : LoadParams(bytes)) map.Set(name, value);
        return map;
      }));
}

}  // namespace treadle::runtime
