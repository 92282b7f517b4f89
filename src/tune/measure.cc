// SPDX-License-Identifier: Apache-2.0
#include "tune/measure.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "treadle/base/json.h"

namespace treadle::tune {
namespace {

/// Libraries after which a child is replaced: those that are closed leave something behind.
constexpr int kMostLoaded = 64;
/// Seconds that loading and comparing whole models may take.
constexpr double kLoading = 120;
/// Width of the interval of a model's ratio that needs no further pairs.
constexpr double kPrecise = 0.005;
/// Seconds of a block of runs of a model that takes `seconds`.
double ModelBlock(double seconds) { return std::clamp(8 * seconds, 0.002, 0.02); }

Json AskJson(MeasureChild* child, const Json& request, double seconds) {
  const Json answer = Json::parse(child->Ask(request.dump(), seconds), nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object()) throw ChildGone("gave no answer");
  if (answer.contains("error")) throw Error(answer["error"].get<std::string>());
  return answer;
}

int64_t BytesOf(const Task& task) {
  int64_t bytes = 0;
  for (const Argument& a : task.arguments) bytes += runtime::TensorBytes(a.shape, a.dtype);
  return bytes;
}

}  // namespace

int64_t BytesOfCopies(const Task& task) {
  constexpr int64_t kMost = 256 << 20;
  const int64_t l3 = task.target->Features().l3_bytes;
  // Read in turns, somewhat more than the cache holds isn't found in it again.
  const int64_t beyond = std::min(2 * l3, std::max(kMost, l3 + l3 / 8));
  return task.model_constants > 0 ? std::min(beyond, task.model_constants) : beyond;
}

Worker::Worker(const MeasureOptions& options) : options_(options) {}

void Worker::DropChild() {
  child_.reset();
  child_state_.clear();
  loaded_ = 0;
}

Built Worker::BuildOne(const Task& task, const std::string& plan) {
  const Built built =
      BuildCandidates(task, {plan}, folder_.Path(""), StrCat("b", builds_++, "-"), options_.build).at(0);
  if (built.path.empty()) throw Error(StrCat(task.Name(), ": ", built.error));
  return built;
}

MeasureChild& Worker::Child(const Task& task, const Built& incumbent) {
  const std::string state = task.problem + incumbent.path;
  if (child_ != nullptr && loaded_ >= kMostLoaded) DropChild();
  if (child_ == nullptr) {
    constexpr int64_t kMiB = 1 << 20;
    const int64_t tensors = 3 * BytesOf(task) + 2 * BytesOfCopies(task);
    // Threads' stacks and the allocator's arenas reserve address space that isn't used.
    constexpr int kReserved = 4096;
    const int memory =
        options_.memory_mib == 0 ? 0 : options_.memory_mib + kReserved + static_cast<int>(tensors / kMiB);
    child_ = std::make_unique<MeasureChild>(MeasureProgram(), options_.threads, memory);
    child_state_.clear();
  }
  if (child_state_ == state) return *child_;
  Json arguments{{"do", "arguments"}, {"outputs", task.num_outputs}, {"copies", BytesOfCopies(task)}};
  arguments["tensors"] = Json::array();
  for (const Argument& a : task.arguments) {
    arguments["tensors"].push_back({{"shape", a.shape}, {"dtype", a.dtype.str()}, {"constant", a.constant}});
  }
  AskJson(child_.get(), arguments, options_.patience);
  const Json answer =
      AskJson(child_.get(), Json{{"do", "kernel"}, {"slot", 0}, {"path", incumbent.path}, {"symbol", task.symbol}},
              options_.patience);
  incumbent_seconds_ = answer.value("seconds", 0.0);
  ++loaded_;
  child_state_ = state;
  return *child_;
}

std::vector<Pair> Worker::Pairs(MeasureChild* child, int count, double block, double seconds) {
  const double patience = options_.patience + 8 * count * std::max(block, 4 * seconds);
  const Json answer =
      AskJson(child, Json{{"do", "pairs"}, {"a", 0}, {"b", 1}, {"count", count}, {"block", block}}, patience);
  std::vector<Pair> pairs;
  for (const Json& pair : answer.at("pairs")) {
    pairs.push_back({pair.at(0).get<double>(), pair.at(1).get<double>(), pair.at(2).get<int>() != 0});
  }
  return pairs;
}

Measured Worker::RaceOne(const Task& task, const Built& incumbent, const Built& candidate) {
  constexpr int kPairsAtOnce = 4;
  Measured measured;
  measured.state = "error";
  try {
    MeasureChild& child = Child(task, incumbent);
    measured.seconds = incumbent_seconds_;
    const double patience = options_.watchdog + 100 * incumbent_seconds_;
    const Json loaded = AskJson(
        &child, Json{{"do", "kernel"}, {"slot", 1}, {"path", candidate.path}, {"symbol", task.symbol}}, patience);
    ++loaded_;
    const double worst = AskJson(&child, Json{{"do", "compare"}, {"a", 0}, {"b", 1}}, patience).at("worst");
    if (!(worst <= options_.tolerance)) {
      measured.error = StrCat("wrong result: off by ", worst, " of the range");
      return measured;
    }
    Race race(options_.race);
    constexpr size_t kEnough = 12;
    std::vector<double> all;
    while (!race.decided() && race.pairs() + race.disturbed() < 4 * options_.race.most_pairs) {
      for (const Pair& pair :
           Pairs(&child, race.pairs() == 0 ? 1 : kPairsAtOnce, options_.block, loaded.value("seconds", 0.0))) {
        race.Add(pair);
        all.push_back(pair.candidate / pair.incumbent);
        measured.seconds = std::min(measured.seconds, pair.incumbent);
      }
      // Whatever disturbs the machine disturbs both: what is slower by far needn't wait for silence.
      if (all.size() >= kEnough && MedianOf(all).lo > 1) break;
    }
    measured.result = race.pairs() > 0 ? race.result() : MedianOf(all);
    measured.pairs = race.pairs() > 0 ? race.pairs() : static_cast<int>(all.size());
    measured.disturbed = race.disturbed();
    measured.state = race.accepted() ? "raced" : "rejected";
    if (!race.accepted())
      measured.error = race.decided()           ? race.verdict()
                       : measured.result.lo > 1 ? "not faster"
                                                : "the machine is too noisy";
  } catch (const ChildGone& e) {
    DropChild();
    measured.error = e.what();
  } catch (const Error& e) {
    measured.error = e.what();
  }
  return measured;
}

Measured Worker::Judge(const Task& task, const Built& incumbent, const Built& candidate,
                       std::map<uint64_t, Measured>* met) {
  Measured measured;
  if (candidate.path.empty()) {
    measured.state = "error";
    measured.error = candidate.error;
    return measured;
  }
  if (candidate.hash == incumbent.hash) {
    measured.state = "rejected";
    measured.error = "the same code as the incumbent's";
    return measured;
  }
  if (auto same = met->find(candidate.hash); same != met->end()) {
    measured = same->second;
    if (measured.state == "raced") measured.state = "rejected";
    measured.error = "the same code as another's";
    return measured;
  }
  return (*met)[candidate.hash] = RaceOne(task, incumbent, candidate);
}

std::vector<Measured> Worker::Batch(const Task& task, const std::string& incumbent,
                                    const std::vector<std::string>& plans,
                                    const std::function<void(const Measured&)>& each) {
  std::vector<std::string> all{incumbent};
  all.insert(all.end(), plans.begin(), plans.end());
  const size_t jobs = static_cast<size_t>(std::max(1, options_.build.jobs));
  Built first;
  std::map<uint64_t, Measured> met;
  std::vector<Measured> results;
  // A session that is killed loses the portion that is being built, so that takes little time.
  constexpr double kPortion = 1.5, kGrowth = 4;
  size_t count = jobs;
  for (size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    end = std::min(all.size(), begin + count);
    DropChild();  // it wouldn't be idle while others build
    const auto start = std::chrono::steady_clock::now();
    const std::vector<std::string> portion(all.begin() + static_cast<ptrdiff_t>(begin),
                                           all.begin() + static_cast<ptrdiff_t>(end));
    const std::vector<Built> built =
        BuildCandidates(task, portion, folder_.Path(""), StrCat("c", builds_++, "-"), options_.build);
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    const double more = std::min(kGrowth, kPortion / std::max(1e-3, spent.count()));
    count = std::max(jobs, static_cast<size_t>(static_cast<double>(built.size()) * more));
    for (size_t i = begin; i < end; ++i) {
      const Built& candidate = built[i - begin];
      if (i == 0) {
        if (candidate.path.empty()) throw Error(StrCat(task.Name(), ": ", candidate.error));
        first = candidate;
        continue;
      }
      results.push_back(Judge(task, first, candidate, &met));
      results.back().plan = all[i];
      if (!candidate.path.empty()) std::remove(candidate.path.c_str());
      if (each) each(results.back());
    }
  }
  std::remove(first.path.c_str());
  return results;
}

double Worker::Time(const Task& task, const std::string& plan) {
  constexpr int kRepeats = 5, kLeastMs = 1;
  const Built built = BuildOne(task, plan);
  MeasureChild& child = Child(task, built);
  // The fastest, as what else runs on the machine slows down single ones by far.
  const Json answer = AskJson(
      &child, Json{{"do", "time"}, {"slot", 0}, {"number", 1}, {"repeat", kRepeats}, {"min_repeat_ms", kLeastMs}},
      options_.patience + 100 * incumbent_seconds_);
  double least = incumbent_seconds_;
  for (const Json& cost : answer.value("costs", Json::array())) least = std::min(least, cost.get<double>());
  return least;
}

Confirmation Worker::ConfirmPlan(const Task& task, const std::string& plan) {
  DropChild();
  const std::vector<Built> built =
      BuildCandidates(task, {task.plan, plan}, folder_.Path(""), StrCat("f", builds_++, "-"), options_.build);
  std::vector<std::vector<Pair>> processes;
  for (const Built& b : built) {
    if (b.path.empty()) return {};
  }
  Confirmation confirmation;
  try {
    for (int i = 0; i < options_.processes; ++i) {
      DropChild();
      MeasureChild& child = Child(task, built[0]);
      AskJson(&child, Json{{"do", "kernel"}, {"slot", 1}, {"path", built[1].path}, {"symbol", task.symbol}},
              options_.patience);
      std::vector<Pair> usable;
      for (int tries = 0; tries < 6 && static_cast<int>(usable.size()) < options_.pairs; ++tries) {
        for (const Pair& pair : Pairs(&child, options_.pairs, options_.block, incumbent_seconds_)) {
          if (!pair.disturbed) usable.push_back(pair);
        }
      }
      processes.push_back(usable);
      if ((i + 1) % kConfirmRound != 0) continue;
      confirmation = Confirm(processes, options_.race.at_most);
      if (!confirmation.open) break;
    }
  } catch (const Error&) {
    DropChild();
    return {};
  }
  return confirmation;
}

double Worker::LoadLibraries(MeasureChild* child, const std::string& a, const std::string& b) {
  const double seconds =
      AskJson(child, Json{{"do", "model"}, {"slot", 0}, {"path", a}}, kLoading).value("seconds", 0.0);
  AskJson(child, Json{{"do", "model"}, {"slot", 1}, {"path", b}}, kLoading);
  return seconds;
}

Measured Worker::RaceLibraries(const std::string& a, const std::string& b, const RaceRules& rules, double tolerance) {
  constexpr int kPairsAtOnce = 4;
  DropChild();
  Measured measured;
  measured.state = "error";
  try {
    MeasureChild child(MeasureProgram(), options_.threads, 0);
    measured.seconds = LoadLibraries(&child, a, b);
    const double worst = AskJson(&child, Json{{"do", "compare"}, {"a", 0}, {"b", 1}}, kLoading).at("worst");
    if (!(worst <= tolerance)) {
      measured.error = StrCat("wrong result: off by ", worst, " of the range");
      return measured;
    }
    // A model's run is long: where others use the machine nearly every one is disturbed, both alike.
    Race calm(rules), any(rules);
    int count = 0;
    auto race = [&]() -> const Race& { return 4 * calm.pairs() >= count ? calm : any; };
    while (!race().decided() && count < 2 * rules.most_pairs) {
      for (Pair pair : Pairs(&child, count == 0 ? 1 : kPairsAtOnce, ModelBlock(measured.seconds), measured.seconds)) {
        ++count;
        calm.Add(pair);
        pair.disturbed = false;
        any.Add(pair);
      }
    }
    measured.result = race().result();
    measured.pairs = race().pairs();
    measured.disturbed = calm.disturbed();
    measured.state = race().accepted() ? "raced" : "rejected";
    if (!race().accepted()) measured.error = race().decided() ? race().verdict() : "no decision";
  } catch (const Error& e) {
    measured.error = e.what();
  }
  return measured;
}

Confirmation Worker::ConfirmLibraries(const std::string& a, const std::string& b, double at_most) {
  DropChild();
  std::vector<std::vector<Pair>> processes;
  Confirmation confirmation;
  try {
    for (int i = 0; i < options_.processes; ++i) {
      MeasureChild child(MeasureProgram(), options_.threads, 0);
      const double seconds = LoadLibraries(&child, a, b);
      processes.push_back(Pairs(&child, options_.pairs, ModelBlock(seconds), seconds));
      for (Pair& pair : processes.back()) pair.disturbed = false;
      if ((i + 1) % kConfirmRound != 0) continue;
      confirmation = Confirm(processes, at_most);
      if (!confirmation.open) break;
    }
  } catch (const Error&) {
    return {};
  }
  return confirmation;
}

Interval Worker::RaceModels(const std::string& a, const std::string& b, double seconds, int pairs, double* worst) {
  DropChild();
  MeasureChild child(MeasureProgram(), options_.threads, 0);
  std::vector<double> ratios, disturbed;
  const double first = LoadLibraries(&child, a, b);
  *worst = AskJson(&child, Json{{"do", "compare"}, {"a", 0}, {"b", 1}}, kLoading).at("worst");
  const auto start = std::chrono::steady_clock::now();
  auto spent = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  const auto all = [&] {
    // A model's run is long: on a machine that others use nearly every one is disturbed, both alike.
    std::vector<double> used = ratios;
    if (ratios.size() < disturbed.size() / 4) used.insert(used.end(), disturbed.begin(), disturbed.end());
    return used;
  };
  // What noise allows is told by the spread alone: to stop by which side of 1 the interval is on would be to choose.
  const auto precise = [&] {
    const Interval interval = MedianOf(all());
    return interval.hi - interval.lo <= kPrecise;
  };
  while (spent() < seconds && (static_cast<int>(ratios.size() + disturbed.size()) < pairs || !precise())) {
    for (const Pair& pair : Pairs(&child, 4, ModelBlock(first), first)) {
      (pair.disturbed ? disturbed : ratios).push_back(pair.candidate / pair.incumbent);
    }
  }
  return MedianOf(all());
}

}  // namespace treadle::tune
