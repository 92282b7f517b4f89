// SPDX-License-Identifier: Apache-2.0
// Constants of cost models that are fitted to measured times: one table, fitted_costs.inc, which says for each what
// measures it.
#pragma once

#include <string>

namespace treadle::ops::cpu {

struct FittedCosts {
#define FITTED_COST(name, value, layers, meaning) double name = value;
#include "targets/cpu/fitted_costs.inc"
#undef FITTED_COST
};

/// The table, or what stands for it on this thread.
const FittedCosts& Fitted();

/// Puts other costs into the place of the table, on this thread and while it exists: for fitting them.
class FittedCostsScope {
 public:
  explicit FittedCostsScope(const FittedCosts& costs);
  ~FittedCostsScope();
  FittedCostsScope(const FittedCostsScope&) = delete;
  FittedCostsScope& operator=(const FittedCostsScope&) = delete;

 private:
  const FittedCosts* outer_;
};

/// The table as JSON: [{"name", "value", "layers", "meaning"}, ..].
std::string FittedCostsJson();
/// The table with the values that a JSON object of numbers names: {"product_tile": 10}. Throws Error on other names and
/// on what is no number.
FittedCosts FittedCostsWith(const std::string& json);

}  // namespace treadle::ops::cpu
