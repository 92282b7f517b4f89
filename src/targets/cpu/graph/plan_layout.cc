// SPDX-License-Identifier: Apache-2.0
// Chooses the layout in which each operator runs. Operators that profit (convolutions) ask for blocked activations;
// what lies between them (element-wise, pooling, concatenation) follows the layout its inputs are in; the others get
// the plain layout. A tensor is transformed at most once per layout, however many consumers it has.
#include "targets/cpu/graph/passes.h"

#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "ops/change_layout.h"
#include "passes/pass_util.h"
#include "targets/cpu/graph/assign_layouts.h"
#include "targets/cpu/graph/finite_padding.h"
#include "targets/cpu/kernels/conv_layout.h"
#include "targets/cpu/kernels/weight_forms.h"
#include "treadle/base/int_math.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ir/transform.h"
#include "treadle/ops/make.h"
#include "treadle/ops/traits.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/relay/layout.h"
#include "treadle/relay/transform.h"
#include "treadle/schedule/alternatives.h"

namespace treadle::relay {

namespace {

/// Values with a consumer in a blocked layout, as far as that can be told before layouts are chosen.
class BlockedConsumers {
 public:
  BlockedConsumers(const Expr& body, int lanes) : lanes_(lanes) {
    std::vector<Expr> order;
    PostOrderVisit(body, [&order](const Expr& e) { order.push_back(e); });
    // Consumers first.
    for (size_t i = order.size(); i-- > 0;) {
      if (const auto* call = order[i].as<CallNode>()) {
        Visit(call);
      } else if (const auto* part = order[i].as<TupleGetItemNode>()) {
        if (Has(part)) found_.insert(part->tuple.get());
      }
    }
  }
  bool Has(const Object* e) const { return found_.count(e) != 0; }

 private:
  void Visit(const CallNode* call) {
    const auto* callee = call->op.as<OpNode>();
    const bool chosen = callee != nullptr && !schedule::KernelsOf(callee->name, "cpu").empty();
    if (callee == nullptr || (!chosen && ops::LayoutRuleOf(Downcast<Op>(call->op)) == nullptr)) {
      if (callee != nullptr && callee->name == "split" && Has(call)) found_.insert(call->args[0].get());
      return;
    }
    if (callee->name == "nn.conv2d" || callee->name == "nn.conv2d_transpose") {
      const auto* type = call->type_as<TensorTypeNode>();
      const int64_t* channels = type == nullptr || type->shape.size() != 4 ? nullptr : AsConstInt(type->shape[1]);
      if (channels != nullptr && PaddedLayout(*channels, lanes_).is_blocked()) found_.insert(call->args[0].get());
      return;
    }
    // Beside another image, one that is blocked is likely.
    std::vector<Expr> images;
    for (const Expr& arg : call->args) {
      const auto* tuple = arg.as<TupleNode>();
      for (const Expr& e : tuple != nullptr ? tuple->fields : Array<Expr>{arg}) {
        const auto* type = TensorTypeOf(e);
        const bool image = type != nullptr && type->shape.size() == 4 && e.as<ConstantNode>() == nullptr;
        if (image && !tir::is_const_int(type->shape[2], 1)) images.push_back(e);
      }
    }
    if (images.size() < 2 && !Has(call)) return;
    for (const Expr& image : images) found_.insert(image.get());
  }

  int lanes_;
  std::unordered_set<const Object*> found_;
};

/// An expression in the layouts in which it exists so far.
using LayoutVariants = std::map<ChannelLayout, Expr>;

class LayoutPlanner : public ExprMutator {
 public:
  Function Plan(const Function& func) {
    // Nested functions are seen with the one around them.
    const bool outermost = !consumers_;
    if (outermost) consumers_.emplace(func->body, lanes());
    Expr body = Plain(func->body);
    if (outermost) body = WithFinitePadding(body, trace_);
    if (body.same_as(func->body)) return func;
    Function result = func;
    result.CopyOnWrite()->body = body;
    return result;
  }

  /// `assigned`: layouts that were chosen together; of calls that it doesn't name, what is cheapest for each.
  LayoutPlanner(const schedule::Machine& machine, Target target, LayoutAssignment assigned)
      : machine_(machine), target_(std::move(target)), assigned_(std::move(assigned)) {}
  const LayoutTrace& trace() const { return trace_; }
  /// Adds what could have been chosen otherwise to the log of alternatives.
  void NoteAlternatives() const;
  const AssignedLayouts* Assigned(const CallNode* call) const {
    auto it = assigned_.find(call);
    return it == assigned_.end() ? nullptr : &it->second;
  }
  int lanes() const { return machine_.vector_lanes(32); }

  /// `e` (of the old graph) in `layout`.
  Expr InLayout(const Expr& e, const ChannelLayout& layout) {
    Expr plain_or_any = Mutate(e);
    LayoutVariants& variants = variants_[e];
    if (variants.empty()) variants[{}] = plain_or_any;
    auto it = variants.find(layout);
    if (it != variants.end()) return it->second;
    const auto* type = e->type_as<TensorTypeNode>();
    // From blocks to other blocks vectors move; else from the plain form.
    auto from = variants.begin();
    if (layout.is_blocked() && layout.is_in_order()) {
      for (it = variants.begin(); it != variants.end(); ++it) {
        if (it->first.is_blocked() && it->first.is_in_order()) from = it;
      }
    }
    if (layout.is_blocked() && !(layout.is_in_order() && from->first.is_in_order())) {
      return variants[layout] = ops::ChangeLayout(Plain(e), type, {}, layout);
    }
    return variants[layout] = ops::ChangeLayout(from->second, type, from->first, layout);
  }
  Expr Plain(const Expr& e) {
    trace_.plain.insert(e.get());
    return InLayout(e, {});
  }
  bool HasBlockedConsumer(const CallNode* call) const { return consumers_->Has(call); }
  /// The layout of the producer of `e`; where that is the plain one, a blocked one in which it exists, too.
  ChannelLayout LayoutOf(const Expr& e) {
    Mutate(e);
    if (auto it = producer_layout_.find(e); it != producer_layout_.end()) return it->second;
    const LayoutVariants& variants = variants_[e];
    return variants.empty() ? ChannelLayout() : variants.rbegin()->first;
  }

  Expr VisitExpr_(const CallNode* call) override;
  Expr VisitExpr_(const TupleNode* op) override {
    Array<Expr> fields = op->fields.Map([this](const Expr& field) { return Plain(field); });
    if (fields.same_as(op->fields)) return GetRef<Expr>(op);
    return Tuple(fields, op->span);
  }
  Expr VisitExpr_(const TupleGetItemNode* op) override {
    Expr part = BlockedPart(op);
    if (part.defined()) return part;
    Expr tuple = Plain(op->tuple);
    if (tuple.same_as(op->tuple)) return GetRef<Expr>(op);
    return TupleGetItem(tuple, op->index, op->span);
  }
  /// Shuffled channels (reshape, transpose, reshape) of a tensor that exists blocked: nothing moves; else null.
  Expr Shuffled(const CallNode* call);
  /// A part of a tensor that is split between blocks of its channels, where that exists blocked; else null.
  Expr BlockedPart(const TupleGetItemNode* op);
  Expr VisitExpr_(const LetNode* op) override {
    Expr value = Plain(op->value), body = Plain(op->body);
    if (value.same_as(op->value) && body.same_as(op->body)) return GetRef<Expr>(op);
    return Let(op->var, value, body, op->span);
  }
  Expr VisitExpr_(const IfNode* op) override {
    Expr cond = Plain(op->cond), t = Plain(op->true_branch), f = Plain(op->false_branch);
    if (cond.same_as(op->cond) && t.same_as(op->true_branch) && f.same_as(op->false_branch)) return GetRef<Expr>(op);
    return If(cond, t, f, op->span);
  }
  Expr VisitExpr_(const FunctionNode* op) override { return Plan(GetRef<Function>(op)); }

 private:
  /// States that `result` is what `e` has become, in `layout`.
  Expr Produced(const Expr& e, const ChannelLayout& layout, const Expr& result) {
    producer_layout_[e] = layout;
    return variants_[e][layout] = result;
  }

  /// The same of a call, for the trace.
  Expr Laid(LaidCall laid, bool by_kernel, const LaidOutCall& result) {
    laid.by_kernel = by_kernel;
    laid.result = result.expr;
    laid.out = result.layout;
    laid.padding = result.padding;
    trace_.calls.push_back(laid);
    return Produced(GetRef<Expr>(laid.call), result.layout, result.expr);
  }
  schedule::Problem ProblemOf(const CallNode* call, LayoutArgs& args) const;

  struct Chosen {
    std::optional<LaidOutCall> rewritten;  ///< the call as the kernel computes it
    bool as_it_is = false;                 ///< the kernel computes the call as the model has it
  };
  /// The call as the kernel that was chosen for it computes it; neither where that is the operator's own.
  Chosen ByKernel(const CallNode* call, LayoutArgs& args);

  const schedule::Machine machine_;
  const Target target_;  ///< may be null
  std::unordered_map<Expr, LayoutVariants, ObjectPtrHash, ObjectPtrEqual> variants_;
  std::optional<BlockedConsumers> consumers_;
  std::unordered_map<Expr, ChannelLayout, ObjectPtrHash, ObjectPtrEqual> producer_layout_;
  const LayoutAssignment assigned_;
  LayoutTrace trace_;
  struct NotedChoice {
    std::string op;
    schedule::Problem problem;
    schedule::Choice choice;
  };
  std::vector<NotedChoice> choices_;
};

class CallArgs : public LayoutArgs {
 public:
  CallArgs(LayoutPlanner* planner, const CallNode* call) : planner_(planner) {
    laid_.call = call;
    for (const Expr& arg : call->args) {
      if (const auto* tuple = arg.as<TupleNode>()) {
        for (const Expr& field : tuple->fields) laid_.args.push_back(field);
      } else {
        laid_.args.push_back(arg);
      }
    }
    const AssignedLayouts* assigned = planner->Assigned(call);
    for (const Expr& arg : laid_.args) {
      const ChannelLayout layout = planner->LayoutOf(arg);
      laid_.seen.push_back(assigned == nullptr ? layout : assigned->seen[laid_.seen.size()]);
    }
    laid_.read.resize(laid_.args.size());
    laid_.blocked_consumer = planner->HasBlockedConsumer(call);
  }
  size_t size() const override { return laid_.args.size(); }
  ChannelLayout LayoutOf(size_t i) const override { return laid_.seen.at(i); }
  Expr Get(size_t i, const ChannelLayout& layout) override {
    laid_.read.at(i) = layout;
    return planner_->InLayout(laid_.args.at(i), layout);
  }
  bool HasBlockedConsumer() const override { return laid_.blocked_consumer; }
  const TensorTypeNode* Type(size_t i) const override { return TensorTypeOf(laid_.args.at(i)); }
  int lanes() const override { return planner_->lanes(); }
  /// What became of the call.
  const LaidCall& laid() const { return laid_; }

 private:
  LayoutPlanner* planner_;
  LaidCall laid_;
};

Expr LayoutPlanner::BlockedPart(const TupleGetItemNode* op) {
  const CallNode* split = AsCallOf(op->tuple, "split");
  if (split == nullptr) return Expr();
  const auto* type = TensorTypeOf(split->args[0]);
  const auto* attrs = split->attrs_as<ops::SplitAttrs>();
  const ChannelLayout layout = LayoutOf(split->args[0]);
  if (layout.is_plain() || !layout.is_in_order() || type == nullptr || type->shape.size() != 4 ||
      PositiveAxis(attrs->axis, 4) != 1) {
    return Expr();
  }
  // Blocks are whole up to the last part, which may end in one that is padded.
  const int64_t block = layout.block;
  int64_t begin = 0, end = 0;
  const auto* parts = op->tuple->type_as<TupleTypeNode>();
  for (int i = 0; i <= op->index; ++i) {
    const auto* part = parts->fields[static_cast<size_t>(i)].as<TensorTypeNode>();
    const int64_t* size = part == nullptr ? nullptr : AsConstInt(part->shape[1]);
    if (size == nullptr || *size == 0 || end % block != 0) return Expr();
    begin = end;
    end += *size;
  }
  const bool last = static_cast<size_t>(op->index) + 1 == parts->fields.size();
  if (end % block != 0 && !last) return Expr();
  trace_.in_place[op] = {layout, split->args[0].get()};
  trace_.pinned.insert(split->args[0].get());
  Expr result = ops::MakeStridedSlice(InLayout(split->args[0], layout), {begin / block}, {CeilDiv(end, block)}, {1},
                                      std::vector<int64_t>{1});
  return Produced(GetRef<Expr>(op), layout, result);
}

Expr LayoutPlanner::Shuffled(const CallNode* call) {
  const CallNode* transpose =
      AsCallOf(GetRef<Expr>(call), "reshape") == nullptr ? nullptr : AsCallOf(call->args[0], "transpose");
  const CallNode* grouping = transpose == nullptr ? nullptr : AsCallOf(transpose->args[0], "reshape");
  if (grouping == nullptr) return Expr();
  const Expr& data = grouping->args[0];
  const auto *type = call->type_as<TensorTypeNode>(), *from = TensorTypeOf(data);
  const auto* middle = grouping->type_as<TensorTypeNode>();
  const auto& axes = transpose->attrs_as<ops::TransposeAttrs>()->axes;
  if (from == nullptr || !IsStatic(from) || from->shape.size() != 4 || middle->shape.size() != 5 || !axes ||
      *axes != std::vector<int64_t>{0, 2, 1, 3, 4} || !ShapesEqual(type->shape, from->shape)) {
    return Expr();
  }
  for (size_t i : {size_t{0}, size_t{2}, size_t{3}}) {
    if (*AsConstInt(middle->shape[i == 0 ? 0 : i + 1]) != *AsConstInt(from->shape[i])) return Expr();
  }
  const int64_t channels = *AsConstInt(from->shape[1]), groups = *AsConstInt(middle->shape[1]);
  ChannelLayout layout = LayoutOf(data), shuffled = layout.Shuffled(channels, groups);
  if (layout.is_blocked() && shuffled.is_plain()) {
    layout = PaddedLayout(channels, lanes(), groups);
    shuffled = layout.Shuffled(channels, groups);
  }
  if (shuffled.is_plain()) return Expr();
  trace_.in_place[call] = {shuffled, data.get()};
  trace_.pinned.insert(data.get());
  return Produced(GetRef<Expr>(call), shuffled, InLayout(data, layout));
}

/// Placeholders for the (flattened) operands of a call.
Array<te::Tensor> PlaceholdersOf(const LayoutArgs& args) {
  Array<te::Tensor> tensors;
  for (size_t i = 0; i < args.size(); ++i) {
    const auto* type = args.Type(i);
    if (type == nullptr) return {};
    tensors.push_back(te::Placeholder(type->shape, type->dtype, StrCat("operand", i)));
  }
  return tensors;
}

schedule::Problem LayoutPlanner::ProblemOf(const CallNode* call, LayoutArgs& args) const {
  const AssignedLayouts* assigned = Assigned(call);
  const bool open = assigned != nullptr && call->op.as<OpNode>()->name == "nn.conv2d";
  if (!open) return ops::cpu::MakeProblem(call, args, machine_);
  return ops::cpu::ConvProblem(call, args, machine_, assigned->out);
}

LayoutPlanner::Chosen LayoutPlanner::ByKernel(const CallNode* call, LayoutArgs& args) {
  const schedule::Problem problem = ProblemOf(call, args);
  const std::string& op = call->op.as<OpNode>()->name;
  const bool added = schedule::HasAddedKernels(op);
  if (!problem.defined() && !added) return {};
  schedule::Choice choice;
  if (added) {
    const Array<te::Tensor> operands = PlaceholdersOf(args);
    const schedule::CallContext context{call->attrs, operands, call->checked_type(), target_};
    choice = schedule::ChooseKernel(op, "cpu", problem, machine_, operands.empty() ? nullptr : &context);
  } else {
    choice = schedule::ChooseKernel(op, "cpu", problem, machine_);
  }
  const schedule::Candidate* best = choice.best();
  if (schedule::ChoiceLog::IsOn()) {
    const std::string place = call->span.defined() ? StrCat(" (", call->span.str(), ")") : "";
    schedule::ChoiceLog::Note(StrCat("# ", op, place, "\n", schedule::ToText(choice)));
    if (best != nullptr && problem.defined() && !best->kernel->compute) best->Log(problem);
  }
  if (best == nullptr) return {};
  Chosen chosen;
  // Users' computations are of the operator as the model has it.
  chosen.as_it_is = best->kernel->compute != nullptr;
  if (!chosen.as_it_is && best->kernel->rewrite) {
    chosen.rewritten = best->kernel->rewrite({call, args}, problem, best->plan);
  }
  if (problem.defined()) choices_.push_back({op, problem, std::move(choice)});
  return chosen;
}

void LayoutPlanner::NoteAlternatives() const {
  for (const auto& [op, problem, choice] : choices_) schedule::AlternativesLog::Note(op, problem, machine_, choice);
}

Expr LayoutPlanner::VisitExpr_(const CallNode* call) {
  if (Expr shuffled = Shuffled(call); shuffled.defined()) return shuffled;
  if (call->op.as<OpNode>() != nullptr) {
    const FLayoutRule rule = ops::LayoutRuleOf(Downcast<Op>(call->op));
    CallArgs args(this, call);
    const Chosen chosen = ByKernel(call, args);
    if (chosen.rewritten) return Laid(args.laid(), true, *chosen.rewritten);
    if (rule != nullptr && !chosen.as_it_is && call->type_as<TensorTypeNode>() != nullptr) {
      if (auto result = rule(call, args)) return Laid(args.laid(), false, *result);
    }
  }
  Array<Expr> args = call->args.Map([this](const Expr& arg) { return Plain(arg); });
  Expr op = call->op.as<OpNode>() ? call->op : Plain(call->op);
  if (args.same_as(call->args) && op.same_as(call->op)) return GetRef<Expr>(call);
  return Call(op, args, call->attrs, call->type_args, call->span);
}

/// A plan, and what was noted while it was made.
struct PlannedFunction {
  PlannedFunction(LayoutPlanner* planner, const Function& func) {
    std::optional<schedule::ChoiceLog> log;
    if (schedule::ChoiceLog::IsOn()) log.emplace();
    function = planner->Plan(func);
    if (log) notes = log->text();
  }
  Function function;
  std::string notes;
};

Function PlanLayouts(const Function& func, const schedule::Machine& machine, const Target& target) {
  const ops::cpu::WeightForms forms;
  LayoutPlanner usual(machine, target, {}), *taken = &usual;
  PlannedFunction planned(&usual, func);
  std::optional<LayoutPlanner> joint;
  const bool wanted = treadle::transform::PassContext::Current()->GetConfigBool(kJointLayouts, true);
  // What users' kernels cost in other layouts isn't known.
  if (wanted && !schedule::HasAddedKernels()) {
    LayoutAssignment assigned = AssignLayouts(usual.trace(), machine);
    if (!assigned.empty()) {
      taken = &joint.emplace(machine, target, std::move(assigned));
      planned = PlannedFunction(taken, func);
      planned.notes = "# blocks of channels are chosen together\n" + planned.notes;
    }
  }
  if (!planned.notes.empty()) schedule::ChoiceLog::Note(planned.notes.substr(0, planned.notes.size() - 1));
  taken->NoteAlternatives();
  return planned.function;
}

}  // namespace

namespace transform {

Pass PlanLayout(const schedule::Machine& machine, const Target& target) {
  ops::cpu::RegisterKernels();
  return CreateFunctionPass(
      [machine, target](Function func, const IRModule&, const PassContext&) {
        return PlanLayouts(func, machine, target);
      },
      {"PlanLayout", 3, {"InferType"}, "run convolutions and what follows them on channel-blocked activations"});
}

}  // namespace transform
}  // namespace treadle::relay
