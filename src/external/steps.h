// SPDX-License-Identifier: Apache-2.0
// Reads what RegionWriter wrote (region_json.h); for run-time modules.
#pragma once

#include <string>
#include <vector>
#include "treadle/base/json.h"

#include "treadle/base/error.h"
#include "treadle/runtime/ndarray.h"

namespace treadle::external {

/// A region's steps. Reading checks that every value is there before it is used; what is wrong is a ModelFormatError.
struct Steps {
  struct Value {
    std::vector<int64_t> shape;
    DataType dtype;
  };
  struct Step {
    std::string op;
    std::vector<size_t> in;
    size_t out;
    Json attrs;
  };
  std::vector<Value> values;
  size_t inputs = 0, constants = 0;
  std::vector<Step> steps;
  std::vector<size_t> outputs;

  static Steps FromJson(const std::string& text, const std::string& what) {
    try {
      return Read(Json::parse(text));
    } catch (const Error& error) {
      throw ModelFormatError(StrCat(what, ": ", error.what()));
    }
  }

 private:
  static Steps Read(const Json& json) {
    Steps result;
    for (const auto& value : json.at("values")) {
      result.values.push_back(
          {value.at("shape").get<std::vector<int64_t>>(), DataType::FromString(value.at("dtype").get<std::string>())});
      runtime::TensorBytes(result.values.back().shape, result.values.back().dtype);
    }
    result.inputs = json.at("inputs").get<size_t>();
    result.constants = json.at("constants").get<size_t>();
    std::vector<bool> there(result.values.size(), false);
    auto use = [&](size_t value) {
      if (value >= there.size() || !there[value]) throw ModelFormatError(StrCat("value ", value, " isn't there"));
      return value;
    };
    if (result.inputs > there.size() || result.constants > there.size() - result.inputs) {
      throw ModelFormatError("more inputs and constants than values");
    }
    for (size_t i = 0; i < result.inputs + result.constants; ++i) there[i] = true;
    for (const auto& step : json.at("steps")) {
      Step read{step.at("op").get<std::string>(), {}, step.at("out").get<size_t>(), step};
      for (size_t value : step.at("in").get<std::vector<size_t>>()) read.in.push_back(use(value));
      if (read.out >= there.size() || there[read.out]) throw ModelFormatError("a step's result is there already");
      there[read.out] = true;
      result.steps.push_back(std::move(read));
    }
    for (size_t value : json.at("outputs").get<std::vector<size_t>>()) result.outputs.push_back(use(value));
    return result;
  }
};

}  // namespace treadle::external
