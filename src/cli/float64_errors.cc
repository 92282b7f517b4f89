// SPDX-License-Identifier: Apache-2.0
#include "cli/float64_errors.h"

#include <iostream>

#include "cli/color.h"
#include "cli/compare.h"
#include "cli/session.h"
#include "treadle/base/error.h"

namespace treadle::cli {
namespace {

const NDArray& Find(const NamedTensors& tensors, const std::string& name) {
  for (const auto& [other, tensor] : tensors) {
    if (other == name) return tensor;
  }
  throw Error(StrCat("there is no value for output '", name, "' to compare with"));
}

/// Nothing where ONNX Runtime can't run the model; why is on stderr.
std::optional<NamedTensors> OfOnnxRuntime(const std::string& model, const NamedTensors& inputs) {
  try {
    return RunOnnxRuntime(model, inputs);
  } catch (const RuntimeError& e) {
    std::cerr << PaintedMessage(StrCat("note: without ONNX Runtime: ", e.what(), "\n"));
    return std::nullopt;
  }
}

}  // namespace

std::vector<Float64Error> Float64Errors(const CompileRequest& request, const NamedTensors& inputs,
                                        const NamedTensors& actual) {
  if (!IsOnnx(request.model)) throw Error(StrCat(request.model, ": --float64 needs the .onnx file"));
  CompileRequest wide = request;
  wide.pass_config["relay.WidenFloats"] = "true";
  wide.pass_config.erase("relay.precision");
  const runtime::Model model = LoadOrCompile(wide);
  const NamedTensors exact = NameOutputs(model, model.Run({inputs.begin(), inputs.end()}));
  const std::optional<NamedTensors> peer = OfOnnxRuntime(request.model, inputs);
  std::vector<Float64Error> errors;
  for (const auto& [name, value] : actual) {
    if (!value.dtype().is_floating()) continue;
    const NDArray& expected = Find(exact, name);
    Float64Error& error = errors.emplace_back();
    error.output = name;
    error.treadle = ErrorOverRange(value, expected);
    if (peer) error.onnxruntime = ErrorOverRange(Find(*peer, name), expected);
  }
  return errors;
}

}  // namespace treadle::cli
