// SPDX-License-Identifier: Apache-2.0
#include "driver/package/model_cache.h"

#include <llvm/ADT/StringExtras.h>
#include <llvm/Support/BLAKE3.h>

#include <cstdlib>

#include "driver/lower/compile_engine.h"
#include "driver/lower/kernel_cache.h"
#include "runtime/file_io.h"
#include "treadle/ir/target.h"
#include "treadle/runtime/registry.h"
#include "treadle/schedule/kernel.h"
#include "treadle/schedule/records.h"

namespace treadle::driver {
namespace {

/// Of all entries: a large model must not drive out the kernels of others.
constexpr uint64_t kLargestShare = 4;

}  // namespace

std::string ModelCacheKey(std::string_view model, const std::string& target, const std::string& options) {
  if (KernelCache::Default() == nullptr || std::getenv(schedule::kRecordsVariable) != nullptr) return "";
  if (runtime::Registry::Get(kLowerHook) || schedule::HasAddedKernels()) return "";
  const std::string machine = MachineIdentity(Target(target));
  llvm::BLAKE3 hasher;
  for (std::string_view part :
       {std::string_view("model"), std::string_view(machine), std::string_view(options), model}) {
    const uint64_t length = part.size();
    hasher.update(llvm::ArrayRef(reinterpret_cast<const uint8_t*>(&length), sizeof(length)));
    hasher.update(llvm::StringRef(part.data(), part.size()));
  }
  return llvm::toHex(hasher.final<16>(), /*LowerCase=*/true);
}

std::string FindModel(const std::string& key) {
  KernelCache* cache = KernelCache::Default();
  return cache == nullptr || key.empty() ? "" : cache->FindFile(key);
}

void KeepModel(const std::string& key, const std::string& path) {
  KernelCache* cache = KernelCache::Default();
  if (cache == nullptr || key.empty()) return;
  const std::string library = runtime::ReadFile(path);
  if (library.size() > cache->limit() / kLargestShare) return;
  cache->StoreFile(key, library);
  cache->Trim();
}

}  // namespace treadle::driver
