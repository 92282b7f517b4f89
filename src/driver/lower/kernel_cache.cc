// SPDX-License-Identifier: Apache-2.0
// Entries are <directory>/kernels/<key>.o, 64 bytes of header and then the object:
//   char[8] "TRDLKRNL", u32 2, u32 0, char[16] first half of the key, u8[32] code of all that the header and the object
//   say, made with the folder's key: who can't read that can't make an entry that is taken.
// Files that are loaded as they are, such as compiled models, have no header: the code of their contents is an entry.
// Their time of modification is the time of their last use. <directory>/kernels/<key>.note is text,
// <directory>/kernels/limit the limit in bytes, as text.
#include "driver/lower/kernel_cache.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <vector>

#include "driver/lower/private_folder.h"
#include "runtime/file_io.h"
#include "runtime/hash64.h"
#include "treadle/base/int_math.h"
#include "treadle/ir/serialization.h"
#include "treadle/ir/transform.h"
#include "treadle/runtime/byte_stream.h"
#include "treadle/runtime/manifest.h"
#include "treadle/schedule/kernel.h"
#include "treadle/targets/target_spec.h"

namespace treadle::driver {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[] = "TRDLKRNL";
constexpr uint32_t kFormat = 2;
constexpr size_t kKeyInHeader = 16, kHeaderBytes = 64, kKeyDigits = 32;
constexpr uint64_t kDefaultLimit = uint64_t{512} << 20;
/// Temporary files of processes that died are removed when they are so old.
constexpr auto kStale = std::chrono::hours(1);

std::string Header(const PrivateFolder& folder, const std::string& key, std::string_view object) {
  runtime::ByteWriter writer;
  writer.WriteRaw(kMagic, 8);
  writer.Write<uint32_t>(kFormat);
  writer.Write<uint32_t>(0);
  writer.WriteRaw(key.substr(0, kKeyInHeader).data(), kKeyInHeader);
  const PrivateFolder::Code code = folder.Authenticate({writer.bytes(), key, object});
  writer.WriteRaw(code.data(), code.size());
  return writer.bytes();
}

/// Endings of the names of kernels, of files, and of the codes that authenticate files.
constexpr char kKernel[] = ".o", kFile[] = ".so", kFileCode[] = ".mac";

bool Is(const PrivateFolder::Entry& entry, const char* ending) { return IsHexName(entry.name, kKeyDigits, ending); }

/// What counts towards the limit; what processes that died left is removed.
std::vector<PrivateFolder::Entry> ListEntries(const PrivateFolder& folder) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto stale = std::chrono::duration_cast<std::chrono::nanoseconds>(now - kStale).count();
  std::vector<PrivateFolder::Entry> entries;
  for (PrivateFolder::Entry& entry : folder.List()) {
    if (Is(entry, kKernel) || Is(entry, kFile) || Is(entry, kFileCode)) {
      entries.push_back(std::move(entry));
    } else if (entry.name.ends_with(".tmp") && entry.used < stale) {
      folder.Remove(entry.name);
    }
  }
  return entries;
}

/// The number of a file; 0 when there is none.
uint64_t ParseBytes(const std::string& text) {
  return static_cast<uint64_t>(std::max<int64_t>(0, ParseInt(text).value_or(0)));
}

std::string CacheDirectory() {
  auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (std::string own = variable("TREADLE_CACHE_DIR"); !own.empty()) return own;
  if (std::string xdg = variable("XDG_CACHE_HOME"); !xdg.empty()) return xdg + "/treadle";
  if (std::string home = variable("HOME"); !home.empty()) return home + "/.cache/treadle";
  return "";
}

/// Identifies this build of the compiler: the linker's build id of this library, else the file's size and time.
std::string BuildIdentity() {
  struct Search {
    const void* address;
    std::string id;
  } search{reinterpret_cast<const void*>(&BuildIdentity), ""};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto* found = static_cast<Search*>(data);
        const auto address = reinterpret_cast<uintptr_t>(found->address);
        bool mine = false;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& segment = info->dlpi_phdr[i];
          const uintptr_t start = info->dlpi_addr + segment.p_vaddr;
          mine |= segment.p_type == PT_LOAD && address >= start && address < start + segment.p_memsz;
        }
        for (int i = 0; mine && i < info->dlpi_phnum; ++i) {
          const auto& segment = info->dlpi_phdr[i];
          if (segment.p_type != PT_NOTE) continue;
          const char* p = reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr);
          const char* end = p + segment.p_memsz;
          while (p + sizeof(ElfW(Nhdr)) <= end) {
            ElfW(Nhdr) note;
            std::memcpy(&note, p, sizeof(note));
            const char* name = p + sizeof(note);
            const char* content = name + RoundUp(note.n_namesz, 4);
            if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
              found->id.assign(content, note.n_descsz);
            }
            p = content + RoundUp(note.n_descsz, 4);
          }
        }
        return mine ? 1 : 0;
      },
      &search);
  if (!search.id.empty()) return search.id;
  Dl_info info{};
  struct stat status{};
  if (dladdr(search.address, &info) == 0 || stat(info.dli_fname, &status) != 0) return runtime::VersionString();
  return StrCat(status.st_size, " ", status.st_mtim.tv_sec, " ", status.st_mtim.tv_nsec);
}

}  // namespace

KernelCache::KernelCache(std::string directory, uint64_t limit_bytes)
    : directory_(std::move(directory)), limit_(limit_bytes) {}

KernelCache* KernelCache::Default() {
  const char* enabled = std::getenv("TREADLE_CACHE");
  if (enabled != nullptr && std::string(enabled) == "0") return nullptr;
  const std::string directory = CacheDirectory();
  if (directory.empty()) return nullptr;
  // One per directory: tests and programs may change the environment.
  static std::mutex mutex;
  static auto* caches = new std::map<std::string, std::unique_ptr<KernelCache>>();
  std::lock_guard<std::mutex> lock(mutex);
  auto& cache = (*caches)[directory];
  if (cache == nullptr) {
    auto folder = PrivateFolder::Open(directory + "/kernels", /*make=*/false, nullptr);
    const std::string text = folder ? folder->Read("limit") : "";
    cache = std::make_unique<KernelCache>(directory, text.empty() ? kDefaultLimit : ParseBytes(text));
  }
  return cache.get();
}

std::optional<PrivateFolder> KernelCache::Folder(bool make, std::string* why) const {
  std::error_code ignored;
  // What is made on the way is the user's alone too.
  if (make && fs::create_directories(directory_, ignored)) {
    fs::permissions(directory_, fs::perms::owner_all, ignored);
  }
  return PrivateFolder::Open(directory_ + "/kernels", make, why);
}

std::optional<std::string> KernelCache::Find(const std::string& key) {
  const std::string name = key + kKernel;
  const auto folder = Folder(/*make=*/false, nullptr);
  std::string bytes = folder ? folder->Read(name) : "";
  bool intact = bytes.size() >= kHeaderBytes;
  if (intact) {
    const std::string_view object = std::string_view(bytes).substr(kHeaderBytes);
    intact = Header(*folder, key, object) == bytes.substr(0, kHeaderBytes);
  }
  Count(intact);
  if (!intact) {
    if (!bytes.empty()) folder->Remove(name);
    return std::nullopt;
  }
  folder->Touch(name);
  bytes.erase(0, kHeaderBytes);
  return bytes;
}

void KernelCache::Store(const std::string& key, std::string_view object) {
  if (object.size() + kHeaderBytes > limit_) return;
  const auto folder = Folder(/*make=*/true, nullptr);
  if (!folder) return;
  std::string bytes = Header(*folder, key, object);
  bytes.append(object);
  if (!folder->Write(key + kKernel, bytes)) return;
  std::lock_guard<std::mutex> lock(mutex_);
  ++stored_;
}

void KernelCache::Count(bool hit) {
  std::lock_guard<std::mutex> lock(mutex_);
  ++(hit ? hits_ : misses_);
}

std::string KernelCache::FindFile(const std::string& key) {
  const auto folder = Folder(/*make=*/false, nullptr);
  const std::string kept = folder ? folder->Read(key + kFileCode) : "";
  const auto code = kept.empty() ? std::nullopt : folder->AuthenticateFile({"file", key}, key + kFile);
  const bool intact = code && kept == std::string(code->begin(), code->end());
  Count(intact);
  for (const char* ending : {kFile, kFileCode}) {
    if (intact) {
      folder->Touch(key + ending);
    } else if (!kept.empty()) {
      folder->Remove(key + ending);
    }
  }
  return intact ? StrCat(directory_, "/kernels/", key, kFile) : "";
}

void KernelCache::StoreFile(const std::string& key, std::string_view contents) {
  if (contents.size() > limit_) return;
  const auto folder = Folder(/*make=*/true, nullptr);
  if (!folder || !folder->Write(key + kFile, contents)) return;
  const PrivateFolder::Code code = folder->Authenticate({"file", key, contents});
  if (!folder->Write(key + kFileCode, std::string(code.begin(), code.end()))) return;
  std::lock_guard<std::mutex> lock(mutex_);
  ++stored_;
}

std::string KernelCache::ReadNote(const std::string& key) const {
  const auto folder = Folder(/*make=*/false, nullptr);
  return folder ? folder->Read(key + PrivateFolder::kNote) : "";
}

void KernelCache::WriteNote(const std::string& key, const std::string& text) {
  std::string why;
  const auto folder = Folder(/*make=*/true, &why);
  if (folder && folder->Write(key + PrivateFolder::kNote, text)) return;
  throw Error(StrCat("can't write to the cache of kernels ", directory_, why.empty() ? "" : ": ", why));
}

bool KernelCache::RemoveNote(const std::string& key) {
  const auto folder = Folder(/*make=*/false, nullptr);
  return folder && folder->Remove(key + PrivateFolder::kNote);
}

void KernelCache::Trim() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stored_ == 0) return;
    stored_ = 0;
  }
  const auto folder = Folder(/*make=*/false, nullptr);
  if (!folder) return;
  std::vector<PrivateFolder::Entry> entries = ListEntries(*folder);
  uint64_t total = 0;
  for (const auto& entry : entries) total += entry.bytes;
  if (total <= limit_) return;
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.used < b.used; });
  for (const auto& entry : entries) {
    if (total <= limit_) break;
    folder->Remove(entry.name);
    total -= entry.bytes;
  }
}

uint64_t KernelCache::Clear() {
  std::string why;
  const auto folder = Folder(/*make=*/false, &why);
  if (!why.empty()) throw Error(StrCat("won't clear the cache of kernels: ", why));
  uint64_t removed = 0;
  if (!folder) return removed;
  for (const auto& entry : ListEntries(*folder)) {
    removed += folder->Remove(entry.name) && !Is(entry, kFileCode) ? 1 : 0;
  }
  return removed;
}

void KernelCache::SetLimit(uint64_t bytes) {
  std::string why;
  const auto folder = Folder(/*make=*/true, &why);
  if (!folder || !folder->Write("limit", StrCat(bytes))) {
    throw Error(StrCat("can't write the limit of the kernel cache to ", directory_, why.empty() ? "" : ": ", why));
  }
  limit_ = bytes;
  std::lock_guard<std::mutex> lock(mutex_);
  ++stored_;  // the next Trim looks at all entries
}

KernelCache::Stats KernelCache::GetStats() const {
  Stats stats;
  stats.directory = directory_;
  const auto folder = Folder(/*make=*/false, &stats.problem);
  if (folder) {
    for (const auto& entry : ListEntries(*folder)) {
      stats.kernels += Is(entry, kKernel) ? 1 : 0;
      stats.models += Is(entry, kFile) ? 1 : 0;
      stats.bytes += entry.bytes;
    }
  } else if (stats.problem.empty()) {
    try {
      runtime::CheckOutputFolder(directory_ + "/kernels");
    } catch (const Error& error) {
      stats.problem = error.what();
    }
  }
  std::lock_guard<std::mutex> lock(mutex_);
  stats.limit = limit_;
  stats.hits = hits_;
  stats.misses = misses_;
  return stats;
}

std::string MachineIdentity(const Target& target) {
  static const std::string* identity = new std::string(StrCat(runtime::VersionString(), "\n", BuildIdentity()));
  const TargetFeatures features = target->Features();
  const targets::TargetSpec& spec = targets::GetTargetSpec(target);
  return StrCat(*identity, "\n", target.str(), "\n", spec.cache_key ? spec.cache_key(target) : "", "\n", features.arch,
                " ", features.vector_bits, " ", features.vector_registers, " ", features.l1_bytes, " ",
                features.l2_bytes, " ", features.l3_bytes, " ", features.num_cores, "\n");
}

std::string KernelCacheKey(const std::string& symbol, const relay::Function& source, const Target& target,
                           const std::string& plans) {
  const auto context = transform::PassContext::Current();
  std::map<std::string, std::string> config;
  for (const auto& [key, value] : context->config) {
    if (key.str() == schedule::kPlansOption) continue;
    const auto* number = value.as<IntImmNode>();
    const auto* text = value.as<StringNode>();
    config[key.str()] = number != nullptr ? StrCat(number->value)
                        : text != nullptr ? text->value
                                          : SaveJson(value, true);
  }
  std::string all = StrCat(MachineIdentity(target), context->opt_level, "\n", symbol, "\n");
  for (const auto& [key, value] : config) all += StrCat(key, "=", value, "\n");
  all += StrCat(plans, "\n", SaveJson(source, /*skip_ignored=*/true));
  return HexText(runtime::Hash64(all), 16) + HexText(runtime::Hash64(all, 0x5851F42D4C957F2Du), 16);
}

}  // namespace treadle::driver
