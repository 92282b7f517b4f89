// SPDX-License-Identifier: Apache-2.0
#include "external/dnnl/ops.h"

#include <algorithm>
#include <map>

#include "treadle/base/error.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/attrs/pool.h"
#include "treadle/ops/attrs/reduce.h"
#include "treadle/ops/attrs/transform.h"
#include "treadle/runtime/scalar.h"

namespace treadle::external::dnnl {
namespace {

using relay::CallNode;
using Ints = std::vector<int64_t>;

const std::map<std::string, std::string>& BinaryAlgorithms() {
  static const std::map<std::string, std::string> names = {
      {"add", "add"},     {"subtract", "sub"}, {"multiply", "mul"},   {"divide", "div"},
      {"maximum", "max"}, {"minimum", "min"},  {"nn.bias_add", "add"}};
  return names;
}

const std::map<std::string, std::string>& UnaryAlgorithms() {
  static const std::map<std::string, std::string> names = {
      {"nn.relu", "relu"},    {"sigmoid", "logistic"},   {"tanh", "tanh"}, {"exp", "exp"},
      {"log", "log"},         {"sqrt", "sqrt"},          {"abs", "abs"},   {"clip", "clip"},
      {"negative", "linear"}, {"nn.leaky_relu", "relu"}, {"rsqrt", "pow"}};
  return names;
}

/// Begins, then ends, of each spatial dimension.
Ints Padding(const Ints& padding, size_t rank) {
  if (padding.size() == 2 * rank) return padding;
  Ints both(2 * rank);
  for (size_t d = 0; d < 2 * rank; ++d) both[d] = padding.size() == 1 ? padding[0] : padding[d % rank];
  return both;
}
Ints Begins(const Ints& padding) {
  return Ints(padding.begin(), padding.begin() + static_cast<ptrdiff_t>(padding.size() / 2));
}
Ints Ends(const Ints& padding) {
  return Ints(padding.begin() + static_cast<ptrdiff_t>(padding.size() / 2), padding.end());
}

size_t SpatialRank(const CallNode* call) { return TensorOf(call->args[0]).shape.size() - 2; }

std::string DataLayout(size_t rank) { return rank == 1 ? "NCW" : rank == 2 ? "NCHW" : "NCDHW"; }

bool IsPlain(const Layout& layout, const Layout& out_layout, size_t rank, std::string* reason) {
  if (layout.str() == DataLayout(rank) && out_layout == layout) return true;
  *reason = StrCat("layout ", layout, out_layout == layout ? "" : " to " + out_layout.str(), " rather than ",
                   DataLayout(rank));
  return false;
}

bool Floats(const CallNode* call, std::string* reason) {
  if (!CheckTensors(call, {DataType::Float(32)}, reason)) return false;
  const size_t rank = TensorOf(GetRef<relay::Expr>(call)).shape.size();
  if (rank == 0 || rank > 5) {
    *reason = StrCat("a result of rank ", rank);
    return false;
  }
  return true;
}

bool TakesConv(const CallNode* call, std::string* reason) {
  if (!Floats(call, reason)) return false;
  const size_t rank = SpatialRank(call);
  const auto* attrs = call->attrs_as<ops::ConvAttrs>();
  const std::string kernel = "OI" + DataLayout(rank).substr(2);
  if (attrs->kernel_layout != kernel) {
    *reason = StrCat("kernel layout ", attrs->kernel_layout, " rather than ", kernel);
    return false;
  }
  return IsPlain(attrs->ParsedDataLayout(), attrs->ParsedOutLayout(), rank, reason);
}

bool TakesConvTranspose(const CallNode* call, std::string* reason) {
  if (!Floats(call, reason)) return false;
  const size_t rank = SpatialRank(call);
  const auto* attrs = call->attrs_as<ops::ConvTransposeAttrs>();
  const std::string spatial = DataLayout(rank).substr(2);
  if (attrs->kernel_layout != "IO" + spatial && attrs->kernel_layout != "OI" + spatial) {
    *reason = StrCat("kernel layout ", attrs->kernel_layout);
    return false;
  }
  const Ints ends = Ends(Padding(attrs->padding, rank));
  for (size_t d = 0; d < rank; ++d) {
    if (attrs->output_padding[d] <= ends[d]) continue;
    *reason = "more output padding than padding";
    return false;
  }
  return IsPlain(attrs->ParsedDataLayout(), attrs->ParsedOutLayout(), rank, reason);
}

/// The padding at the end that gives the output its size.
Ints PoolEnds(const Ints& in, const Ints& out, const ops::PoolAttrs* attrs) {
  const size_t rank = in.size() - 2;
  const Ints begins = Begins(Padding(attrs->padding, rank));
  Ints ends(rank);
  for (size_t d = 0; d < rank; ++d) {
    ends[d] = (out[d + 2] - 1) * attrs->strides[d] + attrs->pool_size[d] - in[d + 2] - begins[d];
  }
  return ends;
}

bool TakesPool(const CallNode* call, std::string* reason) {
  if (!Floats(call, reason)) return false;
  const size_t rank = SpatialRank(call);
  const auto* attrs = call->attrs_as<ops::PoolAttrs>();
  if (!IsPlain(attrs->ParsedLayout(), attrs->ParsedOutLayout(), rank, reason)) return false;
  for (int64_t d : attrs->dilation) {
    if (d == 1) continue;
    *reason = "dilation";
    return false;
  }
  const Ints in = TensorOf(call->args[0]).shape, out = TensorOf(GetRef<relay::Expr>(call)).shape;
  const Ints given = Padding(attrs->padding, rank), ends = PoolEnds(in, out, attrs);
  for (size_t d = 0; d < rank; ++d) {
    if (given[d] >= attrs->pool_size[d] || ends[d] >= attrs->pool_size[d]) {
      *reason = "padding as large as the window";
      return false;
    }
    const auto* average = call->attrs.as<ops::AvgPoolAttrs>();
    if (average != nullptr && average->count_include_pad && ends[d] > given[rank + d]) {
      *reason = "a rounded up size with counted padding";
      return false;
    }
  }
  return true;
}

bool TakesGlobalPool(const CallNode* call, std::string* reason) {
  if (!Floats(call, reason)) return false;
  const auto* attrs = call->attrs_as<ops::GlobalPoolAttrs>();
  return IsPlain(attrs->ParsedLayout(), attrs->ParsedOutLayout(), SpatialRank(call), reason);
}

bool TakesDense(const CallNode* call, std::string* reason) { return Floats(call, reason); }

bool TakesBatchMatmul(const CallNode* call, std::string* reason) {
  if (!Floats(call, reason)) return false;
  if (TensorOf(call->args[0]).shape.size() == 3) return true;
  *reason = "only batches of matrices";
  return false;
}

/// One operand must have the result's shape; the other is broadcast.
bool TakesBinary(const CallNode* call, std::string* reason) {
  if (!Floats(call, reason)) return false;
  const Ints shape = TensorOf(GetRef<relay::Expr>(call)).shape;
  const std::string& op = call->op.as<OpNode>()->name;
  if (TensorOf(call->args[0]).shape == shape) return true;
  const bool commutes = op != "subtract" && op != "divide" && op != "nn.bias_add";
  if (commutes && TensorOf(call->args[1]).shape == shape) return true;
  *reason = "no operand has the shape of the result";
  return false;
}

bool TakesReduce(const CallNode* call, std::string* reason) { return Floats(call, reason); }

bool TakesSlice(const CallNode* call, std::string* reason) {
  if (!Floats(call, reason)) return false;
  const auto* attrs = call->attrs_as<ops::StridedSliceAttrs>();
  for (int64_t stride : attrs->strides) {
    if (stride == 1) continue;
    *reason = "a step other than 1";
    return false;
  }
  return true;
}

bool TakesLrn(const CallNode* call, std::string* reason) {
  if (!Floats(call, reason)) return false;
  if (call->attrs_as<ops::LRNAttrs>()->axis == 1 && TensorOf(call->args[0]).shape.size() >= 3) return true;
  *reason = "not across channels";
  return false;
}

bool TakesLayerNorm(const CallNode* call, std::string* reason) {
  if (!Floats(call, reason)) return false;
  const int rank = static_cast<int>(TensorOf(call->args[0]).shape.size());
  const auto* attrs = call->attrs_as<ops::LayerNormAttrs>();
  const bool last = attrs->axis == -1 || attrs->axis == rank - 1;
  if (rank >= 2 && last && attrs->scale && attrs->center) return true;
  *reason = last ? "without scale or shift" : "not along the last dimension";
  return false;
}

bool TakesReshape(const CallNode* call, std::string* reason) { return Floats(call, reason); }

/// The axes that a reduction removes, sorted.
Ints ReducedAxes(const CallNode* call) {
  const auto* attrs = call->attrs_as<ops::ReduceAttrs>();
  const auto rank = static_cast<int64_t>(TensorOf(call->args[0]).shape.size());
  std::vector<bool> listed(static_cast<size_t>(rank), !attrs->axis.has_value());
  if (attrs->axis) {
    for (int64_t axis : *attrs->axis) listed[static_cast<size_t>(axis < 0 ? axis + rank : axis)] = true;
  }
  Ints axes;
  for (int64_t d = 0; d < rank; ++d) {
    if (listed[static_cast<size_t>(d)] != attrs->exclude) axes.push_back(d);
  }
  return axes;
}

Json ConvStep(const RegionNode& node, const Tensor& data) {
  const size_t rank = data.shape.size() - 2;
  if (const auto* attrs = node.call->attrs.as<ops::ConvTransposeAttrs>()) {
    const Ints padding = Padding(attrs->padding, rank);
    Ints ends = Ends(padding);
    for (size_t d = 0; d < rank; ++d) ends[d] -= attrs->output_padding[d];
    return {{"op", "deconv"}, {"strides", attrs->strides}, {"dilation", attrs->dilation}, {"begin", Begins(padding)},
            {"end", ends},    {"groups", attrs->groups}};
  }
  const auto* attrs = node.call->attrs_as<ops::ConvAttrs>();
  const Ints padding = Padding(attrs->padding, rank);
  return {
      {"op", "conv"},         {"strides", attrs->strides}, {"dilation", attrs->dilation}, {"begin", Begins(padding)},
      {"end", Ends(padding)}, {"groups", attrs->groups}};
}

Json PoolStep(const RegionNode& node, const Tensor& data) {
  const bool is_max = node.op().find("max") != std::string::npos;
  const size_t rank = data.shape.size() - 2;
  const auto* attrs = node.call->attrs.as<ops::PoolAttrs>();
  if (attrs == nullptr) {  // global
    return {{"op", "pool"},
            {"alg", is_max ? "max" : "avg"},
            {"strides", Ints(rank, 1)},
            {"kernel", Ints(data.shape.begin() + 2, data.shape.end())},
            {"begin", Ints(rank, 0)},
            {"end", Ints(rank, 0)}};
  }
  const auto* average = node.call->attrs.as<ops::AvgPoolAttrs>();
  return {{"op", "pool"},
          {"alg", is_max                                             ? "max"
                  : average != nullptr && average->count_include_pad ? "avg_padded"
                                                                     : "avg"},
          {"strides", attrs->strides},
          {"kernel", attrs->pool_size},
          {"begin", Begins(Padding(attrs->padding, rank))},
          {"end", PoolEnds(data.shape, node.type.shape, attrs)}};
}

Json SliceStep(const RegionNode& node, const Tensor& data) {
  const auto* attrs = node.call->attrs_as<ops::StridedSliceAttrs>();
  Ints offsets(data.shape.size(), 0);
  for (size_t i = 0; i < attrs->begin.size(); ++i) {
    int64_t axis = attrs->axes ? (*attrs->axes)[i] : static_cast<int64_t>(i);
    if (axis < 0) axis += static_cast<int64_t>(data.shape.size());
    const int64_t dim = data.shape[static_cast<size_t>(axis)];
    int64_t begin = attrs->begin[i] < 0 ? attrs->begin[i] + dim : attrs->begin[i];
    offsets[static_cast<size_t>(axis)] = std::clamp<int64_t>(begin, 0, dim);
  }
  return {{"op", "slice"}, {"offsets", offsets}};
}

Json MatmulStep(const RegionNode& node) {
  if (node.op() == "nn.dense") return {{"op", "dense"}};
  const auto [a, b] = TransposedOperands(node);
  return {{"op", "matmul"}, {"transpose", {a, b}}};
}

/// The number that a constant of one element is.
std::optional<double> NumberOf(const RegionNode& node) {
  if (node.kind != RegionNode::kConstant || node.type.size() != 1) return std::nullopt;
  return runtime::ElementAsDouble(node.data, 0);
}

}  // namespace

std::vector<std::pair<std::string, relay::TargetPredicate>> Operators() {
  std::vector<std::pair<std::string, relay::TargetPredicate>> ops = {
      {"nn.conv1d", &TakesConv},
      {"nn.conv2d", &TakesConv},
      {"nn.conv3d", &TakesConv},
      {"nn.conv1d_transpose", &TakesConvTranspose},
      {"nn.conv2d_transpose", &TakesConvTranspose},
      {"nn.conv3d_transpose", &TakesConvTranspose},
      {"nn.dense", &TakesDense},
      {"nn.matmul", &TakesDense},
      {"nn.batch_matmul", &TakesBatchMatmul},
      {"nn.max_pool1d", &TakesPool},
      {"nn.max_pool2d", &TakesPool},
      {"nn.max_pool3d", &TakesPool},
      {"nn.avg_pool1d", &TakesPool},
      {"nn.avg_pool2d", &TakesPool},
      {"nn.avg_pool3d", &TakesPool},
      {"nn.global_avg_pool2d", &TakesGlobalPool},
      {"nn.global_max_pool2d", &TakesGlobalPool},
      {"nn.softmax", &Floats},
      {"nn.log_softmax", &Floats},
      {"nn.lrn", &TakesLrn},
      {"nn.layer_norm", &TakesLayerNorm},
      {"mean", &TakesReduce},
      {"sum", &TakesReduce},
      {"max", &TakesReduce},
      {"min", &TakesReduce},
      {"concatenate", &Floats},
      {"reshape", &TakesReshape},
      {"squeeze", &TakesReshape},
      {"expand_dims", &TakesReshape},
      {"nn.batch_flatten", &TakesReshape},
      {"transpose", &Floats},
      {"strided_slice", &TakesSlice},
  };
  for (const auto& [op, alg] : UnaryAlgorithms()) ops.emplace_back(op, &Floats);
  for (const auto& [op, alg] : BinaryAlgorithms()) ops.emplace_back(op, &TakesBinary);
  return ops;
}

bool IsAnchor(const RegionNode& node) {
  return node.kind == RegionNode::kCall &&
         (node.call->attrs.as<ops::ConvAttrs>() != nullptr ||
          node.call->attrs.as<ops::ConvTransposeAttrs>() != nullptr || node.op() == "nn.dense" ||
          node.op() == "nn.matmul" || node.op() == "nn.batch_matmul");
}

bool MovesOnly(const std::string& op) {
  static const std::vector<std::string> names = {"concatenate",      "reshape",   "squeeze",      "expand_dims",
                                                 "nn.batch_flatten", "transpose", "strided_slice"};
  return std::find(names.begin(), names.end(), op) != names.end();
}

std::optional<Eltwise> AsEltwise(const Region& region, int index) {
  const RegionNode& node = region.nodes[static_cast<size_t>(index)];
  if (node.kind != RegionNode::kCall) return std::nullopt;
  const std::string& op = node.op();
  auto unary = UnaryAlgorithms().find(op);
  if (unary != UnaryAlgorithms().end()) {
    Eltwise result{node.inputs[0], unary->second};
    if (op == "negative") result.alpha = -1;
    if (op == "rsqrt") result.alpha = 1, result.beta = -0.5;
    if (op == "nn.leaky_relu") result.alpha = node.call->attrs_as<ops::LeakyReluAttrs>()->alpha;
    if (op == "clip") {
      const auto* attrs = node.call->attrs_as<ops::ClipAttrs>();
      result.alpha = attrs->a_min, result.beta = attrs->a_max;
    }
    return result;
  }
  if (op != "add" && op != "subtract" && op != "multiply" && op != "divide") return std::nullopt;
  const auto a = static_cast<size_t>(node.inputs[0]), b = static_cast<size_t>(node.inputs[1]);
  const auto number_a = NumberOf(region.nodes[a]), number_b = NumberOf(region.nodes[b]);
  const bool right = number_b.has_value();
  if (!right && !number_a) return std::nullopt;
  const int x = node.inputs[right ? 0 : 1];
  if (region.nodes[static_cast<size_t>(x)].type.shape != node.type.shape) return std::nullopt;
  const double c = right ? *number_b : *number_a;
  if (op == "add") return Eltwise{x, "linear", 1, c};
  if (op == "multiply") return Eltwise{x, "linear", c, 0};
  if (op == "subtract") return right ? Eltwise{x, "linear", 1, -c} : Eltwise{x, "linear", -1, c};
  if (right) return Eltwise{x, "linear", 1 / c, 0};
  return Eltwise{x, "pow", c, -1};
}

Json StepOf(const Region& region, int index, std::vector<int>* in) {
  const RegionNode& node = region.nodes[static_cast<size_t>(index)];
  *in = node.inputs;
  const std::string& op = node.op();
  const Tensor& data = region.nodes[static_cast<size_t>(node.inputs.at(0))].type;
  if (auto eltwise = AsEltwise(region, index)) {
    *in = {eltwise->x};
    return {{"op", "eltwise"}, {"alg", eltwise->alg}, {"alpha", eltwise->alpha}, {"beta", eltwise->beta}};
  }
  if (IsAnchor(node)) {
    return op == "nn.dense" || op == "nn.matmul" || op == "nn.batch_matmul" ? MatmulStep(node) : ConvStep(node, data);
  }
  auto binary = BinaryAlgorithms().find(op);
  if (binary != BinaryAlgorithms().end()) {
    Json step{{"op", "binary"}, {"alg", binary->second}};
    if (op == "nn.bias_add") {
      const int axis = node.call->attrs_as<ops::BiasAddAttrs>()->axis;
      step["axis"] = axis < 0 ? axis + static_cast<int>(data.shape.size()) : axis;
    } else if (data.shape != node.type.shape) {
      std::swap((*in)[0], (*in)[1]);
    }
    return step;
  }
  if (op.find("pool") != std::string::npos) return PoolStep(node, data);
  if (op == "nn.softmax" || op == "nn.log_softmax") {
    const int axis = node.call->attrs_as<ops::SoftmaxAttrs>()->axis;
    return {{"op", "softmax"},
            {"log", op == "nn.log_softmax"},
            {"axis", axis < 0 ? axis + static_cast<int>(data.shape.size()) : axis}};
  }
  if (op == "nn.lrn") {
    const auto* attrs = node.call->attrs_as<ops::LRNAttrs>();
    return {{"op", "lrn"}, {"size", attrs->size}, {"alpha", attrs->alpha}, {"beta", attrs->beta}, {"k", attrs->bias}};
  }
  if (op == "nn.layer_norm") {
    return {{"op", "layer_norm"}, {"epsilon", node.call->attrs_as<ops::LayerNormAttrs>()->epsilon}};
  }
  if (op == "mean" || op == "sum" || op == "max" || op == "min") {
    return {{"op", "reduce"}, {"alg", op}, {"axes", ReducedAxes(node.call)}};
  }
  if (op == "concatenate") {
    const int axis = node.call->attrs_as<ops::ConcatenateAttrs>()->axis;
    return {{"op", "concat"}, {"axis", axis < 0 ? axis + static_cast<int>(node.type.shape.size()) : axis}};
  }
  if (op == "transpose") {
    Ints axes = node.call->attrs_as<ops::TransposeAttrs>()->axes.value_or(Ints());
    const auto rank = static_cast<int64_t>(data.shape.size());
    if (axes.empty()) {
      for (int64_t d = rank; d-- > 0;) axes.push_back(d);
    }
    for (int64_t& axis : axes) axis = axis < 0 ? axis + rank : axis;
    return {{"op", "transpose"}, {"axes", axes}};
  }
  if (op == "strided_slice") return SliceStep(node, data);
  if (MovesOnly(op)) {
    *in = {node.inputs[0]};
    return {{"op", "reshape"}};
  }
  throw Error(StrCat("oneDNN has no operator ", op));
}

}  // namespace treadle::external::dnnl
