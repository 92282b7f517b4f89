// SPDX-License-Identifier: Apache-2.0
#include "ops/change_layout.h"

#include "treadle/ops/attrs/transform.h"
#include "treadle/ops/make.h"
#include "treadle/relay/layout.h"

namespace treadle::ops {

relay::Expr LayoutTransform(const relay::Expr& data, const std::string& from, const std::string& to) {
  static const Op op = Op::Get("layout_transform");
  auto attrs = MakeObject<LayoutTransformAttrs>();
  attrs->src_layout = from;
  attrs->dst_layout = to;
  return relay::Call(op, {data}, Attrs(ObjectPtr<Object>(attrs)), {}, data->span);
}

namespace {

/// Channels of a tensor in NCHW; null where that isn't one or only the run tells.
const int64_t* ChannelsOf(const TensorTypeNode* type) {
  return type != nullptr && type->shape.size() == 4 ? AsConstInt(type->shape[1]) : nullptr;
}

/// Channels of a layout with groups.
struct GroupedChannels {
  GroupedChannels(const std::string& layout, int64_t channels) {
    shuffled = layout.find('%') != std::string::npos;
    groups = std::stoll(layout.substr(relay::WithoutGroups(layout).size() + 1));
    each = channels / groups;
    whole = relay::ChannelsIn(layout, channels) / groups;
  }
  int64_t groups, each, whole;  ///< channels of a group; with those that fill its blocks
  bool shuffled;
};

/// A tensor of `type` in `layout` as plain one: channels that fill blocks go.
relay::Expr ToPlain(const relay::Expr& data, const TensorTypeNode* type, const std::string& layout) {
  relay::Expr result = LayoutTransform(data, relay::WithoutGroups(layout), "NCHW");
  const int64_t* channels = ChannelsOf(type);
  if (channels == nullptr) return result;
  const int64_t whole = relay::ChannelsIn(layout, *channels);
  if (relay::IsInOrder(layout)) {
    if (whole == *channels) return result;
    if (!IsStatic(type)) return MakeStridedSlice(result, {0}, {*channels}, {1}, std::vector<int64_t>{1});
    std::vector<int64_t> end;
    for (const PrimExpr& dim : type->shape) end.push_back(*AsConstInt(dim));
    return MakeStridedSlice(result, {0, 0, 0, 0}, end);
  }
  const GroupedChannels g(layout, *channels);
  result = MakeReshape(result, std::vector<int64_t>{0, -4, g.groups, g.whole, 0, 0});
  if (g.whole != g.each) result = MakeStridedSlice(result, {0}, {g.each}, {1}, std::vector<int64_t>{2});
  if (g.shuffled) result = MakeTranspose(result, {0, 2, 1, 3, 4});
  return MakeReshape(result, std::vector<int64_t>{0, -3, 0, 0});
}

/// The inverse.
relay::Expr FromPlain(const relay::Expr& data, const TensorTypeNode* type, const std::string& layout) {
  const int64_t* channels = ChannelsOf(type);
  relay::Expr result = data;
  if (channels != nullptr && !relay::IsInOrder(layout)) {
    const GroupedChannels g(layout, *channels);
    result = MakeReshape(result, g.shuffled ? std::vector<int64_t>{0, -4, g.each, g.groups, 0, 0}
                                            : std::vector<int64_t>{0, -4, g.groups, g.each, 0, 0});
    if (g.shuffled) result = MakeTranspose(result, {0, 2, 1, 3, 4});
    if (g.whole != g.each) {
      result =
          MakePad(result, {{0, 0}, {0, 0}, {0, g.whole - g.each}, {0, 0}, {0, 0}}, ScalarConstant(type->dtype, 0.0));
    }
    result = MakeReshape(result, std::vector<int64_t>{0, -3, 0, 0});
  } else if (channels != nullptr && relay::IsFilled(layout, *channels)) {
    const int64_t more = relay::ChannelsIn(layout, *channels) - *channels;
    result = MakePad(result, {{0, 0}, {0, more}, {0, 0}, {0, 0}}, ScalarConstant(type->dtype, 0.0));
  }
  return LayoutTransform(result, "NCHW", relay::WithoutGroups(layout));
}

/// From blocks of one size to those of another, the channels in order in both.
relay::Expr ChangeBlocks(const relay::Expr& data, const TensorTypeNode* type, const std::string& from,
                         const std::string& to) {
  const int64_t* channels = ChannelsOf(type);
  const int64_t have = channels == nullptr ? 0 : relay::ChannelsIn(from, *channels),
                want = channels == nullptr ? 0 : relay::ChannelsIn(to, *channels), block = relay::BlockOf(to);
  if (want <= have) {
    relay::Expr result = LayoutTransform(data, from, to);
    if (want == have) return result;
    return MakeStridedSlice(result, {0}, {want / block}, {1}, std::vector<int64_t>{1});
  }
  const int64_t more = (want - have) / relay::BlockOf(from);
  relay::Expr result = MakePad(data, {{0, 0}, {0, more}, {0, 0}, {0, 0}, {0, 0}}, ScalarConstant(type->dtype, 0.0));
  return LayoutTransform(result, from, to);
}

}  // namespace

relay::Expr ChangeLayout(const relay::Expr& data, const TensorTypeNode* type, const std::string& from,
                         const std::string& to) {
  if (from == to) return data;
  if (from.empty()) return FromPlain(data, type, to);
  if (to.empty()) return ToPlain(data, type, from);
  if (relay::IsInOrder(from) && relay::IsInOrder(to)) return ChangeBlocks(data, type, from, to);
  return FromPlain(ToPlain(data, type, from), type, to);
}

}  // namespace treadle::ops
