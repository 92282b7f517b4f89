// SPDX-License-Identifier: Apache-2.0
#include "cli/layers.h"

#include "cli/session.h"
#include "treadle/base/error.h"

namespace treadle::cli {

std::vector<LayerComparison> CompareOutputs(const NamedTensors& actual, const NamedTensors& expected,
                                            const Tolerance& tolerance) {
  std::vector<LayerComparison> comparisons;
  for (const auto& [name, value] : actual) {
    const NDArray* found = nullptr;
    for (const auto& [other, tensor] : expected) {
      if (other == name || (other.empty() && actual.size() == 1)) found = &tensor;
    }
    if (found == nullptr) {
      std::string names;
      for (const auto& [other, tensor] : expected) names += StrCat(names.empty() ? "" : ", ", other);
      if (names.empty()) names = "none";
      throw Error(StrCat("the reference has no value for output '", name, "'; it has: ", names));
    }
    comparisons.push_back({name, Compare(value, *found, tolerance)});
  }
  return comparisons;
}

std::vector<LayerComparison> CompareLayers(const CompileRequest& request, const NamedTensors& inputs,
                                           const Tolerance& tolerance, int threads) {
  if (!IsOnnx(request.model)) throw Error(StrCat(request.model, ": comparing layers needs the .onnx file"));
  // The copy has another name for each value's storage but the same inputs.
  const runtime::TemporaryDirectory folder;
  const std::string exposed = folder.Path("exposed.onnx");
  const NamedTensors expected = RunOnnxRuntime(request.model, inputs, true, exposed);
  CompileRequest changed = request;
  changed.model = exposed;
  const runtime::Model model = LoadOrCompile(changed);
  return CompareOutputs(NameOutputs(model, model.Run({inputs.begin(), inputs.end()}, threads)), expected, tolerance);
}

}  // namespace treadle::cli
