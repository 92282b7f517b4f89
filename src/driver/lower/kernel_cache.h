// SPDX-License-Identifier: Apache-2.0
// Compiled kernels on disk, found by what they were made from: function, target and compiler.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "driver/lower/private_folder.h"
#include "treadle/ir/target.h"
#include "treadle/relay/expr.h"

namespace treadle::driver {

/// A directory of files, one per kernel and two per model. Any number of processes may use it at once: entries are
/// written under another name and renamed, are authenticated with a key that only this user can read, and one that is
/// damaged or forged counts as absent and is removed. When the entries take more than the limit, those used least
/// recently are removed. A directory that can't be written, or that isn't the user's own (PrivateFolder), is no error:
/// nothing is kept then.
class KernelCache {
 public:
  struct Stats {
    std::string directory;
    uint64_t kernels = 0, models = 0, bytes = 0, limit = 0;
    uint64_t hits = 0, misses = 0;  ///< of this process
    std::string problem;            ///< why the directory can't be used; empty where it can, or isn't there yet
  };

  KernelCache(std::string directory, uint64_t limit_bytes);
  /// The cache of this process, or null where the environment variable TREADLE_CACHE is "0" or no directory can be
  /// had. It lies in $TREADLE_CACHE_DIR, else $XDG_CACHE_HOME/treadle, else $HOME/.cache/treadle.
  static KernelCache* Default();

  /// The object stored for a key (of KernelCacheKey).
  std::optional<std::string> Find(const std::string& key);
  void Store(const std::string& key, std::string_view object);
  /// The path of a file that StoreFile made, a compiled model; "" where there is none, or other contents.
  std::string FindFile(const std::string& key);
  void StoreFile(const std::string& key, std::string_view contents);
  /// A note on this machine, kept beside the kernels under a key of 32 hexadecimal digits; Clear and Trim leave it.
  /// Empty where there is none.
  std::string ReadNote(const std::string& key) const;
  /// Throws Error where it can't be written.
  void WriteNote(const std::string& key, const std::string& text);
  bool RemoveNote(const std::string& key);
  /// Removes entries until the rest is within the limit.
  void Trim();
  /// Removes all kernels and models; returns their number. Throws Error where the directory isn't Treadle's.
  uint64_t Clear();
  /// Changes the limit, for all processes from now on. Throws Error where that can't be written.
  void SetLimit(uint64_t bytes);
  Stats GetStats() const;
  uint64_t limit() const { return limit_; }

 private:
  std::optional<PrivateFolder> Folder(bool make, std::string* why) const;
  void Count(bool hit);

  std::string directory_;
  std::atomic<uint64_t> limit_;
  mutable std::mutex mutex_;
  uint64_t hits_ = 0, misses_ = 0, stored_ = 0;
};

/// What machine code depends on besides its program and options: the target and the processor that it resolves to, and
/// this very build of the compiler.
std::string MachineIdentity(const Target& target);

/// 32 hexadecimal digits that stand for all that the machine code depends on: the function, the symbol, the target and
/// the processor it resolves to, the options of the pass context, and this very build of the compiler. Of recorded
/// plans (option schedule.plans) those for the function's own problems count, in `plans`: others are free to change.
std::string KernelCacheKey(const std::string& symbol, const relay::Function& source, const Target& target,
                           const std::string& plans);

}  // namespace treadle::driver
