// SPDX-License-Identifier: Apache-2.0
#include "cli/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>

#include "cli/commands.h"
#include "cli/input_shapes.h"
#include "cli/measured_run.h"
#include "cli/session.h"
#include "cli/timing.h"
#include "runtime/file_io.h"
#include "treadle/base/error.h"

namespace treadle::cli {
namespace {

using runtime::OpTiming;

double Total(const std::vector<ProfileRow>& rows) {
  double total = 0;
  for (const ProfileRow& row : rows) total += row.seconds;
  return total;
}

double TotalBound(const std::vector<ProfileRow>& rows) {
  double total = 0;
  for (const ProfileRow& row : rows) total += row.bound;
  return total;
}

double Percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

/// 0 where the row has no multiply-adds.
double Gflops(const ProfileRow& row) { return row.seconds > 0 ? 2e-9 * row.macs / row.seconds : 0; }

std::string CsvField(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

/// Milliseconds with as many digits as tell the rows of a profile that takes `total` seconds apart.
std::string Milliseconds(double seconds, double total) {
  return fmt::format("{:10.{}f}", seconds * 1e3, total >= 1e-3 ? 3 : total >= 1e-5 ? 5 : 6);
}

}  // namespace

std::vector<OpTiming> MedianOfRuns(const std::vector<std::vector<OpTiming>>& runs) {
  std::vector<OpTiming> result = runs.back();
  for (size_t i = 0; i < result.size(); ++i) {
    std::vector<double> seconds;
    for (const std::vector<OpTiming>& run : runs) {
      if (run.size() == result.size() && run[i].name == result[i].name) seconds.push_back(run[i].seconds);
    }
    result[i].seconds = Summarise(seconds).median;
  }
  return result;
}

std::vector<ProfileRow> MakeProfile(const std::vector<OpTiming>& timings, ProfileBy by,
                                    const std::vector<double>& bounds) {
  std::vector<ProfileRow> rows;
  std::map<std::string, size_t> known;
  for (size_t i = 0; i < timings.size(); ++i) {
    const OpTiming& timing = timings[i];
    const std::string compiler = timing.compiler.empty() ? "Treadle" : timing.compiler;
    const std::string& key = by == ProfileBy::kCall     ? timing.name
                             : by == ProfileBy::kKernel ? timing.func_name
                                                        : compiler;
    const auto [it, fresh] = known.emplace(key, rows.size());
    if (fresh || by == ProfileBy::kCall) {
      it->second = rows.size();
      rows.push_back({key, by == ProfileBy::kCompiler ? "" : timing.func_name,
                      by == ProfileBy::kCall ? timing.origin : "", timing.shapes, 0, 0, 0});
    }
    ProfileRow& row = rows[it->second];
    if (++row.calls > 1) row.shapes.clear();
    row.seconds += timing.seconds;
    row.macs += std::max(0.0, timing.macs);
    // More than it took: of some operands it reads only parts, as slices and strided windows do.
    if (!bounds.empty()) row.bound += std::min(bounds[i], timing.seconds);
  }
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.seconds != b.seconds ? a.seconds > b.seconds : a.name < b.name;
  });
  return rows;
}

std::string ToText(const std::vector<ProfileRow>& rows, size_t top) {
  const double total = Total(rows);
  const size_t shown = top == 0 ? rows.size() : std::min(top, rows.size());
  const double bound = TotalBound(rows);
  // The column of bounds of a row, or its heading.
  const auto column = [bound](const std::string& text) { return bound > 0 ? fmt::format("  {:>7}", text) : ""; };
  const auto share = [&column](double least, double seconds) {
    return column(least > 0 && seconds > 0 ? fmt::format("{:.0f}", Percent(least, seconds)) : "");
  };
  std::string text =
      fmt::format("{:>10}  {:>6}  {:>9}{}  {:>5}  {}\n", "ms", "%", "GFLOP/s", column("% bound"), "calls", "name");
  size_t calls = 0;
  double rest = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const ProfileRow& row = rows[i];
    calls += row.calls;
    if (i >= shown) {
      rest += row.seconds;
      continue;
    }
    const std::string rate = row.macs > 0 ? fmt::format("{:.1f}", Gflops(row)) : "";
    text += fmt::format("{}  {:6.1f}  {:>9}{}  {:5}  {}", Milliseconds(row.seconds, total), Percent(row.seconds, total),
                        rate, share(row.bound, row.seconds), row.calls, row.origin.empty() ? row.name : row.origin);
    text += !row.function.empty() && row.function != row.name ? StrCat("  ", row.function, "\n") : "\n";
  }
  if (shown < rows.size()) {
    text += fmt::format("{}  {:6.1f}  {:>9}{}  {:>5}  {} more (--top 0 shows all)\n", Milliseconds(rest, total),
                        Percent(rest, total), "", column(""), "", rows.size() - shown);
  }
  return text + fmt::format("{}  {:6.1f}  {:>9}{}  {:5}  in all\n", Milliseconds(total, total), 100.0, "",
                            share(bound, total), calls);
}

std::string ToCsv(const std::vector<ProfileRow>& rows) {
  const double total = Total(rows);
  std::string text = "name,function,nodes,calls,ms,percent,gflops,shapes,bound_ms\n";
  for (const ProfileRow& row : rows) {
    text += fmt::format("{},{},{},{},{:.6f},{:.3f},{:.3f},{},{}\n", CsvField(row.name), CsvField(row.function),
                        CsvField(row.origin), row.calls, row.seconds * 1e3, Percent(row.seconds, total), Gflops(row),
                        CsvField(row.shapes), row.bound > 0 ? fmt::format("{:.6f}", row.bound * 1e3) : "");
  }
  return text;
}

Json ToJson(const std::vector<ProfileRow>& rows) {
  Json list = Json::array();
  const double total = Total(rows);
  for (const ProfileRow& row : rows) {
    Json entry{{"name", row.name},      {"function", row.function}, {"nodes", row.origin},
               {"calls", row.calls},    {"ms", row.seconds * 1e3},  {"percent", Percent(row.seconds, total)},
               {"gflops", Gflops(row)}, {"shapes", row.shapes}};
    if (row.bound > 0) entry["bound_ms"] = row.bound * 1e3;
    list.push_back(std::move(entry));
  }
  return list;
}

namespace {

struct ProfileVerb {
  CompileFlags flags;
  InputFlags inputs;
  std::string by = "call", csv, trace, page_file;
  int repeat = 10, threads = 0, top = 20;
  bool json = false, bound = false;

  int Run() const {
    CheckTextOutputs({csv, trace, page_file}, {flags.request.model});
    const CompileRequest request = WithInputShapes(flags.Parse(), inputs.texts, /*fills=*/true);
    const runtime::Model model = LoadOrCompile(request);
    PageRequest page;
    page.model = model;
    std::vector<OpTiming> last;
    const std::vector<double> whole =
        Measure(MakeInputs(model, inputs.texts, "random", inputs.Parse(request)), repeat, threads, &page, &last);
    const ProfileBy kind = by == "call" ? ProfileBy::kCall : by == "kernel" ? ProfileBy::kKernel : ProfileBy::kCompiler;
    std::vector<double> bounds;
    if (bound) bounds = Compiler().least_seconds(page.timings, model.manifest().target, threads);
    const std::vector<ProfileRow> rows = MakeProfile(page.timings, kind, bounds);
    if (!csv.empty()) WriteText(csv, ToCsv(rows));
    if (!trace.empty()) WriteText(trace, runtime::ChromeTrace(last));
    if (!page_file.empty()) {
      page.output = page_file;
      page.title = std::filesystem::path(flags.request.model).filename().string();
      Compiler().write_page(page);
    }
    if (json) {
      std::cout
          << Json{{"model", flags.request.model}, {"run", ToJson(Summarise(whole))}, {"rows", ToJson(rows)}}.dump()
          << "\n";
    } else {
      std::cout << ToText(rows, static_cast<size_t>(top)) << "without measuring calls: " << ToText(Summarise(whole))
                << "\n";
    }
    return 0;
  }
};

}  // namespace

void AddProfile(CLI::App* app, Action* action) {
  auto verb = std::make_shared<ProfileVerb>();
  Verb sub(app, "profile", "measure the time of each kernel call of a model", action, [verb] { return verb->Run(); });
  sub.Add("model", &verb->flags.request.model, "a compiled .so, or an .onnx file").Required();
  verb->inputs.AddTo(&sub, &verb->flags, "; inputs not given are random");
  sub.Add("--by", &verb->by, "one row per call, kernel or compiler (default: call)")
      .OneOf({"call", "kernel", "compiler"});
  sub.Add("--top", &verb->top, "number of rows to print; 0 for all (default: 20)").NonNegative();
  sub.Add("--repeat", &verb->repeat, "number of runs (default: 10)").Positive();
  sub.Add("--threads", &verb->threads, "number of threads (default: all)").Threads();
  sub.Add("--bound", &verb->bound,
          "measure this machine, and print what share of the time its multiply-adds and memory would take at least");
  sub.Add("--csv", &verb->csv, "write all rows to a CSV file");
  sub.Add("--trace", &verb->trace, "write a trace of the last run, for ui.perfetto.dev");
  sub.Add("--report", &verb->page_file, "write a report page (see treadle report)");
  sub.Add("--json", &verb->json, "machine-readable output");
  verb->flags.AddTo(&sub);
}

}  // namespace treadle::cli
