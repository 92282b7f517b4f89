// SPDX-License-Identifier: Apache-2.0
#include "relay/type_infer/unifier.h"

#include "relay/text/type_text.h"
#include "treadle/base/stack_guard.h"
#include "treadle/ir/prim_functor.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ir/structural.h"

namespace treadle::relay {
namespace {

/// Replaces variables in a dimension.
class DimSubstitute : public tir::ExprMutator {
 public:
  explicit DimSubstitute(const std::function<PrimExpr(const tir::VarNode*)>& value) : value_(value) {}
  PrimExpr VisitExpr_(const tir::VarNode* op) final {
    PrimExpr result = value_(op);
    return result.defined() ? result : GetRef<PrimExpr>(op);
  }
  using tir::ExprMutator::VisitExpr_;

 private:
  const std::function<PrimExpr(const tir::VarNode*)>& value_;
};

PrimExpr Fold(const PrimExpr& dim);

PrimExpr FoldKind(const PrimExpr& dim) {
  if (const auto* add = dim.as<tir::AddNode>()) return tir::add(Fold(add->a), Fold(add->b));
  if (const auto* sub = dim.as<tir::SubNode>()) return tir::sub(Fold(sub->a), Fold(sub->b));
  if (const auto* mul = dim.as<tir::MulNode>()) return tir::mul(Fold(mul->a), Fold(mul->b));
  if (const auto* div = dim.as<tir::FloorDivNode>()) {
    PrimExpr b = Fold(div->b);
    return tir::is_zero(b) ? dim : tir::floordiv(Fold(div->a), b);
  }
  return dim;
}

PrimExpr Fold(const PrimExpr& dim) {
  return WithEnoughStack([&] { return FoldKind(dim); });
}

bool Mentions(const PrimExpr& dim, const tir::VarNode* var) {
  bool found = false;
  std::function<PrimExpr(const tir::VarNode*)> value = [&](const tir::VarNode* v) {
    found |= v == var;
    return PrimExpr();
  };
  (void)DimSubstitute(value)(dim);
  return found;
}

PrimExpr As64(const PrimExpr& dim) {
  return dim.dtype() == DataType::Int(64) ? dim : tir::cast(DataType::Int(64), dim);
}

/// Sum of `coefficient * term` over terms that aren't sums themselves, plus a constant.
struct LinearForm {
  std::vector<std::pair<PrimExpr, int64_t>> terms;
  int64_t constant = 0;
  bool known = true;  ///< false: too great to tell

  void Add(const PrimExpr& root, int64_t root_factor) {
    std::vector<std::pair<PrimExpr, int64_t>> stack{{root, root_factor}};
    while (!stack.empty() && known) {
      const auto [dim, factor] = std::move(stack.back());
      stack.pop_back();
      if (const int64_t* value = AsConstInt(dim)) {
        AddProduct(factor, *value, &constant);
      } else if (const auto* add = dim.as<tir::AddNode>()) {
        stack.emplace_back(add->a, factor);
        stack.emplace_back(add->b, factor);
      } else if (const auto* sub = dim.as<tir::SubNode>()) {
        stack.emplace_back(sub->a, factor);
        stack.emplace_back(sub->b, Product(factor, -1));
      } else if (const auto* cast = dim.as<tir::CastNode>()) {
        stack.emplace_back(cast->value, factor);
      } else if (const auto* mul = dim.as<tir::MulNode>(); mul != nullptr && AsConstInt(mul->a) != nullptr) {
        stack.emplace_back(mul->b, Product(factor, *AsConstInt(mul->a)));
      } else if (mul != nullptr && AsConstInt(mul->b) != nullptr) {
        stack.emplace_back(mul->a, Product(factor, *AsConstInt(mul->b)));
      } else {
        AddTerm(dim, factor);
      }
    }
  }
  bool IsConstant() const {
    for (const auto& [term, coefficient] : terms) {
      if (coefficient != 0) return false;
    }
    return known;
  }

 private:
  static constexpr size_t kMaxTerms = 100;

  int64_t Product(int64_t a, int64_t b) {
    int64_t product = 0;
    known &= !__builtin_mul_overflow(a, b, &product);
    return product;
  }
  void AddProduct(int64_t a, int64_t b, int64_t* sum) {
    const int64_t product = Product(a, b);
    known &= !__builtin_add_overflow(*sum, product, sum);
  }
  void AddTerm(const PrimExpr& dim, int64_t factor) {
    for (auto& [term, coefficient] : terms) {
      if (term.same_as(dim) || (StructuralEqual(term, dim) && !IsAnyDim(dim))) {
        return AddProduct(factor, 1, &coefficient);
      }
    }
    terms.emplace_back(dim, factor);
    known &= terms.size() <= kMaxTerms;
  }
};

void Say(std::string* why, const std::string& text) {
  if (why == nullptr) return;
  if (!why->empty()) *why += "; ";
  *why += text;
}

bool IsLeaf(const Type& type) {
  return !type.defined() || type->IsInstance<TensorTypeNode>() || type->IsInstance<TypeVarNode>() ||
         type->IsInstance<GlobalTypeVarNode>() || type->IsInstance<PrimTypeNode>();
}

/// Both lists of relations, without those that say the same of the same types.
Array<TypeConstraint> JoinConstraints(const Array<TypeConstraint>& a, const Array<TypeConstraint>& b) {
  Array<TypeConstraint> joined = a;
  for (const TypeConstraint& constraint : b) {
    const auto* relation = constraint.as<TypeRelationNode>();
    bool known = false;
    for (const TypeConstraint& other : a) {
      const auto* r = other.as<TypeRelationNode>();
      known |= relation != nullptr && r != nullptr && (r->func == relation->func || r->name == relation->name) &&
               StructuralEqual(r->args, relation->args) && StructuralEqual(r->attrs, relation->attrs);
    }
    if (!known) joined.push_back(constraint);
  }
  return joined;
}

/// The header of a data type without parameters stands for its application to none.
Type WithoutEmptyCall(const Type& type) {
  const auto* call = type.as<TypeCallNode>();
  return call != nullptr && call->args.empty() ? call->func : type;
}

}  // namespace

Type RewriteType(const Type& type, const std::function<Type(const Type&)>& leaf,
                 const std::function<PrimExpr(const PrimExpr&)>& dim) {
  if (!type.defined()) return type;
  return WithEnoughStack([&]() -> Type {
    auto rewrite = [&](const Type& t) { return RewriteType(t, leaf, dim); };
    if (const auto* tensor = type.as<TensorTypeNode>()) {
      if (!dim) return type;
      auto shape = tensor->shape.Map([&](const PrimExpr& d) { return AsConstInt(d) ? d : dim(d); });
      return shape.same_as(tensor->shape) ? type : TensorType(shape, tensor->dtype, tensor->span);
    }
    if (const auto* tuple = type.as<TupleTypeNode>()) {
      auto fields = tuple->fields.Map(rewrite);
      return fields.same_as(tuple->fields) ? type : TupleType(fields, tuple->span);
    }
    if (const auto* func = type.as<FuncTypeNode>()) {
      auto args = func->arg_types.Map(rewrite);
      Type ret = rewrite(func->ret_type);
      auto constraints =
          func->type_constraints.Map([&](const TypeConstraint& c) { return Downcast<TypeConstraint>(rewrite(c)); });
      if (args.same_as(func->arg_types) && ret.same_as(func->ret_type) && constraints.same_as(func->type_constraints)) {
        return type;
      }
      return FuncType(args, ret, func->type_params, constraints, func->span);
    }
    if (const auto* call = type.as<TypeCallNode>()) {
      Type func = rewrite(call->func);
      auto args = call->args.Map(rewrite);
      return func.same_as(call->func) && args.same_as(call->args) ? type : TypeCall(func, args, call->span);
    }
    if (const auto* ref = type.as<RelayRefTypeNode>()) {
      Type value = rewrite(ref->value);
      return value.same_as(ref->value) ? type : RelayRefType(value, ref->span);
    }
    if (const auto* relation = type.as<TypeRelationNode>()) {
      auto args = relation->args.Map(rewrite);
      if (args.same_as(relation->args)) return type;
      return TypeRelation(relation->name, relation->func, args, relation->num_inputs, relation->attrs, relation->span);
    }
    Type replaced = leaf(type);
    return replaced.defined() ? replaced : type;
  });
}

Type SubstituteTypeVars(const Type& type, const std::unordered_map<const Object*, Type>& values) {
  return RewriteType(
      type,
      [&](const Type& t) {
        auto it = values.find(t.get());
        return it == values.end() ? Type() : it->second;
      },
      nullptr);
}

FuncType WithFreshTypeParams(const FuncType& type) {
  if (type->type_params.empty()) return type;
  std::unordered_map<const Object*, Type> values;
  auto params = type->type_params.Map([&](const TypeVar& param) {
    TypeVar copy(param->name_hint, param->kind, param->span);
    values[param.get()] = copy;
    return copy;
  });
  auto substitute = [&](const Type& t) { return SubstituteTypeVars(t, values); };
  auto constraints =
      type->type_constraints.Map([&](const TypeConstraint& c) { return Downcast<TypeConstraint>(substitute(c)); });
  return FuncType(type->arg_types.Map(substitute), substitute(type->ret_type), params, constraints, type->span);
}

Unifier::Parts Unifier::PartsOf(const Type& type) const {
  if (!type.defined()) return {1, true};
  if (const auto* tensor = type.as<TensorTypeNode>()) {
    for (const PrimExpr& dim : tensor->shape) {
      if (AsConstInt(dim) == nullptr && !(dim->IsInstance<tir::VarNode>() && flexible_.count(dim.get()) == 0)) {
        return {1, false};
      }
    }
    return {1, true};
  }
  if (IsLeaf(type)) return {1, true};
  if (type->IsInstance<IncompleteTypeNode>()) return {1, false};
  auto it = parts_.find(type.get());
  if (it != parts_.end()) return it->second.second;
  Parts parts = WithEnoughStack([&] { return CountPartsOf(type); });
  parts_.emplace(type.get(), std::pair(type, parts));
  return parts;
}

Unifier::Parts Unifier::CountPartsOf(const Type& type) const {
  Parts sum{1, true};
  auto add = [&](const Type& part) {
    Parts parts = PartsOf(part);
    sum.count = std::min(kMaxParts, sum.count + parts.count);
    sum.settled &= parts.settled;
  };
  if (const auto* tuple = type.as<TupleTypeNode>()) {
    for (const Type& field : tuple->fields) add(field);
  } else if (const auto* func = type.as<FuncTypeNode>()) {
    for (const Type& arg : func->arg_types) add(arg);
    add(func->ret_type);
    sum.settled &= func->type_constraints.empty();
  } else if (const auto* call = type.as<TypeCallNode>()) {
    add(call->func);
    for (const Type& arg : call->args) add(arg);
  } else if (const auto* ref = type.as<RelayRefTypeNode>()) {
    add(ref->value);
  } else {
    sum.settled = false;
  }
  return sum;
}

Type Unifier::Resolve(Type type) const {
  while (type.defined() && type->IsInstance<IncompleteTypeNode>()) {
    auto it = holes_.find(type.get());
    if (it == holes_.end()) break;
    type = it->second;
  }
  return type;
}

PrimExpr Unifier::ResolveDim(const PrimExpr& dim) const {
  if (dims_.empty() || AsConstInt(dim) != nullptr) return dim;
  if (dim->IsInstance<tir::VarNode>()) {
    PrimExpr current = dim;
    for (auto it = dims_.find(dim.get()); it != dims_.end(); it = dims_.find(current.get())) current = it->second;
    if (current.same_as(dim)) return dim;
    return current->IsInstance<tir::VarNode>() ? current : ResolveDim(current);
  }
  std::function<PrimExpr(const tir::VarNode*)> value = [this](const tir::VarNode* var) {
    auto it = dims_.find(var);
    // In place of a dimension of int32 among others of them.
    return it == dims_.end() ? PrimExpr() : tir::cast(var->dtype, ResolveDim(it->second));
  };
  PrimExpr result = DimSubstitute(value)(dim);
  return result.same_as(dim) ? dim : Fold(result);
}

Type Unifier::Substitute(const Type& type) const {
  if (PartsOf(type).settled) return type;
  std::function<PrimExpr(const PrimExpr&)> dim = [this](const PrimExpr& d) -> PrimExpr {
    const auto* var = d.as<tir::VarNode>();
    if (var != nullptr && flexible_.count(var) == 0) return d;
    return ResolveDim(d);
  };
  if (flexible_.empty()) dim = nullptr;
  return RewriteType(
      type,
      [this](const Type& t) {
        Type resolved = Resolve(t);
        return resolved.same_as(t) ? Type() : Substitute(resolved);
      },
      dim);
}

bool Unifier::HasHole(const Type& type) const {
  std::vector<const Object*> holes;
  CollectHoles(type, &holes);
  return !holes.empty();
}

void Unifier::CollectHoles(const Type& type, std::vector<const Object*>* holes) const {
  Type t = Resolve(type);
  if (PartsOf(t).settled) return;
  WithEnoughStack([&] {
    if (t->IsInstance<IncompleteTypeNode>()) {
      holes->push_back(t.get());
    } else if (const auto* tuple = t.as<TupleTypeNode>()) {
      for (const Type& field : tuple->fields) CollectHoles(field, holes);
    } else if (const auto* func = t.as<FuncTypeNode>()) {
      for (const Type& arg : func->arg_types) CollectHoles(arg, holes);
      CollectHoles(func->ret_type, holes);
    } else if (const auto* call = t.as<TypeCallNode>()) {
      for (const Type& arg : call->args) CollectHoles(arg, holes);
    } else if (const auto* ref = t.as<RelayRefTypeNode>()) {
      CollectHoles(ref->value, holes);
    }
  });
}

bool Unifier::Occurs(const Object* hole, const Type& type) const {
  std::vector<const Object*> holes;
  CollectHoles(type, &holes);
  for (const Object* h : holes) {
    if (h == hole) return true;
  }
  return false;
}

Type Unifier::Unify(const Type& a, const Type& b, std::string* why) {
  return WithEnoughStack([&]() -> Type {
    Type x = Resolve(a), y = Resolve(b);
    if (x.same_as(y)) return x;
    bool hole_x = x->IsInstance<IncompleteTypeNode>(), hole_y = y->IsInstance<IncompleteTypeNode>();
    if (hole_x || hole_y) {
      Type hole = hole_x ? x : y, value = hole_x ? y : x;
      if (Occurs(hole.get(), value)) {
        Say(why, StrCat("the type would contain itself: ", TypeText(Substitute(value))));
        return Type();
      }
      holes_[hole.get()] = value;
      keep_alive_.push_back(hole);
      if (on_bound) on_bound(hole.get());
      return value;
    }
    Type merged = UnifyResolved(x, y, why);
    // A hole that stood for a less specific type now stands for the merged one.
    if (merged.defined()) {
      for (const Type& side : {a, b}) {
        if (!side->IsInstance<IncompleteTypeNode>()) continue;
        Type last = side;
        for (auto it = holes_.find(last.get()); it != holes_.end(); it = holes_.find(last.get())) {
          if (!it->second->IsInstance<IncompleteTypeNode>()) {
            it->second = merged;
            break;
          }
          last = it->second;
        }
      }
    }
    return merged;
  });
}

bool Unifier::UnifyList(const Array<Type>& a, const Array<Type>& b, Array<Type>* result, std::string* why) {
  bool ok = true;
  std::vector<Type> merged;
  merged.reserve(a.size());
  bool same = true;
  for (size_t i = 0; i < a.size(); ++i) {
    Type type = Unify(a[i], b[i], why);
    ok &= type.defined();
    same &= type.same_as(a[i]);
    merged.push_back(type);
  }
  if (ok) *result = same ? a : Array<Type>(merged);
  return ok;
}

Type Unifier::UnifyResolved(const Type& x, const Type& y, std::string* why) {
  Type a = WithoutEmptyCall(x), b = WithoutEmptyCall(y);
  if (a.same_as(b)) return a;
  auto mismatch = [&] {
    Say(why, Mismatch(a, b));
    return Type();
  };
  if (a->type_info() != b->type_info()) return mismatch();
  if (a->IsInstance<TensorTypeNode>()) return UnifyTensor(Downcast<TensorType>(a), Downcast<TensorType>(b), why);
  Array<Type> parts;
  if (const auto* tuple = a.as<TupleTypeNode>()) {
    const auto* other = b.as<TupleTypeNode>();
    if (tuple->fields.size() != other->fields.size()) return mismatch();
    if (!UnifyList(tuple->fields, other->fields, &parts, why)) return Type();
    return parts.same_as(tuple->fields) ? a : TupleType(parts, tuple->span);
  }
  if (a->IsInstance<FuncTypeNode>()) return UnifyFunc(Downcast<FuncType>(a), Downcast<FuncType>(b), why);
  if (const auto* call = a.as<TypeCallNode>()) {
    const auto* other = b.as<TypeCallNode>();
    if (call->args.size() != other->args.size()) return mismatch();
    if (call->func->IsInstance<GlobalTypeVarNode>() && !StructuralEqual(call->func, other->func)) return mismatch();
    Type func = Unify(call->func, other->func, why);
    if (!func.defined() || !UnifyList(call->args, other->args, &parts, why)) return Type();
    return func.same_as(call->func) && parts.same_as(call->args) ? a : TypeCall(func, parts, call->span);
  }
  if (const auto* ref = a.as<RelayRefTypeNode>()) {
    Type value = Unify(ref->value, b.as<RelayRefTypeNode>()->value, why);
    if (!value.defined()) return Type();
    return value.same_as(ref->value) ? a : RelayRefType(value, ref->span);
  }
  // Type variables stand for themselves only, names of data types are unique in a module.
  if (!a->IsInstance<TypeVarNode>() && StructuralEqual(a, b)) return a;
  return mismatch();
}

PrimExpr Unifier::UnifyDim(const PrimExpr& a, const PrimExpr& b) {
  if (a.same_as(b)) return a;
  const int64_t* left = AsConstInt(a);
  const int64_t* right = AsConstInt(b);
  if (left != nullptr && right != nullptr) return *left == *right ? a : PrimExpr();
  PrimExpr x = ResolveDim(a), y = ResolveDim(b);
  if (x.same_as(y)) return x;
  if (IsAnyDim(x)) return x;
  if (IsAnyDim(y)) return y;
  left = AsConstInt(x);
  right = AsConstInt(y);
  if (left != nullptr && right != nullptr) return *left == *right ? x : PrimExpr();
  LinearForm difference;
  difference.Add(x, 1);
  difference.Add(y, -1);
  if (difference.IsConstant()) return difference.constant == 0 ? x : PrimExpr();
  const auto* var_x = x.as<tir::VarNode>();
  const auto* var_y = y.as<tir::VarNode>();
  if (var_x != nullptr && Mentions(y, var_x)) var_x = nullptr;
  if (var_y != nullptr && Mentions(x, var_y)) var_y = nullptr;
  // Of two variables, the one that a call instantiated gives way.
  if (var_y != nullptr && (var_x == nullptr || flexible_.count(var_y) != 0)) {
    dims_[var_y] = As64(x);
    keep_alive_.push_back(y);
    return x;
  }
  if (var_x != nullptr) {
    dims_[var_x] = As64(y);
    keep_alive_.push_back(x);
    return y;
  }
  return x;  // expressions that may or may not be equal are taken to be
}

std::string Unifier::Mismatch(const Type& a, const Type& b) const {
  const Type& expected = actual_first ? b : a;
  const Type& actual = actual_first ? a : b;
  return StrCat("expected ", TypeText(Substitute(expected)), " but got ", TypeText(Substitute(actual)));
}

Type Unifier::UnifyTensor(const TensorType& a, const TensorType& b, std::string* why) {
  const auto& expected = actual_first ? b : a;
  const auto& actual = actual_first ? a : b;
  if (a->dtype != b->dtype) {
    Say(why, StrCat(Mismatch(a, b), ": dtype ", expected->dtype, " vs ", actual->dtype));
    return Type();
  }
  if (a->shape.size() != b->shape.size()) {
    Say(why, StrCat(Mismatch(a, b), ": rank ", expected->shape.size(), " vs ", actual->shape.size()));
    return Type();
  }
  Array<PrimExpr> shape;
  bool same = true;
  std::string conflicts;
  for (size_t i = 0; i < a->shape.size(); ++i) {
    PrimExpr dim = UnifyDim(a->shape[i], b->shape[i]);
    if (!dim.defined()) {
      conflicts += StrCat(conflicts.empty() ? "" : ", ", "dimension ", i, ": ", DimText(ResolveDim(expected->shape[i])),
                          " vs ", DimText(ResolveDim(actual->shape[i])));
      continue;
    }
    same &= dim.same_as(a->shape[i]);
    shape.push_back(dim);
  }
  if (!conflicts.empty()) {
    Say(why, StrCat(Mismatch(a, b), ": ", conflicts));
    return Type();
  }
  return same ? a : TensorType(shape, a->dtype, a->span);
}

Type Unifier::UnifyFunc(const FuncType& a, const FuncType& b, std::string* why) {
  FuncType x = a, y = b;
  Array<TypeConstraint> constraints = x->type_constraints;
  if (x->type_params.size() != y->type_params.size()) {
    // The more general function is used at the type of the other.
    Array<Type> ignored;
    x = Instantiate(x, &ignored, Span());
    y = Instantiate(y, &ignored, Span());
    for (const FuncType& side : {x, y}) {
      for (const TypeConstraint& constraint : side->type_constraints) {
        if (on_constraint) on_constraint(constraint);
      }
    }
    constraints = {};
  } else if (!x->type_params.empty()) {
    std::unordered_map<const Object*, Type> renamed;
    for (size_t i = 0; i < x->type_params.size(); ++i) renamed[y->type_params[i].get()] = x->type_params[i];
    Type ret = SubstituteTypeVars(y->ret_type, renamed);
    auto args = y->arg_types.Map([&](const Type& t) { return SubstituteTypeVars(t, renamed); });
    auto others = y->type_constraints.Map(
        [&](const TypeConstraint& c) { return Downcast<TypeConstraint>(SubstituteTypeVars(c, renamed)); });
    y = FuncType(args, ret, x->type_params, others);
    if (constraints.empty() != others.empty()) {
      Say(why, Mismatch(x, y));
      return Type();
    }
    constraints = JoinConstraints(constraints, others);
  }
  if (x->arg_types.size() != y->arg_types.size()) {
    Say(why, StrCat("expected a function of ", x->arg_types.size(), " arguments but got one of ", y->arg_types.size()));
    return Type();
  }
  Array<Type> args;
  bool ok = UnifyList(x->arg_types, y->arg_types, &args, why);
  Type ret = Unify(x->ret_type, y->ret_type, why);
  if (!ok || !ret.defined()) return Type();
  bool same = args.same_as(x->arg_types) && ret.same_as(x->ret_type) && constraints.same_as(x->type_constraints);
  return same ? x : FuncType(args, ret, x->type_params, constraints, x->span);
}

FuncType Unifier::Instantiate(const FuncType& type, Array<Type>* type_args, const Span& span) {
  if (type->type_params.empty()) return type;
  std::unordered_map<const Object*, Type> values;
  for (const TypeVar& param : type->type_params) {
    Type hole = NewHole(span);
    values[param.get()] = hole;
    type_args->push_back(hole);
  }
  auto args = type->arg_types.Map([&](const Type& t) { return SubstituteTypeVars(t, values); });
  Type ret = SubstituteTypeVars(type->ret_type, values);
  auto constraints = type->type_constraints.Map(
      [&](const TypeConstraint& c) { return Downcast<TypeConstraint>(SubstituteTypeVars(c, values)); });
  return FuncType(args, ret, {}, constraints, type->span);
}

Type Unifier::FreshenDims(const Type& type) {
  std::unordered_map<const Object*, PrimExpr> fresh;
  std::function<PrimExpr(const tir::VarNode*)> value = [&](const tir::VarNode* var) -> PrimExpr {
    if (IsAnyDim(GetRef<PrimExpr>(var))) return PrimExpr();
    auto it = fresh.find(var);
    if (it != fresh.end()) return it->second;
    tir::Var copy(var->name_hint, var->dtype);
    flexible_.insert(copy.get());
    keep_alive_.push_back(copy);
    fresh.emplace(var, copy);
    return copy;
  };
  return RewriteType(
      type, [](const Type&) { return Type(); }, [&](const PrimExpr& dim) { return DimSubstitute(value)(dim); });
}

}  // namespace treadle::relay
