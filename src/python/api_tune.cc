// SPDX-License-Identifier: Apache-2.0
// Tuning. Tasks, outcomes and records are JSON texts.

#include "python/checked.h"
#include "report/page.h"
#include "runtime/file_io.h"
#include "targets/cpu/machine_costs.h"
#include "treadle/base/json.h"
#include "treadle/runtime/params.h"
#include "treadle/runtime/registry.h"
#include "tune/records_writer.h"
#include "tune/session.h"

namespace treadle::python {
namespace {

using runtime::Args;
using runtime::Module;
using runtime::PackedFunc;
using runtime::RetValue;

std::vector<std::string> ToStrings(const Array<String>& array) {
  std::vector<std::string> strings;
  for (const String& item : array) strings.push_back(item.str());
  return strings;
}

Array<String> ToArray(const std::vector<std::string>& strings) {
  Array<String> array;
  for (const std::string& item : strings) array.push_back(item);
  return array;
}

/// Options of measuring: threads, jobs, opt_level.
tune::MeasureOptions MeasureOf(const Json& json) {
  tune::MeasureOptions options;
  options.threads = json.value("threads", 0);
  options.build.jobs = json.value("jobs", 1);
  options.build.opt_level = json.value("opt_level", 3);
  return options;
}

/// Options of the build of a model: target, opt_level, shapes, dims, config.
driver::CompileOptions CompileOf(const Json& json) {
  driver::CompileOptions options;
  options.target = json.value("target", options.target);
  options.opt_level = json.value("opt_level", 3);
  for (const auto& [name, shape] : json.at("shapes").items()) {
    options.input_shapes[name] = shape.get<std::vector<int64_t>>();
  }
  for (const auto& [name, value] : json.at("dims").items()) options.dims[name] = value.get<int64_t>();
  for (const auto& [key, value] : json.at("config").items()) options.config[key] = value.get<std::string>();
  return options;
}

using Params = Map<String, runtime::NDArray>;
driver::CompiledModel BuildModule(const IRModule& module, const Params& params, const driver::CompileOptions& options) {
  runtime::ParamList list;
  for (const auto& [name, tensor] : params) list.emplace_back(name.str(), tensor);
  return driver::Build(module, list, options);
}

/// A file, or `module` with `params` where that is defined.
std::string Tune(std::string model, std::string options_text, PackedFunc progress, IRModule module, Params params) {
  const Json json = Json::parse(options_text);
  tune::TuneOptions options;
  options.model = std::move(model);
  options.output = json.value("output", "");
  options.seconds = json.value("seconds", 600.0);
  options.seed = json.value("seed", uint64_t{0});
  options.resume = json.value("resume", true);
  options.dry_run = json.value("dry_run", false);
  options.graph = json.value("graph", true);
  options.measure = MeasureOf(json);
  options.compile = CompileOf(json);
  options.trials = json.value("trials", 0);
  if (module.defined()) {
    options.compile_model = [module, params](const driver::CompileOptions& compile) {
      return BuildModule(module, params, compile);
    };
  }
  if (progress) options.progress = [progress](const std::string& line) { progress(line); };
  const tune::TuneReport report = tune::Tune(options);
  Json result = Json::parse(report.ToJson());
  result["text"] = report.ToText();
  result["html"] = report.ToHtml();
  return result.dump();
}

/// A search as a module of functions: propose() -> plans; tell(outcomes as JSON: [[valid, better, ratio], ..]);
/// state() -> {"incumbent", "ratio", "round", "space"}.
class SearchModule final : public runtime::ModuleNode {
 public:
  SearchModule() = default;
  SearchModule(const std::string& task_text, const Json& options, const std::vector<std::string>& seeds,
               const std::vector<std::string>& tried) {
    const tune::Task task = tune::Task::FromJson(task_text);
    const schedule::Kernel* kernel = schedule::FindKernel(task.kernel);
    if (kernel == nullptr || !kernel->space) throw Error(StrCat("kernel ", task.kernel, " has no plans to search"));
    const auto machine = ops::cpu::MachineOf(task.target);
    const schedule::Problem problem = schedule::ProblemFromJson(task.problem);
    std::string first = task.plan;
    if (first.empty()) first = schedule::ToJson(schedule::DefaultPlan(*kernel, problem, machine).plan);
    tune::SearchOptions search;
    search.seed = options.value("seed", uint64_t{0});
    search.batch = options.value("batch", search.batch);
    search_ = std::make_shared<tune::Search>(*kernel, problem, machine, first, seeds,
                                             std::set<std::string>(tried.begin(), tried.end()), search);
  }
  std::string module_type() const override { return "tune_search"; }
  PackedFunc GetFunction(const std::string& name) const override {
    const std::shared_ptr<tune::Search> search = search_;
    if (name == "propose") {
      return PackedFunc([search](Args, RetValue* ret) { *ret = ToArray(search->Propose()); });
    }
    if (name == "tell") {
      return PackedFunc([search](Args args, RetValue*) {
        std::vector<tune::Outcome> outcomes;
        for (const Json& item : Json::parse(args[0].AsString())) {
          outcomes.push_back({item.at(0).get<bool>(), item.at(1).get<bool>(), item.at(2).get<double>()});
        }
        search->Tell(outcomes);
      });
    }
    if (name == "state") {
      return PackedFunc([search](Args, RetValue* ret) {
        *ret = Json{{"incumbent", search->incumbent()},
                    {"ratio", search->ratio()},
                    {"round", search->round()},
                    {"space", search->space_size()}}
                   .dump();
      });
    }
    return PackedFunc();
  }
  TREADLE_NODE(SearchModule, runtime::ModuleNode, "tune.SearchModule")

 private:
  std::shared_ptr<tune::Search> search_;
};

Array<String> MeasureBatch(std::string task, std::string incumbent, Array<String> plans, std::string options) {
  tune::Worker worker(MeasureOf(Json::parse(options)));
  Array<String> lines;
  for (const tune::Measured& m : worker.Batch(tune::Task::FromJson(task), incumbent, ToStrings(plans))) {
    lines.push_back(Json{{"plan", m.plan},
                         {"state", m.state},
                         {"err", m.error},
                         {"ratio", m.result.ratio},
                         {"lo", m.result.lo},
                         {"hi", m.result.hi},
                         {"pairs", m.pairs},
                         {"us", m.seconds * 1e6}}
                        .dump());
  }
  return lines;
}

std::string ConfirmPlan(std::string task, std::string plan, std::string options) {
  tune::Worker worker(MeasureOf(Json::parse(options)));
  const tune::Confirmation c = worker.ConfirmPlan(tune::Task::FromJson(task), plan);
  return Json{{"accepted", c.accepted}, {"ratio", c.result.ratio}, {"lo", c.result.lo},
              {"hi", c.result.hi},      {"pairs", c.pairs},        {"procs", c.processes}}
      .dump();
}

/// The line of a record of a task: `fields` are those of MeasureBatch, with "procs", "threads" and "t".
std::string RecordLine(std::string task_text, std::string fields_text) {
  const tune::Task task = tune::Task::FromJson(task_text);
  const Json fields = Json::parse(fields_text);
  const schedule::Kernel* kernel = schedule::FindKernel(task.kernel);
  if (kernel == nullptr) throw Error(StrCat("there is no kernel ", task.kernel));
  schedule::TuningRecord record;
  record.problem = task.problem;
  record.kernel = task.kernel;
  record.plan = fields.at("plan").get<std::string>();
  record.revision = kernel->revision;
  record.schema = kernel->plan_type == nullptr ? "" : schedule::SchemaHash(kernel->plan_type);
  record.machine = fields.value("machine", schedule::MachineId(task.target->Features()));
  record.threads = fields.value("threads", 0);
  record.ratio = fields.value("ratio", 1.0);
  record.lo = fields.value("lo", 1.0);
  record.hi = fields.value("hi", 1.0);
  record.pairs = fields.value("pairs", 0);
  record.processes = fields.value("procs", 1);
  record.microseconds = fields.value("us", 0.0);
  record.state = fields.at("state").get<std::string>();
  record.error = fields.value("err", "");
  record.time = fields.value("t", int64_t{0});
  return record.ToLine();
}

/// `text` is a file's.
std::string ReadRecords(std::string text) {
  const schedule::RecordFile file = schedule::ReadRecords(text);
  Json result{{"lines", file.lines}, {"faults", file.faults}};
  result["records"] = Json::array();
  for (const schedule::TuningRecord& r : file.records) {
    result["records"].push_back({{"problem", r.problem},
                                 {"kernel", r.kernel},
                                 {"plan", r.plan},
                                 {"machine", r.machine},
                                 {"state", r.state},
                                 {"err", r.error},
                                 {"ratio", r.ratio},
                                 {"lo", r.lo},
                                 {"hi", r.hi},
                                 {"pairs", r.pairs},
                                 {"us", r.microseconds},
                                 {"why_not", schedule::WhyNotRecord(r)}});
  }
  return result.dump();
}

}  // namespace

void RegisterTuneApi() {
  RegisterChecked("tune.Tune", [](std::string model, std::string options, OrNull<PackedFunc> progress) {
    return Tune(std::move(model), std::move(options), std::move(progress), IRModule(), Params());
  });
  RegisterChecked("tune.TuneModule",
                  [](IRModule module, Params params, std::string options, OrNull<PackedFunc> progress) {
                    return Tune("module", std::move(options), std::move(progress), module, params);
                  });
  RegisterChecked("tune.ModuleTasks", [](IRModule module, Params params, std::string options) {
    Array<String> tasks;
    const driver::CompiledModel model = BuildModule(module, params, CompileOf(Json::parse(options)));
    for (const tune::Task& task : tune::ExtractTasks(model)) tasks.push_back(task.ToJson());
    return tasks;
  });
  RegisterChecked("tune.Tasks", [](std::string model, std::string target) {
    driver::CompileOptions options;
    options.target = std::move(target);
    Array<String> tasks;
    for (const tune::Task& task : tune::ExtractTasks(driver::CompileOnnxFile(model, options))) {
      tasks.push_back(task.ToJson());
    }
    return tasks;
  });
  RegisterChecked("tune.Search", [](std::string task, std::string options, Array<String> seeds, Array<String> tried) {
    return Module(
        ObjectPtr<Object>(MakeObject<SearchModule>(task, Json::parse(options), ToStrings(seeds), ToStrings(tried))));
  });
  RegisterChecked("tune.MeasureBatch", &MeasureBatch);
  RegisterChecked("tune.ConfirmPlan", &ConfirmPlan);
  RegisterChecked("tune.RecordLine", &RecordLine);
  RegisterChecked("tune.ReadRecords", &ReadRecords);
  RegisterChecked("tune.Append", [](std::string path, std::string lines) { tune::RecordsWriter(path).Write(lines); });
  RegisterChecked("tune.MeasureProgram", &tune::MeasureProgram);
  RegisterChecked("report.WritePage", &report::WritePage);
}

}  // namespace treadle::python
