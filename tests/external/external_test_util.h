// SPDX-License-Identifier: Apache-2.0
// Building, exporting, loading and running small graphs with external code generators.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "treadle/driver/compile.h"
#include "treadle/external/codegen.h"
#include "treadle/relay/text.h"
#include "treadle/runtime/model.h"

namespace treadle::testing {

inline IRModule ParseGraph(std::string text) {
  driver::RegisterAll();
  size_t start = text.find_first_not_of(" \n");
  if (start != std::string::npos && text.compare(start, 2, "fn") == 0) text = "def @main" + text.substr(start + 2);
  return relay::ParseModule("#[version = \"0.0.5\"]\n" + text);
}

inline driver::CompiledModel BuildWith(const IRModule& module, std::vector<std::string> external,
                                       runtime::ParamList params = {}) {
  driver::CompileOptions options;
  options.external = std::move(external);
  options.threads = 1;
  if (const char* target = std::getenv("TREADLE_TEST_TARGET")) options.target = target;
  return driver::Build(module, params, options);
}

/// A path that disappears with the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& suffix)
      : path_((std::filesystem::temp_directory_path() /
               ("treadle-external-" + std::to_string(getpid()) + "-" + std::to_string(counter_++) + suffix))
                  .string()) {}
  ~TemporaryFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  static inline int counter_ = 0;
  std::string path_;
};

inline runtime::Model ExportAndLoad(const driver::CompiledModel& compiled) {
  TemporaryFile file(".so");
  driver::ExportLibrary(compiled, file.path());
  return runtime::Model::Load(file.path());
}

/// What external code generators wrote.
inline std::string ExternalSource(const driver::CompiledModel& model) {
  std::string text;
  for (const runtime::Module& module : model.external_modules) text += module->GetSource("");
  return text;
}

/// Deterministic values between -1 and 1.
inline NDArray Values(const std::vector<int64_t>& shape, int seed) {
  NDArray array = NDArray::Empty(shape, DataType::Float(32));
  for (int64_t i = 0; i < array.size(); ++i) {
    array.Data<float>()[i] = static_cast<float>(((i + 1) * (seed * 7919 + 104729)) % 2003) / 1001.5f - 1.0f;
  }
  return array;
}

inline std::vector<NDArray> RunModel(const runtime::Model& model, int seed = 1) {
  runtime::NamedTensors inputs;
  for (const auto& info : model.inputs()) inputs[info.name] = Values(info.shape, seed++);
  return model.Run(inputs, 1);
}

inline void ExpectClose(const std::vector<NDArray>& actual, const std::vector<NDArray>& expected,
                        float tolerance = 1e-5f) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t k = 0; k < actual.size(); ++k) {
    ASSERT_EQ(actual[k].shape(), expected[k].shape());
    for (int64_t i = 0; i < actual[k].size(); ++i) {
      const float x = actual[k].Data<float>()[i], y = expected[k].Data<float>()[i];
      ASSERT_NEAR(x, y, tolerance * (1 + std::abs(y))) << "result " << k << ", element " << i;
    }
  }
}

/// Builds `text` plain and with `external`, and compares what both compute. Returns the one with.
inline driver::CompiledModel ExpectSameResults(const std::string& text, const std::vector<std::string>& external,
                                               float tolerance = 1e-5f) {
  driver::CompiledModel with = BuildWith(ParseGraph(text), external);
  ExpectClose(RunModel(ExportAndLoad(with)), RunModel(ExportAndLoad(BuildWith(ParseGraph(text), {}))), tolerance);
  return with;
}

}  // namespace treadle::testing
