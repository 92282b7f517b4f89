// SPDX-License-Identifier: Apache-2.0
// What would make a model faster, by what it may gain.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "report/sections.h"
#include "treadle/base/error.h"
#include "treadle/ir/target.h"

namespace treadle::report {
namespace {

constexpr size_t kMostItems = 5;
constexpr double kWorthwhile = 0.02;  ///< of a run: what less gains isn't advised
constexpr double kSmallCall = 3e-6;   ///< seconds: mostly what calling takes

struct Advice {
  double gain;  ///< part of a run's time that it may spare
  std::string text;
};

/// The part of the time that calls which aren't at their roofline would spare, those of a kernel together.
void AdviseTuning(const std::vector<Operation>& operations, double total, std::vector<Advice>* all) {
  std::map<std::string, std::pair<double, double>> by_choice;  // seconds, attainable
  const Operation* worst = nullptr;
  for (const Operation& op : operations) {
    if (op.macs <= 0 || op.attainable <= 0) continue;
    auto& [seconds, attainable] = by_choice[op.choice.empty() ? "products" : op.choice];
    seconds += op.seconds;
    attainable += std::min(op.seconds, op.attainable);
    if (worst == nullptr || op.seconds - op.attainable > worst->seconds - worst->attainable) worst = &op;
  }
  for (const auto& [choice, times] : by_choice) {
    const auto [seconds, attainable] = times;
    // Tuning seldom gains more than a third of what is missing.
    all->push_back({(seconds - attainable) / total / 3,
                    fmt::format("{}: {:.0f} % of the time, at {:.0f} % of what the roofline allows; `treadle tune` "
                                "races other plans on this machine.",
                                choice, 100 * seconds / total, 100 * attainable / seconds)});
  }
  if (worst != nullptr && worst->seconds - worst->attainable > kWorthwhile * total) {
    all->push_back({(worst->seconds - worst->attainable) / total / 2,
                    fmt::format("`{}` is furthest from its roofline: {} where {} are possible. Its details in "
                                "the graph list the kernels that were considered.",
                                worst->label(), TimeText(worst->seconds), TimeText(worst->attainable))});
  }
}

void AdvisePlain(const std::vector<Operation>& operations, double total, std::vector<Advice>* all) {
  double plain = 0, small = 0, moves = 0;
  size_t small_calls = 0, move_calls = 0;
  std::string example;
  for (const Operation& op : operations) {
    if (op.choice.ends_with(".plain")) {
      plain += op.seconds;
      if (example.empty()) example = op.label();
    }
    if (op.seconds < kSmallCall) {
      small += op.seconds;
      ++small_calls;
    } else if (op.counted && op.macs <= 0 && op.compiler.empty()) {
      moves += op.seconds;
      ++move_calls;
    }
  }
  all->push_back(
      {plain / total / 2, fmt::format("{:.0f} % of the time runs in plain loops (`{}`): its details in the graph "
                                      "say why no special kernel fits; a change of shapes may help.",
                                      100 * plain / total, example)});
  all->push_back({small / total / 2, fmt::format("{} calls take less than 3 microseconds each, {:.0f} % in all: larger "
                                                 "inputs (a batch, `--dim batch=8`) amortise this overhead.",
                                                 small_calls, 100 * small / total)});
  all->push_back({moves / total / 3, fmt::format("{} calls compute no products and take {:.0f} % of the time: they are "
                                                 "bound by memory. Operators that are separate boxes were not fused; "
                                                 "`--dump fusion` says why.",
                                                 move_calls, 100 * moves / total)});
}

void AdvisePrecision(const ModelRun& run, const std::vector<Operation>& operations, double total,
                     std::vector<Advice>* all) {
  double products = 0;
  for (const Operation& op : operations) {
    if (op.macs > 0 && op.shapes.find("int8") == std::string::npos && op.shapes.find("float16") == std::string::npos)
      products += op.seconds;
  }
  try {
    const TargetFeatures features = Target(run.model.manifest().target)->Features();
    all->push_back(
        {products / total * (features.vnni ? 0.4 : 0.2),
         fmt::format("{:.0f} % of the time is spent in float32 products: `treadle quantize` converts them to 8 bits, "
                     "`--precision auto --max-error 0.01` uses bfloat16 where the error stays below that.",
                     100 * products / total)});
  } catch (const Error&) {
    // Not a target whose features are known.
  }
}

}  // namespace

Json AdviceSection(const ModelRun& run, const std::vector<Operation>& operations, const Peaks& peaks) {
  const double total = TotalSeconds(operations);
  std::vector<Advice> all;
  if (total > 0) {
    AdviseTuning(operations, total, &all);
    AdvisePlain(operations, total, &all);
    AdvisePrecision(run, operations, total, &all);
    if (run.seconds > 0 && total > 1.2 * run.seconds) {
      all.push_back({kWorthwhile,
                     "Measuring each call slows this model down: trust the run's time, and the parts only in "
                     "relation to each other."});
    }
  }
  std::erase_if(all, [](const Advice& item) { return item.gain < kWorthwhile; });
  std::sort(all.begin(), all.end(),
            [](const Advice& a, const Advice& b) { return a.gain != b.gain ? a.gain > b.gain : a.text < b.text; });
  Json items = Json::array();
  for (const Advice& item : all) {
    if (items.size() < kMostItems) items.push_back(item.text);
  }
  // What always is worth knowing, where there is room.
  if (run.model.manifest().executor == "vm" && items.size() < kMostItems) {
    items.push_back(
        "This model has dynamic shapes. If they never change, `--dim name=size` "
        "or `--input-shapes` lets the compiler choose kernels for them.");
  }
  if (run.layers.empty() && items.size() < kMostItems) {
    items.push_back(
        "Nothing here says whether the numbers are right: `treadle report model.onnx --verify` compares every "
        "value with ONNX Runtime's.");
  }
  if (run.choices.empty() && items.size() < kMostItems) {
    items.push_back(
        "`treadle report model.onnx` also shows, for each operator, the kernels that it could choose from.");
  }
  if (run.engines.size() < 2 && items.size() < kMostItems)
    items.push_back("`treadle bench model.onnx --compare onnxruntime` measures it beside a peer.");
  if (!peaks.known() && items.size() < kMostItems)
    items.push_back("The roofline isn't known for this target: look at it on the machine that it is for.");
  return {{"kind", "advice"}, {"title", "What to do next"}, {"note", "Ordered by estimated gain."}, {"items", items}};
}

}  // namespace treadle::report
