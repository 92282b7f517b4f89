// SPDX-License-Identifier: Apache-2.0
#include "external/dnnl/runtime/plan.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>

#include "treadle/base/error.h"
#include "treadle/base/int_math.h"

namespace treadle::external {

using api::Desc;
using api::Dims;
using dnnl::algorithm;
using dnnl::memory;
using runtime::NDArray;

namespace {

algorithm EltwiseAlgorithm(const std::string& name) {
  static const std::map<std::string, algorithm> algorithms = {
      {"relu", algorithm::eltwise_relu},         {"logistic", algorithm::eltwise_logistic},
      {"tanh", algorithm::eltwise_tanh},         {"exp", algorithm::eltwise_exp},
      {"log", algorithm::eltwise_log},           {"sqrt", algorithm::eltwise_sqrt},
      {"abs", algorithm::eltwise_abs},           {"clip", algorithm::eltwise_clip},
      {"linear", algorithm::eltwise_linear},     {"pow", algorithm::eltwise_pow},
      {"swish", algorithm::eltwise_swish},       {"hardswish", algorithm::eltwise_hardswish},
      {"gelu_erf", algorithm::eltwise_gelu_erf}, {"gelu_tanh", algorithm::eltwise_gelu_tanh},
  };
  auto it = algorithms.find(name);
  if (it == algorithms.end()) throw ModelFormatError(StrCat("unknown activation '", name, "'"));
  return it->second;
}

/// alpha and beta as this version of the library wants them.
std::pair<float, float> EltwiseParameters(const Json& attrs) {
  if (attrs.at("alg") == "hardswish") return {1.0f / 6, 0.5f};
  return {attrs.at("alpha").get<float>(), attrs.at("beta").get<float>()};
}

algorithm BinaryAlgorithm(const std::string& name) {
  static const std::map<std::string, algorithm> algorithms = {
      {"add", algorithm::binary_add}, {"sub", algorithm::binary_sub}, {"mul", algorithm::binary_mul},
      {"div", algorithm::binary_div}, {"max", algorithm::binary_max}, {"min", algorithm::binary_min},
  };
  auto it = algorithms.find(name);
  if (it == algorithms.end()) throw ModelFormatError(StrCat("unknown arithmetic '", name, "'"));
  return it->second;
}

dnnl::primitive_attr UserScratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

}  // namespace

/// Turns steps into primitives, one after the other.
class PlanBuilder {
 public:
  PlanBuilder(const Steps& steps, const std::vector<NDArray>& constants, Plan* plan)
      : steps_(steps), plan_(*plan), current_(steps.values.size(), -1), uses_(steps.values.size(), 0) {
    for (const Steps::Step& step : steps.steps) {
      for (size_t value : step.in) ++uses_[value];
    }
    for (size_t value : steps.outputs) ++uses_[value];
    for (size_t i = 0; i < steps.inputs; ++i) current_[i] = NewBuffer(PlainOf(i), Plan::Place::kInput, i);
    for (size_t i = 0; i < steps.constants; ++i) {
      const size_t value = steps.inputs + i;
      current_[value] = NewBuffer(PlainOf(value), Plan::Place::kFixed, i);
      // The library doesn't write to what it reads.
      plan_.buffers_.back().fixed = memory(PlainOf(value), plan_.engine_, constants[i].data_ptr());
    }
  }

  void Build() {
    for (const Steps::Step& step : steps_.steps) {
      try {
        BuildStep(step);
      } catch (const dnnl::error& error) {
        throw RuntimeError(StrCat("oneDNN can't make ", step.op, ": ", error.what()));
      }
      for (size_t value : step.in) --uses_[value];
    }
    for (size_t k = 0; k < steps_.outputs.size(); ++k) {
      const size_t value = steps_.outputs[k];
      const int out = NewBuffer(PlainOf(value), Plan::Place::kOutput, k);
      if (!MoveTo(current_[value], out)) Reorder(current_[value], out);
    }
  }

 private:
  Dims DimsOf(size_t value) const { return steps_.values[value].shape; }
  Desc PlainOf(size_t value) const {
    Dims dims = DimsOf(value);
    return api::Plain(dims.empty() ? Dims{1} : dims);
  }
  const Desc& DescOf(int buffer) const { return plan_.buffers_[static_cast<size_t>(buffer)].desc; }

  int NewBuffer(const Desc& desc, Plan::Place place = Plan::Place::kArena, size_t index = 0) {
    Plan::Buffer buffer;
    buffer.desc = desc;
    buffer.place = place;
    buffer.index = index;
    plan_.buffers_.push_back(buffer);
    return static_cast<int>(plan_.buffers_.size()) - 1;
  }
  /// The same memory seen otherwise.
  int View(int buffer, const Desc& desc) {
    const int view = NewBuffer(desc);
    plan_.buffers_.back().root = Root(buffer);
    plan_.buffers_.back().place = plan_.buffers_[static_cast<size_t>(Root(buffer))].place;
    return view;
  }
  int Root(int buffer) const {
    const int root = plan_.buffers_[static_cast<size_t>(buffer)].root;
    return root < 0 ? buffer : root;
  }

  /// Lets the primitive that made a result write where it must end, when its layout is that and nobody else reads it.
  bool MoveTo(int from, int to) {
    Plan::Buffer& made = plan_.buffers_[static_cast<size_t>(Root(from))];
    if (made.place != Plan::Place::kArena || DescOf(from) != DescOf(to)) return false;
    if (!api::IsBlocked(made.desc) || made.desc.get_size() != DescOf(to).get_size()) return false;
    made.place = Plan::Place::kOutput;
    made.index = plan_.buffers_[static_cast<size_t>(to)].index;
    for (Plan::Buffer& buffer : plan_.buffers_) {
      if (buffer.root == Root(from)) buffer.place = made.place;
    }
    return true;
  }

  void Add(const dnnl::primitive& primitive, std::vector<std::pair<int, int>> arguments, const Desc& scratchpad) {
    if (scratchpad.get_size() > 0) arguments.emplace_back(DNNL_ARG_SCRATCHPAD, NewBuffer(scratchpad));
    plan_.commands_.push_back({primitive, std::move(arguments)});
  }

  void Reorder(int from, int to) {
    dnnl::reorder::primitive_desc desc(plan_.engine_, DescOf(from), plan_.engine_, DescOf(to), UserScratchpad());
    Add(dnnl::reorder(desc), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}, desc.scratchpad_desc());
  }

  bool IsFixed(int buffer) const {
    return plan_.buffers_[static_cast<size_t>(Root(buffer))].place == Plan::Place::kFixed;
  }

  /// A buffer with the contents of `buffer` in layout `desc`: itself, one made before, or a new one. Constants are
  /// reordered now.
  int InLayout(int buffer, Desc desc) {
    if (DescOf(buffer) == desc) return buffer;
    for (const auto& [from, to] : reordered_) {
      if (from == buffer && DescOf(to) == desc) return to;
    }
    int to;
    if (IsFixed(buffer)) {
      to = NewBuffer(desc, Plan::Place::kFixed);
      memory result(desc, plan_.engine_);
      memory source = plan_.buffers_[static_cast<size_t>(Root(buffer))].fixed;
      memory seen(DescOf(buffer), plan_.engine_, source.get_data_handle());
      dnnl::stream stream(plan_.engine_);
      dnnl::reorder(seen, result).execute(stream, seen, result);
      stream.wait();
      plan_.buffers_[static_cast<size_t>(to)].fixed = result;
    } else {
      to = NewBuffer(desc);
      Reorder(buffer, to);
    }
    reordered_.emplace_back(buffer, to);
    return to;
  }

  int Plain(size_t value) { return InLayout(current_[value], PlainOf(value)); }

  void BuildStep(const Steps::Step& step) {
    if (step.op == "conv" || step.op == "deconv") return BuildConv(step);
    if (step.op == "dense") return BuildDense(step);
    if (step.op == "matmul") return BuildMatmul(step);
    if (step.op == "pool") return BuildPool(step);
    if (step.op == "eltwise") return BuildEltwise(step);
    if (step.op == "binary") return BuildBinary(step);
    if (step.op == "reduce") return BuildReduce(step);
    if (step.op == "softmax") return BuildSoftmax(step);
    if (step.op == "lrn") return BuildLrn(step);
    if (step.op == "layer_norm") return BuildLayerNorm(step);
    if (step.op == "concat") return BuildConcat(step);
    if (step.op == "reshape") return BuildReshape(step);
    if (step.op == "transpose") return BuildTranspose(step);
    if (step.op == "slice") return BuildSlice(step);
    throw ModelFormatError(StrCat("unknown step '", step.op, "'"));
  }

  /// What follows in the same primitive.
  dnnl::primitive_attr PostOps(const Steps::Step& step) const {
    dnnl::post_ops ops;
    if (step.attrs.value("sum", false)) ops.append_sum(1.0f);
    if (step.attrs.contains("post")) {
      for (const Json& post : step.attrs.at("post")) {
        auto [alpha, beta] = EltwiseParameters(post);
        api::AppendEltwise(&ops, EltwiseAlgorithm(post.at("alg")), alpha, beta);
      }
    }
    dnnl::primitive_attr attr = UserScratchpad();
    attr.set_post_ops(ops);
    return attr;
  }

  /// The result of a primitive that adds to what is there: the addend's memory where that dies here, else a copy.
  int Destination(const Steps::Step& step, const Desc& desc) {
    if (!step.attrs.value("sum", false)) return NewBuffer(desc);
    const size_t value = step.in.back();
    const int addend = current_[value];
    const Plan::Buffer& buffer = plan_.buffers_[static_cast<size_t>(addend)];
    const bool dies = uses_[value] == 1 && buffer.root < 0 && buffer.place == Plan::Place::kArena && !viewed_[addend];
    if (DescOf(addend) == desc) {
      if (dies) return View(addend, desc);
      const int copy = NewBuffer(desc);
      Reorder(addend, copy);
      return copy;
    }
    const int copy = NewBuffer(desc);
    Reorder(addend, copy);
    return copy;
  }

  Desc BiasDesc(size_t channels) const { return api::Plain({static_cast<memory::dim>(channels)}); }

  /// Adds a primitive with data, weights, maybe bias; inputs are brought into its layouts.
  template <typename P, typename PD>
  int AddWeighted(const Steps::Step& step, const PD& pd, int data, int weights) {
    std::vector<std::pair<int, int>> arguments{{DNNL_ARG_SRC, InLayout(data, pd.src_desc())},
                                               {DNNL_ARG_WEIGHTS, InLayout(weights, pd.weights_desc())}};
    if (HasBias(step)) {
      const int bias = Plain(step.in[2]);
      arguments.emplace_back(DNNL_ARG_BIAS, InLayout(View(bias, BiasDescOf(step)), pd.bias_desc()));
    }
    const int out = Destination(step, pd.dst_desc());
    arguments.emplace_back(DNNL_ARG_DST, out);
    Add(P(pd), std::move(arguments), pd.scratchpad_desc());
    return out;
  }
  static bool HasBias(const Steps::Step& step) { return step.attrs.value("bias", false); }
  Desc BiasDescOf(const Steps::Step& step) const {
    memory::dim size = 1;
    for (memory::dim dim : DimsOf(step.in[2])) size *= dim;
    if (step.op != "matmul") return api::Plain({size});
    Dims dims(DimsOf(step.out).size(), 1);
    dims.back() = size;
    return api::Plain(dims);
  }

  void BuildConv(const Steps::Step& step) {
    const Dims data = DimsOf(step.in[0]), out = DimsOf(step.out);
    Dims weights = DimsOf(step.in[1]);
    const auto groups = step.attrs.at("groups").get<memory::dim>();
    const bool transposed = step.op == "deconv";
    Dims dilates = step.attrs.at("dilation").get<Dims>();
    for (auto& dilate : dilates) --dilate;
    // (O, I, ..) for a convolution, (I, O, ..) for a transposed one; groups split the first dimension.
    int source = View(Plain(step.in[1]), api::Plain(weights));
    if (groups > 1) {
      weights[0] /= groups;
      weights.insert(weights.begin(), groups);
      source = View(source, api::Plain(weights));
    }
    if (transposed) {
      const size_t o = groups > 1 ? 1 : 0;
      std::vector<int> axes;
      for (size_t d = 0; d < weights.size(); ++d) axes.push_back(static_cast<int>(d));
      std::swap(axes[o], axes[o + 1]);
      std::swap(weights[o], weights[o + 1]);
      source = View(source, DescOf(source).permute_axes(axes));
    }
    const Desc bias = HasBias(step) ? BiasDescOf(step) : Desc();
    const Desc* bias_desc = HasBias(step) ? &bias : nullptr;
    const auto strides = step.attrs.at("strides").get<Dims>(), begin = step.attrs.at("begin").get<Dims>(),
               end = step.attrs.at("end").get<Dims>();
    const Desc src = api::Any(data), wei = api::Any(weights), dst = api::Any(out);
    const dnnl::primitive_attr attr = PostOps(step);
    if (transposed) {
      auto pd = api::Conv<dnnl::deconvolution_forward>(plan_.engine_, src, wei, bias_desc, dst, strides, dilates, begin,
                                                       end, algorithm::deconvolution_direct, attr);
      current_[step.out] = AddWeighted<dnnl::deconvolution_forward>(step, pd, current_[step.in[0]], source);
    } else {
      auto pd = api::Conv<dnnl::convolution_forward>(plan_.engine_, src, wei, bias_desc, dst, strides, dilates, begin,
                                                     end, algorithm::convolution_direct, attr);
      current_[step.out] = AddWeighted<dnnl::convolution_forward>(step, pd, current_[step.in[0]], source);
    }
  }

  void BuildDense(const Steps::Step& step) {
    const Dims weights = DimsOf(step.in[1]), out = DimsOf(step.out);
    const memory::dim k = weights[1], n = weights[0];
    memory::dim m = 1;
    for (size_t d = 0; d + 1 < out.size(); ++d) m *= out[d];
    const int data = out.size() == 2 ? current_[step.in[0]] : View(Plain(step.in[0]), api::Plain({m, k}));
    const Desc bias = HasBias(step) ? BiasDescOf(step) : Desc();
    // The result is plain: what follows a product of matrices rarely knows other layouts.
    auto pd = api::Dense(plan_.engine_, api::Plain({m, k}), api::Any({n, k}), HasBias(step) ? &bias : nullptr,
                         api::Plain({m, n}), PostOps(step));
    if (step.attrs.value("sum", false) && out.size() != 2) {
      current_[step.in.back()] = View(Plain(step.in.back()), api::Plain({m, n}));
      viewed_[current_[step.in.back()]] = true;
    }
    const int made = AddWeighted<dnnl::inner_product_forward>(step, pd, data, Plain(step.in[1]));
    current_[step.out] = out.size() == 2 ? made : View(made, PlainOf(step.out));
  }

  void BuildMatmul(const Steps::Step& step) {
    const Json& transpose = step.attrs.at("transpose");  // of both operands
    auto operand = [&](size_t i) {
      const int plain = Plain(step.in[i]);
      if (!transpose[i].get<bool>()) return plain;
      std::vector<int> axes;
      const size_t rank = DimsOf(step.in[i]).size();
      for (size_t d = 0; d < rank; ++d) axes.push_back(static_cast<int>(d));
      std::swap(axes[rank - 1], axes[rank - 2]);
      return View(plain, DescOf(plain).permute_axes(axes));
    };
    const int a = operand(0), b = operand(1);
    const Desc bias = HasBias(step) ? BiasDescOf(step) : Desc();
    const Desc weights = IsFixed(b) ? api::Any(DescOf(b).dims()) : DescOf(b);
    auto pd = api::Matmul(plan_.engine_, DescOf(a), weights, HasBias(step) ? &bias : nullptr, PlainOf(step.out),
                          PostOps(step));
    current_[step.out] = AddWeighted<dnnl::matmul>(step, pd, a, b);
  }

  void BuildPool(const Steps::Step& step) {
    const std::string name = step.attrs.at("alg");
    const algorithm alg = name == "max"   ? algorithm::pooling_max
                          : name == "avg" ? algorithm::pooling_avg_exclude_padding
                                          : algorithm::pooling_avg_include_padding;
    auto pd = api::Pool(plan_.engine_, alg, DescOf(current_[step.in[0]]), api::Any(DimsOf(step.out)),
                        step.attrs.at("strides").get<Dims>(), step.attrs.at("kernel").get<Dims>(),
                        step.attrs.at("begin").get<Dims>(), step.attrs.at("end").get<Dims>(), UserScratchpad());
    const int out = NewBuffer(pd.dst_desc());
    Add(dnnl::pooling_forward(pd), {{DNNL_ARG_SRC, current_[step.in[0]]}, {DNNL_ARG_DST, out}}, pd.scratchpad_desc());
    current_[step.out] = out;
  }

  /// The memory of an operand that dies with this step, or new memory of that layout.
  int InPlace(size_t value) {
    const int buffer = current_[value];
    const Plan::Buffer& b = plan_.buffers_[static_cast<size_t>(buffer)];
    if (uses_[value] == 1 && b.place == Plan::Place::kArena && b.root < 0 && !viewed_[buffer])
      return View(buffer, b.desc);
    return NewBuffer(b.desc);
  }

  void BuildEltwise(const Steps::Step& step) {
    auto [alpha, beta] = EltwiseParameters(step.attrs);
    const int data = current_[step.in[0]];
    auto pd = api::Eltwise(plan_.engine_, EltwiseAlgorithm(step.attrs.at("alg")), DescOf(data), alpha, beta,
                           UserScratchpad());
    const int out = InPlace(step.in[0]);
    Add(dnnl::eltwise_forward(pd), {{DNNL_ARG_SRC, data}, {DNNL_ARG_DST, out}}, pd.scratchpad_desc());
    current_[step.out] = out;
  }

  void BuildBinary(const Steps::Step& step) {
    const int a = current_[step.in[0]];
    const size_t rank = DimsOf(step.out).size();
    Dims dims = DimsOf(step.in[1]);
    if (step.attrs.contains("axis")) {
      const auto axis = step.attrs.at("axis").get<size_t>();
      dims.resize(rank - axis, 1);
    }
    dims.insert(dims.begin(), rank - dims.size(), 1);
    // An operand of lower rank gets leading dimensions of 1; only equal ranks have blocked layouts in common.
    const bool whole = dims == DimsOf(step.out), same_rank = dims == DimsOf(step.in[1]);
    const int source = whole && same_rank ? current_[step.in[1]] : View(Plain(step.in[1]), api::Plain(dims));
    const int b = whole ? InLayout(source, DescOf(a)) : BroadcastOperand(step, a, source);
    auto pd = api::Binary(plan_.engine_, BinaryAlgorithm(step.attrs.at("alg")), DescOf(a), DescOf(b), DescOf(a),
                          UserScratchpad());
    const int out = step.in[0] == step.in[1] ? NewBuffer(DescOf(a)) : InPlace(step.in[0]);
    Add(dnnl::binary(pd), {{DNNL_ARG_SRC_0, a}, {DNNL_ARG_SRC_1, b}, {DNNL_ARG_DST, out}}, pd.scratchpad_desc());
    current_[step.out] = out;
  }

  /// An operand that is broadcast to `a`, in blocks of channels as that one has: otherwise the library takes its slow
  /// way.
  int BroadcastOperand(const Steps::Step& step, int a, int b) {
    if (DescOf(a) == PlainOf(step.out)) return b;
    Desc chosen;
    try {
      chosen = api::Binary(plan_.engine_, BinaryAlgorithm(step.attrs.at("alg")), DescOf(a), api::Any(DescOf(b).dims()),
                           DescOf(a), UserScratchpad())
                   .src1_desc();
    } catch (const dnnl::error&) {
      return b;
    }
    // Some implementations take any layout, and leave it at that.
    return api::IsBlocked(chosen) ? InLayout(b, chosen) : b;
  }

  void BuildReduce(const Steps::Step& step) {
    const std::string name = step.attrs.at("alg");
    const Dims in = DimsOf(step.in[0]);
    Dims kept = in;
    const auto axes = step.attrs.at("axes").get<std::vector<size_t>>();
    for (size_t axis : axes) kept.at(axis) = 1;
    int out;
    if (axes.empty()) {
      out = Plain(step.in[0]);
    } else if (name == "mean" && in.size() == 4 && axes == std::vector<size_t>{2, 3}) {
      // Pooling knows the layouts of convolutions best.
      auto pd = api::Pool(plan_.engine_, algorithm::pooling_avg_exclude_padding, DescOf(current_[step.in[0]]),
                          api::Any(kept), {1, 1}, {in[2], in[3]}, {0, 0}, {0, 0}, UserScratchpad());
      const int pooled = NewBuffer(pd.dst_desc());
      Add(dnnl::pooling_forward(pd), {{DNNL_ARG_SRC, current_[step.in[0]]}, {DNNL_ARG_DST, pooled}},
          pd.scratchpad_desc());
      out = InLayout(pooled, api::Plain(kept));
    } else {
      const algorithm alg = name == "mean"  ? algorithm::reduction_mean
                            : name == "sum" ? algorithm::reduction_sum
                            : name == "max" ? algorithm::reduction_max
                                            : algorithm::reduction_min;
      const int data = Plain(step.in[0]);
      auto pd = api::Reduction(plan_.engine_, alg, DescOf(data), api::Plain(kept), UserScratchpad());
      out = NewBuffer(api::Plain(kept));
      Add(dnnl::reduction(pd), {{DNNL_ARG_SRC, data}, {DNNL_ARG_DST, out}}, pd.scratchpad_desc());
    }
    current_[step.out] = View(out, PlainOf(step.out));
  }

  void BuildSoftmax(const Steps::Step& step) {
    const int data = Plain(step.in[0]);
    auto pd =
        api::MakeSoftmax(plan_.engine_, step.attrs.at("log"), DescOf(data), step.attrs.at("axis"), UserScratchpad());
    const int out = NewBuffer(pd.dst_desc());
    Add(api::Softmax(pd), {{DNNL_ARG_SRC, data}, {DNNL_ARG_DST, out}}, pd.scratchpad_desc());
    current_[step.out] = out;
  }

  void BuildLrn(const Steps::Step& step) {
    const int data = current_[step.in[0]];
    auto pd = api::Lrn(plan_.engine_, DescOf(data), step.attrs.at("size"), step.attrs.at("alpha"),
                       step.attrs.at("beta"), step.attrs.at("k"), UserScratchpad());
    const int out = NewBuffer(pd.dst_desc());
    Add(dnnl::lrn_forward(pd), {{DNNL_ARG_SRC, data}, {DNNL_ARG_DST, out}}, pd.scratchpad_desc());
    current_[step.out] = out;
  }

  void BuildLayerNorm(const Steps::Step& step) {
    const int data = Plain(step.in[0]);
    auto pd = api::LayerNorm(plan_.engine_, DescOf(data), step.attrs.at("epsilon"), UserScratchpad());
    const int out = NewBuffer(DescOf(data));
    Add(dnnl::layer_normalization_forward(pd),
        {{DNNL_ARG_SRC, data},
         {DNNL_ARG_SCALE, Plain(step.in[1])},
         {DNNL_ARG_SHIFT, Plain(step.in[2])},
         {DNNL_ARG_DST, out}},
        pd.scratchpad_desc());
    current_[step.out] = out;
  }

  void BuildConcat(const Steps::Step& step) {
    std::vector<Desc> descs;
    std::vector<std::pair<int, int>> arguments;
    for (size_t i = 0; i < step.in.size(); ++i) {
      descs.push_back(DescOf(current_[step.in[i]]));
      arguments.emplace_back(DNNL_ARG_MULTIPLE_SRC + static_cast<int>(i), current_[step.in[i]]);
    }
    auto pd = api::Concat(plan_.engine_, step.attrs.at("axis"), descs, UserScratchpad());
    const int out = NewBuffer(pd.dst_desc());
    arguments.emplace_back(DNNL_ARG_DST, out);
    Add(dnnl::concat(pd), std::move(arguments), pd.scratchpad_desc());
    current_[step.out] = out;
  }

  void BuildReshape(const Steps::Step& step) {
    const int data = Plain(step.in[0]);
    viewed_[Root(data)] = true;
    current_[step.out] = View(data, PlainOf(step.out));
  }

  void BuildTranspose(const Steps::Step& step) {
    const auto axes = step.attrs.at("axes").get<std::vector<int>>();
    // Dimension axes[d] of the input becomes dimension d.
    std::vector<int> to(axes.size());
    for (size_t d = 0; d < axes.size(); ++d) to.at(static_cast<size_t>(axes[d])) = static_cast<int>(d);
    const int data = current_[step.in[0]];
    const int seen = View(data, DescOf(data).permute_axes(to));
    const int out = NewBuffer(PlainOf(step.out));
    Reorder(seen, out);
    current_[step.out] = out;
  }

  void BuildSlice(const Steps::Step& step) {
    const int data = Plain(step.in[0]);
    const int seen = View(data, DescOf(data).submemory_desc(DimsOf(step.out), step.attrs.at("offsets").get<Dims>()));
    const int out = NewBuffer(PlainOf(step.out));
    Reorder(seen, out);
    current_[step.out] = out;
  }

  const Steps& steps_;
  Plan& plan_;
  std::vector<int> current_;              ///< the buffer of each value
  std::vector<int> uses_;                 ///< that are still to come
  std::unordered_map<int, bool> viewed_;  ///< buffers whose memory other values are seen in
  std::vector<std::pair<int, int>> reordered_;
};

Plan::Plan(const Steps& steps, const std::vector<NDArray>& constants) : engine_(dnnl::engine::kind::cpu, 0) {
  PlanBuilder(steps, constants, this).Build();
  Allocate();
}

/// Gives each buffer of the arena a place that it doesn't share with others alive at the same time.
void Plan::Allocate() {
  auto root = [&](int buffer) {
    const int r = buffers_[static_cast<size_t>(buffer)].root;
    return static_cast<size_t>(r < 0 ? buffer : r);
  };
  for (size_t c = 0; c < commands_.size(); ++c) {
    for (auto [argument, buffer] : commands_[c].arguments) {
      Buffer& b = buffers_[root(buffer)];
      if (b.first < 0) b.first = static_cast<int>(c);
      b.last = static_cast<int>(c);
    }
  }
  std::vector<size_t> order;
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (buffers_[i].place == Place::kArena && buffers_[i].root < 0 && buffers_[i].first >= 0) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const size_t x = buffers_[a].desc.get_size(), y = buffers_[b].desc.get_size();
    return x != y ? x > y : a < b;
  });
  std::vector<size_t> placed;
  auto end_of = [&](size_t i) { return buffers_[i].offset + RoundUp(buffers_[i].desc.get_size(), 64); };
  for (size_t i : order) {
    Buffer& b = buffers_[i];
    std::vector<size_t> busy;
    for (size_t other : placed) {
      if (buffers_[other].first <= b.last && b.first <= buffers_[other].last) busy.push_back(other);
    }
    std::sort(busy.begin(), busy.end(), [&](size_t x, size_t y) { return buffers_[x].offset < buffers_[y].offset; });
    b.offset = 0;
    const size_t size = RoundUp(b.desc.get_size(), 64);
    for (size_t other : busy) {
      if (b.offset + size <= buffers_[other].offset) break;
      b.offset = std::max(b.offset, end_of(other));
    }
    placed.push_back(i);
    arena_bytes_ = std::max(arena_bytes_, b.offset + size);
  }
}

std::unique_ptr<PlanState> Plan::NewState() const {
  auto state = std::make_unique<PlanState>();
  state->arena.reset(std::aligned_alloc(4096, (arena_bytes_ + 4096) / 4096 * 4096), &std::free);
  if (state->arena == nullptr) throw RuntimeError(StrCat("out of memory: oneDNN region of ", arena_bytes_, " bytes"));
  for (const Buffer& buffer : buffers_) {
    const Buffer& owner = buffer.root < 0 ? buffer : buffers_[static_cast<size_t>(buffer.root)];
    void* address = nullptr;
    if (owner.place == Place::kArena) address = static_cast<char*>(state->arena.get()) + owner.offset;
    if (owner.place == Place::kFixed) address = owner.fixed.get_data_handle();
    state->buffers.emplace_back(buffer.desc, engine_, address);
  }
  for (const Command& command : commands_) {
    auto& arguments = state->arguments.emplace_back();
    for (auto [argument, buffer] : command.arguments) {
      arguments.emplace(argument, state->buffers[static_cast<size_t>(buffer)]);
    }
  }
  return state;
}

void Plan::Run(PlanState* state, const std::vector<void*>& inputs, const std::vector<void*>& outputs) const {
  dnnl::stream stream(engine_);
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const Buffer& owner = buffers_[i].root < 0 ? buffers_[i] : buffers_[static_cast<size_t>(buffers_[i].root)];
    if (owner.place == Place::kInput) state->buffers[i].set_data_handle(inputs[owner.index]);
    if (owner.place == Place::kOutput) state->buffers[i].set_data_handle(outputs[owner.index]);
  }
  for (size_t c = 0; c < commands_.size(); ++c) commands_[c].primitive.execute(stream, state->arguments[c]);
  stream.wait();
}

}  // namespace treadle::external
