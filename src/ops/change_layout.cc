// SPDX-License-Identifier: Apache-2.0
#include "ops/change_layout.h"

#include "treadle/ops/attrs/transform.h"
#include "treadle/ops/make.h"

namespace treadle::ops {

relay::Expr LayoutTransform(const relay::Expr& data, const std::string& from, const std::string& to) {
  static const Op op = Op::Get("layout_transform");
  auto attrs = MakeObject<LayoutTransformAttrs>();
  attrs->src_layout = from;
  attrs->dst_layout = to;
  return relay::Call(op, {data}, Attrs(ObjectPtr<Object>(attrs)), {}, data->span);
}

namespace {

using relay::ChannelLayout;

/// Channels of a tensor in NCHW; null where that isn't one or they are dynamic.
const int64_t* ChannelsOf(const TensorTypeNode* type) {
  return type != nullptr && type->shape.size() == 4 ? AsConstInt(type->shape[1]) : nullptr;
}

/// Channels of a layout with groups.
struct GroupedChannels {
  GroupedChannels(const ChannelLayout& layout, int64_t channels)
      : groups(layout.groups),
        each(channels / groups),
        padded(layout.PaddedChannels(channels) / groups),
        shuffled(layout.shuffled) {}
  int64_t groups, each, padded;  ///< channels of a group; with those that pad its blocks
  bool shuffled;
};

/// A tensor of `type` in `layout` as plain one: channels that pad blocks go.
relay::Expr ToPlain(const relay::Expr& data, const TensorTypeNode* type, const ChannelLayout& layout) {
  relay::Expr result = LayoutTransform(data, layout.axes(), "NCHW");
  const int64_t* channels = ChannelsOf(type);
  if (channels == nullptr) return result;
  if (layout.is_in_order()) {
    if (!layout.HasPadding(*channels)) return result;
    if (!IsStatic(type)) return MakeStridedSlice(result, {0}, {*channels}, {1}, std::vector<int64_t>{1});
    std::vector<int64_t> end;
    for (const PrimExpr& dim : type->shape) end.push_back(*AsConstInt(dim));
    return MakeStridedSlice(result, {0, 0, 0, 0}, end);
  }
  const GroupedChannels g(layout, *channels);
  result = MakeReshape(result, std::vector<int64_t>{0, -4, g.groups, g.padded, 0, 0});
  if (g.padded != g.each) result = MakeStridedSlice(result, {0}, {g.each}, {1}, std::vector<int64_t>{2});
  if (g.shuffled) result = MakeTranspose(result, {0, 2, 1, 3, 4});
  return MakeReshape(result, std::vector<int64_t>{0, -3, 0, 0});
}

/// The inverse.
relay::Expr FromPlain(const relay::Expr& data, const TensorTypeNode* type, const ChannelLayout& layout) {
  const int64_t* channels = ChannelsOf(type);
  relay::Expr result = data;
  if (channels != nullptr && !layout.is_in_order()) {
    const GroupedChannels g(layout, *channels);
    result = MakeReshape(result, g.shuffled ? std::vector<int64_t>{0, -4, g.each, g.groups, 0, 0}
                                            : std::vector<int64_t>{0, -4, g.groups, g.each, 0, 0});
    if (g.shuffled) result = MakeTranspose(result, {0, 2, 1, 3, 4});
    if (g.padded != g.each) {
      result =
          MakePad(result, {{0, 0}, {0, 0}, {0, g.padded - g.each}, {0, 0}, {0, 0}}, ScalarConstant(type->dtype, 0.0));
    }
    result = MakeReshape(result, std::vector<int64_t>{0, -3, 0, 0});
  } else if (channels != nullptr && layout.HasPadding(*channels)) {
    const int64_t more = layout.PaddedChannels(*channels) - *channels;
    result = MakePad(result, {{0, 0}, {0, more}, {0, 0}, {0, 0}}, ScalarConstant(type->dtype, 0.0));
  }
  return LayoutTransform(result, "NCHW", layout.axes());
}

/// From blocks of one size to those of another, the channels in order in both.
relay::Expr ChangeBlocks(const relay::Expr& data, const TensorTypeNode* type, const ChannelLayout& from,
                         const ChannelLayout& to) {
  const int64_t* channels = ChannelsOf(type);
  const int64_t have = channels == nullptr ? 0 : from.PaddedChannels(*channels),
                want = channels == nullptr ? 0 : to.PaddedChannels(*channels);
  if (want <= have) {
    relay::Expr result = LayoutTransform(data, from.axes(), to.axes());
    if (want == have) return result;
    return MakeStridedSlice(result, {0}, {want / to.block}, {1}, std::vector<int64_t>{1});
  }
  const int64_t more = (want - have) / from.block;
  relay::Expr result = MakePad(data, {{0, 0}, {0, more}, {0, 0}, {0, 0}, {0, 0}}, ScalarConstant(type->dtype, 0.0));
  return LayoutTransform(result, from.axes(), to.axes());
}

}  // namespace

relay::Expr ChangeLayout(const relay::Expr& data, const TensorTypeNode* type, const ChannelLayout& from,
                         const ChannelLayout& to) {
  if (from == to) return data;
  if (from.is_plain()) return FromPlain(data, type, to);
  if (to.is_plain()) return ToPlain(data, type, from);
  if (from.is_in_order() && to.is_in_order()) return ChangeBlocks(data, type, from, to);
  return FromPlain(ToPlain(data, type, from), type, to);
}

}  // namespace treadle::ops
