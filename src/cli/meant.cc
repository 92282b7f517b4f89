// SPDX-License-Identifier: Apache-2.0
#include "cli/meant.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
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

std::string Lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool Has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string Meant(const std::string& name) { return StrCat("; did you mean '", name, "'?"); }

}  // namespace

std::string MeantVerb(const std::string& word, const std::vector<std::string>& verbs) {
  const std::string lower = Lower(word);
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

std::string MeantFile(const std::string& path) {
  constexpr size_t kMost = 1000;
  const std::filesystem::path wanted(path), folder = wanted.parent_path();
  const std::string name = Lower(wanted.filename());
  std::vector<std::string> stems;  // without extensions, which make all names alike
  std::map<std::string, std::string> models;
  std::error_code failure;
  std::filesystem::directory_iterator entry(folder.empty() ? "." : folder, failure);
  for (const std::filesystem::directory_iterator end; !failure && entry != end && stems.size() < kMost;
       entry.increment(failure)) {
    const std::filesystem::path file = entry->path().filename();
    const std::string extension = Lower(file.extension());
    if (extension != ".onnx" && extension != ".so" && extension != ".relay") continue;
    const std::string found = folder / file;
    if (Lower(file) == name || Lower(file.stem()) == name) return Meant(found);
    const bool same_kind = extension == Lower(wanted.extension());
    if (same_kind && models.emplace(file.stem(), found).second) stems.push_back(file.stem());
  }
  constexpr size_t kShort = 5;  // of shorter names half the letters may differ
  if (wanted.stem().string().size() < kShort) return "";
  std::sort(stems.begin(), stems.end());
  for (const std::string& stem : stems) {
    if (DidYouMean(wanted.stem(), stems) == Meant(stem)) return Meant(models.at(stem));
  }
  return "";
}

}  // namespace treadle::cli
