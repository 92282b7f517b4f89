// SPDX-License-Identifier: Apache-2.0
// What the C interface has handed out: a pointer that isn't here, because it is foreign or freed, is refused rather
// than followed.
#pragma once

namespace treadle::runtime {

enum class HandleKind { kModel, kObject, kTensor };

/// Counts one more reference of a caller's to `handle`.
void AddHandle(const void* handle, HandleKind kind);
/// Takes one back; false where the caller has none.
bool DropHandle(const void* handle, HandleKind kind);
bool IsHandle(const void* handle, HandleKind kind);

}  // namespace treadle::runtime
