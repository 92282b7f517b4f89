// SPDX-License-Identifier: Apache-2.0
#include "passes/sink_layouts.h"

#include <cctype>
#include <optional>
#include <unordered_map>

#include "passes/pass_util.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/ops/attrs/pool.h"
#include "treadle/ops/attrs/transform.h"
#include "treadle/ops/make.h"

namespace treadle::relay {
namespace {

Layout SourceOf(const CallNode* transform) {
  return Layout(transform->attrs_as<ops::LayoutTransformAttrs>()->src_layout);
}
Layout TargetOf(const CallNode* transform) {
  return Layout(transform->attrs_as<ops::LayoutTransformAttrs>()->dst_layout);
}

/// op(transform(x), transform(y)) becomes transform(op(x, y)) for operators that don't care; see sink_layouts.h.
class TransformSinker : public MixedModeMutator {
 private:
  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const auto* call = static_cast<const CallNode*>(post.get());
    const auto* op = call->op.as<OpNode>();
    if (op == nullptr || pre->type_as<TensorTypeNode>() == nullptr) return post;
    if (const auto* outer = AsCallOf(post, "layout_transform")) return Cancel(outer, post);
    if (op->name == "nn.bias_add") return SinkThroughBias(call, post);
    if (op->name == "concatenate") return SinkThroughConcatenate(pre, call, post);
    if (auto pool = kPools.find(op->name); pool != kPools.end()) return SinkThroughPool(call, pool->second, post);
    if (GetRef<Op>(op).GetAttr(kOpPattern, OpPatternKind::kOpaque) > OpPatternKind::kBroadcast) return post;
    // Attributes may say which dimension an operand belongs to (nn.prelu).
    if (call->args.size() > 1 && op->attrs_type != nullptr) return post;
    const CallNode* common = CommonTransform(call->args);
    if (common == nullptr) return post;
    const Layout from = SourceOf(common), to = TargetOf(common);
    const Array<PrimExpr>& shape = pre->type_as<TensorTypeNode>()->shape;
    if (shape.size() != to.ndim()) return post;
    bool whole = false;  // one of the operands has the result's shape: the others are broadcast to it
    Array<Expr> args;
    for (size_t i = 0; i < call->args.size(); ++i) {
      const auto* type = TensorTypeOf(pre->args[i]);
      const auto* transform = AsCallOf(call->args[i], "layout_transform");
      if (type == nullptr) return post;
      if (transform != nullptr && ShapesEqual(type->shape, shape)) {
        args.push_back(transform->args[0]);
        whole = true;
        continue;
      }
      std::optional<Expr> arg = Broadcast(call->args[i], type, to, from);
      if (!arg) return post;
      args.push_back(*arg);
    }
    return whole ? Transform(Call(call->op, args, call->attrs, {}, call->span), from, to) : post;
  }

  /// The transform that all transforms among `args` are like; null: there is none, or they differ.
  static const CallNode* CommonTransform(const Array<Expr>& args) {
    const CallNode* common = nullptr;
    for (const Expr& arg : args) {
      const auto* transform = AsCallOf(arg, "layout_transform");
      if (transform == nullptr) continue;
      if (common != nullptr && (SourceOf(common) != SourceOf(transform) || TargetOf(common) != TargetOf(transform))) {
        return nullptr;
      }
      common = transform;
    }
    return common;
  }

  /// An operand that is broadcast to tensors in layout `to`, as one that is to tensors in layout `from`: scalars as
  /// they are, vectors along one dimension turned to it. Null: it is larger, or its blocks aren't whole.
  static std::optional<Expr> Broadcast(const Expr& arg, const TensorTypeNode* type, const Layout& to,
                                       const Layout& from) {
    const size_t missing = to.ndim() - type->shape.size();
    size_t wide = 0;
    for (size_t i = 0; i < type->shape.size(); ++i) {
      const int64_t* size = AsConstInt(type->shape[i]);
      if (size == nullptr) return std::nullopt;
      if (*size == 1) continue;
      if (++wide > 1 || !to.IsPlain() || *size % from.BlockOf(to[missing + i].name) != 0) return std::nullopt;
    }
    if (wide == 0) return type->shape.size() <= from.ndim() ? std::optional<Expr>(arg) : std::nullopt;
    std::vector<int64_t> shape(from.ndim(), 1);
    for (size_t i = 0; i < type->shape.size(); ++i) {
      const int64_t size = *AsConstInt(type->shape[i]);
      if (size == 1) continue;
      const char name = to[missing + i].name;
      const int64_t block = from.BlockOf(name);
      shape[static_cast<size_t>(from.IndexOf(name))] = size / block;
      if (block > 1) shape[static_cast<size_t>(from.IndexOf(static_cast<char>(std::tolower(name))))] = block;
    }
    return ops::MakeReshape(arg, shape);
  }

  using ChangePool = Attrs (*)(const Attrs&, const Layout& to, const Layout& from);
  /// Attributes of pooling in layout `from` where they say `to`; null attributes: they say something else.
  template <typename AttrsT>
  static Attrs PoolIn(const Attrs& attrs, const Layout& to, const Layout& from) {
    const auto* pool = static_cast<const AttrsT*>(attrs.get());
    if (pool->ParsedLayout() != to || pool->ParsedOutLayout() != to) return Attrs();
    return Changed<AttrsT>(attrs, [&](AttrsT& a) {
      a.layout = from.str();
      a.out_layout = "";
    });
  }
  static const std::unordered_map<std::string, ChangePool> kPools;

  static Expr SinkThroughPool(const CallNode* call, ChangePool change, const Expr& post) {
    const auto* transform = AsCallOf(call->args[0], "layout_transform");
    if (transform == nullptr) return post;
    const Layout from = SourceOf(transform), to = TargetOf(transform);
    if (from.BlockOf('H') != 1 || from.BlockOf('W') != 1) return post;
    const Attrs attrs = change(call->attrs, to, from);
    if (!attrs.defined()) return post;
    return Transform(Call(call->op, {transform->args[0]}, attrs, {}, call->span), from, to);
  }

  static Expr SinkThroughConcatenate(const CallNode* pre, const CallNode* call, const Expr& post) {
    const auto* tuple = call->args[0].as<TupleNode>();
    const auto* types = pre->args[0]->type_as<TupleTypeNode>();
    if (tuple == nullptr || types == nullptr) return post;
    const CallNode* common = CommonTransform(tuple->fields);
    if (common == nullptr) return post;
    const Layout from = SourceOf(common), to = TargetOf(common);
    if (!to.IsPlain()) return post;
    const auto at = static_cast<size_t>(PositiveAxis(call->attrs_as<ops::ConcatenateAttrs>()->axis, to.ndim()));
    const int64_t block = from.BlockOf(to[at].name);
    Array<Expr> parts;
    for (size_t i = 0; i < tuple->fields.size(); ++i) {
      const auto* transform = AsCallOf(tuple->fields[i], "layout_transform");
      const auto* type = types->fields[i].as<TensorTypeNode>();
      const int64_t* size = type == nullptr ? nullptr : AsConstInt(type->shape[at]);
      if (transform == nullptr || (block > 1 && (size == nullptr || *size % block != 0))) return post;
      parts.push_back(transform->args[0]);
    }
    return Transform(ops::MakeConcatenate(parts, from.IndexOf(to[at].name)), from, to);
  }

  static Expr Cancel(const CallNode* outer, const Expr& post) {
    const auto* inner = AsCallOf(outer->args[0], "layout_transform");
    if (inner == nullptr) return post;
    return SourceOf(outer) == TargetOf(inner) && TargetOf(outer) == SourceOf(inner) ? inner->args[0] : post;
  }

  static Expr SinkThroughBias(const CallNode* call, const Expr& post) {
    const auto* transform = AsCallOf(call->args[0], "layout_transform");
    if (transform == nullptr) return post;
    const Layout from = SourceOf(transform), to = TargetOf(transform);
    if (!from.IsPlain() || !to.IsPlain()) return post;
    const auto at = static_cast<size_t>(PositiveAxis(call->attrs_as<ops::BiasAddAttrs>()->axis, to.ndim()));
    const Expr sum = ops::MakeBiasAdd(transform->args[0], call->args[1], from.IndexOf(to[at].name));
    return Transform(sum, from, to);
  }
};

const std::unordered_map<std::string, TransformSinker::ChangePool> TransformSinker::kPools = {
    {"nn.max_pool2d", &PoolIn<ops::MaxPool2DAttrs>},
    {"nn.avg_pool2d", &PoolIn<ops::AvgPool2DAttrs>},
    {"nn.global_max_pool2d", &PoolIn<ops::GlobalPool2DAttrs>},
    {"nn.global_avg_pool2d", &PoolIn<ops::GlobalPool2DAttrs>},
    {"nn.adaptive_max_pool2d", &PoolIn<ops::AdaptivePool2DAttrs>},
    {"nn.adaptive_avg_pool2d", &PoolIn<ops::AdaptivePool2DAttrs>},
};

}  // namespace

transform::Pass SinkLayoutTransforms() {
  return transform::CreateFunctionPass(
      [](const Function& func, const IRModule&, const transform::PassContext&) {
        return Downcast<Function>(TransformSinker().Mutate(func));
      },
      {"SinkLayoutTransforms", 0, {}, ""});
}

}  // namespace treadle::relay
