// SPDX-License-Identifier: Apache-2.0
// Instruments that check what passes over graph IR do.
#pragma once

#include <functional>
#include <vector>

#include "treadle/ir/transform.h"
#include "treadle/runtime/ndarray.h"

namespace treadle::relay {

/// Checks the module before and after each pass: every variable is bound once and in scope, every type can be
/// inferred, and calls of global functions find them. A failure is an Error that names the pass.
ObjectPtr<treadle::transform::PassInstrument> MakePassVerifier();
/// What MakePassVerifier checks, of one module; "" when all is well, else what isn't.
std::string FindIllFormed(const IRModule& module);

/// Runs main of a module: tensors in, all tensors of the (nested) result out.
using ModuleRunner =
    std::function<std::vector<runtime::NDArray>(const IRModule& module, const std::vector<runtime::NDArray>& inputs)>;

struct NumericCheckOptions {
  double rtol = 1e-4;
  double atol = 1e-5;  ///< relative to the largest magnitude of the tensor
  uint64_t seed = 0;
};

/// Runs main with random inputs before and after each pass. A pass after which a result differs is named in an Error,
/// with the place and values of the largest difference. Modules whose main has parameters or results that aren't
/// tensors of known shape are let through, and so are passes that change main's parameters.
ObjectPtr<treadle::transform::PassInstrument> MakeNumericCheck(ModuleRunner run, NumericCheckOptions options = {});

/// Values for the parameters of `func`, reproducible from `seed`: floats in [-1, 1], integers in [0, 8), booleans.
/// Nothing when a parameter isn't a tensor of known shape.
std::optional<std::vector<runtime::NDArray>> RandomInputs(const BaseFunc& func, uint64_t seed);
/// "" when equal up to the tolerances (NaN equals NaN), else where and how much two tensors differ.
std::string DescribeDifference(const runtime::NDArray& expected, const runtime::NDArray& actual,
                               const NumericCheckOptions& options = {});

}  // namespace treadle::relay
