// SPDX-License-Identifier: Apache-2.0
// Memory that is mapped from files and only read, whose pages can be given back while it is in use.
#pragma once

#include <cstddef>
#include <memory>

namespace treadle::runtime {

/// Maps `bytes` bytes of the file behind `fd` for reading; the last owner unmaps them. Null, with errno, where the
/// system refuses.
std::shared_ptr<const void> MapReadOnly(int fd, size_t bytes);

/// Drops the whole pages of [data, data + bytes) that a mapping of MapReadOnly holds: they are read from the file again
/// when somebody looks. Does nothing for other memory, nor for less than a MiB. Models of weights larger than the
/// memory are read through such pages, one weight after another.
void ReleasePages(const void* data, size_t bytes);

}  // namespace treadle::runtime
