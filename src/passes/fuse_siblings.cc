// SPDX-License-Identifier: Apache-2.0
// Calls as deep in the graph as each other don't depend on each other, and neither do what they become: the depth of a
// joined call is that of its parts.
#include "passes/fuse_siblings.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "passes/pass_util.h"
#include "treadle/ir/structural.h"

namespace treadle::relay {
namespace {

/// Results and parameters of a joined function at most: each needs registers in the loop.
constexpr size_t kMaxResults = 4, kMaxParams = 12;

int64_t BytesOf(const TensorTypeNode* type) {
  int64_t bytes = type->dtype.bytes();
  for (const PrimExpr& dim : type->shape) {
    const int64_t* value = AsConstInt(dim);
    if (value == nullptr || *value < 0 || *value > (int64_t{1} << 40) || bytes > (int64_t{1} << 40)) return 0;
    bytes *= *value;
  }
  return bytes;
}

/// Whether a call is of a fused function of element-wise operators with one tensor as result.
bool IsCandidate(const CallNode* call) {
  const auto* func = call->op.as<FunctionNode>();
  if (func == nullptr || !func->is_primitive() || func->attrs->dict.size() != 1) return false;
  if (call->checked_type().as<TensorTypeNode>() == nullptr) return false;
  bool fits = true;
  PostOrderVisit(func->body, [&](const Expr& e) {
    if (e.as<TupleNode>() || e.as<TupleGetItemNode>() || e.as<LetNode>()) fits = false;
    const auto* inner = e.as<CallNode>();
    const auto* op = inner == nullptr ? nullptr : inner->op.as<OpNode>();
    if (inner != nullptr && op == nullptr) fits = false;
    if (op == nullptr) return;
    const auto pattern = GetRef<Op>(op).GetAttr(kOpPattern, OpPatternKind::kOpaque);
    fits = fits && (pattern == OpPatternKind::kElemWise || pattern == OpPatternKind::kBroadcast);
  });
  return fits;
}

/// The calls that become one.
struct Family {
  std::vector<const CallNode*> members;
  Expr joined;  ///< null until it is made
};

class SiblingFuser : public ExprMutator {
 public:
  explicit SiblingFuser(int64_t min_bytes) : min_bytes_(min_bytes) {}

  Expr Run(const Function& func) {
    PostOrderVisit(func->body, [this](const Expr& e) { Meet(e); });
    for (auto& [key, members] : groups_) Divide(members);
    return families_.empty() ? Expr(func) : Mutate(func);
  }

 private:
  using ExprMutator::VisitExpr_;

  void Meet(const Expr& e) {
    int depth = 0;
    const auto below = [&](const Expr& operand) {
      auto it = depth_.find(operand);
      depth = std::max(depth, it == depth_.end() ? 0 : it->second);
    };
    if (const auto* call = e.as<CallNode>()) {
      for (const Expr& arg : call->args) below(arg);
      ++depth;
      if (IsCandidate(call)) {
        if (const Expr shared = LargestOf(call); shared.defined()) groups_[{depth, shared.get()}].push_back(call);
      }
    } else if (const auto* tuple = e.as<TupleNode>()) {
      for (const Expr& field : tuple->fields) below(field);
    } else if (const auto* item = e.as<TupleGetItemNode>()) {
      below(item->tuple);
    }
    depth_[e] = depth;
  }

  /// The first operand of the result's shape that is large enough; null: there is none.
  Expr LargestOf(const CallNode* call) const {
    const auto* result = call->checked_type().as<TensorTypeNode>();
    for (const Expr& arg : call->args) {
      const auto* type = arg->checked_type().as<TensorTypeNode>();
      if (type != nullptr && StructuralEqual(type->shape, result->shape) && BytesOf(type) >= min_bytes_) return arg;
    }
    return Expr();
  }

  void Divide(const std::vector<const CallNode*>& calls) {
    for (size_t begin = 0; begin < calls.size();) {
      Family family;
      std::vector<const Object*> args;
      size_t next = begin;
      for (; next < calls.size() && family.members.size() < kMaxResults; ++next) {
        std::vector<const Object*> more = args;
        for (const Expr& arg : calls[next]->args) {
          if (std::find(more.begin(), more.end(), arg.get()) == more.end()) more.push_back(arg.get());
        }
        if (more.size() > kMaxParams) break;
        args = std::move(more);
        family.members.push_back(calls[next]);
      }
      if (family.members.size() > 1) {
        for (const CallNode* member : family.members) family_of_[member] = families_.size();
        families_.push_back(std::move(family));
      }
      begin = std::max(next, begin + 1);
    }
  }

  Expr VisitExpr_(const CallNode* call) override {
    auto found = family_of_.find(call);
    if (found == family_of_.end()) return ExprMutator::VisitExpr_(call);
    const std::vector<const CallNode*>& members = families_[found->second].members;
    if (!families_[found->second].joined.defined()) {
      const Expr joined = Join(members);  // mutates operands, which may be of other families
      families_[found->second].joined = joined;
    }
    const auto at = std::find(members.begin(), members.end(), call) - members.begin();
    return TupleGetItem(families_[found->second].joined, static_cast<int>(at), call->span);
  }
  Expr VisitExpr_(const FunctionNode* func) override {
    return func->is_primitive() ? GetRef<Expr>(func) : ExprMutator::VisitExpr_(func);
  }

  Expr Join(const std::vector<const CallNode*>& members) {
    Array<Var> params;
    Array<Expr> args, results;
    std::unordered_map<const Object*, Var> param_of;
    for (const CallNode* member : members) {
      const auto* func = member->op.as<FunctionNode>();
      Map<Var, Expr> values;
      for (size_t i = 0; i < member->args.size(); ++i) {
        auto known = param_of.find(member->args[i].get());
        if (known == param_of.end()) {
          const Var param("p" + std::to_string(params.size()), member->args[i]->checked_type());
          params.push_back(param);
          args.push_back(Mutate(member->args[i]));
          known = param_of.emplace(member->args[i].get(), param).first;
        }
        values.Set(func->params[i], known->second);
      }
      results.push_back(Bind(func->body, values));
    }
    Map<String, ObjectRef> attrs;
    attrs.Set(attr::kPrimitive, IntImm(DataType::Int(32), 1));
    attrs.Set(kSiblings, IntImm(DataType::Int(32), 1));
    const Function func(params, Tuple(results), Type(), {}, DictAttrs(attrs), members[0]->span);
    return Call(func, args, Attrs(), {}, members[0]->span);
  }

  int64_t min_bytes_;
  std::unordered_map<Expr, int, ObjectPtrHash, ObjectPtrEqual> depth_;
  std::map<std::pair<int, const Object*>, std::vector<const CallNode*>> groups_;  ///< by depth and what they read
  std::vector<Family> families_;
  std::unordered_map<const CallNode*, size_t> family_of_;
};

}  // namespace

namespace transform {

treadle::transform::Pass FuseSiblings(int64_t min_bytes) {
  return CreateFunctionPass(
      [min_bytes](const Function& func, const IRModule&, const treadle::transform::PassContext&) {
        return Downcast<Function>(SiblingFuser(min_bytes).Run(func));
      },
      {"FuseSiblings", 0, {"InferType"}, "Joins element-wise kernels that read one large tensor"});
}

}  // namespace transform
}  // namespace treadle::relay
