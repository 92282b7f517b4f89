// SPDX-License-Identifier: Apache-2.0
// What calls of dyn.* operators are whose shape operands are constants: their static twins.
#include <numeric>

#include "ops/families.h"
#include "treadle/ops/attrs/algorithm.h"
#include "treadle/ops/attrs/image.h"
#include "treadle/ops/attrs/transform.h"
#include "treadle/ops/columns_to_image.h"
#include "treadle/ops/constants.h"
#include "treadle/ops/make.h"
#include "treadle/ops/traits.h"

namespace treadle::ops {
namespace {

using relay::CallNode;
using relay::Constant;
using relay::ConstantNode;
using relay::Expr;

Array<PrimExpr> Shape(const std::vector<int64_t>& values) { return IntArray(values); }

/// A call of `name` with the attributes of `call`, which are of the same class, changed.
template <typename AttrsT, typename Change>
Expr WithAttrs(const CallNode* call, const char* name, Array<Expr> args, Change&& change) {
  auto attrs = MakeObject<AttrsT>(*call->attrs_as<AttrsT>());
  change(*attrs);
  return CallOp(name, std::move(args), Attrs(ObjectPtr<Object>(attrs)), call->span);
}

Expr Reshape(const CallNode* call) {
  auto shape = ConstIntegers(call->args[1]);
  if (!shape) return Expr();
  return WithAttrs<ReshapeAttrs>(call, "reshape", {call->args[0]},
                                 [&](auto& attrs) { attrs.newshape = Shape(*shape); });
}
Expr Squeeze(const CallNode* call) {
  auto axes = ConstIntegers(call->args[1]);
  return axes ? MakeSqueeze(call->args[0], *axes) : Expr();
}
Expr Tile(const CallNode* call) {
  auto reps = ConstIntegers(call->args[1]);
  if (!reps) return Expr();
  return CallWith<TileAttrs>("tile", {call->args[0]}, [&](auto& a) { a.reps = *reps; });
}
Expr BroadcastTo(const CallNode* call) {
  auto shape = ConstIntegers(call->args[1]);
  return shape ? MakeBroadcastTo(call->args[0], Shape(*shape)) : Expr();
}
Expr Zeros(const CallNode* call) {
  auto shape = ConstIntegers(call->args[0]);
  return shape ? MakeZeros(Shape(*shape), call->attrs_as<InitOpAttrs>()->dtype) : Expr();
}
Expr Ones(const CallNode* call) {
  auto shape = ConstIntegers(call->args[0]);
  return shape ? MakeOnes(Shape(*shape), call->attrs_as<InitOpAttrs>()->dtype) : Expr();
}
Expr Full(const CallNode* call) {
  auto shape = ConstIntegers(call->args[1]);
  return shape ? MakeFull(call->args[0], Shape(*shape), call->attrs_as<InitOpAttrs>()->dtype) : Expr();
}
Expr Iota(const CallNode* call) {
  constexpr int64_t kMaxCount = 1 << 16;
  auto count = ConstIntegers(call->args[0]);
  if (!count || count->size() != 1 || (*count)[0] < 0 || (*count)[0] > kMaxCount) return Expr();
  NDArray values = NDArray::Empty({(*count)[0]}, DataType::Int(64));
  std::iota(values.Data<int64_t>(), values.Data<int64_t>() + (*count)[0], 0);
  return Constant(values, call->span);
}
Expr StridedSlice(const CallNode* call) {
  auto begin = ConstIntegers(call->args[1]), end = ConstIntegers(call->args[2]);
  auto strides = call->args.size() > 3 ? ConstIntegers(call->args[3]) : std::vector<int64_t>();
  if (!begin || !end || !strides) return Expr();
  const auto* attrs = call->attrs.as<StridedSliceAttrs>();
  return CallWith<StridedSliceAttrs>("strided_slice", {call->args[0]}, [&](auto& a) {
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
  const auto* attrs = call->attrs.as<PadAttrs>();
  const std::string mode = attrs != nullptr ? attrs->pad_mode : "constant";
  if (mode == "reflect" || mode == "wrap") {  // nn.pad neither cuts first nor repeats what it has repeated
    const auto* type = call->args[0]->checked_type_.as<TensorTypeNode>();
    for (size_t i = 0; i < pairs.size(); ++i) {
      const int64_t* size = type == nullptr ? nullptr : AsConstInt(type->shape[i]);
      const auto [least, most] = std::minmax(pairs[i].first, pairs[i].second);
      if (least < 0 || (most > 0 && (size == nullptr || most > *size - (mode == "reflect" ? 1 : 0)))) return Expr();
    }
  }
  return MakePad(call->args[0], pairs, call->args[2], mode);
}

Expr TopK(const CallNode* call) {
  auto k = ConstIntegers(call->args[1]);
  if (!k || k->size() != 1 || (*k)[0] < 1) return Expr();  // the static form takes less than 1 for all elements
  return WithAttrs<TopKAttrs>(call, "topk", {call->args[0]}, [&](auto& a) { a.k = (*k)[0]; });
}
Expr OneHot(const CallNode* call) {
  auto depth = ConstIntegers(call->args[3]);
  if (!depth || depth->size() != 1 || (*depth)[0] > INT32_MAX) return Expr();
  return WithAttrs<OneHotAttrs>(call, "one_hot", {call->args[0], call->args[1], call->args[2]},
                                [&](auto& a) { a.depth = static_cast<int>((*depth)[0]); });
}
Expr Resize2D(const CallNode* call) {
  auto size = ConstIntegers(call->args[1]);
  auto roi = ConstNumbers(call->args[2]);
  if (!size || size->size() != 2 || !roi) return Expr();
  return WithAttrs<Resize2DAttrs>(call, "image.resize2d", {call->args[0]}, [&](auto& a) {
    a.size = IntArray(*size);
    a.roi = *roi;
  });
}
Expr UpSampling(const CallNode* call) {
  auto height = ConstNumbers(call->args[1]), width = ConstNumbers(call->args[2]);
  if (!height || !width || height->size() != 1 || width->size() != 1) return Expr();
  return WithAttrs<UpSamplingAttrs>(call, "nn.upsampling", {call->args[0]}, [&](auto& a) {
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
  return WithAttrs<UpSampling3DAttrs>(call, "nn.upsampling3d", {call->args[0]}, [&](auto& a) {
    a.scale_d = scales[0];
    a.scale_h = scales[1];
    a.scale_w = scales[2];
  });
}

Expr ColumnsToImage(const CallNode* call) {
  const auto image = ConstIntegers(call->args[1]), before = ConstIntegers(call->args[2]);
  const auto* type = call->args[0]->type_as<TensorTypeNode>();
  const auto columns = type == nullptr ? std::nullopt : ConstInts(type->shape);
  if (!image || !before || !columns) return Expr();
  return WithAttrs<ColumnsToImageAttrs>(call, "nn.contrib_columns_to_image", {call->args[0]}, [&](auto& attrs) {
    attrs.padding = *before;
    for (size_t d = 0; d < image->size(); ++d) {
      const int64_t places = (*columns)[2 + image->size() + d], window = (*columns)[2 + d];
      const int64_t whole = (places - 1) * attrs.strides[d] + (window - 1) * attrs.dilation[d] + 1;
      attrs.padding.push_back(whole - (*before)[d] - (*image)[d]);
    }
  });
}

}  // namespace

void RegisterStaticForms() {
  auto set = [](const char* name, FStaticForm form) { OpRegistration(name).Set(kStaticForm, form); };
  set("dyn.reshape", Reshape);
  set("dyn.squeeze", Squeeze);
  set("dyn.tile", Tile);
  set("dyn.iota", Iota);
  set("dyn.broadcast_to", BroadcastTo);
  set("dyn.zeros", Zeros);
  set("dyn.ones", Ones);
  set("dyn.full", Full);
  set("dyn.strided_slice", StridedSlice);
  set("dyn.nn.pad", Pad);
  set("dyn.nn.contrib_columns_to_image", ColumnsToImage);
  set("dyn.topk", TopK);
  set("dyn.one_hot", OneHot);
  set("dyn.image.resize2d", Resize2D);
  set("dyn.nn.upsampling", UpSampling);
  set("dyn.nn.upsampling3d", UpSampling3D);
}

}  // namespace treadle::ops
