// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <sstream>

#include "report/model_run.h"
#include "treadle/base/error.h"
#include "treadle/runtime/data_type.h"

namespace treadle::report {

double BytesOf(const std::string& shapes) {
  double total = 0;
  size_t at = 0;
  while ((at = shapes.find('(', at)) != std::string::npos) {
    size_t begin = at;
    while (begin > 0 && shapes[begin - 1] == ' ') --begin;
    const size_t end = begin;
    while (begin > 0 && shapes[begin - 1] != ' ') --begin;
    double bytes = 0;
    try {
      bytes = DataType::FromString(shapes.substr(begin, end - begin)).bits() / 8.0;
    } catch (const Error&) {
      // Not a tensor of numbers.
    }
    const size_t close = std::min(shapes.find(')', at), shapes.size());
    std::istringstream numbers(shapes.substr(at + 1, close - at - 1));
    for (std::string item; std::getline(numbers, item, ',');) {
      if (item.find_first_of("0123456789") != std::string::npos) bytes *= std::stod(item);
    }
    total += bytes;
    at = close;
  }
  return total;
}

namespace {

struct Choice {
  std::string chosen, candidates;
};

/// By the name of the model's node: "# nn.conv2d (Conv@0)", then lines of candidates of which "*" marks the chosen one.
std::map<std::string, Choice> ParseChoices(const std::string& text) {
  std::map<std::string, Choice> choices;
  Choice* current = nullptr;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#  ")) {
      if (current == nullptr) continue;
      const std::string rest = line.substr(4);
      if (rest.starts_with("* ")) current->chosen = rest.substr(2, rest.find_first_of(":,") - 2);
      current->candidates += rest + "\n";
      continue;
    }
    current = nullptr;
    const size_t open = line.find(" (");
    if (line.starts_with("# ") && open != std::string::npos && line.ends_with(')')) {
      current = &choices[line.substr(open + 2, line.size() - open - 3)];
    }
  }
  return choices;
}

}  // namespace

double Peaks::SpeedFor(double bytes) const {
  for (const MemoryLevel& level : levels) {
    if (bytes <= level.capacity) return level.speed;
  }
  return levels.back().speed;
}

double Peaks::LeastSeconds(const runtime::OpTiming& call) const {
  if (!known() || !call.macs_known) return 0;
  const std::string operands = call.shapes.substr(0, call.shapes.find("->"));
  double rate = 1;
  if (operands.find("int8 ") != std::string::npos) {
    rate = byte_rate;
  } else if (operands.find("float16 ") != std::string::npos || operands.find("int16 ") != std::string::npos) {
    rate = pair_rate;
  }
  const double bytes = BytesOf(call.shapes);
  return std::max(2 * call.macs * call.mac_share / (rate * flops), bytes / SpeedFor(bytes));
}

std::string Operation::label() const {
  if (origin.empty()) return name;
  const auto others = std::count(origin.begin(), origin.end(), ',');
  const std::string first = origin.substr(0, origin.find(','));
  return others == 0 ? first : StrCat(first, " + ", others);
}

std::vector<Operation> Operations(const ModelRun& run, const Peaks& peaks) {
  const std::map<std::string, Choice> choices = ParseChoices(run.choices);
  std::vector<Operation> operations;
  for (const runtime::OpTiming& timing : run.timings) {
    Operation op{timing.name, timing.func_name, timing.origin, timing.shapes, timing.compiler, "", ""};
    op.seconds = timing.seconds;
    op.macs = timing.macs;
    op.bytes = BytesOf(timing.shapes);
    op.counted = timing.macs_known;
    op.attainable = peaks.LeastSeconds(timing);
    std::istringstream names(timing.origin);
    for (std::string name; std::getline(names, name, ',');) {
      const auto it = choices.find(name.substr(std::min(name.find_first_not_of(' '), name.size())));
      if (it == choices.end()) continue;
      op.choice = it->second.chosen;
      op.candidates = it->second.candidates;
    }
    operations.push_back(std::move(op));
  }
  return operations;
}

}  // namespace treadle::report
