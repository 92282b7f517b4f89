// SPDX-License-Identifier: Apache-2.0
// DynamicToStatic: dyn.* operators whose shape operands are constants become their static twins. Types are inferred
// between rounds, since one shape can depend on another.
#include <map>

#include "relay/passes/pass_util.h"
#include "treadle/ops/attrs/image.h"

namespace treadle::relay {
namespace {

using Rewriter = Expr (*)(const CallNode* call);

Array<PrimExpr> Shape(const std::vector<int64_t>& values) { return ops::IntArray(values); }

Expr Reshape(const CallNode* call) {
  auto shape = ConstIntegers(call->args[1]);
  return shape ? ops::MakeReshape(call->args[0], Shape(*shape)) : Expr();
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

const std::map<std::string, Rewriter>& Rewriters() {
  static const std::map<std::string, Rewriter> rewriters = {
      {"dyn.reshape", Reshape}, {"dyn.squeeze", Squeeze}, {"dyn.tile", Tile}, {"dyn.broadcast_to", BroadcastTo},
      {"dyn.zeros", Zeros},     {"dyn.ones", Ones},       {"dyn.full", Full}, {"dyn.strided_slice", StridedSlice},
      {"dyn.nn.pad", Pad}};
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

}  // namespace

namespace transform {

Pass DynamicToStatic() {
  return CreateModulePass(
      [](IRModule module, const PassContext& context) {
        for (bool changed = true; changed;) {
          changed = false;
          auto run = [&changed](const Function& func, const IRModule&, const PassContext&) {
            ToStatic rewriter;
            Function result = Downcast<Function>(rewriter.Mutate(func));
            changed = changed || rewriter.changed;
            return result;
          };
          module = CreateFunctionPass(run, {"DynamicToStaticRound", 0, {}, ""})(module, context);
          if (changed) module = FoldConstant()(module, context);
        }
        return module;
      },
      {"DynamicToStatic", 2, {"InferType"}, "Replaces dyn.* operators whose shape operands are constants"});
}

}  // namespace transform
}  // namespace treadle::relay
