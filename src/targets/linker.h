// SPDX-License-Identifier: Apache-2.0
// Makes shared libraries out of objects, with LLVM's linker inside this process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/file_io.h"
#include "treadle/targets/target_spec.h"

namespace treadle::targets {

/// Bytes that the library carries, read-only, mapped with it: `symbol` is the address of the first one and
/// `symbol`_size (a uint64) their number.
struct EmbeddedData {
  std::string symbol;
  std::vector<std::string_view> pieces;  ///< concatenated; the caller keeps the memory
  uint64_t alignment = 64;
};

/// Name of the symbol that the runtime's loader looks for.
inline constexpr const char* kBlobSymbol = "__treadle_blob";

/// Bytes of a relocatable ELF object that defines `data` and nothing else. `triple` says for which machine; "": this.
std::string MakeDataObject(const EmbeddedData& data, const std::string& triple);

/// Links relocatable objects (their bytes) and embedded data (nothing, or one) into a shared library, which the caller
/// commits. The data is the last segment, so that code and its constants stay near each other, and isn't copied: it may
/// have any size. An undefined symbol is an Error that names it, unless it is one of a library that this process has
/// loaded for everybody: then whoever loads the result has to load that before. A full disk is a RuntimeError. Safe to
/// call from several threads.
void LinkSharedLibrary(const std::vector<std::string>& objects, const std::optional<EmbeddedData>& data,
                       runtime::OutputFile* output, const LinkOptions& options);

}  // namespace treadle::targets
