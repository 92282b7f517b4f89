// SPDX-License-Identifier: Apache-2.0
#include "relay/type_infer/infer.h"

#include "relay/node_check.h"
#include "relay/text/type_text.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ir/structural.h"

namespace treadle::relay {
namespace {

bool IsDataFlow(const Expr& expr) {
  return expr->IsInstance<CallNode>() || expr->IsInstance<TupleNode>() || expr->IsInstance<TupleGetItemNode>();
}

/// What the source calls an expression.
std::string Describe(const Expr& expr) {
  if (const auto* var = expr.as<VarNode>()) return "variable %" + var->name_hint();
  if (const auto* global = expr.as<GlobalVarNode>()) return "@" + global->name_hint;
  if (const auto* op = expr.as<OpNode>()) return op->name;
  if (const auto* constructor = expr.as<ConstructorNode>()) return "constructor " + constructor->name_hint;
  if (const auto* call = expr.as<CallNode>()) {
    return call->op->IsInstance<CallNode>() ? "this call" : "the call of " + Describe(call->op);
  }
  if (expr->IsInstance<FunctionNode>()) return "this function";
  return "this expression";
}

/// Where `expr` stands. Variables only know where they are declared: what uses them says where that is.
Span PlaceOf(const Expr& expr, const Span& user) {
  return expr->span.defined() && !expr->IsInstance<VarNode>() ? expr->span : user;
}

}  // namespace

/// Hands what relations say to the solver.
class Reporter : public TypeReporter {
 public:
  Reporter(Inferencer* self, const std::string& name, Span span) : self_(self), name_(name), span_(std::move(span)) {}
  void Assign(const Type& dst, const Type& src) final {
    self_->unifier_.actual_first = true;
    self_->Unify(dst, src, span_, name_);
    self_->unifier_.actual_first = false;
  }
  bool AssertEqual(const PrimExpr& lhs, const PrimExpr& rhs) final {
    return self_->unifier_.UnifyDim(lhs, rhs).defined();
  }
  void Error(const std::string& message) final { self_->diagnostics_->Error(span_, name_ + ": " + message); }

 private:
  Inferencer* self_;
  std::string name_;
  Span span_;
};

bool SameType(const Type& a, const Type& b) {
  if (a.same_as(b)) return true;
  const auto* x = a.as<TensorTypeNode>();
  const auto* y = b.as<TensorTypeNode>();
  if (x == nullptr || y == nullptr) return StructuralEqual(a, b);
  if (x->dtype != y->dtype || x->shape.size() != y->shape.size()) return false;
  for (size_t i = 0; i < x->shape.size(); ++i) {
    PrimExpr p = x->shape[i], q = y->shape[i];
    if (p.same_as(q)) continue;
    const int64_t* u = AsConstInt(p);
    const int64_t* v = AsConstInt(q);
    if (u != nullptr && v != nullptr ? *u != *v : !StructuralEqual(p, q)) return false;
  }
  return true;
}

Inferencer::Inferencer(IRModule module, GlobalTypes* globals, Diagnostics* diagnostics)
    : module_(std::move(module)), globals_(globals), diagnostics_(diagnostics) {
  unifier_.on_bound = [this](const Object* hole) {
    auto it = waiting_.find(hole);
    if (it == waiting_.end()) return;
    queue_.insert(queue_.end(), it->second.begin(), it->second.end());
    waiting_.erase(it);
  };
  unifier_.on_constraint = [this](const TypeConstraint& constraint) {
    const auto* relation = constraint.as<TypeRelationNode>();
    if (relation == nullptr) return;
    AddRelation(relation->name, relation->func, relation->args, relation->num_inputs, relation->attrs, unify_span_);
  };
}

Type Inferencer::Unify(const Type& expected, const Type& actual, const Span& span, const std::string& context) {
  std::string why;
  Span outer = unify_span_;
  unify_span_ = span;
  Type merged = unifier_.Unify(expected, actual, &why);
  unify_span_ = outer;
  if (!merged.defined()) diagnostics_->Error(span, context + ": types do not match: " + why);
  return merged;
}

Type Inferencer::Visit(const Expr& expr) {
  TREADLE_ICHECK(expr.defined()) << "null expression in type inference";
  if (const auto* var = expr.as<VarNode>()) return TypeOfVar(GetRef<Var>(var));
  auto known = types_.find(expr.get());
  if (known != types_.end()) return known->second;
  return WithEnoughStack([&]() -> Type { return IsDataFlow(expr) ? VisitDataFlow(expr) : Finish(expr); });
}

Type Inferencer::VisitDataFlow(const Expr& root) {
  struct Frame {
    Expr expr;
    std::vector<Expr> children;
    size_t next = 0;
  };
  std::vector<Frame> stack;
  auto enter = [&](const Expr& expr) {
    Frame frame{expr, {}, 0};
    CollectChildren(expr, &frame.children);
    if (const auto* call = expr.as<CallNode>()) {
      const Expr& callee = call->op;
      if (callee->IsInstance<OpNode>() || callee->IsInstance<GlobalVarNode>()) frame.next = 1;
    }
    stack.push_back(std::move(frame));
  };
  enter(root);
  while (true) {
    Frame& top = stack.back();
    if (top.next < top.children.size()) {
      Expr child = top.children[top.next++];
      if (IsDataFlow(child)) {
        if (types_.count(child.get()) == 0) enter(child);
      } else {
        if (top.expr->span.defined()) place_ = top.expr->span;
        Visit(child);
      }
      continue;
    }
    Expr expr = std::move(top.expr);
    stack.pop_back();
    Type type = Finish(expr);
    if (stack.empty()) return type;
  }
}

Type Inferencer::Finish(const Expr& expr) {
  if (expr->span.defined()) place_ = expr->span;
  Type type = Compute(expr);
  if (unifier_.CountParts(type) >= Unifier::kMaxParts) {
    diagnostics_->Error(expr->span,
                        StrCat("the type of ", Describe(expr), " has more than ", Unifier::kMaxParts, " parts"));
    type = unifier_.NewHole(expr->span);
  }
  types_[expr.get()] = type;
  order_.push_back(expr);
  return type;
}

Type Inferencer::Compute(const Expr& expr) {
  if (const auto* call = expr.as<CallNode>()) return ComputeCall(call);
  if (const auto* tuple = expr.as<TupleNode>()) {
    std::vector<Type> fields;
    for (const Expr& field : tuple->fields) fields.push_back(Visit(field));
    return TupleType(fields);
  }
  if (const auto* item = expr.as<TupleGetItemNode>()) return ComputeTupleGetItem(item);
  if (const auto* constant = expr.as<ConstantNode>()) return constant->tensor_type();
  if (const auto* func = expr.as<FunctionNode>()) return ComputeFunction(func);
  if (const auto* let = expr.as<LetNode>()) return ComputeLet(let);
  if (const auto* branch = expr.as<IfNode>()) return ComputeIf(branch);
  if (const auto* match = expr.as<MatchNode>()) return ComputeMatch(match);
  if (const auto* constructor = expr.as<ConstructorNode>()) return ComputeConstructor(constructor);
  if (const auto* op = expr.as<OpNode>()) return ComputeOp(op);
  if (const auto* global = expr.as<GlobalVarNode>()) {
    Type type = globals_ != nullptr ? globals_->TypeOf(GetRef<GlobalVar>(global)) : Type();
    if (!type.defined()) type = global->checked_type_;
    if (type.defined()) {
      const auto* func = type.as<FuncTypeNode>();
      return unifier_.FreshenDims(func != nullptr ? WithFreshTypeParams(GetRef<FuncType>(func)) : type);
    }
    diagnostics_->Error(expr->span, StrCat("the module has no function @", global->name_hint));
    return unifier_.NewHole(expr->span);
  }
  if (expr->IsInstance<RefCreateNode>() || expr->IsInstance<RefReadNode>() || expr->IsInstance<RefWriteNode>()) {
    return ComputeRef(expr);
  }
  throw InternalError(StrCat("internal error: type inference doesn't handle node kind ", expr->type_key()));
}

Type Inferencer::TypeOfVar(const Var& var) {
  auto [it, inserted] = types_.try_emplace(var->vid.get());
  if (!inserted) return it->second;
  Type type = var->type_annotation.defined() ? var->type_annotation : unifier_.NewHole(var->span);
  it->second = type;
  order_.push_back(var);
  CheckAnnotation(var->type_annotation, var->span);
  return type;
}

Type Inferencer::ComputeCall(const CallNode* call) {
  if (const auto* op = call->op.as<OpNode>()) return ComputeOpCall(call, op);
  Array<Type> args;
  for (const Expr& arg : call->args) args.push_back(Visit(arg));
  // Each call of a global function has its own symbolic dimensions.
  Type callee = call->op->IsInstance<GlobalVarNode>() ? Compute(call->op) : Visit(call->op);
  return Apply(call, unifier_.Resolve(callee), args);
}

Type Inferencer::ComputeOpCall(const CallNode* call, const OpNode* op) {
  Span span = call->span;
  Type result = unifier_.NewHole(span);
  if (op->num_inputs >= 0 && static_cast<int>(call->args.size()) != op->num_inputs) {
    diagnostics_->Error(span, StrCat(op->name, " takes ", op->num_inputs, " arguments but gets ", call->args.size()));
    return result;
  }
  if (op->type_relation == nullptr) {
    diagnostics_->Error(span, StrCat("operator ", op->name, " has no type relation"));
    return result;
  }
  Array<Type> types;
  types.reserve(call->args.size() + 1);
  for (const Expr& arg : call->args) types.push_back(Visit(arg));
  types.push_back(result);
  AddRelation(op->name, op->type_relation, types, static_cast<int>(call->args.size()), call->attrs, span);
  Solve();
  return unifier_.Resolve(result);
}

Type Inferencer::Apply(const CallNode* call, const Type& callee, const Array<Type>& args) {
  if (callee->IsInstance<IncompleteTypeNode>()) {
    Type result = unifier_.NewHole(call->span);
    Unify(callee, FuncType(args, result), call->span, Describe(call->op));
    return result;
  }
  const auto* func = callee.as<FuncTypeNode>();
  if (func == nullptr) {
    diagnostics_->Error(call->span, StrCat(Describe(call->op), " is called but isn't a function: it has type ",
                                           TypeText(unifier_.Substitute(callee))));
    return unifier_.NewHole(call->span);
  }
  Array<Type> type_args;
  FuncType instance = unifier_.Instantiate(GetRef<FuncType>(func), &type_args, call->span);
  if (!type_args.empty()) {
    if (call->type_args.size() == type_args.size()) {
      for (size_t i = 0; i < type_args.size(); ++i) {
        Unify(type_args[i], call->type_args[i], call->span, StrCat("type argument ", i + 1));
      }
    }
    type_args_[call] = type_args;
  }
  if (instance->arg_types.size() != args.size()) {
    diagnostics_->Error(call->span, StrCat(Describe(call->op), " takes ", instance->arg_types.size(),
                                           " arguments but gets ", args.size()));
    return instance->ret_type;
  }
  for (size_t i = 0; i < args.size(); ++i) {
    const Span span = PlaceOf(call->args[i], call->span);
    Unify(instance->arg_types[i], args[i], span, StrCat("argument ", i + 1, " of ", Describe(call->op)));
  }
  for (const TypeConstraint& constraint : instance->type_constraints) {
    const auto* relation = constraint.as<TypeRelationNode>();
    if (relation == nullptr) continue;
    AddRelation(relation->name, relation->func, relation->args, relation->num_inputs, relation->attrs, call->span);
  }
  Solve();
  return unifier_.Substitute(instance->ret_type);
}

Type Inferencer::ComputeFunction(const FunctionNode* func) {
  Array<Type> args;
  for (const Var& param : func->params) args.push_back(TypeOfVar(param));
  CheckAnnotation(func->ret_type, func->span);
  Type body = Visit(func->body);
  if (func->ret_type.defined()) {
    Span span = func->body->span.defined() ? func->body->span : func->span;
    Type merged = Unify(func->ret_type, body, span, "the function's result");
    // The annotation says what callers see.
    body = merged.defined() && unifier_.HasHole(func->ret_type) ? merged : func->ret_type;
  }
  results_[func] = body;
  return WithFreshTypeParams(FuncType(args, body, func->type_params));
}

Type Inferencer::ComputeLet(const LetNode* op) {
  std::vector<const LetNode*> chain;
  Expr body = GetRef<Expr>(op);
  while (const auto* let = body.as<LetNode>()) {
    if (let != op && types_.count(let) != 0) break;
    bool has_annotation = let->var->type_annotation.defined();
    const auto* func = let->value.as<FunctionNode>();
    if (func != nullptr && !has_annotation) {
      // A function may call itself: within its body the variable has the annotated type.
      types_[let->var->vid.get()] = WithFreshTypeParams(func->func_type_annotation());
    }
    if (let->span.defined()) place_ = let->span;
    Type value = Visit(let->value);
    if (has_annotation || func != nullptr) {
      const Span span = PlaceOf(let->value, let->span);
      Unify(TypeOfVar(let->var), value, span, StrCat("the value of %", let->var->name_hint()));
      if (!has_annotation) types_[let->var->vid.get()] = value;
    } else {
      types_[let->var->vid.get()] = value;
      order_.push_back(let->var);
    }
    chain.push_back(let);
    body = let->body;
  }
  Type type = Visit(body);
  for (size_t i = chain.size(); i-- > 0;) types_[chain[i]] = type;
  return type;
}

Type Inferencer::ComputeIf(const IfNode* branch) {
  const Span span = PlaceOf(branch->cond, branch->span);
  Unify(TensorType::Scalar(DataType::Bool()), Visit(branch->cond), span, "the condition of if");
  Type on_true = Visit(branch->true_branch);
  Type on_false = Visit(branch->false_branch);
  Type merged = Unify(on_true, on_false, branch->span, "the branches of if");
  return merged.defined() ? merged : on_true;
}

Type Inferencer::ComputeMatch(const MatchNode* match) {
  Type data = Visit(match->data);
  Type result = unifier_.NewHole(match->span);
  for (const Clause& clause : match->clauses) {
    VisitPattern(clause->lhs, data);
    Type arm = Visit(clause->rhs);
    Span span = clause->rhs->span.defined() ? clause->rhs->span : match->span;
    Unify(result, arm, span, "the arms of match");
  }
  if (match->complete) matches_.push_back(GetRef<Match>(match));
  return unifier_.Resolve(result);
}

void Inferencer::VisitPattern(const Pattern& pattern, const Type& type) {
  WithEnoughStack([&] {
    if (const auto* var = pattern.as<PatternVarNode>()) {
      Unify(TypeOfVar(var->var), type, pattern->span, StrCat("pattern variable %", var->var->name_hint()));
    } else if (const auto* tuple = pattern.as<PatternTupleNode>()) {
      Array<Type> fields;
      for (size_t i = 0; i < tuple->patterns.size(); ++i) fields.push_back(unifier_.NewHole(pattern->span));
      Unify(TupleType(fields), type, pattern->span, "tuple pattern");
      for (size_t i = 0; i < fields.size(); ++i) VisitPattern(tuple->patterns[i], unifier_.Resolve(fields[i]));
    } else if (const auto* constructor = pattern.as<PatternConstructorNode>()) {
      Type generic = ComputeConstructor(constructor->constructor.get());
      const auto* func = generic.as<FuncTypeNode>();
      if (func == nullptr) return;  // reported
      Array<Type> ignored;
      FuncType instance = unifier_.Instantiate(GetRef<FuncType>(func), &ignored, pattern->span);
      const std::string& name = constructor->constructor->name_hint;
      Unify(instance->ret_type, type, pattern->span, "pattern " + name);
      if (instance->arg_types.size() != constructor->patterns.size()) {
        diagnostics_->Error(pattern->span, StrCat("pattern ", name, " has ", constructor->patterns.size(),
                                                  " fields but the constructor has ", instance->arg_types.size()));
        return;
      }
      for (size_t i = 0; i < constructor->patterns.size(); ++i) {
        VisitPattern(constructor->patterns[i], unifier_.Resolve(instance->arg_types[i]));
      }
    }
  });
}

Type Inferencer::ComputeTupleGetItem(const TupleGetItemNode* item) {
  Type tuple = unifier_.Resolve(Visit(item->tuple));
  Type result;
  auto constraint = std::make_unique<Constraint>();
  constraint->name = "projection";
  constraint->span = item->span;
  int index = item->index;
  auto pick = [this, index](const Type& type, const Span& span) -> Type {
    const auto* node = type.as<TupleTypeNode>();
    if (node == nullptr) {
      diagnostics_->Error(span, StrCat("projection .", index, " of a value that isn't a tuple: it has type ",
                                       TypeText(unifier_.Substitute(type))));
      return Type();
    }
    if (index < 0 || static_cast<size_t>(index) >= node->fields.size()) {
      diagnostics_->Error(span, StrCat("projection .", index, " of a tuple of ", node->fields.size(), " fields"));
      return Type();
    }
    return node->fields[static_cast<size_t>(index)];
  };
  if (!tuple->IsInstance<IncompleteTypeNode>()) {
    result = pick(tuple, item->span);
    return result.defined() ? unifier_.Resolve(result) : unifier_.NewHole(item->span);
  }
  result = unifier_.NewHole(item->span);
  constraint->args = {tuple, result};
  constraint->num_inputs = 1;
  constraint->solve = [this, pick](Constraint* self) {
    Type type = unifier_.Resolve(self->args[0]);
    if (type->IsInstance<IncompleteTypeNode>()) return false;
    Type field = pick(type, self->span);
    if (field.defined()) Unify(self->args[1], field, self->span, "projection");
    return true;
  };
  AddConstraint(std::move(constraint));
  return result;
}

Type Inferencer::ComputeRef(const Expr& expr) {
  if (const auto* create = expr.as<RefCreateNode>()) return RelayRefType(Visit(create->value));
  if (const auto* read = expr.as<RefReadNode>()) {
    Type hole = unifier_.NewHole(expr->span);
    Unify(RelayRefType(hole), Visit(read->ref), expr->span, "ref_read");
    return unifier_.Resolve(hole);
  }
  const auto* write = static_cast<const RefWriteNode*>(expr.get());
  Type ref = Visit(write->ref);
  Unify(RelayRefType(Visit(write->value)), ref, expr->span, "ref_write");
  return TupleType(Array<Type>());
}

Type Inferencer::ComputeConstructor(const ConstructorNode* constructor) {
  TypeData data = LookupTypeData(module_, constructor->belong_to);
  if (!data.defined()) {
    diagnostics_->Error(constructor->span,
                        StrCat("constructor ", constructor->name_hint, " belongs to type ",
                               constructor->belong_to->name_hint, ", which the module doesn't define"));
    return unifier_.NewHole();
  }
  Type result = data->header;
  if (!data->type_vars.empty()) result = TypeCall(data->header, data->type_vars);
  return FuncType(constructor->inputs, result, data->type_vars);
}

Type Inferencer::ComputeOp(const OpNode* op) {
  if (op->num_inputs < 0 || op->type_relation == nullptr) {
    diagnostics_->Error(place_, StrCat("operator ", op->name, " can be called, but not used as a value"));
    return unifier_.NewHole();
  }
  Array<TypeVar> params;
  Array<Type> args;
  for (int i = 0; i < op->num_inputs; ++i) {
    params.push_back(TypeVar(StrCat("in", i)));
    args.push_back(params.back());
  }
  params.push_back(TypeVar("out"));
  Array<Type> all = args;
  all.push_back(params.back());
  Attrs attrs;
  if (op->attrs_type != nullptr && op->attrs_type->create != nullptr) {
    for (const FieldInfo& field : op->attrs_type->fields) {
      if (!MustBeGiven(field, op->name)) continue;
      diagnostics_->Error(place_, StrCat("operator ", op->name, " needs the attribute ", field.name,
                                         ", so it can be called, but not used as a value"));
      return unifier_.NewHole();
    }
    attrs = DefaultAttrs(op);
  }
  return FuncType(args, params.back(), params, {TypeRelation(op->name, op->type_relation, all, op->num_inputs, attrs)});
}

void Inferencer::CheckAnnotation(const Type& type, const Span& span) {
  if (!type.defined() || type->IsInstance<TensorTypeNode>()) return;
  auto check_data = [&](const Type& header, size_t arity) {
    const auto* global = header.as<GlobalTypeVarNode>();
    if (global == nullptr) return;
    TypeData data = LookupTypeData(module_, GetRef<GlobalTypeVar>(global));
    if (!data.defined()) {
      diagnostics_->Error(span, StrCat("unknown type ", global->name_hint));
    } else if (data->type_vars.size() != arity) {
      diagnostics_->Error(span, StrCat("type ", global->name_hint, " takes ", data->type_vars.size(),
                                       " type arguments but gets ", arity));
    }
  };
  WithEnoughStack([&] {
    if (const auto* call = type.as<TypeCallNode>()) {
      check_data(call->func, call->args.size());
      for (const Type& arg : call->args) CheckAnnotation(arg, span);
    } else if (type->IsInstance<GlobalTypeVarNode>()) {
      check_data(type, 0);
    } else if (const auto* tuple = type.as<TupleTypeNode>()) {
      for (const Type& field : tuple->fields) CheckAnnotation(field, span);
    } else if (const auto* func = type.as<FuncTypeNode>()) {
      for (const Type& arg : func->arg_types) CheckAnnotation(arg, span);
      CheckAnnotation(func->ret_type, span);
    } else if (const auto* ref = type.as<RelayRefTypeNode>()) {
      CheckAnnotation(ref->value, span);
    }
  });
}

// Constraints

void Inferencer::AddRelation(const std::string& name, TypeRelationFn relation, Array<Type> args, int num_inputs,
                             const Attrs& attrs, const Span& span) {
  auto constraint = std::make_unique<Constraint>();
  constraint->name = name;
  constraint->span = span;
  if (relation == nullptr) {
    // A type that was read from a file names the operator only.
    const Op op = Op::Find(name);
    if (op.defined()) relation = op->type_relation;
    if (relation == nullptr || op->num_inputs != num_inputs || args.size() != static_cast<size_t>(num_inputs) + 1) {
      diagnostics_->Error(span, StrCat("no relation between ", args.size(), " types is called ", name));
      return;
    }
  }
  constraint->relation = relation;
  constraint->args = std::move(args);
  constraint->num_inputs = num_inputs;
  constraint->attrs = attrs;
  AddConstraint(std::move(constraint));
}

void Inferencer::AddConstraint(std::unique_ptr<Constraint> constraint) {
  queue_.push_back(constraints_.size());
  constraints_.push_back(std::move(constraint));
}

void Inferencer::Solve() {
  if (solving_) return;  // bindings made by a relation queue others; the loop below gets to them
  solving_ = true;
  while (!queue_.empty()) {
    size_t index = queue_.front();
    queue_.pop_front();
    Constraint* constraint = constraints_[index].get();
    if (constraint->done) continue;
    if (SolveRelation(constraint)) {
      constraint->done = true;
      constraint->solve = nullptr;
      continue;
    }
    std::vector<const Object*> holes;
    for (const Type& arg : constraint->args) unifier_.CollectHoles(arg, &holes);
    for (const Object* hole : holes) waiting_[hole].push_back(index);
  }
  solving_ = false;
}

bool Inferencer::SolveRelation(Constraint* constraint) {
  if (constraint->solve) return constraint->solve(constraint);
  Array<Type> types = constraint->args.Map([this](const Type& t) { return unifier_.Substitute(t); });
  Reporter reporter(this, constraint->name, constraint->span);
  try {
    return constraint->relation(types, constraint->num_inputs, constraint->attrs, reporter);
  } catch (const InternalError&) {
    throw;
  } catch (const Error& error) {
    reporter.Error(error.what());
    return true;
  }
}

void Inferencer::ReportUnsolved() {
  // One report for each hole, at the first expression that has it: those after it follow from it.
  std::unordered_set<const Object*> reported;
  for (const Expr& expr : order_) {
    const auto* var = expr.as<VarNode>();
    std::vector<const Object*> holes;
    unifier_.CollectHoles(types_.at(var != nullptr ? static_cast<const Object*>(var->vid.get()) : expr.get()), &holes);
    bool fresh = false;
    for (const Object* hole : holes) fresh |= reported.insert(hole).second;
    if (!fresh) continue;
    diagnostics_->Error(expr->span, StrCat("unable to infer a type for ", Describe(expr), ": add a type annotation"));
  }
}

void Inferencer::CheckMatches() {
  for (const Match& match : matches_) {
    std::vector<std::string> cases;
    try {
      cases = UnmatchedCases(match, module_);
    } catch (const InternalError&) {
      throw;
    } catch (const Error& error) {
      diagnostics_->Error(match->span, error.what());
    }
    if (cases.empty()) continue;
    std::string list;
    for (const std::string& text : cases) list += (list.empty() ? "" : ", ") + text;
    diagnostics_->Error(match->span,
                        StrCat("match doesn't handle these cases: ", list, " (use match? where they can't occur)"));
  }
}

/// Rebuilds the expression with types attached; nodes whose type is there already are kept.
class TypeAttacher : public MixedModeMutator {
 public:
  explicit TypeAttacher(const Inferencer* inference) : inference_(inference) {}

  Expr Rewrite_(const CallNode* pre, const Expr& post) final {
    auto it = inference_->type_args_.find(pre);
    if (it == inference_->type_args_.end()) return Typed(pre, post);
    Array<Type> type_args = it->second.Map([this](const Type& type) { return inference_->unifier_.Substitute(type); });
    const auto* call = static_cast<const CallNode*>(post.get());
    if (StructuralEqual(type_args, call->type_args)) return Typed(pre, post);
    return Typed(pre, Call(call->op, call->args, call->attrs, type_args, call->span));
  }
  Expr Rewrite_(const TupleNode* pre, const Expr& post) final { return Typed(pre, post); }
  Expr Rewrite_(const TupleGetItemNode* pre, const Expr& post) final { return Typed(pre, post); }

  using MixedModeMutator::VisitExpr_;
  Expr VisitExpr_(const ConstantNode* op) final { return Typed(op, GetRef<Expr>(op)); }
  Expr VisitExpr_(const LetNode* op) final {
    std::vector<const LetNode*> chain;
    std::vector<std::pair<Expr, Expr>> parts;
    Expr body = GetRef<Expr>(op);
    while (const auto* let = body.as<LetNode>()) {
      if (let != op && memo_.count(body) != 0) break;
      Expr var = VisitExpr(let->var);
      parts.emplace_back(var, VisitExpr(let->value));
      chain.push_back(let);
      body = let->body;
    }
    Expr result = VisitExpr(body);
    for (size_t i = chain.size(); i-- > 0;) {
      const LetNode* let = chain[i];
      bool same = parts[i].first.same_as(let->var) && parts[i].second.same_as(let->value) && result.same_as(let->body);
      Expr post = same ? GetRef<Expr>(let) : Let(Downcast<Var>(parts[i].first), parts[i].second, result, let->span);
      result = Typed(let, post);
      memo_[GetRef<Expr>(let)] = result;
    }
    return result;
  }
  Expr VisitExpr_(const IfNode* op) final { return Typed(op, ExprMutator::VisitExpr_(op)); }
  Expr VisitExpr_(const RefCreateNode* op) final { return Typed(op, ExprMutator::VisitExpr_(op)); }
  Expr VisitExpr_(const RefReadNode* op) final { return Typed(op, ExprMutator::VisitExpr_(op)); }
  Expr VisitExpr_(const RefWriteNode* op) final { return Typed(op, ExprMutator::VisitExpr_(op)); }
  Expr VisitExpr_(const MatchNode* op) final { return Typed(op, ExprMutator::VisitExpr_(op)); }

  Expr VisitExpr_(const VarNode* op) final {
    auto known = vars_.find(op->vid.get());
    if (known != vars_.end()) return known->second;
    Type type = TypeOf(op->vid.get());
    Expr result;
    bool keep = op->type_annotation.defined() && !HasHoles(op->type_annotation);
    if (keep && op->checked_type_.defined() && SameType(op->checked_type_, type)) {
      result = GetRef<Expr>(op);
    } else {
      Var var(op->vid, keep ? op->type_annotation : type, op->span);
      Set(var, type);
      result = var;
    }
    vars_[op->vid.get()] = result;
    return result;
  }

  Expr VisitExpr_(const FunctionNode* op) final {
    auto params = op->params.Map([this](const Var& v) { return Downcast<Var>(VisitExpr(v)); });
    Expr body = VisitExpr(op->body);
    Type ret = op->ret_type;
    if (!ret.defined() || HasHoles(ret)) ret = inference_->unifier_.Substitute(inference_->results_.at(op));
    if (params.same_as(op->params) && body.same_as(op->body) && ret.same_as(op->ret_type)) {
      return Typed(op, GetRef<Expr>(op));
    }
    return Typed(op, Function(params, body, ret, op->type_params, op->attrs, op->span));
  }

 private:
  Type TypeOf(const Object* node) { return inference_->unifier_.Substitute(inference_->types_.at(node)); }

  static bool HasHoles(const Type& type) {
    bool found = false;
    RewriteType(
        type,
        [&](const Type& t) {
          found |= t->IsInstance<IncompleteTypeNode>();
          return Type();
        },
        nullptr);
    return found;
  }
  static void Set(const Expr& expr, const Type& type) {
    const_cast<RelayExprNode*>(static_cast<const RelayExprNode*>(expr.get()))->checked_type_ = type;
  }

  template <typename Node>
  Expr Typed(const Node* pre, const Expr& post) {
    Type type = TypeOf(pre);
    if (post.get() != pre) {
      Set(post, type);
      return post;
    }
    if (pre->checked_type_.defined() && SameType(pre->checked_type_, type)) return post;
    ObjectPtr<Object> copy(NewObject<Node>(*pre));
    Expr result(copy);
    Set(result, type);
    return result;
  }

  const Inferencer* inference_;
  std::unordered_map<const Object*, Expr> vars_;
};

Expr Inferencer::Run(const Expr& expr) {
  size_t errors_before = diagnostics_->size();
  Visit(expr);
  Solve();
  if (diagnostics_->size() == errors_before) ReportUnsolved();
  if (diagnostics_->size() == errors_before) CheckMatches();
  if (diagnostics_->size() != errors_before) return Expr();
  return TypeAttacher(this).VisitExpr(expr);
}

}  // namespace treadle::relay
