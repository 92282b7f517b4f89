// SPDX-License-Identifier: Apache-2.0
#include "targets/linker.h"

#include <lld/Common/CommonLinkerContext.h>
#include <lld/Common/Driver.h>
#include <llvm/Support/CrashRecoveryContext.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/Triple.h>

#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>

#include "runtime/file_io.h"
#include "treadle/base/error.h"

LLD_HAS_DRIVER(elf)

namespace treadle::targets {
namespace {

template <typename T>
void Append(std::string* out, const T& value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

llvm::Triple MachineOf(const std::string& triple) {
  return llvm::Triple(triple.empty() ? llvm::sys::getDefaultTargetTriple() : triple);
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

/// While it lives, the linker's exit on an error that it can't go on after (an output that can't be opened) ends the
/// link, not the process.
class RecoverFromExit {
 public:
  RecoverFromExit() { llvm::CrashRecoveryContext::Enable(); }
  ~RecoverFromExit() { llvm::CrashRecoveryContext::Disable(); }
  RecoverFromExit(const RecoverFromExit&) = delete;
  RecoverFromExit& operator=(const RecoverFromExit&) = delete;
};

/// Takes the linker's output from a pipe. The linker would map a file into memory and write there, which ends the
/// process (SIGBUS) where the disk is full; what is written here fails with an error instead.
class LinkerOutput {
 public:
  LinkerOutput(std::string path, runtime::OutputFile* output) : path_(std::move(path)), output_(output) {
    if (mkfifo(path_.c_str(), 0600) != 0) {
      throw RuntimeError(StrCat("can't make the pipe ", path_, ": ", std::strerror(errno)));
    }
    fd_ = open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd_ < 0) throw RuntimeError(StrCat("can't open the pipe ", path_, ": ", std::strerror(errno)));
    fcntl(fd_, F_SETPIPE_SZ, 1 << 20);
    thread_ = std::thread([this] { Receive(); });
  }
  ~LinkerOutput() { Stop(); }
  LinkerOutput(const LinkerOutput&) = delete;
  LinkerOutput& operator=(const LinkerOutput&) = delete;
  const std::string& path() const { return path_; }

  /// Once the linker is done.
  void Finish() {
    Stop();
    if (error_ != 0) output_->Fail(error_);
  }

 private:
  void Stop() {
    if (!thread_.joinable()) return;
    done_ = true;
    thread_.join();
    close(fd_);
  }

  void Receive() {
    std::vector<char> buffer(1 << 20);
    for (;;) {
      const bool last = done_;  // looked at first: what is in the pipe now is all then
      const ssize_t got = read(fd_, buffer.data(), buffer.size());
      if (got > 0) {
        // What can't be written is still taken, so that the linker comes to its end.
        if (error_ == 0 && !runtime::WriteAll(output_->fd(), {buffer.data(), static_cast<size_t>(got)})) error_ = errno;
        continue;
      }
      if (last) return;
      pollfd waiting{fd_, POLLIN, 0};
      if (got == 0 || poll(&waiting, 1, 1) <= 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

  std::string path_;
  runtime::OutputFile* output_;
  int fd_ = -1;
  int error_ = 0;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace

std::string MakeDataObject(const EmbeddedData& data, const std::string& triple) {
  const llvm::Triple machine = MachineOf(triple);
  uint64_t size = 0;
  for (const auto& piece : data.pieces) size += piece.size();
  TREADLE_ICHECK(data.alignment != 0 && (data.alignment & (data.alignment - 1)) == 0)
      << "alignment isn't a power of two";

  StringTable names, sections;
  const uint32_t data_name = names.Add(data.symbol);
  const uint32_t size_name = names.Add(data.symbol + "_size");
  const uint32_t section_name[] = {0,
                                   sections.Add(".treadle_data"),
                                   sections.Add(".symtab"),
                                   sections.Add(".strtab"),
                                   sections.Add(".shstrtab"),
                                   sections.Add(".note.GNU-stack")};
  // The contents: data, padding to 8, its size.
  const uint64_t size_offset = (size + 7) / 8 * 8;
  const uint64_t start = (sizeof(Elf64_Ehdr) + data.alignment - 1) / data.alignment * data.alignment;

  std::string symbols;
  Append(&symbols, Elf64_Sym{});
  auto add_symbol = [&](uint32_t name, uint64_t value, uint64_t bytes) {
    Elf64_Sym symbol{};
    symbol.st_name = name;
    symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
    symbol.st_shndx = 1;
    symbol.st_value = value;
    symbol.st_size = bytes;
    Append(&symbols, symbol);
  };
  add_symbol(data_name, 0, size);
  add_symbol(size_name, size_offset, 8);

  const uint64_t content_end = start + size_offset + 8;
  const uint64_t strings_at = content_end + symbols.size();
  const uint64_t sections_at = strings_at + names.bytes.size();
  const uint64_t headers_at = (sections_at + sections.bytes.size() + 7) / 8 * 8;

  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_REL;
  header.e_machine = machine.getArch() == llvm::Triple::aarch64 ? EM_AARCH64 : EM_X86_64;
  header.e_version = EV_CURRENT;
  header.e_shoff = headers_at;
  header.e_ehsize = sizeof(Elf64_Ehdr);
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 6;
  header.e_shstrndx = 4;

  std::string out;
  out.reserve(headers_at + 6 * sizeof(Elf64_Shdr));
  Append(&out, header);
  out.resize(start);
  for (const auto& piece : data.pieces) out.append(piece);
  out.resize(start + size_offset);
  Append(&out, size);
  out += symbols;
  out += names.bytes;
  out += sections.bytes;
  out.resize(headers_at);

  auto add_section = [&](int index, uint32_t type, uint64_t flags, uint64_t offset, uint64_t bytes, uint32_t link,
                         uint32_t info, uint64_t align, uint64_t entry) {
    Elf64_Shdr section{};
    section.sh_name = section_name[index];
    section.sh_type = type;
    section.sh_flags = flags;
    section.sh_offset = offset;
    section.sh_size = bytes;
    section.sh_link = link;
    section.sh_info = info;
    section.sh_addralign = align;
    section.sh_entsize = entry;
    Append(&out, section);
  };
  add_section(0, SHT_NULL, 0, 0, 0, 0, 0, 0, 0);
  add_section(1, SHT_PROGBITS, SHF_ALLOC, start, size_offset + 8, 0, 0, data.alignment, 0);
  add_section(2, SHT_SYMTAB, 0, content_end, symbols.size(), 3, 1, 8, sizeof(Elf64_Sym));
  add_section(3, SHT_STRTAB, 0, strings_at, names.bytes.size(), 0, 0, 1, 0);
  add_section(4, SHT_STRTAB, 0, sections_at, sections.bytes.size(), 0, 0, 1, 0);
  add_section(5, SHT_PROGBITS, 0, headers_at, 0, 0, 0, 1, 0);
  return out;
}

void LinkSharedLibrary(const std::vector<std::string>& objects, const std::vector<EmbeddedData>& data,
                       runtime::OutputFile* output, const LinkOptions& options) {
  const llvm::Triple triple = MachineOf(options.triple);
  runtime::TemporaryDirectory directory;
  std::vector<std::string> args = {"ld.lld", "-m",
                                   triple.getArch() == llvm::Triple::aarch64 ? "aarch64linux" : "elf_x86_64", "-shared",
                                   "--no-undefined", "-z", "now", "-z", "relro", "-z", "noexecstack", "--build-id=none",
                                   "--hash-style=gnu", "--threads=1",
                                   // lld keeps its symbol for the table of offsets from link to link: each must define
                                   // it anew, whether or not its objects refer to it.
                                   "--undefined=_GLOBAL_OFFSET_TABLE_"};
  for (size_t i = 0; i < objects.size(); ++i) args.push_back(directory.Write(StrCat("k", i, ".o"), objects[i]));
  for (size_t i = 0; i < data.size(); ++i) {
    args.push_back(directory.Write(StrCat("d", i, ".o"), MakeDataObject(data[i], options.triple)));
  }
  if (!options.keep_debug_info) args.push_back("--strip-debug");
  if (!options.libraries.empty()) args.push_back("--as-needed");
  args.insert(args.end(), options.libraries.begin(), options.libraries.end());
  LinkerOutput received(directory.Path("output"), output);
  args.insert(args.end(), {"-o", received.path()});
  std::vector<const char*> raw;
  for (const std::string& arg : args) raw.push_back(arg.c_str());

  std::string messages;
  lld::Result result{};
  {
    static std::mutex linker_mutex;  // lld keeps global state
    static bool usable = true;
    std::lock_guard<std::mutex> lock(linker_mutex);
    if (!usable) throw InternalError("internal error: the linker can't run again after it crashed");
    llvm::raw_string_ostream stream(messages);
    const RecoverFromExit recover;
    try {
      result = lld::lldMain(raw, stream, stream, {{lld::Gnu, &lld::elf::link}});
    } catch (...) {
      lld::CommonLinkerContext::destroy();  // as lldMain would have done: the next link starts anew
      throw;
    }
    constexpr int kSignals = 128;  // and more: it crashed
    usable = result.canRunAgain || result.retCode < kSignals;
    if (!result.canRunAgain && usable) lld::CommonLinkerContext::destroy();
  }
  received.Finish();
  if (result.retCode != 0) throw Error(StrCat("linking '", output->path(), "' failed: ", messages));
}

}  // namespace treadle::targets
