// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <tuple>

#include "treadle/base/json.h"
#include "treadle/ir/transform.h"
#include "treadle/schedule/kernel.h"
#include "treadle/schedule/records.h"

namespace treadle::schedule {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<std::unique_ptr<const Kernel>> kernels;
  std::vector<std::unique_ptr<const Kernel>> retired;  ///< somebody may still look at them
  std::map<std::string, std::function<std::vector<Kernel>(const CallContext&)>> of_calls;
  std::atomic<int> added{0};  ///< with computations, so that the usual case takes no lock
  static Registry& Global() {
    static auto* registry = new Registry();
    return *registry;
  }
};

struct Record {
  std::string kernel;
  Plan plan;  ///< may be null
};
using Records = std::map<std::string, Record>;

/// Reads the lines of kPlansOption; those that don't fit are noted and left out.
Records ReadRecords(const std::string& text) {
  Records records;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t start = line.find_first_not_of(" \t\r");
    if (start == std::string::npos || line[start] == '#') continue;
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("problem") || !json.contains("kernel") || !json["kernel"].is_string()) {
      ChoiceLog::Note(
          StrCat("# record left out: not a JSON object with problem, kernel and plan: ", line.substr(0, 200)));
      continue;
    }
    try {
      Record record;
      record.kernel = json["kernel"].get<std::string>();
      const Kernel* kernel = FindKernel(record.kernel);
      if (kernel == nullptr) throw Error(StrCat("there is no kernel ", record.kernel));
      if (json.value("revision", kernel->revision) != kernel->revision) {
        throw Error(StrCat(record.kernel, " has revision ", kernel->revision, " now"));
      }
      if (json.contains("plan") && !json["plan"].is_null()) record.plan = PlanFromJson(json["plan"].dump());
      if (record.plan.defined() && record.plan->type_info() != kernel->plan_type) {
        throw Error(StrCat(record.plan->type_key(), " is no plan of ", record.kernel));
      }
      records[ToJson(ProblemFromJson(json["problem"].dump()))] = record;
    } catch (const Error& e) {
      ChoiceLog::Note(StrCat("# record left out: ", e.what()));
    }
  }
  return records;
}

/// The record for a problem, or null.
const Record* FindRecord(const Problem& problem) {
  const std::string text = transform::PassContext::Current()->GetConfigString(kPlansOption, "");
  if (text.empty()) return nullptr;
  // One text is looked at for all kernels of a model.
  thread_local std::pair<std::string, Records> known;
  if (known.first != text) known = {text, ReadRecords(text)};
  auto it = known.second.find(ToJson(problem));
  return it == known.second.end() ? nullptr : &it->second;
}

/// The best plan of a kernel that can be used.
void FillBest(const Kernel& kernel, const Problem& problem, const Machine& machine, Candidate* candidate) {
  const std::vector<Plan> plans = kernel.space ? kernel.space(problem, machine) : std::vector<Plan>();
  if (kernel.space && plans.empty()) {
    candidate->why_not = "no plan of its space fits";
    return;
  }
  if (!plans.empty()) candidate->plan = plans.front();
  if (!kernel.cycles) return;
  if (plans.empty()) {
    candidate->cycles = kernel.cycles(problem, machine, Plan());
    return;
  }
  double least = HUGE_VAL;
  for (const Plan& plan : plans) {
    const double cycles = kernel.cycles(problem, machine, plan);
    if (cycles < 0) continue;  // not modelled: only the first plan can be taken without a cost
    if (cycles >= least * (least == HUGE_VAL ? 1 : kernel.least_gain)) continue;
    least = cycles;
    candidate->plan = plan;
    candidate->cycles = cycles;
    if (kernel.least_gain == 0) break;  // others are for records
  }
}

/// Takes a record's plan; why not, or "".
std::string TakeRecord(const Record& record, const Problem& problem, const Machine& machine, Candidate* candidate) {
  const Kernel& kernel = *candidate->kernel;
  if (record.plan.defined()) {
    const std::string reason = kernel.why_not_plan ? kernel.why_not_plan(problem, machine, record.plan) : "";
    if (!reason.empty()) return reason;
    candidate->plan = record.plan;
    candidate->cycles = kernel.cycles ? kernel.cycles(problem, machine, record.plan) : -1;
  } else {
    FillBest(kernel, problem, machine, candidate);
  }
  candidate->recorded = true;
  return "";
}

thread_local ChoiceLog* current_log = nullptr;

}  // namespace

void RegisterKernel(Kernel kernel) {
  TREADLE_ICHECK(kernel.plan_type == nullptr || kernel.plan_type->IsA(PlanNode::StaticTypeInfo())) << kernel.name;
  Registry& registry = Registry::Global();
  std::lock_guard<std::mutex> lock(registry.mutex);
  if (kernel.compute) ++registry.added;
  auto made = std::make_unique<const Kernel>(std::move(kernel));
  for (auto& other : registry.kernels) {
    if (other->name != made->name || other->op != made->op) continue;
    if (other->compute) --registry.added;
    std::swap(other, made);
    registry.retired.push_back(std::move(made));
    return;
  }
  registry.kernels.push_back(std::move(made));
}

bool RemoveKernel(const std::string& op, const std::string& name) {
  Registry& registry = Registry::Global();
  std::lock_guard<std::mutex> lock(registry.mutex);
  for (auto it = registry.kernels.begin(); it != registry.kernels.end(); ++it) {
    if ((*it)->name != name || (*it)->op != op) continue;
    if ((*it)->compute) --registry.added;
    registry.retired.push_back(std::move(*it));
    registry.kernels.erase(it);
    return true;
  }
  return false;
}

void SetKernelsOfCalls(const std::string& op, std::function<std::vector<Kernel>(const CallContext&)> kernels) {
  Registry& registry = Registry::Global();
  std::lock_guard<std::mutex> lock(registry.mutex);
  registry.added -= static_cast<int>(registry.of_calls.erase(op));
  if (!kernels) return;
  registry.of_calls[op] = std::move(kernels);
  ++registry.added;
}

bool HasAddedKernels() { return Registry::Global().added > 0; }

bool HasAddedKernels(const std::string& op) {
  Registry& registry = Registry::Global();
  if (registry.added == 0) return false;
  std::lock_guard<std::mutex> lock(registry.mutex);
  if (registry.of_calls.count(op) != 0) return true;
  return std::any_of(registry.kernels.begin(), registry.kernels.end(),
                     [&](const auto& kernel) { return kernel->compute && kernel->op == op; });
}

const Kernel* FindKernel(const std::string& name) {
  Registry& registry = Registry::Global();
  std::lock_guard<std::mutex> lock(registry.mutex);
  for (const auto& kernel : registry.kernels) {
    if (kernel->name == name) return kernel.get();
  }
  return nullptr;
}

std::vector<const Kernel*> KernelsOf(const std::string& op, const std::string& target) {
  Registry& registry = Registry::Global();
  std::lock_guard<std::mutex> lock(registry.mutex);
  std::vector<const Kernel*> found;
  for (const auto& kernel : registry.kernels) {
    if (kernel->op == op && (kernel->target.empty() || kernel->target == target)) found.push_back(kernel.get());
  }
  return found;
}

namespace {

/// What becomes of a kernel for a problem: its record's plan, or its best one.
void Judge(const Problem& problem, const Machine& machine, Candidate* candidate) {
  const Kernel& kernel = *candidate->kernel;
  if (kernel.why_not) candidate->why_not = kernel.why_not(problem, machine);
  if (!candidate->why_not.empty()) return;
  const Record* record = FindRecord(problem);
  if (record != nullptr && record->kernel == kernel.name) {
    const std::string reason = TakeRecord(*record, problem, machine, candidate);
    if (!reason.empty()) ChoiceLog::Note(StrCat("# record of ", kernel.name, " left out: ", reason));
  }
  if (!candidate->recorded) FillBest(kernel, problem, machine, candidate);
}

/// The same of a kernel that has a computation.
void JudgeCall(const CallContext& call, const Machine& machine, Candidate* candidate) {
  const Kernel& kernel = *candidate->kernel;
  if (kernel.why_not_call) candidate->why_not = kernel.why_not_call(call);
  if (!candidate->why_not.empty() || !kernel.problem) return;
  if (const Problem problem = kernel.problem(call); problem.defined()) Judge(problem, machine, candidate);
}

/// Usable ones first; a record's before others; then those of the highest level; of them those that say what they cost,
/// the cheapest first. Candidates go to `sorted`.
Choice Sorted(std::vector<Candidate> candidates, Choice sorted) {
  auto rank = [&](size_t i) {
    const Candidate& c = candidates[i];
    return std::make_tuple(!c.why_not.empty(), !c.recorded, -c.kernel->level, !c.of_call, c.cycles < 0,
                           c.cycles * c.kernel->handicap, i);
  };
  std::vector<size_t> order;
  for (size_t i = 0; i < candidates.size(); ++i) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return rank(a) < rank(b); });
  for (size_t i : order) sorted.candidates.push_back(std::move(candidates[i]));
  return sorted;
}

/// What stands for the operator's own computation: a kernel that says nothing. Lives as long as the process.
const Kernel* OwnComputation(const Op& op) {
  static std::mutex mutex;
  static auto* known = new std::map<std::string, std::unique_ptr<const Kernel>>();
  std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<const Kernel>& own = (*known)[op->name];
  if (own == nullptr) {
    Kernel kernel;
    kernel.name = op->name + ".generic";
    kernel.op = op->name;
    own = std::make_unique<const Kernel>(std::move(kernel));
  }
  return own.get();
}

/// Adds those that the operator's function makes for the call.
void AddKernelsOfCall(const std::string& op, const CallContext& call, const Machine& machine,
                      std::vector<Candidate>* candidates, Choice* owner) {
  Registry& registry = Registry::Global();
  if (registry.added == 0) return;
  std::function<std::vector<Kernel>(const CallContext&)> make;
  {
    std::lock_guard<std::mutex> lock(registry.mutex);
    auto it = registry.of_calls.find(op);
    if (it == registry.of_calls.end()) return;
    make = it->second;
  }
  for (Kernel& made : make(call)) {
    owner->kernels_of_call.push_back(std::make_shared<const Kernel>(std::move(made)));
    Candidate candidate;
    candidate.kernel = owner->kernels_of_call.back().get();
    candidate.of_call = true;
    JudgeCall(call, machine, &candidate);
    candidates->push_back(std::move(candidate));
  }
}

/// Kernels of the operator with a computation, for targets like this one (null: for all).
std::vector<const Kernel*> AddedKernels(const std::string& op, const Target& target) {
  std::vector<const Kernel*> found;
  Registry& registry = Registry::Global();
  if (registry.added == 0) return found;
  const std::vector<std::string> keys = target.defined() ? target->keys : std::vector<std::string>();
  std::lock_guard<std::mutex> lock(registry.mutex);
  for (const auto& kernel : registry.kernels) {
    if (!kernel->compute || kernel->op != op) continue;
    const bool all = kernel->target.empty();
    if (all || std::count(keys.begin(), keys.end(), kernel->target) != 0) found.push_back(kernel.get());
  }
  return found;
}

}  // namespace

Choice ChooseKernel(const std::string& op, const std::string& target, const Problem& problem, const Machine& machine,
                    const CallContext* call) {
  std::vector<Candidate> candidates;
  for (const Kernel* kernel : KernelsOf(op, target)) {
    Candidate candidate;
    candidate.kernel = kernel;
    if (kernel->compute) {
      if (call == nullptr) continue;
      JudgeCall(*call, machine, &candidate);
    } else if (problem.defined()) {
      Judge(problem, machine, &candidate);
    } else {
      continue;
    }
    candidates.push_back(std::move(candidate));
  }
  Choice choice;
  if (call != nullptr) AddKernelsOfCall(op, *call, machine, &candidates, &choice);
  return Sorted(std::move(candidates), std::move(choice));
}

Choice ChooseComputation(const Op& op, const CallContext& call, const Machine& machine) {
  std::vector<Candidate> candidates;
  if (op.GetAttr(ops::kCompute) != nullptr) {
    candidates.emplace_back();
    candidates.back().kernel = OwnComputation(op);
  }
  for (const Kernel* kernel : AddedKernels(op->name, call.target)) {
    Candidate candidate;
    candidate.kernel = kernel;
    JudgeCall(call, machine, &candidate);
    candidates.push_back(std::move(candidate));
  }
  Choice choice;
  AddKernelsOfCall(op->name, call, machine, &candidates, &choice);
  return Sorted(std::move(candidates), std::move(choice));
}

Candidate ChoosePlan(const Kernel& kernel, const Problem& problem, const Machine& machine) {
  Candidate candidate;
  candidate.kernel = &kernel;
  const Record* record = FindRecord(problem);
  if (record != nullptr && record->kernel == kernel.name && record->plan.defined()) {
    const std::string reason = TakeRecord(*record, problem, machine, &candidate);
    if (!reason.empty()) ChoiceLog::Note(StrCat("# record of ", kernel.name, " left out: ", reason));
  }
  if (!candidate.recorded) FillBest(kernel, problem, machine, &candidate);
  return candidate;
}

Candidate DefaultPlan(const Kernel& kernel, const Problem& problem, const Machine& machine) {
  Candidate candidate;
  candidate.kernel = &kernel;
  FillBest(kernel, problem, machine, &candidate);
  return candidate;
}

bool HasRecordedPlans() { return !transform::PassContext::Current()->GetConfigString(kPlansOption, "").empty(); }

std::string RecordedPlan(const Problem& problem) {
  const Record* record = FindRecord(problem);
  if (record == nullptr) return "";
  return StrCat(ToJson(problem), " ", record->kernel, " ", record->plan.defined() ? ToJson(record->plan) : "", "\n");
}

void Candidate::Log(const Problem& problem) const {
  if (!ChoiceLog::IsOn()) return;
  Json json{{"problem", Json::parse(ToJson(problem))}, {"kernel", kernel->name}, {"revision", kernel->revision}};
  json["plan"] = plan.defined() ? Json::parse(ToJson(plan)) : Json();
  ChoiceLog::Note(json.dump());
}

void RegisterScheduleOptions() {
  transform::RegisterPassConfig(kPlansOption, "string", "lines of problem, kernel and plan that --dump kernels prints");
  transform::RegisterPassConfig(kRecordsOption, "string",
                                "file of records of measured plans, as treadle tune writes it");
  for (const char* name : {"relay.backend.use_auto_scheduler", "relay.backend.use_meta_schedule"}) {
    transform::RegisterPassConfig(name, "bool", "no effect: records are taken wherever they are named");
  }
}

std::string ToText(const Choice& choice) {
  std::string text;
  for (size_t i = 0; i < choice.candidates.size(); ++i) {
    const Candidate& candidate = choice.candidates[i];
    text += StrCat(i == 0 && candidate.why_not.empty() ? "#   * " : "#     ", candidate.kernel->name, ": ");
    if (!candidate.why_not.empty()) {
      text += candidate.why_not + "\n";
      continue;
    }
    text += candidate.cycles < 0 ? "cost not modelled" : StrCat(std::llround(candidate.cycles), " cycles");
    const int level = candidate.kernel->level;
    if (level != kDefaultLevel && level != kPlainLevel) text += StrCat(", level ", level);
    if (candidate.recorded) text += ", recorded";
    if (candidate.plan.defined()) text += ", " + ToJson(candidate.plan);
    text += "\n";
  }
  return text;
}

ChoiceLog::ChoiceLog() : outer_(current_log) { current_log = this; }
ChoiceLog::~ChoiceLog() { current_log = outer_; }
bool ChoiceLog::IsOn() { return current_log != nullptr; }
void ChoiceLog::Note(const std::string& line) {
  if (current_log != nullptr) current_log->text_ += line + "\n";
}

}  // namespace treadle::schedule
