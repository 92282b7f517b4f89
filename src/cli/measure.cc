// SPDX-License-Identifier: Apache-2.0
// Measures what a tuner compiled, in a process of its own that has no compiler: one JSON object per line in, one out.
//
//   {"do":"arguments","tensors":[{"shape":[..],"dtype":"float32","constant":true}],"outputs":1,"copies":67108864}
//   {"do":"kernel","slot":0,"path":"a.so","symbol":"f"}      {"do":"model","slot":1,"path":"b.so"}
//   {"do":"compare","a":0,"b":1}        -> {"worst":1e-7}: largest difference, as a part of the values' range
//   {"do":"time","slot":0,"number":3,"repeat":1,"min_repeat_ms":0}  -> {"costs":[seconds of a run, ..]}
//   {"do":"pairs","a":0,"b":1,"count":8,"block":0.002}  -> {"pairs":[[seconds of a, seconds of b, disturbed], ..]}
#include <sys/prctl.h>
#include <sys/resource.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <fstream>
#include <iostream>
#include <random>

#include "cli/commands.h"
#include "runtime/time_evaluator.h"
#include "treadle/base/error.h"
#include "treadle/base/half.h"
#include "treadle/base/json.h"
#include "treadle/runtime/model.h"
#include "treadle/runtime/module.h"
#include "treadle/runtime/thread_pool.h"

namespace treadle::cli {
namespace {

using runtime::NDArray;
using Clock = std::chrono::steady_clock;

/// One of those that are compared.
struct Slot {
  std::function<void()> run;
  std::vector<NDArray> outputs;
  std::shared_ptr<runtime::ModelContext> context;
  double seconds = 0;  ///< of a run, about
};

/// Values as a network has them: normally distributed floats, small integers; zeros for wide ones, which may be
/// indices.
void Fill(const NDArray& tensor, std::mt19937* random) {
  std::normal_distribution<float> normal(0.5F, 1.0F);
  const DataType dtype = tensor.dtype();
  if (dtype == DataType::Float(32)) {
    for (int64_t i = 0; i < tensor.size(); ++i) tensor.Data<float>()[i] = normal(*random);
  } else if (dtype.bits() == 8 && !dtype.is_bool()) {
    for (int64_t i = 0; i < tensor.nbytes(); ++i) tensor.Data<uint8_t>()[i] = static_cast<uint8_t>((*random)() & 0x7F);
  } else {
    std::fill_n(tensor.Data<char>(), tensor.nbytes(), static_cast<char>(0));
  }
}

double ValueAt(const NDArray& tensor, int64_t i) {
  const DataType dtype = tensor.dtype();
  if (dtype == DataType::Float(32)) return static_cast<double>(tensor.Data<float>()[i]);
  if (dtype == DataType::Float(64)) return tensor.Data<double>()[i];
  if (dtype == DataType::Int(32)) return tensor.Data<int32_t>()[i];
  if (dtype == DataType::Int(64)) return static_cast<double>(tensor.Data<int64_t>()[i]);
  if (dtype == DataType::Int(8)) return tensor.Data<int8_t>()[i];
  if (dtype == DataType::UInt(8)) return tensor.Data<uint8_t>()[i];
  return 0;
}

/// Largest difference as a part of the range of `a`; infinite where one is NaN and the other isn't. Of types that
/// ValueAt doesn't read: 0 for equal bytes, else infinite.
double Worst(const NDArray& a, const NDArray& b) {
  if (a.nbytes() != b.nbytes()) return HUGE_VAL;
  if (std::memcmp(a.data_ptr(), b.data_ptr(), static_cast<size_t>(a.nbytes())) == 0) return 0;
  if (a.dtype().bits() == 16 || a.dtype().is_bool()) return HUGE_VAL;
  double low = HUGE_VAL, high = -HUGE_VAL, worst = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    const double x = ValueAt(a, i), y = ValueAt(b, i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    if (!std::isfinite(x) || !std::isfinite(y)) return HUGE_VAL;
    worst = std::max(worst, std::abs(x - y));
  }
  for (int64_t i = 0; i < a.size(); ++i) {
    const double x = ValueAt(a, i);
    if (!std::isfinite(x)) continue;
    low = std::min(low, x);
    high = std::max(high, x);
  }
  const double range = std::max(std::abs(low), std::abs(high));
  return range > 0 ? worst / range : HUGE_VAL;
}

/// Signs that others ran on the cores: times at which threads of this process had to leave one, and what the host took.
struct Interruptions {
  long switches = 0;
  long long stolen = 0;
  static Interruptions Now() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    std::ifstream stat("/proc/stat");
    std::string word;
    long long value = 0, stolen = 0;
    stat >> word;
    constexpr int kStealColumn = 8;
    for (int i = 0; i < kStealColumn && stat >> value; ++i) stolen = value;
    return {usage.ru_nivcsw, stolen};
  }
  bool operator==(const Interruptions&) const = default;
};

class Server {
 public:
  explicit Server(int threads) : threads_(threads) {}

  Json Answer(const Json& request) {
    const auto what = request.at("do").get<std::string>();
    if (what == "arguments") return SetArguments(request);
    if (what == "kernel") return LoadKernel(request);
    if (what == "model") return LoadModel(request);
    if (what == "compare") return Compare(At(request, "a"), At(request, "b"));
    if (what == "pairs") return Pairs(request);
    if (what == "time") return Time(request);
    throw Error(StrCat("'", what, "' isn't a request of measure"));
  }

 private:
  Slot& At(const Json& request, const char* key) {
    Slot& slot = slots_.at(request.at(key).get<size_t>());
    if (!slot.run) throw Error(StrCat("slot ", request.at(key).get<int>(), " is empty"));
    return slot;
  }

  Json SetArguments(const Json& request) {
    constexpr int64_t kMaxCopies = 64;
    slots_ = std::vector<Slot>(2);
    copies_.clear();
    std::mt19937 random(7);
    std::vector<NDArray> tensors;
    std::vector<bool> constant;
    int64_t bytes = 0;
    for (const Json& item : request.at("tensors")) {
      tensors.push_back(NDArray::Empty(item.at("shape").get<std::vector<int64_t>>(),
                                       DataType::FromString(item.at("dtype").get<std::string>())));
      Fill(tensors.back(), &random);
      constant.push_back(item.value("constant", false));
      if (constant.back()) bytes += tensors.back().nbytes();
    }
    outputs_ = request.at("outputs").get<size_t>();
    if (outputs_ > tensors.size()) throw Error("more outputs than tensors");
    // Of a network's constants few are in the caches when a kernel starts: each run has another copy of them.
    const int64_t wanted = request.value("copies", int64_t{0});
    const int64_t count = bytes == 0 ? 1 : std::min(kMaxCopies, wanted / bytes + 1);
    for (int64_t i = 0; i < count; ++i) {
      std::vector<NDArray> set = tensors;
      for (size_t k = 0; i > 0 && k < set.size(); ++k) {
        if (constant[k]) set[k] = tensors[k].Copy();
      }
      copies_.push_back(std::move(set));
    }
    return Json::object();
  }

  Json LoadKernel(const Json& request) {
    Slot& slot = slots_.at(request.at("slot").get<size_t>());
    slot = Slot();
    const auto path = request.at("path").get<std::string>(), symbol = request.at("symbol").get<std::string>();
    const runtime::Module library = runtime::Module::LoadFromFile(path, "so");
    const runtime::PackedFunc function = library.GetFunction(symbol, true);
    if (!function) throw Error(StrCat(path, " has no function ", symbol));
    if (copies_.empty()) throw Error("arguments come first");
    // Both slots write to the same memory: where it lies makes some of the time.
    const std::vector<std::vector<NDArray>>& sets = copies_;
    slot.outputs.assign(sets[0].end() - static_cast<std::ptrdiff_t>(outputs_), sets[0].end());
    auto next = std::make_shared<size_t>(0);
    slot.run = [sets, function, library, next] {
      const std::vector<NDArray>& set = sets[*next];
      *next = (*next + 1) % sets.size();
      std::vector<TreadleValue> values(set.size());
      std::vector<int> codes(set.size(), kTreadleDLTensor);
      for (size_t i = 0; i < set.size(); ++i) values[i].v_handle = set[i].handle();
      runtime::RetValue result;
      function.CallPacked(runtime::Args(values.data(), codes.data(), static_cast<int>(set.size())), &result);
    };
    return Calibrate(&slot);
  }

  Json LoadModel(const Json& request) {
    if (slots_.empty()) slots_ = std::vector<Slot>(2);
    Slot& slot = slots_.at(request.at("slot").get<size_t>());
    slot = Slot();
    const runtime::Model model = runtime::Model::Load(request.at("path").get<std::string>());
    slot.context = std::make_shared<runtime::ModelContext>(model.CreateContext());
    slot.context->SetThreads(threads_);
    std::mt19937 random(7);
    for (const runtime::TensorInfo& input : model.inputs()) {
      std::vector<int64_t> shape = input.shape;
      for (int64_t& dim : shape) dim = dim < 0 ? 1 : dim;
      const NDArray value = NDArray::Empty(shape, input.dtype);
      Fill(value, &random);
      slot.context->SetInput(input.name, value);
    }
    slot.run = [context = slot.context] { context->Run(); };
    Json answer = Calibrate(&slot);
    for (size_t i = 0; i < model.outputs().size(); ++i) slot.outputs.push_back(slot.context->PeekOutput(i));
    return answer;
  }

  Json Calibrate(Slot* slot) {
    const runtime::RunScope scope(threads_);
    slot->run();  // pages are touched, workers started
    constexpr int kRuns = 3;
    const auto start = Clock::now();
    for (int i = 0; i < kRuns; ++i) slot->run();
    slot->seconds = std::chrono::duration<double>(Clock::now() - start).count() / kRuns;
    return Json{{"seconds", slot->seconds}};
  }

  Json Compare(Slot& a, Slot& b) {
    const runtime::RunScope scope(threads_);
    auto run = [](Slot& slot) {
      slot.run();
      std::vector<NDArray> results;
      for (const NDArray& output : slot.outputs) {
        results.push_back(output.Copy());
        // What the other one doesn't write mustn't be this one's.
        if (!slot.context) std::fill_n(output.Data<char>(), output.nbytes(), static_cast<char>(0x55));
      }
      return results;
    };
    const std::vector<NDArray> expected = run(a), actual = run(b);
    double worst = 0;
    for (size_t i = 0; i < expected.size() && i < actual.size(); ++i) {
      worst = std::max(worst, Worst(expected[i], actual[i]));
    }
    return Json{{"worst", std::isfinite(worst) ? worst : 1e30}};
  }

  Json Pairs(const Json& request) {
    Slot &a = At(request, "a"), &b = At(request, "b");
    const double block = request.at("block").get<double>();
    const int count = request.at("count").get<int>();
    const runtime::RunScope scope(threads_);
    constexpr double kFewest = 3, kMost = 1e6;
    const auto runs = static_cast<int>(
        std::clamp(block / std::max(1e-8, std::min(a.seconds, b.seconds)), a.seconds > block ? 1 : kFewest, kMost));
    // Whoever shares a core's pipelines or caches from outside leaves no trace but time: of several parts in turns at
    // least one of each is mostly spared; of more parts where times differ more.
    constexpr int kParts = 4, kNoisyParts = 8;
    constexpr double kNoisy = 1.02;
    const int fewest = std::min(kParts, runs), runs_of_part = runs / fewest;
    auto time = [&](Slot& slot) {
      const auto start = Clock::now();
      for (int i = 0; i < runs_of_part; ++i) slot.run();
      return std::chrono::duration<double>(Clock::now() - start).count() / runs_of_part;
    };
    Json pairs = Json::array();
    for (int i = 0; i < count; ++i) {
      std::vector<runtime::TimedPair> parts;
      const int count_of_parts = noise_ > kNoisy ? std::min(kNoisyParts, 2 * fewest) : fewest;
      for (int k = 0; k < count_of_parts; ++k) {
        const Interruptions before = Interruptions::Now();
        // Which one is first alternates: ABBA.
        const bool swapped = (turn_++ & 1) != 0;
        const double first = time(swapped ? b : a), second = time(swapped ? a : b);
        const bool disturbed = !(before == Interruptions::Now());
        parts.push_back({swapped ? second : first, swapped ? first : second, disturbed});
      }
      const runtime::TimedPair pair = runtime::LeastOf(parts);
      if (parts.size() > 1) noise_ = runtime::SpreadOf(parts);
      pairs.push_back({pair.a, pair.b, pair.disturbed ? 1 : 0});
    }
    return Json{{"pairs", pairs}};
  }

  Json Time(const Json& request) {
    Slot& slot = At(request, "slot");
    const runtime::RunScope scope(threads_);
    return Json{{"costs", runtime::TimeRuns(slot.run, request.value("number", 1), request.value("repeat", 1),
                                            request.value("min_repeat_ms", 0))}};
  }

  int threads_;
  std::vector<Slot> slots_;
  std::vector<std::vector<NDArray>> copies_;
  size_t outputs_ = 0;
  unsigned turn_ = 0;
  double noise_ = 1;  ///< of the last pair's parts
};

struct MeasureVerb {
  int threads = 0, memory = 0;

  int Run() const {
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (memory > 0) {
      const rlimit most{static_cast<rlim_t>(memory) << 20, static_cast<rlim_t>(memory) << 20};
      setrlimit(RLIMIT_AS, &most);
    }
    Server server(threads);
    for (std::string line; std::getline(std::cin, line);) {
      Json answer;
      try {
        answer = server.Answer(Json::parse(line));
      } catch (const std::exception& e) {
        answer = Json{{"error", e.what()}};
      }
      std::cout << answer.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
    }
    return 0;
  }
};

}  // namespace

void AddMeasure(CLI::App* app, Action* action) {
  auto verb = std::make_shared<MeasureVerb>();
  Verb sub(app, "measure", "measure compiled kernels for a tuner: JSON lines on standard input and output", action,
           [verb] { return verb->Run(); });
  sub.Add("--threads", &verb->threads, "number of threads (default: all)").Threads();
  sub.Add("--memory", &verb->memory, "limit of the address space in MiB (default: no limit)").NonNegative();
}

}  // namespace treadle::cli
