// SPDX-License-Identifier: Apache-2.0
// DynamicToStatic: dyn.* operators whose shape operands are constants become their static twins. Types are inferred
// between rounds, since one shape can depend on another.
#include <map>

#include "passes/pass_util.h"
#include "treadle/ops/attrs/algorithm.h"
#include "treadle/ops/attrs/image.h"
#include "treadle/runtime/scalar.h"

namespace treadle::relay {
namespace {

using Rewriter = Expr (*)(const CallNode* call);

Array<PrimExpr> Shape(const std::vector<int64_t>& values) { return ops::IntArray(values); }

/// The elements of a constant of rank 0 or 1 whose type is a number; nothing for other expressions.
std::optional<std::vector<double>> ConstNumbers(const Expr& expr) {
  const auto* constant = expr.as<ConstantNode>();
  if (constant == nullptr || constant->data.ndim() > 1 || !constant->data.IsCompact()) return std::nullopt;
  if (!runtime::IsNumber(constant->data.dtype())) return std::nullopt;
  return runtime::ToDoubles(constant->data);
}

/// A call of `name` with the attributes of `call`, which are of the same class, changed.
template <typename AttrsT, typename Change>
Expr WithAttrs(const CallNode* call, const char* name, Array<Expr> args, Change&& change) {
  auto attrs = MakeObject<AttrsT>(*call->attrs_as<AttrsT>());
  change(*attrs);
  return ops::CallOp(name, std::move(args), Attrs(ObjectPtr<Object>(attrs)), call->span);
}

Expr Reshape(const CallNode* call) {
  auto shape = ConstIntegers(call->args[1]);
  if (!shape) return Expr();
  return WithAttrs<ops::ReshapeAttrs>(call, "reshape", {call->args[0]},
                                      [&](auto& attrs) { attrs.newshape = Shape(*shape); });
}
Expr Squeeze(const CallNode* call) {
  auto axes = ConstIntegers(call->args[1]);
  return axes ? ops::MakeSqueeze(call->args[0], *axes) : Expr();
}
Expr Tile(const CallNode* call) {
  auto reps = ConstIntegers(call->args[1]);
  if (!reps) return Expr();
  return ops::CallWith<ops::TileAttrs>("tile", {call->args[0]}, [&](auto& a) { a.reps = *reps; });
}
Expr BroadcastTo(const CallNode* call) {
  auto shape = ConstIntegers(call->args[1]);
  return shape ? ops::MakeBroadcastTo(call->args[0], Shape(*shape)) : Expr();
}
Expr Zeros(const CallNode* call) {
  auto shape = ConstIntegers(call->args[0]);
  return shape ? ops::MakeZeros(Shape(*shape), call->attrs_as<ops::InitOpAttrs>()->dtype) : Expr();
}
Expr Ones(const CallNode* call) {
  auto shape = ConstIntegers(call->args[0]);
  return shape ? ops::MakeOnes(Shape(*shape), call->attrs_as<ops::InitOpAttrs>()->dtype) : Expr();
}
Expr Full(const CallNode* call) {
  auto shape = ConstIntegers(call->args[1]);
  return shape ? ops::MakeFull(call->args[0], Shape(*shape), call->attrs_as<ops::InitOpAttrs>()->dtype) : Expr();
}
Expr StridedSlice(const CallNode* call) {
  auto begin = ConstIntegers(call->args[1]), end = ConstIntegers(call->args[2]);
  auto strides = call->args.size() > 3 ? ConstIntegers(call->args[3]) : std::vector<int64_t>();
  if (!begin || !end || !strides) return Expr();
  const auto* attrs = call->attrs.as<ops::StridedSliceAttrs>();
  return ops::CallWith<ops::StridedSliceAttrs>("strided_slice", {call->args[0]}, [&](auto& a) {
    a.begin = *begin;
    a.end = *end;
    a.strides = *strides;
    if (attrs != nullptr) {
      a.slice_mode = attrs->slice_mode;
      a.axes = attrs->axes;
    }
  });
}
Expr Pad(const CallNode* call) {
  const auto* constant = call->args[1].as<ConstantNode>();
  if (constant == nullptr || constant->data.ndim() != 2 || !constant->data.IsCompact()) return Expr();
  int64_t rank = constant->data.shape()[0];
  Constant flat(constant->data.CreateView({rank * 2}, constant->data.dtype()));
  auto widths = ConstIntegers(flat);
  if (!widths) return Expr();
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (int64_t i = 0; i < rank; ++i) pairs.emplace_back((*widths)[2 * i], (*widths)[2 * i + 1]);
  const auto* attrs = call->attrs.as<ops::PadAttrs>();
  return ops::MakePad(call->args[0], pairs, call->args[2], attrs != nullptr ? attrs->pad_mode : "constant");
}

Expr TopK(const CallNode* call) {
  auto k = ConstIntegers(call->args[1]);
  if (!k || k->size() != 1) return Expr();
  return WithAttrs<ops::TopKAttrs>(call, "topk", {call->args[0]}, [&](auto& a) { a.k = (*k)[0]; });
}
Expr OneHot(const CallNode* call) {
  auto depth = ConstIntegers(call->args[3]);
  if (!depth || depth->size() != 1 || (*depth)[0] > INT32_MAX) return Expr();
  return WithAttrs<ops::OneHotAttrs>(call, "one_hot", {call->args[0], call->args[1], call->args[2]},
                                     [&](auto& a) { a.depth = static_cast<int>((*depth)[0]); });
}
Expr Resize2D(const CallNode* call) {
  auto size = ConstIntegers(call->args[1]);
  auto roi = ConstNumbers(call->args[2]);
  if (!size || size->size() != 2 || !roi) return Expr();
  return WithAttrs<ops::Resize2DAttrs>(call, "image.resize2d", {call->args[0]}, [&](auto& a) {
    a.size = *size;
    a.roi = *roi;
  });
}
Expr UpSampling(const CallNode* call) {
  auto height = ConstNumbers(call->args[1]), width = ConstNumbers(call->args[2]);
  if (!height || !width || height->size() != 1 || width->size() != 1) return Expr();
  return WithAttrs<ops::UpSamplingAttrs>(call, "nn.upsampling", {call->args[0]}, [&](auto& a) {
    a.scale_h = (*height)[0];
    a.scale_w = (*width)[0];
  });
}
Expr UpSampling3D(const CallNode* call) {
  std::vector<double> scales;
  for (size_t i = 1; i < 4; ++i) {
    auto scale = ConstNumbers(call->args[i]);
    if (!scale || scale->size() != 1) return Expr();
    scales.push_back((*scale)[0]);
  }
  return WithAttrs<ops::UpSampling3DAttrs>(call, "nn.upsampling3d", {call->args[0]}, [&](auto& a) {
    a.scale_d = scales[0];
    a.scale_h = scales[1];
    a.scale_w = scales[2];
  });
}

const std::map<std::string, Rewriter>& Rewriters() {
  static const std::map<std::string, Rewriter> rewriters = {{"dyn.reshape", Reshape},
                                                            {"dyn.squeeze", Squeeze},
                                                            {"dyn.tile", Tile},
                                                            {"dyn.broadcast_to", BroadcastTo},
                                                            {"dyn.zeros", Zeros},
                                                            {"dyn.ones", Ones},
                                                            {"dyn.full", Full},
                                                            {"dyn.strided_slice", StridedSlice},
                                                            {"dyn.nn.pad", Pad},
                                                            {"dyn.topk", TopK},
                                                            {"dyn.one_hot", OneHot},
                                                            {"dyn.image.resize2d", Resize2D},
                                                            {"dyn.nn.upsampling", UpSampling},
                                                            {"dyn.nn.upsampling3d", UpSampling3D}};
  return rewriters;
}

class ToStatic : public MixedModeMutator {
 public:
  bool changed = false;

 private:
  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    auto it = Rewriters().find(OpName(pre));
    if (it == Rewriters().end()) return post;
    Expr result = it->second(static_cast<const CallNode*>(post.get()));
    if (!result.defined()) return post;
    changed = true;
    return result;
  }
};

bool HasRewritable(const IRModule& module) {
  bool found = false;
  for (const auto& [var, func] : module->functions) {
    if (func.as<FunctionNode>() == nullptr) continue;
    PostOrderVisit(func, [&](const Expr& e) {
      const auto* call = e.as<CallNode>();
      found = found || (call != nullptr && Rewriters().count(OpName(call)) != 0);
    });
  }
  return found;
}

}  // namespace

namespace transform {

Pass DynamicToStatic() {
  return CreateModulePass(
      [](IRModule module, const PassContext& context) {
        // Operands for shapes become constants first; each round may make further ones known.
        for (bool changed = HasRewritable(module); changed;) {
          changed = false;
          auto run = [&changed](const Function& func, const IRModule&, const PassContext&) {
            ToStatic rewriter;
            Function result = Downcast<Function>(rewriter.Mutate(func));
            changed = changed || rewriter.changed;
            return result;
          };
          module = FoldConstant()(std::move(module), context);
          module = CreateFunctionPass(run, {"DynamicToStaticRound", 0, {}, ""})(std::move(module), context);
        }
        return module;
      },
      {"DynamicToStatic", 2, {"InferType"}, "Replaces dyn.* operators whose shape operands are constants"});
}

}  // namespace transform
}  // namespace treadle::relay
