// SPDX-License-Identifier: Apache-2.0
// Compressed images: PNG, BMP and PNM, which are decoded exactly, by stb_image. Its decoders of other formats are left
// out; that of JPEG rounds otherwise than the standard says.
#include <algorithm>
#include <cctype>
#include <climits>
#include <cstring>
#include <memory>

#include "runtime/vm/host/host.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wunused-function"
#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_NO_STDIO
#define STBI_ONLY_PNG
#define STBI_ONLY_BMP
#define STBI_ONLY_PNM
#define STBI_MAX_DIMENSIONS (1 << 16)
#include <stb/stb_image.h>
#pragma GCC diagnostic pop

namespace treadle::runtime::vm {
namespace {

constexpr int64_t kMaxPixels = int64_t{1} << 28;
constexpr int64_t kBgr = 1, kGrayscale = 2;

/// Rec. 601 luma, rounded.
uint8_t Luma(const uint8_t* rgb) {
  return static_cast<uint8_t>((rgb[0] * 19595U + rgb[1] * 38470U + rgb[2] * 7471U + 0x8000U) >> 16);
}

/// Whether a PNM file has all its pixels, of a byte per sample: stb_image doesn't look. Other files: true.
bool HasPixels(std::string_view bytes, int64_t samples) {
  if (bytes.size() < 2 || bytes[0] != 'P') return true;
  size_t at = 2;
  int64_t number = 0;
  for (int field = 0; field < 3; ++field) {
    while (at < bytes.size() && (std::isspace(static_cast<unsigned char>(bytes[at])) != 0 || bytes[at] == '#')) {
      if (bytes[at] == '#') at = std::min(bytes.find('\n', at), bytes.size() - 1);
      ++at;
    }
    for (number = 0; at < bytes.size() && std::isdigit(static_cast<unsigned char>(bytes[at])) != 0; ++at) {
      number = std::min<int64_t>(number * 10 + (bytes[at] - '0'), INT_MAX);
    }
  }
  ++at;  // one space behind the largest value
  return number <= 255 && at <= bytes.size() && static_cast<int64_t>(bytes.size() - at) >= samples;
}

/// (bytes, 0: RGB, 1: BGR, 2: grayscale): uint8 (height, width, 3 or 1).
ObjectRef Decode(HostRun& run, const HostArgs& args) {
  const std::string_view bytes = BytesArg(args, 0);
  const int64_t format = IntArg(args, 1);
  const auto* data = reinterpret_cast<const stbi_uc*>(bytes.data());
  int width = 0, height = 0, channels = 0;
  if (bytes.size() > INT_MAX ||
      stbi_info_from_memory(data, static_cast<int>(bytes.size()), &width, &height, &channels) == 0) {
    throw RuntimeError("not an image that can be decoded (PNG, BMP, PNM)");
  }
  if (width < 1 || height < 1 || int64_t{width} > kMaxPixels / height) {
    throw RuntimeError(StrCat("an image of ", width, " x ", height, " pixels"));
  }
  if (!HasPixels(bytes, int64_t{width} * height * channels)) throw RuntimeError("the image is cut off, or of 16 bits");
  const std::unique_ptr<stbi_uc, decltype(&stbi_image_free)> pixels(
      stbi_load_from_memory(data, static_cast<int>(bytes.size()), &width, &height, &channels, 3), &stbi_image_free);
  if (pixels == nullptr) throw RuntimeError(StrCat("the image can't be decoded: ", stbi_failure_reason()));
  const bool gray = format == kGrayscale;
  NDArray image = run.alloc({height, width, gray ? 1 : 3}, DataType::UInt(8));
  const uint8_t* from = pixels.get();
  auto* to = image.Data<uint8_t>();
  for (int64_t i = 0, count = int64_t{width} * height; i < count; ++i, from += 3) {
    if (gray) {
      to[i] = Luma(from);
    } else {
      for (int64_t c = 0; c < 3; ++c) to[3 * i + c] = from[format == kBgr ? 2 - c : c];
    }
  }
  return image;
}

}  // namespace

void AddImageFunctions(HostTable* table) { (*table)["image.decode"] = Decode; }

}  // namespace treadle::runtime::vm
