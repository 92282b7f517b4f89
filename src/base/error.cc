// SPDX-License-Identifier: Apache-2.0
#include "treadle/base/error.h"

#include <cstring>

namespace treadle::detail {

void ThrowInternal(const char* file, int line, const std::string& message) {
  const char* name = std::strrchr(file, '/');
  throw InternalError(StrCat("internal error: ", message, " (", name ? name + 1 : file, ":", line, ")"));
}

}  // namespace treadle::detail
