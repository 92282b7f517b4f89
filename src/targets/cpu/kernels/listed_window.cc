// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/kernels/listed_window.h"

#include <algorithm>

#include "ops/conv.h"
#include "ops/te_util.h"
#include "targets/cpu/kernels/conv_layout.h"
#include "targets/cpu/kernels/weight_forms.h"
#include "targets/cpu/kernels/winograd_compute.h"
#include "targets/cpu/kernels/winograd_transform.h"
#include "targets/cpu/kernels/word_conv.h"
#include "treadle/base/int_math.h"
#include "treadle/ir/transform.h"

namespace treadle::ops::cpu {
namespace {

constexpr int64_t kBytes = 4;

}  // namespace

ListedWindow::ListedWindow(const ConvProblemNode& p, int64_t channels_of_pixel)
    : channels(channels_of_pixel),
      inputs(p.ic),
      kh(p.kh),
      kw(p.kw),
      oh(p.oh),
      ow(p.ow),
      dilation_h(p.dilation_h),
      dilation_w(p.dilation_w),
      stride_h(p.stride_h),
      stride_w(p.stride_w),
      pad_t(p.pad_t),
      pad_l(p.pad_l),
      pointwise(p.kh == 1 && p.kw == 1 && p.pad_t + p.pad_l + p.pad_b + p.pad_r == 0),
      contiguous(HasContiguousWindow(p)) {
  if (pointwise) {
    picked_h = stride_h;
    picked_w = stride_w;
    stride_h = stride_w = 1;
  }
  // The last word of a row of taps may end in other pixels.
  const int64_t span = contiguous ? CeilDiv(words() * kBytes, channels) : (kw - 1) * dilation_w + 1;
  high = (oh - 1) * stride_h + (kh - 1) * dilation_h + 1;
  wide = (ow - 1) * stride_w + span;
  if (channels % 2 != 0) wide += wide % 2;
  pointwise = pointwise && wide == ow;
  complements = channels % 2 == 0 || stride_w % 2 == 0;
}

int64_t ListedWindow::Offset(int64_t quad) const {
  const int64_t word = quad % words() * kBytes, tap = quad / words();
  if (contiguous) return tap * dilation_h * wide * channels + word;
  return (tap / kw * dilation_h * wide + tap % kw * dilation_w) * channels + word;
}

PrimExpr ListedWindow::Start(const PrimExpr& row, const PrimExpr& column) const {
  return (row * Index(stride_h * wide) + column * Index(stride_w)) * Index(channels);
}

bool HasContiguousWindow(const ConvProblemNode& p) {
  return p.groups == 1 && p.ic < kLeastBlocked && p.dilation_w == 1;
}

namespace {

/// Of data in blocks of 8 channels; of larger ones it differs in where words lie.
ListedWindow WindowOf(const ConvProblemNode& p) {
  constexpr int64_t kBlock = 8;
  return {p, HasContiguousWindow(p) ? p.ic : RoundUp(p.ic, kBlock)};
}

/// Words of four bytes that products of int16 multiply for 8 results.
int64_t QuadsOfPairs(const ConvProblemNode& p, int lanes) {
  const int64_t inputs = p.ic / p.groups, taps = p.kh * p.kw;
  if (p.groups == 1) return taps * (CeilDiv(inputs, kBytes));
  const std::vector<GroupsInBlocks> blocks = BlockGroups(p, lanes);
  return blocks.empty() ? 0 : taps * inputs * blocks[0].merged / kBytes;
}

/// Whether lists take less time than products of int16: of 8 results, in words of those (measured on Zen 3). Tiles of
/// groups have short lists, and cost more for each entry. Of few channels int16 are made one by one, so that a pixel is
/// whole words.
bool Pay(const ConvProblemNode& p, const ByteLists& lists, int lanes) {
  constexpr double kEntry = 1.4, kEntryOfGroups = 1.6, kCopied = 0.25, kSpread = 0.5, kLeastGain = 0.95;
  constexpr double kSingle = 0.28;  // of an entry, that one of one word takes beyond its share in long lists
  const ListedWindow window = WindowOf(p);
  const int64_t lists_of_oc = CeilDiv(p.oc, kListBlock);
  const auto blocks = static_cast<double>(lists_of_oc);
  const double copied = static_cast<double>(window.forms() * window.image()) / static_cast<double>(p.oh * p.ow) /
                        static_cast<double>(kBytes) * kCopied;
  auto quads = static_cast<double>(QuadsOfPairs(p, lanes));
  if (window.contiguous) {
    quads += kSpread * static_cast<double>(kBytes * p.ih * p.iw) / static_cast<double>(p.oh * p.ow) / blocks;
  }
  const double entries = lists.mean_entries + kSingle * lists.mean_singles;
  return entries * (p.groups > 1 ? kEntryOfGroups : kEntry) + copied / blocks <= kLeastGain * quads;
}

std::string WhyNotListed(const ConvProblemNode& p) {
  constexpr int64_t kMinChannels = 16;
  if (p.is_depthwise()) return "one channel in each group";
  if (!p.is_static()) return "the image's size is dynamic";
  if (p.groups > 1 && (p.ic % 8 != 0 || p.oc % 8 != 0)) return "channels don't fill blocks";
  const bool winograd = WhyNotWinogradWindow(p).empty() && p.ic >= kMinChannels && p.oc >= kMinChannels;
  return winograd && transform::PassContext::Current()->GetConfigBool(kWinogradOption, true)
             ? "Winograd's method has fewer products"
             : "";
}

/// The weights (OIHW) of each result in the order of words.
std::vector<int8_t> InWords(const ConvProblemNode& p, const runtime::NDArray& weight, const ListedWindow& window) {
  const int64_t inputs = p.ic / p.groups, taps = p.kh * p.kw, row = window.quads() * kBytes;
  std::vector<int8_t> words(static_cast<size_t>(p.oc * row), int8_t{0});
  const auto* from = weight.Data<int8_t>();
  for (int64_t o = 0; o < p.oc; ++o) {
    for (int64_t i = 0; i < inputs; ++i) {
      const int64_t c = o / (p.oc / p.groups) * inputs + i;
      for (int64_t tap = 0; tap < taps; ++tap) {
        const int64_t y = tap / p.kw, x = tap % p.kw;
        const int64_t at =
            window.contiguous ? y * window.words() * kBytes + x * p.ic + c : tap * window.words() * kBytes + c;
        words[static_cast<size_t>(o * row + at)] = *from++;
      }
    }
  }
  return words;
}

}  // namespace

std::shared_ptr<const ByteLists> ListsOfConv(const ConvProblemNode& p, const runtime::NDArray& weight, int lanes) {
  if (weight.get() == nullptr || weight.dtype() != DataType::Int(8) || !weight.IsCompact() || p.oc < kListBlock ||
      !WhyNotListed(p).empty()) {
    return nullptr;
  }
  const ListedWindow window = WindowOf(p);
  const std::string form = StrCat("byte lists of ", p.groups, " groups, ", window.contiguous, window.complements);
  const auto lists = WeightForms::Keep<ByteLists>(weight, form, [&]() -> std::shared_ptr<const ByteLists> {
    const std::vector<int8_t> words = InWords(p, weight, window);
    const int64_t quads = window.quads();
    const std::vector<int8_t> none(static_cast<size_t>(quads * kBytes), int8_t{0});
    // Of an even number of blocks: those of 16 channels have two.
    const int64_t results = RoundUp(p.oc, 2 * kListBlock);
    return std::make_shared<const ByteLists>(MakeByteLists(
        results, quads,
        [&](int64_t r, int64_t q) { return (r < p.oc ? words.data() + r * quads * kBytes : none.data()) + q * kBytes; },
        window.forms()));
  });
  return Pay(p, *lists, lanes) ? lists : nullptr;
}

ConvProblemNode ByteConvSizes(const relay::CallNode* call) {
  ConvProblemNode p;
  const auto *data = call->args[0]->type_as<TensorTypeNode>(), *kernel = call->args[1]->type_as<TensorTypeNode>();
  SetCallSizes(call, data, kernel, &p);
  return p;
}

}  // namespace treadle::ops::cpu
