// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "treadle/ir/serialization.h"

namespace treadle {
namespace {

constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::array<int8_t, 256> MakeInverse() {
  std::array<int8_t, 256> inverse;
  inverse.fill(-1);
  for (int i = 0; i < 64; ++i) inverse[static_cast<unsigned char>(kAlphabet[i])] = static_cast<int8_t>(i);
  return inverse;
}

}  // namespace

std::string EncodeBase64(const std::string& bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) {
      group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    }
    size_t count = std::min<size_t>(3, bytes.size() - i);
    for (size_t j = 0; j < 4; ++j) text += j <= count ? kAlphabet[group >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

std::string DecodeBase64(const std::string& text) {
  static const std::array<int8_t, 256> inverse = MakeInverse();
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  uint32_t group = 0;
  int digits = 0, padding = 0;
  for (char c : text) {
    if (c == ' ' || c == '\n' || c == '\r' || c == '\t') continue;
    if (c == '=') {
      ++padding;
      continue;
    }
    int8_t value = inverse[static_cast<unsigned char>(c)];
    if (value < 0 || padding != 0) throw ModelFormatError("base64: unexpected character");
    group = group << 6 | static_cast<uint32_t>(value);
    if (++digits == 4) {
      for (int shift : {16, 8, 0}) bytes += static_cast<char>(group >> shift & 255);
      group = 0;
      digits = 0;
    }
  }
  if (digits == 1 || (digits + padding) % 4 != 0) throw ModelFormatError("base64: truncated");
  if (digits == 2) bytes += static_cast<char>(group >> 4 & 255);
  if (digits == 3) {
    bytes += static_cast<char>(group >> 10 & 255);
    bytes += static_cast<char>(group >> 2 & 255);
  }
  return bytes;
}

}  // namespace treadle
