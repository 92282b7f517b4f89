// SPDX-License-Identifier: Apache-2.0
#include "driver/graph/origin.h"

#include <set>

#include "treadle/relay/expr_functor.h"

namespace treadle::driver {

std::string OriginOf(const relay::Function& function) {
  std::string names;
  std::set<std::string> known;
  relay::PostOrderVisit(function->body, [&](const relay::Expr& e) {
    if (!e.as<relay::CallNode>() || !e->span.defined() || e->span->line != 0) return;
    if (known.insert(e->span->source_name).second) names += (names.empty() ? "" : ", ") + e->span->source_name;
  });
  return names;
}

}  // namespace treadle::driver
