// SPDX-License-Identifier: Apache-2.0
#include "driver/vm/symbolic_kernel.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "ops/broadcast_size.h"
#include "ops/infer.h"
#include "treadle/arith/analyzer.h"
#include "treadle/ir/prim_functor.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ops/attrs/image.h"
#include "treadle/ops/attrs/transform.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/runtime/limits.h"

namespace treadle::driver {

using relay::CallNode;
using relay::Expr;

namespace {

constexpr const char* kEqualDims = "dimensions of operands have to be equal";

/// n0, n1, ..: one set for the process, so that structurally equal kernels have the same variables.
tir::Var CanonicalVar(size_t i) {
  static std::mutex mutex;
  static auto* vars = new std::vector<tir::Var>();
  std::lock_guard<std::mutex> lock(mutex);
  while (vars->size() <= i) vars->push_back(tir::Var("n" + std::to_string(vars->size()), DataType::Int(64)));
  return (*vars)[i];
}

class SymbolicReporter : public TypeReporter {
 public:
  explicit SymbolicReporter(Type hole) : hole_(std::move(hole)) {}
  void Assign(const Type& dst, const Type& src) override {
    if (dst.same_as(hole_)) {
      result = src;
      return;
    }
    // What an operator says of an operand.
    const auto *given = dst.as<TensorTypeNode>(), *expected = src.as<TensorTypeNode>();
    if (given == nullptr || expected == nullptr || given->shape.size() != expected->shape.size()) return;
    for (size_t i = 0; i < given->shape.size(); ++i) {
      const PrimExpr &size = given->shape[i], &wanted = expected->shape[i];
      if (!IsAnyDim(size) && !IsAnyDim(wanted) && !AssertEqual(size, wanted)) {
        Error(StrCat("an operand is ", ops::TypeText(given), ", expected ", ops::TypeText(expected)));
      }
    }
  }
  /// What can't be refuted is checked when it runs.
  bool AssertEqual(const PrimExpr& a, const PrimExpr& b) override {
    arith::Analyzer analyzer;
    auto difference = analyzer.ConstDifference(a, b);
    if (!difference) equalities.push_back({a, b, RuleOf(a, b)});
    return !difference || *difference == 0;
  }
  std::vector<SizeEquality> equalities;
  void Error(const std::string& message) override {
    if (error.empty()) error = message;
  }
  Type result;
  std::string error;

 private:
  /// What operators state of one size is equal to 0 (RequireAtLeast, RequireMultiple).
  static const char* RuleOf(const PrimExpr& a, const PrimExpr& b) {
    if (tir::is_const_int(b, 1)) return "a dimension that has to be 1 isn't: its size, and what is expected";
    if (!tir::is_const_int(b, 0)) return kEqualDims;
    if (a.as<tir::MinNode>() != nullptr)
      return "a dimension is too small for the operator: elements to spare, and how many there have to be";
    return a.as<tir::FloorModNode>() != nullptr ? "a dimension isn't a multiple: what is left, and what has to be"
                                                : kEqualDims;
  }
  Type hole_;
};

/// Values in place of dimensions, in int64: programs may have dimensions of int32.
class DimSubstitute : public tir::ExprMutator {
 public:
  DimSubstitute(const Array<tir::Var>& variables, const std::vector<PrimExpr>& values) {
    for (size_t i = 0; i < variables.size(); ++i) values_[variables[i].get()] = Wide(values[i]);
  }
  PrimExpr VisitExpr_(const tir::VarNode* op) override {
    auto it = values_.find(op);
    return it == values_.end() ? Wide(GetRef<PrimExpr>(op)) : it->second;
  }
  PrimExpr VisitExpr_(const IntImmNode* op) override { return Wide(GetRef<PrimExpr>(op)); }
  /// Narrowed sizes stay wide, as the numbers beside them become.
  PrimExpr VisitExpr_(const tir::CastNode* op) override {
    if (op->dtype != DataType::Int(32) || !op->value.dtype().is_int()) return ExprMutator::VisitExpr_(op);
    return Wide(VisitExpr(op->value));
  }
  using tir::ExprMutator::VisitExpr_;

 private:
  static PrimExpr Wide(const PrimExpr& e) {
    return e.dtype() == DataType::Int(32) ? tir::cast(DataType::Int(64), e) : e;
  }
  std::unordered_map<const Object*, PrimExpr> values_;
};

/// What a dimension is a broadcast of.
std::vector<PrimExpr> PartsOf(const PrimExpr& dim) {
  std::vector<PrimExpr> parts;
  CollectBroadcast(dim, &parts);
  return parts;
}

/// Whether all of `some` are among `parts`: chains of operators on the same operands don't grow sizes.
bool HasAll(const std::vector<PrimExpr>& parts, const std::vector<PrimExpr>& some) {
  return std::all_of(some.begin(), some.end(), [&](const PrimExpr& part) {
    return std::any_of(parts.begin(), parts.end(), [&](const PrimExpr& known) { return ops::SameDim(known, part); });
  });
}

/// What two dimensions that may be 1 or equal broadcast to.
PrimExpr BroadcastDim(const PrimExpr& x, const PrimExpr& y) {
  const int64_t* a = AsConstInt(x);
  const int64_t* b = AsConstInt(y);
  if (b != nullptr && *b == 1) return x;
  if (a != nullptr) return *a == 1 ? y : x;
  if (b != nullptr) return y;
  const std::vector<PrimExpr> of_x = PartsOf(x), of_y = PartsOf(y);
  if (HasAll(of_x, of_y)) return x;
  if (HasAll(of_y, of_x)) return y;
  arith::Analyzer analyzer;
  if (analyzer.CanProveEqual(x, y)) return x;
  // The one that is compared is there twice: the smaller one, or the sizes of a chain of operators doubled at each.
  const auto [compared, other] = of_x.size() <= of_y.size() ? std::pair(x, y) : std::pair(y, x);
  return tir::select(tir::equal(compared, PrimExpr(int64_t{1})), other, compared);
}

bool HasAny(const Array<PrimExpr>& shape) {
  for (const PrimExpr& dim : shape) {
    if (IsAnyDim(dim)) return true;
  }
  return false;
}

bool TypeHasAny(const Type& type) {
  std::vector<TensorType> tensors;
  FlattenTensorTypes(type, &tensors);
  for (const TensorType& tensor : tensors) {
    if (HasAny(tensor->shape)) return true;
  }
  return false;
}

/// Whether the last dimensions of all operands are those of the result, or 1. Attributes may say that an operand runs
/// along another one, as bias_add's does; a table is read at values.
bool BroadcastsByPosition(const Op& op) {
  if (op.GetAttr(kOpPattern, OpPatternKind::kOpaque) > OpPatternKind::kBroadcast) return false;
  return op->num_inputs == 1 || (op->attrs_type == nullptr && op->name != "qnn.contrib_lookup");
}

/// Dimensions of a broadcasting operator that its rule leaves unknown.
Type BroadcastAny(const Type& type, const Array<Type>& args) {
  const auto* result = type.as<TensorTypeNode>();
  std::vector<TensorType> tensors;
  for (const Type& arg : args) FlattenTensorTypes(arg, &tensors);
  Array<PrimExpr> shape;
  size_t rank = result->shape.size();
  for (size_t i = 0; i < rank; ++i) {
    PrimExpr dim = result->shape[i];
    if (IsAnyDim(dim)) {
      dim = PrimExpr(int64_t{1});
      for (const TensorType& tensor : tensors) {
        size_t own = tensor->shape.size();
        if (i + own >= rank) dim = BroadcastDim(dim, tensor->shape[i + own - rank]);
      }
    }
    shape.push_back(dim);
  }
  return TensorType(shape, result->dtype);
}

/// Operators that broadcast operands: how many of the last dimensions they don't (products of matrices), and which
/// operands; none for the others.
struct Broadcasting {
  size_t first = 0;     ///< the first tensor that is broadcast
  size_t matrix = 0;    ///< last dimensions that are another matter
  size_t trailing = 0;  ///< last dimensions of the result that no operand has
};

std::optional<Broadcasting> BroadcastingOf(const Op& op, const std::vector<TensorType>& tensors, size_t rank) {
  if (op->name == "nn.batch_matmul") return Broadcasting{0, 2, 0};
  if (op->name == "adv_index") return Broadcasting{1, 0, tensors[0]->shape.size() - (tensors.size() - 1)};
  if (!BroadcastsByPosition(op) || tensors.size() < 2) return std::nullopt;
  for (const TensorType& tensor : tensors) {
    if (tensor->shape.size() > rank) return std::nullopt;
  }
  return Broadcasting{};
}

/// What has to be so when the model runs: each dimension is 1 or that of the result.
void RequireBroadcast(const Op& op, const Type& type, const Array<Type>& args, std::vector<SizeEquality>* equalities) {
  const auto* result = type.as<TensorTypeNode>();
  if (result == nullptr || op.GetAttr(kDataDependentShape, false)) return;
  std::vector<TensorType> tensors;
  for (const Type& arg : args) FlattenTensorTypes(arg, &tensors);
  const auto how = BroadcastingOf(op, tensors, result->shape.size());
  if (!how) return;
  const size_t rank = result->shape.size() - how->trailing;
  for (size_t k = how->first; k < tensors.size(); ++k) {
    const Array<PrimExpr>& own = tensors[k]->shape;
    for (size_t i = 0; i + how->matrix < own.size() && own.size() <= rank; ++i) {
      const PrimExpr& out = result->shape[i + rank - own.size()];
      if (op->name == "nn.batch_matmul") {  // kernels read a batch for each of the result's, or one where that is known
        const bool one = tir::is_const_int(own[i], 1),
                   known = AsConstInt(own[i]) != nullptr && AsConstInt(out) != nullptr;
        if (!one && !known && !IsAnyDim(out)) equalities->push_back({own[i], out, kEqualDims});
        continue;
      }
      if (const auto size = ops::BroadcastSize(own[i], out)) equalities->push_back({*size, out, kEqualDims});
    }
  }
}

/// The only dimension of two shapes of one rank whose sizes aren't shown to be the same; -1 without exactly one.
int OnlyOtherDimension(const Array<PrimExpr>& from, const Array<PrimExpr>& to) {
  if (from.size() != to.size()) return -1;
  int other = -1;
  for (size_t i = 0; i < to.size(); ++i) {
    if (ops::SameDim(from[i], to[i])) continue;
    if (other >= 0) return -1;
    other = static_cast<int>(i);
  }
  return other;
}

Array<PrimExpr> WithoutOnes(const Array<PrimExpr>& shape) {
  Array<PrimExpr> rest;
  for (const PrimExpr& dim : shape) {
    if (!tir::is_const_int(dim, 1)) rest.push_back(dim);
  }
  return rest;
}

/// A reshape keeps the number of elements: where one dimension alone may differ, its sizes tell a user more. Nothing
/// has to be so where there are no elements.
SizeEquality ElementsKept(const Array<PrimExpr>& before, const Array<PrimExpr>& after) {
  const Array<PrimExpr> from = WithoutOnes(before), to = WithoutOnes(after);
  const int other = OnlyOtherDimension(from, to);
  if (other < 0) {
    return {ops::DimProduct(from, 0, from.size()), ops::DimProduct(to, 0, to.size()),
            "a reshape keeps the number of elements"};
  }
  const auto dimension = static_cast<size_t>(other);
  PrimExpr any(int64_t{1});  // 0 where another dimension is
  for (size_t i = 0; i < to.size(); ++i) {
    if (i != dimension) any = tir::min(any, tir::cast(DataType::Int(64), to[i]));
  }
  return {from[dimension] * any, to[dimension] * any,
          "a reshape keeps the number of elements: size of a dimension, and what is expected"};
}

/// What only relabels the shape keeps the number of elements: of a reshape checked first, as it tells more than what is
/// left of a division.
void RequireElements(const Op& op, const Type& type, const Array<Type>& args, std::vector<SizeEquality>* equalities) {
  if (!op.GetAttr(kReshapeOp, false) || TypeHasAny(type)) return;
  const auto *from = args[0].as<TensorTypeNode>(), *to = type.as<TensorTypeNode>();
  equalities->insert(op->name == "reshape" ? equalities->begin() : equalities->end(),
                     ElementsKept(from->shape, to->shape));
}

/// What is expanded to a shape that only the run knows has dimensions of it, or 1.
void RequireExpandable(const Op& op, const Type& type, const Array<Type>& args, std::vector<SizeEquality>* equalities) {
  if (op->name != "dyn.broadcast_to") return;
  const Array<PrimExpr>&own = args[0].as<TensorTypeNode>()->shape, &out = type.as<TensorTypeNode>()->shape;
  for (size_t i = 1; i <= own.size(); ++i) {
    const PrimExpr& to = out[out.size() - i];
    if (const auto size = ops::BroadcastSize(own[own.size() - i], to)) equalities->push_back({*size, to, kEqualDims});
  }
}

void CollectFactors(const PrimExpr& dim, std::vector<PrimExpr>* factors) {
  if (const auto* product = dim.as<tir::MulNode>()) {
    CollectFactors(product->a, factors);
    CollectFactors(product->b, factors);
  } else {
    factors->push_back(dim);
  }
}

/// Whether a dimension that only the run knows is multiplied so often that it may be beyond 64 bits.
bool MayOverflow(const Type& type) {
  constexpr int64_t kSafe = int64_t{1} << 15;  // times what any tensor's dimension can be
  const auto* tensor = type.as<TensorTypeNode>();
  return tensor != nullptr && std::any_of(tensor->shape.begin(), tensor->shape.end(), [](const PrimExpr& dim) {
           std::vector<PrimExpr> factors;
           if (AsConstInt(dim) == nullptr) CollectFactors(dim, &factors);
           return std::any_of(factors.begin(), factors.end(), [](const PrimExpr& factor) {
             const int64_t* number = AsConstInt(factor);
             return number != nullptr && *number > kSafe;
           });
         });
}

/// Whether a call has a dimension that none of its arguments has, as a tensor that is repeated.
bool MakesDimensions(const Op& op, const TensorTypeNode* result, const Array<Type>& args) {
  const bool broadcasts = op->num_inputs > 1 && BroadcastsByPosition(op);
  if (broadcasts || op.GetAttr(kReshapeOp, false)) return false;
  std::vector<TensorType> tensors;
  for (const Type& arg : args) FlattenTensorTypes(arg, &tensors);
  return std::any_of(result->shape.begin(), result->shape.end(), [&](const PrimExpr& dim) {
    return AsConstInt(dim) == nullptr && std::none_of(tensors.begin(), tensors.end(), [&](const TensorType& tensor) {
             return std::any_of(tensor->shape.begin(), tensor->shape.end(),
                                [&](const PrimExpr& own) { return ops::SameDim(own, dim); });
           });
  });
}

/// What a kernel computes but never stores is limited as what it stores: loops over it would have no end.
void RequireLimit(const Op& op, const Type& type, const Array<Type>& args, std::vector<SizeEquality>* equalities) {
  const auto* result = type.as<TensorTypeNode>();
  if (result == nullptr || TypeHasAny(type) || !MakesDimensions(op, result, args)) return;
  std::vector<PrimExpr> factors;
  for (const PrimExpr& dim : result->shape) CollectFactors(tir::cast(DataType::Int(64), dim), &factors);
  const PrimExpr one(int64_t{1});
  PrimExpr any = one;  // 0 where there are no elements
  for (const PrimExpr& factor : factors) any = tir::min(any, factor);
  PrimExpr room(runtime::MaxTensorBytes() / std::max(1, result->dtype.bits() / 8));
  for (const PrimExpr& factor : factors) {
    equalities->push_back({tir::max(factor * tir::max(any, PrimExpr(int64_t{0})), room), room,
                           "a tensor is larger than --max-tensor-bytes allows: a factor of its number of elements, and "
                           "what it may be at most"});
    room = tir::floordiv(room, tir::max(factor, one));
  }
}

/// What the entries of a list that only the run knows have to keep: copies of what is repeated aren't negative, and a 0
/// of a new shape copies a dimension of the operand. Neither shows in the size of a result without elements.
void RequireEntries(const Op& op, const Attrs& attrs, const Array<TensorType>& operands, const ops::ElementOf& element,
                    std::vector<SizeEquality>* equalities) {
  const bool tiles = op->name == "dyn.tile";
  const auto* reshape = op->name == "dyn.reshape" ? attrs.as<ops::ReshapeAttrs>() : nullptr;
  if (!tiles && (reshape == nullptr || reshape->allowzero)) return;
  const int64_t length = *AsConstInt(operands[1]->shape[0]), rank = static_cast<int64_t>(operands[0]->shape.size());
  const PrimExpr zero(int64_t{0});
  for (int64_t i = tiles ? 0 : rank; i < length; ++i) {
    const PrimExpr entry = tir::cast(DataType::Int(64), element(1, i));
    if (tiles) {
      equalities->push_back(
          {tir::min(entry, zero), zero, StrCat("repeat ", i, " is negative: it and the least that it may be")});
    } else {
      const PrimExpr last(rank - 1);
      equalities->push_back(
          {tir::select(tir::equal(entry, zero), PrimExpr(i), last), last,
           "a 0 of the new shape copies the operand's dimension of its index: the index, and the last "
           "that the operand has"});
    }
  }
}

/// Batch dimensions of a product that nothing shows to be the same have to be when it runs: what may have to be
/// broadcast is, before the product.
Type WithEqualBatches(const Type& type, const Array<Type>& args, std::vector<SizeEquality>* equalities) {
  const auto *result = type.as<TensorTypeNode>(), *a = args[0].as<TensorTypeNode>(), *b = args[1].as<TensorTypeNode>();
  if (a == nullptr || b == nullptr || a->shape.size() != b->shape.size()) return type;
  Array<PrimExpr> shape = result->shape;
  for (size_t i = 0; i + 2 < shape.size(); ++i) {
    if (!IsAnyDim(shape[i])) continue;
    shape.Set(i, a->shape[i]);
    equalities->push_back({a->shape[i], b->shape[i], kEqualDims});
  }
  return TensorType(shape, result->dtype);
}

/// Expressions of the caller's dimensions as -1, "not known": a kernel has variables of its own.
Array<PrimExpr> WithoutSymbols(const Array<PrimExpr>& sizes) {
  return sizes.Map([](const PrimExpr& size) { return AsConstInt(size) != nullptr ? size : PrimExpr(int64_t{-1}); });
}

/// What the importer knew of a result's shape, in terms of the caller, is left out: it is found anew.
Attrs OwnAttrs(const Attrs& attrs) {
  if (const auto* reshape = attrs.as<ops::ReshapeAttrs>()) {
    auto own = MakeObject<ops::ReshapeAttrs>(*reshape);
    own->newshape = WithoutSymbols(own->newshape);
    return Attrs(own);
  }
  if (const auto* init = attrs.as<ops::InitOpAttrs>()) {
    auto own = MakeObject<ops::InitOpAttrs>(*init);
    own->shape = WithoutSymbols(own->shape);
    return Attrs(own);
  }
  if (const auto* resize = attrs.as<ops::Resize2DAttrs>()) {
    auto own = MakeObject<ops::Resize2DAttrs>(*resize);
    own->size = WithoutSymbols(own->size);
    return Attrs(own);
  }
  return attrs;
}

/// A dimension of the caller that is what follows from others: an expression of a kernel's variables.
struct DerivedDim {
  PrimExpr value, expression;
  Array<tir::Var> variables;
  std::vector<PrimExpr> values;  ///< of the variables
};

class KernelMaker {
 public:
  /// `derived`: dimensions that have no variables of their own.
  KernelMaker(const relay::Function& func, const Array<Type>& arg_types, const ArgumentElement& element,
              arith::Analyzer* analyzer, std::vector<DerivedDim> derived)
      : func_(func), arg_types_(arg_types), element_(element), analyzer_(analyzer), derived_(std::move(derived)) {}

  /// Dimensions with variables of their own that operands have where others have expressions which are the same in the
  /// caller's terms: results of two convolutions of one image, say, of which one is a parameter.
  std::vector<DerivedDim> found;

  SymbolicKernel Run() {
    TREADLE_ICHECK(func_->params.size() == arg_types_.size()) << "call of a kernel with another number of arguments";
    Array<relay::Var> params;
    for (size_t i = 0; i < func_->params.size(); ++i) {
      Type type = CanonicalType(arg_types_[i]);
      relay::Var var("p" + std::to_string(i), type, func_->params[i]->span);
      SetType(var, type);
      memo_[func_->params[i]] = var;
      params.push_back(var);
      std::vector<TensorType> tensors;
      FlattenTensorTypes(type, &tensors);
      first_tensor_[func_->params[i].get()] = num_tensors_;
      num_tensors_ += tensors.size();
    }
    relay::PostOrderVisit(func_->body, [this](const Expr& e) {
      if (e.as<OpNode>() == nullptr && memo_.count(e) == 0) memo_[e] = Rebuild(e);
    });
    Expr body = memo_.at(func_->body);
    FlattenTensorTypes(body->checked_type(), &result_.results);
    result_.func = relay::Function(params, body, body->checked_type(), {}, func_->attrs, func_->span);
    return std::move(result_);
  }

 private:
  static void SetType(const Expr& e, const Type& type) { const_cast<RelayExprNode*>(e.get())->checked_type_ = type; }

  /// What stands for a dimension of the caller: a variable, or a multiple of one where that is known, so that what
  /// divides the multiple has no tails.
  PrimExpr Canonical(const PrimExpr& dim) {
    if (AsConstInt(dim) != nullptr) return dim;
    const arith::ModularSet known = analyzer_->Modular(dim);
    const bool is_multiple = known.coeff > 1 && known.base % known.coeff == 0;
    const PrimExpr multiple(is_multiple ? known.coeff : int64_t{1});
    const PrimExpr value = is_multiple ? analyzer_->Simplify(tir::floordiv(dim, multiple)) : dim;
    result_.has_multiples = result_.has_multiples || is_multiple;
    for (size_t i = 0; i < result_.values.size(); ++i) {
      if (arith::ExprDeepEqual(result_.values[i], value)) return tir::mul(result_.variables[i], multiple);
    }
    for (const DerivedDim& dim_of : derived_) {
      if (!arith::ExprDeepEqual(dim_of.value, value)) continue;
      std::vector<PrimExpr> terms;
      for (const PrimExpr& of : dim_of.values) terms.push_back(Canonical(of));
      return tir::mul(SubstituteDims(dim_of.expression, dim_of.variables, terms), multiple);
    }
    result_.variables.push_back(CanonicalVar(result_.variables.size()));
    result_.values.push_back(value);
    return tir::mul(result_.variables.back(), multiple);
  }

  Type CanonicalType(const Type& type) {
    if (const auto* tensor = type.as<TensorTypeNode>()) {
      return TensorType(tensor->shape.Map([this](const PrimExpr& dim) { return Canonical(dim); }), tensor->dtype);
    }
    const auto* tuple = type.as<TupleTypeNode>();
    TREADLE_ICHECK(tuple != nullptr) << "kernels take tensors, not " << type->type_key();
    return TupleType(tuple->fields.Map([this](const Type& field) { return CanonicalType(field); }));
  }

  Expr Rebuild(const Expr& e) {
    if (const auto* constant = e.as<relay::ConstantNode>()) {
      relay::Constant copy(constant->data, e->span);
      SetType(copy, TensorType(constant->data.shape(), constant->data.dtype()));
      return copy;
    }
    if (const auto* tuple = e.as<relay::TupleNode>()) {
      Array<Expr> fields = tuple->fields.Map([this](const Expr& field) { return memo_.at(field); });
      relay::Tuple copy(fields, e->span);
      Array<Type> types;
      for (const Expr& field : fields) types.push_back(field->checked_type());
      SetType(copy, TupleType(types));
      return copy;
    }
    if (const auto* item = e.as<relay::TupleGetItemNode>()) {
      Expr tuple = memo_.at(item->tuple);
      relay::TupleGetItem copy(tuple, item->index, e->span);
      SetType(copy, tuple->type_as<TupleTypeNode>()->fields[static_cast<size_t>(item->index)]);
      return copy;
    }
    const auto* call = e.as<CallNode>();
    TREADLE_ICHECK(call != nullptr && call->op.as<OpNode>()) << "a kernel holds a " << e->type_key();
    return RebuildCall(call);
  }

  Expr RebuildCall(const CallNode* call) {
    Array<Expr> args = call->args.Map([this](const Expr& arg) { return memo_.at(arg); });
    Array<Type> types;
    for (const Expr& arg : args) types.push_back(arg->checked_type());
    Op op = Downcast<Op>(call->op);
    if (BroadcastsByPosition(op)) FindDerived(types);
    std::vector<SizeEquality> equalities;
    const Attrs attrs = OwnAttrs(call->attrs);
    Type type = InferSymbolic(op, types, attrs, call->span, &equalities);
    if (TypeHasAny(type)) type = ShapeFromValues(call, op, types, type, &equalities);
    RequireElements(op, type, types, &equalities);
    RequireExpandable(op, type, types, &equalities);
    // What is stored is limited when it is allocated, unless the product wraps to less by then.
    if (call != func_->body.get() || MayOverflow(type)) RequireLimit(op, type, types, &equalities);
    const Span& place = call->span.defined() ? call->span : func_->body->span;
    for (const SizeEquality& e : equalities) {
      result_.equalities.push_back({ToCaller(e.found), ToCaller(e.expected), e.rule, place});
    }
    relay::Call copy(call->op, args, attrs, call->type_args, call->span);
    SetType(copy, type);
    return copy;
  }

  void FindDerived(const Array<Type>& types) {
    std::vector<TensorType> tensors;
    for (const Type& type : types) FlattenTensorTypes(type, &tensors);
    for (size_t k = 1; k < tensors.size(); ++k) {
      const Array<PrimExpr>&a = tensors[0]->shape, &b = tensors[k]->shape;
      for (size_t i = 1; i <= std::min(a.size(), b.size()); ++i) FindDerived(a[a.size() - i], b[b.size() - i]);
    }
  }

  void FindDerived(const PrimExpr& x, const PrimExpr& y) {
    const bool is_variable = x.as<tir::VarNode>() != nullptr;
    const auto* variable = (is_variable ? x : y).as<tir::VarNode>();
    const PrimExpr& expression = is_variable ? y : x;
    if (variable == nullptr || expression.as<tir::VarNode>() != nullptr || AsConstInt(expression) != nullptr) return;
    if (!analyzer_->CanProveEqual(ToCaller(x), ToCaller(y))) return;
    DerivedDim dim{{}, expression, {}, {}};
    for (size_t i = 0; i < result_.variables.size(); ++i) {
      const tir::Var& own = result_.variables[i];
      if (own.get() == variable) dim.value = result_.values[i];
      if (!arith::UsesVar(expression, [&](const tir::VarNode* var) { return var == own.get(); })) continue;
      dim.variables.push_back(own);
      dim.values.push_back(result_.values[i]);
    }
    if (dim.value.defined() && !FollowFrom(dim.values, dim.value)) found.push_back(std::move(dim));
  }

  /// Whether one of `values` is `value`, or derived from it: it would be explained by itself.
  bool FollowFrom(std::vector<PrimExpr> values, const PrimExpr& value) const {
    const auto among = [&](const PrimExpr& of) {
      return std::any_of(values.begin(), values.end(), [&](const PrimExpr& v) { return arith::ExprDeepEqual(v, of); });
    };
    for (size_t i = 0; i < values.size(); ++i) {
      for (const DerivedDim& dim : found) {
        if (!arith::ExprDeepEqual(dim.value, values[i])) continue;
        for (const PrimExpr& of : dim.values) {
          if (!among(of)) values.push_back(of);
        }
      }
    }
    return among(value);
  }

  PrimExpr ToCaller(const PrimExpr& dim) const { return SubstituteDims(dim, result_.variables, result_.values); }

  /// Runs the operator's shape function, in the caller's terms, on the elements of the call's arguments.
  Type ShapeFromValues(const CallNode* call, const Op& op, const Array<Type>& types, const Type& type,
                       std::vector<SizeEquality>* equalities) {
    const auto* shape_function = op.GetAttr(ops::kShapeFunction);
    std::string place = call->span.defined() ? call->span.str() : op->name;
    if (shape_function == nullptr) {
      throw UnsupportedOpError(
          StrCat("the shape of the result of '", op->name, "' (at ", place, ") can't be computed when the model runs"),
          {place});
    }
    Array<TensorType> operands;
    std::vector<std::pair<Expr, size_t>> sources;  // argument, and which of its tensors
    for (size_t i = 0; i < types.size(); ++i) {
      std::vector<TensorType> tensors;
      FlattenTensorTypes(types[i], &tensors);
      for (size_t k = 0; k < tensors.size(); ++k) {
        Array<PrimExpr> shape = tensors[k]->shape.Map([this](const PrimExpr& dim) { return ToCaller(dim); });
        operands.push_back(TensorType(shape, tensors[k]->dtype));
        sources.emplace_back(call->args[i], k);
      }
    }
    auto element = [&](size_t operand, int64_t index) -> PrimExpr {
      const auto& [source, k] = sources[operand];
      auto it = first_tensor_.find(source.get());
      if (it != first_tensor_.end()) return element_(it->second + k, index);
      const auto* constant = memo_.at(source).as<relay::ConstantNode>();
      TREADLE_ICHECK(constant != nullptr) << "the shape of " << op->name << " depends on a value within its kernel";
      throw InternalError("internal error: shape operand wasn't folded");
    };
    std::map<std::pair<size_t, int64_t>, PrimExpr> read;
    auto element_once = [&](size_t operand, int64_t index) -> PrimExpr {
      auto it = read.find({operand, index});
      return it != read.end() ? it->second : read[{operand, index}] = element(operand, index);
    };
    Array<Array<PrimExpr>> shapes = (*shape_function)(call->attrs, operands, element_once);
    RequireEntries(op, call->attrs, operands, element_once, equalities);
    if (op->name == "dyn.broadcast_to") {
      // What is asked for has to be 1 or a dimension of the result, as the operand's.
      const auto length = static_cast<size_t>(*AsConstInt(operands[1]->shape[0])), rank = shapes[0].size();
      for (size_t i = 0; i < length; ++i) {
        const PrimExpr& out = shapes[0][rank - length + i];
        const auto size = ops::BroadcastSize(element_once(1, static_cast<int64_t>(i)), out);
        if (size) equalities->push_back({*size, out, kEqualDims});
      }
    }
    size_t next = 0;
    return WithShapes(type, shapes, &next, equalities);
  }

  Type WithShapes(const Type& type, const Array<Array<PrimExpr>>& shapes, size_t* next,
                  std::vector<SizeEquality>* equalities) {
    if (const auto* tuple = type.as<TupleTypeNode>()) {
      Array<Type> fields;
      for (const Type& field : tuple->fields) fields.push_back(WithShapes(field, shapes, next, equalities));
      return TupleType(fields);
    }
    const Array<PrimExpr>& shape = shapes[(*next)++];
    const auto* ruled = type.as<TensorTypeNode>();
    Array<PrimExpr> dims;
    for (size_t i = 0; i < shape.size(); ++i) {
      const PrimExpr dim = analyzer_->Simplify(shape[i]);
      // What the type rule knows is better than an element that only the run reads; they are compared there.
      const bool known =
          i < ruled->shape.size() && AsConstInt(ruled->shape[i]) != nullptr && AsConstInt(dim) == nullptr;
      if (known) equalities->push_back({dim, ruled->shape[i], kEqualDims});
      dims.push_back(known ? ruled->shape[i] : Canonical(dim));
    }
    return TensorType(dims, ruled->dtype);
  }

  const relay::Function& func_;
  const Array<Type>& arg_types_;
  const ArgumentElement& element_;
  arith::Analyzer* analyzer_;
  const std::vector<DerivedDim> derived_;
  SymbolicKernel result_;
  size_t num_tensors_ = 0;
  std::unordered_map<const Object*, size_t> first_tensor_;
  std::unordered_map<Expr, Expr, ObjectPtrHash, ObjectPtrEqual> memo_;
};

}  // namespace

void FlattenTensorTypes(const Type& type, std::vector<TensorType>* out) {
  if (const auto* tuple = type.as<TupleTypeNode>()) {
    for (const Type& field : tuple->fields) FlattenTensorTypes(field, out);
  } else {
    TREADLE_ICHECK(type.as<TensorTypeNode>() != nullptr) << "kernels take and give tensors, not " << type->type_key();
    out->push_back(Downcast<TensorType>(type));
  }
}

Type InferSymbolic(const Op& op, const Array<Type>& arg_types, const Attrs& attrs, const Span& span,
                   std::vector<SizeEquality>* equalities) {
  TREADLE_ICHECK(op->type_relation != nullptr) << "operator " << op->name << " has no type relation";
  Array<Type> types = arg_types;
  IncompleteType hole(TypeKind::kType);
  types.push_back(hole);
  SymbolicReporter reporter(hole);
  bool done = op->type_relation(types, static_cast<int>(arg_types.size()), attrs, reporter);
  if (!reporter.error.empty()) {
    throw ShapeError(
        StrCat(span.defined() ? "'" + span.str() + "' (" + op->name + "): " : op->name + ": ", reporter.error));
  }
  TREADLE_ICHECK(done && reporter.result.defined()) << "type of a call of " << op->name << " stays unknown";
  equalities->insert(equalities->end(), reporter.equalities.begin(), reporter.equalities.end());
  Type type = reporter.result;
  if (BroadcastsByPosition(op) && !op.GetAttr(kDataDependentShape, false) && type.as<TensorTypeNode>() != nullptr &&
      TypeHasAny(type)) {
    type = BroadcastAny(type, arg_types);
  }
  if (op->name == "nn.batch_matmul" && TypeHasAny(type)) type = WithEqualBatches(type, arg_types, equalities);
  RequireBroadcast(op, type, arg_types, equalities);
  return type;
}

Type InferCall(const CallNode* call, const Array<Type>& arg_types, std::vector<SizeEquality>* equalities) {
  const Op op = Downcast<Op>(call->op);
  const Type type = InferSymbolic(op, arg_types, OwnAttrs(call->attrs), call->span, equalities);
  if (!TypeHasAny(type)) RequireElements(op, type, arg_types, equalities);
  return type;
}

PrimExpr SubstituteDims(const PrimExpr& expr, const Array<tir::Var>& variables, const std::vector<PrimExpr>& values) {
  if (AsConstInt(expr) != nullptr) return expr;
  return DimSubstitute(variables, values)(expr);
}

void CollectBroadcast(const PrimExpr& dim, std::vector<PrimExpr>* out) {
  // select(a == 1, b, a) is that of a and b.
  if (const auto* select = dim.as<tir::SelectNode>()) {
    const auto* test = select->condition.as<tir::EQNode>();
    if (test != nullptr && tir::is_const_int(test->b, 1) && ops::SameDim(test->a, select->false_value)) {
      CollectBroadcast(select->false_value, out);
      return CollectBroadcast(select->true_value, out);
    }
  }
  out->push_back(dim);
}

SymbolicKernel MakeSymbolicKernel(const relay::Function& func, const Array<Type>& arg_types,
                                  const ArgumentElement& element, arith::Analyzer* analyzer) {
  KernelMaker maker(func, arg_types, element, analyzer, {});
  SymbolicKernel kernel = maker.Run();
  if (maker.found.empty()) return kernel;
  return KernelMaker(func, arg_types, element, analyzer, std::move(maker.found)).Run();
}

}  // namespace treadle::driver
