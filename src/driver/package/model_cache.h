// SPDX-License-Identifier: Apache-2.0
// Whole compiled models in the cache of kernels: what runs a model unchanged the second time needs no compiler.
#pragma once

#include <string>
#include <string_view>

namespace treadle::driver {

/// Stands for all that the library of `model` (a serialised ModelProto without external data) depends on: its bytes,
/// `options` as text, the target and the processor that it resolves to, this build of the compiler. Empty where models
/// aren't kept: there is no cache, or records, or kernels of users have a say.
std::string ModelCacheKey(std::string_view model, const std::string& target, const std::string& options);

/// The path of the library that is kept for `key`, which is loaded from there; empty where there is none.
std::string FindModel(const std::string& key);

/// Keeps the library at `path`, unless it takes more than a quarter of the cache.
void KeepModel(const std::string& key, const std::string& path);

}  // namespace treadle::driver
