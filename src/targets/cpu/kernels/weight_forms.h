// SPDX-License-Identifier: Apache-2.0
// Constant weights in the forms (padded, transformed) that kernels create while a graph is planned. Calls with the same
// weight (detector heads at each level of a pyramid) and plans that are compared share them: each form is created once,
// and is one constant of the graph.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "treadle/relay/expr.h"

namespace treadle::ops::cpu {

/// While one exists, what is made on this thread is kept; without one each call makes its own. One that is constructed
/// while another exists shares what that keeps.
class WeightForms {
 public:
  WeightForms();
  ~WeightForms();
  WeightForms(const WeightForms&) = delete;
  WeightForms& operator=(const WeightForms&) = delete;

  /// The constant that `make` gives for the weight; `form` names what it makes.
  static relay::Constant Get(const runtime::NDArray& weight, const std::string& form,
                             const std::function<runtime::NDArray()>& make);
  /// The same of numbers that are found from the weight.
  static std::vector<double> Measure(const runtime::NDArray& weight, const std::string& what,
                                     const std::function<std::vector<double>()>& find);

  /// The same of anything else.
  template <typename T>
  static std::shared_ptr<const T> Keep(const runtime::NDArray& weight, const std::string& what,
                                       const std::function<std::shared_ptr<const T>()>& make) {
    return std::static_pointer_cast<const T>(
        KeepAny(weight, what, [&]() -> std::shared_ptr<const void> { return make(); }));
  }

 private:
  static std::shared_ptr<const void> KeepAny(const runtime::NDArray& weight, const std::string& what,
                                             const std::function<std::shared_ptr<const void>()>& make);

  using Key = std::pair<const void*, std::string>;
  std::map<const void*, runtime::NDArray> weights_;  ///< those that keys name, alive
  std::map<Key, relay::Constant> forms_;
  std::map<Key, std::vector<double>> numbers_;
  std::map<Key, std::shared_ptr<const void>> others_;
};

}  // namespace treadle::ops::cpu
