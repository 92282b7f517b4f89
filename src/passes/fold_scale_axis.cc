// SPDX-License-Identifier: Apache-2.0
// FoldScaleAxis: a multiplication by a constant along the channels moves into the weight of the convolution or dense
// layer before it (backward) or after it (forward). On the way it may pass additions of constants, activations that
// commute with positive factors, and pooling. Nothing on the way may have another use.
#include "passes/channel_scale.h"
#include "passes/pass_util.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/ops/attrs/pool.h"
#include "treadle/ops/traits.h"

namespace treadle::relay {
namespace {

Expr AlongAxis(const Expr& vector, int axis, size_t rank) {
  int trailing = static_cast<int>(rank) - axis - 1;
  return trailing > 0 ? ops::MakeExpandDims(vector, 1, trailing) : vector;
}
Expr Times(const Expr& a, const Expr& b) { return ops::CallOp("multiply", {a, b}); }

/// A call of a convolution or dense layer whose weight can take a scale; gives the weight's dimension for it.
class Layer {
 public:
  explicit Layer(const CallNode* call) : call_(call) {
    conv_ = PlainConvAttrs(call);
    dense_ = OpName(call) == "nn.dense";
    if (conv_ == nullptr && !dense_) return;
    weight_ = call->args[1]->type_as<TensorTypeNode>();
    const auto* result = call->type_as<TensorTypeNode>();
    // A factor of the result's type has to be one of the weight's, too.
    valid_ = weight_ != nullptr && IsStatic(weight_) && result != nullptr && result->dtype == weight_->dtype;
    if (valid_ && conv_ != nullptr) {
      data_ = conv_->ParsedDataLayout();
      kernel_ = conv_->ParsedKernelLayout();
      out_ = conv_->ParsedOutLayout();
    }
  }
  bool valid() const { return valid_; }

  /// The weight with the outputs scaled, or null where the scale isn't along the output channels.
  Expr ScaleOutputs(const Expr& weight, const Scale& scale) const {
    size_t rank = call_->type_as<TensorTypeNode>()->shape.size();
    if (dense_) {
      if (scale.axis != static_cast<int>(rank) - 1) return Expr();
      return Times(weight, AlongAxis(scale.vector, 0, 2));
    }
    if (scale.axis != out_.IndexOf('C')) return Expr();
    return Times(weight, AlongAxis(scale.vector, kernel_.IndexOf('O'), weight_->shape.size()));
  }

  /// The weight with the inputs scaled, or null.
  Expr ScaleInputs(const Expr& weight, const Scale& scale) const {
    size_t rank = call_->args[0]->type_as<TensorTypeNode>()->shape.size();
    if (dense_) {
      if (scale.axis != static_cast<int>(rank) - 1) return Expr();
      return Times(weight, scale.vector);
    }
    if (scale.axis != data_.IndexOf('C')) return Expr();
    const int in = kernel_.IndexOf('I'), out = kernel_.IndexOf('O');
    size_t kernel_rank = weight_->shape.size();
    if (conv_->groups == 1) return Times(weight, AlongAxis(scale.vector, in, kernel_rank));
    // Depthwise with one output per channel: output i reads input i.
    const int64_t* outputs = AsConstInt(weight_->shape[static_cast<size_t>(out)]);
    const int64_t* inputs = AsConstInt(weight_->shape[static_cast<size_t>(in)]);
    if (*outputs != conv_->groups || *inputs != 1) return Expr();
    return Times(weight, AlongAxis(scale.vector, out, kernel_rank));
  }

 private:
  const CallNode* call_;
  const ops::ConvAttrs* conv_ = nullptr;
  Layout data_, kernel_, out_;  ///< of a convolution
  bool dense_ = false;
  const TensorTypeNode* weight_ = nullptr;
  bool valid_ = false;
};

Expr WithArgs(const CallNode* call, const Array<Expr>& args) {
  return Call(call->op, args, call->attrs, call->type_args, call->span);
}

/// Whether an operator of one operand commutes with scaling along `axis`.
bool Commutes(const CallNode* call, const Scale& scale) {
  const auto* op = call->op.as<OpNode>();
  const auto rule = op == nullptr ? ops::ScaleRule::kNever : ops::ScaleRuleOf(GetRef<Op>(op));
  if (rule == ops::ScaleRule::kNever || (rule == ops::ScaleRule::kPositive && !scale.positive)) return false;
  // Pooling keeps the channels.
  const auto* pool = call->attrs.as<ops::PoolAttrs>();
  return pool == nullptr || scale.axis == pool->ParsedLayout().IndexOf('C');
}

class BackwardFolder : public MixedModeMutator {
 public:
  explicit BackwardFolder(const Expr& root) : uses_(CountUses(root)) {}

 private:
  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    if (OpName(pre) != "multiply") return post;
    for (size_t i = 0; i < 2; ++i) {
      auto scale = AsChannelScale(pre->args[i], pre->args[1 - i]->type_as<TensorTypeNode>());
      if (!scale || !TypesEqual(pre->args[1 - i]->checked_type(), pre->checked_type())) continue;
      Expr folded = Push(pre->args[1 - i], *scale);
      if (folded.defined()) return folded;
    }
    return post;
  }

  /// `expr` (of the original graph) times the scale, with the scale in a weight; null where that can't be.
  Expr Push(const Expr& expr, const Scale& scale) {
    return WithEnoughStack([&]() -> Expr {
      const auto* call = expr.as<CallNode>();
      if (call == nullptr || uses_[call] != 1 || call->op.as<OpNode>() == nullptr) return Expr();
      Layer layer(call);
      if (layer.valid()) {
        Expr weight = layer.ScaleOutputs(Mutate(call->args[1]), scale);
        return weight.defined() ? WithArgs(call, {Mutate(call->args[0]), weight}) : Expr();
      }
      if (call->args.size() == 1 && Commutes(call, scale)) {
        Expr arg = Push(call->args[0], scale);
        return arg.defined() ? WithArgs(call, {arg}) : Expr();
      }
      const std::string& name = OpName(call);
      if (name == "add" || name == "subtract" || name == "nn.bias_add") return PushThroughSum(call, scale);
      return Expr();
    });
  }

  Expr PushThroughSum(const CallNode* call, const Scale& scale) {
    size_t rank = call->type_as<TensorTypeNode>()->shape.size();
    Array<Expr> args;
    bool folded = false;
    for (size_t i = 0; i < 2; ++i) {
      Expr arg = call->args[i];
      const auto* type = TensorTypeOf(arg);
      if (type == nullptr) return Expr();
      if (i == 1 && OpName(call) == "nn.bias_add") {
        if (PositiveAxis(call->attrs_as<ops::BiasAddAttrs>()->axis, rank) != scale.axis) return Expr();
        args.push_back(Times(Mutate(arg), scale.vector));
      } else if (IsConstantish(arg)) {
        // Scaling must not enlarge it beyond one value per channel.
        auto per_channel = AsChannelScale(arg, call->type_as<TensorTypeNode>());
        if ((!per_channel || per_channel->axis != scale.axis) && !type->shape.empty()) return Expr();
        args.push_back(Times(Mutate(arg), AlongAxis(scale.vector, scale.axis, rank)));
      } else {
        if (!TypesEqual(arg->checked_type(), call->checked_type())) return Expr();
        Expr pushed = Push(arg, scale);
        if (!pushed.defined()) return Expr();
        args.push_back(pushed);
        folded = true;
      }
    }
    return folded ? WithArgs(call, args) : Expr();
  }

  std::unordered_map<const Object*, int> uses_;
};

class ForwardFolder : public MixedModeMutator {
 public:
  explicit ForwardFolder(const Expr& root) : uses_(CountUses(root)) {}

 private:
  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    Layer layer(pre);
    if (!layer.valid()) return post;
    Scale scale;
    Expr data = Pull(pre->args[0], &scale);
    if (!data.defined()) return post;
    const auto* call = static_cast<const CallNode*>(post.get());
    Expr weight = layer.ScaleInputs(call->args[1], scale);
    return weight.defined() ? WithArgs(call, {data, weight}) : post;
  }

  /// `expr` (of the original graph) without the scale at its origin; null when there is none.
  Expr Pull(const Expr& expr, Scale* scale) {
    return WithEnoughStack([&]() -> Expr {
      const auto* call = expr.as<CallNode>();
      if (call == nullptr || uses_[call] != 1) return Expr();
      if (OpName(call) == "multiply") {
        for (size_t i = 0; i < 2; ++i) {
          auto found = AsChannelScale(call->args[i], call->args[1 - i]->type_as<TensorTypeNode>());
          if (!found || !TypesEqual(call->args[1 - i]->checked_type(), call->checked_type())) continue;
          *scale = *found;
          return Mutate(call->args[1 - i]);
        }
        return Expr();
      }
      if (call->op.as<OpNode>() == nullptr || call->args.size() != 1) return Expr();
      Expr arg = Pull(call->args[0], scale);
      return arg.defined() && Commutes(call, *scale) ? WithArgs(call, {arg}) : Expr();
    });
  }

  std::unordered_map<const Object*, int> uses_;
};

}  // namespace

namespace transform {

Pass BackwardFoldScaleAxis() {
  return MutatorPass<BackwardFolder>(
      {"BackwardFoldScaleAxis", 3, {"InferType"}, "Folds scales into the weights before them"});
}

Pass ForwardFoldScaleAxis() {
  return MutatorPass<ForwardFolder>(
      {"ForwardFoldScaleAxis", 3, {"InferType"}, "Folds scales into the weights after them"});
}

Pass FoldScaleAxis() {
  return Sequential({BackwardFoldScaleAxis(), ForwardFoldScaleAxis(), FoldConstant()}, "FoldScaleAxis");
}

}  // namespace transform
}  // namespace treadle::relay
