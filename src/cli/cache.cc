// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <iostream>

#include "cli/commands.h"
#include "cli/json.h"
#include "treadle/base/error.h"

namespace treadle::cli {
namespace {

/// "512MiB", "2GiB", "1000000", "0".
uint64_t ParseSize(const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(end, text.data() + text.size());
  unsigned shift = 64;
  if (unit.empty() || unit == "B") shift = 0;
  if (unit == "K" || unit == "KiB") shift = 10;
  if (unit == "M" || unit == "MiB") shift = 20;
  if (unit == "G" || unit == "GiB") shift = 30;
  if (error != std::errc() || shift == 64 || value > (UINT64_MAX >> 1 >> shift)) {
    throw Error(StrCat("\"", text, "\" isn't a size; examples: 512MiB, 2GiB, 0"));
  }
  return value << shift;
}

struct CacheVerb {
  std::string action = "show", size;
  bool json = false;

  int Run() const {
    if (action == "clear") {
      const uint64_t removed = Compiler().cache_clear();
      if (!json) std::cout << removed << " kernels removed\n";
    } else if (action == "limit") {
      if (size.empty()) throw Error("cache limit: say how much, such as 512MiB");
      Compiler().cache_set_limit(ParseSize(size));
    }
    const CacheStats stats = Compiler().cache_stats();
    if (json) {
      std::cout << Json{{"directory", stats.directory},
                        {"kernels", stats.entries},
                        {"bytes", stats.bytes},
                        {"limit", stats.limit}}
                       .dump()
                << "\n";
    } else if (stats.directory.empty()) {
      std::cout << "the cache is off\n";
    } else {
      std::cout << "directory  " << stats.directory << "\nkernels    " << stats.entries << "\nsize       "
                << stats.bytes / 1024 << " KiB of at most " << stats.limit / 1024 << " KiB\n";
    }
    return 0;
  }
};

}  // namespace

void AddCache(CLI::App* app, Action* action) {
  auto verb = std::make_shared<CacheVerb>();
  Verb sub(app, "cache", "show, clear or limit the cache of compiled kernels", action, [verb] { return verb->Run(); });
  sub.Add("action", &verb->action, "show, clear or limit (show)").OneOf({"show", "clear", "limit"});
  sub.Add("size", &verb->size, "of limit: 512MiB, 2GiB, ..");
  sub.Add("--json", &verb->json, "machine-readable output");
}

}  // namespace treadle::cli
