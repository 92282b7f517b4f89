// SPDX-License-Identifier: Apache-2.0
#include "driver/graph/branches.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "targets/cpu/schedule/cpu.h"
#include "treadle/base/text.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/relay/mac_count.h"

namespace treadle::driver {
namespace {

// Of one core; the order of magnitude is what matters, since a stage must win clearly.
constexpr double kCallCycles = 300;        ///< of a kernel that does nothing
constexpr double kCyclesPerElement = 1.5;  ///< of one operator on one vector
constexpr double kCyclesPerMac = 0.8;      ///< of a multiply-add of vectors, loads included
constexpr double kCyclesPerByte = 0.1;
constexpr double kForkJoinCycles = 5000;
/// What a thread gets at least where a kernel divides its work.
constexpr double kCyclesPerTask = 3000;
constexpr double kLeastGain = 0.15;
/// Steps of a stage at most: finding stages takes steps times this.
constexpr int kMaxSteps = 96;

double TimeAlone(const StepCost& cost, int threads) {
  if (!cost.parallel) return cost.cycles;
  const double used = std::clamp(cost.cycles / kCyclesPerTask, 1.0, static_cast<double>(threads));
  return cost.cycles / used + kForkJoinCycles;
}

/// The time of the thread that has most, branches being given to threads largest first.
double LongestOf(std::vector<double> branches, int threads) {
  std::sort(branches.rbegin(), branches.rend());
  std::vector<double> busy(static_cast<size_t>(threads), 0);
  for (double branch : branches) *std::min_element(busy.begin(), busy.end()) += branch;
  return *std::max_element(busy.begin(), busy.end());
}

/// What windows ask of a program's steps, found out once.
class Steps {
 public:
  explicit Steps(const MemoryProgram& program) : program(program), readers(program.steps.size()) {
    std::vector<int> producer(program.tensors.size(), -1);
    for (size_t s = 0; s < program.steps.size(); ++s) {
      const PlannedStep& step = program.steps[s];
      takes_part.push_back(step.call == nullptr || IsKernelOfCpu(step));
      for (int output : step.outputs) producer[static_cast<size_t>(output)] = static_cast<int>(s);
      if (step.call == nullptr) continue;
      for (int tensor : step.inputs) {
        for (; tensor >= 0; tensor = program.tensors[static_cast<size_t>(tensor)].alias_of) {
          const int from = producer[static_cast<size_t>(tensor)];
          if (from >= 0) readers[static_cast<size_t>(from)].push_back(static_cast<int>(s));
        }
      }
    }
  }

  bool IsCall(int step) const { return program.steps[static_cast<size_t>(step)].call != nullptr; }

  const MemoryProgram& program;
  std::vector<std::vector<int>> readers;  ///< later calls that read results of each step
  std::vector<bool> takes_part;           ///< whether it can be in a stage

 private:
  bool IsKernelOfCpu(const PlannedStep& step) const {
    const auto* func = step.call->op.as<relay::FunctionNode>();
    if (func == nullptr || !func->is_primitive() || func->attrs->dict.contains(attr::kCompiler)) return false;
    return std::all_of(step.outputs.begin(), step.outputs.end(), [&](int id) {
      const int device = program.tensors[static_cast<size_t>(id)].device_type;
      return device == 0 || device == kDLCPU;
    });
  }
};

/// What a window of steps that ends before `end` is divided into, as it grows backwards.
class GrowingWindow {
 public:
  GrowingWindow(const Steps& steps, const std::vector<StepCost>& costs, int end)
      : steps_(steps), costs_(costs), begin_(end), end_(end) {}

  int begin() const { return begin_; }
  size_t num_branches() const { return branches_; }

  /// Takes one more step; false where it can't be in a stage.
  bool Grow() {
    if (begin_ == 0 || !steps_.takes_part[static_cast<size_t>(begin_ - 1)]) return false;
    const int self = --begin_;
    const bool is_call = steps_.IsCall(self);
    parent_.push_back(self);
    sums_.push_back(is_call ? costs_[static_cast<size_t>(self)].cycles : 0);
    if (!is_call) return true;
    ++branches_;
    for (int reader : steps_.readers[static_cast<size_t>(self)]) {
      if (reader < end_) Join(self, reader);
    }
    return true;
  }

  std::vector<double> Sums() const {
    std::vector<double> sums;
    for (int s = begin_; s < end_; ++s) {
      if (steps_.IsCall(s) && parent_[At(s)] == s) sums.push_back(sums_[At(s)]);
    }
    return sums;
  }

  BranchStage Stage() {
    BranchStage stage{begin_, end_, {}};
    std::map<int, int> number;
    for (int s = begin_; s < end_; ++s) {
      stage.branch_of.push_back(
          steps_.IsCall(s) ? number.emplace(Find(s), static_cast<int>(number.size())).first->second : -1);
    }
    return stage;
  }

 private:
  /// The place of a step: the window grows backwards.
  size_t At(int step) const { return static_cast<size_t>(end_ - 1 - step); }
  int Find(int step) {
    while (parent_[At(step)] != step) step = parent_[At(step)] = parent_[At(parent_[At(step)])];
    return step;
  }
  void Join(int a, int b) {
    a = Find(a);
    b = Find(b);
    if (a == b) return;
    parent_[At(b)] = a;
    sums_[At(a)] += sums_[At(b)];
    --branches_;
  }

  const Steps& steps_;
  const std::vector<StepCost>& costs_;
  int begin_, end_;
  size_t branches_ = 0;
  std::vector<int> parent_;   ///< of each step of the window
  std::vector<double> sums_;  ///< cycles of each branch, at its root
};

/// The best stage that ends before step `end`, and what it gains; 0: none.
std::pair<double, BranchStage> BestStage(const Steps& steps, const std::vector<StepCost>& costs, int threads, int end) {
  std::pair<double, BranchStage> best{0, {}};
  GrowingWindow window(steps, costs, end);
  double alone = 0;
  while (end - window.begin() < kMaxSteps && window.Grow()) {
    if (!steps.IsCall(window.begin())) continue;
    alone += TimeAlone(costs[static_cast<size_t>(window.begin())], threads);
    if (window.num_branches() < 2) continue;
    const double gain = alone - LongestOf(window.Sums(), threads) - kForkJoinCycles;
    if (gain > kLeastGain * alone && gain > best.first) best = {gain, window.Stage()};
  }
  return best;
}

}  // namespace

StepCost EstimateStep(const PlannedStep& step, const TargetFeatures& features) {
  if (step.call == nullptr) return {};
  const auto* func = step.call->op.as<relay::FunctionNode>();
  if (func == nullptr) return {};
  double elements = 0, bytes = 0;
  const auto add = [](const Type& type, double* count, double* size) {
    const auto* tensor = type.as<TensorTypeNode>();
    if (tensor == nullptr || !IsStatic(tensor)) return;
    double n = 1;
    for (const PrimExpr& dim : tensor->shape) n *= static_cast<double>(*AsConstInt(dim));
    if (count != nullptr) *count += n;
    if (size != nullptr) *size += n * static_cast<double>(tensor->dtype.bytes());
  };
  relay::PostOrderVisit(func->body, [&](const relay::Expr& e) {
    if (e.as<relay::CallNode>() != nullptr) add(e->checked_type(), &elements, nullptr);
  });
  for (const relay::Var& param : func->params) add(param->checked_type(), nullptr, &bytes);
  add(func->body->checked_type(), nullptr, &bytes);
  const double macs = relay::TotalMacCount(GetRef<relay::Function>(func));
  const double lanes = std::max(1, features.vector_lanes(32));
  StepCost cost;
  cost.cycles = kCallCycles + (macs * kCyclesPerMac + elements * kCyclesPerElement) / lanes + bytes * kCyclesPerByte;
  cost.parallel = std::max(macs, elements) >= ops::cpu::kParallelWork;
  return cost;
}

std::vector<BranchStage> FindBranchStages(const MemoryProgram& program, const std::vector<StepCost>& costs,
                                          int threads) {
  if (threads < 2) return {};
  std::vector<std::pair<double, BranchStage>> found;
  const Steps steps(program);
  for (int end = 2; end <= static_cast<int>(program.steps.size()); ++end) {
    auto best = BestStage(steps, costs, threads, end);
    if (best.first > 0) found.push_back(std::move(best));
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second.begin < b.second.begin;
  });
  std::vector<BranchStage> stages;
  for (auto& [gain, stage] : found) {
    const bool free = std::all_of(stages.begin(), stages.end(), [&, s = &stage](const BranchStage& other) {
      return s->end <= other.begin || other.end <= s->begin;
    });
    if (free) stages.push_back(std::move(stage));
  }
  std::sort(stages.begin(), stages.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  return stages;
}

void KeepThroughStages(const std::vector<BranchStage>& stages, MemoryProgram* program) {
  for (const BranchStage& stage : stages) {
    for (int s = stage.begin; s < stage.end; ++s) program->steps[static_cast<size_t>(s)].memory_from = stage.begin;
    for (PlannedTensor& tensor : program->tensors) {
      if (tensor.last_use >= stage.begin && tensor.last_use < stage.end) tensor.last_use = stage.end;
    }
  }
}

BranchNames NamesOfBranches(const std::vector<BranchStage>& stages, const MemoryProgram& program) {
  BranchNames names;
  for (size_t number = 0; number < stages.size(); ++number) {
    const BranchStage& stage = stages[number];
    for (int s = stage.begin; s < stage.end; ++s) {
      const relay::CallNode* call = program.steps[static_cast<size_t>(s)].call;
      if (call == nullptr) continue;
      names[call] = StrCat(number, ".", stage.branch_of[static_cast<size_t>(s - stage.begin)]);
    }
  }
  return names;
}

}  // namespace treadle::driver
