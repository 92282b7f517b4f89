// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/graph/finite_padding.h"

#include <algorithm>

#include "passes/pass_util.h"
#include "treadle/ops/make.h"
#include "treadle/relay/expr_functor.h"

namespace treadle::relay {
namespace {

/// Channels of an image; -1 where they are dynamic, or it is none.
int64_t ChannelsOf(const TensorTypeNode* type) {
  if (type == nullptr || type->shape.size() != 4) return -1;
  const int64_t* channels = AsConstInt(type->shape[1]);
  return channels == nullptr ? -1 : *channels;
}

/// Values of the model whose padding is mixed into other channels, wherever that happens.
std::unordered_set<const Object*> MixedValues(const LayoutTrace& trace) {
  std::unordered_set<const Object*> mixed;
  auto add = [&](const Object* value) {
    while (value != nullptr && mixed.insert(value).second) {
      auto it = trace.in_place.find(value);
      value = it == trace.in_place.end() ? nullptr : it->second.of;
    }
  };
  // Readers first.
  for (size_t i = trace.calls.size(); i-- > 0;) {
    const LaidCall& laid = trace.calls[i];
    const bool mixes =
        laid.padding == PaddingUse::kMixed || (laid.padding == PaddingUse::kApart && mixed.count(laid.call) != 0);
    if (!mixes) continue;
    for (size_t k = 0; k < laid.args.size(); ++k) {
      if (laid.read[k].is_blocked() && laid.read[k].HasPadding(ChannelsOf(TensorTypeOf(laid.args[k])))) {
        add(laid.args[k].get());
      }
    }
  }
  return mixed;
}

/// 0 instead of channels that only pad blocks.
Expr ClearPadding(const Expr& sums, const LaidCall& laid) {
  const auto* type = laid.call->type_as<TensorTypeNode>();
  const int64_t channels = ChannelsOf(type), block = laid.out.block, blocks = laid.out.PaddedChannels(channels) / block;
  runtime::NDArray exists = runtime::NDArray::Empty({1, blocks, 1, 1, block}, DataType::Bool());
  auto* flags = static_cast<uint8_t*>(exists.data_ptr());
  std::fill(flags, flags + blocks * block, uint8_t{0});
  for (const int64_t at : laid.out.ChannelIndexMap(channels)) flags[at] = 1;
  return ops::CallOp("where", {Constant(exists), sums, ops::ScalarConstant(type->dtype, 0.0)}, Attrs(),
                     laid.call->span);
}

class Mutator : public MixedModeMutator {
 public:
  explicit Mutator(const LayoutTrace& trace) {
    const std::unordered_set<const Object*> mixed = MixedValues(trace);
    for (const LaidCall& laid : trace.calls) {
      const auto* type = laid.call->type_as<TensorTypeNode>();
      const bool sums =
          laid.by_kernel && laid.padding != PaddingUse::kApart && type != nullptr && type->dtype.is_floating();
      if (sums && laid.out.HasPadding(ChannelsOf(type)) && mixed.count(laid.call) != 0) {
        cleared_[laid.result.get()] = &laid;
      }
    }
  }
  bool empty() const { return cleared_.empty(); }

 private:
  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    auto it = cleared_.find(pre);
    return it == cleared_.end() ? post : ClearPadding(post, *it->second);
  }
  std::unordered_map<const Object*, const LaidCall*> cleared_;
};

}  // namespace

Expr WithFinitePadding(const Expr& body, const LayoutTrace& trace) {
  Mutator mutator(trace);
  return mutator.empty() ? body : mutator.Mutate(body);
}

}  // namespace treadle::relay
