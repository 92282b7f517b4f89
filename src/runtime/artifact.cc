// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/artifact.h"

#include <algorithm>
#include <cstring>

#include "runtime/hash64.h"
#include "runtime/mapped_memory.h"
#include "treadle/base/error.h"
#include "treadle/base/int_math.h"

namespace treadle::runtime {
namespace {

constexpr char kMagic[] = "TRDLBLOB";
constexpr uint64_t kHeaderBytes = 64, kEntryBytes = 64, kNameBytes = 24;
constexpr uint64_t kSealedFlag = 1, kBulkFlag = 1;
constexpr size_t kSampleStep = size_t{1} << 20, kSampleBytes = 4096, kReleaseStep = 64 * kSampleStep;

uint64_t HashSamples(std::string_view bytes) {
  uint64_t hash = bytes.size();
  for (size_t at = 0; at < bytes.size(); at += kSampleStep) {
    hash = Hash64(bytes.substr(at, kSampleBytes), hash);
    // The system may map much more than what is looked at.
    if (at % kReleaseStep == 0 && at != 0) ReleasePages(bytes.data() + at - kReleaseStep, kReleaseStep);
  }
  // The end as well: it is what a truncated copy lacks.
  if (bytes.size() > kSampleBytes) hash = Hash64(bytes.substr(bytes.size() - kSampleBytes), hash);
  return hash;
}

struct Hashes {
  uint64_t whole, samples;
};

/// Hash64 and HashSamples of the concatenated pieces.
Hashes HashPieces(const std::vector<std::string_view>& pieces, uint64_t bytes) {
  Hasher64 whole;
  uint64_t samples = bytes, at = 0, next = 0;  // `next`: where the next sample begins
  std::string sample;
  auto take = [&](std::string_view piece) {
    // What of the sample that begins at `next` lies in the piece; whole samples are hashed.
    const uint64_t from = next + sample.size(), end = std::min<uint64_t>(next + kSampleBytes, bytes);
    if (from < at || from >= at + piece.size()) return false;
    sample += piece.substr(from - at, end - from);
    if (next + sample.size() < end) return false;
    samples = Hash64(sample, samples);
    sample.clear();
    return true;
  };
  for (std::string_view piece : pieces) {
    whole.Update(piece);
    while (next < bytes && take(piece)) next += kSampleStep;
    at += piece.size();
    ReleasePages(piece.data(), piece.size());
  }
  // The end overlaps what came before, so it is gathered backwards.
  if (bytes > kSampleBytes) {
    std::string end;
    for (size_t i = pieces.size(); i-- > 0 && end.size() < kSampleBytes;) {
      const std::string_view piece = pieces[i];
      const size_t wanted = std::min(kSampleBytes - end.size(), piece.size());
      end.insert(0, piece.substr(piece.size() - wanted));
    }
    samples = Hash64(end, samples);
  }
  return {whole.Finish(), samples};
}

uint64_t AlignUp(uint64_t value) { return RoundUp(value, kTensorAlignment); }

/// Zeros up to where a tensor or section may begin.
void AppendPadding(std::vector<std::string_view>* pieces, uint64_t* bytes) {
  static constexpr char kZeros[kTensorAlignment] = {};
  const uint64_t padding = AlignUp(*bytes) - *bytes;
  if (padding != 0) pieces->emplace_back(kZeros, padding);
  *bytes += padding;
}

}  // namespace

void ArtifactWriter::AddSection(const std::string& name, std::string bytes, bool bulk) {
  texts_.push_back(std::move(bytes));
  Add({name, {texts_.back()}, texts_.back().size(), bulk});
}

void ArtifactWriter::Add(Section section) {
  TREADLE_ICHECK(!section.name.empty() && section.name.size() < kNameBytes) << "section name \"" << section.name << '"';
  for (const Section& other : sections_) {
    TREADLE_ICHECK(other.name != section.name) << "section \"" << section.name << "\" is there already";
  }
  sections_.push_back(std::move(section));
}

void ArtifactWriter::AddParams(const ParamList& params) {
  ByteWriter index;
  Section data{"params", {}, 0, true};
  index.Write<uint64_t>(params.size());
  for (const auto& [name, array] : params) {
    const NDArray host = array.device().device_type == kDLCPU && array.IsCompact() ? array : array.Copy();
    const auto bytes = static_cast<uint64_t>(host.nbytes());
    AppendPadding(&data.pieces, &data.bytes);
    index.WriteString(name);
    index.Write<DLDataType>(host.dtype());
    index.Write<uint64_t>(host.shape().size());
    for (int64_t dim : host.shape()) index.Write<int64_t>(dim);
    index.Write<uint64_t>(data.bytes);
    index.Write<uint64_t>(bytes);
    if (bytes != 0) data.pieces.emplace_back(static_cast<const char*>(host.data_ptr()), bytes);
    data.bytes += bytes;
    tensors_.push_back(host);
  }
  AddSection("param_index", std::move(index.bytes()));
  Add(std::move(data));
}

std::vector<std::string_view> ArtifactWriter::Pieces(bool sealed) {
  // Bulk sections last, so that they are one range.
  std::vector<const Section*> order;
  for (bool bulk : {false, true}) {
    for (const Section& section : sections_) {
      if (section.bulk == bulk) order.push_back(&section);
    }
  }
  ByteWriter table;
  uint64_t total = AlignUp(kHeaderBytes + order.size() * kEntryBytes);
  std::vector<std::string_view> pieces = {{}};  // the first will be the header and the table
  for (const Section* section : order) {
    AppendPadding(&pieces, &total);
    char name[kNameBytes] = {};
    std::memcpy(name, section->name.data(), section->name.size());
    const Hashes hashes = HashPieces(section->pieces, section->bytes);
    table.WriteRaw(name, kNameBytes);
    table.Write<uint64_t>(total);
    table.Write<uint64_t>(section->bytes);
    table.Write<uint64_t>(hashes.whole);
    table.Write<uint64_t>(hashes.samples);
    table.Write<uint64_t>(section->bulk ? kBulkFlag : 0);
    pieces.insert(pieces.end(), section->pieces.begin(), section->pieces.end());
    total += section->bytes;
  }
  ByteWriter head;
  head.WriteRaw(kMagic, 8);
  head.Write<uint32_t>(kArtifactVersion);
  head.Write<uint32_t>(kHeaderBytes);
  head.Write<uint64_t>(total);
  head.Write<uint64_t>(order.size());
  head.Write<uint64_t>(Hash64(table.bytes()));
  head.Write<uint64_t>(sealed ? kSealedFlag : 0);
  head.Align(kHeaderBytes);
  head.WriteRaw(table.bytes().data(), table.size());
  head.Align(kTensorAlignment);
  head_ = std::move(head.bytes());
  pieces[0] = head_;
  return pieces;
}

std::string ArtifactWriter::Finish(bool sealed) {
  std::string blob;
  for (std::string_view piece : Pieces(sealed)) blob += piece;
  return blob;
}

ArtifactReader::ArtifactReader(std::string_view bytes, std::string what) : what_(std::move(what)) {
  ByteReader header(bytes, what_);
  if (header.Take(8) != std::string_view(kMagic, 8)) header.Fail("not a Treadle model (wrong magic)");
  auto version = header.Read<uint32_t>();
  if (version != kArtifactVersion) {
    header.Fail(StrCat("artifact format version ", version, " isn't supported by this runtime (", kArtifactVersion,
                       "); compile the model again"));
  }
  auto header_bytes = header.Read<uint32_t>();
  auto total = header.Read<uint64_t>();
  auto count = header.Read<uint64_t>();
  auto table_hash = header.Read<uint64_t>();
  auto flags = header.Read<uint64_t>();
  if (header_bytes != kHeaderBytes || total < kHeaderBytes) header.Fail("corrupt header");
  if (total > bytes.size()) {
    header.Fail(StrCat("truncated: ", total, " bytes expected, ", bytes.size(), " found"));
  }
  bytes_ = bytes.substr(0, total);
  sealed_ = (flags & kSealedFlag) != 0;
  if (count > (total - kHeaderBytes) / kEntryBytes) header.Fail("corrupt header: too many sections");
  std::string_view table = bytes_.substr(kHeaderBytes, count * kEntryBytes);
  if (Hash64(table) != table_hash) header.Fail("corrupt: the checksum of the section table is wrong");
  ByteReader reader(table, what_);
  for (uint64_t i = 0; i < count; ++i) {
    std::string_view name = reader.Take(kNameBytes);
    Entry entry;
    entry.name = name.substr(0, name.find('\0'));
    entry.offset = reader.Read<uint64_t>();
    entry.bytes = reader.Read<uint64_t>();
    entry.hash = reader.Read<uint64_t>();
    auto sample_hash = reader.Read<uint64_t>();
    entry.bulk = (reader.Read<uint64_t>() & kBulkFlag) != 0;
    if (entry.offset > total || entry.bytes > total - entry.offset || entry.offset % kTensorAlignment != 0) {
      reader.Fail(StrCat("corrupt: section \"", entry.name, "\" lies outside the blob"));
    }
    std::string_view content = bytes_.substr(entry.offset, entry.bytes);
    bool intact = entry.bulk ? HashSamples(content) == sample_hash : Hash64(content) == entry.hash;
    if (!intact) reader.Fail(StrCat("corrupt: the checksum of section \"", entry.name, "\" is wrong"));
    entries_.push_back(std::move(entry));
  }
}

std::optional<std::string_view> ArtifactReader::Section(const std::string& name) const {
  for (const Entry& entry : entries_) {
    if (entry.name == name) return bytes_.substr(entry.offset, entry.bytes);
  }
  return std::nullopt;
}

std::string_view ArtifactReader::Require(const std::string& name) const {
  auto section = Section(name);
  if (!section) throw ModelFormatError(StrCat(what_, ": section \"", name, "\" is missing"));
  return *section;
}

std::vector<std::string> ArtifactReader::SectionNames() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_) names.push_back(entry.name);
  return names;
}

ParamList ArtifactReader::Params(const std::shared_ptr<void>& owner) const {
  if (!Section("param_index")) return {};
  std::string_view data = Require("params");
  ByteReader index(Require("param_index"), what_ + ": index of parameters");
  ParamList params(index.ReadCount(8));
  for (auto& [name, array] : params) {
    name = index.ReadString();
    DataType dtype(index.Read<DLDataType>());
    std::vector<int64_t> shape(index.ReadCount(8));
    for (int64_t& dim : shape) dim = index.Read<int64_t>();
    auto offset = index.Read<uint64_t>();
    auto bytes = index.Read<uint64_t>();
    int64_t expected = -1;
    try {
      expected = TensorBytes(shape, dtype);
    } catch (const ShapeError& error) {
      index.Fail(error.what());
    }
    if (offset > data.size() || bytes > data.size() - offset || offset % kTensorAlignment != 0 ||
        static_cast<int64_t>(bytes) != expected) {
      index.Fail(StrCat("parameter \"", name, "\" doesn't lie within the data"));
    }
    char* elements = const_cast<char*>(data.data()) + offset;
    array = NDArray::View(elements, shape, dtype, Cpu(), owner, true);
  }
  index.ExpectEnd();
  return params;
}

void ArtifactReader::VerifyAll() const {
  for (const Entry& entry : entries_) {
    if (Hash64(bytes_.substr(entry.offset, entry.bytes)) != entry.hash) {
      throw ModelFormatError(StrCat(what_, ": corrupt: the checksum of section \"", entry.name, "\" is wrong"));
    }
  }
}

std::pair<size_t, size_t> ArtifactReader::BulkRange() const {
  uint64_t begin = bytes_.size(), end = 0;
  for (const Entry& entry : entries_) {
    if (!entry.bulk) continue;
    begin = std::min(begin, entry.offset);
    end = std::max(end, entry.offset + entry.bytes);
  }
  return begin < end ? std::make_pair(begin, end - begin) : std::make_pair(uint64_t{0}, uint64_t{0});
}

}  // namespace treadle::runtime
