// SPDX-License-Identifier: Apache-2.0
#include "driver/package/tar.h"

#include <cstdio>
#include <cstring>

#include "treadle/base/error.h"
#include "treadle/base/int_math.h"

namespace treadle::driver {
namespace {

constexpr size_t kBlock = 512;
constexpr size_t kNameBytes = 100, kSizeAt = 124, kSizeBytes = 12, kChecksumAt = 148, kChecksumBytes = 8, kTypeAt = 156;

unsigned Checksum(std::string_view header) {
  unsigned sum = 0;
  for (size_t i = 0; i < kBlock; ++i) {
    const bool in_checksum = i >= kChecksumAt && i < kChecksumAt + kChecksumBytes;
    sum += in_checksum ? static_cast<unsigned char>(' ') : static_cast<unsigned char>(header[i]);
  }
  return sum;
}

std::string MakeHeader(const TarMember& member) {
  TREADLE_ICHECK(!member.name.empty() && member.name.size() < kNameBytes) << "name in an archive: " << member.name;
  char header[kBlock] = {};
  std::memcpy(header, member.name.data(), member.name.size());
  std::snprintf(header + 100, 8, "%07o", 0644U);
  std::snprintf(header + 108, 8, "%07o", 0U);
  std::snprintf(header + 116, 8, "%07o", 0U);
  std::snprintf(header + kSizeAt, kSizeBytes, "%011zo", member.bytes.size());
  std::snprintf(header + 136, 12, "%011o", 0U);
  header[kTypeAt] = '0';
  std::memcpy(header + 257, "ustar", 6);
  std::memcpy(header + 263, "00", 2);
  std::snprintf(header + kChecksumAt, kChecksumBytes, "%06o", Checksum({header, kBlock}));
  header[kChecksumAt + 7] = ' ';
  return std::string(header, kBlock);
}

/// A number in octal digits, ended by a blank or zero; false where it isn't one.
bool ParseOctal(std::string_view field, uint64_t* value) {
  *value = 0;
  bool any = false;
  for (char c : field) {
    if (c == '\0' || (c == ' ' && any)) break;
    if (c == ' ') continue;
    if (c < '0' || c > '7') return false;
    *value = *value * 8 + static_cast<uint64_t>(c - '0');
    any = true;
  }
  return any;
}

}  // namespace

std::string MakeTar(const std::vector<TarMember>& members) {
  std::string archive;
  for (const TarMember& member : members) {
    archive += MakeHeader(member);
    archive += member.bytes;
    archive.resize(RoundUp(archive.size(), kBlock), '\0');
  }
  archive.append(2 * kBlock, '\0');
  return archive;
}

std::vector<TarMember> ReadTar(std::string_view bytes, const std::string& what) {
  std::vector<TarMember> members;
  size_t at = 0;
  auto fail = [&](const std::string& problem) -> void {
    throw ModelFormatError(StrCat(what, ": not an archive: ", problem, " at offset ", at));
  };
  while (true) {
    if (bytes.size() - at < kBlock) fail("it ends too early");
    const std::string_view header = bytes.substr(at, kBlock);
    if (header.find_first_not_of('\0') == std::string_view::npos) return members;
    uint64_t checksum = 0, size = 0;
    if (!ParseOctal(header.substr(kChecksumAt, kChecksumBytes), &checksum) || checksum != Checksum(header)) {
      fail("bad checksum");
    }
    if (!ParseOctal(header.substr(kSizeAt, kSizeBytes), &size)) fail("bad size");
    at += kBlock;
    if (size > bytes.size() - at) fail("a file doesn't fit");
    const char type = header[kTypeAt];
    if (type == '0' || type == '\0') {
      const std::string_view name = header.substr(0, kNameBytes);
      members.push_back({std::string(name.substr(0, name.find('\0'))), std::string(bytes.substr(at, size))});
    }
    const uint64_t padded = RoundUp(size, kBlock);
    if (padded > bytes.size() - at) fail("it ends too early");
    at += padded;
  }
}

}  // namespace treadle::driver
