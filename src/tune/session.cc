// SPDX-License-Identifier: Apache-2.0
#include "tune/session.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <set>

#include "driver/build/compile_relay.h"
#include "runtime/file_io.h"
#include "runtime/hash64.h"
#include "targets/cpu/machine_costs.h"
#include "treadle/base/json.h"
#include "treadle/runtime/manifest.h"
#include "treadle/schedule/alternatives.h"
#include "tune/graph_search.h"
#include "tune/records_writer.h"

namespace treadle::tune {
namespace {

using Clock = std::chrono::steady_clock;
using schedule::TuningRecord;

/// Tasks that take a smaller part of the model's time are left alone.
constexpr double kLeastShare = 0.005;
/// Part of the time that confirmations and the race of the whole models have.
constexpr double kFinalShare = 0.2, kMostFinal = 90;
/// Ratio of the whole model's times from which on an algorithm or layout is worth having.
constexpr double kModelGain = 0.9975;

/// A task while it is tuned.
struct State {
  Task task;
  std::unique_ptr<Search> search;
  std::vector<double> gains;  ///< of the last rounds, relative
  std::string confirmed;      ///< plan that is confirmed; "" while there is none
  Interval confirmation;
  double base = 1;  ///< of a kernel that the graph has from a record: that record's ratio
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
    if (!options_.output.empty()) CheckRecordsPath(options_.output, {options_.model});
    Say("compiling the model with default plans");
    ReadOld();
    std::vector<schedule::GraphChoice> choices;
    driver::CompiledModel model = CompileWith("", &choices);
    target_ = Target(model.target);
    machine_ = schedule::MachineId(target_->Features());
    default_ = Library(model, std::move(choices));
    if (!options_.dry_run) {
      writer_ = std::make_unique<RecordsWriter>(options_.output);
      WriteHeader();
    }
    if (options_.graph) TakeOldChoices(default_.choices);
    if (options_.graph && !options_.dry_run) SearchGraph();
    if (const std::string lines = GraphLines(); !lines.empty()) model = CompileWith(lines, nullptr);
    for (Task& task : ExtractTasks(model)) AddTask(std::move(task));
    if (options_.dry_run) return Report();
    TimeTasks();
    Search();
    ConfirmAll();
    Gate();
    return Report();
  }

 private:
  /// The model with lines of kPlansOption, whatever records the environment names. `choices`: what its graph chose.
  driver::CompiledModel CompileWith(const std::string& lines, std::vector<schedule::GraphChoice>* choices) const {
    driver::CompileOptions options = options_.compile;
    options.config[schedule::kRecordsOption] = schedule::kNoRecords;
    options.config[schedule::kPlansOption] = lines + options.config[schedule::kPlansOption];
    schedule::AlternativesLog log;
    driver::CompiledModel model = options_.compile_model ? options_.compile_model(options)
                                  : driver::IsRelayFile(options_.model)
                                      ? driver::CompileRelayFile(options_.model, options)
                                      : driver::CompileOnnxFile(options_.model, options);
    if (choices != nullptr) *choices = log.choices();
    return model;
  }
  /// A folder for each library: they may be as large as the model, so those that lost don't stay until the end.
  static GraphBuild Library(const driver::CompiledModel& model, std::vector<schedule::GraphChoice> choices) {
    const auto folder = std::make_shared<const runtime::TemporaryDirectory>();
    GraphBuild build{folder, folder->Path("model.so"), 0, std::move(choices)};
    driver::ExportLibrary(model, build.path);
    build.hash = runtime::Hash64(runtime::ReadFile(build.path));
    return build;
  }

  double Spent() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  int TrialsLeft() const {
    return options_.trials == 0 ? std::numeric_limits<int>::max() : options_.trials - measured_;
  }
  double SearchUntil() const { return options_.seconds - std::min(kMostFinal, kFinalShare * options_.seconds); }

  void Say(const std::string& what) const {
    if (!options_.progress) return;
    const double left = std::max(0.0, options_.seconds - Spent());
    options_.progress(StrCat(what, "; model ", FixedText((1 - Predicted()) * 100, 1), " % faster so far, ", measured_,
                             " plans measured, ", static_cast<int>(left), " s left"));
  }

  /// The model's time as a part of the default's, by what its graph gained and the tasks' ratios; other kernels count
  /// as they are.
  double Predicted() const {
    double before = 0, after = 0;
    for (const State& s : states_) {
      before += s.task.uses * s.task.seconds;
      after += s.task.uses * s.task.seconds * (s.search ? s.search->ratio() : 1);
    }
    return graph_ratio_ * (before > 0 ? after / before : 1);
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
    for (const TuningRecord& choice : graph_) {
      if (choice.problem == task.problem && choice.kernel == task.kernel) state.base = choice.hi;
    }
    if (best != nullptr && best->plan == task.plan) best = nullptr;  // that is the choice of the graph
    state.report.name = task.Name();
    state.report.uses = task.uses;
    state.report.plan = state.report.default_plan = task.plan;
    state.report.state = "default";
    state.search = std::make_unique<tune::Search>(*kernel, schedule::ProblemFromJson(task.problem), machine, task.plan,
                                                  seeds, tried, search);
    state.report.space = state.search->space_size();
    if (best != nullptr) {
      state.confirmed = best->plan;
      state.confirmation = {best->ratio / state.base, best->lo / state.base, best->hi / state.base};
      state.search->StartFrom(best->plan, best->ratio / state.base);
    }
    state.task = std::move(task);
    states_.push_back(std::move(state));
  }

  void WriteHeader() const {
    const Json header{{"f", "treadle-tune"},
                      {"v", 1},
                      {"m", machine_},
                      {"target", target_.str()},
                      {"build", runtime::VersionString()},
                      {"seed", options_.seed},
                      {"model", std::filesystem::path(options_.model).filename().string()},
                      {"t", static_cast<int64_t>(std::time(nullptr))}};
    writer_->Write(schedule::MakeRecordLine("header", header.dump()));
  }

  TuningRecord RecordOf(const Task& task, const std::string& plan) const {
    TuningRecord record = RecordOf(task.problem, task.kernel, plan);
    record.microseconds = task.seconds * 1e6;
    return record;
  }
  TuningRecord RecordOf(const std::string& problem, const std::string& name, const std::string& plan) const {
    const schedule::Kernel* kernel = schedule::FindKernel(name);
    TuningRecord record;
    record.problem = problem;
    record.kernel = name;
    record.plan = plan;
    record.revision = kernel->revision;
    record.schema = kernel->plan_type == nullptr ? "" : schedule::SchemaHash(kernel->plan_type);
    record.machine = machine_;
    record.threads = options_.measure.threads;
    record.time = static_cast<int64_t>(std::time(nullptr));
    return record;
  }

  /// Choices of the file for this graph: other kernels than costs choose, other forms, other layouts.
  void TakeOldChoices(const std::vector<schedule::GraphChoice>& choices) {
    for (const TuningRecord& r : schedule::BestRecords(old_.records, machine_)) {
      for (const schedule::GraphChoice& choice : choices) {
        if (choice.problem != r.problem) continue;
        const bool other = std::any_of(choice.others.begin(), choice.others.end(), [&](const auto& a) {
          return a.kernel == r.kernel && (r.kernel != choice.chosen.kernel || a.plan == r.plan);
        });
        if (other) graph_.push_back(r);
      }
    }
  }
  std::string GraphLines() const { return schedule::PlanLines(graph_); }

  /// Algorithms and layouts, by races of the whole model.
  void SearchGraph() {
    constexpr double kShare = 0.4, kTolerance = 1e-3;
    const double until = Spent() + kShare * (SearchUntil() - Spent());
    const std::vector<TuningRecord> chosen = schedule::BestRecords(old_.records, machine_);
    RaceRules rules = options_.measure.race;
    rules.at_most = kModelGain;
    GraphSearch::Hooks hooks;
    hooks.build = [&](const std::string& lines) {
      std::vector<schedule::GraphChoice> choices;
      const driver::CompiledModel model = CompileWith(lines, &choices);
      return Library(model, std::move(choices));
    };
    hooks.race = [&](const std::string& a, const std::string& b) {
      return worker_.RaceLibraries(a, b, rules, kTolerance);
    };
    hooks.confirm = [&](const std::string& a, const std::string& b) {
      return worker_.ConfirmLibraries(a, b, kModelGain);
    };
    const int trials = options_.trials == 0 ? std::numeric_limits<int>::max()
                                            : std::max(1, static_cast<int>(kShare * options_.trials));
    hooks.time_is_up = [&] { return Spent() > until || measured_ >= trials; };
    hooks.tried = [&](const std::string& problem, const schedule::Alternative& a) {
      return options_.resume && std::any_of(old_.records.begin(), old_.records.end(), [&](const TuningRecord& r) {
               return r.problem == problem && r.kernel == a.kernel && r.plan == a.plan && r.machine == machine_ &&
                      schedule::WhyNotRecord(r).empty();
             });
    };
    hooks.note = [&](const GraphStep& step) { NoteStep(step, chosen); };
    GraphSearch search(hooks);
    const std::string lines = schedule::PlanLines(chosen);
    search.Run(lines, lines.empty() ? default_ : hooks.build(lines));
    graph_ratio_ = search.ratio();
  }

  /// Records what became of an alternative. Its ratio is that of the model, times that of what the file had for the
  /// problem before: so the last one that won comes first.
  void NoteStep(const GraphStep& step, const std::vector<TuningRecord>& chosen) {
    double before = 1;
    for (const std::vector<TuningRecord>& records : {chosen, graph_}) {
      for (const TuningRecord& r : records) {
        if (r.problem == step.problem) before = std::min(before, r.hi);
      }
    }
    const bool won = step.measured.state == "raced";
    const Interval result = won ? step.confirmation.result : step.measured.result;
    TuningRecord record = RecordOf(step.problem, step.to.kernel, step.to.plan);
    record.state = won ? "confirmed" : step.measured.state;
    record.error = step.measured.error;
    record.ratio = result.ratio * before;
    record.lo = result.lo * before;
    record.hi = result.hi * before;
    record.pairs = won ? step.confirmation.pairs : step.measured.pairs;
    record.processes = won ? step.confirmation.processes : step.measured.pairs > 0 ? 1 : 0;
    record.microseconds = step.measured.seconds * 1e6;
    writer_->Write(record.ToLine());
    if (won) {
      std::erase_if(graph_, [&](const TuningRecord& r) { return r.problem == record.problem; });
      graph_.push_back(record);
    }
    ++measured_;
    Task task;
    task.problem = step.problem;
    graph_reports_.push_back({step.op, task.Name(), FormOf(step.from), FormOf(step.to), record.state, record.error,
                              result.ratio, result.lo, result.hi, Spent()});
    Say(StrCat(step.op, task.Name(), ": ", FormOf(step.to), " instead of ", FormOf(step.from), ": ", won ? "" : "not ",
               "faster, ", FixedText(result.ratio, 4), " of the model's time"));
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
    while (Spent() < SearchUntil() && TrialsLeft() > 0) {
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
    std::vector<std::string> plans = s->search->Propose();
    if (plans.empty()) {
      s->over = true;
      return;
    }
    plans.resize(std::min<size_t>(plans.size(), static_cast<size_t>(TrialsLeft())));
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
    record.ratio = m.result.ratio * incumbent_ratio * s->base;
    record.lo = m.result.lo * incumbent_ratio * s->base;
    record.hi = m.result.hi * incumbent_ratio * s->base;
    record.pairs = m.pairs;
    record.processes = m.pairs > 0 ? 1 : 0;
    writer_->Write(record.ToLine());
    s->report.trials.push_back(
        {m.plan, m.state, m.error, record.ratio / s->base, record.lo / s->base, record.hi / s->base, Spent()});
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
               FixedText(record.ratio / s->base, 3), " of the default's time"));
  }

  void ConfirmAll() {
    for (State& s : states_) {
      const std::string plan = s.search->incumbent();
      if (plan == s.task.plan || plan == s.confirmed) continue;
      Say(StrCat("confirming ", s.report.name));
      const Confirmation confirmation = worker_.ConfirmPlan(s.task, plan);
      s.report.state = "not confirmed";
      TuningRecord record = RecordOf(s.task, plan);
      record.ratio = confirmation.result.ratio * s.base;
      record.lo = confirmation.result.lo * s.base;
      record.hi = confirmation.result.hi * s.base;
      record.pairs = confirmation.pairs;
      record.processes = confirmation.processes;
      record.state = confirmation.accepted ? "confirmed" : "rejected";
      record.error = confirmation.accepted ? "" : "not confirmed";
      writer_->Write(record.ToLine());
      if (!confirmation.accepted) continue;
      s.confirmed = plan;
      s.confirmation = confirmation.result;
    }
    writer_->Sync();
  }

  /// What was confirmed, for the whole model to decide about.
  struct Winner {
    TuningRecord record;
    double saved = 0;        ///< seconds of a run of the model, about
    State* state = nullptr;  ///< of plans; null: of the graph
  };
  std::vector<Winner> Winners() {
    std::vector<Winner> winners;
    for (State& s : states_) {
      if (s.confirmed.empty()) continue;
      TuningRecord record = RecordOf(s.task, s.confirmed);
      record.ratio = s.confirmation.ratio * s.base;
      record.lo = s.confirmation.lo * s.base;
      record.hi = s.confirmation.hi * s.base;
      winners.push_back({record, s.task.uses * s.task.seconds * (1 - s.confirmation.ratio), &s});
    }
    // The plan of a problem whose kernel is the graph's choice states that kernel, too: it comes later.
    for (const TuningRecord& r : graph_) winners.push_back({r, r.microseconds * 1e-6 * (1 - r.ratio), nullptr});
    std::sort(winners.begin(), winners.end(), [](const Winner& a, const Winner& b) {
      return std::make_pair(-a.saved, a.record.problem) < std::make_pair(-b.saved, b.record.problem);
    });
    return winners;
  }

  /// The whole model decides: whatever it isn't faster with is withdrawn.
  void Gate() {
    const std::vector<Winner> winners = Winners();
    if (winners.empty()) return;
    std::vector<Winner> kept = winners;
    constexpr int kTries = 3;
    for (int i = 0; i < kTries && !kept.empty(); ++i) {
      if (Passes(kept)) break;
      // Those that save most are the most certain to save anything.
      kept.resize(i + 1 == kTries ? 0 : kept.size() / 2);
    }
    for (size_t i = 0; i < winners.size(); ++i) {
      const bool stays = i < kept.size();
      if (State* s = winners[i].state) {
        s->report.plan = s->confirmed;
        s->report.ratio = s->confirmation.ratio;
        s->report.lo = s->confirmation.lo;
        s->report.hi = s->confirmation.hi;
        s->report.state = stays ? "confirmed" : "withdrawn";
      }
      if (stays) continue;
      TuningRecord record = winners[i].record;
      record.state = "withdrawn";
      record.error = "the whole model wasn't faster";
      record.time = static_cast<int64_t>(std::time(nullptr));
      writer_->Write(record.ToLine());
    }
    const Json line{{"m", machine_},         {"model", std::filesystem::path(options_.model).filename().string()},
                    {"ratio", model_.ratio}, {"lo", model_.lo},
                    {"hi", model_.hi},       {"accepted", accepted_},
                    {"plans", kept.size()},  {"t", static_cast<int64_t>(std::time(nullptr))}};
    writer_->Write(schedule::MakeRecordLine("gate", line.dump()));
    writer_->Sync();
  }

  bool Passes(const std::vector<Winner>& winners) {
    constexpr int kPairs = 100;
    constexpr double kMostSeconds = 60, kTolerance = 1e-3;
    Say(StrCat("racing the whole model with ", winners.size(), " tuned plans"));
    // Of two lines for a problem the later one counts: plans are more than the choice of their kernel.
    std::string graph, plans;
    for (const Winner& w : winners) (w.state == nullptr ? graph : plans) += schedule::PlanLines({w.record});
    const GraphBuild tuned = Library(CompileWith(graph + plans, nullptr), {});
    double worst = 0;
    const double seconds = std::clamp(std::min(options_.seconds - Spent(), Spent()), 5.0, kMostSeconds);
    try {
      model_ = worker_.RaceModels(default_.path, tuned.path, seconds, kPairs, &worst);
      accepted_ = model_.hi < 1 && worst <= kTolerance;
    } catch (const Error& e) {  // the child is gone: what can't be shown isn't accepted
      Say(StrCat("the whole model couldn't be raced: ", e.what()));
      model_ = {};
      accepted_ = false;
    }
    return accepted_;
  }

  TuneReport Report() {
    TuneReport report;
    report.name = std::filesystem::path(options_.model).filename().string();
    report.target = target_.str();
    report.machine = machine_;
    report.graph = graph_reports_;
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
  Clock::time_point start_;
  GraphBuild default_;
  std::string machine_;
  Target target_;
  schedule::RecordFile old_;
  std::vector<State> states_;
  std::unique_ptr<RecordsWriter> writer_;
  double synced_ = 0;
  int measured_ = 0;
  std::vector<TuningRecord> graph_;  ///< of the graph: those of the file, then those that won
  std::vector<GraphReport> graph_reports_;
  double graph_ratio_ = 1;
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

TuneReport Tune(const TuneOptions& options) {
  driver::RegisterAll();
  return Session(options).Run();
}

}  // namespace treadle::tune
