// SPDX-License-Identifier: Apache-2.0
// Applying a recorded schedule with the schedule engine.
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "te/create_prim_func.h"
#include "treadle/arith/analyzer.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/te/scan.h"
#include "treadle/te/schedule.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::te {

using tir::BlockRV;
using tir::LoopRV;
using tir::ScheduleError;

namespace {

class Applier {
 public:
  Applier(const TeScheduleNode* schedule, const std::vector<Parameter>& params, const std::string& name)
      : schedule_(schedule), sch_(MakeFunction(params, name)) {}

  tir::PrimFunc Run() {
    for (const Stage& stage : schedule_->stages) {
      Naming(stage, [&] {
        if (!HasBlock(stage)) return;  // nothing reads it
        if (stage->attach_type == AttachType::kInline) sch_.ComputeInline(BlockOf(stage));
        if (stage->attach_type == AttachType::kReverseInline) sch_.ReverseComputeInline(BlockOf(stage));
      });
    }
    for (size_t i = schedule_->stages.size(); i-- > 0;) {
      const Stage& stage = schedule_->stages[i];
      if (stage->attach_type != AttachType::kReverseScope) Naming(stage, [&] { Place(stage); });
    }
    for (const Stage& stage : schedule_->stages) {
      if (stage->attach_type == AttachType::kReverseScope) Naming(stage, [&] { Place(stage); });
    }
    for (const Stage& stage : schedule_->stages) {
      for (const StageMark& mark : stage->marks) Naming(stage, [&] { ApplyMark(stage, mark); });
    }
    tir::PrimFunc func = sch_.func();
    for (const Stage& stage : schedule_->stages) {
      if (stage->store_predicate.defined() && HasBlock(stage)) func = WithStorePredicate(func, stage);
    }
    return func;
  }

 private:
  /// Errors of the engine know blocks and loops; they shall name the stage too.
  template <typename F>
  static void Naming(const Stage& stage, F&& step) {
    try {
      step();
    } catch (const ScheduleError& error) {
      const std::string message = error.what(), name = StrCat("'", stage->op->name, "'");
      if (message.find(name) != std::string::npos) throw;
      throw ScheduleError(StrCat("stage ", name, ": ", message));
    }
  }

  bool HasStage(const Operation& op) const {
    for (const Stage& stage : schedule_->stages) {
      if (stage->op.same_as(op) || stage->origin_op.same_as(op)) return true;
    }
    return false;
  }

  tir::PrimFunc MakeFunction(const std::vector<Parameter>& params, const std::string& name) {
    std::vector<Parameter> current = params;
    TeSchedule schedule{ObjectPtr<Object>(const_cast<TeScheduleNode*>(schedule_))};
    std::unordered_map<const Object*, Operation> kept;
    for (Parameter& param : current) {
      if (!param.tensor.defined()) continue;
      const Tensor arg = param.tensor;
      if (arg->op.as<PlaceholderOpNode>() && !HasStage(arg->op)) continue;  // a parameter that nothing reads
      Stage stage = schedule[arg];
      Operation op = stage->op;
      if (stage->attach_type == AttachType::kInline && op.as<ComputeOpNode>()) {
        // A result that is asked for is computed as such, whatever its consumers do.
        Operation& copy = kept[op.get()];
        if (!copy.defined()) copy = CopyOf(op.as<ComputeOpNode>());
        op = copy;
      }
      param.tensor = Tensor(arg->shape, arg->dtype, op, arg->value_index);
    }
    return CreatePrimFunc(current, name, &block_names_);
  }

  static Operation CopyOf(const ComputeOpNode* op) {
    Map<Var, PrimExpr> vmap;
    Array<IterVar> axes;
    for (const IterVar& iv : op->axis) {
      Var fresh(iv->var->name_hint, iv->var.dtype());
      vmap.Set(iv->var, fresh);
      axes.push_back(IterVar(iv->dom, fresh, iv->iter_type));
    }
    return MakeComputeOp(op->name, op->tag, op->attrs, axes,
                         op->body.Map([&](const PrimExpr& e) { return tir::Substitute(e, vmap); }));
  }

  /// Whether the predicate is about a reduction by threads, and that the first of them stores its result: so it is.
  static bool StoresOnce(const Stage& stage) {
    const auto* compute = stage->op.as<ComputeOpNode>();
    const auto* first = stage->store_predicate.as<tir::EQNode>();
    const auto* var =
        first == nullptr ? nullptr : (first->a.as<tir::VarNode>() != nullptr ? first->a : first->b).as<tir::VarNode>();
    for (const StageMark& mark : stage->marks) {
      if (compute == nullptr || mark.key != "bind" || mark.axis->iter_type != tir::IterVarType::kCommReduce) continue;
      auto is_axis = [&](const tir::VarNode* v) { return v->name_hint == mark.text || v == mark.axis->var.get(); };
      if (!arith::UsesVar(stage->store_predicate, is_axis)) continue;
      if (var != nullptr && is_axis(var) && (tir::is_zero(first->a) || tir::is_zero(first->b))) return true;
      throw ScheduleError(StrCat("set_store_predicate: stage '", stage->op->name, "' is reduced along axis '",
                                 mark.axis->var->name_hint, "' by the threads of ", mark.text,
                                 ", the first of which stores the result; expected the predicate ", mark.text,
                                 " == 0"));
    }
    return false;
  }

  /// The stage's block runs where its predicate holds.
  tir::PrimFunc WithStorePredicate(const tir::PrimFunc& func, const Stage& stage) {
    class Guard : public tir::StmtMutator {
     public:
      Guard(const std::string& block, const PrimExpr& predicate) : block_(block), predicate_(predicate) {}

     protected:
      using tir::StmtMutator::VisitStmt_;
      tir::Stmt VisitStmt_(const tir::BlockRealizeNode* op) override {
        if (op->block->name_hint != block_) return tir::StmtMutator::VisitStmt_(op);
        return tir::BlockRealize(op->iter_values, op->predicate && predicate_, op->block, op->span);
      }

     private:
      const std::string& block_;
      const PrimExpr& predicate_;
    };
    Map<Var, PrimExpr> vmap;
    arith::UsesVar(stage->store_predicate, [&](const tir::VarNode* v) {
      auto loop = loops_.find(v);
      for (const StageMark& mark : stage->marks) {
        if (mark.key == "bind" && mark.text == v->name_hint) loop = loops_.find(mark.axis->var.get());
      }
      if (loop == loops_.end()) {
        throw ScheduleError(StrCat("set_store_predicate: the predicate of stage '", stage->op->name, "' uses '",
                                   v->name_hint, "'; expected its axes, and threads that they are bound to"));
      }
      vmap.Set(GetRef<Var>(v), tir::cast(v->dtype, loop->second->var));
      return false;
    });
    tir::PrimFunc result = func;
    PrimExpr predicate = tir::Substitute(stage->store_predicate, vmap);
    if (StoresOnce(stage)) return result;
    result.CopyOnWrite()->body = Guard(block_names_.at(stage->op.get()), predicate)(func->body);
    return result;
  }

  static bool IsInlined(const Stage& stage) {
    return stage->attach_type == AttachType::kInline || stage->attach_type == AttachType::kReverseInline;
  }
  bool HasBlock(const Stage& stage) const { return block_names_.count(stage->op.get()) > 0; }
  BlockRV BlockOf(const Stage& stage) { return sch_.GetBlock(block_names_.at(stage->op.get())); }
  LoopRV LoopOf(const IterVar& axis, const Stage& stage) const {
    auto it = loops_.find(axis->var.get());
    if (it == loops_.end()) {
      throw ScheduleError(StrCat("axis '", axis->var->name_hint, "' of stage '", stage->op->name,
                                 "' has no loop: the stage is inlined, or the axis was split or fused"));
    }
    return it->second;
  }

  /// Puts the stage where it belongs and transforms its loops; consumers are done already.
  void Place(const Stage& stage) {
    if (!HasBlock(stage) || IsInlined(stage)) return;
    if (const auto* scan = stage->op.as<ScanOpNode>()) return PlaceScan(stage, scan);
    BlockRV block = BlockOf(stage);
    if (stage->scope != "global") sch_.SetScope(block, 0, stage->scope);
    if (stage->attach_type == AttachType::kScope) {
      Stage consumer{ObjectPtr<Object>(const_cast<StageNode*>(stage->attach_stage))};
      LoopRV loop = LoopOf(stage->attach_ivar, consumer);
      // Operations of a scan's step stand under its loop from the beginning.
      const bool step = step_axes_.count(stage->attach_ivar->var.get()) != 0 && IsUnder(block, loop);
      if (!step) sch_.ComputeAt(block, loop, true);
    }
    if (stage->attach_type == AttachType::kReverseScope) {
      Stage producer{ObjectPtr<Object>(const_cast<StageNode*>(stage->attach_stage))};
      sch_.ReverseComputeAt(block, LoopOf(stage->attach_ivar, producer), true);
    }
    const auto* compute = stage->op.as<ComputeOpNode>();
    if (compute == nullptr) return;
    std::vector<LoopRV> loops = sch_.GetLoops(block);
    size_t own = compute->axis.size() + compute->reduce_axis.size();
    TREADLE_ICHECK(loops.size() >= own) << "stage " << stage->op->name << " lost loops";
    size_t first = loops.size() - own;
    for (size_t i = 0; i < compute->axis.size(); ++i) loops_[compute->axis[i]->var.get()] = loops[first + i];
    for (size_t i = 0; i < compute->reduce_axis.size(); ++i) {
      loops_[compute->reduce_axis[i]->var.get()] = loops[first + compute->axis.size() + i];
    }
    for (const StageStep& step : stage->steps) ApplyStep(stage, step);
    // What is moved into loops looks at the threads that they are bound to.
    for (const StageMark& mark : stage->marks) {
      if (mark.key == "bind") ApplyMark(stage, mark);
    }
  }

  bool IsUnder(const BlockRV& block, const LoopRV& loop) {
    for (const LoopRV& around : sch_.GetLoops(block)) {
      if (around.same_as(loop)) return true;
    }
    return false;
  }

  /// The scan's axis is the loop around its steps.
  void PlaceScan(const Stage& stage, const ScanOpNode* scan) {
    if (stage->scope != "global") sch_.SetScope(BlockOf(stage), 0, stage->scope);
    if (stage->attach_type != AttachType::kRoot) {
      throw ScheduleError(StrCat("compute_at: stage '", stage->op->name, "' is a scan, which can't be moved"));
    }
    for (const Operation& op : ScanBody(scan)) {
      const auto* compute = op.as<ComputeOpNode>();
      if (!block_names_.count(op.get())) continue;
      auto inlined = [&] {
        for (const Stage& s : schedule_->stages) {
          if (s->op.same_as(op)) return s->attach_type == AttachType::kInline;
        }
        return false;
      };
      if (inlined()) continue;
      std::vector<LoopRV> loops = sch_.GetLoops(sch_.GetBlock(block_names_.at(op.get())));
      size_t own = compute->axis.size() + compute->reduce_axis.size();
      TREADLE_ICHECK(loops.size() >= own) << "step " << op->name << " lost loops";
      loops_[scan->scan_axis->var.get()] = loops[loops.size() - own];
      step_axes_.insert(scan->scan_axis->var.get());
      step_axes_.insert(compute->axis[0]->var.get());
    }
  }

  void ApplyStep(const Stage& stage, const StageStep& step) {
    std::vector<LoopRV> loops;
    for (const IterVar& axis : step.inputs) {
      loops.push_back(LoopOf(axis, stage));
      if (step_axes_.count(axis->var.get()) == 0) continue;
      throw ScheduleError(
          StrCat("axis '", axis->var->name_hint, "' of stage '", stage->op->name,
                 "' is the steps of a scan, which run in order; it can't be split, fused or reordered"));
    }
    if (step.kind == StageStep::Kind::kReorder) {
      sch_.Reorder(loops);
    } else if (step.kind == StageStep::Kind::kFuse && loops.empty()) {
      std::vector<LoopRV> order{sch_.AddUnitLoop(BlockOf(stage))};
      for (const IterVar& axis : stage->op.as<ComputeOpNode>()->reduce_axis) {
        if (auto it = loops_.find(axis->var.get()); it != loops_.end()) order.push_back(it->second);
      }
      if (order.size() > 1) sch_.Reorder(order);
      loops_[step.outputs[0]->var.get()] = order[0];
    } else if (step.kind == StageStep::Kind::kFuse) {
      LoopRV fused = sch_.Fuse(loops, step.outputs[0]->var->name_hint);
      for (const IterVar& axis : step.inputs) loops_.erase(axis->var.get());
      loops_[step.outputs[0]->var.get()] = fused;
    } else {
      auto parts = sch_.Split(loops[0], {step.nparts, step.factor},
                              {step.outputs[0]->var->name_hint, step.outputs[1]->var->name_hint});
      loops_.erase(step.inputs[0]->var.get());
      for (size_t i = 0; i < 2; ++i) loops_[step.outputs[i]->var.get()] = parts[i];
    }
  }

  void ApplyMark(const Stage& stage, const StageMark& mark) {
    if (!HasBlock(stage)) return;
    if (IsInlined(stage)) {
      throw ScheduleError(StrCat(mark.key, ": stage '", stage->op->name, "' is inlined, so it has no loops"));
    }
    if (mark.key == "double_buffer") return sch_.DoubleBuffer(BlockOf(stage));
    if (mark.key == "storage_align") {
      return sch_.StorageAlign(BlockOf(stage), 0, mark.numbers[0], mark.numbers[1], mark.numbers[2]);
    }
    LoopRV loop = LoopOf(mark.axis, stage);
    if (mark.key == "parallel") return sch_.Parallel(loop);
    if (mark.key == "vectorize") return sch_.Vectorize(loop);
    if (mark.key == "unroll") return sch_.Unroll(loop);
    if (mark.key == "bind") return sch_.Bind(loop, mark.text);
    if (mark.key == "tensorize") return sch_.Tensorize(loop, Downcast<tir::TensorIntrin>(mark.value));
    if (mark.key == "pragma") return sch_.Pragma(loop, mark.text, mark.value);
    TREADLE_ICHECK(mark.key == "prefetch") << mark.key;
    tir::Block block = sch_.Get(BlockOf(stage));
    for (size_t i = 0; i < block->reads.size(); ++i) {
      if (block->reads[i]->buffer->name != mark.text) continue;
      return sch_.Prefetch(BlockOf(stage), static_cast<int>(i), loop, Downcast<PrimExpr>(mark.value));
    }
    throw ScheduleError(StrCat("prefetch: stage '", stage->op->name, "' doesn't read tensor '", mark.text, "'"));
  }

  const TeScheduleNode* schedule_;
  std::unordered_map<const Object*, std::string> block_names_;
  tir::Schedule sch_;
  std::unordered_map<const Object*, LoopRV> loops_;
  std::unordered_set<const Object*> step_axes_;  ///< variables of axes that the loops of scans drive
};

}  // namespace

tir::PrimFunc TeSchedule::Apply(const Array<Tensor>& args, const std::string& name) const {
  return ApplyWith(std::vector<Parameter>(args.begin(), args.end()), name);
}

tir::PrimFunc TeSchedule::ApplyWith(const std::vector<Parameter>& params, const std::string& name) const {
  return Applier(get(), params, name).Run();
}

}  // namespace treadle::te
