// SPDX-License-Identifier: Apache-2.0
// ChannelsLast: networks of tokens (batch, pixels, channels) transpose them to images for a depthwise convolution, and
// back (PVT v2, Wang et al. 2021, arXiv:2106.13797; SegFormer, Xie et al. 2021, arXiv:2105.15203). What lies between
// the two transpositions, element-wise operators and depthwise convolutions, is computed with channels last instead.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "ops/infer.h"
#include "passes/pass_util.h"
#include "targets/cpu/graph/passes.h"
#include "targets/cpu/kernels/conv_compute.h"
#include "treadle/arith/analyzer.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/attrs/transform.h"
#include "treadle/relay/layout.h"

namespace treadle::relay {
namespace {

/// The shape of a tensor of that rank whose dimensions are known, or expressions of those of inputs; nothing for
/// others.
std::optional<Array<PrimExpr>> ShapeOf(const Expr& e, size_t rank) {
  const auto* type = TensorTypeOf(e);
  if (type == nullptr || type->shape.size() != rank) return std::nullopt;
  for (const PrimExpr& dim : type->shape) {
    if (IsAnyDim(dim)) return std::nullopt;
  }
  return type->shape;
}

/// (n, h * w, c) of an image (n, c, h, w), where a reshape can tell one from the other: one dimension may be known at
/// run time only. Else nothing.
std::optional<Array<PrimExpr>> TokensOf(const Array<PrimExpr>& nchw) {
  if (std::count_if(nchw.begin(), nchw.end(), [](const PrimExpr& dim) { return AsConstInt(dim) == nullptr; }) > 1) {
    return std::nullopt;
  }
  return Array<PrimExpr>{nchw[0], ops::DimMul(nchw[2], nchw[3]), nchw[1]};
}

bool HasShape(const Expr& e, const Array<PrimExpr>& shape) {
  const std::optional<Array<PrimExpr>> own = ShapeOf(e, shape.size());
  if (!own) return false;
  arith::Analyzer analyzer;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!ops::SameDim((*own)[i], shape[i]) && !analyzer.CanProveEqual((*own)[i], shape[i])) return false;
  }
  return true;
}

/// The operand of a transposition with these axes; null for others.
Expr OperandOfTranspose(const Expr& e, const std::vector<int64_t>& axes) {
  const auto* call = AsCallOf(e, "transpose");
  const bool fits = call != nullptr && call->attrs_as<ops::TransposeAttrs>()->axes == axes;
  return fits ? call->args[0] : Expr();
}

bool IsFloat(const Expr& e) {
  const auto* type = TensorTypeOf(e);
  return type != nullptr && (type->dtype == DataType::Float(32) || type->dtype.is_bfloat16());
}

/// A value in NCHW as one in NHWC, where nothing is to be moved for it.
class Region {
 public:
  using Mutate = std::function<Expr(const Expr&)>;
  /// `uses`: how often values of the graph are read; `mutate`: what became of those that are made otherwise.
  Region(const std::unordered_map<const Object*, int>& uses, Mutate mutate) : uses_(uses), mutate_(std::move(mutate)) {}

  /// Null where it isn't possible, or no convolution is among what makes `e`.
  Expr Of(const Expr& e) {
    Expr last = Last(e, 0);
    if (!last.defined() || !convolves_) return Expr();
    // What others read, too, would be computed twice.
    for (const auto& [node, reads] : reads_) {
      auto it = uses_.find(node);
      if (it == uses_.end() || it->second != reads) return Expr();
    }
    return last;
  }

 private:
  static constexpr int kMostCalls = 32;  ///< one after the other

  Expr Last(const Expr& e, int depth) {
    const std::optional<Array<PrimExpr>> nchw = ShapeOf(e, 4);
    if (!nchw || !IsFloat(e) || depth > kMostCalls) return Expr();
    if (const Expr source = Source(e, *nchw); source.defined()) return source;
    const auto* call = e.as<CallNode>();
    if (call == nullptr || call->op.as<OpNode>() == nullptr) return Expr();
    ++reads_[call];
    if (auto it = made_.find(call); it != made_.end()) return it->second;
    const Expr made = OpName(call) == "nn.conv2d" ? Convolution(call, depth) : ElementWise(call, *nchw, depth);
    return made_[call] = made.defined() ? WithPlaceOf(made, call) : made;
  }

  /// What is transposed from channels last.
  Expr Source(const Expr& e, const Array<PrimExpr>& nchw) {
    if (const Expr image = OperandOfTranspose(e, {0, 3, 1, 2}); image.defined()) return mutate_(image);
    const auto* reshape = AsCallOf(e, "reshape");
    const Expr tokens = reshape == nullptr ? Expr() : OperandOfTranspose(reshape->args[0], {0, 2, 1});
    const std::optional<Array<PrimExpr>> rows = TokensOf(nchw);
    if (!tokens.defined() || !rows || !HasShape(tokens, *rows)) return Expr();
    return ops::MakeReshape(mutate_(tokens), Array<PrimExpr>{nchw[0], nchw[2], nchw[3], nchw[1]});
  }

  Expr Convolution(const CallNode* call, int depth) {
    const auto* attrs = call->attrs_as<ops::Conv2DAttrs>();
    const auto *data = TensorTypeOf(call->args[0]), *kernel = TensorTypeOf(call->args[1]),
               *type = TensorTypeOf(GetRef<Expr>(call));
    const int64_t* channels = data == nullptr ? nullptr : AsConstInt(data->shape[1]);
    const bool depthwise = channels != nullptr && kernel != nullptr && attrs->IsIn("NCHW", "OIHW") &&
                           attrs->groups == *channels && tir::is_const_int(kernel->shape[0], *channels);
    if (!depthwise || type->dtype != DataType::Float(32) || DividingLayout(*channels).is_plain()) return Expr();
    const Expr last = Last(call->args[0], depth + 1);
    if (!last.defined()) return Expr();
    convolves_ = true;
    auto changed = MakeObject<ops::Conv2DAttrs>(*attrs);
    changed->data_layout = "NHWC";
    changed->kernel_layout = "HWOI";
    changed->out_layout = "";
    return ops::CallOp(ops::cpu::kDepthwiseConvNhwc, {last, ops::MakeTranspose(mutate_(call->args[1]), {2, 3, 0, 1})},
                       Attrs(ObjectPtr<Object>(changed)), call->span);
  }

  Expr ElementWise(const CallNode* call, const Array<PrimExpr>& nchw, int depth) {
    if (OpName(call) == "nn.bias_add") {
      const Expr data = Last(call->args[0], depth + 1);
      const bool of_channels = PositiveAxis(call->attrs_as<ops::BiasAddAttrs>()->axis, nchw.size()) == 1;
      return data.defined() && of_channels ? ops::MakeBiasAdd(data, mutate_(call->args[1]), 3) : Expr();
    }
    // Attributes may say which dimension an operand belongs to (nn.prelu), or the result's shape (broadcast_to).
    const bool plain = Downcast<Op>(call->op)->attrs_type == nullptr;
    const OpPatternKind most = plain ? OpPatternKind::kBroadcast : OpPatternKind::kElemWise;
    if (PatternOf(call) > most || (!plain && call->args.size() > 1)) return Expr();
    Array<Expr> args;
    bool of_image = false;
    for (const Expr& arg : call->args) {
      const Expr changed = arg.as<ConstantNode>() != nullptr ? OfChannels(arg, nchw[1]) : Last(arg, depth + 1);
      // Images that are broadcast to larger ones would have to be.
      if (!changed.defined() || (arg.as<ConstantNode>() == nullptr && !HasShape(arg, nchw))) return Expr();
      of_image |= arg.as<ConstantNode>() == nullptr;
      args.push_back(changed);
    }
    return of_image ? Call(call->op, args, call->attrs, {}, call->span) : Expr();
  }

  /// A scalar, or one number per channel, as it is broadcast to NHWC.
  static Expr OfChannels(const Expr& constant, const PrimExpr& channels) {
    const auto* type = constant->type_as<TensorTypeNode>();
    int64_t elements = 1;
    for (const PrimExpr& dim : type->shape) elements *= *AsConstInt(dim);
    if (elements == 1) return ops::MakeReshape(constant, std::vector<int64_t>{1});
    const size_t rank = type->shape.size();
    const bool fits =
        tir::is_const_int(channels, elements) && rank >= 3 && tir::is_const_int(type->shape[rank - 3], elements);
    return fits ? ops::MakeReshape(constant, std::vector<int64_t>{elements}) : Expr();
  }

  const std::unordered_map<const Object*, int>& uses_;
  const Mutate mutate_;
  std::map<const Object*, Expr> made_;
  std::map<const Object*, int> reads_;
  bool convolves_ = false;
};

class ChannelsLastMutator : public MixedModeMutator {
 public:
  explicit ChannelsLastMutator(const Function& func) : uses_(CountUses(func)) {}

 private:
  using MixedModeMutator::Rewrite_;

  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const Expr root = GetRef<Expr>(pre);
    auto last = [&](const Expr& image) { return Region(uses_, [this](const Expr& e) { return Mutate(e); }).Of(image); };
    if (const Expr image = OperandOfTranspose(root, {0, 2, 3, 1}); image.defined()) {
      const Expr result = last(image);
      return result.defined() ? result : post;
    }
    const Expr rows = OperandOfTranspose(root, {0, 2, 1});
    const auto* reshape = rows.defined() ? AsCallOf(rows, "reshape") : nullptr;
    const std::optional<Array<PrimExpr>> nchw = reshape == nullptr ? std::nullopt : ShapeOf(reshape->args[0], 4);
    const std::optional<Array<PrimExpr>> tokens = nchw ? TokensOf(*nchw) : std::nullopt;
    if (!tokens || !HasShape(root, *tokens) || uses_.at(reshape) != 1) return post;
    const Expr result = last(reshape->args[0]);
    return result.defined() ? ops::MakeReshape(result, *tokens) : post;
  }

  const std::unordered_map<const Object*, int> uses_;
};

}  // namespace

namespace transform {

Pass ChannelsLast() {
  return MutatorPass<ChannelsLastMutator>(
      {"ChannelsLast", 3, {"InferType"}, "Depthwise convolutions between transpositions of tokens keep channels last"});
}

}  // namespace transform
}  // namespace treadle::relay
