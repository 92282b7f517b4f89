// SPDX-License-Identifier: Apache-2.0
// ConvertLayout and AlterOpLayout: an operator that runs in another layout gets layout_transform around it; these are
// then moved behind what doesn't care about the layout, until those of neighbours meet and cancel.
#include <algorithm>

#include "passes/pass_util.h"
#include "passes/sink_layouts.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/ops/attrs/pool.h"
#include "treadle/ops/compute.h"
#include "treadle/relay/rewrite_rules.h"

namespace treadle::relay {
namespace {

/// The weight layout that goes with a data layout when "default" is asked for.
Layout DefaultKernelLayout(const Layout& data_layout, const Layout& kernel_layout, int groups) {
  if (data_layout.str() == "NHWC") return Layout(groups > 1 ? "HWOI" : "HWIO");
  if (data_layout.str() == "NCHW") return Layout("OIHW");
  return kernel_layout;
}

class LayoutConverter : public MixedModeMutator {
 public:
  explicit LayoutConverter(const Map<String, Array<String>>& desired) : desired_(desired) {}

 private:
  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const auto* op = pre->op.as<OpNode>();
    auto wanted = op == nullptr ? std::nullopt : desired_.Get(op->name);
    if (!wanted || wanted->empty() || (*wanted)[0] == "default") return post;
    const auto* call = static_cast<const CallNode*>(post.get());
    const Layout data_layout((*wanted)[0].str());
    if (op->name == "nn.conv2d") {
      return Conv2D(call, data_layout, wanted->size() > 1 ? (*wanted)[1].str() : "default");
    }
    if (op->name == "nn.max_pool2d" || op->name == "nn.avg_pool2d") return Pool(call, data_layout);
    throw Error(StrCat("ConvertLayout can't convert operator '", op->name,
                       "'; it knows nn.conv2d, nn.max_pool2d and nn.avg_pool2d"));
  }

  static Expr Conv2D(const CallNode* call, const Layout& data_layout, const std::string& kernel) {
    const auto* attrs = call->attrs_as<ops::Conv2DAttrs>();
    const Layout from = attrs->ParsedDataLayout(), kernel_from = attrs->ParsedKernelLayout();
    const Layout kernel_layout =
        kernel == "default" ? DefaultKernelLayout(data_layout, kernel_from, attrs->groups) : Layout(kernel);
    if (!from.HasAxesOf(data_layout) || !kernel_from.HasAxesOf(kernel_layout)) {
      throw Error(StrCat("ConvertLayout: nn.conv2d in ", attrs->data_layout, "/", attrs->kernel_layout,
                         " can't be converted to ", data_layout, "/", kernel_layout));
    }
    Attrs changed = Changed<ops::Conv2DAttrs>(call->attrs, [&](auto& a) {
      a.data_layout = data_layout.str();
      a.kernel_layout = kernel_layout.str();
      a.out_layout = "";
    });
    Expr data = Transform(call->args[0], from, data_layout);
    Expr weight = Transform(call->args[1], kernel_from, kernel_layout);
    return Transform(Call(call->op, {data, weight}, changed, {}, call->span), data_layout, attrs->ParsedOutLayout());
  }

  static Expr Pool(const CallNode* call, const Layout& layout) {
    const Layout from = call->attrs_as<ops::PoolAttrs>()->ParsedLayout(),
                 out = call->attrs_as<ops::PoolAttrs>()->ParsedOutLayout();
    if (!from.HasAxesOf(layout))
      throw Error(StrCat("ConvertLayout: pooling in ", from, " can't be converted to ", layout));
    auto change = [&](auto& a) {
      a.layout = layout.str();
      a.out_layout = "";
    };
    Attrs changed = OpName(call) == "nn.max_pool2d" ? Changed<ops::MaxPool2DAttrs>(call->attrs, change)
                                                    : Changed<ops::AvgPool2DAttrs>(call->attrs, change);
    return Transform(Call(call->op, {Transform(call->args[0], from, layout)}, changed, {}, call->span), layout, out);
  }

  Map<String, Array<String>> desired_;
};

/// Rules may say only which layouts an operator runs in: what goes into it, and comes out, is transformed here.
class OpAlterer : public MixedModeMutator {
  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const auto* op = pre->op.as<OpNode>();
    const FAlterOpLayout* rule = op == nullptr ? nullptr : GetRef<Op>(op).GetAttr(kAlterOpLayout);
    const Expr altered = ReplaceByRule(rule, pre, post);
    const auto* call = altered.as<CallNode>();
    if (altered.same_as(post) || call == nullptr || call->args.size() != pre->args.size()) return altered;
    const auto* given = static_cast<const CallNode*>(post.get());
    if (const auto* now = call->attrs.as<ops::Conv2DAttrs>()) {
      const auto* before = pre->attrs.as<ops::Conv2DAttrs>();
      if (before == nullptr) return altered;
      return Adapted(given, call, {before->ParsedDataLayout(), before->ParsedKernelLayout()},
                     {now->ParsedDataLayout(), now->ParsedKernelLayout()}, before->ParsedOutLayout(),
                     now->ParsedOutLayout());
    }
    if (const auto* now = call->attrs.as<ops::PoolAttrs>()) {
      const auto* before = pre->attrs.as<ops::PoolAttrs>();
      if (before == nullptr) return altered;
      return Adapted(given, call, {before->ParsedLayout()}, {now->ParsedLayout()}, before->ParsedOutLayout(),
                     now->ParsedOutLayout());
    }
    return altered;
  }

  /// `call` with the operands that it took over from `given` as they are brought from layouts `from` to `to`, and its
  /// result in the layout that was there.
  static Expr Adapted(const CallNode* given, const CallNode* call, const std::vector<Layout>& from,
                      const std::vector<Layout>& to, const Layout& result, const Layout& made) {
    Array<Expr> args = call->args;
    bool changed = result != made;
    for (size_t i = 0; i < from.size(); ++i) {
      if (from[i] == to[i] || !args[i].same_as(given->args[i])) continue;
      std::string axes = from[i].primal_axes(), wanted = to[i].primal_axes();
      std::sort(axes.begin(), axes.end());
      std::sort(wanted.begin(), wanted.end());
      if (axes != wanted) {
        throw Error(StrCat("AlterOpLayout: operand ", i, " of ", OpName(given), " in ", from[i],
                           " can't be brought to ", to[i]));
      }
      args.Set(i, Transform(args[i], from[i], to[i]));
      changed = true;
    }
    if (!changed) return GetRef<Expr>(call);
    return Transform(Call(call->op, args, call->attrs, {}, call->span), made, result);
  }
};

}  // namespace

namespace transform {

Pass ConvertLayout(Map<String, Array<String>> desired_layouts) {
  ops::RegisterAllOps();
  for (const auto& [name, layouts] : desired_layouts) Op::Get(name);  // says which was meant where there is none
  Pass convert = CreateFunctionPass(
      [desired_layouts](const Function& func, const IRModule&, const PassContext&) {
        return Downcast<Function>(LayoutConverter(desired_layouts).Mutate(func));
      },
      {"ConvertLayout", 3, {}, ""});
  return CreateModulePass(
      [convert](IRModule module, const PassContext& context) {
        return SinkLayoutTransforms()(convert(std::move(module), context), context);
      },
      {"ConvertLayout", 3, {"InferType"}, "Runs operators in other layouts"});
}

Pass AlterOpLayout() {
  Pass alter = MutatorPass<OpAlterer>({"AlterOpLayout", 3, {}, ""});
  return CreateModulePass(
      [alter](IRModule module, const PassContext& context) {
        return SinkLayoutTransforms()(alter(std::move(module), context), context);
      },
      {"AlterOpLayout", 3, {"InferType"}, "Rewrites calls by their operators' layout rules"});
}

}  // namespace transform
}  // namespace treadle::relay
