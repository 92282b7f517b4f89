// SPDX-License-Identifier: Apache-2.0
// Zip archives of .npy arrays: reading of stored and deflated members (zip64 included), writing of stored ones.
#include <zlib.h>

#include <cstring>
#include <limits>

#include "cli/tensor_file.h"
#include "treadle/base/checked_math.h"
#include "treadle/base/error.h"

namespace treadle::cli {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50, kCentralHeader = 0x02014b50, kEnd = 0x06054b50;
constexpr uint32_t kEnd64 = 0x06064b50, kEnd64Locator = 0x07064b50;
constexpr uint32_t kMax32 = std::numeric_limits<uint32_t>::max();
constexpr uint64_t kMaxMember = uint64_t{1} << 40;

/// Little-endian fields of a zip file, bounds-checked.
class Zip {
 public:
  Zip(const std::string& bytes, const std::string& what) : bytes_(bytes), what_(what) {}

  [[noreturn]] void Bad(const std::string& why) const {
    throw ModelFormatError(StrCat(what_, ": not a readable .npz archive: ", why));
  }
  const char* At(uint64_t offset, uint64_t size) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset) Bad("truncated or corrupt");
    return bytes_.data() + offset;
  }
  template <typename T>
  T Get(uint64_t offset) const {
    T value;
    std::memcpy(&value, At(offset, sizeof(T)), sizeof(T));
    return value;
  }
  uint64_t size() const { return bytes_.size(); }

 private:
  const std::string& bytes_;
  const std::string& what_;
};

struct Member {
  std::string name;
  uint16_t method;
  uint32_t crc;
  uint64_t compressed, uncompressed, header_offset;
};

/// Offset and number of entries of the central directory.
std::pair<uint64_t, uint64_t> FindDirectory(const Zip& zip) {
  if (zip.size() < 22) zip.Bad("too short");
  const uint64_t lowest = zip.size() > 22 + 65535 ? zip.size() - 22 - 65535 : 0;
  for (uint64_t at = zip.size() - 22 + 1; at-- > lowest;) {
    if (zip.Get<uint32_t>(at) != kEnd) continue;
    uint64_t count = zip.Get<uint16_t>(at + 10), offset = zip.Get<uint32_t>(at + 16);
    if ((count == 0xffff || offset == kMax32) && at >= 20 && zip.Get<uint32_t>(at - 20) == kEnd64Locator) {
      const uint64_t end64 = zip.Get<uint64_t>(at - 20 + 8);
      if (zip.Get<uint32_t>(end64) != kEnd64) zip.Bad("corrupt zip64 directory");
      count = zip.Get<uint64_t>(end64 + 32);
      offset = zip.Get<uint64_t>(end64 + 48);
    }
    return {offset, count};
  }
  zip.Bad("no directory found (truncated?)");
}

/// Sizes and offset that didn't fit into 32 bits stand in the zip64 extra field, in this order.
void ReadZip64(const Zip& zip, uint64_t at, uint64_t end, Member* member) {
  while (at + 4 <= end) {
    const uint16_t id = zip.Get<uint16_t>(at), size = zip.Get<uint16_t>(at + 2);
    at += 4;
    if (id == 1) {
      uint64_t field = at;
      for (uint64_t* value : {&member->uncompressed, &member->compressed, &member->header_offset}) {
        if (*value != kMax32) continue;
        *value = zip.Get<uint64_t>(field);
        field += 8;
      }
      return;
    }
    at += size;
  }
}

std::vector<Member> ReadDirectory(const Zip& zip) {
  auto [at, count] = FindDirectory(zip);
  std::vector<Member> members;
  for (uint64_t i = 0; i < count; ++i) {
    if (zip.Get<uint32_t>(at) != kCentralHeader) zip.Bad("corrupt directory");
    Member member;
    if ((zip.Get<uint16_t>(at + 8) & 1) != 0) zip.Bad("it is encrypted");
    member.method = zip.Get<uint16_t>(at + 10);
    member.crc = zip.Get<uint32_t>(at + 16);
    member.compressed = zip.Get<uint32_t>(at + 20);
    member.uncompressed = zip.Get<uint32_t>(at + 24);
    member.header_offset = zip.Get<uint32_t>(at + 42);
    const uint64_t name = zip.Get<uint16_t>(at + 28), extra = zip.Get<uint16_t>(at + 30);
    const uint64_t comment = zip.Get<uint16_t>(at + 32);
    member.name.assign(zip.At(at + 46, name), name);
    zip.At(at + 46 + name, extra);
    ReadZip64(zip, at + 46 + name, at + 46 + name + extra, &member);
    if (member.uncompressed > kMaxMember) zip.Bad(StrCat("member ", member.name, " claims an absurd size"));
    members.push_back(std::move(member));
    at += 46 + name + extra + comment;
  }
  return members;
}

std::string Inflate(const Zip& zip, const Member& member, const char* data) {
  // A deflated byte expands to at most 1032 bytes: a larger claim is a lie, refused before allocating for it.
  if (member.uncompressed / 1032 > member.compressed) zip.Bad(StrCat("member ", member.name, " claims an absurd size"));
  std::string result(member.uncompressed, '\0');
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw RuntimeError("zlib: inflateInit2 failed");
  uint64_t in = 0, out = 0;
  int status = Z_OK;
  constexpr uint64_t kChunk = uint64_t{1} << 30;
  while (status == Z_OK && (in < member.compressed || out < result.size())) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data + in));
    stream.avail_in = static_cast<uInt>(std::min(kChunk, member.compressed - in));
    stream.next_out = reinterpret_cast<Bytef*>(result.data() + out);
    stream.avail_out = static_cast<uInt>(std::min(kChunk, result.size() - out));
    const uInt given_in = stream.avail_in, given_out = stream.avail_out;
    status = inflate(&stream, Z_NO_FLUSH);
    in += given_in - stream.avail_in;
    out += given_out - stream.avail_out;
    if (given_in == stream.avail_in && given_out == stream.avail_out) break;
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END || out != result.size()) zip.Bad(StrCat("member ", member.name, " is corrupt"));
  return result;
}

uint32_t Crc(const std::string& bytes) {
  return static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

template <typename T>
void Put(std::string* out, T value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(T));
}

/// The fields that local and central headers have in common.
void PutCommon(std::string* out, const std::string& name, uint32_t crc, uint32_t size) {
  Put<uint16_t>(out, 0x0800);      // names are UTF-8
  Put<uint16_t>(out, 0);           // stored
  Put<uint32_t>(out, 0x00210000);  // 1980-01-01: equal contents give equal files
  Put<uint32_t>(out, crc);
  Put<uint32_t>(out, size);
  Put<uint32_t>(out, size);
  Put<uint16_t>(out, static_cast<uint16_t>(name.size()));
  Put<uint16_t>(out, 0);  // no extra field
}

}  // namespace

NamedTensors ParseNpz(const std::string& bytes, const std::string& what) {
  Zip zip(bytes, what);
  NamedTensors tensors;
  for (const Member& member : ReadDirectory(zip)) {
    if (zip.Get<uint32_t>(member.header_offset) != kLocalHeader) zip.Bad("corrupt member header");
    const uint64_t begin = member.header_offset + 30 + zip.Get<uint16_t>(member.header_offset + 26) +
                           zip.Get<uint16_t>(member.header_offset + 28);
    const char* data = zip.At(begin, member.compressed);
    std::string contents;
    if (member.method == 0) {
      contents.assign(data, member.compressed);
    } else if (member.method == 8) {
      contents = Inflate(zip, member, data);
    } else {
      zip.Bad(StrCat("member ", member.name, " is compressed by method ", member.method, "; expected none or deflate"));
    }
    if (Crc(contents) != member.crc) zip.Bad(StrCat("member ", member.name, " is corrupt (checksum differs)"));
    std::string name = member.name;
    if (name.size() > 4 && name.substr(name.size() - 4) == ".npy") name.resize(name.size() - 4);
    tensors.emplace_back(name, ParseNpy(contents, StrCat(what, "[", name, "]")));
  }
  return tensors;
}

std::string FormatNpz(const NamedTensors& tensors) {
  std::string out, directory;
  for (const auto& [tensor_name, tensor] : tensors) {
    const std::string name = tensor_name + ".npy";
    const std::string contents = FormatNpy(tensor);
    if (out.size() + contents.size() > kMax32 - (1 << 20) || name.size() > 65535 || tensors.size() > 65534) {
      throw Error("outputs of more than 4 GB can't be written to one .npz", ExitCode::kRuntime);
    }
    const auto offset = static_cast<uint32_t>(out.size());
    const auto size = static_cast<uint32_t>(contents.size());
    const uint32_t crc = Crc(contents);
    Put<uint32_t>(&out, kLocalHeader);
    Put<uint16_t>(&out, 20);
    PutCommon(&out, name, crc, size);
    out += name;
    out += contents;
    Put<uint32_t>(&directory, kCentralHeader);
    Put<uint16_t>(&directory, 20);
    Put<uint16_t>(&directory, 20);
    PutCommon(&directory, name, crc, size);
    Put<uint16_t>(&directory, 0);  // comment
    Put<uint16_t>(&directory, 0);  // disk
    Put<uint16_t>(&directory, 0);  // internal attributes
    Put<uint32_t>(&directory, 0);  // external attributes
    Put<uint32_t>(&directory, offset);
    directory += name;
  }
  const auto directory_offset = static_cast<uint32_t>(out.size());
  out += directory;
  Put<uint32_t>(&out, kEnd);
  Put<uint32_t>(&out, 0);  // disks
  Put<uint16_t>(&out, static_cast<uint16_t>(tensors.size()));
  Put<uint16_t>(&out, static_cast<uint16_t>(tensors.size()));
  Put<uint32_t>(&out, static_cast<uint32_t>(directory.size()));
  Put<uint32_t>(&out, directory_offset);
  Put<uint16_t>(&out, 0);
  return out;
}

}  // namespace treadle::cli
