// SPDX-License-Identifier: Apache-2.0
#include "driver/vm/size_rules.h"

#include <initializer_list>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "driver/vm/symbolic_kernel.h"
#include "treadle/arith/analyzer.h"
#include "treadle/ir/model_span.h"
#include "treadle/ir/prim_functor.h"
#include "treadle/relay/expr.h"
#include "treadle/relay/type_infer.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::driver {
namespace {

using relay::CallNode;
using relay::Expr;

class FreeOf : public tir::ExprVisitor {
 public:
  explicit FreeOf(const std::unordered_set<const Object*>& known) : known_(known) {}
  /// Stops at what is found: an expression's parts may be shared many times over.
  void VisitExpr(const PrimExpr& e) override {
    large = large || ++nodes_ > kMaxNodes;
    if (!unknown && !large) tir::ExprVisitor::VisitExpr(e);
  }
  void VisitExpr_(const tir::VarNode* op) override { unknown = unknown || known_.count(op) == 0; }
  using tir::ExprVisitor::VisitExpr_;
  bool unknown = false, large = false;

 private:
  static constexpr int kMaxNodes = 64;
  const std::unordered_set<const Object*>& known_;
  int nodes_ = 0;
};

/// Types of the data flow of main, dimensions of inputs being variables.
class RuleCollector {
 public:
  explicit RuleCollector(const relay::Function& main) : main_(main) {
    for (const relay::Var& param : main->params) types_[param->vid.get()] = Opened(param);
  }

  Array<ObjectRef> Run() {
    std::vector<std::pair<Expr, bool>> stack = {{main_->body, false}};
    while (!stack.empty()) {
      auto [expr, leave] = stack.back();
      stack.pop_back();
      if (leave) {
        Leave(expr);
      } else if (seen_.insert(expr.get()).second) {
        stack.emplace_back(expr, true);
        Enter(expr, &stack);
      }
    }
    return {Array<ObjectRef>(dims_.begin(), dims_.end()), Array<ObjectRef>(rules_.begin(), rules_.end())};
  }
  bool has_rules() const { return !rules_.empty(); }

 private:
  /// What is computed before `expr`: not what is within branches and functions.
  static void Enter(const Expr& expr, std::vector<std::pair<Expr, bool>>* stack) {
    if (const auto* call = expr.as<CallNode>()) {
      for (const Expr& arg : call->args) stack->emplace_back(arg, false);
    } else if (const auto* tuple = expr.as<relay::TupleNode>()) {
      for (const Expr& field : tuple->fields) stack->emplace_back(field, false);
    } else if (const auto* item = expr.as<relay::TupleGetItemNode>()) {
      stack->emplace_back(item->tuple, false);
    } else if (const auto* let = expr.as<relay::LetNode>()) {
      stack->emplace_back(let->body, false);  // after the value: the last one is first
      stack->emplace_back(let->value, false);
    } else if (const auto* branch = expr.as<relay::IfNode>()) {
      stack->emplace_back(branch->cond, false);
    }
  }

  void Leave(const Expr& expr) {
    if (const auto* call = expr.as<CallNode>(); call != nullptr && call->op.as<OpNode>() != nullptr) {
      types_[expr.get()] = Closed(TypeOfCall(call), expr->checked_type());
    } else if (const auto* tuple = expr.as<relay::TupleNode>()) {
      types_[expr.get()] = TupleType(TypesOf(tuple->fields));
    } else if (const auto* item = expr.as<relay::TupleGetItemNode>()) {
      const Type type = TypeOf(item->tuple);
      types_[expr.get()] = type.as<TupleTypeNode>()->fields[static_cast<size_t>(item->index)];
    }
  }

  Type TypeOf(const Expr& expr) {
    const auto* var = expr.as<relay::VarNode>();
    auto it = types_.find(var != nullptr ? var->vid.get() : static_cast<const Object*>(expr.get()));
    if (it == types_.end()) it = types_.emplace(expr.get(), Closed(Type(), expr->checked_type())).first;
    return it->second;
  }

  Array<Type> TypesOf(const Array<Expr>& values) {
    Array<Type> types;
    for (const Expr& value : values) types.push_back(TypeOf(value));
    return types;
  }

  Type TypeOfCall(const CallNode* call) {
    const Op op = Downcast<Op>(call->op);
    if (op->type_relation == nullptr) return Type();
    std::vector<SizeEquality> equalities;
    Type type;
    try {
      type = InferCall(call, TypesOf(call->args), &equalities);
    } catch (const Error&) {
      return Type();  // kernels are checked, too
    }
    for (const SizeEquality& e : equalities) Add(e, call->span);
    return type;
  }

  void Add(const SizeEquality& equality, const Span& span) {
    const PrimExpr found = analyzer_.Simplify(equality.found), expected = analyzer_.Simplify(equality.expected);
    if (!IsOfInputs({found, expected}) || analyzer_.CanProveEqual(found, expected)) return;
    for (const Array<PrimExpr>& rule : rules_) {
      if (arith::ExprDeepEqual(rule[0], found) && arith::ExprDeepEqual(rule[1], expected)) return;
    }
    const std::string place = span.defined() ? DescribePlace(span) + ": " : "";
    rules_.push_back({found, expected, tir::StringImm(place + equality.rule)});
  }

  /// The type of an input, a variable for each of its dimensions that isn't known.
  Type Opened(const relay::Var& param) {
    const auto* tensor = param->checked_type().as<TensorTypeNode>();
    if (tensor == nullptr) return Closed(Type(), param->checked_type());
    Array<PrimExpr> shape;
    for (size_t d = 0; d < tensor->shape.size(); ++d) {
      PrimExpr dim = tensor->shape[d];
      if (AsConstInt(dim) != nullptr) {
        shape.push_back(dim);
        continue;
      }
      const auto* symbol = IsAnyDim(dim) ? nullptr : dim.as<tir::VarNode>();
      auto it = symbol == nullptr ? symbols_.end() : symbols_.find(symbol);
      if (it != symbols_.end()) {
        shape.push_back(it->second);
        continue;
      }
      const tir::Var var(param->name_hint() + "." + std::to_string(d), DataType::Int(64));
      if (symbol != nullptr) symbols_.emplace(symbol, var);
      inputs_.insert(var.get());
      dims_.push_back({var, String(param->name_hint()), IntImm(DataType::Int(64), static_cast<int64_t>(d))});
      shape.push_back(var);
    }
    return TensorType(shape, tensor->dtype);
  }

  /// Whether rules may be stated with the size. What sums and broadcasts make of sizes that aren't known, and of very
  /// many that are, grows with each operator.
  bool IsOfUse(const PrimExpr& dim) const { return dim.as<tir::VarNode>() != nullptr || IsOfInputs({dim}); }

  /// Whether sizes, which together aren't long, are made of dimensions of inputs only.
  bool IsOfInputs(std::initializer_list<PrimExpr> sizes) const {
    FreeOf check(inputs_);
    for (const PrimExpr& size : sizes) check(size);
    return !check.unknown && !check.large;
  }

  /// `type` with what inference knew for what it leaves unknown, else with variables of which nothing is known.
  Type Closed(const Type& type, const Type& checked) {
    if (const auto* tuple = checked.as<TupleTypeNode>()) {
      const auto* own = type.defined() ? type.as<TupleTypeNode>() : nullptr;
      Array<Type> fields;
      for (size_t i = 0; i < tuple->fields.size(); ++i) {
        const bool fits = own != nullptr && i < own->fields.size();
        fields.push_back(Closed(fits ? own->fields[i] : Type(), tuple->fields[i]));
      }
      return TupleType(fields);
    }
    const auto* known = checked.as<TensorTypeNode>();
    if (known == nullptr) return checked;
    const auto* own = type.defined() ? type.as<TensorTypeNode>() : nullptr;
    if (own != nullptr && own->shape.size() != known->shape.size()) own = nullptr;
    Array<PrimExpr> shape;
    for (size_t d = 0; d < known->shape.size(); ++d) {
      const bool found = own != nullptr && !IsAnyDim(own->shape[d]) && IsOfUse(own->shape[d]);
      if (AsConstInt(known->shape[d]) != nullptr) {
        shape.push_back(known->shape[d]);
      } else {
        shape.push_back(found ? own->shape[d] : OfInputs(known->shape[d]));
      }
    }
    return TensorType(shape, known->dtype);
  }

  /// A size of an inferred type, as of the result of an `if`, in terms of inputs; a new variable where it has none.
  PrimExpr OfInputs(const PrimExpr& dim) const {
    if (!IsAnyDim(dim)) {
      const PrimExpr result = tir::Substitute(dim, [&](const tir::Var& var) -> std::optional<PrimExpr> {
        auto it = symbols_.find(var.get());
        return it == symbols_.end() ? std::nullopt : std::optional<PrimExpr>(it->second);
      });
      if (IsOfInputs({result})) return result;
    }
    return tir::Var("unknown", DataType::Int(64));
  }

  relay::Function main_;
  arith::Analyzer analyzer_;
  std::unordered_set<const Object*> seen_, inputs_;
  std::unordered_map<const Object*, Type> types_;
  std::unordered_map<const Object*, tir::Var> symbols_;  ///< of the types, in terms of inputs
  std::vector<Array<ObjectRef>> dims_;
  std::vector<Array<PrimExpr>> rules_;
};

bool IsDynamic(const Type& type) {
  const auto* tensor = type.as<TensorTypeNode>();
  if (tensor == nullptr) return false;
  for (const PrimExpr& dim : tensor->shape) {
    if (AsConstInt(dim) == nullptr) return true;
  }
  return false;
}

}  // namespace

IRModule StateSizeRules(const IRModule& module) {
  auto base = module->Lookup("main");
  const auto* given = base.as<relay::FunctionNode>();
  if (given == nullptr) return module;
  bool dynamic = false;
  for (const relay::Var& param : given->params) {
    dynamic = dynamic || (param->type_annotation.defined() && IsDynamic(param->type_annotation));
  }
  if (!dynamic) return module;
  // No pass: instruments see those that the build states.
  const IRModule typed = relay::InferTypes(module);
  auto main = Downcast<relay::Function>(typed->Lookup("main"));
  RuleCollector collector(main);
  const Array<ObjectRef> rules = collector.Run();
  if (!collector.has_rules()) return module;
  IRModule result = typed;
  result.CopyOnWrite()->Add(typed->GetGlobalVar("main"), WithAttr(std::move(main), kSizeRules, rules));
  return result;
}

}  // namespace treadle::driver
