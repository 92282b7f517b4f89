// SPDX-License-Identifier: Apache-2.0
// Archives of files in the ustar format (POSIX.1-1988).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace treadle::driver {

struct TarMember {
  std::string name;  ///< at most 100 bytes
  std::string bytes;
};

/// The archive; equal members make equal bytes.
std::string MakeTar(const std::vector<TarMember>& members);
/// The regular files of an archive. Throws ModelFormatError; `what` is named in errors. Names are not to be trusted.
std::vector<TarMember> ReadTar(std::string_view bytes, const std::string& what);

}  // namespace treadle::driver
