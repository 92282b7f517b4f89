// SPDX-License-Identifier: Apache-2.0
// tune, records.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>

#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "runtime/file_io.h"
#include "treadle/base/error.h"
#include "treadle/base/json.h"

namespace treadle::cli {
namespace {

/// "90", "90s", "10m", "1h" in seconds.
double ParseSeconds(const std::string& text) {
  const std::map<char, double> units{{'s', 1}, {'m', 60}, {'h', 3600}};
  std::string digits = text;
  double unit = 1;
  if (!digits.empty() && units.count(digits.back()) != 0) {
    unit = units.at(digits.back());
    digits.pop_back();
  }
  const std::optional<double> value = ParseDouble(digits);
  constexpr double kMost = 365.0 * 24 * 3600;
  if (!value || !(*value > 0) || *value * unit > kMost) {
    throw Error(StrCat("--time: expected a time such as 90s, 10m or 1h, not '", text, "'"), ExitCode::kUsage);
  }
  return *value * unit;
}

bool IsJson(const std::string& path) { return std::filesystem::path(path).extension() == ".json"; }

/// A line that is overwritten on a terminal; elsewhere one every few seconds.
class StatusLine {
 public:
  void operator()(const std::string& text) {
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> since = now - last_;
    if (isatty(STDERR_FILENO) != 0) {
      if (since.count() < 0.1) return;
      std::cerr << "\r\033[K" << text.substr(0, TerminalColumns() - 1) << std::flush;
    } else {
      if (since.count() < 5) return;
      std::cerr << text << "\n";
    }
    last_ = now;
  }
  ~StatusLine() {
    if (isatty(STDERR_FILENO) != 0) std::cerr << "\r\033[K";
  }

 private:
  std::chrono::steady_clock::time_point last_;
};

struct TuneVerb {
  CompileFlags flags;
  TuneRequest tune;
  std::string time = "10m", report;
  int seed = 0;
  bool json = false;

  int Run() const {
    TuneRequest request = tune;
    request.compile = flags.Parse();
    request.seconds = ParseSeconds(time);
    request.seed = seed;
    CheckExists(request.compile.model);
    if (!IsSource(request.compile.model)) {
      throw Error(StrCat(request.compile.model, " is compiled already: tune the .onnx file"), ExitCode::kUsage);
    }
    if (request.output.empty() && !request.dry_run) {
      throw Error("tune: say where records go: -o records.jsonl", ExitCode::kUsage);
    }
    CheckTextOutputs({request.output, report}, {request.compile.model});
    TuneResult result;
    {
      StatusLine status;  // its line is gone before others are printed
      if (request.compile.verbosity != Verbosity::kQuiet) {
        request.progress = [&status](const std::string& line) { status(line); };
      }
      result = Compiler().tune(request);
    }
    if (!report.empty()) WriteText(report, IsJson(report) ? result.json + "\n" : result.html);
    std::cout << (json ? result.json + "\n" : result.text);
    if (!json && !request.dry_run) {
      std::cout << "records: " << request.output << "; compile with --records " << request.output << "\n";
    }
    return 0;
  }
};

struct RecordsVerb {
  std::string action;
  std::vector<std::string> files;
  std::string output;
  bool json = false;

  int Run() const {
    std::string text;
    if (action == "merge" || action == "prune") {
      if (output.empty()) throw Error(StrCat("records ", action, ": say where to: -o all.jsonl"), ExitCode::kUsage);
      runtime::CheckOutputPath(output, runtime::FileKind::kText);
    }
    for (const std::string& file : files) {
      CheckExists(file);
      const std::string own = runtime::ReadFile(file);
      const RecordsSummary summary = Compiler().check_records(own, false);
      if (action != "check" && summary.foreign) {
        throw ModelFormatError(StrCat(file, " isn't a file of records: ", summary.faults[0]));
      }
      text += own;
      if (!text.empty() && text.back() != '\n') text += '\n';
    }
    if (action == "merge" || action == "prune") {
      WriteText(output, action == "merge" ? Unique(text) : Compiler().prune_records(text));
      return 0;
    }
    const RecordsSummary summary = Compiler().check_records(text, action == "best");
    if (json) {
      Json result{{"lines", summary.lines}, {"faults", summary.faults}};
      for (const RecordRow& row : summary.rows) {
        result["records"].push_back({{"state", row.state},
                                     {"kernel", row.kernel},
                                     {"problem", row.problem},
                                     {"plan", Json::parse(row.plan)},
                                     {"ratio", row.ratio},
                                     {"hi", row.hi},
                                     {"machine", row.machine},
                                     {"why_not", row.why_not}});
      }
      std::cout << result.dump(1) << "\n";
    } else {
      Print(summary);
      if (action == "best" && summary.rows.empty()) {
        std::cerr
            << "note: no record is in use: default plans are at least as fast, or records are of other machines\n";
      }
    }
    const bool bad = action == "check" && !summary.faults.empty();
    return bad ? static_cast<int>(ExitCode::kFormat) : 0;
  }

 private:
  static std::string Unique(const std::string& text) {
    std::set<std::string> met;
    std::string result;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
      if (met.insert(line).second) result += line + "\n";
    }
    return result;
  }

  void Print(const RecordsSummary& summary) const {
    std::map<std::string, int> states;
    for (const RecordRow& row : summary.rows) {
      ++states[row.why_not.empty() ? row.state : row.why_not];
      if (action == "check") continue;
      std::cout << fmt::format("{:10} {:.3f} (to {:.3f})  {} {}  {}\n", row.state, row.ratio, row.hi, row.kernel,
                               row.problem, row.plan);
    }
    if (action == "check") {
      std::cout << summary.lines << " lines, " << summary.rows.size() << " records\n";
      for (const auto& [state, count] : states) std::cout << fmt::format("{:6} {}\n", count, state);
    }
    for (const std::string& fault : summary.faults) std::cout << "left out: " << fault << "\n";
  }
};

}  // namespace

void AddTune(CLI::App* app, Action* action) {
  auto verb = std::make_shared<TuneVerb>();
  Verb sub(app, "tune", "measure alternative kernels and plans for a model on this machine, and record faster ones",
           action, [verb] { return verb->Run(); });
  sub.Add("model", &verb->flags.request.model, "an .onnx or .relay file").Required();
  sub.Add("-o,--output", &verb->tune.output, "records file to append to; plans with a record are not measured again");
  sub.Add("--time", &verb->time, "time budget, such as 90s, 10m or 1h (default: 10m)");
  sub.Add("--trials", &verb->tune.trials, "maximum number of candidates to measure (default: as many as time permits)")
      .NonNegative();
  sub.Add("--threads", &verb->tune.threads, "number of threads for running kernels (default: all)").Threads();
  sub.Add("--jobs", &verb->tune.jobs, "number of processes that compile candidates (default: one per CPU)").Threads();
  sub.Add("--seed", &verb->seed, "seed for the choice of candidates (default: 0)").NonNegative();
  sub.Add("!--no-resume", &verb->tune.resume, "measure plans again even if they have a record");
  sub.Add("--dry-run", &verb->tune.dry_run, "only list what can be tuned");
  sub.Add("!--no-graph", &verb->tune.graph, "tune only kernel plans, not algorithms and layouts");
  sub.Add("--report", &verb->report, "write a page about the session, or its data if the name ends in .json");
  sub.Add("--json", &verb->json, "machine-readable output");
  verb->flags.AddTo(&sub);

  auto records = std::make_shared<RecordsVerb>();
  Verb list(app, "records", "list, check, merge or prune tuning records", action, [records] { return records->Run(); });
  list.Add("action", &records->action,
           "list (all records), best (records that builds on their machines use), check, merge or prune")
      .Required()
      .OneOf({"list", "best", "check", "merge", "prune"});
  list.Add("files", &records->files, "records files").Required();
  list.Add("-o,--output", &records->output, "for merge and prune: the file to write");
  list.Add("--json", &records->json, "machine-readable output");
}

}  // namespace treadle::cli
