// SPDX-License-Identifier: Apache-2.0
// Comparison of outputs with a reference's.
#pragma once

#include <optional>
#include <string>

#include "cli/tensor_file.h"

namespace treadle::cli {

struct Tolerance {
  double rtol = 1e-3;
  std::optional<double> atol;  ///< nothing: 1e-5 of the range of the expected values
  std::optional<double> snr;   ///< instead of the two: the least signal-to-noise ratio, in dB
};

struct Difference {
  bool agrees = false;
  double largest = 0;       ///< absolute difference
  double snr = 0;           ///< 10 log10 (sum of squares / sum of squared differences), in dB; infinite if identical
  std::string explanation;  ///< why it doesn't agree; "" when it does
};

/// Element by element: |actual - expected| <= atol + rtol * |expected|; NaNs and equal infinities agree. Shapes and
/// types must be equal. With a ratio in `tolerance`, that of finite values decides instead.
Difference Compare(const NDArray& actual, const NDArray& expected, const Tolerance& tolerance);

/// The largest absolute difference over the range of what is expected (its largest magnitude where all are equal).
/// Infinite where shapes differ, or one value isn't finite and the other isn't the same.
double ErrorOverRange(const NDArray& actual, const NDArray& expected);

/// Runs a model with ONNX Runtime, by Python (environment variable TREADLE_PYTHON, else python3) in a process of its
/// own. With `all_values`, also writes a model whose outputs are all intermediate values of the first to
/// `exposed_model`, and returns all of these in the model's order.
NamedTensors RunOnnxRuntime(const std::string& model, const NamedTensors& inputs, bool all_values = false,
                            const std::string& exposed_model = "");

/// Runs a script with PythonProgram; returns its exit status (127 when it can't be started). Its standard output goes
/// to `stdout_file` if given. An interrupt (Ctrl-C reaches it, too) ends it without a word, also while it starts.
int RunPython(const std::string& script, const std::vector<std::string>& arguments = {},
              const std::string& stdout_file = "");
/// The Python to use for reference engines.
std::string PythonProgram();
/// The folder with the Python package that this program belongs to; empty where it was installed without one.
std::string PackageFolder();

}  // namespace treadle::cli
