// SPDX-License-Identifier: Apache-2.0
// FakeQuantizationToInteger: operators between qnn.dequantize and qnn.quantize work on the integers themselves.
//
// qnn.dequantize moves behind what gives the same on integers (movements of data, maxima, products), and where it meets
// qnn.quantize the pair becomes nothing or a requantisation. What has no integer form stays in float32 between the two,
// and is fused with both.
#include <algorithm>
#include <cmath>
#include <map>

#include "passes/lookup_tables.h"
#include "passes/pass_util.h"
#include "passes/qnn_passes.h"
#include "passes/wide_conv.h"
#include "treadle/ir/structural.h"
#include "treadle/ops/attrs/pool.h"
#include "treadle/ops/attrs/qnn.h"
#include "treadle/ops/attrs/reduce.h"
#include "treadle/ops/traits.h"

namespace treadle::relay {
namespace {

using runtime::NDArray;

/// A call of qnn.dequantize taken apart.
struct Real {
  Expr value, scale, zero_point;
  int axis;
  DataType dtype;  ///< of the integers
};

bool SameConstant(const Expr& a, const Expr& b) {
  if (a.same_as(b)) return true;
  const auto *x = a.as<ConstantNode>(), *y = b.as<ConstantNode>();
  return x != nullptr && y != nullptr && StructuralEqual(a, b);
}

constexpr size_t kUnknownRank = 99;
size_t RankOf(const Expr& e) {
  const auto* constant = e.as<ConstantNode>();
  if (constant != nullptr) return constant->data.shape().size();
  const auto* type = e->checked_type_.as<TensorTypeNode>();
  return type == nullptr ? kUnknownRank : type->shape.size();
}
/// One number for the whole tensor.
bool IsScalar(const Expr& e) { return RankOf(e) == 0; }

bool IsZero(const Expr& e) {
  const auto value = UniformValue(e);
  return value && *value == 0;
}

double Lowest(DataType dtype) { return dtype.is_uint() ? 0 : -static_cast<double>(int64_t{1} << (dtype.bits() - 1)); }
double Highest(DataType dtype) {
  return static_cast<double>(int64_t{1} << (dtype.is_uint() ? dtype.bits() : dtype.bits() - 1)) - 1;
}

/// Elements of a float32 constant; empty for other expressions.
std::vector<float> Floats(const Expr& e) {
  const auto* constant = e.as<ConstantNode>();
  if (constant == nullptr || constant->data.dtype() != DataType::Float(32) || !constant->data.IsCompact()) return {};
  const auto* data = constant->data.Data<float>();
  return {data, data + constant->data.size()};
}

class IntegerRewriter : public MixedModeMutator {
 private:
  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const auto* call = post.as<CallNode>();
    if (call == nullptr || call->op.as<OpNode>() == nullptr) return post;
    const std::string& name = OpName(call);
    Expr result;
    if (name == "qnn.quantize") {
      result = Quantize(call);
    } else if (name == "qnn.dequantize") {
      // Its operand may have changed, its type hasn't.
      integers_[call] = pre->args[0]->type_as<TensorTypeNode>()->dtype;
      return post;
    } else if (ValueRuleOf(call) != ops::ValueRule::kComputes) {
      result = OnIntegers(call, pre);
    } else if (name == "nn.relu") {
      result = Relu(call, pre);
    } else if (name == "nn.conv1d" || name == "nn.conv2d" || name == "nn.dense" || name == "nn.matmul" ||
               name == "nn.batch_matmul") {
      result = Product(call, pre, name);
    } else if (name == "nn.bias_add" || name == "add") {
      result = Bias(call, pre, name);
    } else if (name == "mean" || name == "nn.global_avg_pool2d") {
      result = Mean(call, pre, name);
    }
    return result.defined() ? WithPlaceOf(result, call) : post;
  }

  Expr Rewrite_(const TupleGetItemNode* op, const Expr& post) override {
    const auto* item = post.as<TupleGetItemNode>();
    const CallNode* split = item == nullptr ? nullptr : AsCallOf(item->tuple, "split");
    if (split == nullptr) return post;
    const auto real = RealOf(split->args[0]);
    if (!real || !IsScalar(real->scale) || !IsScalar(real->zero_point)) return post;
    auto& moved = splits_[split];
    if (!moved.defined()) moved = Call(split->op, {real->value}, split->attrs, {}, split->span);
    return Dequantize(TupleGetItem(moved, item->index), *real, op->checked_type());
  }

  /// What a call of qnn.dequantize converts; void for others.
  DataType IntegersOf(const CallNode* call) const {
    auto dtype = integers_.find(call);
    return dtype == integers_.end() ? DataType::Void() : dtype->second;
  }

  std::optional<Real> RealOf(const Expr& e) const {
    const CallNode* call = AsCallOf(e, "qnn.dequantize");
    if (call == nullptr) return std::nullopt;
    auto dtype = integers_.find(call);
    if (dtype == integers_.end()) return std::nullopt;
    return Real{call->args[0], call->args[1], call->args[2], call->attrs_as<ops::DequantizeAttrs>()->axis,
                dtype->second};
  }

  Expr Dequantize(const Expr& value, const Real& like, const Type& type) {
    Expr result = ops::CallWith<ops::DequantizeAttrs>("qnn.dequantize", {value, like.scale, like.zero_point},
                                                      [&](auto& a) { a.axis = like.axis; });
    auto* node = const_cast<ExprNode*>(result.get());
    node->checked_type_ = type;
    integers_[result.get()] = like.dtype;
    kept_.push_back(result);
    return result;
  }

  /// Whether clipping at `bound` can't be told from the integers' own range.
  static bool IsOwnBound(double bound, const Expr& scale, const Expr& zero_point, DataType dtype, bool low) {
    const auto s = UniformValue(scale), z = UniformValue(zero_point);
    if (!s || !z || !IsScalar(scale) || !(*s > 0)) return false;
    if (std::isinf(bound)) return (bound < 0) == low;
    const float scaled = static_cast<float>(bound) / static_cast<float>(*s);
    const double q = std::nearbyint(static_cast<double>(scaled)) + *z;
    return low ? q <= Lowest(dtype) : q >= Highest(dtype);
  }

  Expr Quantize(const CallNode* call) { return QuantizeOf(call->args[0], call, call->attrs_as<ops::QuantizeAttrs>()); }

  Expr QuantizeOf(Expr x, const CallNode* call, const ops::QuantizeAttrs* attrs) {
    const Expr &scale = call->args[1], &zero_point = call->args[2];
    const DataType dtype = attrs->out_dtype;
    while (true) {
      if (const CallNode* relu = AsCallOf(x, "nn.relu"); relu && IsOwnBound(0, scale, zero_point, dtype, true)) {
        x = relu->args[0];
      } else if (const CallNode* clip = AsCallOf(x, "clip");
                 clip && IsOwnBound(clip->attrs_as<ops::ClipAttrs>()->a_min, scale, zero_point, dtype, true) &&
                 IsOwnBound(clip->attrs_as<ops::ClipAttrs>()->a_max, scale, zero_point, dtype, false)) {
        x = clip->args[0];
      } else {
        break;
      }
    }
    if (auto real = RealOf(x)) {
      auto rectified = rectified_.find(real->value.get());
      if (rectified != rectified_.end() && IsOwnBound(0, scale, zero_point, dtype, true)) {
        real->value = rectified->second;
      }
      const bool same = real->dtype == dtype && SameConstant(real->scale, scale) &&
                        SameConstant(real->zero_point, zero_point) && (IsScalar(scale) || real->axis == attrs->axis);
      if (same) return real->value;
      if (real->dtype == DataType::Int(32) && IsScalar(scale) && IsScalar(zero_point)) {
        return ops::CallWith<ops::RequantizeAttrs>(
            "qnn.requantize", {real->value, real->scale, real->zero_point, scale, zero_point}, [&](auto& a) {
              a.axis = real->axis;
              a.out_dtype = dtype;
            });
      }
    }
    if (const CallNode* concat = AsCallOf(x, "concatenate"); concat && IsScalar(scale)) {
      if (Expr joined = QuantizeParts(concat, call, attrs); joined.defined()) return joined;
    }
    if (Expr lookup = LookupOf(call, x); lookup.defined()) return lookup;
    if (x.same_as(call->args[0])) return Expr();
    return Call(call->op, {x, scale, zero_point}, call->attrs, {}, call->span);
  }

  /// A table's entries for what `x` is computed of, in the shape that `x` gives it.
  Expr LookupOf(const CallNode* quantize, const Expr& x) {
    std::vector<const CallNode*> shapes;
    Expr values = x;
    while (const auto* call = values.as<CallNode>()) {
      if (call->op.as<OpNode>() == nullptr || !KeepsElements(OpName(call))) break;
      shapes.push_back(call);
      values = call->args[0];
    }
    Expr result = AsLookup(quantize, values, [this](const CallNode* source) { return IntegersOf(source); });
    if (!result.defined()) return Expr();
    for (auto call = shapes.rbegin(); call != shapes.rend(); ++call) {
      Array<Expr> args = (*call)->args;
      args.Set(0, result);
      result = Call((*call)->op, args, (*call)->attrs, (*call)->type_args, (*call)->span);
    }
    return result;
  }

  /// Whether an operator gives each element of its first operand once, in another shape or order.
  static bool KeepsElements(const std::string& name) {
    return name == "reshape" || name == "transpose" || name == "squeeze" || name == "expand_dims";
  }

  /// Parts are quantised before they are joined, where that makes integers of some.
  Expr QuantizeParts(const CallNode* concat, const CallNode* call, const ops::QuantizeAttrs* attrs) {
    const auto* tuple = concat->args[0].as<TupleNode>();
    if (tuple == nullptr) return Expr();
    Array<Expr> parts;
    bool any = false;
    for (const Expr& field : tuple->fields) {
      any = any || RealOf(field).has_value();
      Expr part = QuantizeOf(field, call, attrs);
      parts.push_back(part.defined()
                          ? part
                          : Expr(Call(call->op, {field, call->args[1], call->args[2]}, call->attrs, {}, call->span)));
    }
    return any ? Expr(Call(concat->op, {Tuple(parts)}, concat->attrs, {}, concat->span)) : Expr();
  }

  /// The same operator on integers of one scale and zero point.
  Expr OnIntegers(const CallNode* call, const CallNode* pre) {
    const auto real = RealOf(call->args[0]);
    if (!real || !IsScalar(real->scale) || !IsScalar(real->zero_point)) return Expr();
    if (ValueRuleOf(call) == ops::ValueRule::kPicks) {
      const auto scale = UniformValue(real->scale);
      if (!scale || !(*scale > 0)) return Expr();
    }
    Array<Expr> args = call->args;
    args.Set(0, real->value);
    return Dequantize(Call(call->op, args, call->attrs, call->type_args, call->span), *real, pre->checked_type());
  }

  Expr Relu(const CallNode* call, const CallNode* pre) {
    const auto real = RealOf(call->args[0]);
    if (!real) return Expr();
    if (!IsScalar(real->zero_point) || real->zero_point.as<ConstantNode>() == nullptr) return Expr();
    const auto zero = UniformValue(real->zero_point);
    const std::vector<float> scales = Floats(real->scale);
    if (!zero || std::any_of(scales.begin(), scales.end(), [](float scale) { return !(scale > 0); })) return Expr();
    const Expr least = ops::ScalarConstant(real->dtype, static_cast<int64_t>(*zero));
    Expr integers = ops::CallOp("maximum", {real->value, least});
    rectified_[integers.get()] = real->value;
    return Dequantize(integers, *real, pre->checked_type());
  }

  static ops::ValueRule ValueRuleOf(const CallNode* call) { return ops::ValueRuleOf(Downcast<Op>(call->op)); }

  static bool IsByte(DataType dtype) { return dtype.is_integral() && !dtype.is_bool() && dtype.bits() == 8; }

  Expr Product(const CallNode* call, const CallNode* pre, const std::string& name) {
    const auto data = RealOf(call->args[0]), weight = RealOf(call->args[1]);
    if (!data || !weight || !IsByte(data->dtype) || !IsByte(weight->dtype)) return Expr();
    if (!IsScalar(data->scale) || !IsScalar(data->zero_point) || RankOf(weight->scale) > 1) return Expr();
    // The dimension of the weight that is one of the result's, and which.
    int from = 0, to = -1;
    if (name == "nn.conv2d") {
      const auto* attrs = call->attrs_as<ops::Conv2DAttrs>();
      if (!attrs->IsIn("NCHW", "OIHW")) return Expr();
      to = 1;
    } else if (name == "nn.conv1d") {
      if (!call->attrs_as<ops::Conv1DAttrs>()->IsIn("NCW", "OIW")) return Expr();
      to = 1;
    } else if (name == "nn.matmul") {
      const auto* attrs = call->attrs_as<ops::MatmulAttrs>();
      if (attrs->transpose_a) return Expr();
      from = attrs->transpose_b ? 0 : 1;
    }
    const size_t rank = TensorTypeOf(GetRef<Expr>(pre->args[1].get()))->shape.size();
    if (!IsScalar(weight->scale) || !IsScalar(weight->zero_point)) {
      if (name == "nn.batch_matmul" || PositiveAxis(weight->axis, rank) != from) return Expr();
    }
    const bool narrow = name == "nn.conv1d";
    const Expr values = narrow ? WithOneRow(data->value) : data->value,
               weights = narrow ? WithOneRow(weight->value) : weight->value;
    Expr sums = Call(Op::Get(narrow ? "qnn.conv2d" : "qnn." + name.substr(3)),
                     {values, weights, data->zero_point, weight->zero_point, data->scale, weight->scale},
                     narrow ? WideConvAttrs(*call->attrs_as<ops::Conv1DAttrs>()) : call->attrs, {}, call->span);
    if (narrow) sums = ops::MakeSqueeze(sums, {2});
    Real result{sums, ops::CallOp("multiply", {data->scale, weight->scale}),
                ops::ScalarConstant(DataType::Int(32), int64_t{0}), to, DataType::Int(32)};
    // Known at once, so that biases can be compared with it.
    const std::vector<float> a = Floats(data->scale), b = Floats(weight->scale);
    if (a.size() == 1 && !b.empty()) {
      NDArray product = NDArray::Empty(weight->scale.as<ConstantNode>()->data.shape(), DataType::Float(32));
      std::transform(b.begin(), b.end(), product.Data<float>(), [&](float s) { return a[0] * s; });
      result.scale = Constant(product);
    }
    return Dequantize(sums, result, pre->checked_type());
  }

  /// The mean of bytes is their sum in int32, of a scale and a zero point of its own.
  Expr Mean(const CallNode* call, const CallNode* pre, const std::string& name) {
    constexpr int64_t kMost = int64_t{1} << 22;  // sums of as many bytes, less their zero points, fit int32
    const auto real = RealOf(call->args[0]);
    if (!real || !IsByte(real->dtype)) return Expr();
    const std::vector<float> scale = Floats(real->scale);
    const auto zero = UniformValue(real->zero_point);
    if (scale.size() != 1 || !zero || !IsScalar(real->scale) || !IsScalar(real->zero_point)) return Expr();
    const Array<PrimExpr>& from = TensorTypeOf(pre->args[0])->shape;
    ops::ReduceAttrs sum = name == "mean" ? *call->attrs_as<ops::ReduceAttrs>() : SpatialAxes(call);
    int64_t count = 1;
    for (size_t axis = 0; axis < from.size(); ++axis) {
      if (!Reduces(sum, axis, from.size())) continue;
      const int64_t* size = AsConstInt(from[axis]);
      if (size == nullptr || *size < 1 || *size > kMost / count) return Expr();
      count *= *size;
    }
    Expr sums = ops::CallWith<ops::ReduceAttrs>("sum", {ops::MakeCast(real->value, DataType::Int(32))}, [&](auto& a) {
      a.axis = sum.axis;
      a.keepdims = sum.keepdims;
      a.exclude = sum.exclude;
    });
    const auto zeros = static_cast<int64_t>(*zero) * count;
    const Real result{
        sums, ops::ScalarConstant(DataType::Float(32), static_cast<double>(scale[0]) / static_cast<double>(count)),
        ops::ScalarConstant(DataType::Int(32), zeros), -1, DataType::Int(32)};
    return Dequantize(sums, result, pre->checked_type());
  }

  static ops::ReduceAttrs SpatialAxes(const CallNode* pool) {
    const Layout layout(pool->attrs_as<ops::GlobalPool2DAttrs>()->layout);
    ops::ReduceAttrs attrs;
    attrs.axis = std::vector<int64_t>{layout.IndexOf('H'), layout.IndexOf('W')};
    attrs.keepdims = true;
    return attrs;
  }

  static bool Reduces(const ops::ReduceAttrs& attrs, size_t axis, size_t rank) {
    if (!attrs.axis) return true;
    const bool listed = std::any_of(attrs.axis->begin(), attrs.axis->end(), [&](int64_t a) {
      return static_cast<size_t>(PositiveAxis(static_cast<int>(a), rank)) == axis;
    });
    return listed != attrs.exclude;
  }

  static bool SameScales(const Expr& a, const Expr& b) {
    constexpr double kTolerance = 1e-6;
    std::vector<float> x = Floats(a), y = Floats(b);
    if (x.empty() || y.empty()) return false;
    if (x.size() == 1) x.resize(y.size(), x[0]);
    if (y.size() == 1) y.resize(x.size(), y[0]);
    if (x.size() != y.size()) return false;
    for (size_t i = 0; i < x.size(); ++i) {
      if (!(std::abs(static_cast<double>(x[i]) - y[i]) <= kTolerance * std::abs(y[i]))) return false;
    }
    return true;
  }

  /// A bias in int32 of the sums' own scale is added to them.
  Expr Bias(const CallNode* call, const CallNode* pre, const std::string& name) {
    for (size_t i = 0; i < (name == "add" ? 2U : 1U); ++i) {
      const auto sums = RealOf(call->args[i]), bias = RealOf(call->args[1 - i]);
      if (!sums || !bias || sums->dtype != DataType::Int(32) || bias->dtype != DataType::Int(32)) continue;
      if (bias->value.as<ConstantNode>() == nullptr || !IsZero(sums->zero_point) || !IsZero(bias->zero_point)) continue;
      if (RankOf(bias->value) > 1 || !SameScales(bias->scale, sums->scale)) continue;
      const auto* type = TensorTypeOf(Expr(GetRef<Expr>(pre)));
      const size_t rank = type->shape.size();
      const int along = name == "add" ? -1 : call->attrs_as<ops::BiasAddAttrs>()->axis;
      if (!IsScalar(sums->scale) && PositiveAxis(sums->axis, rank) != PositiveAxis(along, rank)) continue;
      const auto* shape = TensorTypeOf(pre->args[i]);
      if (!ShapesEqual(shape->shape, type->shape)) continue;  // the bias broadcasts, not the sums
      Array<Expr> args{sums->value, bias->value};
      return Dequantize(Call(call->op, args, call->attrs, {}, call->span), *sums, pre->checked_type());
    }
    return Expr();
  }

  std::map<const Object*, DataType> integers_;  ///< what calls of qnn.dequantize convert
  std::map<const Object*, Expr> splits_;
  std::map<const Object*, Expr> rectified_;  ///< what relu was taken of, for the integers that it gave
  std::vector<Expr> kept_;                   ///< keys of the above stay alive
};

}  // namespace

namespace transform {

Pass FakeQuantizationToInteger() {
  return MutatorPass<IntegerRewriter>({"FakeQuantizationToInteger",
                                       0,
                                       {"InferType"},
                                       "Makes operators between qnn.dequantize and qnn.quantize work on integers"});
}

}  // namespace transform
}  // namespace treadle::relay
