// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/fitted_costs.h"

#include "treadle/base/error.h"
#include "treadle/base/json.h"

namespace treadle::ops::cpu {
namespace {

struct Row {
  const char* name;
  double FittedCosts::* value;
  const char *layers, *meaning;
};

constexpr Row kRows[] = {
#define FITTED_COST(name, value, layers, meaning) {#name, &FittedCosts::name, layers, meaning},
#include "targets/cpu/fitted_costs.inc"
#undef FITTED_COST
};

constexpr FittedCosts kTable;
thread_local const FittedCosts* current = &kTable;

}  // namespace

const FittedCosts& Fitted() { return *current; }

FittedCostsScope::FittedCostsScope(const FittedCosts& costs) : outer_(current) { current = &costs; }
FittedCostsScope::~FittedCostsScope() { current = outer_; }

std::string FittedCostsJson() {
  Json rows = Json::array();
  for (const Row& row : kRows) {
    rows.push_back(
        {{"name", row.name}, {"value", kTable.*row.value}, {"layers", row.layers}, {"meaning", row.meaning}});
  }
  return rows.dump();
}

FittedCosts FittedCostsWith(const std::string& json) {
  const Json values = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!values.is_object()) throw Error(StrCat("fitted costs are a JSON object of numbers, not: ", json.substr(0, 200)));
  FittedCosts costs;
  for (const auto& [name, value] : values.items()) {
    bool known = false;
    for (const Row& row : kRows) {
      if (name != row.name) continue;
      if (!value.is_number()) throw Error(StrCat("fitted cost ", name, " isn't a number: ", value.dump()));
      costs.*row.value = value.get<double>();
      known = true;
    }
    if (!known) throw Error(StrCat("there is no fitted cost '", name, "'"));
  }
  return costs;
}

}  // namespace treadle::ops::cpu
