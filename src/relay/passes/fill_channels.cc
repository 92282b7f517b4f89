// SPDX-License-Identifier: Apache-2.0
// FillChannels: tensors between convolutions get more channels, that nobody reads, until they fill vectors.
//
// Vectors of 16 channels don't divide 24 or 40 channels: kernels would run on half vectors. With weights of zeros for
// 8 more channels they run on whole ones. What follows a convolution element by element or window by window computes
// the further channels along; the next convolution has zeros as their weights. Where anything else reads the tensor,
// the channels of the model are taken out. Further channels hold finite numbers always: operators that could make
// infinities of zeros (divisions, logarithms) don't follow.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "relay/passes/fill_channels.h"

#include "relay/passes/pass_util.h"

namespace treadle::relay {
namespace {

using runtime::NDArray;

constexpr size_t kRank = 4;  // NCHW
constexpr int kChannelAxis = 1;

/// The filled form of a tensor: channel i of the model's is channel at[i] of `expr`, which has `channels`.
struct Filled {
  Expr expr;
  std::vector<int64_t> at;
  int64_t channels = 0;
  Expr real;  // the model's tensor; keeps the key of the table alive
};

std::vector<int64_t> FirstChannels(int64_t n) {
  std::vector<int64_t> at(static_cast<size_t>(n));
  std::iota(at.begin(), at.end(), 0);
  return at;
}

/// `value` with entries `i` of dimension `axis` moved to at[i] of `extent`, zeros elsewhere.
NDArray Spread(const NDArray& value, int axis, const std::vector<int64_t>& at, int64_t extent) {
  std::vector<int64_t> shape(value.shape().begin(), value.shape().end());
  size_t outer = 1, inner = 1;
  const auto dim = static_cast<size_t>(axis);
  for (size_t i = 0; i < dim; ++i) outer *= static_cast<size_t>(shape[i]);
  for (size_t i = dim + 1; i < shape.size(); ++i) inner *= static_cast<size_t>(shape[i]);
  shape[dim] = extent;
  NDArray result = NDArray::Empty(shape, DataType::Float(32));
  auto* to = result.Data<float>();
  std::fill(to, to + result.size(), 0.0F);
  const auto* from = value.Data<float>();
  for (size_t o = 0; o < outer; ++o) {
    for (size_t i = 0; i < at.size(); ++i) {
      const auto place = o * static_cast<size_t>(extent) + static_cast<size_t>(at[i]);
      std::copy_n(from + (o * at.size() + i) * inner, inner, to + place * inner);
    }
  }
  return result;
}

const NDArray* FloatConstant(const Expr& e) {
  const auto* constant = e.as<ConstantNode>();
  return constant != nullptr && constant->data.dtype() == DataType::Float(32) ? &constant->data : nullptr;
}

int64_t DimOf(const TensorTypeNode* type, size_t axis) {
  const int64_t* value = type != nullptr && axis < type->shape.size() ? AsConstInt(type->shape[axis]) : nullptr;
  return value != nullptr ? *value : -1;
}

class ChannelFiller : public MixedModeMutator {
 public:
  explicit ChannelFiller(int64_t block) : block_(block) {}

 private:
  using MixedModeMutator::Rewrite_;

  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const auto* call = post.as<CallNode>();
    if (call == nullptr || call->op.as<OpNode>() == nullptr) return post;
    const auto* type = TensorTypeOf(GetRef<Expr>(pre));
    if (type == nullptr || type->shape.size() != kRank || type->dtype != DataType::Float(32)) return post;
    std::optional<Filled> filled = Fill(pre, call);
    if (!filled) return post;
    if (static_cast<int64_t>(filled->at.size()) == filled->channels) return filled->expr;
    filled->real = Real(*filled, type, call->span);
    filled_[filled->real.get()] = *filled;
    return filled->real;
  }

  std::optional<Filled> Fill(const CallNode* pre, const CallNode* call) {
    static const std::set<std::string> unary = {"nn.relu",
                                                "sigmoid",
                                                "tanh",
                                                "nn.mish",
                                                "clip",
                                                "nn.leaky_relu",
                                                "fast_tanh",
                                                "nn.hard_sigmoid",
                                                "erf",
                                                "fast_erf",
                                                "abs",
                                                "negative",
                                                "copy",
                                                "nn.max_pool2d",
                                                "nn.avg_pool2d",
                                                "nn.global_max_pool2d",
                                                "nn.global_avg_pool2d"};
    static const std::set<std::string> binary = {"add", "subtract", "multiply", "maximum", "minimum", "divide"};
    const std::string& name = OpName(call);
    if (name == "nn.conv2d") return Convolution(call);
    if (name == "nn.conv2d_transpose") return TransposedConvolution(call);
    if (binary.count(name) != 0) return Binary(pre, call, name == "divide");
    if (name == "nn.bias_add") return BiasAdd(call);
    if (name == "mean") return Mean(call);
    if (unary.count(name) == 0) return std::nullopt;
    const Filled* data = Find(call->args[0]);
    if (data == nullptr) return std::nullopt;
    return Like(*data, Call(call->op, {data->expr}, call->attrs, call->type_args, call->span));
  }

  static Filled Like(const Filled& data, Expr expr) { return {std::move(expr), data.at, data.channels, Expr()}; }

  const Filled* Find(const Expr& e) const {
    auto it = filled_.find(e.get());
    return it == filled_.end() ? nullptr : &it->second;
  }

  /// Channels that `channels` are filled up to; the same number where that costs more than it gains.
  int64_t FillUp(int64_t channels) const {
    const int64_t whole = (channels + block_ - 1) / block_ * block_;
    return (whole - channels) * 3 <= channels ? whole : channels;
  }

  /// The channels of the model.
  static Expr Real(const Filled& filled, const TensorTypeNode* type, const Span& span) {
    Array<Expr> runs;
    const auto n = static_cast<int64_t>(filled.at.size());
    for (int64_t i = 0; i < n;) {
      int64_t end = i + 1;
      while (end < n && filled.at[static_cast<size_t>(end)] == filled.at[static_cast<size_t>(end - 1)] + 1) ++end;
      const int64_t from = filled.at[static_cast<size_t>(i)], to = from + end - i;
      if (auto shape = ops::ConstInts(type->shape)) {
        (*shape)[kChannelAxis] = to;
        std::vector<int64_t> begin(kRank, 0);
        begin[kChannelAxis] = from;
        runs.push_back(ops::MakeStridedSlice(filled.expr, begin, *shape));
      } else {
        runs.push_back(ops::MakeStridedSlice(filled.expr, {from}, {to}, {1}, std::vector<int64_t>{kChannelAxis}));
      }
      i = end;
    }
    Expr real = runs.size() == 1 ? runs[0] : ops::MakeConcatenate(runs, kChannelAxis);
    const_cast<ExprNode*>(real.get())->span = span;
    return real;
  }

  std::optional<Filled> Convolution(const CallNode* call) {
    const auto* a = call->attrs_as<ops::Conv2DAttrs>();
    const NDArray* weight = FloatConstant(call->args[1]);
    const Filled* data = Find(call->args[0]);
    if (weight == nullptr || a->data_layout != "NCHW" || a->kernel_layout != "OIHW" ||
        !(a->out_layout.empty() || a->out_layout == "NCHW") || weight->shape().size() != kRank) {
      return std::nullopt;
    }
    const int64_t outputs = weight->shape()[0];
    auto attrs = MakeObject<ops::Conv2DAttrs>(*a);
    Filled result;
    NDArray more = *weight;
    if (a->groups == 1) {
      const int64_t whole = FillUp(outputs);
      if (data == nullptr && whole == outputs) return std::nullopt;
      if (data != nullptr) more = Spread(more, 1, data->at, data->channels);
      result.at = FirstChannels(outputs);
      result.channels = whole;
    } else {
      const bool depthwise = a->groups == outputs && weight->shape()[1] == 1;
      if (data == nullptr || !depthwise || static_cast<int64_t>(data->at.size()) != outputs) return std::nullopt;
      result.at = data->at;
      result.channels = data->channels;
      attrs->groups = static_cast<int>(data->channels);
    }
    if (result.channels != outputs) more = Spread(more, 0, result.at, result.channels);
    if (attrs->channels) attrs->channels = result.channels;
    const Expr& from = data != nullptr ? data->expr : call->args[0];
    result.expr = Call(call->op, {from, Constant(more)}, Attrs(ObjectPtr<Object>(attrs)), call->type_args, call->span);
    return result;
  }

  std::optional<Filled> TransposedConvolution(const CallNode* call) {
    const auto* a = call->attrs_as<ops::Conv2DTransposeAttrs>();
    const NDArray* weight = FloatConstant(call->args[1]);
    const Filled* data = Find(call->args[0]);
    if (weight == nullptr || a->groups != 1 || a->data_layout != "NCHW" || weight->shape().size() != kRank ||
        !(a->out_layout.empty() || a->out_layout == "NCHW") ||
        !(a->kernel_layout == "IOHW" || a->kernel_layout == "OIHW")) {
      return std::nullopt;
    }
    const int64_t outputs = weight->shape()[1], whole = FillUp(outputs);
    if (data == nullptr && whole == outputs) return std::nullopt;
    auto attrs = MakeObject<ops::Conv2DTransposeAttrs>(*a);
    NDArray more = *weight;
    if (data != nullptr) more = Spread(more, 0, data->at, data->channels);
    const std::vector<int64_t> at = FirstChannels(outputs);
    if (whole != outputs) more = Spread(more, 1, at, whole);
    if (attrs->channels) attrs->channels = whole;
    const Expr& from = data != nullptr ? data->expr : call->args[0];
    Expr expr = Call(call->op, {from, Constant(more)}, Attrs(ObjectPtr<Object>(attrs)), call->type_args, call->span);
    return Filled{expr, at, whole, Expr()};
  }

  /// Operators of two tensors, at least one of which is filled; others vary by channel only where they are constant.
  std::optional<Filled> Binary(const CallNode* pre, const CallNode* call, bool divides) {
    const Filled* like = nullptr;
    for (const Expr& arg : call->args) {
      const Filled* filled = Find(arg);
      if (filled == nullptr) continue;
      if (like != nullptr && (like->at != filled->at || like->channels != filled->channels)) return std::nullopt;
      like = filled;
    }
    if (like == nullptr) return std::nullopt;
    for (const Expr& arg : call->args) {
      const std::optional<double> number = UniformValue(arg);
      if (number && (!std::isfinite(*number) || (divides && *number == 0))) return std::nullopt;
    }
    if (divides && !UniformValue(call->args[1])) return std::nullopt;
    const auto channels = static_cast<int64_t>(like->at.size());
    if (DimOf(TensorTypeOf(GetRef<Expr>(pre)), kChannelAxis) != channels) return std::nullopt;
    Array<Expr> operands;
    for (size_t i = 0; i < call->args.size(); ++i) {
      const auto* type = TensorTypeOf(pre->args[i]);
      if (const Filled* filled = Find(call->args[i])) {
        operands.push_back(filled->expr);
        continue;
      }
      if (type == nullptr || type->shape.size() > kRank) return std::nullopt;
      const size_t rank = type->shape.size(), behind = kRank - 1 - kChannelAxis;
      if (rank <= behind || DimOf(type, rank - behind - 1) == 1) {
        operands.push_back(call->args[i]);
        continue;
      }
      const NDArray* value = FloatConstant(call->args[i]);
      if (value == nullptr || divides || DimOf(type, rank - behind - 1) != channels) return std::nullopt;
      operands.push_back(Constant(Spread(*value, static_cast<int>(rank - behind - 1), like->at, like->channels)));
    }
    return Like(*like, Call(call->op, operands, call->attrs, call->type_args, call->span));
  }

  std::optional<Filled> BiasAdd(const CallNode* call) {
    const Filled* data = Find(call->args[0]);
    const NDArray* bias = FloatConstant(call->args[1]);
    if (data == nullptr || bias == nullptr || call->attrs_as<ops::BiasAddAttrs>()->axis != kChannelAxis) {
      return std::nullopt;
    }
    const Expr more = Constant(Spread(*bias, 0, data->at, data->channels));
    return Like(*data, Call(call->op, {data->expr, more}, call->attrs, call->type_args, call->span));
  }

  /// Means over height and width.
  std::optional<Filled> Mean(const CallNode* call) {
    const Filled* data = Find(call->args[0]);
    const auto* a = call->attrs_as<ops::ReduceAttrs>();
    if (data == nullptr || !a->axis || !a->keepdims || a->exclude) return std::nullopt;
    for (int64_t axis : *a->axis) {
      if (PositiveAxis(static_cast<int>(axis), kRank) <= kChannelAxis) return std::nullopt;
    }
    return Like(*data, Call(call->op, {data->expr}, call->attrs, call->type_args, call->span));
  }

  int64_t block_;
  std::unordered_map<const Object*, Filled> filled_;
};

}  // namespace

namespace transform {

Pass FillChannels(int64_t block) {
  return CreateFunctionPass(
      [block](const Function& func, const IRModule&, const PassContext&) {
        return Downcast<Function>(ChannelFiller(block).Mutate(func));
      },
      {"FillChannels", 3, {"InferType"}, "Gives tensors between convolutions channels that fill vectors"});
}

}  // namespace transform
}  // namespace treadle::relay
