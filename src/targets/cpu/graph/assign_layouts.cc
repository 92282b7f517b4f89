// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/graph/assign_layouts.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "passes/pass_util.h"
#include "schedule/pbqp.h"
#include "targets/cpu/kernels/conv_layout.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ir/transform.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/ops/traits.h"
#include "treadle/schedule/kernel.h"

namespace treadle::relay {
namespace {

using schedule::Machine;
using schedule::Pbqp;

/// A solution is taken where it saves this part of what depends on it: costs aren't more certain.
constexpr double kLeastGain = 0.02;
constexpr int64_t kLargestBlock = 16;
constexpr int64_t kBlocks[] = {16, 8};

/// How a call can run.
struct Option {
  std::vector<ChannelLayout> seen, read;
  ChannelLayout out;
  double cycles = 0;
};

/// The arguments of a call, said to exist in these layouts.
class ArgsIn : public LayoutArgs {
 public:
  ArgsIn(const LaidCall& laid, Option* option, int lanes) : laid_(laid), option_(option), lanes_(lanes) {
    option_->read.assign(laid.args.size(), {});
  }
  size_t size() const override { return laid_.args.size(); }
  ChannelLayout LayoutOf(size_t i) const override { return option_->seen.at(i); }
  Expr Get(size_t i, const ChannelLayout& layout) override {
    option_->read.at(i) = layout;
    return laid_.args.at(i);
  }
  bool HasBlockedConsumer() const override { return laid_.blocked_consumer; }
  const TensorTypeNode* Type(size_t i) const override { return TensorTypeOf(laid_.args.at(i)); }
  int lanes() const override { return lanes_; }

 private:
  const LaidCall& laid_;
  Option* option_;
  int lanes_;
};

/// Bytes of a tensor (NCHW of static sizes) with the channels that pad its blocks.
double BytesIn(const TensorTypeNode* type, const ChannelLayout& layout) {
  auto bytes = static_cast<double>(type->dtype.bytes());
  for (size_t i = 0; i < type->shape.size(); ++i) {
    const int64_t dim = *AsConstInt(type->shape[i]);
    bytes *= static_cast<double>(i == 1 && type->shape.size() == 4 ? layout.PaddedChannels(dim) : dim);
  }
  return bytes;
}

/// Cycles of giving a tensor another layout: it is loaded and stored, between vectors and single numbers one by one.
/// Where there are several threads, one does so while the others wait, and all fetch what it has written.
double ChangeCycles(const TensorTypeNode* type, const ChannelLayout& from, const ChannelLayout& to,
                    const Machine& machine) {
  if (from == to) return 0;
  const double bytes = BytesIn(type, from) + BytesIn(type, to);
  const bool moves_vectors = from.is_blocked() && to.is_blocked() && from.is_in_order() && to.is_in_order();
  const double numbers = moves_vectors ? 0 : BytesIn(type, {}) / static_cast<double>(type->dtype.bytes());
  const double alone = bytes * machine.beyond_l2_cycles_per_byte + numbers * machine.load_cycles;
  const auto threads = static_cast<double>(ops::cpu::ModelledThreads(machine));
  if (threads == 1) return alone;
  const double fetched = (threads - 1) * machine.coherence_cycles_per_byte * bytes;
  return (alone + threads * (alone + machine.fork_join_cycles) + fetched) / 2;
}

bool IsStaticImage(const TensorTypeNode* type) { return type != nullptr && type->shape.size() == 4 && IsStatic(type); }

class Assigner {
 public:
  Assigner(const LayoutTrace& trace, const Machine& machine) : trace_(trace), machine_(machine) {
    for (const LaidCall& laid : trace.calls) {
      for (size_t i = 0; i < laid.args.size(); ++i) {
        auto it = numbers_.find(laid.args[i].get());
        if (it != numbers_.end() && laid.read[i] != trace.calls[it->second].out) changed_.insert(it->second);
      }
      const size_t number = numbers_.size();
      numbers_[laid.call] = number;
    }
  }

  LayoutAssignment Run() {
    bool open = false;
    for (size_t i = 0; i < trace_.calls.size(); ++i) {
      nodes_.push_back(OptionsOf(i));
      open |= nodes_.back().size() > 1;
    }
    if (!open) return {};
    const std::vector<size_t> usual(nodes_.size(), 0), chosen = Problem().Solve();
    if (!(Total(chosen) < (1 - kLeastGain) * Total(usual))) return {};
    LayoutAssignment assignment;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const Option& option = nodes_[i][chosen[i]];
      assignment[trace_.calls[i].call] = {option.seen, option.out};
    }
    return assignment;
  }

 private:
  /// The call that makes a value; nothing where that is none of the trace.
  std::optional<size_t> NumberOf(const Expr& value) const {
    auto it = numbers_.find(value.get());
    return it == numbers_.end() ? std::nullopt : std::optional<size_t>(it->second);
  }

  /// Layouts in which an argument may come: that in which it was seen, then others of its producer.
  std::vector<ChannelLayout> LayoutsOf(const LaidCall& laid, size_t i) const {
    std::vector<ChannelLayout> layouts{laid.seen[i]};
    const std::optional<size_t> producer = NumberOf(laid.args[i]);
    if (!producer || !laid.seen[i].is_blocked()) return layouts;
    for (const Option& option : nodes_[*producer]) {
      if (std::count(layouts.begin(), layouts.end(), option.out) == 0) layouts.push_back(option.out);
    }
    return layouts;
  }

  /// The ways in which a call can run, the one that was planned first.
  std::vector<Option> OptionsOf(size_t number) {
    const LaidCall& laid = trace_.calls[number];
    const Option planned{laid.seen, laid.read, laid.out, 0};
    const auto* type = laid.call->type_as<TensorTypeNode>();
    std::vector<Option> options;
    if (IsStaticImage(type) && laid.out.is_blocked() && laid.out.is_in_order()) {
      options = laid.by_kernel ? OfKernel(number) : OfRule(laid);
    }
    if (trace_.pinned.count(laid.call) != 0) {
      std::erase_if(options, [&](const Option& option) { return option.out != laid.out; });
    }
    return options.size() > 1 ? options : std::vector<Option>{planned};
  }

  std::vector<Option> OfKernel(size_t number) {
    const LaidCall& laid = trace_.calls[number];
    const auto* attrs = laid.call->attrs.as<ops::Conv2DAttrs>();
    const auto *data = TensorTypeOf(laid.args[0]), *type = laid.call->type_as<TensorTypeNode>();
    if (attrs == nullptr || laid.call->op.as<OpNode>()->name != "nn.conv2d" || !IsStaticImage(data)) return {};
    const int64_t channels = *AsConstInt(type->shape[1]);
    const bool depthwise = attrs->groups > 1 && attrs->groups == channels && channels == *AsConstInt(data->shape[1]);
    if (attrs->groups != 1 && !depthwise) return {};
    std::vector<ChannelLayout> outs{laid.out};
    if (!depthwise && (channels % kLargestBlock != 0 || changed_.count(number) != 0)) {
      for (const int64_t block : kBlocks) {
        if (block != laid.out.block && 2 * channels > block) outs.push_back({block});
      }
    }
    const std::vector<ChannelLayout> ins = LayoutsOf(laid, 0);
    if (ins.size() * outs.size() == 1) return {};
    std::vector<Option> options;
    for (const ChannelLayout& in : ins) {
      for (const ChannelLayout& out : outs) {
        std::optional<Option> option = ConvOption(laid, in, depthwise ? in : out);
        if (option) {
          options.push_back(*option);
        } else if (options.empty()) {
          return {};  // what was planned has no cost
        }
      }
    }
    return options;
  }

  /// A convolution by its cheapest kernel; nothing where that says no cost, or has other layouts.
  std::optional<Option> ConvOption(const LaidCall& laid, const ChannelLayout& in, const ChannelLayout& out) {
    Option option{laid.seen, {}, out, 0};
    option.seen[0] = in;
    ArgsIn args(laid, &option, machine_.vector_lanes(32));
    const schedule::Problem problem = ops::cpu::ConvProblem(laid.call, args, machine_, out);
    const auto& p = *problem.as<schedule::ConvProblemNode>();
    if ((in.is_blocked() && p.in_layout != in) || p.out_layout != out) return std::nullopt;
    option.read[0] = p.in_layout;
    auto [known, fresh] = cycles_.try_emplace(schedule::ToJson(problem), -1);
    if (fresh) {
      const schedule::Choice choice = schedule::ChooseKernel("nn.conv2d", "cpu", problem, machine_);
      if (choice.best() != nullptr) known->second = choice.best()->cycles;
    }
    if (known->second < 0) return std::nullopt;
    option.cycles = known->second;
    return option;
  }

  /// An operator that follows its arguments, in each layout in which some of them can come.
  std::vector<Option> OfRule(const LaidCall& laid) {
    std::vector<ChannelLayout> layouts;
    for (size_t i = 0; i < laid.args.size(); ++i) {
      for (const ChannelLayout& layout : LayoutsOf(laid, i)) {
        if (layout.is_blocked() && layout.is_in_order() && std::count(layouts.begin(), layouts.end(), layout) == 0) {
          layouts.push_back(layout);
        }
      }
    }
    if (layouts.size() < 2) return {};
    std::vector<Option> options{RuleOption(laid, laid.seen).value_or(Option{laid.seen, laid.read, laid.out, 0})};
    for (const ChannelLayout& layout : layouts) {
      std::vector<ChannelLayout> seen = laid.seen;
      for (size_t i = 0; i < seen.size(); ++i) {
        if (NumberOf(laid.args[i]) && seen[i].is_blocked() && seen[i].is_in_order()) seen[i] = layout;
      }
      if (seen == laid.seen) continue;
      if (std::optional<Option> option = RuleOption(laid, seen)) options.push_back(*option);
    }
    return options;
  }

  std::optional<Option> RuleOption(const LaidCall& laid, const std::vector<ChannelLayout>& seen) {
    Option option{seen, {}, {}, 0};
    ArgsIn args(laid, &option, machine_.vector_lanes(32));
    const std::optional<LaidOutCall> result = ops::LayoutRuleOf(Downcast<Op>(laid.call->op))(laid.call, args);
    if (!result || result->layout.is_plain()) return std::nullopt;
    option.out = result->layout;
    // What computes one argument computes element-wise operators, too: the others come from memory.
    const Op op = Downcast<Op>(laid.call->op);
    const auto* pattern = op.GetAttr(kOpPattern);
    const bool fused = pattern != nullptr && *pattern <= OpPatternKind::kBroadcast;
    double bytes = fused ? 0 : BytesIn(laid.call->type_as<TensorTypeNode>(), option.out);
    for (size_t i = fused ? 1 : 0; i < laid.args.size(); ++i) {
      const auto* type = TensorTypeOf(laid.args[i]);
      if (IsStaticImage(type)) bytes += BytesIn(type, option.read[i]);
    }
    option.cycles = bytes * machine_.beyond_l2_cycles_per_byte;
    return option;
  }

  /// Cycles of an option by itself: changing what isn't made by calls of the trace, and making its result plain.
  double OwnCycles(size_t number, const Option& option) const {
    const LaidCall& laid = trace_.calls[number];
    double cycles = option.cycles;
    for (size_t i = 0; i < laid.args.size(); ++i) {
      auto source = trace_.in_place.find(laid.args[i].get());
      const auto* type = TensorTypeOf(laid.args[i]);
      if (source != trace_.in_place.end() && IsStaticImage(type)) {
        cycles += ChangeCycles(type, source->second.layout, option.read[i], machine_);
      }
    }
    return cycles;
  }

  double ChangeOf(size_t number, const ChannelLayout& from, const ChannelLayout& to) const {
    const auto* type = trace_.calls[number].call->type_as<TensorTypeNode>();
    return IsStaticImage(type) ? ChangeCycles(type, from, to, machine_) : 0;
  }
  bool IsReadPlain(size_t number) const { return trace_.plain.count(trace_.calls[number].call) != 0; }

  Pbqp Problem() const {
    Pbqp problem;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      std::vector<double> costs;
      for (const Option& option : nodes_[i]) {
        costs.push_back(OwnCycles(i, option) + (IsReadPlain(i) ? ChangeOf(i, option.out, {}) : 0));
      }
      problem.AddNode(costs);
    }
    for (size_t v = 0; v < nodes_.size(); ++v) {
      const LaidCall& laid = trace_.calls[v];
      for (size_t arg = 0; arg < laid.args.size(); ++arg) {
        const std::optional<size_t> u = NumberOf(laid.args[arg]);
        if (!u || (nodes_[*u].size() == 1 && nodes_[v].size() == 1)) continue;
        Pbqp::Matrix costs;
        for (const Option& from : nodes_[*u]) {
          costs.emplace_back();
          for (const Option& to : nodes_[v]) costs.back().push_back(ChangeOf(*u, from.out, to.read[arg]));
        }
        problem.AddEdge(*u, v, costs);
      }
    }
    return problem;
  }

  /// Cycles of a choice: a value is changed once to each layout, however many read it.
  double Total(const std::vector<size_t>& chosen) const {
    double cycles = 0;
    std::vector<std::set<ChannelLayout>> read(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const Option& option = nodes_[i][chosen[i]];
      cycles += OwnCycles(i, option);
      if (IsReadPlain(i)) read[i].insert(ChannelLayout());
      for (size_t arg = 0; arg < trace_.calls[i].args.size(); ++arg) {
        if (const std::optional<size_t> u = NumberOf(trace_.calls[i].args[arg])) read[*u].insert(option.read[arg]);
      }
    }
    for (size_t i = 0; i < nodes_.size(); ++i) {
      for (const ChannelLayout& layout : read[i]) cycles += ChangeOf(i, nodes_[i][chosen[i]].out, layout);
    }
    return cycles;
  }

  const LayoutTrace& trace_;
  const Machine& machine_;
  std::unordered_map<const Object*, size_t> numbers_;  ///< of the calls, by the call
  std::set<size_t> changed_;                           ///< calls whose results were given other layouts
  std::vector<std::vector<Option>> nodes_;             ///< options of each call
  std::map<std::string, double> cycles_;               ///< of convolutions, by problem
};

}  // namespace

LayoutAssignment AssignLayouts(const LayoutTrace& trace, const Machine& machine) {
  // Records are of the graph that costs choose; they must not choose it.
  auto context = MakeObject<treadle::transform::PassContextNode>(*treadle::transform::PassContext::Current().get());
  context->instruments.clear();
  context->config.Set(schedule::kPlansOption, String(""));
  treadle::transform::PassContext::Scope scope{treadle::transform::PassContext(ObjectPtr<Object>(context))};
  return Assigner(trace, machine).Run();
}

}  // namespace treadle::relay
