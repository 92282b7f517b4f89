// SPDX-License-Identifier: Apache-2.0
#include "driver/graph/origin.h"

#include <set>

#include "treadle/ir/model_span.h"
#include "treadle/relay/expr_functor.h"

namespace treadle::driver {

namespace {

std::string JoinPlaces(const relay::Function& function, std::string (*text)(const Span&)) {
  std::string names;
  std::set<std::string> known;
  relay::PostOrderVisit(function->body, [&](const relay::Expr& e) {
    if (!e.as<relay::CallNode>() || !e->span.defined() || e->span->line != 0) return;
    if (known.insert(e->span->source_name).second) names += (names.empty() ? "" : ", ") + text(e->span);
  });
  return names;
}

}  // namespace

std::string OriginOf(const relay::Function& function) {
  return JoinPlaces(function, [](const Span& span) { return span->source_name; });
}

std::string DescribeOrigin(const relay::Function& function) { return JoinPlaces(function, DescribePlace); }

}  // namespace treadle::driver
