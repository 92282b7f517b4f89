// SPDX-License-Identifier: Apache-2.0
#include "targets/elf_data.h"

#include <elf.h>

#include <cstring>

#include "treadle/base/error.h"
#include "treadle/base/int_math.h"

namespace treadle::targets {
namespace {

template <typename T>
void Append(std::string* out, const T& value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

/// Names in a string table; offset 0 is the empty name.
class StringTable {
 public:
  uint32_t Add(const std::string& name) {
    const auto offset = static_cast<uint32_t>(bytes.size());
    bytes += name;
    bytes.push_back('\0');
    return offset;
  }
  std::string bytes = std::string(1, '\0');
};

Elf64_Sym Symbol(uint32_t name, uint16_t section, uint64_t bytes) {
  Elf64_Sym symbol{};
  symbol.st_name = name;
  symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
  symbol.st_shndx = section;
  symbol.st_size = bytes;
  return symbol;
}

/// A relocatable object under construction.
class ObjectWriter {
 public:
  explicit ObjectWriter(uint16_t machine) {
    header_.e_type = ET_REL;
    header_.e_machine = machine;
    bytes_.resize(sizeof(header_));
    Section("", SHT_NULL, 0, {}, 0);
  }

  /// Appends a section; `size`: what its header says, where that isn't what it holds.
  Elf64_Shdr& Section(const char* name, uint32_t type, uint64_t flags, const std::vector<std::string_view>& content,
                      uint64_t alignment) {
    if (alignment > 1) bytes_.resize(RoundUp(bytes_.size(), alignment));
    Elf64_Shdr section{};
    section.sh_name = *name == '\0' ? 0 : names_.Add(name);
    section.sh_type = type;
    section.sh_flags = flags;
    section.sh_offset = type == SHT_NULL ? 0 : bytes_.size();
    section.sh_addralign = alignment;
    for (std::string_view piece : content) {
      bytes_ += piece;
      section.sh_size += piece.size();
    }
    sections_.push_back(section);
    return sections_.back();
  }

  std::string Finish() {
    const uint32_t own = names_.Add(".shstrtab");
    Section(".note.GNU-stack", SHT_PROGBITS, 0, {}, 1);
    Section("", SHT_STRTAB, 0, {names_.bytes}, 1).sh_name = own;
    bytes_.resize(RoundUp(bytes_.size(), 8));
    std::memcpy(header_.e_ident, ELFMAG, SELFMAG);
    header_.e_ident[EI_CLASS] = ELFCLASS64;
    header_.e_ident[EI_DATA] = ELFDATA2LSB;
    header_.e_ident[EI_VERSION] = EV_CURRENT;
    header_.e_version = EV_CURRENT;
    header_.e_shoff = bytes_.size();
    header_.e_ehsize = sizeof(Elf64_Ehdr);
    header_.e_shentsize = sizeof(Elf64_Shdr);
    header_.e_shnum = static_cast<uint16_t>(sections_.size());
    header_.e_shstrndx = static_cast<uint16_t>(sections_.size() - 1);
    std::memcpy(bytes_.data(), &header_, sizeof(header_));
    for (const Elf64_Shdr& section : sections_) Append(&bytes_, section);
    return std::move(bytes_);
  }

 private:
  Elf64_Ehdr header_{};
  std::vector<Elf64_Shdr> sections_;
  StringTable names_;
  std::string bytes_;
};

/// The tables of a library that this process linked.
struct Tables {
  explicit Tables(const std::string& library) {
    std::memcpy(&header, library.data(), sizeof(header));
    segments.resize(header.e_phnum);
    std::memcpy(segments.data(), library.data() + header.e_phoff, segments.size() * sizeof(Elf64_Phdr));
    sections.resize(header.e_shnum);
    std::memcpy(sections.data(), library.data() + header.e_shoff, sections.size() * sizeof(Elf64_Shdr));
  }
  void Store(std::string* library, uint64_t sections_at) {
    std::memcpy(library->data() + sections_at, sections.data(), sections.size() * sizeof(Elf64_Shdr));
    std::memcpy(library->data() + header.e_phoff, segments.data(), segments.size() * sizeof(Elf64_Phdr));
    std::memcpy(library->data(), &header, sizeof(header));
  }
  Elf64_Ehdr header;
  std::vector<Elf64_Phdr> segments;
  std::vector<Elf64_Shdr> sections;
};

}  // namespace

std::string MakeDataObject(const std::string& symbol, const std::vector<std::string_view>& content, uint64_t size,
                           uint64_t alignment, uint16_t machine) {
  TREADLE_ICHECK(alignment != 0 && (alignment & (alignment - 1)) == 0) << "alignment isn't a power of two";
  std::string size_bytes, symbols;
  Append(&size_bytes, size);
  StringTable names;
  Append(&symbols, Elf64_Sym{});
  Append(&symbols, Symbol(names.Add(symbol), 1, size));
  Append(&symbols, Symbol(names.Add(symbol + "_size"), 2, size_bytes.size()));

  ObjectWriter object(machine);
  object.Section(kDataSection, SHT_PROGBITS, SHF_ALLOC, content, alignment);
  object.Section(".rodata.treadle_size", SHT_PROGBITS, SHF_ALLOC, {size_bytes}, size_bytes.size());
  // There is always something after which the linker can put the data.
  object.Section(".bss", SHT_NOBITS, SHF_ALLOC | SHF_WRITE, {}, 8).sh_size = 8;
  Elf64_Shdr& table = object.Section(".symtab", SHT_SYMTAB, 0, {symbols}, 8);
  table.sh_link = 5;  // of the section that follows
  table.sh_info = 1;  // the first global symbol
  table.sh_entsize = sizeof(Elf64_Sym);
  object.Section(".strtab", SHT_STRTAB, 0, {names.bytes}, 1);
  return object.Finish();
}

std::vector<std::string_view> ExtendData(std::string* library, const std::vector<std::string_view>& content) {
  Tables tables(*library);
  const std::string_view names = std::string_view(*library).substr(tables.sections[tables.header.e_shstrndx].sh_offset);
  Elf64_Shdr* data = nullptr;
  for (Elf64_Shdr& section : tables.sections) {
    if (names.substr(section.sh_name).starts_with(kDataSection)) data = &section;
  }
  TREADLE_ICHECK(data != nullptr) << "a library without the section " << kDataSection;
  Elf64_Phdr* last = nullptr;
  for (Elf64_Phdr& segment : tables.segments) {
    if (segment.p_type == PT_LOAD && (last == nullptr || segment.p_vaddr > last->p_vaddr)) last = &segment;
  }
  const uint64_t end = data->sh_offset + data->sh_size;
  TREADLE_ICHECK(last != nullptr && last->p_offset + last->p_filesz == end && last->p_filesz == last->p_memsz)
      << kDataSection << " isn't the end of the last segment";

  uint64_t size = 0;
  for (std::string_view piece : content) size += piece.size();
  static constexpr char kZeros[64] = {};
  const uint64_t padding = (64 + data->sh_size % 64 - size % 64) % 64;  // what follows keeps its alignment
  const uint64_t begin = data->sh_offset, grown = begin + size + padding - end, sections_at = tables.header.e_shoff;
  last->p_filesz = last->p_memsz = begin + size - last->p_offset;
  data->sh_size = size;
  for (Elf64_Shdr& section : tables.sections) {
    if (section.sh_type != SHT_NULL && &section != data && section.sh_offset >= end) section.sh_offset += grown;
  }
  TREADLE_ICHECK(sections_at >= end) << "section headers before the data";
  tables.header.e_shoff += grown;
  tables.Store(library, sections_at);

  const std::string_view whole = *library;
  std::vector<std::string_view> pieces = {whole.substr(0, begin)};
  pieces.insert(pieces.end(), content.begin(), content.end());
  pieces.insert(pieces.end(), {{kZeros, padding}, whole.substr(end)});
  return pieces;
}

}  // namespace treadle::targets
