// SPDX-License-Identifier: Apache-2.0
// FoldConstant: what depends on constants only is computed now. What computes is an evaluator that the driver sets, so
// that the pass needs no code generator.
#include <algorithm>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "passes/check_indices.h"
#include "passes/pass_util.h"
#include "treadle/base/checked_math.h"
#include "treadle/ir/structural.h"
#include "treadle/ops/evaluate.h"
#include "treadle/relay/mac_count.h"
#include "treadle/runtime/scalar.h"

namespace treadle::relay {
namespace {

/// What all values folded by one run of the pass add to the constants that they replace, beside as much as the
/// function's constants take. Large enough for the weights of VGG-19 (392 MiB the largest), which some files hold as
/// one value and a shape; a file of a few bytes must not fill the memory.
constexpr int64_t kMaxAddedBytes = int64_t{1} << 30;

/// Multiply-adds that one run of the pass spends: some seconds of the interpreter that folds, and of matrix products
/// that are computed in bulk (of tables of positions with each layer's weights, for one).
constexpr double kMaxMacs = 1e8, kMaxBulkMacs = 1e10;

/// What a folded reduction reads, in bytes. The interpreter adds one after the other, generated code in many sums,
/// which is faster and loses fewer digits. Those computed in bulk are exact (int32, of a quantised weight's columns) or
/// made in float64 (of weights that are standardised).
constexpr int64_t kMaxReducedBytes = int64_t{1} << 18;

ConstantEvaluator& Evaluator() {
  static auto* evaluator = new ConstantEvaluator();
  return *evaluator;
}

bool IsConstant(const Expr& expr) {
  if (expr.as<ConstantNode>()) return true;
  const auto* tuple = expr.as<TupleNode>();
  if (tuple == nullptr) return false;
  for (const Expr& field : tuple->fields) {
    if (!IsConstant(field)) return false;
  }
  return true;
}

/// Bytes of all tensors of the type, or nothing where a size isn't known.
std::optional<int64_t> StaticBytes(const Type& type) {
  if (const auto* tuple = type.as<TupleTypeNode>()) {
    int64_t total = 0;
    for (const Type& field : tuple->fields) {
      auto bytes = StaticBytes(field);
      if (!bytes) return std::nullopt;
      total = CheckedAdd(total, *bytes);
    }
    return total;
  }
  const auto* tensor = type.as<TensorTypeNode>();
  if (tensor == nullptr || !IsStatic(tensor)) return std::nullopt;
  return runtime::TensorBytes(StaticShape(tensor, "constant folding"), tensor->dtype);
}

/// Bytes of the function's constants, each counted once.
int64_t ConstantBytes(const Function& func) {
  int64_t total = 0;
  PostOrderVisit(func->body, [&](const Expr& e) {
    if (const auto* constant = e.as<ConstantNode>()) total = CheckedAdd(total, constant->data.nbytes());
  });
  return total;
}

/// What several calls have as an operand: constants, and calls that may become constants.
std::unordered_set<const Object*> SharedOperands(const Function& func) {
  std::unordered_set<const Object*> met, shared;
  PostOrderVisit(func->body, [&](const Expr& e) {
    const auto* call = e.as<CallNode>();
    if (call == nullptr) return;
    for (const Expr& arg : call->args) {
      const bool counts = arg.as<ConstantNode>() != nullptr || arg.as<CallNode>() != nullptr;
      if (counts && !met.insert(arg.get()).second) shared.insert(arg.get());
    }
  });
  return shared;
}

/// Results of calls on constants that other calls have, too: what layers that share a weight, or the steps of a layer,
/// make of it is made once, and stays one constant. Small operands beside it (zero points) are compared by value.
/// Nothing else is kept: weights are large.
class SharedResults {
 public:
  explicit SharedResults(const Function& func) : shared_(SharedOperands(func)) {}
  /// Null where there is none.
  Expr Find(const CallNode* call) const {
    if (!IsShared(call)) return Expr();
    auto [begin, end] = results_.equal_range(Hash(call));
    for (auto it = begin; it != end; ++it) {
      const auto* other = it->second.first.as<CallNode>();
      if (!other->op.same_as(call->op) || !SameArgs(call, other)) continue;
      if (other->attrs.same_as(call->attrs) || StructuralEqual(other->attrs, call->attrs)) return it->second.second;
    }
    return Expr();
  }
  /// `pre`: the call as it was before its operands were computed.
  void Keep(const CallNode* pre, const CallNode* call, const Expr& result) {
    if (shared_.count(pre) != 0) shared_.insert(result.get());
    if (!IsShared(call)) return;
    shared_.insert(result.get());
    results_.emplace(Hash(call), std::pair(GetRef<Expr>(call), result));
  }
  /// Whether other calls need the operand, too.
  bool Has(const Expr& arg) const { return shared_.count(arg.get()) != 0; }

 private:
  bool IsShared(const CallNode* call) const {
    return std::any_of(call->args.begin(), call->args.end(), [this](const Expr& arg) { return Has(arg); }) &&
           std::all_of(call->args.begin(), call->args.end(),
                       [this](const Expr& arg) { return Has(arg) || !SmallBytes(arg).empty(); });
  }
  /// The elements of a small constant; empty for others.
  static std::string_view SmallBytes(const Expr& arg) {
    constexpr int64_t kSmall = 64;
    const auto* constant = arg.as<ConstantNode>();
    if (constant == nullptr || !constant->data.IsCompact() || constant->data.nbytes() > kSmall) return {};
    return {static_cast<const char*>(constant->data.Data<void>()), static_cast<size_t>(constant->data.nbytes())};
  }
  static size_t Hash(const CallNode* call) {
    size_t hash = std::hash<const Object*>()(call->op.get());
    for (const Expr& arg : call->args) {
      const std::string_view bytes = SmallBytes(arg);
      const size_t own = bytes.empty() ? std::hash<const Object*>()(arg.get()) : std::hash<std::string_view>()(bytes);
      hash = hash * 31 + own;
    }
    return hash;
  }
  static bool SameArg(const Expr& a, const Expr& b) {
    if (a.same_as(b)) return true;
    const std::string_view bytes = SmallBytes(a);
    if (bytes.empty() || bytes != SmallBytes(b)) return false;
    const runtime::NDArray &x = a.as<ConstantNode>()->data, &y = b.as<ConstantNode>()->data;
    return x.dtype() == y.dtype() && x.shape() == y.shape();
  }
  static bool SameArgs(const CallNode* a, const CallNode* b) {
    return std::equal(a->args.begin(), a->args.end(), b->args.begin(), b->args.end(), SameArg);
  }

  std::unordered_set<const Object*> shared_;
  std::unordered_multimap<size_t, std::pair<Expr, Expr>> results_;
};

class Folder : public ExprMutator {
 public:
  using ExprMutator::VisitExpr_;
  explicit Folder(const Function& func)
      : shared_(func), max_added_bytes_(CheckedAdd(kMaxAddedBytes, ConstantBytes(func))) {}

  Expr VisitExpr_(const FunctionNode* op) override {
    if (op->is_primitive()) return GetRef<Expr>(op);
    return ExprMutator::VisitExpr_(op);
  }

  Expr VisitExpr_(const VarNode* op) override {
    auto it = values_.find(op->vid.get());
    return it == values_.end() ? GetRef<Expr>(op) : it->second;
  }

  Expr VisitExpr_(const LetNode* op) override {
    std::vector<LetWithValue> kept;
    Expr rest = GetRef<Expr>(op);
    while (const auto* let = rest.as<LetNode>()) {
      Expr value = Mutate(let->value);
      if (IsConstant(value)) {
        values_[let->var->vid.get()] = value;
      } else {
        kept.emplace_back(let, value);
      }
      rest = let->body;
    }
    return RebuildLets(kept, Mutate(rest));
  }

  Expr VisitExpr_(const IfNode* op) override {
    Expr cond = Mutate(op->cond);
    auto value = UniformValue(cond);
    if (value) return Mutate(*value != 0 ? op->true_branch : op->false_branch);
    Expr yes = Mutate(op->true_branch), no = Mutate(op->false_branch);
    if (cond.same_as(op->cond) && yes.same_as(op->true_branch) && no.same_as(op->false_branch)) return GetRef<Expr>(op);
    return If(cond, yes, no, op->span);
  }

  Expr VisitExpr_(const TupleGetItemNode* op) override {
    Expr tuple = Mutate(op->tuple);
    const auto* known = tuple.as<TupleNode>();
    const auto index = static_cast<size_t>(op->index);
    if (known != nullptr && !effects_.OthersMayHaveEffect(known->fields, index)) return known->fields[index];
    return tuple.same_as(op->tuple) ? GetRef<Expr>(op) : TupleGetItem(tuple, op->index, op->span);
  }

  Expr VisitExpr_(const CallNode* op) override {
    Expr rebuilt = ExprMutator::VisitExpr_(op);
    const auto* call = rebuilt.as<CallNode>();
    if (call == nullptr || call->op.as<OpNode>() == nullptr) return rebuilt;
    Expr folded = FoldKnown(op);
    if (!folded.defined()) folded = FoldCall(op, call);
    return folded.defined() ? folded : rebuilt;
  }

 private:
  /// Small integers that are known although operands aren't: shapes of static types, and what is computed with what is
  /// known of shapes.
  Expr FoldKnown(const CallNode* call) {
    const auto known = known_.Integers(GetRef<Expr>(call));
    if (!known) return Expr();
    const std::string& name = OpName(call);
    const bool shape = name == "shape_of" || name == "vm.shape_of" || name == "ndarray_size";
    if (!shape && effects_.MayHaveEffect(GetRef<Expr>(call))) return Expr();
    const auto* type = call->type_as<TensorTypeNode>();
    return Constant(runtime::FromInt64s(*known, StaticShape(type, name), type->dtype), call->span);
  }

  Expr FoldCall(const CallNode* pre, const CallNode* call) {
    const ConstantEvaluator& evaluate = Evaluator();
    Op op = Downcast<Op>(call->op);
    if (!evaluate || call->args.empty() || !IsPureOp(call) || op.GetAttr(kNonComputational, false)) return Expr();
    if (op->name == "device_copy" || op->name.compare(0, 11, "annotation.") == 0) return Expr();
    for (const Expr& arg : call->args) {
      if (!IsConstant(arg)) return Expr();
    }
    if (Expr known = shared_.Find(call); known.defined()) return known;
    auto bytes = StaticBytes(pre->checked_type());
    if (!bytes) return Expr();
    int64_t given = 0, added = *bytes;
    for (const Expr& arg : call->args) {
      const int64_t size = StaticBytes(SetType(arg)).value_or(0);
      given += size;
      if (!shared_.Has(arg)) added -= size;
    }
    added = std::max<int64_t>(added, 0);
    if (added_bytes_ + added > max_added_bytes_) return Expr();
    const auto* tensor = pre->checked_type().as<TensorTypeNode>();
    const bool reduced = tensor != nullptr && ops::IsReducedInBulk(op->name, tensor->dtype);
    if (!reduced && op.GetAttr(kOpPattern, OpPatternKind::kOpaque) == OpPatternKind::kCommReduce &&
        given > kMaxReducedBytes) {
      return Expr();
    }
    const Expr typed = Typed(pre, call);
    // Computed as it is, an index out of range would take the nearest element in silence.
    CheckConstantIndices(typed.as<CallNode>());
    const auto* factor = typed.as<CallNode>()->args[0]->checked_type().as<TensorTypeNode>();
    const bool in_bulk =
        tensor != nullptr && factor != nullptr && ops::IsProductInBulk(op->name, factor->dtype, tensor->dtype);
    const double macs = TotalMacCount(typed);
    double& spent = in_bulk ? bulk_macs_ : macs_;
    if (macs > 0 && spent + macs > (in_bulk ? kMaxBulkMacs : kMaxMacs)) return Expr();
    spent += macs;
    Expr result = evaluate(typed);
    if (result.defined()) {
      TREADLE_ICHECK(IsConstant(result)) << "evaluation of " << op->name << " gave something that isn't constant";
      added_bytes_ += added;
      KeepName(call, result);
      shared_.Keep(pre, call, result);
    }
    return result;
  }

  /// What is made of a named constant (a weight in another layout) has its name: that of the largest operand.
  static void KeepName(const CallNode* call, const Expr& result) {
    const ConstantNode* largest = nullptr;
    for (const Expr& arg : call->args) {
      const auto* constant = arg.as<ConstantNode>();
      if (constant == nullptr || !constant->span.defined() || constant->span->line != 0) continue;
      if (largest == nullptr || constant->data.nbytes() > largest->data.nbytes()) largest = constant;
    }
    if (largest != nullptr && result.as<ConstantNode>() != nullptr) {
      const_cast<ExprNode*>(result.get())->span = largest->span;
    }
  }

  /// The call with types on all nodes, as evaluators want it.
  static Expr Typed(const CallNode* pre, const CallNode* call) {
    Expr result = GetRef<Expr>(call);
    WithTypeOf(result, pre);
    for (size_t i = 0; i < call->args.size(); ++i) SetType(call->args[i]);
    return result;
  }
  static Type SetType(const Expr& expr) {
    auto* node = const_cast<ExprNode*>(expr.get());
    if (node->checked_type_.defined()) return node->checked_type_;
    if (const auto* constant = expr.as<ConstantNode>()) {
      node->checked_type_ = constant->tensor_type();
    } else {
      Array<Type> fields;
      for (const Expr& field : expr.as<TupleNode>()->fields) fields.push_back(SetType(field));
      node->checked_type_ = TupleType(fields);
    }
    return node->checked_type_;
  }

  SharedResults shared_;
  std::unordered_map<const Object*, Expr> values_;
  EffectFinder effects_;
  ops::KnownValues known_;
  int64_t max_added_bytes_ = 0, added_bytes_ = 0;
  double macs_ = 0, bulk_macs_ = 0;
};

}  // namespace

void SetConstantEvaluator(ConstantEvaluator evaluator) { Evaluator() = std::move(evaluator); }
const ConstantEvaluator& GetConstantEvaluator() { return Evaluator(); }

namespace transform {

Pass FoldConstant() {
  return MutatorPass<Folder>({"FoldConstant", 2, {"InferType"}, "Computes what depends on constants only"});
}

}  // namespace transform
}  // namespace treadle::relay
