// SPDX-License-Identifier: Apache-2.0
// Relocatable ELF objects that hold data, and libraries whose data is put in after they were linked.
// Source: System V ABI, chapters 4 and 5 (object files, program loading).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace treadle::targets {

/// The section that holds embedded data.
inline constexpr const char* kDataSection = ".treadle_data";

/// A relocatable object that defines `symbol`, of `size` bytes at a multiple of `alignment` (a power of two) in
/// kDataSection, and `symbol`_size (a uint64). The section holds `content`, which may be shorter than `size` where
/// ExtendData follows. `machine`: EM_X86_64 or EM_AARCH64.
std::string MakeDataObject(const std::string& symbol, const std::vector<std::string_view>& content, uint64_t size,
                           uint64_t alignment, uint16_t machine);

/// Replaces the contents of kDataSection, which must end the last segment of a linked `library`, by `content`: returns
/// the pieces of the new library, views of `content` and of `library`, whose tables are corrected. Throws InternalError
/// where the library isn't laid out so.
std::vector<std::string_view> ExtendData(std::string* library, const std::vector<std::string_view>& content);

}  // namespace treadle::targets
