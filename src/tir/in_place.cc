// SPDX-License-Identifier: Apache-2.0
#include "tir/in_place.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "ir/scoped_entry.h"
#include "treadle/arith/analyzer.h"
#include "treadle/base/int_math.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::tir {
namespace {

/// Conditions are evaluated for at most so many iterations of a function.
constexpr int64_t kMaxEvaluations = int64_t{1} << 20;

using Values = std::unordered_map<const VarNode*, int64_t>;
using MaybeInt = std::optional<int64_t>;

/// Value of an integer expression over variables of known values, or nothing.
class Evaluator {
 public:
  explicit Evaluator(const Values& values) : values_(values) {}

  MaybeInt operator()(const PrimExpr& e) const {
    if (const auto* n = e.as<IntImmNode>()) return n->value;
    if (const auto* n = e.as<VarNode>()) {
      auto it = values_.find(n);
      return it == values_.end() ? MaybeInt() : it->second;
    }
    if (const auto* n = e.as<CastNode>()) return e.dtype().is_integral() ? (*this)(n->value) : MaybeInt();
    if (const auto* n = e.as<NotNode>()) {
      const MaybeInt a = (*this)(n->a);
      return a ? MaybeInt(*a == 0) : a;
    }
    if (const auto* n = e.as<CallNode>()) return IsCallTo(n, "tir.likely") ? (*this)(n->args[0]) : MaybeInt();
    return Binary(e);
  }

 private:
  template <typename Node, typename F>
  bool Try(const PrimExpr& e, const F& f, MaybeInt* result) const {
    const auto* n = e.as<Node>();
    if (n == nullptr) return false;
    const MaybeInt a = (*this)(n->a), b = (*this)(n->b);
    if (a && b) *result = f(*a, *b);
    return true;
  }

  MaybeInt Binary(const PrimExpr& e) const {
    using I = int64_t;
    auto wrap = [](auto f) {  // index arithmetic that leaves 64 bits has no value
      return [f](I a, I b) {
        I result = 0;
        return f(a, b, &result) ? MaybeInt() : MaybeInt(result);
      };
    };
    MaybeInt r;
    Try<AddNode>(e, wrap([](I a, I b, I* c) { return __builtin_add_overflow(a, b, c); }), &r) ||
        Try<SubNode>(e, wrap([](I a, I b, I* c) { return __builtin_sub_overflow(a, b, c); }), &r) ||
        Try<MulNode>(e, wrap([](I a, I b, I* c) { return __builtin_mul_overflow(a, b, c); }), &r) ||
        Try<FloorDivNode>(
            e, [](I a, I b) { return b > 0 ? MaybeInt(FloorDivInt(a, b)) : MaybeInt(); }, &r) ||
        Try<FloorModNode>(
            e, [](I a, I b) { return b > 0 ? MaybeInt(FloorModInt(a, b)) : MaybeInt(); }, &r) ||
        Try<DivNode>(
            e, [](I a, I b) { return b > 0 ? MaybeInt(a / b) : MaybeInt(); }, &r) ||
        Try<ModNode>(
            e, [](I a, I b) { return b > 0 ? MaybeInt(a % b) : MaybeInt(); }, &r) ||
        Try<MinNode>(
            e, [](I a, I b) { return std::min(a, b); }, &r) ||
        Try<MaxNode>(
            e, [](I a, I b) { return std::max(a, b); }, &r) ||
        Try<LTNode>(
            e, [](I a, I b) { return a < b; }, &r) ||
        Try<LENode>(
            e, [](I a, I b) { return a <= b; }, &r) ||
        Try<GTNode>(
            e, [](I a, I b) { return a > b; }, &r) ||
        Try<GENode>(
            e, [](I a, I b) { return a >= b; }, &r) ||
        Try<EQNode>(
            e, [](I a, I b) { return a == b; }, &r) ||
        Try<NENode>(
            e, [](I a, I b) { return a != b; }, &r) ||
        Try<AndNode>(
            e, [](I a, I b) { return a != 0 && b != 0; }, &r) ||
        Try<OrNode>(e, [](I a, I b) { return a != 0 || b != 0; }, &r);
    return r;
  }

  const Values& values_;
};

/// An arm of an IfThenElse that the walk is in.
struct Arm {
  PrimExpr condition;
  int id;
};

/// An access, and what is around it.
struct Access {
  Array<PrimExpr> indices;
  std::vector<const Object*> lets;  ///< that bind variables of the indices: copies of a body bind one to several values
  const VarNode* data;
  std::vector<const ForNode*> loops;  ///< outermost first
  std::vector<int> arms;
  int order;  ///< in the text of the function
};

size_t CommonLoops(const Access& a, const Access& b) {
  const auto ends = std::mismatch(a.loops.begin(), a.loops.end(), b.loops.begin(), b.loops.end());
  return static_cast<size_t>(ends.first - a.loops.begin());
}

/// Whether, for each iteration of their common loops, `store` stores every element that `read` reads.
bool StoresAllOf(const Access& store, const Access& read, size_t common) {
  for (int arm : store.arms) {
    if (std::find(read.arms.begin(), read.arms.end(), arm) == read.arms.end()) return false;
  }
  if (store.loops.size() != read.loops.size() || store.indices.size() != read.indices.size()) return false;
  if (store.lets != read.lets) return false;
  Map<Var, PrimExpr> renamed;
  for (size_t i = common; i < read.loops.size(); ++i) {
    const ForNode *a = read.loops[i], *b = store.loops[i];
    if (!arith::ExprDeepEqual(a->min, b->min) || !arith::ExprDeepEqual(a->extent, b->extent)) return false;
    renamed.Set(a->loop_var, b->loop_var);
  }
  for (size_t i = 0; i < read.indices.size(); ++i) {
    if (!arith::ExprDeepEqual(Substitute(read.indices[i], renamed), store.indices[i])) return false;
  }
  return true;
}

/// Whether what `read` reads is stored, by one of the `stores` of distinct elements, in the same iteration of the loops
/// that they share, and whether in such an iteration all stores follow the read.
bool IsReadBeforeStores(const Access& read, const std::vector<Access>& stores) {
  return std::any_of(stores.begin(), stores.end(), [&](const Access& store) {
    const size_t common = CommonLoops(read, store);
    return StoresAllOf(store, read, common) && std::all_of(stores.begin(), stores.end(), [&](const Access& other) {
             const size_t shared = CommonLoops(read, other);
             return shared < common || (shared == common && other.order > read.order);
           });
  });
}

/// Looks at every access of the result and of the operands. As all elements of the result are stored, none is stored
/// twice if there are no more stores than elements.
class AccessWalk : public StmtExprVisitor {
 public:
  explicit AccessWalk(const PrimFunc& func) {
    const int last = static_cast<int>(func->params.size()) - 1;
    for (int i = 0; i <= last; ++i) {
      if (!func->buffer_map.contains(func->params[i])) return;
      const Buffer buffer = func->buffer_map.at(func->params[i]);
      if (i == last) {
        result_ = buffer->data.get();
        result_bits_ = buffer->dtype.bits();
      } else {
        operands_[buffer->data.get()] = i;
        bits_[buffer->data.get()] = buffer->dtype.bits();
      }
    }
    if (result_ == nullptr) return;
    VisitStmt(func->body);
    int64_t elements = 1;
    const Buffer result = func->buffer_map.at(func->params[last]);
    for (const PrimExpr& extent : result->shape) {
      const int64_t* n = AsConstInt(extent);
      if (n == nullptr || __builtin_mul_overflow(elements, *n, &elements)) return;
    }
    shown_ = !refused_ && stores_ == elements && result->strides.empty();
    for (const Access& read : early_reads_) {
      if (operands_.count(read.data) != 0 && !IsReadBeforeStores(read, store_sites_)) operands_.erase(read.data);
    }
  }

  std::vector<int> Operands() const {
    std::vector<int> operands;
    for (const auto& [data, index] : operands_) {
      if (shown_ && bits_.at(data) == result_bits_) operands.push_back(index);
    }
    std::sort(operands.begin(), operands.end());
    return operands;
  }

 protected:
  using StmtExprVisitor::VisitExpr_;
  using StmtExprVisitor::VisitStmt_;

  void VisitExpr_(const VarNode* op) override { Expose(op); }
  void VisitExpr_(const CallNode* op) override {
    if (IsCallTo(op, "tir.address_of") || IsCallTo(op, "tir.tvm_access_ptr")) {
      for (const PrimExpr& arg : op->args) {
        if (const auto* load = arg.as<BufferLoadNode>()) Expose(load->buffer->data.get());
      }
    }
    StmtExprVisitor::VisitExpr_(op);
  }
  void VisitExpr_(const BufferLoadNode* op) override {
    const VarNode* data = op->buffer->data.get();
    if (data == result_) refused_ = true;
    if (bits_.count(data) != 0 && op->buffer->dtype.bits() != bits_.at(data)) Expose(data);
    if (operands_.count(data) != 0 && (store_ == nullptr || !SameElement(op))) {
      early_reads_.push_back(AccessTo(data, op->indices));
    }
    const BufferStoreNode* store = std::exchange(store_, nullptr);
    for (const PrimExpr& index : op->indices) VisitExpr(index);
    store_ = store;
  }
  void VisitStmt_(const BufferStoreNode* op) override {
    const VarNode* data = op->buffer->data.get();
    operands_.erase(data);
    for (const PrimExpr& index : op->indices) VisitExpr(index);
    if (data == result_) store_ = op;
    VisitExpr(op->value);
    store_ = nullptr;
    if (data != result_) return;
    refused_ |= op->buffer->dtype.bits() != result_bits_;
    CountStore(op);
    store_sites_.push_back(AccessTo(data, op->indices));
  }
  void VisitStmt_(const ForNode* op) override {
    VisitExpr(op->extent);
    refused_ |= op->kind == ForKind::kThreadBinding;  // threads don't run one after the other
    Within([&] { loops_.push_back(op); }, [&] { VisitStmt(op->body); }, [&] { loops_.pop_back(); });
  }
  void VisitExpr_(const LetNode* op) override {
    VisitExpr(op->value);
    ScopedEntry binder(binders_, op->var.get(), op);
    VisitExpr(op->body);
  }
  void VisitStmt_(const LetStmtNode* op) override {
    VisitExpr(op->value);
    ScopedEntry binder(binders_, op->var.get(), op);
    Within([&] { lets_.push_back(op); }, [&] { VisitStmt(op->body); }, [&] { lets_.pop_back(); });
  }
  void VisitStmt_(const IfThenElseNode* op) override {
    VisitExpr(op->condition);
    auto arm = [&](const PrimExpr& condition, const Stmt& body) {
      Within([&] { arms_.push_back({condition, order_++}); }, [&] { VisitStmt(body); }, [&] { arms_.pop_back(); });
    };
    arm(op->condition, op->then_case);
    if (op->else_case.defined()) arm(Not(op->condition), op->else_case);
  }
  void VisitStmt_(const WhileNode* op) override {
    refused_ = true;
    StmtExprVisitor::VisitStmt_(op);
  }

 private:
  Access AccessTo(const VarNode* data, const Array<PrimExpr>& indices) {
    Access access{indices, {}, data, loops_, {}, order_++};
    for (const Arm& arm : arms_) access.arms.push_back(arm.id);
    for (const PrimExpr& index : indices) {
      PostOrderVisit(index, [&](const ObjectRef& node) {
        auto it = binders_.find(node.get());
        if (it != binders_.end()) access.lets.push_back(it->second);
      });
    }
    return access;
  }

  /// The pointer goes where its uses can't be seen.
  void Expose(const VarNode* var) {
    refused_ |= var == result_;
    operands_.erase(var);
  }

  bool SameElement(const BufferLoadNode* load) const {
    if (load->indices.size() != store_->indices.size()) return false;
    for (size_t i = 0; i < load->indices.size(); ++i) {
      if (!arith::ExprDeepEqual(load->indices[i], store_->indices[i])) return false;
    }
    return true;
  }

  template <typename Enter, typename Visit, typename Leave>
  void Within(const Enter& enter, const Visit& visit, const Leave& leave) {
    const MaybeInt outside = std::exchange(executions_, MaybeInt());
    enter();
    visit();
    leave();
    executions_ = outside;
  }

  void CountStore(const BufferStoreNode* op) {
    int64_t lanes = 1;
    for (const PrimExpr& index : op->indices) {
      const auto* ramp = index.as<RampNode>();
      if (index.dtype().is_scalar()) continue;
      if (ramp == nullptr || lanes != 1 || AsConstInt(ramp->stride) == nullptr || *AsConstInt(ramp->stride) == 0) {
        refused_ = true;
      }
      lanes = index.dtype().lanes();
    }
    if (!executions_ && !refused_) executions_ = Executions();
    int64_t elements = 0;
    refused_ |= !executions_ || __builtin_mul_overflow(*executions_, lanes, &elements) ||
                __builtin_add_overflow(stores_, elements, &stores_);
  }

  /// Adds the loops whose variables `e` depends on; false when it depends on something else.
  bool CollectLoops(const PrimExpr& e, std::vector<const ForNode*>* loops) {
    bool known = true;
    PostOrderVisit(e, [&](const ObjectRef& node) {
      const auto* var = node.as<VarNode>();
      if (var == nullptr) return;
      for (const LetStmtNode* let : lets_) {
        if (let->var.get() == var) {
          known = known && CollectLoops(let->value, loops);
          return;
        }
      }
      for (const ForNode* loop : loops_) {
        if (loop->loop_var.get() != var) continue;
        if (std::find(loops->begin(), loops->end(), loop) == loops->end()) loops->push_back(loop);
        return;
      }
      known = false;
    });
    return known;
  }

  /// How often the place that the walk is at is reached; nothing where that isn't known.
  MaybeInt Executions() {
    std::vector<const ForNode*> tested;
    for (const Arm& arm : arms_) {
      if (!CollectLoops(arm.condition, &tested)) return {};
    }
    int64_t free = 1, iterations = 1;
    for (const ForNode* loop : loops_) {
      const int64_t* extent = AsConstInt(loop->extent);
      if (extent == nullptr || AsConstInt(loop->min) == nullptr || *extent < 0) return {};
      const bool enumerated = std::find(tested.begin(), tested.end(), loop) != tested.end();
      int64_t* product = enumerated ? &iterations : &free;
      if (__builtin_mul_overflow(*product, *extent, product)) return {};
    }
    evaluations_ += iterations;
    if (evaluations_ > kMaxEvaluations) return {};
    int64_t reached = 0, result = 0;
    for (int64_t n = 0; n < iterations; ++n) {
      const MaybeInt holds = Reached(tested, n);
      if (!holds) return {};
      reached += *holds;
    }
    if (__builtin_mul_overflow(free, reached, &result)) return {};
    return result;
  }

  /// Whether all conditions hold in iteration `n` of the `loops`.
  MaybeInt Reached(const std::vector<const ForNode*>& loops, int64_t n) const {
    Values values;
    for (const ForNode* loop : loops) {
      const int64_t extent = *AsConstInt(loop->extent);
      values[loop->loop_var.get()] = *AsConstInt(loop->min) + n % extent;
      n /= extent;
    }
    const Evaluator evaluate(values);
    for (const LetStmtNode* let : lets_) {
      if (const MaybeInt value = evaluate(let->value)) values[let->var.get()] = *value;
    }
    for (const Arm& arm : arms_) {
      const MaybeInt holds = evaluate(arm.condition);
      if (!holds || *holds == 0) return holds;
    }
    return 1;
  }

  const VarNode* result_ = nullptr;
  int result_bits_ = 0;
  std::unordered_map<const VarNode*, int> operands_;  ///< those not refused yet
  std::unordered_map<const VarNode*, int> bits_;
  std::vector<const ForNode*> loops_;
  std::vector<const LetStmtNode*> lets_;
  std::unordered_map<const Object*, const Object*> binders_;  ///< variables, and the Let or LetStmt that binds them
  std::vector<Arm> arms_;
  const BufferStoreNode* store_ = nullptr;         ///< store of the result whose value is visited
  MaybeInt executions_;                            ///< of the place that the walk is at, when asked for before
  std::vector<Access> store_sites_, early_reads_;  ///< early: not for the value of the same element
  int order_ = 0;
  int64_t stores_ = 0, evaluations_ = 0;
  bool refused_ = false, shown_ = false;
};

}  // namespace

std::vector<int> InPlaceOperands(const PrimFunc& func) {
  if (func->params.empty()) return {};
  return AccessWalk(func).Operands();
}

PrimFunc WithInPlaceOperands(PrimFunc func) {
  Array<ObjectRef> operands;
  for (int operand : InPlaceOperands(func)) operands.push_back(IntImm(DataType::Int(32), operand));
  if (operands.empty()) return func;
  return WithAttr(std::move(func), kInPlaceOperands, operands);
}

std::vector<bool> SharedParams(const PrimFunc& func, size_t num_params) {
  std::vector<bool> shared(num_params, false);
  const auto operands = func->GetAttr<Array<ObjectRef>>(kInPlaceOperands);
  if (!operands || num_params == 0) return shared;
  for (const ObjectRef& operand : *operands) {
    const auto* index = operand.as<IntImmNode>();
    TREADLE_ICHECK(index != nullptr && index->value >= 0 && static_cast<size_t>(index->value) + 1 < num_params)
        << "attribute " << kInPlaceOperands << " names parameters that aren't operands";
    shared[static_cast<size_t>(index->value)] = true;
  }
  shared[num_params - 1] = true;
  return shared;
}

}  // namespace treadle::tir
