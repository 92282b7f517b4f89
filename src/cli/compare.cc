// SPDX-License-Identifier: Apache-2.0
#include "cli/compare.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>

#include "cli/session.h"
#include "treadle/base/error.h"
#include "treadle/runtime/scalar.h"

namespace treadle::cli {
namespace {

/// "(0, 3, 1)" for a flat index.
std::string IndexString(int64_t flat, const std::vector<int64_t>& shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    index[d] = flat % shape[d];
    flat /= shape[d];
  }
  return runtime::ShapeString(index);
}

double RangeOf(const std::vector<double>& values) {
  double low = std::numeric_limits<double>::infinity(), high = -low, largest = 0;
  for (double value : values) {
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
    largest = std::max(largest, std::abs(value));
  }
  // Equal values have no range: rounding is relative to their size then.
  return high > low ? high - low : largest;
}

// Arguments: model, inputs.npz, outputs.npz, and for all values the file of the exposed model.
constexpr const char* kReferenceScript = R"py(
import os, sys
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
try:
    import numpy as np, onnxruntime
except ImportError as error:
    sys.exit(f"note: the Python {sys.executable or 'python3'} can't run the reference: {error}")
path, inputs_file, outputs_file, exposed = sys.argv[1:5]
source = path
if exposed:
    import onnx
    model = onnx.load(path)
    try:
        inferred = onnx.shape_inference.infer_shapes(model).graph
        types = {v.name: v for v in (*inferred.value_info, *inferred.output)}
    except Exception:
        types = {}
    wanted = [name for node in model.graph.node for name in node.output if name and name in types
              and types[name].type.tensor_type.elem_type in (1, 10, 11)]
    del model.graph.output[:]
    for name in wanted:
        value = onnx.ValueInfoProto(name=name)
        value.type.tensor_type.elem_type = types[name].type.tensor_type.elem_type
        model.graph.output.append(value)
    onnx.save(model, exposed)
    source = exposed
options = onnxruntime.SessionOptions()
options.log_severity_level = 3
try:
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    values = session.run(names, dict(np.load(inputs_file)))
except Exception as error:
    sys.exit("note: ONNX Runtime fails: " + str(error).splitlines()[0])
np.savez(outputs_file, **{str(i): value for i, value in enumerate(values)})
with open(outputs_file + ".names", "w") as file:
    file.write("\n".join(names))
)py";

}  // namespace

Difference Compare(const NDArray& actual, const NDArray& expected, const Tolerance& tolerance) {
  Difference result;
  if (actual.shape() != expected.shape()) {
    result.explanation = StrCat("its shape is ", runtime::ShapeString(actual.shape()), " instead of ",
                                runtime::ShapeString(expected.shape()));
    return result;
  }
  if (actual.dtype() != expected.dtype()) {
    result.explanation = StrCat("its type is ", actual.dtype(), " instead of ", expected.dtype());
    return result;
  }
  const std::vector<double> a = runtime::ToDoubles(actual), e = runtime::ToDoubles(expected);
  const double atol = tolerance.atol.value_or(1e-5 * RangeOf(e));
  size_t wrong = 0, worst = 0;
  double worst_excess = -1, signal = 0, noise = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == e[i] || (std::isnan(a[i]) && std::isnan(e[i]))) continue;
    double difference = std::abs(a[i] - e[i]);
    if (std::isnan(difference)) difference = std::numeric_limits<double>::infinity();
    result.largest = std::max(result.largest, difference);
    noise += difference * difference;
    const double excess = difference - (atol + tolerance.rtol * std::abs(e[i]));
    if (excess <= 0) continue;
    ++wrong;
    if (excess > worst_excess) {
      worst_excess = excess;
      worst = i;
    }
  }
  for (double value : e) signal += std::isfinite(value) ? value * value : 0;
  result.snr = noise == 0 ? std::numeric_limits<double>::infinity() : 10 * std::log10(signal / noise);
  if (tolerance.snr) {
    result.agrees = result.snr >= *tolerance.snr;
    if (!result.agrees) {
      result.explanation = StrCat("its signal-to-noise ratio is ", result.snr, " dB, less than ", *tolerance.snr);
    }
    return result;
  }
  result.agrees = wrong == 0;
  if (!result.agrees) {
    result.explanation =
        StrCat(wrong, " of ", a.size(), " values differ, the worst at ",
               IndexString(static_cast<int64_t>(worst), actual.shape()), ": ", a[worst], " instead of ", e[worst]);
  }
  return result;
}

double ErrorOverRange(const NDArray& actual, const NDArray& expected) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (actual.shape() != expected.shape()) return kInfinity;
  const std::vector<double> a = runtime::ToDoubles(actual), e = runtime::ToDoubles(expected);
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == e[i] || (std::isnan(a[i]) && std::isnan(e[i]))) continue;
    const double difference = std::abs(a[i] - e[i]);
    largest = std::max(largest, std::isnan(difference) ? kInfinity : difference);
  }
  const double range = RangeOf(e);
  return range > 0 ? largest / range : largest;
}

std::string PythonProgram() {
  const char* chosen = std::getenv("TREADLE_PYTHON");
  return chosen != nullptr && *chosen != '\0' ? chosen : "python3";
}

NamedTensors RunOnnxRuntime(const std::string& model, const NamedTensors& inputs, bool all_values,
                            const std::string& exposed_model) {
  runtime::TemporaryDirectory folder;
  const std::string inputs_file = folder.Path("inputs.npz"), outputs_file = folder.Path("outputs.npz");
  WriteTensors(inputs_file, inputs);
  const int status = RunPython(kReferenceScript, {model, inputs_file, outputs_file, all_values ? exposed_model : ""});
  if (status == 127) {
    throw RuntimeError(StrCat("can't start ", PythonProgram(), ", which runs ONNX Runtime; set TREADLE_PYTHON"));
  }
  if (status != 0) {
    throw RuntimeError(
        StrCat("the reference onnxruntime couldn't run the model",
               "\nhelp: the reason is printed above; install onnxruntime with pip, set TREADLE_PYTHON to a "
               "Python that has it, or use Treadle's interpreter with --reference interp"));
  }
  if (!std::filesystem::exists(outputs_file + ".names")) {
    throw RuntimeError(StrCat(PythonProgram(), " isn't a Python: it ended without the reference's outputs",
                              "\nhelp: TREADLE_PYTHON names a Python that has onnxruntime"));
  }
  NamedTensors outputs = ReadTensors(outputs_file);
  // Names stand beside: those in an archive can't hold every character.
  const std::string names = ReadWholeFile(outputs_file + ".names");
  size_t begin = 0;
  for (auto& [name, tensor] : outputs) {
    const size_t end = std::min(names.find('\n', begin), names.size());
    name = names.substr(begin, end - begin);
    begin = end + 1;
  }
  return outputs;
}

}  // namespace treadle::cli
