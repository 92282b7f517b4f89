// SPDX-License-Identifier: Apache-2.0
// SimplifyExpr: algebraic identities, to a fixed point. A rule sees the call with its rewritten arguments and the
// types of the original one; identities of floating-point arithmetic are used only where they hold for all values
// (x + 0, x * 1; not x * 0). One rule rounds once more: DivideGate.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <string>

#include "passes/pass_util.h"
#include "treadle/ir/prim_ops.h"

namespace treadle::relay {
namespace {

/// A call under rewriting: `pre` has types, `call` the rewritten arguments.
struct Site {
  const CallNode* pre;
  const CallNode* call;
  const TensorTypeNode* type() const { return pre->type_as<TensorTypeNode>(); }
  const TensorTypeNode* arg_type(size_t i) const { return pre->args[i]->type_as<TensorTypeNode>(); }
  const Expr arg(size_t i) const { return call->args[i]; }
};

/// A reshape to sizes, of which 0 is one; as a code of reshape it would mean the operand's.
Expr ReshapeToSizes(const Expr& x, const Array<PrimExpr>& shape) {
  const bool empty = std::any_of(shape.begin(), shape.end(), [](const PrimExpr& dim) { return tir::is_zero(dim); });
  return ops::CallWith<ops::ReshapeAttrs>("reshape", {x}, [&](auto& attrs) {
    attrs.newshape = shape;
    attrs.allowzero = empty;
  });
}

/// x_like becomes the concrete form when its type is static.
Expr ConcretizeLike(const Site& site) {
  const std::string& name = OpName(site.call);
  const auto* type = site.type();
  if (type == nullptr || !IsStatic(type)) return Expr();
  if (name == "zeros_like") return ops::MakeZeros(type->shape, type->dtype);
  if (name == "ones_like") return ops::MakeOnes(type->shape, type->dtype);
  if (name == "full_like") return ops::MakeFull(site.arg(1), type->shape, type->dtype);
  if (name == "reshape_like") return ReshapeToSizes(site.arg(0), type->shape);
  if (name == "broadcast_to_like") return ops::MakeBroadcastTo(site.arg(0), type->shape);
  if (name == "collapse_sum_like") {
    std::vector<int32_t> dims;
    for (const PrimExpr& dim : type->shape) dims.push_back(static_cast<int32_t>(*AsConstInt(dim)));
    Constant shape(runtime::NDArray::FromVector(dims, {static_cast<int64_t>(dims.size())}, DataType::Int(32)));
    return ops::CallWith<ops::InitOpAttrs>("collapse_sum_to", {site.arg(0), shape},
                                           [&](auto& a) { a.shape = type->shape; });
  }
  return Expr();
}

/// The number that all elements of a constant, full, zeros or ones have.
std::optional<double> FilledWith(const Expr& expr) {
  if (AsCallOf(expr, "zeros")) return 0;
  if (AsCallOf(expr, "ones")) return 1;
  if (const auto* full = AsCallOf(expr, "full")) return UniformValue(full->args[0]);
  return UniformValue(expr);
}

/// x + 0, 0 + x, x - 0, x * 1, 1 * x, x / 1 where the result has x's type.
Expr DropNeutralOperand(const Site& site) {
  const std::string& name = OpName(site.call);
  bool additive = name == "add" || name == "subtract";
  if (!additive && name != "multiply" && name != "divide") return Expr();
  double neutral = additive ? 0 : 1;
  bool commutes = name == "add" || name == "multiply";
  for (size_t i = 0; i < 2; ++i) {
    if (i == 0 && !commutes) continue;
    auto value = FilledWith(site.arg(i));
    // -0 + 0 is 0, not -0: equal numbers, and x - 0 keeps even the sign.
    if (value == neutral && TypesEqual(site.pre->args[1 - i]->checked_type(), site.pre->checked_type())) {
      return site.arg(1 - i);
    }
  }
  return Expr();
}

/// An operand filled with one number becomes a scalar constant where the other operand has the result's shape.
Expr ScalarOperand(const Site& site) {
  const auto* callee = site.call->op.as<OpNode>();
  if (callee == nullptr || site.call->args.size() != 2 || site.type() == nullptr) return Expr();
  if (GetRef<Op>(callee).GetAttr(kOpPattern, OpPatternKind::kOpaque) != OpPatternKind::kBroadcast) return Expr();
  static const char* const kNames[] = {"add", "subtract", "multiply", "divide", "maximum", "minimum", "power"};
  bool known = false;
  for (const char* name : kNames) known = known || callee->name == name;
  if (!known) return Expr();
  for (size_t i = 0; i < 2; ++i) {
    Expr filled = site.arg(i);
    if (!AsCallOf(filled, "zeros") && !AsCallOf(filled, "ones") && !AsCallOf(filled, "full")) continue;
    auto value = FilledWith(filled);
    const auto* type = site.arg_type(i);
    const auto* other = site.arg_type(1 - i);
    if (!value || type == nullptr || other == nullptr || !ShapesEqual(other->shape, site.type()->shape)) continue;
    Array<Expr> args = site.call->args;
    args.Set(i, ops::ScalarConstant(type->dtype, *value));
    return Call(site.call->op, args, site.call->attrs, site.call->type_args, site.call->span);
  }
  return Expr();
}

/// reshape of reshape is one reshape; a reshape to the same shape is nothing.
Expr MergeReshapes(const Site& site) {
  const auto* type = site.type();
  if (AsCallOf(GetRef<Expr>(site.call), "reshape") == nullptr || type == nullptr) return Expr();
  const auto* from = site.arg_type(0);
  if (from != nullptr && ShapesEqual(from->shape, type->shape)) return site.arg(0);
  const auto* inner = site.arg(0).as<CallNode>();
  if (inner == nullptr) return Expr();
  const auto is_reshape = [](const std::string& name) {
    return name == "reshape" || name == "contrib_reverse_reshape";
  };
  if (!is_reshape(OpName(inner))) return Expr();
  if (IsStatic(type)) return ReshapeToSizes(inner->args[0], type->shape);
  // Of dynamic sizes: there and back, where the operand is the one that has a type.
  const auto* before = site.pre->args[0].as<CallNode>();
  if (before == nullptr || !is_reshape(OpName(before))) return Expr();
  const auto* source = before->args[0].as<CallNode>();
  if (source != nullptr && is_reshape(OpName(source))) return Expr();
  const auto* own = before->args[0]->type_as<TensorTypeNode>();
  return own != nullptr && ShapesEqual(own->shape, type->shape) ? inner->args[0] : Expr();
}

std::vector<int64_t> AxesOf(const CallNode* transpose, size_t rank) {
  const auto* attrs = transpose->attrs_as<ops::TransposeAttrs>();
  std::vector<int64_t> axes(rank);
  if (!attrs->axes) {
    for (size_t i = 0; i < rank; ++i) axes[i] = static_cast<int64_t>(rank - 1 - i);
    return axes;
  }
  for (size_t i = 0; i < rank; ++i) axes[i] = PositiveAxis(static_cast<int>((*attrs->axes)[i]), rank);
  return axes;
}

/// transpose of transpose is one or none.
Expr MergeTransposes(const Site& site) {
  if (AsCallOf(GetRef<Expr>(site.call), "transpose") == nullptr || site.type() == nullptr) return Expr();
  size_t rank = site.type()->shape.size();
  std::vector<int64_t> axes = AxesOf(site.call, rank), identity(rank);
  std::iota(identity.begin(), identity.end(), 0);
  if (axes == identity) return site.arg(0);
  const auto* inner = AsCallOf(site.arg(0), "transpose");
  if (inner == nullptr) return Expr();
  std::vector<int64_t> first = AxesOf(inner, rank), both(rank);
  for (size_t i = 0; i < rank; ++i) both[i] = first[static_cast<size_t>(axes[i])];
  if (both == identity) return inner->args[0];
  return ops::MakeTranspose(inner->args[0], both);
}

/// The split that `parts` are results of, from the first one on in order.
const CallNode* SplitOf(const TupleNode* parts) {
  const CallNode* split = nullptr;
  for (size_t i = 0; i < parts->fields.size(); ++i) {
    const auto* part = parts->fields[i].as<TupleGetItemNode>();
    const auto* from = part == nullptr ? nullptr : AsCallOf(part->tuple, "split");
    if (from == nullptr || part->index != static_cast<int>(i) || (i > 0 && from != split)) return nullptr;
    split = from;
  }
  return split;
}

/// concatenate of all parts of a split: along the same axis nothing, along another one a transpose, which moves the
/// number of the part there.
Expr JoinSplit(const Site& site) {
  const auto* joined = AsCallOf(GetRef<Expr>(site.call), "concatenate");
  if (joined == nullptr || site.type() == nullptr) return Expr();
  const auto *parts = site.arg(0).as<TupleNode>(), *typed = site.pre->args[0].as<TupleNode>();
  const CallNode* split = parts == nullptr ? nullptr : SplitOf(parts);
  const CallNode* before = typed == nullptr ? nullptr : SplitOf(typed);
  if (split == nullptr || before == nullptr) return Expr();
  const auto* all = before->type_as<TupleTypeNode>();
  const auto* whole = before->args[0]->type_as<TensorTypeNode>();
  const size_t rank = site.type()->shape.size(), count = parts->fields.size();
  if (all == nullptr || all->fields.size() != count || whole == nullptr) return Expr();
  const auto from = static_cast<size_t>(PositiveAxis(split->attrs_as<ops::SplitAttrs>()->axis, rank));
  const auto to = static_cast<size_t>(PositiveAxis(joined->attrs_as<ops::ConcatenateAttrs>()->axis, rank));
  if (from == to) return split->args[0];
  if (!IsStatic(whole)) return Expr();
  Array<PrimExpr> numbered;
  std::vector<int64_t> axes;
  for (size_t i = 0; i < rank; ++i) {
    const auto parts_of = i == from ? static_cast<int64_t>(count) : 1;
    if (i == from) numbered.push_back(PrimExpr(parts_of));
    numbered.push_back(PrimExpr(*AsConstInt(whole->shape[i]) / parts_of));
    if (i == to) axes.push_back(static_cast<int64_t>(from));
    axes.push_back(static_cast<int64_t>(i < from ? i : i + 1));
  }
  return ReshapeToSizes(ops::MakeTranspose(ReshapeToSizes(split->args[0], numbered), axes), site.type()->shape);
}

/// layout_transform there and back is nothing; a chain is one.
Expr MergeLayoutTransforms(const Site& site) {
  const auto* outer = AsCallOf(GetRef<Expr>(site.call), "layout_transform");
  if (outer == nullptr) return Expr();
  const auto* attrs = outer->attrs_as<ops::LayoutTransformAttrs>();
  if (attrs->src_layout == attrs->dst_layout) return site.arg(0);
  const auto* inner = AsCallOf(site.arg(0), "layout_transform");
  if (inner == nullptr) return Expr();
  const auto* first = inner->attrs_as<ops::LayoutTransformAttrs>();
  if (first->dst_layout != attrs->src_layout || first->src_layout != attrs->dst_layout) return Expr();
  return inner->args[0];
}

/// A cast to the type that the value has already.
Expr DropCast(const Site& site) {
  const std::string& name = OpName(site.call);
  if (name != "cast" && name != "cast_like") return Expr();
  return TypesEqual(site.pre->args[0]->checked_type(), site.pre->checked_type()) ? site.arg(0) : Expr();
}

/// Gates as exporters write them, clip(..) / c and x * clip(..) / c: times 1 / c, a rounding more, for divisions take
/// many times as long as products.
Expr DivideGate(const Site& site) {
  if (OpName(site.call) != "divide" || site.type() == nullptr || !site.type()->dtype.is_float()) return Expr();
  const auto* gate = site.arg(0).as<CallNode>();
  if (gate == nullptr || gate->op.as<OpNode>() == nullptr) return Expr();
  bool clips = OpName(gate) == "clip";
  if (OpName(gate) == "multiply") {
    for (const Expr& arg : gate->args) clips = clips || AsCallOf(arg, "clip") != nullptr;
  }
  const auto* type = site.arg_type(1);
  std::optional<double> by = clips && type != nullptr ? UniformValue(site.arg(1)) : std::nullopt;
  constexpr double kLeast = 1e-3, kMost = 1e3;
  if (!by || std::abs(*by) < kLeast || std::abs(*by) > kMost) return Expr();
  if (!ShapesEqual(site.arg_type(0)->shape, site.type()->shape)) return Expr();
  static const Op multiply = Op::Get("multiply");
  return Call(multiply, {site.arg(0), ops::ScalarConstant(type->dtype, 1 / *by)}, Attrs(), {}, site.call->span);
}

/// Whether no element is less than 0, or -0; false where that isn't seen.
bool NeverBelowZero(const Expr& e, int depth = 8) {
  if (const auto value = FilledWith(e)) return *value >= 0 && !std::signbit(*value);
  const auto* call = e.as<CallNode>();
  if (call == nullptr || call->op.as<OpNode>() == nullptr || depth == 0) return false;
  static const std::set<std::string> kAlways = {"abs", "exp", "sigmoid"},
                                     kOfAll = {"add",     "multiply",  "divide",      "sum",     "mean",        "sqrt",
                                               "reshape", "transpose", "expand_dims", "squeeze", "broadcast_to"};
  const std::string& name = OpName(call);
  if (kAlways.count(name) != 0) return true;
  if (name == "multiply" && call->args[0].same_as(call->args[1])) return true;
  if (name == "power" && FilledWith(call->args[1]) == 2) return true;
  if (kOfAll.count(name) == 0) return false;
  const auto never = [&](const Expr& arg) { return NeverBelowZero(arg, depth - 1); };
  return std::all_of(call->args.begin(), call->args.end(), never);
}

/// x to the power of 1/2, which differs from the square root at -0 and -infinity.
Expr PowerAsRoot(const Site& site) {
  const CallNode* power = AsCallOf(GetRef<Expr>(site.call), "power");
  const auto* type = site.type();
  if (power == nullptr || type == nullptr || !type->dtype.is_floating() || FilledWith(site.arg(1)) != 0.5)
    return Expr();
  if (!TypesEqual(site.pre->args[0]->checked_type(), site.pre->checked_type())) return Expr();
  return NeverBelowZero(site.arg(0)) ? ops::CallOp("sqrt", {site.arg(0)}, Attrs(), site.call->span) : Expr();
}

/// A division by the deviation of each row, as of norms: times 1 / deviation, a rounding more. Roots are never so small
/// that their reciprocals overflow.
Expr DivideByDeviation(const Site& site) {
  if (OpName(site.call) != "divide" || site.type() == nullptr || !site.type()->dtype.is_float()) return Expr();
  const CallNode* power = AsCallOf(site.arg(1), "power");
  const bool is_root =
      AsCallOf(site.arg(1), "sqrt") != nullptr || (power != nullptr && FilledWith(power->args[1]) == 0.5);
  const auto* by = site.arg_type(1);
  if (!is_root || by == nullptr || by->shape.empty() || site.type()->shape.empty()) return Expr();
  if (!tir::is_one(by->shape.back()) || tir::is_one(site.type()->shape.back())) return Expr();
  const Expr reciprocal =
      ops::CallOp("divide", {ops::ScalarConstant(by->dtype, 1.0), site.arg(1)}, Attrs(), site.call->span);
  return ops::CallOp("multiply", {site.arg(0), reciprocal}, Attrs(), site.call->span);
}

/// Whether `operand` has dimension `from_end` (1: the last) of a result, in which case the others may have one element.
bool HasDimOf(const TensorTypeNode* result, size_t from_end, const TensorTypeNode* operand) {
  if (from_end > operand->shape.size()) return false;
  const PrimExpr& dim = operand->shape[operand->shape.size() - from_end];
  return !IsAnyDim(dim) && ShapesEqual({dim}, {result->shape[result->shape.size() - from_end]});
}

/// x op broadcast_to(y), as of gates that exporters expand, where the operator broadcasts y as well.
Expr DropBroadcast(const Site& site) {
  const auto* type = site.type();
  const bool broadcasts = PatternOf(site.call) == OpPatternKind::kBroadcast && !site.call->attrs.defined();
  if (!broadcasts || site.call->args.size() != 2 || type == nullptr) return Expr();
  for (size_t i = 0; i < 2; ++i) {
    const CallNode *wide = AsCallOf(site.arg(i), "broadcast_to"), *before = AsCallOf(site.pre->args[i], "broadcast_to");
    if (wide == nullptr || before == nullptr) continue;
    const auto *narrow = before->args[0]->type_as<TensorTypeNode>(), *other = site.arg_type(1 - i);
    if (narrow == nullptr || other == nullptr) continue;
    bool same = true;
    for (size_t d = 1; d <= type->shape.size() && same; ++d) {
      same = HasDimOf(type, d, narrow) || HasDimOf(type, d, other);
    }
    if (!same) continue;
    Array<Expr> args = site.call->args;
    args.Set(i, wide->args[0]);
    return Call(site.call->op, args, site.call->attrs, {}, site.call->span);
  }
  return Expr();
}

/// Taps at the edges of a convolution's window that meet nothing but padding (of a wide window over a small image, of
/// wide dilation) are dropped.
Expr DropDeadTaps(const Site& site) {
  if (AsCallOf(GetRef<Expr>(site.call), "nn.conv2d") == nullptr || site.type() == nullptr) return Expr();
  const auto* a = site.call->attrs_as<ops::Conv2DAttrs>();
  auto data = site.arg_type(0) ? ops::ConstInts(site.arg_type(0)->shape) : std::nullopt;
  auto weight = site.arg_type(1) ? ops::ConstInts(site.arg_type(1)->shape) : std::nullopt;
  auto out = ops::ConstInts(site.type()->shape);
  if (!data || !weight || !out || !a->IsIn("NCHW", "OIHW") || site.arg(1).as<ConstantNode>() == nullptr) {
    return Expr();
  }
  std::vector<int64_t> pads = a->padding, begin{0, 0}, end{(*weight)[2], (*weight)[3]};
  if (pads.size() == 1) pads.resize(2, pads[0]);
  if (pads.size() == 2) pads = {pads[0], pads[1], pads[0], pads[1]};
  for (size_t d = 0; d < 2; ++d) {
    const int64_t size = (*data)[2 + d], last = ((*out)[2 + d] - 1) * a->strides[d], step = a->dilation[d];
    // Tap k meets places k * step - pad, ..., that + last.
    auto dead = [&](int64_t k) { return k * step - pads[d] + last < 0 || k * step - pads[d] >= size; };
    while (begin[d] + 1 < end[d] && dead(begin[d])) ++begin[d];
    while (end[d] - 1 > begin[d] && dead(end[d] - 1)) --end[d];
    pads[2 + d] -= ((*weight)[2 + d] - end[d]) * step;
    pads[d] -= begin[d] * step;
    // Elements that no window would meet then have to be cut off instead.
    if (pads[d] < 0 || pads[2 + d] < 0) return Expr();
  }
  if (begin[0] + begin[1] == 0 && end[0] == (*weight)[2] && end[1] == (*weight)[3]) return Expr();
  auto attrs = MakeObject<ops::Conv2DAttrs>(*a);
  attrs->padding = pads;
  if (attrs->kernel_size) attrs->kernel_size = {end[0] - begin[0], end[1] - begin[1]};
  Expr kernel = ops::MakeStridedSlice(site.arg(1), begin, end, {1, 1}, std::vector<int64_t>{2, 3});
  return ops::CallOp("nn.conv2d", {site.arg(0), kernel}, Attrs(ObjectPtr<Object>(attrs)), site.call->span);
}

using Rule = Expr (*)(const Site& site);
constexpr Rule kRules[] = {ConcretizeLike,    DropNeutralOperand, MergeReshapes, MergeTransposes, MergeLayoutTransforms,
                           JoinSplit,         DropCast,           ScalarOperand, PowerAsRoot,     DivideGate,
                           DivideByDeviation, DropBroadcast,      DropDeadTaps};

class ExprSimplifier : public MixedModeMutator {
 public:
  bool changed = false;

 private:
  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    if (pre->op.as<OpNode>() == nullptr) return post;
    Site site{pre, static_cast<const CallNode*>(post.get())};
    for (Rule rule : kRules) {
      Expr result = rule(site);
      if (result.defined()) {
        changed = true;
        return result;
      }
    }
    return post;
  }
};

}  // namespace

namespace transform {

Pass SimplifyExpr() {
  Pass once = CreateModulePass(
      [](IRModule module, const PassContext& context) {
        // Each round needs the types of the one before. A rule removes or simplifies a call, so rounds are few.
        constexpr int kMaxRounds = 16;
        for (int round = 0; round < kMaxRounds; ++round) {
          bool changed = false;
          auto run = [&changed](const Function& func, const IRModule&, const PassContext&) {
            ExprSimplifier simplifier;
            Function result = Downcast<Function>(simplifier.Mutate(func));
            changed = changed || simplifier.changed;
            return result;
          };
          module = CreateFunctionPass(run, {"SimplifyExprRound", 0, {}, ""})(module, context);
          if (!changed) break;
        }
        return module;
      },
      {"SimplifyExpr", 0, {"InferType"}, "Applies algebraic identities"});
  return once;
}

}  // namespace transform
}  // namespace treadle::relay
