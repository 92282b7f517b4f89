// SPDX-License-Identifier: Apache-2.0
#include "treadle/ir/instrument.h"

#include <fmt/format.h>

#include <algorithm>

namespace treadle::transform {

TREADLE_DEFINE_NODE(PassTiming);

void PassTiming::EnterPassContext() {
  entries_.clear();
  running_.clear();
}

void PassTiming::RunBeforePass(const IRModule&, const PassInfo& info) {
  entries_.push_back({info.name, running_.size(), -1, Clock::now()});
  running_.push_back(entries_.size() - 1);
}

void PassTiming::RunAfterPass(const IRModule&, const PassInfo& info) {
  const Clock::time_point now = Clock::now();
  // A pass that threw is left on the stack by its own, unfinished; those above it ended with it.
  while (!running_.empty()) {
    Entry& entry = entries_[running_.back()];
    running_.pop_back();
    entry.microseconds = std::chrono::duration<double, std::micro>(now - entry.start).count();
    if (entry.name == info.name) return;
  }
}

double PassTiming::TotalMicroseconds() const {
  double total = 0;
  for (const Entry& entry : entries_) {
    if (entry.depth == 0 && entry.microseconds > 0) total += entry.microseconds;
  }
  return total;
}

std::string PassTiming::Render() const {
  const double total = std::max(TotalMicroseconds(), 1e-9);
  std::vector<double> own(entries_.size()), around(entries_.size(), total);
  std::vector<size_t> path;
  for (size_t i = 0; i < entries_.size(); ++i) {
    own[i] += std::max(entries_[i].microseconds, 0.0);
    path.resize(entries_[i].depth);
    if (!path.empty()) {
      own[path.back()] -= std::max(entries_[i].microseconds, 0.0);
      around[i] = std::max(entries_[path.back()].microseconds, 1e-9);
    }
    path.push_back(i);
  }
  std::string text;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    text += std::string(2 * entry.depth, ' ');
    if (entry.microseconds < 0) {
      text += entry.name + ": not finished\n";
    } else {
      text += fmt::format("{}: {:.0f}us [{:.0f}us] ({:.2f}%; {:.2f}%)\n", entry.name, entry.microseconds, own[i],
                          100 * entry.microseconds / total, 100 * entry.microseconds / around[i]);
    }
  }
  return text + fmt::format("Total time of passes: {:.3f}ms\n", TotalMicroseconds() / 1000);
}

ObjectPtr<PassTiming> MakePassTiming() { return MakeObject<PassTiming>(); }

namespace {

class PassObserver : public PassInstrument {
 public:
  std::vector<std::string> names;
  bool before = false;
  std::function<void(const IRModule&, const PassInfo&)> show;

  std::string name() const override { return before ? "PrintBefore" : "PrintAfter"; }
  void RunBeforePass(const IRModule& module, const PassInfo& info) override {
    if (before && Wanted(info)) show(module, info);
  }
  void RunAfterPass(const IRModule& module, const PassInfo& info) override {
    if (!before && Wanted(info)) show(module, info);
  }
  TREADLE_NODE(PassObserver, PassInstrument, "instrument.PassObserver")

 private:
  bool Wanted(const PassInfo& info) const {
    return names.empty() || std::find(names.begin(), names.end(), info.name) != names.end();
  }
};

}  // namespace

ObjectPtr<PassInstrument> MakePassObserver(std::vector<std::string> names, bool before,
                                           std::function<void(const IRModule&, const PassInfo&)> show) {
  auto node = MakeObject<PassObserver>();
  node->names = std::move(names);
  node->before = before;
  node->show = std::move(show);
  return node;
}

}  // namespace treadle::transform
