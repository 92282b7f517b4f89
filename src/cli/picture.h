// SPDX-License-Identifier: Apache-2.0
// Pictures as inputs of models.
#pragma once

#include <string>
#include <vector>

#include "treadle/runtime/model.h"

namespace treadle::cli {

/// How values of 0 to 255 become an input's elements: (value - mean) / scale, one of each, or one for each channel.
struct PictureScaling {
  std::vector<double> mean, scale;  ///< empty: 0, and 255 for floats, 1 for integers
};

/// Whether a name ends as those of pictures do: .png, .jpg, .jpeg, .bmp, .gif, .ppm, .pgm.
bool IsPicture(const std::string& path);

/// The shape of the input `info` with the picture's height and width where it leaves them open. Throws as ReadPicture.
std::vector<int64_t> ShapeForPicture(const std::string& path, const runtime::TensorInfo& info);

/// A picture as the input `info`, of rank 4 or 3, NCHW or NHWC (the axis of 1, 3 or 4 elements is the channels'),
/// resized to its height and width, or of its own size where the input leaves them open; a batch repeats it. Throws
/// Error for files that aren't pictures, larger than 2^28 pixels, and inputs that aren't pictures.
runtime::NDArray ReadPicture(const std::string& path, const runtime::TensorInfo& info, const PictureScaling& scaling);

}  // namespace treadle::cli
