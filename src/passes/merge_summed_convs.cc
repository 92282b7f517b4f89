// SPDX-License-Identifier: Apache-2.0
// MergeSummedConvs: convolutions of one input whose results are added become one convolution, as does the input itself,
// scaled or not, when it is another term of the sum: structural re-parameterisation (Ding et al., RepVGG: Making
// VGG-style ConvNets Great Again, 2021), for models that were exported as they were trained. The window of one of the
// convolutions has to contain the others': their weights are added to its taps, so that nothing new is computed.
#include <algorithm>
#include <unordered_set>

#include "ops/infer.h"
#include "passes/channel_scale.h"
#include "passes/pass_util.h"
#include "treadle/ops/attrs/conv.h"

namespace treadle::relay {
namespace {

/// What a convolution reads along one spatial dimension.
struct Window {
  int64_t taps = 1, dilation = 1;
  int64_t begin = 0;   ///< padding before the input
  int64_t excess = 0;  ///< padding minus the window's extent: windows with equal ones give results of equal sizes
};

/// A convolution that is a term of a sum.
struct ConvTerm {
  const CallNode* call = nullptr;
  const ops::ConvAttrs* attrs = nullptr;
  runtime::NDArray weight;
  Layout kernel;                ///< of the weight
  std::vector<Window> windows;  ///< per spatial dimension, in the order of the attributes
};

bool IsFloat32(const Expr& expr) {
  const auto* type = TensorTypeOf(expr);
  return type != nullptr && type->dtype == DataType::Float(32);
}

/// In the order of attributes, which isn't that of the layout.
std::vector<char> SpatialAxes(const Layout& layout) {
  std::vector<char> axes;
  for (const char axis : {'D', 'H', 'W'}) {
    if (layout.IndexOf(axis) >= 0) axes.push_back(axis);
  }
  return axes;
}

std::optional<ConvTerm> AsConvTerm(const Expr& expr) {
  const auto* call = expr.as<CallNode>();
  const ops::ConvAttrs* attrs = call == nullptr ? nullptr : PlainConvAttrs(call);
  if (attrs == nullptr) return std::nullopt;
  const auto* weight = call->args[1].as<ConstantNode>();
  if (weight == nullptr || !weight->data.IsCompact() || !IsFloat32(call->args[0]) || !IsFloat32(call->args[1]) ||
      !IsFloat32(expr)) {
    return std::nullopt;
  }
  ConvTerm term{call, attrs, weight->data, attrs->ParsedKernelLayout(), {}};
  const std::vector<char> axes = SpatialAxes(term.kernel);
  const std::vector<int64_t> padding = ops::NormalizePadding(attrs->padding, axes.size(), true);
  for (size_t i = 0; i < axes.size(); ++i) {
    Window window;
    window.taps = term.weight.shape()[static_cast<size_t>(term.kernel.IndexOf(axes[i]))];
    if (window.taps > 1) window.dilation = attrs->dilation[i];
    window.begin = padding[i];
    window.excess = padding[i] + padding[i + axes.size()] - ((window.taps - 1) * window.dilation + 1);
    term.windows.push_back(window);
  }
  return term;
}

/// The tap of `frame` that the first of `window` is, where all taps of `window` are taps of `frame` and both give
/// results of one size.
std::optional<int64_t> FirstTap(const Window& frame, const Window& window) {
  const int64_t distance = frame.begin - window.begin;
  if (frame.excess != window.excess || distance < 0 || distance % frame.dilation != 0) return std::nullopt;
  if (window.taps > 1 && window.dilation != frame.dilation) return std::nullopt;
  const int64_t first = distance / frame.dilation;
  return first + window.taps <= frame.taps ? std::optional<int64_t>(first) : std::nullopt;
}

std::optional<std::vector<int64_t>> FirstTaps(const ConvTerm& frame, const std::vector<Window>& windows) {
  std::vector<int64_t> taps;
  for (size_t i = 0; i < frame.windows.size(); ++i) {
    const auto tap = FirstTap(frame.windows[i], windows[i]);
    if (!tap) return std::nullopt;
    taps.push_back(*tap);
  }
  return taps;
}

/// Where the taps of `other` are among those of `frame`; nothing where it can't be merged into it.
std::optional<std::vector<int64_t>> TapsOf(const ConvTerm& frame, const ConvTerm& other) {
  const ops::ConvAttrs &a = *frame.attrs, &b = *other.attrs;
  if (frame.call->args[0].get() != other.call->args[0].get() || a.strides != b.strides || a.groups != b.groups ||
      a.data_layout != b.data_layout || !(a.ParsedOutLayout() == b.ParsedOutLayout()) ||
      !(frame.kernel == other.kernel)) {
    return std::nullopt;
  }
  return FirstTaps(frame, other.windows);
}

/// The tap of `frame` that reads the input at the output's own position, where input and output have one type.
std::optional<std::vector<int64_t>> TapsOfInput(const ConvTerm& frame) {
  const ops::ConvAttrs& attrs = *frame.attrs;
  if (!TypesEqual(frame.call->args[0]->checked_type(), frame.call->checked_type()) ||
      !(attrs.ParsedDataLayout() == attrs.ParsedOutLayout()) ||
      std::any_of(attrs.strides.begin(), attrs.strides.end(), [](int64_t stride) { return stride != 1; })) {
    return std::nullopt;
  }
  return FirstTaps(frame, std::vector<Window>(frame.windows.size(), Window{1, 1, 0, -1}));
}

/// The weight of a convolution to which others are added.
class MergedWeight {
 public:
  explicit MergedWeight(const ConvTerm& frame)
      : frame_(frame), sum_(frame.weight.Copy()), strides_(sum_.shape().size(), 1) {
    for (size_t i = strides_.size() - 1; i > 0; --i) strides_[i - 1] = strides_[i] * sum_.shape()[i];
  }

  /// Adds a weight whose first tap is the tap `taps`.
  void Add(const runtime::NDArray& weight, const std::vector<int64_t>& taps) {
    const std::vector<int64_t>& shape = weight.shape();
    std::vector<int64_t> index(shape.size(), 0);
    int64_t at = Offset(taps);
    for (int64_t i = 0; i < weight.size(); ++i) {
      Data()[at] += weight.Data<float>()[i];
      for (size_t d = shape.size(); d-- > 0;) {
        at += strides_[d];
        if (++index[d] < shape[d]) break;
        at -= strides_[d] * shape[d];
        index[d] = 0;
      }
    }
  }

  /// Adds the input times a factor per channel, or (null) the input.
  void AddInput(const float* scale, const std::vector<int64_t>& taps) {
    const auto out = static_cast<size_t>(frame_.kernel.IndexOf('O')),
               in = static_cast<size_t>(frame_.kernel.IndexOf('I'));
    const int64_t per_group = sum_.shape()[in];
    for (int64_t c = 0; c < sum_.shape()[out]; ++c) {
      Data()[Offset(taps) + c * strides_[out] + c % per_group * strides_[in]] += scale == nullptr ? 1 : scale[c];
    }
  }

  const runtime::NDArray& sum() const { return sum_; }

 private:
  float* Data() const { return sum_.Data<float>(); }
  int64_t Offset(const std::vector<int64_t>& taps) const {
    const std::vector<char> axes = SpatialAxes(frame_.kernel);
    int64_t offset = 0;
    for (size_t i = 0; i < axes.size(); ++i) {
      offset += taps[i] * strides_[static_cast<size_t>(frame_.kernel.IndexOf(axes[i]))];
    }
    return offset;
  }

  const ConvTerm& frame_;
  runtime::NDArray sum_;
  std::vector<int64_t> strides_;
};

class SumMerger : public MixedModeMutator {
 public:
  explicit SumMerger(const Expr& root) : uses_(CountUses(root)) {
    PostOrderVisit(root, [&](const Expr& e) {
      const auto* call = AsCallOf(e, "add");
      if (call == nullptr) return;
      for (const Expr& arg : call->args) {
        if (Continues(call, arg)) inner_.insert(arg.get());
      }
    });
  }

 private:
  /// Terms of a sum, in its order; those that are merged into another become null.
  using Terms = std::vector<Expr>;

  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    if (OpName(pre) != "add" || inner_.count(pre) != 0) return post;
    Terms terms = TermsOf(pre);
    std::vector<std::pair<size_t, ConvTerm>> convs;
    for (size_t i = 0; i < terms.size(); ++i) {
      if (uses_[terms[i].get()] != 1 || !TypesEqual(terms[i]->checked_type(), pre->checked_type())) continue;
      if (auto conv = AsConvTerm(terms[i])) convs.emplace_back(i, std::move(*conv));
    }
    // What a larger window contains, a smaller one may contain as well.
    std::sort(convs.begin(), convs.end(), [](const auto& a, const auto& b) {
      return std::pair(-a.second.weight.size(), a.first) < std::pair(-b.second.weight.size(), b.first);
    });
    std::unordered_map<size_t, Expr> merged;
    for (const auto& [at, frame] : convs) {
      if (terms[at].defined()) MergeInto(frame, at, convs, &terms, &merged);
    }
    return merged.empty() ? post : Sum(pre, terms, merged);
  }

  /// Whether `arg` of the sum `call` is a part of the same sum.
  bool Continues(const CallNode* call, const Expr& arg) {
    return AsCallOf(arg, "add") != nullptr && uses_[arg.get()] == 1 &&
           TypesEqual(arg->checked_type(), call->checked_type());
  }

  Terms TermsOf(const CallNode* sum) {
    Terms terms;
    std::vector<Expr> rest = {sum->args[1], sum->args[0]};
    while (!rest.empty()) {
      const Expr next = rest.back();
      rest.pop_back();
      if (inner_.count(next.get()) == 0) {
        terms.push_back(next);
        continue;
      }
      const auto* call = next.as<CallNode>();
      rest.push_back(call->args[1]);
      rest.push_back(call->args[0]);
    }
    return terms;
  }

  void MergeInto(const ConvTerm& frame, size_t at, const std::vector<std::pair<size_t, ConvTerm>>& convs, Terms* terms,
                 std::unordered_map<size_t, Expr>* merged) {
    std::optional<MergedWeight> weight;
    auto merge = [&](size_t i) -> MergedWeight& {
      (*terms)[i] = Expr();
      if (!weight) weight.emplace(frame);
      return *weight;
    };
    for (const auto& [i, other] : convs) {
      if (i == at || !(*terms)[i].defined() || merged->count(i) != 0) continue;
      if (const auto taps = TapsOf(frame, other)) merge(i).Add(other.weight, *taps);
    }
    if (const auto taps = TapsOfInput(frame)) {
      for (size_t i = 0; i < terms->size(); ++i) {
        if (i == at || !(*terms)[i].defined()) continue;
        runtime::NDArray scale;
        if (IsInput(frame, (*terms)[i], &scale)) {
          merge(i).AddInput(scale.defined() ? scale.Data<float>() : nullptr, *taps);
        }
      }
    }
    if (!weight) return;
    const CallNode* call = frame.call;
    (*merged)[at] =
        Call(call->op, {Mutate(call->args[0]), Constant(weight->sum())}, call->attrs, call->type_args, call->span);
  }

  /// Whether `term` is the convolution's input, or (`scale`) that times a constant per channel.
  bool IsInput(const ConvTerm& conv, const Expr& term, runtime::NDArray* scale) {
    const Expr& input = conv.call->args[0];
    if (term.get() == input.get()) return true;
    const auto* product = AsCallOf(term, "multiply");
    if (product == nullptr || uses_[product] != 1) return false;
    for (size_t i = 0; i < 2; ++i) {
      const auto* factor = product->args[i].as<ConstantNode>();
      if (factor == nullptr || product->args[1 - i].get() != input.get() || !factor->data.IsCompact()) continue;
      const auto found = AsChannelScale(product->args[i], TensorTypeOf(input));
      if (!found || found->axis != conv.attrs->ParsedDataLayout().IndexOf('C')) continue;
      *scale = factor->data;
      return true;
    }
    return false;
  }

  /// The sum of what is left: constants go to the first merged convolution, which they are a bias of.
  Expr Sum(const CallNode* pre, const Terms& terms, const std::unordered_map<size_t, Expr>& merged) {
    auto plus = [&](const Expr& a, const Expr& b) {
      return a.defined() ? Call(pre->op, {a, b}, pre->attrs, {}, pre->span) : b;
    };
    Expr convs, constants, others;
    for (size_t i = 0; i < terms.size(); ++i) {
      if (!terms[i].defined()) continue;
      const auto conv = merged.find(i);
      if (conv != merged.end()) {
        convs = plus(convs, conv->second);
      } else if (IsConstantish(terms[i])) {
        constants = plus(constants, terms[i]);
      } else {
        others = plus(others, Mutate(terms[i]));
      }
    }
    if (constants.defined()) convs = plus(convs, constants);
    return others.defined() ? plus(convs, others) : convs;
  }

  std::unordered_map<const Object*, int> uses_;
  std::unordered_set<const Object*> inner_;  ///< sums that are parts of other sums
};

}  // namespace

namespace transform {

Pass MergeSummedConvs() {
  return MutatorPass<SumMerger>(
      {"MergeSummedConvs", 2, {"InferType"}, "Merges convolutions of one input that are added"});
}

}  // namespace transform
}  // namespace treadle::relay
