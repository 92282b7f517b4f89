// SPDX-License-Identifier: Apache-2.0
#include "cli/picture.h"

#include <filesystem>
#include <memory>

#include "cli/tensor_file.h"
#include "treadle/base/error.h"
#include "treadle/runtime/scalar.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wunused-function"
#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_NO_STDIO
#define STBI_MAX_DIMENSIONS (1 << 16)
#include <stb/stb_image.h>
#define STB_IMAGE_RESIZE_IMPLEMENTATION
#define STB_IMAGE_RESIZE_STATIC
#include <stb/stb_image_resize.h>
#pragma GCC diagnostic pop

namespace treadle::cli {
namespace {

using runtime::NDArray;
using runtime::TensorInfo;

constexpr int64_t kMaxPixels = int64_t{1} << 28;

/// Where an input has the axes of a picture.
struct Axes {
  size_t channel, height, width;
  int64_t batch = 1, channels = 0, rows = 0, columns = 0;
};

bool IsChannels(int64_t size) { return size == 1 || size == 3 || size == 4; }

Axes FindAxes(const TensorInfo& info) {
  const std::vector<int64_t>& shape = info.shape;
  const size_t rank = shape.size(), first = rank == 4 ? 1 : 0;
  const bool fits = rank == 3 || rank == 4;
  const bool channels_first = fits && IsChannels(shape[first]);
  if (!fits || !(channels_first || IsChannels(shape[rank - 1]))) {
    std::string type = info.str();
    if (info.dtype.is_void()) type = type.substr(type.find('('));  // of an .onnx file's input: the shape only
    throw Error(
        StrCat("input '", info.name, "' ", type, " can't be a picture: expected NCHW or NHWC with 1, 3 or 4 channels"));
  }
  Axes axes = channels_first ? Axes{first, first + 1, first + 2} : Axes{rank - 1, first, first + 1};
  axes.batch = rank == 4 ? std::max<int64_t>(shape[0], 1) : 1;
  axes.channels = shape[axes.channel];
  axes.rows = shape[axes.height];
  axes.columns = shape[axes.width];
  if (axes.rows > 0 && axes.columns > 0 && axes.rows > kMaxPixels / axes.columns)
    throw Error(StrCat("input '", info.name, "' is too large for a picture"));
  return axes;
}

/// The value of a flag for one channel.
double ForChannel(const std::vector<double>& values, int64_t channel, double otherwise) {
  if (values.empty()) return otherwise;
  return values.size() == 1 ? values[0] : values[static_cast<size_t>(channel)];
}

void CheckCount(const char* flag, const std::vector<double>& values, int64_t channels) {
  if (values.size() <= 1 || static_cast<int64_t>(values.size()) == channels) return;
  throw Error(StrCat(flag, " has ", values.size(), " values; the input has ", channels, " channels"));
}

/// Width, height and channels of a picture. Throws Error for other files.
struct Extent {
  int width = 0, height = 0, channels = 0;
};

Extent ExtentOf(const std::string& path, const std::string& bytes) {
  Extent extent;
  const bool known = bytes.size() < INT_MAX && stbi_info_from_memory(reinterpret_cast<const stbi_uc*>(bytes.data()),
                                                                     static_cast<int>(bytes.size()), &extent.width,
                                                                     &extent.height, &extent.channels) != 0;
  if (!known) throw Error(StrCat(path, ": not a picture that can be read (PNG, JPEG, BMP, GIF, PPM)"));
  if (int64_t{extent.width} > kMaxPixels / extent.height)
    throw Error(StrCat(path, ": ", extent.width, " x ", extent.height, " pixels are too many"));
  return extent;
}

}  // namespace

bool IsPicture(const std::string& path) {
  std::string extension = std::filesystem::path(path).extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const char* known : {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".ppm", ".pgm"}) {
    if (extension == known) return true;
  }
  return false;
}

std::vector<int64_t> ShapeForPicture(const std::string& path, const TensorInfo& info) {
  const Axes axes = FindAxes(info);
  const Extent extent = ExtentOf(path, ReadWholeFile(path));
  std::vector<int64_t> shape = info.shape;
  if (axes.rows < 0) shape[axes.height] = extent.height;
  if (axes.columns < 0) shape[axes.width] = extent.width;
  return shape;
}

NDArray ReadPicture(const std::string& path, const TensorInfo& info, const PictureScaling& scaling) {
  Axes axes = FindAxes(info);
  CheckCount("--mean", scaling.mean, axes.channels);
  CheckCount("--scale", scaling.scale, axes.channels);
  const std::string bytes = ReadWholeFile(path);
  const auto* data = reinterpret_cast<const stbi_uc*>(bytes.data());
  const int channels = static_cast<int>(axes.channels);
  auto [width, height, in_file] = ExtentOf(path, bytes);
  if (axes.rows < 0) axes.rows = height;
  if (axes.columns < 0) axes.columns = width;
  if (axes.rows == 0 || axes.columns == 0 || axes.rows > kMaxPixels / axes.columns)
    throw Error(StrCat("input '", info.name, "' can't be ", axes.columns, " x ", axes.rows, " pixels"));
  const std::unique_ptr<stbi_uc, decltype(&stbi_image_free)> pixels(
      stbi_load_from_memory(data, static_cast<int>(bytes.size()), &width, &height, &in_file, channels),
      stbi_image_free);
  if (pixels == nullptr) throw Error(StrCat(path, ": can't be decoded: ", stbi_failure_reason()));
  std::vector<unsigned char> resized(static_cast<size_t>(axes.rows * axes.columns * channels));
  // Bilinear with antialiasing, as Pillow's BILINEAR; without a change of size each pixel stays itself.
  if (stbir_resize_uint8_generic(pixels.get(), width, height, 0, resized.data(), static_cast<int>(axes.columns),
                                 static_cast<int>(axes.rows), 0, channels, STBIR_ALPHA_CHANNEL_NONE, 0,
                                 STBIR_EDGE_CLAMP, STBIR_FILTER_TRIANGLE, STBIR_COLORSPACE_LINEAR, nullptr) == 0) {
    throw RuntimeError(StrCat(path, ": not enough memory to resize it"));
  }
  NDArray tensor = NDArray::Empty(
      [&] {
        std::vector<int64_t> shape = info.shape;
        if (shape.size() == 4) shape[0] = axes.batch;
        shape[axes.height] = axes.rows;
        shape[axes.width] = axes.columns;
        return shape;
      }(),
      info.dtype);
  const bool channels_first = axes.channel < axes.height;
  const double default_scale = info.dtype.is_float() ? 255 : 1;
  const int64_t plane = axes.rows * axes.columns;
  for (int64_t n = 0; n < axes.batch; ++n) {
    for (int64_t i = 0; i < plane * channels; ++i) {
      const int64_t c = i % channels, pixel = i / channels;
      const double value = (resized[static_cast<size_t>(i)] - ForChannel(scaling.mean, c, 0)) /
                           ForChannel(scaling.scale, c, default_scale);
      const int64_t at = n * plane * channels + (channels_first ? c * plane + pixel : i);
      runtime::StoreDouble(info.dtype, tensor.data_ptr(), at, value);
    }
  }
  return tensor;
}

}  // namespace treadle::cli
