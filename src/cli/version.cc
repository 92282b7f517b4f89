// SPDX-License-Identifier: Apache-2.0
#include "cli/flags.h"
#include "treadle/base/error.h"
#include "treadle/runtime/manifest.h"

namespace treadle::cli {

std::string FullVersion() {
  const std::string commit =
#include "commit.inc"
      ;
  return commit.empty() ? runtime::VersionString() : StrCat(runtime::VersionString(), " (commit ", commit, ")");
}

}  // namespace treadle::cli
