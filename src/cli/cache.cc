// SPDX-License-Identifier: Apache-2.0
#include <iostream>

#include "cli/commands.h"
#include "cli/options.h"
#include "treadle/base/error.h"
#include "treadle/base/json.h"

namespace treadle::cli {
namespace {

struct CacheVerb {
  std::string action = "show", size;
  bool json = false;

  int Run() const {
    if (!size.empty() && action != "limit") throw Error(StrCat("cache ", action, " takes no '", size, "'"));
    if (action == "clear") {
      const uint64_t removed = Compiler().cache_clear();
      if (!json) std::cout << removed << " kernels and models removed\n";
    } else if (action == "limit") {
      if (size.empty()) throw Error("cache limit: say how much, such as 512MiB");
      constexpr uint64_t kLeast = 1 << 20;
      const uint64_t bytes = ParseSize("cache limit", size);
      if (bytes > 0 && bytes < kLeast) {
        throw Error(
            StrCat("cache limit: ", bytes, " bytes hold no kernel; expected 1MiB or more, such as 512MiB, or 0"));
      }
      Compiler().cache_set_limit(bytes);
    }
    const CacheStats stats = Compiler().cache_stats();
    if (json) {
      std::cout << Json{{"directory", stats.directory}, {"kernels", stats.kernels}, {"models", stats.models},
                        {"bytes", stats.bytes},         {"limit", stats.limit},     {"problem", stats.problem}}
                       .dump()
                << "\n";
    } else if (stats.directory.empty()) {
      std::cout << "the cache is off\n";
    } else {
      if (!stats.problem.empty()) std::cout << "not used   " << stats.problem << "\n";
      std::cout << "directory  " << stats.directory << "\nkernels    " << stats.kernels << "\nmodels     "
                << stats.models << "\nsize       " << SizeText(stats.bytes) << " of at most " << SizeText(stats.limit)
                << "\n";
    }
    return 0;
  }
};

}  // namespace

void AddCache(CLI::App* app, Action* action) {
  auto verb = std::make_shared<CacheVerb>();
  Verb sub(app, "cache", "show, clear or limit the kernel cache", action, [verb] { return verb->Run(); });
  sub.Add("action", &verb->action, "show, clear or limit (default: show)").OneOf({"show", "clear", "limit"});
  sub.Add("size", &verb->size, "for limit: the new limit, such as 512MiB or 2GiB");
  sub.Add("--json", &verb->json, "machine-readable output");
}

}  // namespace treadle::cli
