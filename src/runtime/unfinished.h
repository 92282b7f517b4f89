// SPDX-License-Identifier: Apache-2.0
// Files and folders that are work in progress: they go away with an error, with a signal, and, where the process was
// killed, with the next process that works in the same place.
#pragma once

#include <string>
#include <string_view>

namespace treadle::runtime {

/// Beginning of the names of such files and folders in $TMPDIR; beside outputs with a dot in front.
inline constexpr const char* kTemporaryPrefix = "treadle-tmp-";

/// A file or folder under a name that nobody else has, locked for as long as this object lives and then removed.
class Unfinished {
 public:
  enum class Kind { kFile, kFolder };
  /// Makes it in `folder`. Throws RuntimeError naming the folder and the system's reason.
  Unfinished(const std::string& folder, Kind kind, const std::string& extension = "");
  ~Unfinished();
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  const std::string& path() const { return path_; }
  /// Open for reading and writing (of a folder: for reading).
  int fd() const { return fd_; }
  /// It has another name now: what becomes of it is no longer this object's business.
  void Release();

 private:
  bool TryMake(const std::string& path);
  void Register();

  Kind kind_;
  std::string path_;
  int fd_ = -1;
  struct Slot* slot_ = nullptr;
};

/// Removes what this process has under construction. For signal handlers: allocates nothing and takes no lock.
void RemoveUnfinished() noexcept;

/// Removes what processes that are gone left in `folder`; looks once per process and folder.
void SweepUnfinished(const std::string& folder);

/// Whether `path` lies below $TMPDIR (or /tmp), where nothing needs to outlast the machine's next start.
bool LiesInTemporary(const std::string& path);

/// A folder of this process below $TMPDIR (or /tmp), for files that compilers, linkers and loaders exchange.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  /// Path of a file in it, which is removed with it.
  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }
  /// Writes a file and returns its path.
  std::string Write(const std::string& name, std::string_view bytes) const;

 private:
  Unfinished folder_;
};

}  // namespace treadle::runtime
