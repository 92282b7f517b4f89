// SPDX-License-Identifier: Apache-2.0
#include "cli/meant.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "treadle/base/error.h"
#include "treadle/base/suggest.h"

namespace treadle::cli {
namespace {

using Words = std::map<std::string, std::string>;

/// Of tvmc, benchmark_app, trtexec, iree-* and onnxruntime_perf_test, and everyday ones.
const Words& Verbs() {
  static const Words words{
      {"version", "--version"}, {"build", "compile"},       {"convert", "compile"}, {"benchmark", "bench"},
      {"perf", "bench"},        {"benchmark_app", "bench"}, {"infer", "run"},       {"predict", "run"},
      {"exec", "run"},          {"info", "inspect"},        {"show", "inspect"},    {"dump", "inspect"},
      {"check", "verify"},      {"compare", "verify"},      {"test", "verify"},     {"devices", "doctor"},
      {"clean", "cache"},       {"operators", "ops"},       {"trace", "profile"},
  };
  return words;
}

/// Options of those programs, and the flag here; a verb may not have it.
const Words& Flags() {
  static const Words words{
      {"--shape", "input-shapes"},  {"--shapes", "input-shapes"},
      {"--iterations", "repeat"},   {"--iters", "repeat"},
      {"--niter", "repeat"},        {"--runs", "repeat"},
      {"--number", "repeat"},       {"-n", "repeat"},
      {"--duration", "time"},       {"--warmup", "warm-up"},
      {"--opt", "opt-level"},       {"--optimize", "opt-level"},
      {"--tolerance", "rtol"},      {"--tol", "rtol"},
      {"--fp16", "precision"},      {"--bf16", "precision"},
      {"--half", "precision"},      {"--dtype", "precision"},
      {"--out", "output"},          {"--batch", "dim"},
      {"--batch-size", "dim"},      {"--mcpu", "target"},
      {"--march", "target"},        {"--arch", "target"},
      {"--num-threads", "threads"}, {"--nthreads", "threads"},
      {"--nireq", "requests"},      {"--streams", "requests"},
      {"--golden", "reference"},    {"--expected", "reference"},
      {"--silent", "quiet"},        {"--tuning-records", "records"},
      {"--inputs", "input"},
  };
  return words;
}

bool Has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string Meant(const std::string& name) { return StrCat("; did you mean '", name, "'?"); }

}  // namespace

std::string MeantVerb(const std::string& word, const std::vector<std::string>& verbs) {
  std::string lower = word;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (Has(verbs, lower)) return Meant(lower);
  if (const auto known = Verbs().find(lower); known != Verbs().end()) return Meant(known->second);
  return DidYouMean(word, verbs);
}

std::string MeantFlag(const std::string& option, const std::vector<std::string>& flags) {
  std::string name = option;
  std::replace(name.begin(), name.end(), '_', '-');
  if (const auto known = Flags().find(name); known != Flags().end() && Has(flags, known->second))
    return Meant("--" + known->second);
  if (name.starts_with("-O") && Has(flags, "opt-level")) return Meant("--opt-level");
  // As those programs write it: -shape, -niter.
  if (!name.starts_with("--") && name.size() > 2) return MeantFlag("-" + name, flags);
  if (!name.starts_with("--")) return "";
  std::string meant = DidYouMean(name.substr(2), flags);
  if (const size_t quote = meant.find('\''); quote != std::string::npos) meant.insert(quote + 1, "--");
  return meant;
}

}  // namespace treadle::cli
