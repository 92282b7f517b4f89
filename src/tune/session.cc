// SPDX-License-Identifier: Apache-2.0
#include "tune/session.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "driver/build/compile_relay.h"
#include "runtime/hash64.h"
#include "targets/cpu/machine_costs.h"
#include "treadle/runtime/manifest.h"
#include "tune/records_writer.h"

namespace treadle::tune {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;
using schedule::TuningRecord;

/// Tasks that take a smaller part of the model's time are left alone.
constexpr double kLeastShare = 0.005;
/// Part of the time that confirmations and the race of the whole models have.
constexpr double kFinalShare = 0.2, kMostFinal = 90;

/// A task while it is tuned.
struct State {
  Task task;
  std::unique_ptr<Search> search;
  std::vector<double> gains;  ///< of the last rounds, relative
  std::string confirmed;      ///< plan that is confirmed; "" while there is none
  Interval confirmation;
  bool over = false;
  TaskReport report;

  /// Of the last rounds; optimistic before there are any.
  double Promise() const {
    constexpr double kOptimism = 0.1;
    constexpr size_t kRounds = 3;
    if (gains.size() < 2) return kOptimism;
    double sum = 0;
    const size_t count = std::min(kRounds, gains.size());
    for (size_t i = gains.size() - count; i < gains.size(); ++i) sum += gains[i];
    return sum / static_cast<double>(count) + 0.002;
  }
  double Saved() const { return task.uses * task.seconds * (1 - report.ratio); }
};

/// Seeds differ by task, whatever order tasks are in.
uint64_t SeedOf(const Task& task, uint64_t seed) { return seed ^ runtime::Hash64(task.problem); }

class Session {
 public:
  explicit Session(const TuneOptions& options) : options_(options), worker_(options.measure), start_(Clock::now()) {}

  TuneReport Run() {
    Say("compiling the model with default plans");
    driver::CompileOptions plain = options_.compile;
    plain.config.erase(schedule::kRecordsOption);
    const driver::CompiledModel model = Compile(plain);
    default_ = folder_.Path("default.so");
    driver::ExportLibrary(model, default_);
    ReadOld();
    for (Task& task : ExtractTasks(model)) AddTask(std::move(task));
    if (options_.dry_run || states_.empty()) return Report();
    writer_ = std::make_unique<RecordsWriter>(options_.output);
    WriteHeader();
    TimeTasks();
    Search();
    ConfirmAll();
    Gate();
    return Report();
  }

 private:
  driver::CompiledModel Compile(const driver::CompileOptions& options) const {
    return driver::IsRelayFile(options_.model) ? driver::CompileRelayFile(options_.model, options)
                                               : driver::CompileOnnxFile(options_.model, options);
  }

  double Spent() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  double SearchUntil() const { return options_.seconds - std::min(kMostFinal, kFinalShare * options_.seconds); }

  void Say(const std::string& what) const {
    if (!options_.progress) return;
    const double left = std::max(0.0, options_.seconds - Spent());
    options_.progress(StrCat(what, "; model ", FixedText((1 - Predicted()) * 100, 1), " % faster so far, ", measured_,
                             " plans measured, ", static_cast<int>(left), " s left"));
  }

  /// The model's time as a part of the default's, by the tasks' ratios; other kernels count as they are.
  double Predicted() const {
    double before = 0, after = 0;
    for (const State& s : states_) {
      before += s.task.uses * s.task.seconds;
      after += s.task.uses * s.task.seconds * (s.search ? s.search->ratio() : 1);
    }
    return before > 0 ? after / before : 1;
  }

  void ReadOld() {
    if (std::filesystem::exists(options_.output)) {
      old_ = schedule::ReadRecordFile(options_.output);
      if (!old_.faults.empty()) Say(StrCat(old_.faults.size(), " lines of records are left out, ", old_.faults[0]));
    }
  }

  void AddTask(Task task) {
    const schedule::Kernel* kernel = schedule::FindKernel(task.kernel);
    const auto machine = ops::cpu::MachineOf(task.target);
    machine_ = schedule::MachineId(task.target->Features());
    std::set<std::string> tried;
    std::vector<std::string> seeds;
    const TuningRecord* best = nullptr;
    const std::vector<TuningRecord> chosen = schedule::BestRecords(old_.records, machine_);
    for (const TuningRecord& r : old_.records) {
      if (r.problem != task.problem || r.kernel != task.kernel || !schedule::WhyNotRecord(r).empty()) continue;
      if (r.machine == machine_ && options_.resume && r.state != "raced") tried.insert(r.plan);
      if (r.state == "raced" || r.machine != machine_) seeds.push_back(r.plan);
    }
    for (const TuningRecord& r : chosen) {
      if (r.problem == task.problem && r.kernel == task.kernel) best = &r;
    }
    constexpr size_t kNearest = 8;
    for (const std::string& plan : NearestPlans(old_.records, task, kNearest)) seeds.push_back(plan);
    SearchOptions search = options_.search;
    search.seed = SeedOf(task, options_.seed);
    State state;
    state.report.name = task.Name();
    state.report.uses = task.uses;
    state.report.plan = task.plan;
    state.report.state = "default";
    state.search = std::make_unique<tune::Search>(*kernel, schedule::ProblemFromJson(task.problem), machine, task.plan,
                                                  seeds, tried, search);
    if (best != nullptr) {
      state.confirmed = best->plan;
      state.confirmation = {best->ratio, best->lo, best->hi};
      state.search->StartFrom(best->plan, best->ratio);
    }
    state.task = std::move(task);
    states_.push_back(std::move(state));
  }

  void WriteHeader() const {
    const Json header{{"f", "treadle-tune"},
                      {"v", 1},
                      {"m", machine_},
                      {"target", states_[0].task.target.str()},
                      {"build", runtime::VersionString()},
                      {"seed", options_.seed},
                      {"model", std::filesystem::path(options_.model).filename().string()},
                      {"t", static_cast<int64_t>(std::time(nullptr))}};
    writer_->Write(schedule::MakeRecordLine("header", header.dump()));
  }

  TuningRecord RecordOf(const Task& task, const std::string& plan) const {
    const schedule::Kernel* kernel = schedule::FindKernel(task.kernel);
    TuningRecord record;
    record.problem = task.problem;
    record.kernel = task.kernel;
    record.plan = plan;
    record.revision = kernel->revision;
    record.schema = kernel->plan_type == nullptr ? "" : schedule::SchemaHash(kernel->plan_type);
    record.machine = machine_;
    record.threads = options_.measure.threads;
    record.microseconds = task.seconds * 1e6;
    record.time = static_cast<int64_t>(std::time(nullptr));
    return record;
  }

  /// What a call of each takes; those that don't matter are left out.
  void TimeTasks() {
    double total = 0;
    for (size_t i = 0; i < states_.size(); ++i) {
      State& s = states_[i];
      Say(StrCat("timing ", i + 1, "/", states_.size(), " ", s.report.name));
      try {
        s.task.seconds = worker_.Time(s.task, s.task.plan);
      } catch (const Error& e) {
        s.report.first_error = e.what();
        s.over = true;
      }
      total += s.task.uses * s.task.seconds;
    }
    for (State& s : states_) {
      s.report.seconds = s.task.seconds;
      s.over |= s.task.uses * s.task.seconds < kLeastShare * total;
    }
  }

  void Search() {
    while (Spent() < SearchUntil()) {
      State* next = nullptr;
      double most = 0;
      for (State& s : states_) {
        if (s.over) continue;
        const double worth = s.task.uses * s.task.seconds * s.search->ratio() * s.Promise();
        if (worth <= most) continue;
        most = worth;
        next = &s;
      }
      if (next == nullptr) return;
      Round(next);
    }
  }

  void Round(State* s) {
    const std::vector<std::string> plans = s->search->Propose();
    if (plans.empty()) {
      s->over = true;
      return;
    }
    const double before = s->search->ratio();
    std::vector<Outcome> outcomes;
    Say(StrCat("building ", plans.size(), " plans of ", s->report.name));
    try {
      worker_.Batch(s->task, s->search->incumbent(), plans, [&](const Measured& m) {
        Note(s, m, before);
        outcomes.push_back({m.state == "raced" || m.pairs > 0, m.state == "raced", before * m.result.ratio});
        if (Spent() > options_.seconds) throw Error("the time is up");
      });
    } catch (const Error& e) {
      if (s->report.first_error.empty() && outcomes.size() < plans.size()) s->report.first_error = e.what();
      s->over = true;
    }
    outcomes.resize(plans.size());
    s->search->Tell(outcomes);
    s->gains.push_back((before - s->search->ratio()) / before);
  }

  /// Writes what became of a candidate.
  void Note(State* s, const Measured& m, double incumbent_ratio) {
    TuningRecord record = RecordOf(s->task, m.plan);
    record.state = m.state;
    record.error = m.error;
    record.ratio = m.result.ratio * incumbent_ratio;
    record.lo = m.result.lo * incumbent_ratio;
    record.hi = m.result.hi * incumbent_ratio;
    record.pairs = m.pairs;
    record.processes = m.pairs > 0 ? 1 : 0;
    writer_->Write(record.ToLine());
    if (Spent() - synced_ > 1) {
      synced_ = Spent();
      writer_->Sync();
    }
    ++measured_;
    ++s->report.measured;
    if (m.state == "error") {
      ++s->report.errors;
      if (s->report.first_error.empty()) s->report.first_error = m.error;
    }
    Say(StrCat("racing plans of ", s->report.name, ": ", m.state == "raced" ? "one is faster, " : "",
               FixedText(record.ratio, 3), " of the default's time"));
  }

  void ConfirmAll() {
    for (State& s : states_) {
      const std::string plan = s.search->incumbent();
      if (plan == s.task.plan || plan == s.confirmed) continue;
      Say(StrCat("confirming ", s.report.name));
      const Confirmation confirmation = worker_.ConfirmPlan(s.task, plan);
      s.report.state = "not confirmed";
      TuningRecord record = RecordOf(s.task, plan);
      record.ratio = confirmation.result.ratio;
      record.lo = confirmation.result.lo;
      record.hi = confirmation.result.hi;
      record.pairs = confirmation.pairs;
      record.processes = options_.measure.processes;
      record.state = confirmation.accepted ? "confirmed" : "rejected";
      record.error = confirmation.accepted ? "" : "not confirmed";
      writer_->Write(record.ToLine());
      if (!confirmation.accepted) continue;
      s.confirmed = plan;
      s.confirmation = confirmation.result;
    }
    writer_->Sync();
  }

  /// The whole model decides: whatever plans it isn't faster with are withdrawn.
  void Gate() {
    std::vector<State*> tuned;
    for (State& s : states_) {
      if (!s.confirmed.empty()) tuned.push_back(&s);
    }
    if (tuned.empty()) return;
    std::sort(tuned.begin(), tuned.end(), [](const State* a, const State* b) {
      return a->task.uses * a->task.seconds * (1 - a->confirmation.ratio) >
             b->task.uses * b->task.seconds * (1 - b->confirmation.ratio);
    });
    std::vector<State*> kept = tuned;
    constexpr int kTries = 3;
    for (int i = 0; i < kTries && !kept.empty(); ++i) {
      if (Passes(kept)) break;
      // Those that save most are the most certain to save anything.
      kept.resize(i + 1 == kTries ? 0 : kept.size() / 2);
    }
    for (State* s : tuned) {
      s->report.plan = s->confirmed;
      s->report.ratio = s->confirmation.ratio;
      s->report.lo = s->confirmation.lo;
      s->report.hi = s->confirmation.hi;
      s->report.state = "confirmed";
      if (std::find(kept.begin(), kept.end(), s) != kept.end()) continue;
      s->report.state = "withdrawn";
      TuningRecord record = RecordOf(s->task, s->confirmed);
      record.ratio = s->confirmation.ratio;
      record.lo = s->confirmation.lo;
      record.hi = s->confirmation.hi;
      record.state = "withdrawn";
      record.error = "the whole model wasn't faster";
      writer_->Write(record.ToLine());
    }
    const Json line{{"m", machine_},         {"model", std::filesystem::path(options_.model).filename().string()},
                    {"ratio", model_.ratio}, {"lo", model_.lo},
                    {"hi", model_.hi},       {"accepted", accepted_},
                    {"plans", kept.size()},  {"t", static_cast<int64_t>(std::time(nullptr))}};
    writer_->Write(schedule::MakeRecordLine("gate", line.dump()));
    writer_->Sync();
  }

  bool Passes(const std::vector<State*>& states) {
    constexpr int kPairs = 100;
    constexpr double kMostSeconds = 60, kTolerance = 1e-3;
    Say(StrCat("racing the whole model with ", states.size(), " tuned plans"));
    driver::CompileOptions options = options_.compile;
    std::string plans;
    for (const State* s : states) plans += schedule::PlanLines({RecordOf(s->task, s->confirmed)});
    options.config.erase(schedule::kRecordsOption);
    options.config[schedule::kPlansOption] = plans + options.config[schedule::kPlansOption];
    const std::string path = folder_.Path(StrCat("tuned", gates_++, ".so"));
    driver::ExportLibrary(Compile(options), path);
    double worst = 0;
    const double seconds = std::clamp(options_.seconds - Spent(), 5.0, kMostSeconds);
    model_ = worker_.RaceModels(default_, path, seconds, kPairs, &worst);
    accepted_ = model_.hi < 1 && worst <= kTolerance;
    return accepted_;
  }

  TuneReport Report() {
    TuneReport report;
    for (State& s : states_) report.tasks.push_back(s.report);
    report.model = model_;
    report.accepted = accepted_;
    report.predicted = Predicted();
    report.seconds = Spent();
    report.measured = measured_;
    return report;
  }

  TuneOptions options_;
  Worker worker_;
  runtime::TemporaryDirectory folder_;
  Clock::time_point start_;
  std::string default_, machine_;
  schedule::RecordFile old_;
  std::vector<State> states_;
  std::unique_ptr<RecordsWriter> writer_;
  double synced_ = 0;
  int measured_ = 0, gates_ = 0;
  Interval model_;
  bool accepted_ = false;
};

/// Numbers of a problem, for distances.
std::map<std::string, double> Sizes(const std::string& problem) {
  std::map<std::string, double> sizes;
  const Json json = Json::parse(problem, nullptr, false);
  if (!json.is_object()) return sizes;
  for (const auto& [key, value] : json.items()) {
    if (value.is_number_integer()) sizes[key] = std::log2(1.0 + std::max<int64_t>(0, value.get<int64_t>()));
  }
  return sizes;
}

}  // namespace

std::vector<std::string> NearestPlans(const std::vector<TuningRecord>& records, const Task& task, size_t count) {
  const std::map<std::string, double> own = Sizes(task.problem);
  std::vector<std::tuple<double, double, std::string>> near;
  for (const TuningRecord& r : records) {
    if (r.kernel != task.kernel || r.problem == task.problem || r.state != "confirmed") continue;
    if (!schedule::WhyNotRecord(r).empty()) continue;
    double distance = 0;
    const std::map<std::string, double> other = Sizes(r.problem);
    for (const auto& [key, value] : own) {
      auto it = other.find(key);
      distance += it == other.end() ? 1 : std::abs(it->second - value);
    }
    near.emplace_back(distance, r.hi, r.plan);
  }
  std::sort(near.begin(), near.end());
  std::vector<std::string> plans;
  for (const auto& [distance, hi, plan] : near) {
    if (plans.size() < count && std::find(plans.begin(), plans.end(), plan) == plans.end()) plans.push_back(plan);
  }
  return plans;
}

std::string TuneReport::ToJson() const {
  Json json{{"seconds", seconds},
            {"measured", measured},
            {"predicted", predicted},
            {"model", {{"ratio", model.ratio}, {"lo", model.lo}, {"hi", model.hi}, {"accepted", accepted}}}};
  json["tasks"] = Json::array();
  for (const TaskReport& t : tasks) {
    json["tasks"].push_back({{"name", t.name},
                             {"uses", t.uses},
                             {"us", t.seconds * 1e6},
                             {"state", t.state},
                             {"ratio", t.ratio},
                             {"lo", t.lo},
                             {"hi", t.hi},
                             {"plan", Json::parse(t.plan)},
                             {"measured", t.measured},
                             {"errors", t.errors},
                             {"error", t.first_error}});
  }
  return json.dump(1);
}

std::string TuneReport::ToText() const {
  std::string text;
  for (const TaskReport& t : tasks) {
    text += StrCat(t.name, " x", t.uses, ": ", FixedText(t.seconds * 1e6, 1), " us, ", t.measured, " plans, ", t.state);
    if (t.state == "confirmed" || t.state == "withdrawn") {
      text += StrCat(", ", FixedText(t.ratio, 3), " (", FixedText(t.lo, 3), " to ", FixedText(t.hi, 3), ")");
    }
    if (t.errors > 0) text += StrCat(", ", t.errors, " failed");
    if (!t.first_error.empty()) text += StrCat(", first: ", t.first_error.substr(0, 200));
    text += "\n";
  }
  if (tasks.empty()) text += "there is nothing to tune: no kernel of this model has several plans\n";
  if (measured > 0) {
    text += accepted ? StrCat("the model takes ", FixedText(model.ratio, 3), " of its time (", FixedText(model.lo, 3),
                              " to ", FixedText(model.hi, 3), ")\n")
                     : "the model keeps its default plans: nothing faster was found for certain\n";
  }
  return text;
}

TuneReport Tune(const TuneOptions& options) {
  driver::RegisterAll();
  return Session(options).Run();
}

}  // namespace treadle::tune
