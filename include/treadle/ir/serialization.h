// SPDX-License-Identifier: Apache-2.0
// Nodes as JSON, through their reflected fields. Sharing is kept; any depth.
#pragma once

#include <string>

#include "treadle/runtime/object.h"

namespace treadle {

/// The graph of objects as JSON: {"root", "nodes", "b64ndarrays", "attrs"}. With `skip_ignored`, fields that don't
/// count for structural equality (spans, inferred types) are left out.
std::string SaveJson(const ObjectRef& root, bool skip_ignored = false);
/// The inverse of SaveJson. Throws ModelFormatError on malformed text, unknown classes and wrong field values.
ObjectRef LoadJson(const std::string& text);

/// Base 64 (RFC 4648).
std::string EncodeBase64(const std::string& bytes);
/// Throws ModelFormatError on characters outside of the alphabet and wrong length; skips white space.
std::string DecodeBase64(const std::string& text);

}  // namespace treadle
