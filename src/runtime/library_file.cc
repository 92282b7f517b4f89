// SPDX-License-Identifier: Apache-2.0
// Checks a compiled library before the dynamic loader, which trusts what it maps, gets to see it.
#include <elf.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "runtime/file_io.h"
#include "runtime/hash64.h"
#include "treadle/base/error.h"
#include "treadle/runtime/artifact.h"

namespace treadle::runtime {
namespace {

constexpr char kSealMagic[] = "TRDLSEAL";
constexpr size_t kSealBytes = 64;

#if defined(__x86_64__)
constexpr uint16_t kHostMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kHostMachine = EM_AARCH64;
#else
constexpr uint16_t kHostMachine = EM_NONE;
#endif

std::string MachineName(uint16_t machine) {
  if (machine == EM_X86_64) return "x86-64";
  if (machine == EM_AARCH64) return "aarch64";
  return StrCat("ELF machine ", machine);
}

/// A range of a file.
struct Range {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

/// Reads the tables of an ELF file, every access within its bounds.
class ElfFile {
 public:
  ElfFile(std::string_view bytes, std::string path, bool for_this_machine = true)
      : bytes_(bytes), path_(std::move(path)) {
    if (bytes_.size() < SELFMAG || std::memcmp(bytes_.data(), ELFMAG, SELFMAG) != 0) {
      Fail("not a compiled model (the file isn't a shared library)");
    }
    header_ = At<Elf64_Ehdr>(0, "header");
    if (header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_ident[EI_DATA] != ELFDATA2LSB) {
      Fail("a shared library for another kind of machine (not 64-bit little-endian)");
    }
    if (header_.e_type != ET_DYN) Fail("not a shared library");
    if (for_this_machine && header_.e_machine != kHostMachine) {
      Fail(StrCat("compiled for another processor architecture (", MachineName(header_.e_machine), ", not ",
                  MachineName(kHostMachine), ")"));
    }
    CheckSegments();
    CheckSections();
  }

  [[noreturn]] void Fail(const std::string& problem) const { throw ModelFormatError(StrCat(path_, ": ", problem)); }

  /// Where the exported data symbol `name` lies in the file; its size as the symbol table says. 0 bytes when absent.
  Range FindSymbol(const std::string& name) const {
    for (uint16_t i = 0; i < header_.e_shnum; ++i) {
      Elf64_Shdr section = SectionHeader(i);
      if (section.sh_type != SHT_DYNSYM || section.sh_entsize != sizeof(Elf64_Sym)) continue;
      if (section.sh_link >= header_.e_shnum) Fail("corrupt symbol table");
      Elf64_Shdr strings = SectionHeader(static_cast<uint16_t>(section.sh_link));
      if (strings.sh_type != SHT_STRTAB) Fail("corrupt symbol table");
      for (uint64_t k = 0; k < section.sh_size / sizeof(Elf64_Sym); ++k) {
        auto symbol = At<Elf64_Sym>(section.sh_offset + k * sizeof(Elf64_Sym), "symbol table");
        if (symbol.st_shndx == SHN_UNDEF || symbol.st_name >= strings.sh_size) continue;
        std::string_view rest = bytes_.substr(strings.sh_offset + symbol.st_name, strings.sh_size - symbol.st_name);
        if (rest.substr(0, rest.find('\0')) == name) return FileRange(symbol.st_value, symbol.st_size);
      }
    }
    return {};
  }

 private:
  template <typename T>
  T At(uint64_t offset, const char* what) const {
    if (offset > bytes_.size() || sizeof(T) > bytes_.size() - offset) Fail(StrCat("truncated (", what, ")"));
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }
  bool Inside(uint64_t offset, uint64_t bytes) const {
    return offset <= bytes_.size() && bytes <= bytes_.size() - offset;
  }

  Elf64_Shdr SectionHeader(uint16_t i) const {
    return At<Elf64_Shdr>(header_.e_shoff + uint64_t{i} * sizeof(Elf64_Shdr), "section headers");
  }

  void CheckSegments() {
    if (header_.e_phnum == 0 || header_.e_phentsize != sizeof(Elf64_Phdr)) Fail("corrupt program headers");
    for (uint16_t i = 0; i < header_.e_phnum; ++i) {
      auto segment = At<Elf64_Phdr>(header_.e_phoff + uint64_t{i} * sizeof(Elf64_Phdr), "program headers");
      if (!Inside(segment.p_offset, segment.p_filesz)) Fail("truncated (a segment lies beyond the end of the file)");
      if (segment.p_type == PT_LOAD && segment.p_filesz > segment.p_memsz) Fail("corrupt program headers");
      if (segment.p_type == PT_LOAD) segments_.push_back(segment);
    }
    if (segments_.empty()) Fail("corrupt program headers");
  }

  void CheckSections() const {
    if (header_.e_shnum == 0) return;
    if (header_.e_shentsize != sizeof(Elf64_Shdr) || header_.e_shoff > bytes_.size()) {
      Fail("truncated (section headers lie beyond the end of the file)");
    }
    for (uint16_t i = 0; i < header_.e_shnum; ++i) {
      Elf64_Shdr section = SectionHeader(i);
      if (section.sh_type == SHT_NOBITS || section.sh_type == SHT_NULL) continue;
      if (!Inside(section.sh_offset, section.sh_size)) Fail("truncated (a section lies beyond the end of the file)");
    }
  }

  /// Where `bytes` bytes at `address` lie; with 0 bytes (a symbol without a size) all that follows in the segment.
  Range FileRange(uint64_t address, uint64_t bytes) const {
    for (const Elf64_Phdr& segment : segments_) {
      if (address < segment.p_vaddr || address - segment.p_vaddr > segment.p_filesz) continue;
      uint64_t skip = address - segment.p_vaddr;
      if (bytes > segment.p_filesz - skip) continue;
      return {segment.p_offset + skip, bytes != 0 ? bytes : segment.p_filesz - skip};
    }
    Fail("corrupt: a symbol lies outside the file");
  }

  std::string_view bytes_;
  std::string path_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Phdr> segments_;
};

/// Hash of a file but for one range.
uint64_t HashAround(std::string_view file, Range skipped) {
  uint64_t head = Hash64(file.substr(0, skipped.offset));
  return Hash64(file.substr(skipped.offset + skipped.bytes), head);
}

/// The blob's bulk range as part of the file.
Range BulkInFile(const ArtifactReader& blob, Range where) {
  auto [offset, bytes] = blob.BulkRange();
  return bytes == 0 ? Range{} : Range{where.offset + offset, bytes};
}

/// Checks the trailer of `file`; false when there is none.
bool CheckSeal(std::string_view file, const ElfFile& elf) {
  if (file.size() < kSealBytes) return false;
  const std::string_view seal = file.substr(file.size() - kSealBytes), magic(kSealMagic, 8);
  if (seal.substr(0, 8) != magic) {
    // Bytes that came or went leave it near its place; taken as the library of another linker, the file would be given
    // to the loader as it is.
    constexpr size_t kNear = 256;
    const std::string_view end = file.substr(file.size() - std::min(file.size(), kNear));
    if (end.find(magic.substr(0, 4)) != std::string_view::npos || end.find(magic.substr(4)) != std::string_view::npos) {
      elf.Fail("corrupt: the seal isn't at its end");
    }
    return false;
  }
  ByteReader reader(seal.substr(8), "seal");
  auto version = reader.Read<uint32_t>();
  auto size = reader.Read<uint32_t>();
  auto file_bytes = reader.Read<uint64_t>();
  auto hash = reader.Read<uint64_t>();
  Range bulk;
  bulk.offset = reader.Read<uint64_t>();
  bulk.bytes = reader.Read<uint64_t>();
  reader.Read<uint64_t>();
  if (reader.Read<uint64_t>() != Hash64(seal.substr(0, kSealBytes - 8)) || version != 1 || size != kSealBytes ||
      file_bytes != file.size() - kSealBytes || bulk.offset > file_bytes || bulk.bytes > file_bytes - bulk.offset) {
    elf.Fail("corrupt: the seal at its end is damaged");
  }
  if (HashAround(file.substr(0, file_bytes), bulk) != hash) elf.Fail("corrupt: the checksum of the file is wrong");
  return true;
}

}  // namespace

void SealFile(const std::string& path) {
  MappedFile file(path);
  std::string_view bytes = file.bytes();
  ElfFile elf(bytes, path, /*for_this_machine=*/false);
  Range where = elf.FindSymbol(kBlobSymbol), bulk;
  if (where.bytes != 0) bulk = BulkInFile(ArtifactReader(bytes.substr(where.offset, where.bytes), path), where);
  ByteWriter seal;
  seal.WriteRaw(kSealMagic, 8);
  seal.Write<uint32_t>(1);
  seal.Write<uint32_t>(kSealBytes);
  seal.Write<uint64_t>(bytes.size());
  seal.Write<uint64_t>(HashAround(bytes, bulk));
  seal.Write<uint64_t>(bulk.offset);
  seal.Write<uint64_t>(bulk.bytes);
  seal.Write<uint64_t>(0);
  seal.Write<uint64_t>(Hash64(seal.bytes()));
  AppendFile(path, seal.bytes());
}

LibraryFileInfo CheckLibraryBytes(std::string_view bytes, const std::string& path) {
  if (bytes.empty()) throw ModelFormatError(StrCat(path, ": the file is empty"));
  ElfFile elf(bytes, path);
  LibraryFileInfo info;
  info.sealed = CheckSeal(bytes, elf);
  Range where = elf.FindSymbol(kBlobSymbol);
  info.has_blob = where.bytes != 0;
  if (info.has_blob) {
    ArtifactReader blob(bytes.substr(where.offset, where.bytes), path);
    // Reading all weights takes longer than all else that loading does, so only on request.
    if (const char* verify = std::getenv("TREADLE_VERIFY"); verify != nullptr && *verify == '1') blob.VerifyAll();
    if (blob.sealed() && !info.sealed) elf.Fail("truncated: the seal at its end is missing");
  }
  return info;
}

LibraryFileInfo CheckLibraryFile(const std::string& path) { return CheckLibraryBytes(MappedFile(path).bytes(), path); }

}  // namespace treadle::runtime
