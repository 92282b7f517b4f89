// SPDX-License-Identifier: Apache-2.0
#include "targets/linker.h"

#include <lld/Common/CommonLinkerContext.h>
#include <lld/Common/Driver.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Support/CrashRecoveryContext.h>
#include <llvm/Support/MemoryBufferRef.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/Triple.h>

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "runtime/mapped_memory.h"
#include "targets/elf_data.h"
#include "treadle/base/error.h"

LLD_HAS_DRIVER(elf)

namespace treadle::targets {
namespace {

llvm::Triple MachineOf(const std::string& triple) {
  return llvm::Triple(triple.empty() ? llvm::sys::getDefaultTargetTriple() : triple);
}

uint16_t ElfMachine(const llvm::Triple& triple) {
  return triple.getArch() == llvm::Triple::aarch64 ? EM_AARCH64 : EM_X86_64;
}

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
/// process (SIGBUS) where the disk is full.
class LinkerOutput {
 public:
  explicit LinkerOutput(std::string path) : path_(std::move(path)) {
    if (mkfifo(path_.c_str(), 0600) != 0) {
      throw RuntimeError(StrCat("can't make the pipe ", path_, ": ", std::strerror(errno)));
    }
    fd_ = open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd_ < 0) throw RuntimeError(StrCat("can't open the pipe ", path_, ": ", std::strerror(errno)));
    fcntl(fd_, F_SETPIPE_SZ, 1 << 20);
    try {
      buffer_.resize(1 << 20);
      thread_ = std::thread([this] { Receive(); });
    } catch (...) {
      close(fd_);
      throw;
    }
  }
  ~LinkerOutput() { Stop(); }
  LinkerOutput(const LinkerOutput&) = delete;
  LinkerOutput& operator=(const LinkerOutput&) = delete;
  const std::string& path() const { return path_; }

  /// The library, once the linker is done.
  std::string Finish() {
    Stop();
    if (out_of_memory_) throw RuntimeError("not enough memory for the library's code");
    if (read_error_ != 0) throw RuntimeError(StrCat("can't read what the linker writes: ", std::strerror(read_error_)));
    return std::move(library_);
  }

 private:
  void Stop() {
    if (!thread_.joinable()) return;
    done_ = true;
    thread_.join();
    close(fd_);
  }

  void Receive() {
    for (;;) {
      const bool last = done_;  // looked at first: what is in the pipe now is all then
      const ssize_t got = read(fd_, buffer_.data(), buffer_.size());
      if (got > 0) {
        Keep({buffer_.data(), static_cast<size_t>(got)});
        continue;
      }
      if (got < 0 && errno == EINTR)
        continue;  // by a signal of the program around: nothing says that the pipe is empty
      if (got < 0 && errno != EAGAIN) read_error_ = errno;
      if (last) return;
      pollfd waiting{fd_, POLLIN, 0};
      if (got == 0 || poll(&waiting, 1, 1) <= 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

  /// What can't be kept is still taken from the pipe, so that the linker comes to its end.
  void Keep(std::string_view bytes) {
    try {
      if (!out_of_memory_) library_ += bytes;
    } catch (const std::bad_alloc&) {
      out_of_memory_ = true;
    }
  }

  std::string path_, library_;
  std::vector<char> buffer_;  // of the thread, which couldn't report that there is no memory for it
  int fd_ = -1;
  int read_error_ = 0;
  bool out_of_memory_ = false;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace

std::string MakeDataObject(const EmbeddedData& data, const std::string& triple) {
  uint64_t size = 0;
  for (std::string_view piece : data.pieces) size += piece.size();
  return MakeDataObject(data.symbol, data.pieces, size, data.alignment, ElfMachine(MachineOf(triple)));
}

namespace {

/// Runs the linker: the library, or (false, its messages).
std::pair<bool, std::string> RunLinker(std::vector<std::string> args, const std::string& output_path) {
  LinkerOutput received(output_path);
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
  std::string library = received.Finish();
  if (result.retCode != 0) return {false, messages};
  return {true, std::move(library)};
}

/// Whether this process knows all that the objects don't define: functions of libraries that were loaded for everybody
/// (RTLD_GLOBAL), which whoever loads the result has to load as well.
bool ProcessDefinesTheRest(const std::vector<std::string>& objects) {
  std::set<std::string> defined, undefined;
  for (const std::string& bytes : objects) {
    auto object = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(bytes, "object"));
    if (!object) {
      llvm::consumeError(object.takeError());
      return false;
    }
    for (const llvm::object::SymbolRef& symbol : (*object)->symbols()) {
      auto flags = symbol.getFlags();
      auto name = symbol.getName();
      if (!flags || !name) {
        if (!flags) llvm::consumeError(flags.takeError());
        if (!name) llvm::consumeError(name.takeError());
        return false;
      }
      if ((*flags & llvm::object::SymbolRef::SF_FormatSpecific) != 0) continue;
      ((*flags & llvm::object::SymbolRef::SF_Undefined) != 0 ? undefined : defined).insert(name->str());
    }
  }
  return std::all_of(undefined.begin(), undefined.end(), [&](const std::string& name) {
    return name == "_GLOBAL_OFFSET_TABLE_" || defined.count(name) != 0 || dlsym(RTLD_DEFAULT, name.c_str()) != nullptr;
  });
}

}  // namespace

void LinkSharedLibrary(const std::vector<std::string>& objects, const std::optional<EmbeddedData>& data,
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
  if (data) {
    uint64_t size = 0;
    for (std::string_view piece : data->pieces) size += piece.size();
    // A place for it, the last segment; the bytes come in afterwards.
    args.push_back(directory.Write(
        "data.o", MakeDataObject(data->symbol, {std::string_view("", 1)}, size, data->alignment, ElfMachine(triple))));
    const std::string section = kDataSection;
    args.push_back(
        directory.Write("data.ld", StrCat("SECTIONS { ", section, " : { *(", section, ") } } INSERT AFTER .bss;\n")));
  }
  if (!options.keep_debug_info) args.push_back("--strip-debug");
  if (!options.libraries.empty()) args.push_back("--as-needed");
  args.insert(args.end(), options.libraries.begin(), options.libraries.end());
  auto [linked, library] = RunLinker(args, directory.Path("output"));
  if (!linked && triple == MachineOf("") && ProcessDefinesTheRest(objects)) {
    args.push_back("--unresolved-symbols=ignore-all");
    std::tie(linked, library) = RunLinker(args, directory.Path("output2"));
  }
  if (!linked) throw Error(StrCat("linking '", output->path(), "' failed: ", library));
  if (!data) return output->Write(library);
  for (std::string_view piece : ExtendData(&library, data->pieces)) {
    output->Write(piece);
    runtime::ReleasePages(piece.data(), piece.size());
  }
}

}  // namespace treadle::targets
