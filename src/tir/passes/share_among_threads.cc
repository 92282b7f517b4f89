// SPDX-License-Identifier: Apache-2.0
// Which buffers the threads of a block have in common, and loops that they run through together.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ir/scoped_entry.h"
#include "tir/passes/kernel_body.h"
#include "tir/passes/pass_util.h"
#include "tir/passes/split_host_device.h"

namespace treadle::tir {
namespace {

/// What a value depends on.
struct Sources {
  std::unordered_set<const Object*> vars, buffers;
  void Add(const Sources& other) {
    vars.insert(other.vars.begin(), other.vars.end());
    buffers.insert(other.buffers.begin(), other.buffers.end());
  }
};

/// A buffer that is allocated within loops bound to threads. Copies of a statement have it in common.
struct Use {
  std::vector<const ForNode*> around;            ///< loops bound to threads outside of an allocation
  size_t depth = 0;                              ///< their number outside of one
  size_t conditions = 0;                         ///< number of conditions and loops outside of it
  Sources content;                               ///< of all that is stored
  std::unordered_set<const Object*> differs_by;  ///< variables of `around` that the content depends on
  std::unordered_set<size_t> rebound;            ///< axes of `around` that loops around accesses are bound to again
  bool spread = false;                           ///< used in loops bound to axes that aren't in `around`
  bool opaque = false;
};

/// A loop bound to an axis to which a loop around it is bound already.
struct Nest {
  const ForNode* outer;
  Sources sources;                             ///< of all that is evaluated inside
  std::unordered_set<const Object*> stores{};  ///< data pointers
};

class ThreadUses : public StmtExprVisitor {
 public:
  std::unordered_map<const Object*, Use> uses;  ///< by data pointer
  std::unordered_map<const Object*, Nest> nests;

  void Run(const Stmt& stmt) {
    VisitStmt(stmt);
    for (bool changed = true; changed;) {
      changed = false;
      for (auto& [data, use] : uses) {
        for (const ForNode* loop : use.around) {
          const Object* var = loop->loop_var.get();
          if (use.differs_by.count(var) == 0 && DependsOn(use.content, var)) {
            changed = use.differs_by.insert(var).second;
          }
        }
      }
    }
    for (const auto& [loop, nest] : nests) Check(static_cast<const ForNode*>(loop), nest);
  }

 protected:
  using StmtExprVisitor::VisitExpr_;
  using StmtExprVisitor::VisitStmt_;

  void VisitStmt_(const ForNode* op) override {
    Sources range = Record(op->min);
    range.Add(Record(op->extent));
    conditions_.push_back(std::move(range));
    const bool bound = IsThreadLoop(GetRef<Stmt>(op)) && AxisOf(op) >= kFirstThread;
    if (bound) {
      for (size_t i = loops_.size(); i-- > 0;) {
        if (AxisOf(loops_[i]) != AxisOf(op)) continue;
        nests.emplace(op, Nest{loops_[i], {}});
        break;
      }
      loops_.push_back(op);
    }
    VisitStmt(op->body);
    if (bound) loops_.pop_back();
    conditions_.pop_back();
  }
  void VisitStmt_(const IfThenElseNode* op) override {
    conditions_.push_back(Record(op->condition));
    VisitStmt(op->then_case);
    if (op->else_case.defined()) VisitStmt(op->else_case);
    conditions_.pop_back();
  }
  void VisitStmt_(const WhileNode* op) override {
    conditions_.push_back(Record(op->condition));
    VisitStmt(op->body);
    conditions_.pop_back();
  }
  void VisitStmt_(const LetStmtNode* op) override {
    ScopedEntry let(lets_, op->var.get(), Record(op->value));
    VisitStmt(op->body);
  }
  void VisitStmt_(const AllocateNode* op) override {
    if (!loops_.empty()) {
      Use& use = uses[op->buffer->data.get()];
      use.around.insert(use.around.end(), loops_.begin(), loops_.end());
      use.depth = loops_.size();
      use.conditions = conditions_.size();
    }
    VisitStmt(op->body);
  }
  void VisitStmt_(const BufferStoreNode* op) override {
    Sources sources = Record(op->value);
    for (const PrimExpr& index : op->indices) sources.Add(Record(index));
    const Object* data = op->buffer->data.get();
    Access(data);
    for (const ForNode* loop : loops_) {
      if (auto nest = nests.find(loop); nest != nests.end()) nest->second.stores.insert(data);
    }
    auto it = uses.find(data);
    if (it == uses.end()) return;
    for (size_t i = it->second.conditions; i < conditions_.size(); ++i) sources.Add(conditions_[i]);
    it->second.content.Add(sources);
  }
  /// Other statements' expressions.
  void VisitExpr(const PrimExpr& e) override { Record(e); }

 private:
  Sources Record(const PrimExpr& e) {
    Sources sources;
    PostOrderVisit(e, [&](const ObjectRef& node) {
      if (const auto* load = node.as<BufferLoadNode>()) {
        sources.buffers.insert(load->buffer->data.get());
        Access(load->buffer->data.get());
        for (const ForNode* loop : loops_) loads_[loop].insert(load->buffer->data.get());
      } else if (const auto* let = node.as<LetNode>()) {
        lets_[let->var.get()].Add(Record(let->value));  // of all Lets of the variable in `e`
      } else if (node.as<VarNode>()) {
        if (auto use = uses.find(node.get()); use != uses.end()) use->second.opaque = true;
        sources.vars.insert(node.get());
      }
    });
    for (const Object* var : std::vector<const Object*>(sources.vars.begin(), sources.vars.end())) {
      if (auto it = lets_.find(var); it != lets_.end()) sources.Add(it->second);
    }
    for (const ForNode* loop : loops_) {
      if (auto nest = nests.find(loop); nest != nests.end()) nest->second.sources.Add(sources);
    }
    return sources;
  }
  void Access(const Object* data) {
    auto it = uses.find(data);
    if (it == uses.end()) return;
    Use& use = it->second;
    for (size_t i = use.depth; i < loops_.size(); ++i) {
      const size_t axis = AxisOf(loops_[i]);
      const bool again = std::any_of(use.around.begin(), use.around.end(),
                                     [&](const ForNode* around) { return AxisOf(around) == axis; });
      if (again) {
        use.rebound.insert(axis);
      } else {
        use.spread = true;
      }
    }
  }
  bool DependsOn(const Sources& sources, const Object* var) const {
    if (sources.vars.count(var) != 0) return true;
    return std::any_of(sources.buffers.begin(), sources.buffers.end(), [&](const Object* data) {
      auto it = uses.find(data);
      return it != uses.end() && it->second.differs_by.count(var) != 0;
    });
  }
  void Check(const ForNode* inner, const Nest& nest) const {
    const std::string what =
        StrCat("loop ", inner->loop_var->name_hint, " is bound to ", kThreadAxes[AxisOf(inner)], " within loop ",
               nest.outer->loop_var->name_hint, ", which is bound to it, so that the threads share its iterations; ");
    if (DependsOn(nest.sources, nest.outer->loop_var.get())) {
      throw TargetError(StrCat(what, "but what they compute differs from thread to thread. Expected the same for all: ",
                               "a stage in scope shared, moved (compute_at) after the loops around it were bound"));
    }
    const auto loaded = loads_.find(nest.outer);
    for (const Object* data : nest.stores) {
      auto use = uses.find(data);
      if (use != uses.end() &&
          std::find(use->second.around.begin(), use->second.around.end(), nest.outer) != use->second.around.end()) {
        continue;
      }
      if (loaded == loads_.end() || loaded->second.count(data) == 0) continue;
      throw TargetError(StrCat(what, "but they write buffer ", static_cast<const VarNode*>(data)->name_hint,
                               ", which they read, too, and which isn't theirs"));
    }
  }

  std::vector<const ForNode*> loops_;  ///< that are bound to threads of a block
  std::vector<Sources> conditions_;    ///< and ranges of loops
  std::unordered_map<const Object*, Sources> lets_;
  std::unordered_map<const Object*, std::unordered_set<const Object*>> loads_;  ///< by loop
};

class Sharer : public StmtExprMutator {
 public:
  explicit Sharer(const std::unordered_map<const Object*, Use>& uses) : uses_(uses) {}

 protected:
  using StmtExprMutator::VisitExpr_;
  using StmtExprMutator::VisitStmt_;

  Stmt VisitStmt_(const ForNode* op) override {
    const bool bound = IsThreadLoop(GetRef<Stmt>(op)) && AxisOf(op) >= kFirstThread;
    if (bound) loops_.push_back(op);
    Stmt result = StmtExprMutator::VisitStmt_(op);
    if (bound) loops_.pop_back();
    return result;
  }
  Stmt VisitStmt_(const AllocateNode* op) override {
    auto it = uses_.find(op->buffer->data.get());
    if (it == uses_.end() || (it->second.rebound.empty() && !it->second.spread)) return StmtExprMutator::VisitStmt_(op);
    const Use& use = it->second;
    const std::string& name = op->buffer->name;
    const int64_t* size = op->buffer->shape.size() == 1 ? AsConstInt(op->buffer->shape[0]) : nullptr;
    if (use.opaque || size == nullptr) {
      throw TargetError(StrCat("buffer ", name, " is shared by the threads of a block, so that its size must be a ",
                               "constant, and it must be used by its elements"));
    }
    Shared shared;
    shared.loops = loops_.size();
    int64_t copies = 1;
    PrimExpr copy = make_zero(DataType::Int(32));
    for (const ForNode* loop : loops_) {
      if (use.differs_by.count(loop->loop_var.get()) == 0) {
        shared.same_in.push_back(loop);
        continue;
      }
      const size_t axis = AxisOf(loop);
      const int64_t* extent = AsConstInt(loop->extent);
      if (use.rebound.count(axis) != 0 || extent == nullptr) {
        throw TargetError(StrCat("buffer ", name, " is used by loops bound to ", kThreadAxes[axis], " within loop ",
                                 loop->loop_var->name_hint, ", which is bound to it, but holds something else in each ",
                                 "iteration of that"));
      }
      copy = copy * make_const(copy.dtype(), *extent) + cast(copy.dtype(), loop->loop_var - loop->min);
      copies *= *extent;
    }
    shared.buffer = op->buffer;
    if (copies > 1) {
      shared.buffer.CopyOnWrite()->shape = {make_const(op->buffer->shape[0].dtype(), *size * copies)};
      shared.begin = copy * make_const(copy.dtype(), *size);
    }
    const Object* data = op->buffer->data.get();
    shared_[data] = shared;
    Map<String, ObjectRef> annotations = op->annotations;
    annotations.Set(kSharedByBlock, IntImm(DataType::Int(32), 1));
    return Allocate(shared.buffer, VisitStmt(op->body), annotations, op->span);
  }
  PrimExpr VisitExpr_(const BufferLoadNode* op) override {
    PrimExpr result = StmtExprMutator::VisitExpr_(op);
    auto it = shared_.find(op->buffer->data.get());
    if (it == shared_.end() || !it->second.begin.defined()) return result;
    return BufferLoad(it->second.buffer, Moved(result.as<BufferLoadNode>()->indices, it->second), op->span);
  }
  /// Of threads that would store the same, the first one does.
  Stmt VisitStmt_(const BufferStoreNode* op) override {
    Stmt result = StmtExprMutator::VisitStmt_(op);
    auto it = shared_.find(op->buffer->data.get());
    if (it == shared_.end()) return result;
    const Shared& shared = it->second;
    const auto* store = result.as<BufferStoreNode>();
    if (shared.begin.defined()) {
      result = BufferStore(shared.buffer, store->value, Moved(store->indices, shared), op->span);
    }
    for (const ForNode* loop : shared.same_in) {
      bool told_apart = false;
      for (size_t i = shared.loops; i < loops_.size(); ++i) told_apart |= AxisOf(loops_[i]) == AxisOf(loop);
      if (!told_apart) result = IfThenElse(equal(loop->loop_var, loop->min), result);
    }
    return result;
  }

 private:
  struct Shared {
    Buffer buffer;
    PrimExpr begin{ObjectPtr<Object>()};  ///< of the thread's copy; null: there is one for all
    std::vector<const ForNode*> same_in;  ///< loops that don't matter to the content
    size_t loops = 0;                     ///< number of loops bound to threads outside of the allocation
  };
  static Array<PrimExpr> Moved(const Array<PrimExpr>& indices, const Shared& shared) {
    return {indices[0] + cast(indices[0].dtype(), shared.begin)};
  }

  const std::unordered_map<const Object*, Use>& uses_;
  std::unordered_map<const Object*, Shared> shared_;
  std::vector<const ForNode*> loops_;
};

}  // namespace

Stmt ShareAmongThreads(const Stmt& nest) {
  ThreadUses found;
  found.Run(nest);
  return Sharer(found.uses)(nest);
}

}  // namespace treadle::tir
