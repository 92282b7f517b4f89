// SPDX-License-Identifier: Apache-2.0
#include "driver/lower/private_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <llvm-c/blake3.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "treadle/base/error.h"

namespace treadle::driver {
namespace {

using runtime::FileDescriptor;

constexpr const char* kKey = "key";
/// The first line is that of the Cache Directory Tagging Specification, by which backups know what to leave out.
constexpr std::string_view kTagText =
    "Signature: 8a477f597d28d172789f06886806bc55\n# Kernels that Treadle compiled. It may be deleted at any time.\n";
constexpr size_t kEntryDigits = 32;

constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

bool OwnedByUser(const struct stat& info) { return info.st_uid == geteuid(); }

llvm_blake3_hasher Begin(const std::array<uint8_t, 32>& key, const std::vector<std::string_view>& parts) {
  llvm_blake3_hasher hasher;
  llvm_blake3_hasher_init_keyed(&hasher, key.data());
  for (std::string_view part : parts) {
    const uint64_t size = part.size();  // so that no two lists of parts are one text
    llvm_blake3_hasher_update(&hasher, &size, sizeof(size));
    llvm_blake3_hasher_update(&hasher, part.data(), part.size());
  }
  return hasher;
}

/// A descriptor of a regular file of the user's own for reading, and its size; -1 where there is none.
int OpenOwn(int folder, const std::string& name, uint64_t* size) {
  const int file = openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  struct stat info{};
  if (file < 0) return -1;
  if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode) || !OwnedByUser(info)) {
    close(file);
    return -1;
  }
  *size = static_cast<uint64_t>(info.st_size);
  return file;
}

bool ReadAll(int file, char* bytes, size_t size) {
  for (size_t have = 0; have < size;) {
    const ssize_t got = read(file, bytes + have, size - have);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    have += static_cast<size_t>(got);
  }
  return true;
}

/// Names that this program gives files here, finished or not.
bool IsOwnName(std::string_view name) {
  if (name == PrivateFolder::kTag || name == kKey || name == "limit") return true;
  return IsHexName(name.substr(0, std::min(name.size(), kEntryDigits)), kEntryDigits, "") &&
         (name.ends_with(".o") || name.ends_with(".tmp") || name.ends_with(PrivateFolder::kNote));
}

}  // namespace

bool IsHexName(std::string_view name, size_t digits, std::string_view ending) {
  return name.size() == digits + ending.size() && name.ends_with(ending) &&
         name.find_first_not_of("0123456789abcdef") >= digits;
}

std::optional<PrivateFolder> PrivateFolder::Open(const std::string& path, bool make, std::string* why) {
  std::string ignored;
  if (why == nullptr) why = &ignored;
  why->clear();
  if (make && mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    *why = StrCat("can't make ", path, ": ", std::strerror(errno));
    return std::nullopt;
  }
  PrivateFolder folder;
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) {
    if (errno != ENOENT) *why = StrCat("can't open ", path, " as a folder: ", std::strerror(errno));
    return std::nullopt;
  }
  folder.folder_ = std::make_unique<FileDescriptor>(fd);
  if (folder.Check(why)) return folder;
  *why = StrCat(path, ": ", *why);
  return std::nullopt;
}

bool PrivateFolder::Check(std::string* why) {
  struct stat info{};
  const int fd = folder_->get();
  if (fstat(fd, &info) != 0 || !OwnedByUser(info)) return *why = "it belongs to another user", false;
  if ((info.st_mode & 0022) != 0) return *why = "others may write to it (make it of mode 0700)", false;
  if ((info.st_mode & 0077) != 0 && fchmod(fd, 0700) != 0) return *why = "others may read it", false;
  if (Read(kTag) != kTagText && !Adopt(why)) return false;
  return ReadKey(why);
}

/// Makes an empty folder Treadle's, or one that earlier versions filled.
bool PrivateFolder::Adopt(std::string* why) {
  const std::vector<Entry> entries = List();
  for (const Entry& entry : entries) {
    if (IsOwnName(entry.name)) continue;
    return *why = StrCat("there are files that aren't Treadle's, such as ", entry.name), false;
  }
  for (const Entry& entry : entries) {
    if (entry.name.ends_with(".o")) Remove(entry.name);
  }
  if (!Write(kTag, kTagText)) return *why = StrCat("it can't be written: ", std::strerror(errno)), false;
  return true;
}

bool PrivateFolder::ReadKey(std::string* why) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    FileDescriptor file(openat(folder_->get(), kKey, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    struct stat info{};
    if (file.get() >= 0 && fstat(file.get(), &info) == 0) {
      const bool own = S_ISREG(info.st_mode) && OwnedByUser(info) && (info.st_mode & 0077) == 0;
      if (own && read(file.get(), key_.data(), key_.size()) == static_cast<ssize_t>(key_.size())) return true;
      Remove(kKey);  // no key of ours: one that others know, or half of one
    }
    if (!MakeKey()) break;
  }
  return *why = StrCat("its key can't be written: ", std::strerror(errno)), false;
}

/// Whoever comes first makes it: linked under its name when it is whole, never replaced.
bool PrivateFolder::MakeKey() const {
  std::array<uint8_t, 32> key{};
  if (getrandom(key.data(), key.size(), 0) != static_cast<ssize_t>(key.size())) return false;
  static std::atomic<uint64_t> counter{0};
  const std::string name = StrCat(std::string(kEntryDigits, '0'), ".key.", getpid(), ".", counter++, ".tmp");
  const int fd = folder_->get();
  FileDescriptor file(openat(fd, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  bool good = file.get() >= 0 && runtime::WriteAll(file.get(), {reinterpret_cast<const char*>(key.data()), key.size()});
  good = good && (linkat(fd, name.c_str(), fd, kKey, 0) == 0 || errno == EEXIST);
  const int reason = errno;
  if (file.get() >= 0) Remove(name);
  errno = reason;
  return good;
}

PrivateFolder::Code PrivateFolder::Authenticate(const std::vector<std::string_view>& parts) const {
  llvm_blake3_hasher hasher = Begin(key_, parts);
  Code code{};
  llvm_blake3_hasher_finalize(&hasher, code.data(), code.size());
  return code;
}

std::optional<PrivateFolder::Code> PrivateFolder::AuthenticateFile(const std::vector<std::string_view>& parts,
                                                                   const std::string& name) const {
  uint64_t size = 0;
  const FileDescriptor file(OpenOwn(folder_->get(), name, &size));
  if (file.get() < 0) return std::nullopt;
  llvm_blake3_hasher hasher = Begin(key_, parts);
  llvm_blake3_hasher_update(&hasher, &size, sizeof(size));
  std::vector<char> piece(std::min(size, kPieceBytes));
  for (uint64_t have = 0; have < size;) {
    const size_t wanted = std::min<uint64_t>(piece.size(), size - have);
    if (!ReadAll(file.get(), piece.data(), wanted)) return std::nullopt;
    llvm_blake3_hasher_update(&hasher, piece.data(), wanted);
    have += wanted;
  }
  Code code{};
  llvm_blake3_hasher_finalize(&hasher, code.data(), code.size());
  return code;
}

std::string PrivateFolder::Read(const std::string& name) const {
  uint64_t size = 0;
  const FileDescriptor file(OpenOwn(folder_->get(), name, &size));
  if (file.get() < 0) return "";
  std::string bytes(size, 0);
  return ReadAll(file.get(), bytes.data(), size) ? bytes : "";
}

bool PrivateFolder::Write(const std::string& name, std::string_view bytes) const {
  static std::atomic<uint64_t> counter{0};
  const std::string stem = IsHexName(name.substr(0, std::min(name.size(), kEntryDigits)), kEntryDigits, "")
                               ? name.substr(0, kEntryDigits)
                               : std::string(kEntryDigits, '0');
  const std::string partial = StrCat(stem, ".", getpid(), ".", counter++, ".tmp");
  const int fd = folder_->get();
  FileDescriptor file(openat(fd, partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.get() < 0) return false;
  if (runtime::WriteAll(file.get(), bytes) && file.Close() && renameat(fd, partial.c_str(), fd, name.c_str()) == 0) {
    return true;
  }
  const int reason = errno;
  Remove(partial);
  errno = reason;
  return false;
}

bool PrivateFolder::Remove(const std::string& name) const { return unlinkat(folder_->get(), name.c_str(), 0) == 0; }

void PrivateFolder::Touch(const std::string& name) const {
  utimensat(folder_->get(), name.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

std::vector<PrivateFolder::Entry> PrivateFolder::List() const {
  std::vector<Entry> entries;
  const int again = openat(folder_->get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* stream = again < 0 ? nullptr : fdopendir(again);
  if (stream == nullptr) {
    if (again >= 0) close(again);
    return entries;
  }
  while (const dirent* found = readdir(stream)) {
    struct stat info{};
    if (std::strcmp(found->d_name, ".") == 0 || std::strcmp(found->d_name, "..") == 0) continue;
    if (fstatat(folder_->get(), found->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;  // somebody removed it
    const int64_t used = int64_t{info.st_mtim.tv_sec} * 1000000000 + info.st_mtim.tv_nsec;
    entries.push_back({found->d_name, static_cast<uint64_t>(info.st_size), used});
  }
  closedir(stream);
  return entries;
}

}  // namespace treadle::driver
