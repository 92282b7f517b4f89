// SPDX-License-Identifier: Apache-2.0
// The data inside a compiled model: one blob of named sections, exported by the library as `__treadle_blob`.
//
// Little-endian. All offsets are from the start of the blob, which is aligned to at least 64 bytes in memory.
//   0   char[8] "TRDLBLOB"
//   8   u32 format version (1), u32 size of this header (64)
//   16  u64 size of the blob
//   24  u64 number of sections
//   32  u64 XXH64 of the section table
//   40  u64 flags: 1 = the file carries a seal (see below)
//   48  16 bytes zero
//   64  section table, 64 bytes each: char[24] name (zero-padded), u64 offset, u64 size, u64 XXH64 of the section,
//       u64 XXH64 of its samples, u64 flags (1 = bulk)
//   ... sections, each at a multiple of 64
// The samples of a bulk section are the first 4096 bytes of every MiB: checking them finds a truncated or partly
// written file without reading all weights (TREADLE_VERIFY=1 in the environment checks all of them when a library is
// loaded). Small sections are checked whole.
//
// Sections: "manifest" (manifest.h), "graph" (graph JSON), "plan" (the same as GraphSpec::ToBinary makes it), "main"
// (u64 XXH64 of the plan that the library's function __treadle_main__ runs), "params" (bulk: the tensors' elements,
// each at a multiple of 64) with "param_index" (u64 count; per tensor: string name, dtype, u64 rank, i64 dimensions,
// u64 offset in "params", u64 bytes), "imports" (SaveImports of module.h), and what executors add.
//
// A seal is a trailer after the end of the ELF file, so that a changed byte anywhere else is found before any code
// runs:
//   char[8] "TRDLSEAL", u32 1, u32 64, u64 size of the file without it, u64 XXH64 of the file but for the bulk range,
//   u64 offset and u64 size of the bulk range (0 when none), u64 0, u64 XXH64 of the 56 bytes before.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "treadle/runtime/params.h"

namespace treadle::runtime {

inline constexpr uint32_t kArtifactVersion = 1;
inline constexpr char kBlobSymbol[] = "__treadle_blob";
/// What the blob's address must be a multiple of; the compiler emits 4096, so that weights are mapped by whole pages.
inline constexpr size_t kBlobAlignment = 64;

/// Builds a blob.
class ArtifactWriter {
 public:
  ArtifactWriter() = default;
  ArtifactWriter(const ArtifactWriter&) = delete;
  ArtifactWriter& operator=(const ArtifactWriter&) = delete;
  /// Adds a section; names are unique, of 1 to 23 characters.
  void AddSection(const std::string& name, std::string bytes, bool bulk = false);
  /// Adds "params" and "param_index". Tensors in the CPU's memory aren't copied.
  void AddParams(const ParamList& params);
  /// The blob, as pieces to be concatenated, so that weights are never copied together; valid while this object lives
  /// and stays as it is. `sealed`: SealFile will be called on the file that holds it.
  std::vector<std::string_view> Pieces(bool sealed = true);
  /// The blob in one piece.
  std::string Finish(bool sealed = true);

 private:
  struct Section {
    std::string name;
    std::vector<std::string_view> pieces;
    uint64_t bytes;
    bool bulk;
  };
  void Add(Section section);
  std::vector<Section> sections_;
  std::deque<std::string> texts_;  ///< what pieces are views of: this
  std::vector<NDArray> tensors_;   ///< and these
  std::string head_;
};

/// Reads a blob in place.
class ArtifactReader {
 public:
  /// Checks header, table and sections (bulk ones by their samples). `bytes` may be longer than the blob.
  /// Throws ModelFormatError; `what` is named in errors.
  ArtifactReader(std::string_view bytes, std::string what);

  std::optional<std::string_view> Section(const std::string& name) const;
  /// As Section; a missing one is a ModelFormatError.
  std::string_view Require(const std::string& name) const;
  std::vector<std::string> SectionNames() const;
  /// The parameters in place, read-only, keeping `owner` alive. Empty when there are none.
  ParamList Params(const std::shared_ptr<void>& owner) const;
  /// Checks every byte of the bulk sections too.
  void VerifyAll() const;
  bool sealed() const { return sealed_; }
  size_t size() const { return bytes_.size(); }
  /// Offset and size of all bulk sections together; {0, 0} when there are none.
  std::pair<size_t, size_t> BulkRange() const;

 private:
  struct Entry {
    std::string name;
    uint64_t offset, bytes, hash;
    bool bulk;
  };
  std::string_view bytes_;
  std::string what_;
  std::vector<Entry> entries_;
  bool sealed_ = false;
};

/// Appends the seal to a library that was just linked. Throws ModelFormatError when it has a blob that is broken.
void SealFile(const std::string& path);

/// What CheckLibraryFile found.
struct LibraryFileInfo {
  bool has_blob = false;
  bool sealed = false;
};
/// Checks a shared library before it is loaded: ELF header and tables within the file, machine, the blob (when there is
/// one) and the seal (when the blob says that there is one). Throws ModelFormatError naming the file.
LibraryFileInfo CheckLibraryFile(const std::string& path);
/// As CheckLibraryFile, for the bytes of a file; `path` is what errors call it.
LibraryFileInfo CheckLibraryBytes(std::string_view bytes, const std::string& path);

}  // namespace treadle::runtime
