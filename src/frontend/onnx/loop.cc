// SPDX-License-Identifier: Apache-2.0
// Control flow that only the run decides: If as a branch, Loop and Scan as functions that call themselves.
#include "frontend/onnx/loop.h"

#include <algorithm>

#include "frontend/onnx/checked_values.h"
#include "frontend/onnx/compose.h"
#include "frontend/onnx/values.h"
#include "treadle/ir/structural.h"
#include "treadle/ops/attrs/host.h"

namespace treadle::onnx {
namespace {

using relay::Expr;
using relay::Var;
using Ints = std::vector<int64_t>;

const DataType kInt64 = DataType::Int(64);

template <typename E>
E WithType(E expr, const Type& type) {
  const_cast<RelayExprNode*>(static_cast<const RelayExprNode*>(expr.get()))->checked_type_ = type;
  return expr;
}

TensorType TensorTypeOf(const Expr& e) { return TensorType(TypeOf(e)->shape, TypeOf(e)->dtype); }

/// Whether the second type, which both have in common, knows as much as the first.
bool SameType(const Type& a, const Type& b) {
  const auto *x = a.as<TensorTypeNode>(), *y = b.as<TensorTypeNode>();
  if (x == nullptr || y == nullptr) return StructuralEqual(a, b);
  for (size_t i = 0; i < x->shape.size(); ++i) {
    if (IsAnyDim(x->shape[i]) != IsAnyDim(y->shape[i])) return false;
  }
  return true;
}

Expr ScalarOf(ExprBuilder& n, const Expr& e) { return TypeOf(e)->shape.empty() ? e : n.Reshape(e, Ints{}); }

Expr IntScalar(NodeImport& n, int64_t value) { return n.Const(ArrayOf(Ints{value}, Ints{}, kInt64)); }

/// A body's input may be declared as a vector of one element where a scalar is meant.
Expr ShapedAs(NodeImport& n, const Expr& scalar, const ValueInfo& declared) {
  bool vector = declared.type.shape && declared.type.shape->size() == 1;
  return vector ? n.Reshape(scalar, Ints{1}) : scalar;
}

/// No rows yet of what has the type of `row`.
Expr NoRows(NodeImport& n, const TensorType& row) {
  Ints shape{0};
  for (const PrimExpr& dim : row->shape) shape.push_back(AsConstInt(dim) != nullptr ? *AsConstInt(dim) : 0);
  return n.Const(NDArray::Empty(shape, row->dtype));
}

TensorType RowsType(const TensorType& row) {
  Array<PrimExpr> shape{AnyDim()};
  for (const PrimExpr& dim : row->shape) shape.push_back(AsConstInt(dim) != nullptr ? dim : AnyDim());
  return TensorType(shape, row->dtype);
}

using Trip = LoopTrip;
using TripFn = LoopTripFn;

/// A loop of at most `limit` trips while `go_on`: the values carried out of it, then the rows that each trip gave, one
/// tensor each. A global function that calls itself in tail position. Throws RankFork where the first trip changes the
/// rank of a carried value, and only the run knows whether there is one.
class LoopMaker {
 public:
  LoopMaker(NodeImport& n, std::vector<Expr> carried, Expr limit, Expr go_on, TripFn trip)
      : n_(n), init_(std::move(carried)), limit_(std::move(limit)), go_on_(std::move(go_on)), trip_(std::move(trip)) {}

  std::vector<Expr> Run() {
    for (const Expr& value : init_) types_.push_back(CarriedType(value));
    constexpr int kMaxRounds = 16;
    for (int round = 0;; ++round) {
      if (round == kMaxRounds) n_.Unsupported("the shapes of the loop's values don't settle");
      const bool settled = Try();
      if (changes_rank_) return PeelFirst();
      if (settled) break;
    }
    return Finish();
  }

 private:
  /// Imports the body with the carried types as they are; false where they have to become more general.
  bool Try() {
    function_ = n_.OpenFunction("loop");
    number_ = MakeVar("trip", TensorType::Scalar(kInt64), Span());
    limit_var_ = MakeVar("limit", TensorType::Scalar(kInt64), Span());
    go_on_var_ = MakeVar("go_on", TensorType::Scalar(DataType::Bool()), Span());
    params_.clear();
    std::vector<Expr> values;
    for (const Type& type : types_) {
      params_.push_back(MakeVar(StrCat("carried", params_.size()), type, Span()));
      values.push_back(params_.back());
    }
    body_ = trip_(values, number_);
    captured_ = n_.CloseFunction();
    for (size_t i = 0; i < types_.size() && !peeled_; ++i) {
      const auto *before = types_[i].as<TensorTypeNode>(), *after = body_.carried[i]->type_as<TensorTypeNode>();
      changes_rank_ |= before != nullptr && after != nullptr && before->shape.size() != after->shape.size();
    }
    if (changes_rank_) return false;
    bool settled = true;
    for (size_t i = 0; i < types_.size(); ++i) {
      Type common = CommonType(types_[i], body_.carried[i]->checked_type(), StrCat("carried value ", i));
      settled = settled && SameType(types_[i], common);
      types_[i] = common;
    }
    return settled;
  }

  /// The first trip before a loop of the others. Exporters of languages without declarations carry scalars in place of
  /// tensors that nobody reads before a trip has written them.
  std::vector<Expr> PeelFirst() {
    const Expr runs = n_.Call("logical_and", {go_on_, n_.Call("less", {IntScalar(n_, 0), limit_})});
    const Trip first = trip_(init_, IntScalar(n_, 0));
    LoopMaker others(n_, first.carried, limit_, first.go_on.defined() ? ScalarOf(n_, first.go_on) : go_on_, trip_);
    others.peeled_ = true;
    others.first_rows_ = first.rows;
    std::vector<Expr> some = others.Run(), none = init_;
    const std::vector<bool> results = n_.text_results();
    const size_t count = std::min(results.size(), some.size() + 1);
    for (const Expr& row : first.rows) none.push_back(NoRows(n_, TensorTypeOf(row)));
    const auto known = n_.KnownElements(runs);
    if (known) return (*known)[0] != 0 ? some : none;
    std::vector<bool> text(results.begin() + 1, results.begin() + static_cast<std::ptrdiff_t>(count));
    text.resize(some.size());
    throw RankFork{runs, {some, nullptr, ""}, {none, nullptr, ""}, text};
  }

  std::vector<Expr> Finish() {
    Array<Var> params{number_, limit_var_, go_on_var_};
    Array<Type> param_types{number_->checked_type(), limit_var_->checked_type(), go_on_var_->checked_type()};
    Array<Expr> again{n_.Call("add", {number_, IntScalar(n_, 1)}), limit_var_,
                      body_.go_on.defined() ? ScalarOf(n_, body_.go_on) : Expr(go_on_var_)};
    Array<Expr> results, start{IntScalar(n_, peeled_ ? 1 : 0), limit_, go_on_};
    Array<Type> result_types;
    auto add = [&](const Var& var, const Expr& next, const Expr& init, bool is_result) {
      params.push_back(var);
      param_types.push_back(var->checked_type());
      again.push_back(next);
      start.push_back(init);
      if (!is_result) return;
      results.push_back(var);
      result_types.push_back(var->checked_type());
    };
    for (size_t i = 0; i < types_.size(); ++i) {
      add(params_[i], AsType(n_, body_.carried[i], types_[i]), AsType(n_, init_[i], types_[i]), true);
    }
    for (size_t i = 0; i < body_.rows.size(); ++i) {
      TensorType row = TensorTypeOf(body_.rows[i]), type = RowsType(row);
      Var var = MakeVar(StrCat("rows", i), type, Span());
      Expr next = AsType(n_, n_.Call("dyn.append", {var, body_.rows[i]}), type);
      const Expr rows = peeled_ ? n_.ExpandDims(first_rows_[i], 0) : NoRows(n_, row);
      add(var, next, AsType(n_, rows, type), true);
    }
    for (const auto& [var, outer] : captured_) add(var, var, outer, false);
    TupleType result(result_types);
    Expr recursion = WithType(relay::Call(function_, again, Attrs(), {}, n_.span()), result);
    Expr more = n_.Call("logical_and", {go_on_var_, n_.Call("less", {number_, limit_var_})});
    Expr body = WithType(relay::If(more, recursion, n_.MakeTuple(results), n_.span()), result);
    n_.DefineFunction(function_, relay::Function(params, body, result));
    Expr call = WithType(relay::Call(function_, start, Attrs(), {}, n_.span()), result);
    std::vector<Expr> outputs;
    for (size_t i = 0; i < result_types.size(); ++i) outputs.push_back(n_.Item(call, static_cast<int>(i)));
    return outputs;
  }

  NodeImport& n_;
  std::vector<Expr> init_;
  Expr limit_, go_on_;
  TripFn trip_;
  std::vector<Type> types_;
  bool changes_rank_ = false;
  bool peeled_ = false;  ///< the first trip is before the loop, and gave these rows:
  std::vector<Expr> first_rows_;
  GlobalVar function_ = GlobalVar(ObjectPtr<Object>());
  Var number_ = Var(ObjectPtr<Object>()), limit_var_ = Var(ObjectPtr<Object>()), go_on_var_ = Var(ObjectPtr<Object>());
  std::vector<Var> params_;
  Trip body_;
  std::vector<std::pair<Var, Expr>> captured_;
};

/// What a branch that can't be run gives instead of a value of this type: an error with this message. Throws
/// UnsupportedNode of the message where no value can stand for it.
Expr Raised(ExprBuilder& n, const Type& type, const std::string& message) {
  const Type element = ops::ElementOfSequence(type);
  const auto* tensor = (element.defined() ? element : type).as<TensorTypeNode>();
  if (tensor == nullptr) throw UnsupportedNode(message);
  Array<PrimExpr> shape =
      tensor->shape.Map([](const PrimExpr& dim) -> PrimExpr { return AsConstInt(dim) ? dim : PrimExpr(int64_t{-1}); });
  Expr error = n.Call("raise", {}, {{"message", message}, {"shape", ObjectRef(shape)}, {"dtype", tensor->dtype}});
  if (!element.defined()) return error;
  return HostSequence(n, "sequence.insert", {AsSequence(n, n.MakeTuple({})), error}, type);
}

}  // namespace

std::vector<Expr> JoinBranches(ExprBuilder& n, const Expr& condition, const std::vector<Expr>& yes,
                               const std::vector<Expr>& no, const std::string& reason) {
  Array<Expr> then_values, else_values;
  Array<Type> types;
  for (size_t i = 0; i < std::max(yes.size(), no.size()); ++i) {
    Type type = yes.empty()  ? CarriedType(no[i])
                : no.empty() ? CarriedType(yes[i])
                             : CommonType(yes[i]->checked_type(), no[i]->checked_type(),
                                          StrCat("output ", i, " of the branches"));
    auto raise = [&]() -> Expr { return AsType(n, Raised(n, type, reason), type); };
    then_values.push_back(yes.empty() ? raise() : AsType(n, yes[i], type));
    else_values.push_back(no.empty() ? raise() : AsType(n, no[i], type));
    types.push_back(type);
  }
  Expr test = ScalarOf(n, condition);
  if (types.size() == 1) return {WithType(relay::If(test, then_values[0], else_values[0], n.span()), types[0])};
  Expr branch =
      WithType(relay::If(test, n.MakeTuple(then_values), n.MakeTuple(else_values), n.span()), TupleType(types));
  std::vector<Expr> outputs;
  for (size_t i = 0; i < types.size(); ++i) outputs.push_back(n.Item(branch, static_cast<int>(i)));
  return outputs;
}

void CheckKeptType(NodeImport& n, size_t state, const Expr& next, const Expr& before) {
  const auto *a = before.checked_type().as<TensorTypeNode>(), *b = next.checked_type().as<TensorTypeNode>();
  if (a == nullptr || b == nullptr || a->dtype == b->dtype) return;
  n.Invalid(StrCat("state ", state, " is ", b->dtype, " after a trip, and ", a->dtype, " before"));
}

std::vector<Expr> KeptShapes(NodeImport& n, std::vector<Expr> next, const std::vector<Expr>& states) {
  for (size_t i = 0; i < states.size(); ++i) {
    CheckKeptType(n, i, next[i], states[i]);
    const TensorTypeNode *a = TypeOf(states[i]), *b = TypeOf(next[i]);
    if (a->shape.size() != b->shape.size()) {
      n.Invalid(StrCat("state ", i, " has rank ", b->shape.size(), " after a trip, and ", a->shape.size(), " before"));
    }
    bool same = true;
    Array<PrimExpr> hints;
    for (size_t d = 0; d < a->shape.size(); ++d) {
      const int64_t *x = AsConstInt(a->shape[d]), *y = AsConstInt(b->shape[d]);
      if (x != nullptr && y != nullptr && *x != *y) {
        n.Invalid(StrCat("dimension ", d, " of state ", i, " is ", *y, " after a trip, and ", *x, " before"));
      }
      same = same && SameDim(a->shape[d], b->shape[d]);
      const int64_t* known = x != nullptr ? x : y;
      hints.push_back(PrimExpr(known != nullptr && *known > 0 ? *known : int64_t{-1}));
    }
    if (same) continue;
    const Term shape = EqualTo(ShapeOf(Term(n, next[i])), ShapeOf(Term(n, states[i])), "size of a state after a trip");
    next[i] = n.Call("dyn.reshape", {next[i], shape}, {{"newshape", ObjectRef(hints)}, {"allowzero", true}});
  }
  return next;
}

void MarkTextResults(NodeImport& n, size_t first) {
  const std::vector<bool>& text = n.text_results();
  for (size_t i = first; i < text.size(); ++i) {
    if (text[i]) n.MarkText(i - first);
  }
}

std::vector<bool> InputsText(const NodeImport& n) {
  std::vector<bool> text;
  for (size_t i = 0; i < n.num_inputs(); ++i) text.push_back(n.IsText(i));
  return text;
}

std::vector<bool> LoopText(const NodeImport& n) {
  std::vector<bool> text = InputsText(n);
  text.resize(std::max<size_t>(text.size(), 2));
  text[0] = text[1] = false;  // the number of the trip and the condition
  return text;
}

void CheckCarriedText(const NodeImport& n, size_t first_input, size_t count, size_t first_result) {
  for (size_t i = 0; i < count; ++i) {
    if (n.IsText(first_input + i) == n.text_results().at(first_result + i)) continue;
    n.Invalid(StrCat("carried value ", i, " is of strings before or after a trip, but not both"));
  }
}

std::vector<Expr> ImportBranch(NodeImport& n, const Expr& condition) {
  // A branch that doesn't fit the shapes is one that isn't taken with them; it stops the run if it is.
  std::string reasons[2];
  std::vector<bool> text[2];
  std::shared_ptr<const RankFork> forks[2];
  auto branch = [&](int side) -> std::vector<Expr> {
    try {
      std::vector<Expr> outputs = n.ForkingSubgraph(side == 0 ? "then_branch" : "else_branch");
      text[side] = n.text_results();
      for (size_t i = 0; i < text[side].size(); ++i) {
        if (text[side][i]) n.MarkText(i);
      }
      return outputs;
    } catch (const RankFork& fork) {
      forks[side] = std::make_shared<RankFork>(fork);
      text[side] = fork.text;
    } catch (const ShapeError& e) {
      reasons[side] = e.what();
    } catch (const DTypeError& e) {
      reasons[side] = e.what();
    } catch (const ModelFormatError& e) {
      reasons[side] = e.what();
    }
    return {};
  };
  std::vector<Expr> yes = branch(0), no = branch(1);
  if (!reasons[0].empty() && !reasons[1].empty()) throw ShapeError(reasons[0]);
  const bool both = reasons[0].empty() && reasons[1].empty();
  if (both && text[0] != text[1]) n.Invalid("an output is of strings in one branch, and isn't in the other");
  const ForkSide sides[2] = {{yes, forks[0], reasons[0]}, {no, forks[1], reasons[1]}};
  if (forks[0] != nullptr || forks[1] != nullptr) {
    throw RankFork{condition, sides[0], sides[1], text[reasons[0].empty() ? 0 : 1]};
  }
  if (!both) {
    return JoinBranches(n, condition, yes, no, StrCat("this branch can't be run: ", reasons[0], reasons[1]));
  }
  if (yes.size() != no.size()) n.Invalid("the branches have different numbers of outputs");
  if (DifferInRank(sides[0], sides[1])) throw RankFork{condition, sides[0], sides[1], text[0]};
  return JoinBranches(n, condition, yes, no, "");
}

namespace {

/// The condition of a Loop, one bool.
Expr ConditionOf(NodeImport& n, const Expr& condition, const char* what) {
  const DataType dtype = TypeOf(condition)->dtype;
  if (!dtype.is_bool()) n.Invalid(StrCat(what, " is ", dtype, ", expected bool"));
  return ScalarOf(n, condition);
}

}  // namespace

std::vector<Expr> ImportDynamicLoop(NodeImport& n) {
  const Attribute* body = n.Find("body");
  const Graph& graph = *body->g;
  Expr limit = n.Has(0) ? n.Cast(ScalarOf(n, n.In(0)), kInt64) : IntScalar(n, INT64_MAX);
  Expr go_on = n.Has(1) ? ConditionOf(n, n.In(1), "the condition (input 1)")
                        : n.Const(ArrayOf(Ints{1}, Ints{}, DataType::Bool()));
  std::vector<Expr> carried;
  for (size_t i = 2; i < n.num_inputs(); ++i) carried.push_back(n.In(i));
  if (graph.outputs.size() < carried.size() + 1) n.Invalid("the body has too few outputs");
  if (graph.inputs.size() != carried.size() + 2) n.Invalid("the body has another number of inputs");
  auto trip = [&](const std::vector<Expr>& values, const Expr& number) {
    Expr yes = n.Const(ArrayOf(Ints{1}, Ints{}, DataType::Bool()));
    std::vector<Expr> inputs{ShapedAs(n, number, graph.inputs[0]), ShapedAs(n, yes, graph.inputs[1])};
    inputs.insert(inputs.end(), values.begin(), values.end());
    std::vector<Expr> outputs = n.Subgraph("body", inputs, LoopText(n));
    CheckCarriedText(n, 2, values.size(), 1);
    const Expr next = ConditionOf(n, outputs[0], "the condition that the body gives");
    auto first_row = outputs.begin() + 1 + static_cast<std::ptrdiff_t>(values.size());
    return Trip{{outputs.begin() + 1, first_row}, {first_row, outputs.end()}, next};
  };
  return LoopMaker(n, carried, limit, go_on, trip).Run();
}

std::vector<Expr> ImportCountedLoop(NodeImport& n, const std::vector<Expr>& carried, const Expr& length,
                                    const LoopTripFn& trip) {
  Expr yes = n.Const(ArrayOf(Ints{1}, Ints{}, DataType::Bool()));
  return LoopMaker(n, carried, ScalarOf(n, length), yes, trip).Run();
}

namespace {

/// A state with the sizes that the body of a Scan declares for its input `i`. Where only the run knows whether they are
/// those, it is checked then. Slices of sequences may broadcast, as ONNX Runtime has them.
Expr AsDeclared(NodeImport& n, Expr x, size_t i) {
  const Attribute* body = n.Find("body");
  if (i >= body->g->inputs.size()) return x;  // refused with the body
  for (int d = 0; d < RankOf(x); ++d) {
    const int64_t size = n.SizeOf(body->g->inputs[i], static_cast<size_t>(d));
    if (size < 1 || AsConstInt(TypeOf(x)->shape[static_cast<size_t>(d)]) != nullptr) continue;
    Ints shape(static_cast<size_t>(RankOf(x)), 0);  // 0: as it is
    shape[static_cast<size_t>(d)] = size;
    x = n.Reshape(x, shape);
  }
  return x;
}

/// The length of the first sequence, which is that of the others when the model runs.
Expr AllAsLong(NodeImport& n, Expr length, const ScanSpec& spec) {
  const auto size = [&](size_t i) { return TypeOf(spec.sequences[i])->shape[static_cast<size_t>(spec.in_axes[i])]; };
  for (size_t i = 1; i < spec.sequences.size(); ++i) {
    if (!IsAnyDim(size(i)) && StructuralEqual(size(i), size(0))) continue;
    const Term other = DimOf(Term(n, spec.sequences[i]), static_cast<int>(spec.in_axes[i]));
    length = CheckedValues(n, length, "equal", other, "length of the first sequence");
  }
  return length;
}

}  // namespace

std::vector<Expr> ImportDynamicScan(NodeImport& n, const ScanSpec& given) {
  ScanSpec spec = given;
  size_t num_states = spec.states.size();
  for (size_t i = 0; i < num_states; ++i) spec.states[i] = AsDeclared(n, spec.states[i], i);
  const int64_t* trips = AsConstInt(TypeOf(spec.sequences[0])->shape[static_cast<size_t>(spec.in_axes[0])]);
  Expr shape = n.Call("shape_of", {spec.sequences[0]}, {{"dtype", kInt64}});
  Expr length = n.Call("take", {shape, IntScalar(n, spec.in_axes[0])}, {{"axis", int64_t{0}}, {"mode", "error"}});
  length = AllAsLong(n, length, spec);
  // The sequences are carried along: each trip reads a slice of them.
  std::vector<Expr> carried = spec.states;
  carried.insert(carried.end(), spec.sequences.begin(), spec.sequences.end());
  carried.push_back(length);
  auto trip = [&](const std::vector<Expr>& values, const Expr& number) {
    std::vector<Expr> inputs(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(num_states));
    Expr last = n.Call("subtract", {values.back(), IntScalar(n, 1)});
    for (size_t i = 0; i < spec.sequences.size(); ++i) {
      Expr at = spec.in_directions[i] == 0 ? number : n.Call("subtract", {last, number});
      inputs.push_back(n.Call("take", {values[num_states + i], at}, {{"axis", spec.in_axes[i]}, {"mode", "error"}}));
    }
    std::vector<Expr> outputs = n.Subgraph("body", inputs, InputsText(n));
    CheckCarriedText(n, 0, num_states, 0);
    outputs = KeptShapes(n, outputs, {inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(num_states)});
    auto first_row = outputs.begin() + static_cast<std::ptrdiff_t>(num_states);
    Trip result{{outputs.begin(), first_row}, {first_row, outputs.end()}, Expr()};
    result.carried.insert(result.carried.end(), values.begin() + static_cast<std::ptrdiff_t>(num_states), values.end());
    return result;
  };
  std::vector<Expr> all = ImportCountedLoop(n, carried, length, trip);
  std::vector<Expr> outputs(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(num_states));
  for (size_t i = carried.size(); i < all.size(); ++i) {
    size_t k = i - carried.size();
    Expr rows = all[i];
    if (trips != nullptr && *trips > 0) {
      Ints known_length(static_cast<size_t>(RankOf(rows)), 0);  // 0: as it is
      known_length[0] = *trips;
      rows = n.Reshape(rows, known_length);
    }
    if (spec.out_directions[k] != 0) rows = n.Call("reverse", {rows}, {{"axis", int64_t{0}}});
    int rank = RankOf(rows), axis = n.Axis(spec.out_axes[k], rank);
    if (axis != 0) {
      Ints order;
      for (int d = 1; d < rank; ++d) order.push_back(d);
      order.insert(order.begin() + axis, 0);
      rows = n.Transpose(rows, order);
    }
    outputs.push_back(rows);
  }
  return outputs;
}

}  // namespace treadle::onnx
