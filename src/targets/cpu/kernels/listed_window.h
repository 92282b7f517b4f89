// SPDX-License-Identifier: Apache-2.0
// Convolutions by lists of words of bytes (byte_lists.h): the layout of the copy of the image that they read, the
// offsets of a window's words in it, and whether lists pay.
//
// In the copy the channels of a pixel are contiguous, and so is the padding. If words may be complemented, it is
// followed by itself with odd bytes x as 255 - x. For 1 x 1 windows it contains only the pixels that are used. If there
// are few channels, a word spans neighbouring pixels.
#pragma once

#include <memory>
#include <string>

#include "targets/cpu/kernels/byte_lists.h"
#include "targets/cpu/kernels/kernels.h"
#include "treadle/base/int_math.h"

namespace treadle::ops::cpu {

/// Sizes of the copy. Sizes of the image are static.
struct ListedWindow {
  int64_t channels;                    ///< bytes of a pixel
  int64_t inputs;                      ///< channels that aren't there to fill blocks
  int64_t kh, kw, oh, ow;              ///< taps, results
  int64_t dilation_h, dilation_w;      ///< pixels of the copy between taps
  int64_t stride_h, stride_w;          ///< pixels of the copy between results
  int64_t picked_h = 1, picked_w = 1;  ///< pixels of the image between those of the copy
  int64_t pad_t = 0, pad_l = 0;        ///< rows and columns before the image
  int64_t high = 0, wide = 0;          ///< rows and columns of the copy
  bool pointwise;                      ///< windows of one element, of which the copy has no other pixels: one row
  bool contiguous;                     ///< words of neighbouring pixels
  bool complements = false;            ///< whether all windows have odd bytes in the same places

  /// Of `channels` that a pixel of the data has.
  ListedWindow(const ConvProblemNode& p, int64_t channels);
  int64_t forms() const { return complements ? 2 : 1; }
  /// Bytes of the copy, of each form.
  int64_t image() const { return high * wide * channels; }
  /// Words of a row of taps, or of one tap.
  int64_t words() const { return CeilDiv(contiguous ? kw * channels : inputs, 4); }
  int64_t quads() const { return words() * kh * (contiguous ? 1 : kw); }
  /// The byte of the copy at which word `quad` of the first window begins.
  int64_t Offset(int64_t quad) const;
  /// The window at `row`, `column` of the results begins there.
  PrimExpr Start(const PrimExpr& row, const PrimExpr& column) const;
};

/// Whether channels of plain data are words together with those of neighbouring pixels.
bool HasContiguousWindow(const ConvProblemNode& p);
/// The lists of a convolution of uint8 by `weight` (OIHW, int8), of `oc` results with those that fill blocks; null
/// where it has none or they don't pay on vectors of `lanes` floats. Words are numbered as ListedWindow::Offset has
/// them.
std::shared_ptr<const ByteLists> ListsOfConv(const ConvProblemNode& p, const runtime::NDArray& weight, int lanes);
/// The problem of a typed call of qnn.contrib_conv2d on plain data.
ConvProblemNode ByteConvSizes(const relay::CallNode* call);

}  // namespace treadle::ops::cpu
