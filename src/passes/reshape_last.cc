// SPDX-License-Identifier: Apache-2.0
// ReshapeLast: f(reshape(product)) becomes reshape(f(product)), for functions f of each element, or of it and its
// column (biases, scales). Products of tensors of any rank are imported as those of matrices, with reshapes around
// them. So do functions of each element after a layout that is changed back: the change is scheduled by its dimensions,
// which a reshape joins.
#include "passes/reshape_last.h"

#include <algorithm>
#include <unordered_map>

#include "passes/pass_util.h"
#include "treadle/runtime/scalar.h"

namespace treadle::relay {
namespace {

bool HasPattern(const Expr& e, OpPatternKind pattern) {
  const auto* call = e.as<CallNode>();
  return call != nullptr && PatternOf(call) == pattern;
}

/// Whether `e` is a product, or what a few element-wise operators make of one.
bool EndsInProduct(Expr e) {
  constexpr int kMost = 8;
  for (int i = 0; !HasPattern(e, OpPatternKind::kOutEWiseFusable); ++i) {
    if (i == kMost) return false;
    if (!HasPattern(e, OpPatternKind::kElemWise) && !HasPattern(e, OpPatternKind::kBroadcast)) return false;
    e = e.as<CallNode>()->args[0];
  }
  return true;
}

/// Whether a call is one of element-wise operands whose last dimensions meet: not one whose attributes say where an
/// operand belongs (nn.bias_add, nn.prelu), which another shape would change.
bool IsPlainBroadcast(const Expr& e) {
  if (!HasPattern(e, OpPatternKind::kBroadcast)) return false;
  return e.as<CallNode>()->op.as<OpNode>()->attrs_type == nullptr;
}

/// Whether each dimension is a number or has a name.
bool HasSizes(const Array<PrimExpr>& shape) {
  return std::none_of(shape.begin(), shape.end(), [](const PrimExpr& dim) { return IsAnyDim(dim); });
}

const CallNode* AsReshape(const Expr& e) {
  const CallNode* call = AsCallOf(e, "reshape");
  return call != nullptr ? call : AsCallOf(e, "dyn.reshape");
}

class ReshapeSinker : public MixedModeMutator {
 private:
  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const bool unary = HasPattern(post, OpPatternKind::kElemWise), binary = IsPlainBroadcast(post);
    const auto* call = static_cast<const CallNode*>(post.get());
    if ((!unary && !binary) || call->args.size() != (unary ? 1 : 2)) return post;
    const auto* type = pre->type_as<TensorTypeNode>();
    if (type == nullptr) return post;
    for (size_t i = 0; i < call->args.size(); ++i) {
      const Array<PrimExpr> from = ReshapedFrom(pre->args[i], call->args[i]);
      if (from.empty() || !ShapesEqual(TensorTypeOf(pre->args[i])->shape, type->shape)) continue;
      const bool columns = ShapesEqual({from.back()}, {type->shape.back()});
      const auto* reshape = call->args[i].as<CallNode>();
      Array<Expr> args = call->args;
      args.Set(i, reshape->args[0]);
      if (binary) {
        const auto* other = TensorTypeOf(pre->args[1 - i]);
        const Array<PrimExpr> same = ReshapedFrom(pre->args[1 - i], call->args[1 - i]);
        if (!same.empty() && HasSizes(from) && HasSizes(type->shape) && ShapesEqual(same, from) &&
            ShapesEqual(other->shape, type->shape)) {
          args.Set(1 - i, call->args[1 - i].as<CallNode>()->args[0]);
        } else if (other == nullptr || other->shape.size() > (columns ? 1 : 0)) {
          continue;
        }
      }
      const Expr inner = Call(call->op, args, call->attrs, call->type_args, call->span);
      Array<Expr> given = reshape->args;
      given.Set(0, inner);
      const Expr result = Call(reshape->op, given, reshape->attrs, {}, reshape->span);
      moved_[result] = from;
      return result;
    }
    return post;
  }

  /// The shape that a reshape of a product, or of what is in another layout again, had before; empty where `post`,
  /// which was `pre`, is none, or one of a product that doesn't keep columns.
  Array<PrimExpr> ReshapedFrom(const Expr& pre, const Expr& post) const {
    if (const auto known = moved_.find(post); known != moved_.end()) return known->second;
    const CallNode* before = AsReshape(pre);
    if (before == nullptr || AsReshape(post) == nullptr) return {};
    const bool changed_back = AsCallOf(before->args[0], "layout_transform") != nullptr;
    if (!changed_back && !EndsInProduct(before->args[0])) return {};
    const auto *from = TensorTypeOf(before->args[0]), *to = TensorTypeOf(pre);
    if (from == nullptr || to == nullptr || from->shape.empty() || to->shape.empty()) return {};
    if (IsAnyDim(from->shape.back())) return {};
    return changed_back || ShapesEqual({from->shape.back()}, {to->shape.back()}) ? from->shape : Array<PrimExpr>();
  }

  /// The reshapes that this pass has made: the shapes of their operands, which have no types yet.
  std::unordered_map<Expr, Array<PrimExpr>, ObjectPtrHash, ObjectPtrEqual> moved_;
};

}  // namespace

Call RowsApart(const Call& rows, const Expr& like, const TensorTypeNode* type, int64_t columns) {
  const auto last = static_cast<int64_t>(type->shape.size()) - 1;
  const DataType i64 = DataType::Int(64);
  const Expr sizes = ops::CallWith<ops::ShapeOfAttrs>("shape_of", {like}, [&](auto& attrs) { attrs.dtype = i64; });
  const Constant width(runtime::FromInt64s({columns}, {1}, i64));
  const Expr shape = ops::MakeConcatenate({ops::MakeStridedSlice(sizes, {0}, {last}), width}, 0);
  const Expr apart = ops::CallWith<ops::ReshapeAttrs>("dyn.reshape", {rows, shape}, [&](auto& attrs) {
    attrs.allowzero = true;
    for (int64_t i = 0; i < last; ++i) {
      const PrimExpr& dim = type->shape[static_cast<size_t>(i)];
      attrs.newshape.push_back(IsAnyDim(dim) ? PrimExpr(int64_t{-1}) : dim);
    }
    attrs.newshape.push_back(PrimExpr(columns));
  });
  const auto* made = apart.as<CallNode>();
  return Call(made->op, made->args, made->attrs, {}, rows->span);
}

namespace transform {

Pass ReshapeLast() {
  return MutatorPass<ReshapeSinker>(
      {"ReshapeLast", 3, {"InferType"}, "Moves reshapes of products behind what is fused with them"});
}

}  // namespace transform
}  // namespace treadle::relay
