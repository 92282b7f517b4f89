// SPDX-License-Identifier: Apache-2.0
#include "passes/fuse_rows.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "passes/pass_util.h"
#include "relay/analysis/scopes.h"
#include "treadle/ir/structural.h"
#include "treadle/ops/attrs/reduce.h"

namespace treadle::relay {
namespace {

/// Longer sums are of several parts, which aren't rows.
constexpr int64_t kLongestRow = (1 << 15) - 1;
/// A norm reduces twice or three times, with as many kernels again that read the results.
constexpr size_t kMaxReductions = 8, kMaxKernels = 16, kMaxParams = 24;

/// The highest pattern of the operators in an expression of calls, constants and variables; kOpaque for others.
OpPatternKind HighestPattern(const Expr& body) {
  auto highest = OpPatternKind::kElemWise;
  PostOrderVisit(body, [&](const Expr& e) {
    if (const auto* call = e.as<CallNode>()) {
      highest = std::max(highest, PatternOf(call));
    } else if (!e.as<VarNode>() && !e.as<ConstantNode>() && !e.as<OpNode>()) {
      highest = OpPatternKind::kOpaque;
    }
  });
  return highest;
}

/// The rows of a tensor: what its last dimensions, from `axis` on, hold.
struct Rows {
  Array<PrimExpr> shape;  ///< empty: not known yet
  size_t axis = 0;

  bool AreOf(const Array<PrimExpr>& other) const { return ShapesEqual(shape, other); }
  /// Whether tensors of that shape have one element for each row.
  bool HaveOneElementIn(const Array<PrimExpr>& other) const {
    if (other.size() != shape.size()) return false;
    for (size_t i = 0; i < shape.size(); ++i) {
      const int64_t* size = AsConstInt(other[i]);
      if (i >= axis ? size == nullptr || *size != 1 : !StructuralEqual(shape[i], other[i])) return false;
    }
    return true;
  }
};

/// What a reduction reduces, where that are rows; axis 0: it isn't.
Rows ReducedRows(const CallNode* call) {
  static const std::set<std::string> kReductions{"sum", "mean", "max", "min", "prod", "variance"};
  const auto* attrs = call->attrs.as<ops::ReduceAttrs>();
  if (attrs == nullptr || attrs->exclude || !attrs->axis || attrs->axis->empty()) return {};
  if (kReductions.count(OpName(call)) == 0) return {};
  const Array<PrimExpr>& shape = TensorTypeOf(call->args[0])->shape;
  std::set<int> axes;
  for (const int64_t axis : *attrs->axis) axes.insert(PositiveAxis(static_cast<int>(axis), shape.size()));
  const auto first = static_cast<size_t>(*axes.begin());
  if (first + axes.size() != shape.size()) return {};
  int64_t count = 1;
  bool known = true;  // sums of as many elements as a run tells aren't of parts
  for (size_t i = first; i < shape.size(); ++i) {
    const int64_t* size = AsConstInt(shape[i]);
    known = known && size != nullptr;
    if (size != nullptr && (*size <= 0 || __builtin_mul_overflow(count, *size, &count))) return {};
  }
  return known && count > kLongestRow ? Rows() : Rows{shape, first};
}

/// A call of a fused function and what that does.
struct Kernel {
  const CallNode* call = nullptr;
  Rows reduced;                        ///< of a reduction; axis 0: it is none
  Array<PrimExpr> shape;               ///< of the result, without what only moves elements at the end
  bool moves_elements = false;         ///< of its operands: it may begin a chain
  Expr body;                           ///< without `moved`
  std::vector<const CallNode*> moved;  ///< what moves elements at the end, the last first

  const FunctionNode* func() const { return call->op.as<FunctionNode>(); }
};

/// The kernel that a call runs; `call` is null where that can't be part of a chain.
Kernel KernelOf(const CallNode* call) {
  Kernel kernel;
  if (!IsFusedCall(call)) return kernel;
  const auto* func = call->op.as<FunctionNode>();
  for (const Var& param : func->params) {
    if (TensorTypeOf(param) == nullptr) return kernel;
  }
  kernel.body = func->body;
  const auto* last = func->body.as<CallNode>();
  if (last == nullptr || TensorTypeOf(func->body) == nullptr) return kernel;
  const bool reduces = PatternOf(last) == OpPatternKind::kCommReduce;
  if (reduces) {
    kernel.reduced = ReducedRows(last);
    if (kernel.reduced.axis == 0) return kernel;
    for (const Expr& arg : last->args) {
      if (HighestPattern(arg) > OpPatternKind::kBroadcast) return kernel;
    }
  } else {
    while (last != nullptr && PatternOf(last) == OpPatternKind::kInjective && last->args.size() == 1) {
      kernel.moved.push_back(last);
      kernel.body = last->args[0];
      last = kernel.body.as<CallNode>();
    }
    if (last == nullptr) {
      kernel.moved.clear();
      kernel.body = func->body;
    }
    const OpPatternKind pattern = HighestPattern(kernel.body);
    if (pattern > OpPatternKind::kInjective) return kernel;
    kernel.moves_elements = pattern == OpPatternKind::kInjective;
  }
  kernel.shape = TensorTypeOf(kernel.body)->shape;
  kernel.call = call;
  return kernel;
}

/// Kernels that become one, the last of which reads what the others compute of a row.
struct Chain {
  std::vector<size_t> members;  ///< the last kernel first
  std::vector<Expr> args;       ///< what comes from outside
  Rows rows;
  size_t reductions = 0;
};

class RowFuser : public ExprMutator {
 public:
  explicit RowFuser(const Function& func) : scopes_(func) {
    uses_ = CountUses(func);
    PostOrderVisit(func, [this](const Expr& e) {
      const auto* call = e.as<CallNode>();
      if (call == nullptr || !call->op.as<FunctionNode>()) return;
      Kernel kernel = KernelOf(call);
      if (kernel.call == nullptr) return;
      index_of_.emplace(call, kernels_.size());
      kernels_.push_back(std::move(kernel));
    });
    for (size_t i = kernels_.size(); i-- > 0;) {
      if (taken_.count(i) != 0) continue;
      Chain chain = ChainTo(i);
      const size_t needed = kernels_[i].reduced.axis != 0 ? 2 : 1;
      if (chain.reductions < needed || chain.args.size() > kMaxParams) continue;
      taken_.insert(chain.members.begin(), chain.members.end());
      chain_of_.emplace(kernels_[i].call, std::move(chain));
    }
  }

 private:
  using ExprMutator::VisitExpr_;

  /// Whether the kernel computes on rows of the chain, which may get to know them by that.
  bool Joins(const Kernel& kernel, Chain* chain) const {
    const bool first = chain->members.empty();
    if (kernel.reduced.axis == 0) {
      if (first) {
        chain->rows.shape = kernel.shape;
        return !kernel.moves_elements;
      }
      if (!kernel.moved.empty()) return false;
      if (chain->reductions != 0 && chain->rows.HaveOneElementIn(kernel.shape)) return true;
      return !kernel.moves_elements && chain->rows.AreOf(kernel.shape);
    }
    const Rows& rows = kernel.reduced;
    if (first) {
      chain->rows = rows;
      return true;
    }
    if (chain->reductions == 0) {
      if (!rows.AreOf(chain->rows.shape)) return false;
      chain->rows.axis = rows.axis;
    }
    return chain->reductions < kMaxReductions && rows.axis == chain->rows.axis && rows.AreOf(chain->rows.shape) &&
           rows.HaveOneElementIn(kernel.shape);
  }

  /// The kernels whose results only the chain that ends in `last` reads, as rows.
  Chain ChainTo(size_t last) const {
    Chain chain;
    std::unordered_map<const Object*, int> reads;  // by members, of what they get
    std::set<size_t> candidates{last};             // a kernel comes after those that read it
    std::set<const Object*> met;
    const int scope = scopes_.ScopeOf(GetRef<Call>(kernels_[last].call));
    while (!candidates.empty() && chain.members.size() < kMaxKernels) {
      const size_t i = *candidates.rbegin();
      candidates.erase(i);
      const Kernel& kernel = kernels_[i];
      const Call call = GetRef<Call>(kernel.call);
      if (i != last && (taken_.count(i) != 0 || reads[kernel.call] != uses_.at(kernel.call))) continue;
      if (scopes_.ScopeOf(call) != scope || (i != last && scopes_.CrossesScopes(call))) continue;
      if (!Joins(kernel, &chain)) {
        if (i == last) break;
        continue;
      }
      chain.members.push_back(i);
      chain.reductions += kernel.reduced.axis != 0;
      for (const Expr& arg : call->args) {
        met.insert(arg.get());
        if (kernel.moves_elements) continue;
        ++reads[arg.get()];
        if (const auto found = index_of_.find(arg.get()); found != index_of_.end()) candidates.insert(found->second);
      }
    }
    for (const size_t i : chain.members) met.erase(kernels_[i].call);
    for (const size_t i : chain.members) {
      for (const Expr& arg : kernels_[i].call->args) {
        if (met.erase(arg.get()) != 0) chain.args.push_back(arg);
      }
    }
    return chain;
  }

  Expr VisitExpr_(const CallNode* call) override {
    const auto found = chain_of_.find(call);
    return found == chain_of_.end() ? ExprMutator::VisitExpr_(call) : Join(found->second);
  }
  Expr VisitExpr_(const FunctionNode* func) override {
    return func->is_primitive() ? GetRef<Expr>(func) : ExprMutator::VisitExpr_(func);
  }

  Expr Join(const Chain& chain) {
    std::unordered_map<const Object*, Expr> value_of;
    Array<Var> params;
    Array<Expr> args;
    for (const Expr& arg : chain.args) {
      const Var param("p" + std::to_string(params.size()), arg->checked_type());
      params.push_back(param);
      args.push_back(Mutate(arg));
      value_of.emplace(arg.get(), param);
    }
    for (size_t i = chain.members.size(); i-- > 0;) {
      const Kernel& kernel = kernels_[chain.members[i]];
      Map<Var, Expr> values;
      for (size_t k = 0; k < kernel.call->args.size(); ++k) {
        values.Set(kernel.func()->params[k], value_of.at(kernel.call->args[k].get()));
      }
      value_of.emplace(kernel.call, Bind(kernel.body, values));
    }
    const Kernel& last = kernels_[chain.members[0]];
    const Expr rows = CallPrimitive(params, value_of.at(last.call), args, last.call->span);
    return last.moved.empty() ? rows : Move(last, rows);
  }

  /// A function of what moves the elements of `rows`.
  static Expr Move(const Kernel& last, const Expr& rows) {
    const Var param("p0", last.body->checked_type());
    const Expr body = ApplyAll(last.moved, param);
    const bool reshape_only = std::all_of(last.moved.begin(), last.moved.end(), [](const CallNode* moved) {
      return GetRef<Op>(moved->op.as<OpNode>()).GetAttr(kReshapeOp, false);
    });
    return CallPrimitive({param}, body, {rows}, last.call->span, reshape_only);
  }

  ScopeAnalysis scopes_;
  std::unordered_map<const Object*, int> uses_;
  std::vector<Kernel> kernels_;  ///< after those that they read
  std::unordered_map<const Object*, size_t> index_of_;
  std::set<size_t> taken_;
  std::unordered_map<const Object*, Chain> chain_of_;  ///< by the last call
};

}  // namespace

namespace transform {

Pass FuseRows() {
  return MutatorPass<RowFuser>(
      {"FuseRows", 0, {"InferType"}, "Joins kernels that reduce rows with those that read them"});
}

}  // namespace transform
}  // namespace treadle::relay
