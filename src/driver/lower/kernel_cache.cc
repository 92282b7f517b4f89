// SPDX-License-Identifier: Apache-2.0
// Entries are <directory>/kernels/<key>.o, 48 bytes of header and then the object:
//   char[8] "TRDLKRNL", u32 1, u32 0, char[16] first half of the key, u64 size of the object, u64 its XXH64.
// Their time of modification is the time of their last use. <directory>/limit holds the limit in bytes, as text.
#include "driver/lower/kernel_cache.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

#include "runtime/hash64.h"
#include "treadle/ir/serialization.h"
#include "treadle/ir/transform.h"
#include "treadle/runtime/byte_stream.h"
#include "treadle/runtime/manifest.h"
#include "treadle/targets/target_spec.h"

namespace treadle::driver {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[] = "TRDLKRNL";
constexpr uint32_t kFormat = 1;
constexpr size_t kKeyInHeader = 16, kHeaderBytes = 48;
constexpr uint64_t kDefaultLimit = uint64_t{512} << 20;
/// Temporary files of processes that died are removed when they are so old.
constexpr auto kStale = std::chrono::hours(1);

std::string Header(const std::string& key, std::string_view object) {
  runtime::ByteWriter writer;
  writer.WriteRaw(kMagic, 8);
  writer.Write<uint32_t>(kFormat);
  writer.Write<uint32_t>(0);
  writer.WriteRaw(key.substr(0, kKeyInHeader).data(), kKeyInHeader);
  writer.Write<uint64_t>(object.size());
  writer.Write<uint64_t>(runtime::Hash64(object));
  return writer.bytes();
}

std::string ReadFile(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

/// Writes a file so that others see it whole or not at all; false where it can't be written.
bool WriteAtomically(const fs::path& path, std::string_view header, std::string_view content) {
  static std::atomic<uint64_t> counter{0};
  const fs::path partial = StrCat(path.string(), ".", getpid(), ".", counter++, ".tmp");
  std::error_code error;
  {
    std::ofstream out(partial, std::ios::binary);
    out.write(header.data(), static_cast<std::streamsize>(header.size()));
    out.write(content.data(), static_cast<std::streamsize>(content.size()));
    if (!out.flush()) {
      fs::remove(partial, error);
      return false;
    }
  }
  fs::rename(partial, path, error);
  if (error) fs::remove(partial, error);
  return !error;
}

struct Entry {
  fs::path path;
  uint64_t bytes;
  fs::file_time_type used;
};

std::vector<Entry> ListEntries(const std::string& directory) {
  std::vector<Entry> entries;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (!it->is_regular_file(ignored)) continue;
    const uint64_t bytes = it->file_size(ignored);
    const auto used = it->last_write_time(ignored);
    if (ignored) continue;  // somebody removed it
    const std::string name = it->path().filename().string();
    if (name.ends_with(".tmp")) {
      if (fs::file_time_type::clock::now() - used > kStale) fs::remove(it->path(), ignored);
    } else if (name.ends_with(".o")) {
      entries.push_back({it->path(), bytes, used});
    }
  }
  return entries;
}

/// Number at the start of an environment variable or file; 0 when there is none.
uint64_t ParseBytes(const std::string& text) { return std::strtoull(text.c_str(), nullptr, 10); }

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
            const char* content = name + (note.n_namesz + 3) / 4 * 4;
            if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
              found->id.assign(content, note.n_descsz);
            }
            p = content + (note.n_descsz + 3) / 4 * 4;
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
    const std::string text = ReadFile(fs::path(directory) / "limit");
    cache = std::make_unique<KernelCache>(directory, text.empty() ? kDefaultLimit : ParseBytes(text));
  }
  return cache.get();
}

std::string KernelCache::PathOf(const std::string& key) const { return directory_ + "/kernels/" + key + ".o"; }

std::optional<std::string> KernelCache::Find(const std::string& key) {
  const fs::path path = PathOf(key);
  std::string bytes = ReadFile(path);
  bool intact = bytes.size() >= kHeaderBytes;
  if (intact) {
    const std::string_view object = std::string_view(bytes).substr(kHeaderBytes);
    intact = Header(key, object) == bytes.substr(0, kHeaderBytes);
  }
  std::error_code error;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ++(intact ? hits_ : misses_);
  }
  if (!intact) {
    if (!bytes.empty()) fs::remove(path, error);
    return std::nullopt;
  }
  fs::last_write_time(path, fs::file_time_type::clock::now(), error);
  bytes.erase(0, kHeaderBytes);
  return bytes;
}

void KernelCache::Store(const std::string& key, std::string_view object) {
  if (object.size() + kHeaderBytes > limit_) return;
  std::error_code error;
  const fs::path path = PathOf(key);
  if (fs::create_directories(path.parent_path(), error)) {
    fs::permissions(path.parent_path(), fs::perms::owner_all, error);
  }
  if (!WriteAtomically(path, Header(key, object), object)) return;
  std::lock_guard<std::mutex> lock(mutex_);
  ++stored_;
}

void KernelCache::Trim() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stored_ == 0) return;
    stored_ = 0;
  }
  std::vector<Entry> entries = ListEntries(directory_ + "/kernels");
  uint64_t total = 0;
  for (const Entry& entry : entries) total += entry.bytes;
  if (total <= limit_) return;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (total <= limit_) break;
    std::error_code error;
    fs::remove(entry.path, error);
    total -= entry.bytes;
  }
}

uint64_t KernelCache::Clear() {
  uint64_t removed = 0;
  for (const Entry& entry : ListEntries(directory_ + "/kernels")) {
    std::error_code error;
    removed += fs::remove(entry.path, error) ? 1 : 0;
  }
  return removed;
}

void KernelCache::SetLimit(uint64_t bytes) {
  std::error_code error;
  fs::create_directories(directory_, error);
  if (!WriteAtomically(fs::path(directory_) / "limit", "", std::to_string(bytes))) {
    throw Error(StrCat("can't write the limit of the kernel cache to ", directory_));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  limit_ = bytes;
  ++stored_;  // the next Trim looks at all entries
}

KernelCache::Stats KernelCache::GetStats() const {
  Stats stats;
  stats.directory = directory_;
  for (const Entry& entry : ListEntries(directory_ + "/kernels")) {
    ++stats.entries;
    stats.bytes += entry.bytes;
  }
  std::lock_guard<std::mutex> lock(mutex_);
  stats.limit = limit_;
  stats.hits = hits_;
  stats.misses = misses_;
  return stats;
}

std::string KernelCacheKey(const std::string& symbol, const relay::Function& source, const Target& target) {
  static const std::string* identity = new std::string(StrCat(runtime::VersionString(), "\n", BuildIdentity()));
  const TargetFeatures features = target->Features();
  const targets::TargetSpec& spec = targets::GetTargetSpec(target);
  const auto context = transform::PassContext::Current();
  std::map<std::string, std::string> config;
  for (const auto& [key, value] : context->config) {
    const auto* number = value.as<IntImmNode>();
    const auto* text = value.as<StringNode>();
    config[key.str()] = number != nullptr ? StrCat(number->value)
                        : text != nullptr ? text->value
                                          : SaveJson(value, true);
  }
  std::string all =
      StrCat(*identity, "\n", target.str(), "\n", spec.cache_key ? spec.cache_key(target) : "", "\n", features.arch,
             " ", features.vector_bits, " ", features.vector_registers, " ", features.l1_bytes, " ", features.l2_bytes,
             " ", features.l3_bytes, " ", features.num_cores, "\n", context->opt_level, "\n", symbol, "\n");
  for (const auto& [key, value] : config) all += StrCat(key, "=", value, "\n");
  all += SaveJson(source, /*skip_ignored=*/true);
  char digits[33];
  std::snprintf(digits, sizeof(digits), "%016llx%016llx", static_cast<unsigned long long>(runtime::Hash64(all)),
                static_cast<unsigned long long>(runtime::Hash64(all, 0x5851F42D4C957F2Du)));
  return digits;
}

}  // namespace treadle::driver
