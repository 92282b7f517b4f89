// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>

#include "treadle/ir/transform.h"
#include "treadle/schedule/kernel.h"
#include "treadle/schedule/records.h"

namespace treadle::schedule {
namespace {

using Json = nlohmann::ordered_json;

struct Registry {
  std::mutex mutex;
  std::deque<Kernel> kernels;  ///< addresses stay
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
    if (cycles >= least * (least == HUGE_VAL ? 1 : kernel.least_gain)) continue;
    least = cycles;
    candidate->plan = plan;
    candidate->cycles = cycles;
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
  for (Kernel& other : registry.kernels) {
    if (other.name != kernel.name) continue;
    other = std::move(kernel);
    return;
  }
  registry.kernels.push_back(std::move(kernel));
}

const Kernel* FindKernel(const std::string& name) {
  Registry& registry = Registry::Global();
  std::lock_guard<std::mutex> lock(registry.mutex);
  for (const Kernel& kernel : registry.kernels) {
    if (kernel.name == name) return &kernel;
  }
  return nullptr;
}

std::vector<const Kernel*> KernelsOf(const std::string& op, const std::string& target) {
  Registry& registry = Registry::Global();
  std::lock_guard<std::mutex> lock(registry.mutex);
  std::vector<const Kernel*> found;
  for (const Kernel& kernel : registry.kernels) {
    if (kernel.op == op && kernel.target == target) found.push_back(&kernel);
  }
  return found;
}

Choice ChooseKernel(const std::string& op, const std::string& target, const Problem& problem, const Machine& machine) {
  Choice choice;
  const Record* record = FindRecord(problem);
  for (const Kernel* kernel : KernelsOf(op, target)) {
    Candidate candidate;
    candidate.kernel = kernel;
    if (kernel->why_not) candidate.why_not = kernel->why_not(problem, machine);
    if (candidate.why_not.empty()) {
      if (record != nullptr && record->kernel == kernel->name) {
        const std::string reason = TakeRecord(*record, problem, machine, &candidate);
        if (!reason.empty()) ChoiceLog::Note(StrCat("# record of ", kernel->name, " left out: ", reason));
      }
      if (!candidate.recorded) FillBest(*kernel, problem, machine, &candidate);
    }
    choice.candidates.push_back(std::move(candidate));
  }
  // Usable ones first; a record's before others; then those that say what they cost, the cheapest first.
  auto rank = [&](size_t i) {
    const Candidate& c = choice.candidates[i];
    return std::make_tuple(!c.why_not.empty(), !c.recorded, c.cycles < 0, c.cycles * c.kernel->handicap, i);
  };
  std::vector<size_t> order;
  for (size_t i = 0; i < choice.candidates.size(); ++i) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return rank(a) < rank(b); });
  Choice sorted;
  for (size_t i : order) sorted.candidates.push_back(std::move(choice.candidates[i]));
  return sorted;
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
