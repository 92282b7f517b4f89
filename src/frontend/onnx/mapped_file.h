// SPDX-License-Identifier: Apache-2.0
// Files mapped into memory, and the containment of a model's external data in the model's directory.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace treadle::onnx {

/// Bytes and what keeps them alive.
struct MappedBytes {
  std::string_view bytes;
  std::shared_ptr<const void> owner;
};

/// Maps a regular file for reading. Throws Error when it can't be opened, ModelFormatError when it isn't a regular
/// file or has more than `max_bytes` bytes (0: no limit).
MappedBytes MapFile(const std::string& path, int64_t max_bytes = 0);

/// The files that hold a model's external data. Each is opened once, checked after opening, and mapped.
///
/// A location is a path relative to the model's directory. What it leads to (through "..", through symbolic links) has
/// to be a regular file inside the model's directory, or inside the directory of the file that the model's path is a
/// link to (so do caches of downloaded models keep theirs). The check is made on the opened file, so that nothing can
/// be exchanged between check and use. A file with several hard links is refused: it may be somebody else's.
class ExternalFiles {
 public:
  /// `model_path` may be empty when there is no file; `base_dir` is the directory of the data.
  ExternalFiles(std::string model_path, std::string base_dir)
      : model_path_(std::move(model_path)), base_dir_(std::move(base_dir)) {}

  /// The bytes of the whole file. Throws ModelFormatError; `where` begins the message.
  const MappedBytes& Open(const std::string& location, const std::string& where);

 private:
  std::string model_path_;
  std::string base_dir_;
  std::map<std::string, MappedBytes> files_;
};

}  // namespace treadle::onnx
