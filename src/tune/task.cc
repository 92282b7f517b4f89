// SPDX-License-Identifier: Apache-2.0
#include "tune/task.h"

#include <map>
#include <sstream>

#include "driver/graph/graph_executor_codegen.h"
#include "relay/node_check.h"
#include "targets/cpu/machine_costs.h"
#include "treadle/base/json.h"
#include "treadle/ir/serialization.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/relay/text.h"

namespace treadle::tune {
namespace {

using relay::Expr;

/// Appends the tensors of a type; false where one is dynamic or no tensor.
bool Flatten(const Type& type, bool constant, std::vector<Argument>* arguments) {
  if (const auto* tuple = type.as<TupleTypeNode>()) {
    for (const Type& field : tuple->fields) {
      if (!Flatten(field, constant, arguments)) return false;
    }
    return true;
  }
  const auto* tensor = type.as<TensorTypeNode>();
  if (tensor == nullptr) return false;
  Argument argument{{}, tensor->dtype, constant};
  for (const PrimExpr& dim : tensor->shape) {
    const int64_t* value = AsConstInt(dim);
    if (value == nullptr) return false;
    argument.shape.push_back(*value);
  }
  arguments->push_back(argument);
  return true;
}

/// Which arguments of a function are constants where main calls it.
std::map<const Object*, std::vector<bool>> ConstantArguments(const relay::Function& main) {
  std::map<const Object*, std::vector<bool>> constant;
  relay::PostOrderVisit(main->body, [&](const Expr& e) {
    const auto* call = e.as<relay::CallNode>();
    if (call == nullptr || call->op.as<relay::FunctionNode>() == nullptr) return;
    std::vector<bool> flags;
    for (const Expr& arg : call->args) flags.push_back(arg.as<relay::ConstantNode>() != nullptr);
    constant.emplace(call->op.get(), flags);
  });
  return constant;
}

/// Bytes of the constants that main calls functions with, each once.
int64_t ConstantBytes(const relay::Function& main) {
  int64_t bytes = 0;
  relay::PostOrderVisit(main->body, [&](const Expr& e) {
    const auto* constant = e.as<relay::ConstantNode>();
    if (constant != nullptr) bytes += constant->data.nbytes();
  });
  return bytes;
}

/// Fills the arguments; false where the function can't be called on its own.
bool SetArguments(const relay::Function& source, const std::vector<bool>& constant, Task* task) {
  task->arguments.clear();
  for (size_t i = 0; i < source->params.size(); ++i) {
    const bool fixed = i < constant.size() && constant[i];
    if (!Flatten(source->params[i]->checked_type(), fixed, &task->arguments)) return false;
  }
  const size_t inputs = task->arguments.size();
  if (!Flatten(source->body->checked_type(), false, &task->arguments)) return false;
  task->num_outputs = task->arguments.size() - inputs;
  return true;
}

bool HasChoice(const Task& task) {
  const schedule::Kernel* kernel = schedule::FindKernel(task.kernel);
  if (kernel == nullptr || !kernel->space || !kernel->apply) return false;
  const auto machine = ops::cpu::MachineOf(task.target);
  return kernel->space(schedule::ProblemFromJson(task.problem), machine).size() > 1;
}

}  // namespace

std::string Task::Name() const {
  const Json json = Json::parse(problem, nullptr, false);
  std::string sizes;
  for (const char* key : {"batch", "ic", "ih", "iw", "oc", "oh", "ow", "kh", "kw", "m", "n", "k", "s", "d"}) {
    if (!json.is_object() || !json.contains(key)) continue;
    sizes += StrCat(sizes.empty() ? "" : " ", key, "=", json[key].dump());
  }
  return StrCat(kernel, " ", sizes);
}

std::string Task::ToJson() const {
  Json json{{"problem", problem},
            {"kernel", kernel},
            {"plan", plan},
            {"symbol", symbol},
            {"source", SaveJson(source)},
            {"target", target.str()},
            {"uses", uses},
            {"outputs", num_outputs},
            {"seconds", seconds},
            {"model_constants", model_constants}};
  for (const Argument& a : arguments) {
    json["arguments"].push_back({{"shape", a.shape}, {"dtype", a.dtype.str()}, {"constant", a.constant}});
  }
  return json.dump();
}

Task Task::FromJson(const std::string& text) {
  // A worker's first call may be this one.
  driver::RegisterAll();
  relay::RegisterNodeTypes();
  try {
    const Json json = Json::parse(text);
    Task task;
    task.problem = json.at("problem").get<std::string>();
    task.kernel = json.at("kernel").get<std::string>();
    task.plan = json.at("plan").get<std::string>();
    task.symbol = json.at("symbol").get<std::string>();
    // A search needs no function: it is for those who measure in another way.
    if (const auto source = json.at("source").get<std::string>(); !source.empty()) {
      const ObjectRef root = LoadJson(source);
      relay::CheckNodes(root);
      task.source = Downcast<relay::Function>(root);
    }
    task.target = Target(json.at("target").get<std::string>());
    task.uses = json.at("uses").get<int>();
    task.num_outputs = json.at("outputs").get<size_t>();
    task.seconds = json.at("seconds").get<double>();
    task.model_constants = json.value("model_constants", int64_t{0});
    for (const Json& a : json.at("arguments")) {
      task.arguments.push_back({a.at("shape").get<std::vector<int64_t>>(),
                                DataType::FromString(a.at("dtype").get<std::string>()), a.at("constant").get<bool>()});
    }
    return task;
  } catch (const JsonError& e) {
    throw Error(StrCat("a task for a tuner: ", e.what()));
  }
}

std::vector<Task> ExtractTasks(const driver::CompiledModel& model) {
  TREADLE_ICHECK(model.code != nullptr) << "a model without its kernels";
  model.lowered();  // what came from the cache isn't lowered, and so has no plans
  const auto constant = ConstantArguments(model.code->main);
  const int64_t constants = ConstantBytes(model.code->main);
  std::vector<Task> tasks;
  std::map<std::string, size_t> known;  ///< by problem
  for (const driver::Kernel* kernel : model.code->engine->kernels()) {
    std::istringstream choices(kernel->choices);
    for (std::string line; std::getline(choices, line);) {
      const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!json.is_object() || !json.contains("problem") || json.value("plan", Json()).is_null()) continue;
      Task task;
      task.problem = json["problem"].dump();
      task.kernel = json["kernel"].get<std::string>();
      task.plan = json["plan"].dump();
      task.symbol = kernel->symbol;
      task.source = kernel->source;
      task.target = kernel->target;
      task.uses = kernel->uses;
      task.model_constants = constants;
      auto flags = constant.find(kernel->source.get());
      const std::vector<bool> none;
      if (!SetArguments(kernel->source, flags == constant.end() ? none : flags->second, &task)) continue;
      if (!HasChoice(task)) continue;
      auto [it, first] = known.emplace(task.problem, tasks.size());
      if (first) {
        tasks.push_back(task);
        continue;
      }
      // The same problem with another epilogue: that which is called more often stands for both.
      Task& other = tasks[it->second];
      const int uses = other.uses + task.uses;
      if (task.uses > other.uses) other = task;
      other.uses = uses;
    }
  }
  return tasks;
}

}  // namespace treadle::tune
